/*
 * support_retention.h - what a test of retention needs: old events, and runs that tell what goes.
 *
 * Events become old by a change of the time at which they entered the log. On PostgreSQL they move
 * to the table of that month, because whole months go.
 */
#ifndef TESTS_BUS_SUPPORT_RETENTION_H
#define TESTS_BUS_SUPPORT_RETENTION_H

#include "support_scene.h"

#define EVENTS 2500 /* more than two steps on SQLite */

/* All that was published to a namespace so far entered the log more than a year ago. */
void grow_old_of(struct scene *scene, int namespace_id);
void grow_old(struct scene *scene); /* the scene's own */
void publish_bulk(hf_bus *bus, const char *type, int count);
/* Of the namespace "default". */
void set_retention(hf_bus *bus, int64_t retention_ms, int64_t retention_bytes, hf_lagging lagging);

struct told {
    hf_retention_info last;
    char kept_by[64];
    int calls;
    int drops;
};

/* Notes in a struct told what is told of a run. */
int note_run(const hf_retention_info *info, void *ctx);
/* A run, which works. */
struct told retain(hf_bus *bus, hf_toggle dry_run);

/* The position of the oldest event. */
int64_t first_position(hf_bus *bus);
/* A hf_subscription_fn: dropped_through and dropped, in an int64_t[2]. */
int note_dropped(const hf_subscription_info *info, void *ctx);

/* A handler that fails at position 1. */
hf_verdict fail_first(const hf_event *event, hf_delivery *delivery, struct recorder *recorder);
/* What fails is not tried again within this test. */
hf_subscription_options patient_options(void);

#endif
