/*
 * load.c - what the store knows of a partition beyond its checkpoint, when it is taken.
 *
 * Two lists: the lanes that fail, whose later events must not run, and the positions above the
 * checkpoint that are done or have rows of their own, and must not be read again. Both must be
 * whole before anything of the partition is read: what is missing would run before its turn, or
 * once more. So a list that memory does not suffice for is an error, and the partition is given
 * back. If there are more lanes than can be known nothing is read (lanes_full) before enough of
 * them are free; if there are more positions, nothing beyond those that are known (ahead_end)
 * before all up to there is done. Then all is loaded again.
 */
#include "bus/deliver/ordered/ordered.h"

#include "base/err.h"

/* A list of the store that is being kept. */
struct loading {
    struct set64 *kept;
    int64_t value;
    int64_t first;    /* positions: the first one; 0: none */
    int64_t last;     /* positions: the last one that was tried */
    hf_status status; /* why it ended early; HF_INVALID: there are more than can be known */
};

static int load_position(int64_t position, void *ctx)
{
    struct loading *loading = ctx;
    loading->first = loading->first ? loading->first : position;
    loading->last = position;
    loading->status = set64_put(loading->kept, (uint64_t)position, loading->value);
    return loading->status != HF_OK;
}

static int load_lane(uint64_t lane, int64_t rows, void *ctx)
{
    (void)rows;
    struct loading *loading = ctx;
    loading->status = set64_put(loading->kept, lane, loading->value);
    return loading->status != HF_OK;
}

/* Tells the window which lanes of the partition fail; `full`: and that there are more. */
static hf_status put_lanes(struct runner *runner, const struct part *part,
                           const struct set64 *lanes, bool full)
{
    size_t cursor = 0;
    uint64_t lane;
    int64_t one;
    hf_status status = HF_OK;
    pthread_mutex_lock(&runner->mutex);
    runner->window.lanes_full |= full;
    while (!status && set64_next(lanes, &cursor, &lane, &one)) {
        uint64_t known = ordered_is_strict(runner) ? STRICT_LANE : lane;
        if (!window_fail_lane(&runner->window, known, part->number)) {
            status = fail(HF_NOMEM, "out of memory for failing keys");
        }
    }
    pthread_mutex_unlock(&runner->mutex);
    return status;
}

/* They come in their order: if not all can be known, those up to `ahead_end` are. */
static hf_status load_ahead(struct runner *runner, const struct part *part)
{
    struct ordered *ordered = runner->ordered;
    struct loading ahead = {.kept = &ordered->ahead, .value = part->number};
    hf_status status = store_ahead(runner->bus->store, runner->definition.id, part->number,
                                   part->checkpoint, load_position, &ahead);
    if (status || !ahead.status) {
        return status;
    }
    if (ahead.status != HF_INVALID || ahead.last == ahead.first) {
        return fail(HF_NOMEM, "out of memory for what is settled ahead of checkpoints");
    }
    if (ahead.last <= ordered->ahead_end) {
        ordered->ahead_end = ahead.last - 1;
    }
    log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
              "more than %zu positions are settled ahead of checkpoints: nothing is read beyond "
              "position %lld before all up to there is done",
              ordered->ahead.count_max, (long long)ordered->ahead_end);
    return HF_OK;
}

hf_status ordered_load(struct runner *runner, const struct part *part)
{
    runner->cancels.unread = true; /* some may be about the partition */
    struct store *store = runner->bus->store;
    int64_t id = runner->definition.id;
    struct set64 lanes;
    set64_init(&lanes, WINDOW_LANES_MAX);
    struct loading failing = {.kept = &lanes, .value = 1};
    hf_status status = store_lanes(store, id, part->number, load_lane, &failing);
    bool full = failing.status == HF_INVALID;
    if (!status && failing.status && !full) {
        status = fail(HF_NOMEM, "out of memory for failing keys");
    }
    if (!status) {
        status = put_lanes(runner, part, &lanes, full);
    }
    if (!status) {
        status = load_ahead(runner, part);
    }
    set64_release(&lanes);
    return status;
}
