/*
 * holdfast/status.h - what a call answers, and the words for it.
 */
#ifndef HOLDFAST_STATUS_H
#define HOLDFAST_STATUS_H

#include <holdfast/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, retriable, text). Values never change. */
#define HF_STATUS_MAP(X)                                                                           \
    X(HF_OK, 0, 0, "ok")                                                                           \
    X(HF_INVALID, 1, 0, "an argument or the data is outside its limits")                           \
    X(HF_MISUSE, 2, 0, "the call is not allowed in this state")                                    \
    X(HF_NOTFOUND, 3, 0, "no such thing")                                                          \
    X(HF_CONFLICT, 4, 0, "the stored state is not what the caller expected")                       \
    X(HF_STALE, 5, 0, "the lease was lost: another worker has the work now")                       \
    X(HF_CLOSED, 6, 0, "the bus is shut down")                                                     \
    X(HF_TIMEOUT, 7, 1, "the deadline passed and nothing was done")                                \
    X(HF_UNKNOWN, 8, 1, "the outcome is unknown: ask by id, or repeat with the same id")           \
    X(HF_NOSPACE, 9, 1, "the disk is full")                                                        \
    X(HF_NOMEM, 10, 1, "out of memory")                                                            \
    X(HF_BUSY, 11, 1, "another process has it now")                                                \
    X(HF_UNAVAILABLE, 12, 1, "the database cannot be opened or reached")                           \
    X(HF_DENIED, 13, 0, "permission denied")                                                       \
    X(HF_CORRUPT, 14, 0, "the database is damaged")                                                \
    X(HF_SCHEMA, 15, 0, "the schema is newer than this program, or not what it makes")             \
    X(HF_IO, 16, 1, "input or output failed")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, value, retriable, text) name = value,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/* "HF_OK", "HF_INVALID" ...; never NULL. */
HF_API const char *hf_status_name(hf_status status);
/* The sentence of the map; never NULL. */
HF_API const char *hf_status_text(hf_status status);
/* 1 if repeating the call later may succeed, else 0. */
HF_API int hf_status_retriable(hf_status status);
/* The calling thread's last failure in words; "" before the first. Valid until the thread's next
 * failing call. */
HF_API const char *hf_errmsg(void);
/* HF_VERSION of the library that is linked. */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_STATUS_H */
