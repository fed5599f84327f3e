/*
 * orphan.h - leases that have ended without an answer, as a claim finds them.
 */
#ifndef HF_STORE_SQLITE_WRITE_ORPHAN_H
#define HF_STORE_SQLITE_WRITE_ORPHAN_H

#include "store/sqlite/write/outcome.h"
#include "store/store.h"

#define ORPHAN_LEASES_MAX 256 /* ended leases with owners, and without, looked at in one claim */

struct sqlite_engine;
struct conn;

/* What a claim learns about leases without a holder. */
struct orphans {
    /* Leases without a holder that may be handed out together with other events. */
    uint8_t free[ORPHAN_LEASES_MAX][STORE_TOKEN_BYTES];
    size_t free_count;
    /* The one that has waited longest of those that are handed out in pieces, each apart. */
    bool suspect;
    uint8_t suspect_token[STORE_TOKEN_BYTES];
    int64_t suspect_since_us;
    int64_t wake_us; /* when the next lease is going to end by itself; INT64_MAX: none */
    bool more;       /* there were too many to look at all of them */
};

/* Finds the ended leases of a shared subscription. Those of one event, and those whose notes tell
 * which of their events were being handled, are dealt with on the way: what was being handled is
 * recorded as a failed attempt and waits in retries, due now. */
hf_status orphans_find(struct sqlite_engine *engine, struct conn *conn,
                       const struct outcome_scope *scope, int64_t lease_ms,
                       struct orphans *ret_orphans);

#endif
