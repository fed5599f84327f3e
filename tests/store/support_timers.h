/*
 * support_timers.h - short forms for schedules of a store: putting, seeing and firing them.
 */
#ifndef HF_TESTS_STORE_SUPPORT_TIMERS_H
#define HF_TESTS_STORE_SUPPORT_TIMERS_H

#include "store/timers.h"
#include "support/make.h"

struct schedule_put schedule_of(const char *name, int64_t next_us);
void add_schedule(struct store *store, const char *name, int64_t next_us);
hf_status pause_schedule(struct store *store, const char *name, bool paused, int64_t next_us);
hf_status remove_schedule(struct store *store, const char *name);

/* A copy of what matters of a row. */
struct seen {
    int count;
    uint8_t id[16];
    char name[64];
    char expression[64];
    char payload[64];
    bool has_tenant;
    int64_t generation;
    int64_t next_us;
    int64_t paused_at_us;
};

/* Notes a row in a struct seen. */
int note_schedule(const struct schedule_row *row, void *ctx);
/* The schedule of this name, which is there. */
struct seen schedule(struct store *store, const char *name);

/* A firing of one planned time. */
struct shot {
    struct fire fire;
    struct new_event event;
    int64_t planned_us;
    char schedule_id[37];
};

/* Makes one of a schedule as it was seen. */
void aim(struct shot *shot, const struct seen *seen, int64_t next_us, bool by_hand);
/* Fires one planned time of a schedule as it was seen. */
hf_status fire_seen(struct store *store, const struct seen *seen, int64_t next_us, bool by_hand);

/* The whole log. */
void read_log(struct fixture *fixture, struct store *store, struct batch *batch);
int64_t log_count(struct fixture *fixture, struct store *store);

#endif
