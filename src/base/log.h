/*
 * log.h - where the library tells what it does: the application's callback, or nowhere.
 *
 * The library never prints. A struct log carries the callback and the level below which records
 * are not made; it is shared read-only by all threads.
 */
#ifndef HF_BASE_LOG_H
#define HF_BASE_LOG_H

#include <holdfast.h>

struct log {
    hf_log_fn write; /* NULL: the log is not written */
    void *ctx;
    hf_log_level level;
};

/* A record with nothing but a message filled in; complete it and hand it to log_record. */
hf_log_record log_blank(hf_log_level level, const char *message);
void log_record(const struct log *log, hf_log_record *record);

/* A message about a subscription (NULL: about none). */
void log_about(const struct log *log, hf_log_level level, const char *subscription,
               const char *format, ...) HF_PRINTF(4, 5);

#endif
