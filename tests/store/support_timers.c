/*
 * support_timers.c - see support_timers.h.
 */
#include "support_timers.h"

#include <stdio.h>
#include <string.h>

#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/common/checksum.h"

struct schedule_put schedule_of(const char *name, int64_t next_us)
{
    struct schedule_put put = {
        .change = {.kind = CHANGE_SCHEDULE_PUT, .now_us = T0},
        .name = text_of(name),
        .definition = {.expression = text_of("* * * * * *"),
                       .zone = text_of("Europe/Berlin"),
                       .type = text_of("tick"),
                       .payload = text_of("{\"n\": 1.50}"),
                       .key = text_of("k"),
                       .policy = 2,
                       .cap = 7,
                       .grace_us = 60 * SECOND},
        .next_us = next_us,
    };
    uuid_v7(clock_wall_us(), put.id);
    return put;
}

void add_schedule(struct store *store, const char *name, int64_t next_us)
{
    struct schedule_put put = schedule_of(name, next_us);
    must_answer(HF_OK, RUN(store, &put));
}

int note_schedule(const struct schedule_row *row, void *ctx)
{
    struct seen *seen = ctx;
    seen->count++;
    memcpy(seen->id, row->id, sizeof seen->id);
    snprintf(seen->name, sizeof seen->name, "%" TEXT_PRI, TEXT_ARG(row->name));
    snprintf(seen->expression, sizeof seen->expression, "%" TEXT_PRI,
             TEXT_ARG(row->definition.expression));
    snprintf(seen->payload, sizeof seen->payload, "%" TEXT_PRI, TEXT_ARG(row->definition.payload));
    seen->has_tenant = !text_is_absent(row->definition.tenant);
    seen->generation = row->generation;
    seen->next_us = row->next_us;
    seen->paused_at_us = row->paused_at_us;
    return 0;
}

struct seen schedule(struct store *store, const char *name)
{
    struct seen seen = {0};
    must_answer(HF_OK, store_schedule_get(store, text_of(name), note_schedule, &seen));
    must_equal(1, seen.count);
    return seen;
}

hf_status pause_schedule(struct store *store, const char *name, bool paused, int64_t next_us)
{
    struct schedule_pause pause = {.change = {.kind = CHANGE_SCHEDULE_PAUSE, .now_us = T0 + 5},
                                   .name = text_of(name),
                                   .paused = paused,
                                   .by = text_of("me"),
                                   .next_us = next_us};
    return RUN(store, &pause);
}

hf_status remove_schedule(struct store *store, const char *name)
{
    struct schedule_remove remove = {.change = {.kind = CHANGE_SCHEDULE_REMOVE, .now_us = T0},
                                     .name = text_of(name)};
    return RUN(store, &remove);
}

/* Makes one of a schedule as it was seen. */
void aim(struct shot *shot, const struct seen *seen, int64_t next_us, bool by_hand)
{
    shot->event = event_of("tick", "k");
    uuid_format(seen->id, shot->schedule_id);
    shot->event.schedule_id = text_of(shot->schedule_id);
    checksum_seal(&shot->event);
    shot->planned_us = by_hand ? T0 + 77 : seen->next_us;
    shot->fire = (struct fire){
        .change = {.kind = CHANGE_FIRE, .now_us = shot->planned_us + 10},
        .generation = seen->generation,
        .waited_us = seen->next_us,
        .next_us = next_us,
        .events = &shot->event,
        .planned_us = &shot->planned_us,
        .count = 1,
        .skipped_first_us = STORE_NEVER,
        .skipped_last_us = STORE_NEVER,
        .by_hand = by_hand,
        .node = text_of("n"),
    };
    memcpy(shot->fire.schedule_id, seen->id, sizeof shot->fire.schedule_id);
}

/* Fires one planned time of a schedule as it was seen. */
hf_status fire_seen(struct store *store, const struct seen *seen, int64_t next_us, bool by_hand)
{
    struct shot shot;
    aim(&shot, seen, next_us, by_hand);
    return RUN(store, &shot.fire);
}

/* The whole log. */
void read_log(struct fixture *fixture, struct store *store, struct batch *batch)
{
    struct reader *reader = fixture_reader(fixture, store, 0);
    int64_t floor;
    bool more = true;
    while (more) {
        must_answer(HF_OK, store_reader_next(reader, &filter_all, 1000, batch, &floor, &more));
    }
}

int64_t log_count(struct fixture *fixture, struct store *store)
{
    struct batch *batch = fixture_batch(fixture);
    read_log(fixture, store, batch);
    return (int64_t)batch->count;
}
