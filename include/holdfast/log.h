/*
 * holdfast/log.h - what the bus tells while it works.
 */
#ifndef HOLDFAST_LOG_H
#define HOLDFAST_LOG_H

#include <holdfast/common.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hf_log_level {
    HF_LOG_DEFAULT = 0, /* not given: HF_LOG_INFO */
    HF_LOG_DEBUG = 1,
    HF_LOG_INFO = 2,
    HF_LOG_WARN = 3,
    HF_LOG_ERROR = 4
} hf_log_level;

/* One thing worth telling. Fields that do not apply are NULL or -1. Each failed attempt, the last
 * one included, makes one record with all of them. */
typedef struct hf_log_record {
    hf_log_level level;
    int64_t at_us;
    const char *message;
    const char *subscription;
    const char *event_id;
    const char *event_type;
    int64_t position;
    int32_t attempt;
    int32_t attempts_max;
    int64_t delay_ms; /* until the next attempt; -1: there is none */
    const char *error;
} hf_log_record;

/* May run on any thread, also several at once; must not call back into the bus. */
typedef void (*hf_log_fn)(const hf_log_record *record, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_LOG_H */
