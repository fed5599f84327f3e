/*
 * support_scene.c - one ordered subscription with events, and a process that owns it.
 */
#include "support_scene.h"

struct scene scene_of(struct fixture *f, const char *letters)
{
    struct scene scene = {.store = fixture_open(f, "a")};
    append_lanes(scene.store, letters);
    scene.id = subscribe_ordered(scene.store, "s", 1);
    scene.owner = own(scene.store, scene.id, 0);
    return scene;
}

void bury_all(struct scene *s, int64_t count)
{
    for (int64_t p = 1; p <= count; p++) {
        char error[32];
        snprintf(error, sizeof error, "error %" PRId64, p);
        struct outcome outcome = dead(p, "x");
        outcome.error = text_of(error);
        s->owner.now_us = T0 + p * SECOND;
        must_answer(HF_OK, settle(&s->owner, p, &outcome, 1));
    }
    s->owner.now_us = T0;
}

hf_status resolve(struct store *store, int64_t dead_id)
{
    struct dead_resolve change = {.change = {.kind = CHANGE_DEAD_RESOLVE, .now_us = T0 + 5},
                                  .dead_id = dead_id,
                                  .by = text_of("operator"),
                                  .note = text_of("not worth it")};
    return RUN(store, &change);
}
