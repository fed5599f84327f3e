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
/* What the dead letters of a group have in common. */
typedef enum hf_dead_by {
    HF_DEAD_BY_ERROR,
    HF_DEAD_BY_TYPE,
    HF_DEAD_BY_SUBSCRIPTION,
    HF_DEAD_BY_REASON
} hf_dead_by;

typedef struct hf_dead_group {
    const char *text;       /* the error, type, subscription or reason, as it stands; "": none */
    int64_t count;          /* letters in it */
    int64_t newest_dead_id; /* one of them: the newest */
    int64_t newest_us;      /* when that one failed */
    int64_t oldest_us;      /* when the one with the lowest number failed */
} hf_dead_group;

typedef int (*hf_dead_group_fn)(const hf_dead_group *group, void *ctx);

/* All that match, also what is behind the limit. */
typedef struct hf_dead_totals {
    size_t size; /* in: sizeof(hf_dead_totals) */
    int64_t groups;
    int64_t letters;
    int32_t more; /* 1: at least so many, in all of these numbers and in those of the groups */
} hf_dead_totals;

/*
 * Groups of the dead letters that match, the largest first, as of one moment. The filter's limit
 * and offset are of groups: 100 at most by default. All numbers are exact, unless `more` is 1.
 *
 * Open letters are counted when they come and go, by subscription, type, reason and error together,
 * so this takes milliseconds however many letters there are. Of more than 10,000 different
 * combinations (errors that name an order, for instance) the 10,000 with most letters are looked
 * at, and `more` is 1. With failed_before_us, failed_after_us, before_dead_id or resolved all
 * letters that match are read instead.
 *
 * ret_totals may be NULL. Non-zero of `found` ends the list.
 */
HF_API hf_status hf_dead_groups(hf_bus *bus, hf_dead_by by, const hf_dead_filter *filter,
                                hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals);

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
