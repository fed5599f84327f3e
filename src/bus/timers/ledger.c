/*
 * ledger.c - the ledger of a schedule, for people: hf_schedule_runs.
 *
 * Each firing has written what became of its planned times (store/timers.h). All rows that are
 * asked for are collected before the first callback, so that a failed call runs no callback, and
 * callbacks may do what they like. A schedule that is removed between finding its name and reading
 * has an empty ledger.
 */
#include "base/err.h"
#include "base/mem.h"
#include "bus/timers/schedule.h"

#define RUNS_DEFAULT 100
#define NODES_BYTES_MAX ((size_t)HF_SCHEDULE_RUNS_MAX * 1024)

_Static_assert((int)HF_RUN_FIRED == (int)RUN_FIRED && (int)HF_RUN_BY_HAND == (int)RUN_BY_HAND &&
                   (int)HF_RUN_SKIPPED == (int)RUN_SKIPPED,
               "kinds have the same numbers");

struct ledger {
    struct arena arena; /* names of nodes */
    uint8_t schedule_id[UUID_BYTES];
    size_t count;
    hf_schedule_run_info runs[HF_SCHEDULE_RUNS_MAX];
    char ids[HF_SCHEDULE_RUNS_MAX][UUID_TEXT_BYTES];
};

static int note_schedule(const struct schedule_row *row, void *ctx)
{
    struct ledger *ledger = ctx;
    memcpy(ledger->schedule_id, row->id, sizeof ledger->schedule_id);
    return 0;
}

static int note_run(const struct schedule_run *row, void *ctx)
{
    struct ledger *ledger = ctx;
    if (ledger->count == HF_SCHEDULE_RUNS_MAX) {
        return 1;
    }
    char *id = ledger->ids[ledger->count];
    hf_schedule_run_info *run = &ledger->runs[ledger->count++];
    *run = (hf_schedule_run_info){
        .size = sizeof *run,
        .kind = (hf_run_kind)row->kind,
        .planned_at_us = row->planned_us,
        .until_at_us = row->until_us,
        .fired_at_us = row->fired_us,
        .position = row->position,
        .node = arena_text(&ledger->arena, row->node).bytes,
    };
    if (row->kind == RUN_FIRED) {
        uint8_t event_id[UUID_BYTES];
        schedule_event_id(ledger->schedule_id, row->planned_us, event_id);
        uuid_format(event_id, id);
        run->event_id = id;
    }
    return 0;
}

static hf_status read_ledger(hf_bus *bus, struct text name, int64_t before_us, int32_t limit,
                             struct ledger *ledger)
{
    hf_status status = store_schedule_get(bus->store, name, note_schedule, ledger);
    if (!status) {
        status = store_schedule_runs(bus->store, ledger->schedule_id, before_us, limit, note_run,
                                     ledger);
    }
    return status ? status : arena_status(&ledger->arena);
}

/* HF_INVALID names the argument, its value and its limits. */
static hf_status check_runs_asked(int64_t before_us, int32_t limit, hf_schedule_run_fn found)
{
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    if (limit != -1 && (limit < 1 || limit > HF_SCHEDULE_RUNS_MAX)) {
        return fail(HF_INVALID, "limit is %d; it takes 1 to %d", (int)limit, HF_SCHEDULE_RUNS_MAX);
    }
    if (before_us < -1) {
        return fail(HF_INVALID, "before_us is %lld; it takes a time, or -1", (long long)before_us);
    }
    return HF_OK;
}

hf_status hf_schedule_runs(hf_bus *bus, const char *name, int64_t before_us, int32_t limit,
                           hf_schedule_run_fn found, void *ctx)
{
    hf_status status = schedule_check_name(bus, name);
    if (!status) {
        status = check_runs_asked(before_us, limit, found);
    }
    struct ledger *ledger = status ? NULL : mem_calloc(1, sizeof *ledger);
    if (!status && !ledger) {
        status = fail(HF_NOMEM, "out of memory for the ledger of a schedule");
    }
    if (status) {
        return status;
    }
    arena_init(&ledger->arena, NODES_BYTES_MAX);
    status = read_ledger(bus, text_of(name), before_us, limit == -1 ? RUNS_DEFAULT : limit, ledger);
    for (size_t i = 0; i < ledger->count && !status; i++) {
        if (found(&ledger->runs[i], ctx) != 0) {
            break;
        }
    }
    arena_release(&ledger->arena);
    mem_free(ledger);
    return status;
}
