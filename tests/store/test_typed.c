/*
 * test_typed.c - claims, readers and counts of pending events by the index on types: they find what
 * they find without it, and a rare type behind more rows than one call reads.
 */
#include "base/text/glob.h"
#include "store/common/batch.h"
#include "store/namespace.h"
#include "support/make.h"

#include <stdlib.h>

#define EVENTS 26000 /* several times what one call reads */
#define ROUNDS 6
#define PATTERNS_MAX 3
#define FOUND_MAX 4000
#define COUNTED(array) (sizeof(array) / sizeof(array)[0])

static const char *const rare_types[] = {"rare.one", "rare.two",      "rare.one.deep", "other",
                                         "other.x",  "zeta.last.one", "alpha.created", "common.z"};
static const char *const patterns_pool[] = {
    "rare.one", "rare.*", "rare.**", "other",  "other.*",       "*.created", "zeta.last.*",
    "alpha.**", "none",   "none.*",  "*.last", "rare.one.deep", "common.z",  "*.*.one",
};

static uint64_t chance = 1;

static size_t draw(size_t below)
{
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(chance >> 33) % below;
}

/* What a subscription wants, and where that is. */
struct wish {
    struct text patterns[PATTERNS_MAX];
    size_t count;
    char json[256];
    int64_t found[FOUND_MAX];
    size_t found_count;
};

static struct filter filter_of(const struct wish *wish)
{
    return (struct filter){.patterns = wish->patterns, .count = wish->count};
}

static void wish_for(struct wish *wish, const char *const *patterns, size_t count)
{
    size_t length = 0;
    *wish = (struct wish){.count = count};
    for (size_t i = 0; i < count; i++) {
        wish->patterns[i] = text_of(patterns[i]);
        length += (size_t)snprintf(wish->json + length, sizeof wish->json - length, "%s\"%s\"",
                                   i == 0 ? "[" : ",", patterns[i]);
    }
    snprintf(wish->json + length, sizeof wish->json - length, "]");
}

static void note(struct wish *wish, int64_t position)
{
    must_hold(wish->found_count < FOUND_MAX);
    wish->found[wish->found_count++] = position;
}

static void set_index(struct fixture *fixture, struct store *store, hf_toggle on)
{
    struct namespace_put put = {
        .change = {.kind = CHANGE_NAMESPACE_PUT, .now_us = T0},
        .name = text_of(fixture->namespace_name),
        .retention_ms = -1,
        .retention_bytes = -1,
        .type_index = on,
    };
    must_answer(HF_OK, RUN(store, &put));
    for (bool more = true; more;) {
        struct type_steps steps = {.change = {.kind = CHANGE_TYPE_STEPS, .now_us = T0}};
        must_answer(HF_OK, store_type_steps(store, &steps, deadline_after_ms(60000)));
        more = steps.ret_more;
    }
}

/* A log of one type, with `rare` others here and there and one at its end. */
static void fill_log(struct store *store, size_t rare)
{
    static struct new_event events[1000];
    size_t count = COUNTED(events);
    for (size_t done = 0; done < EVENTS; done += count) {
        for (size_t i = 0; i < count; i++) {
            bool is_rare = done + i + 1 == EVENTS || draw(EVENTS / (rare ? rare : 1)) == 0;
            events[i] = event_of(
                is_rare && rare > 0 ? rare_types[draw(COUNTED(rare_types))] : "common.type", NULL);
        }
        struct append append = append_of(events, count);
        must_answer(HF_OK, RUN(store, &append));
    }
}

/* All that match, read as a whole. */
static void read_all(struct store *store, struct wish *wish)
{
    struct reader *reader = NULL;
    struct batch batch;
    int64_t floor = 0;
    bool more = true;
    batch_init(&batch);
    must_answer(HF_OK, store_reader_open(store, 0, false, &reader));
    while (more) {
        batch_clear(&batch);
        must_answer(HF_OK, store_reader_next(reader, &filter_all, 1000, &batch, &floor, &more));
        for (size_t i = 0; i < batch.count; i++) {
            for (size_t p = 0; p < wish->count; p++) {
                if (glob_match(wish->patterns[p], text_of(batch.entries[i].event.type))) {
                    note(wish, batch.entries[i].event.position);
                    break;
                }
            }
        }
    }
    batch_release(&batch);
    store_reader_close(reader);
}

static void must_be_same(const struct wish *got, const struct wish *wanted)
{
    must_equal((int64_t)wanted->found_count, (int64_t)got->found_count);
    for (size_t i = 0; i < wanted->found_count; i++) {
        must_equal(wanted->found[i], got->found[i]);
    }
}

static void note_batch(struct wish *wish, const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        note(wish, batch->entries[i].event.position);
    }
}

/* What a reader by these patterns hands up, in few or many calls. */
static int read_by(struct store *store, struct wish *wish, int32_t max)
{
    struct reader *reader = NULL;
    struct filter filter = filter_of(wish);
    struct batch batch;
    int64_t floor = 0;
    bool more = true;
    int calls = 0;
    batch_init(&batch);
    must_answer(HF_OK, store_reader_open(store, 0, false, &reader));
    while (more) {
        batch_clear(&batch);
        must_answer(HF_OK, store_reader_next(reader, &filter, max, &batch, &floor, &more));
        note_batch(wish, &batch);
        calls++;
    }
    must_equal(last_of(store), floor);
    batch_release(&batch);
    store_reader_close(reader);
    return calls;
}

static int64_t subscribe(struct store *store, const struct wish *wish, int number)
{
    char name[32];
    snprintf(name, sizeof name, "s%d", number);
    struct subscription_put put = put_of(name, HF_MODE_SHARED, 1);
    put.patterns_json = text_of(wish->json);
    must_answer(HF_OK, RUN(store, &put));
    return put.ret_id;
}

/* What claims of a subscription hand out; all is settled. */
static int claim_by(struct fixture *fixture, struct store *store, int64_t id, struct wish *wish,
                    int32_t max)
{
    bool more = true;
    int calls = 0;
    while (more) {
        struct claim claim = claim_of(id, max, T0, fixture_batch(fixture));
        claim.filter = filter_of(wish);
        must_answer(HF_OK, RUN(store, &claim));
        note_batch(wish, claim.batch);
        if (claim.batch->count > 0) {
            must_answer(HF_OK, finish_all(store, &claim, T0));
        }
        more = claim.ret_more;
        calls++;
    }
    return calls;
}

static struct pending count_by(struct store *store, int64_t id, const struct wish *wish)
{
    struct pending_query query = {
        .subscription_id = id, .filter = filter_of(wish), .max = HF_PENDING_MAX};
    struct pending pending;
    must_answer(HF_OK, store_pending(store, &query, &pending));
    return pending;
}

static void random_patterns_find_the_same_with_and_without_the_index(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static struct wish wishes[ROUNDS];
    static struct wish got;
    int number = 0;
    fill_log(store, 60);
    for (int i = 0; i < ROUNDS; i++) {
        const char *patterns[PATTERNS_MAX];
        size_t count = 1 + draw(PATTERNS_MAX);
        for (size_t p = 0; p < count; p++) {
            patterns[p] = patterns_pool[draw(COUNTED(patterns_pool))];
        }
        wish_for(&wishes[i], patterns, count);
        read_all(store, &wishes[i]);
        printf("# %s: %zu\n", wishes[i].json, wishes[i].found_count);
    }
    for (int on = 0; on < 2; on++) {
        set_index(*state, store, on ? HF_ON : HF_OFF);
        for (int i = 0; i < ROUNDS; i++) {
            int32_t max = (int32_t)(1 + draw(30));
            int64_t id = subscribe(store, &wishes[i], number++);
            struct pending pending = count_by(store, id, &wishes[i]);
            must_hold(pending.count <= (int64_t)wishes[i].found_count);
            must_hold(pending.more || pending.count == (int64_t)wishes[i].found_count);
            must_hold(!on || !pending.more);
            got = wishes[i];
            got.found_count = 0;
            read_by(store, &got, max);
            must_be_same(&got, &wishes[i]);
            got.found_count = 0;
            claim_by(*state, store, id, &got, max);
            must_be_same(&got, &wishes[i]);
            must_equal(0, count_by(store, id, &wishes[i]).count);
        }
    }
}

/* Without the index a call reads 10,000 rows at most, so it takes several to get there. */
static void a_rare_type_far_away_is_found_by_one_or_two_calls(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static struct wish wish;
    static const char *const patterns[] = {"rare.*", "lost"};
    fill_log(store, 0);
    int64_t first = append_one(store, "rare.one", NULL);
    int64_t second = append_one(store, "lost", NULL);
    wish_for(&wish, patterns, COUNTED(patterns));
    int64_t id = subscribe(store, &wish, 0);
    must_hold(claim_by(*state, store, subscribe(store, &wish, 1), &wish, 10) > 2);
    set_index(*state, store, HF_ON);
    must_equal(2, count_by(store, id, &wish).count);
    must_equal(false, count_by(store, id, &wish).more);
    wish.found_count = 0;
    must_equal(1, claim_by(*state, store, id, &wish, 10));
    must_equal(2, (int64_t)wish.found_count);
    must_equal(first, wish.found[0]);
    must_equal(second, wish.found[1]);
    must_equal(last_of(store), progress_of(store, id).cursor);
    wish.found_count = 0;
    must_hold(read_by(store, &wish, 1000) <= 6);
    must_equal(2, (int64_t)wish.found_count);
}

static void a_reader_of_some_partitions_finds_its_own_by_the_index(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static struct wish wish;
    static const char *const patterns[] = {"rare"};
    uint64_t bits = UINT64_C(2);
    struct partition_set owned = {.total = 3, .bits = &bits};
    fill_log(store, 0);
    set_index(*state, store, HF_ON);
    int64_t ours[2] = {append_one(store, "rare", key_in(1, 3, 0)), 0};
    append_one(store, "rare", key_in(0, 3, 0));
    append_one(store, "rare", key_in(2, 3, 0));
    ours[1] = append_one(store, "rare", key_in(1, 3, 1));
    wish_for(&wish, patterns, 1);
    struct filter filter = filter_of(&wish);
    filter.owned = &owned;
    struct reader *reader = fixture_reader(*state, store, 0);
    struct batch *batch = fixture_batch(*state);
    int64_t floor;
    for (bool more = true; more;) {
        must_answer(HF_OK, store_reader_next(reader, &filter, 100, batch, &floor, &more));
    }
    must_equal(2, (int64_t)batch->count);
    must_equal(ours[0], batch->entries[0].event.position);
    must_equal(ours[1], batch->entries[1].event.position);
}

static const struct CMUnitTest claims[] = {
    CLAIM(random_patterns_find_the_same_with_and_without_the_index),
    CLAIM(a_rare_type_far_away_is_found_by_one_or_two_calls),
    CLAIM(a_reader_of_some_partitions_finds_its_own_by_the_index),
};

FIXTURE_MAIN("typed", claims, NULL)
