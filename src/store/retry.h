/*
 * retry.h - what a row of `retries` means.
 *
 * SQL uses these names, too: scripts/embed-sql puts their values in their place.
 */
#ifndef HF_STORE_RETRY_H
#define HF_STORE_RETRY_H

/* Column `kind` of retries. The values are stored. */
enum retry_kind {
    RETRY_NONE = 0,    /* no row */
    RETRY_WAITING = 1, /* for next_attempt_at */
    RETRY_HELD = 2,    /* behind its lane */
    RETRY_BLOCKED = 3, /* with its lane, until an operator decides */
    RETRY_LEASED = 4,  /* shared: handed out again */
    RETRY_ALONE = 5    /* waiting; its last attempt was lost with its lease, so it is handed out
                          alone (shared) */
};

#endif
