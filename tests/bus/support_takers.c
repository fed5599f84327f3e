/*
 * support_takers.c - see support_takers.h.
 */
#include "bus/support_takers.h"

#include "store/common/batch.h"

#define HANDED_MAX 100000

struct taker taker_of(struct tail *tail, const char *pattern, bool strict)
{
    struct taker taker = {.pattern = text_of(pattern), .strict = strict};
    set64_init(&taker.handed, HANDED_MAX);
    must_answer(HF_OK, follower_open(tail, 0, strict, 0, &taker.follower));
    return taker;
}

void taker_end(struct taker *taker)
{
    follower_close(taker->follower);
    set64_release(&taker->handed);
}

hf_status taker_step(struct taker *taker, int32_t max, bool alone, bool *ret_more)
{
    struct filter filter = {
        .patterns = &taker->pattern, .count = 1, .through = alone ? INT64_MAX - 1 : 0};
    struct batch batch;
    int64_t floor = -7;
    *ret_more = false;
    batch_init(&batch);
    hf_status status = follower_next(taker->follower, &filter, max, &batch, &floor, ret_more);
    if (!status) {
        must_hold(batch.count <= (size_t)max);
        must_hold(floor >= taker->floor);
        for (size_t i = 0; i < batch.count; i++) {
            int64_t position = batch.entries[i].event.position;
            must_hold(position > taker->floor);
            must_hold(!taker->strict || position > taker->last);
            must_hold(!set64_get(&taker->handed, (uint64_t)position, NULL));
            must_answer(HF_OK, set64_put(&taker->handed, (uint64_t)position, 1));
            taker->last = position > taker->last ? position : taker->last;
        }
        taker->floor = floor;
    }
    bool at_tail = follower_is_at_tail(taker->follower);
    taker->at_tail += at_tail;
    taker->alone += !at_tail;
    batch_release(&batch);
    return status;
}

void taker_drain(struct taker *taker, int32_t max)
{
    bool more = true;
    for (int i = 0; more && i < HANDED_MAX; i++) {
        must_answer(HF_OK, taker_step(taker, max, false, &more));
    }
    must_hold(!more);
}

bool taker_is_complete(const struct taker *taker, struct store *store)
{
    struct filter filter = {.patterns = &taker->pattern, .count = 1};
    struct reader *reader = NULL;
    size_t found = 0;
    int64_t floor = 0;
    struct batch batch;
    batch_init(&batch);
    must_answer(HF_OK, store_reader_open(store, 0, false, &reader));
    bool all = true;
    for (bool more = true; more;) {
        batch_clear(&batch);
        must_answer(HF_OK, store_reader_next(reader, &filter, 1000, &batch, &floor, &more));
        for (size_t i = 0; i < batch.count; i++) {
            uint64_t position = (uint64_t)batch.entries[i].event.position;
            all = all && set64_get(&taker->handed, position, NULL);
        }
        found += batch.count;
    }
    store_reader_close(reader);
    batch_release(&batch);
    return all && found == set64_count(&taker->handed);
}
