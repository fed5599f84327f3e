/*
 * script.h - one run through all changes of a store, in steps, and a picture of what it shows.
 *
 * Every step is one verb that changes the store, the same in every run. After a step that failed,
 * or a process that died, the picture must be that before the step or that after it: changes are
 * atomic. Fault tests run the script with something broken and compare pictures.
 */
#ifndef HF_TESTS_SUPPORT_SCRIPT_H
#define HF_TESTS_SUPPORT_SCRIPT_H

#include "support/make.h"

#define SCRIPT_PICTURE_BYTES 8192

/* What the steps hand on to each other. */
struct script {
    struct fixture *fixture;
    struct store *store;
    int64_t ordered_id;
    int64_t shared_id;
    struct owner owner;
    struct claim claim;
    struct batch batch; /* of the claim; one that is used again and again */
};

void script_init(struct script *script, struct fixture *fixture, struct store *store);
void script_release(struct script *script);

size_t script_count(void);
const char *script_name(size_t step);
/* Runs a step. If it fails it may be run again. */
hf_status script_step(struct script *script, size_t step);

/* Writes what the store shows: events, subscriptions, progress, waiting, dead. Nothing in it
 * depends on who looks, or when. */
void script_picture(struct store *store, char out[SCRIPT_PICTURE_BYTES]);

#endif
