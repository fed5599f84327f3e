/*
 * holdfast/deadletter.h - dead letters: what failed for good, with the whole story.
 */
#ifndef HOLDFAST_DEADLETTER_H
#define HOLDFAST_DEADLETTER_H

#include <holdfast/event.h>
#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_dead_letter {
    int64_t dead_id; /* its number; never used again */
    const char *subscription;
    hf_event event;     /* a complete copy: the log may have forgotten it */
    const char *reason; /* "attempts", "rejected", "decode", "no_handler", "lease",
                                * "corrupt" */
    const char *error;  /* the last attempt's; NULL if none */
    int32_t attempts;
    const char *attempts_json; /* [{"attempt","at","error","node"}, ...] */
    int64_t failed_at_us;
    int64_t resolved_at_us; /* -1: open */
    const char *resolved_by;
    const char *resolved_note;
    /* Why the last attempt failed; NULL if none did. "handler": the handler (hf_nack, hf_bury) said
     * so; "undecodable": it could not understand the payload; "timeout": it did not return in time;
     * "transaction": what it wrote could not be committed; "process_died": its process died during
     * the attempt; "lease_expired": its lease expired without an answer. */
    const char *cause;
} hf_dead_letter;

/* Which dead letters. NULL and -1: no condition. */
typedef struct hf_dead_filter {
    size_t size;
    const char *subscription;
    const char *type;  /* a pattern */
    const char *error; /* a part of the error's text */
    const char *reason;
    int64_t failed_before_us; /* failed_at <= this */
    int64_t failed_after_us;  /* failed_at >= this */
    int64_t before_dead_id;   /* keyset paging: after the entry with this number, newest first */
    hf_toggle resolved;       /* off (default): only open ones; on: resolved ones too */
    int32_t limit;            /* 100 for listing, no limit otherwise; 0: nothing */
    int32_t offset;           /* 0; for small lists */
} hf_dead_filter;

#define HF_DEAD_FILTER_INIT                                                                        \
    {                                                                                              \
        sizeof(hf_dead_filter), NULL, NULL, NULL, NULL, -1, -1, -1, HF_TOGGLE_DEFAULT, -1, -1      \
    }

typedef int (*hf_dead_letter_fn)(const hf_dead_letter *letter, void *ctx);

/* Newest first. None of these needs a started bus. */
HF_API hf_status hf_dead_list(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found,
                              void *ctx);
HF_API hf_status hf_dead_get(hf_bus *bus, int64_t dead_id, hf_dead_letter_fn found, void *ctx);
/* How many match (counts rows: for confirmation and dry runs). */
HF_API hf_status hf_dead_count(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count);
/* Delivers it again to its subscription with a clean record; the dead letter goes in the same
 * transaction. HF_NOTFOUND: no such dead letter, or its subscription is gone. HF_CONFLICT: it is
 * resolved, so it stays with its note and is not delivered again. `payload` NULL: as it was; else
 * it is delivered with this payload instead (the log is not changed). */
HF_API hf_status hf_dead_retry(hf_bus *bus, int64_t dead_id, const char *payload,
                               size_t payload_bytes);
/* All open ones that match, oldest first, in steps; ret_count so many, also on failure. */
HF_API hf_status hf_dead_retry_all(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count);
/* Marks it as dealt with; it stays until purged. HF_NOTFOUND. HF_CONFLICT: already resolved. */
HF_API hf_status hf_dead_resolve(hf_bus *bus, int64_t dead_id, const char *by, const char *note);
/* Deletes all that match, in steps. */
HF_API hf_status hf_dead_purge(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_DEADLETTER_H */
