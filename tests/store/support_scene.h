/*
 * support_scene.h - one ordered subscription with events, and a process that owns it.
 */
#ifndef HF_TESTS_STORE_SUPPORT_SCENE_H
#define HF_TESTS_STORE_SUPPORT_SCENE_H

#include "support/make.h"

struct scene {
    struct store *store;
    int64_t id;         /* of the subscription */
    struct owner owner; /* of its only partition */
};

/* A store with one event per letter (its key) and an owner of an ordered subscription to them. */
struct scene scene_of(struct fixture *f, const char *letters);
/* Its first `count` events die, each at its own second, with its own error. */
void bury_all(struct scene *s, int64_t count);
/* "operator" resolves a dead letter: "not worth it". */
hf_status resolve(struct store *store, int64_t dead_id);

#endif
