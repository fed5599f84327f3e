/*
 * running.h - which handlers of this process run, so that others can see it.
 *
 * Workers note what they run in memory of the process. The keeper tells the server of handlers that
 * have run for RUNNING_SHOWN_US, and when one of those has ended: at most once a second, and never
 * about handlers that take less. So deliveries cost no statement, and what lasts is seen within two
 * seconds. It is for people: nothing is decided by it.
 */
#ifndef HF_STORE_POSTGRES_KEEPER_RUNNING_H
#define HF_STORE_POSTGRES_KEEPER_RUNNING_H

#include <holdfast.h>
#include <stdatomic.h>

#include "store/store.h"

#define RUNNING_SHOWN_US INT64_C(500000)

struct postgres_engine;

struct running_row {
    atomic_int_least64_t position; /* 0: none */
    atomic_int_least64_t subscription_id;
    atomic_int_least64_t since_us; /* wall clock */
    atomic_int_least64_t began_us; /* monotonic */
};

struct running {
    struct running_row rows[STORE_NOTES_MAX];
    atomic_bool watched; /* the keeper looks at the rows every second */

    /* The keeper's thread's own. */
    int64_t looked_at_us;
    uint64_t told; /* a number that differs if what runs does; 0: nothing, or not known */
};

/* Notes a handler. True: the keeper must be woken, because it does not look. */
bool running_note(struct running *running, int32_t slot, const struct handler_note *note);
void running_note_clear(struct running *running, int32_t slot);

/* By the keeper, on its connection: tells the server, if it is time and there is something new.
 * Lowers *wait_us to when it wants to look again. */
hf_status running_tell(struct postgres_engine *engine, int64_t now_us, int64_t *wait_us);
/* The connection is another one: what was told may be gone. */
void running_forget(struct running *running);

#endif
