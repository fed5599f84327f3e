/*
 * test_reader.c - the reader hands up everything once, and its floor never lies.
 */
#include "base/hash.h"
#include "base/uuid.h"
#include "support/crowd.h"
#include "support/make.h"
#include "support/puppet.h"

#define EVENTS_MAX 4000

/* What one reader has handed up so far, with the promises that hold at every step. */
struct witness {
    struct reader *reader;
    const struct filter *filter;
    int64_t floor;
    size_t count;
    int64_t positions[EVENTS_MAX];
    bool unhandled[EVENTS_MAX];
};

static struct witness witness_of(struct reader *reader, const struct filter *filter, int64_t after)
{
    return (struct witness){.reader = reader, .filter = filter, .floor = after};
}

/* Reads once: the floor does not sink and nothing at or below it comes up any more. */
static bool witness_step(struct witness *witness, int32_t max)
{
    struct batch batch;
    int64_t floor = -7;
    bool more = false;
    batch_init(&batch);
    must_answer(HF_OK,
                store_reader_next(witness->reader, witness->filter, max, &batch, &floor, &more));
    must_hold((int64_t)batch.count <= max);
    must_hold(floor >= witness->floor);
    for (size_t i = 0; i < batch.count; i++) {
        must_hold(witness->count < EVENTS_MAX);
        must_hold(batch.entries[i].event.position > witness->floor);
        witness->positions[witness->count] = batch.entries[i].event.position;
        witness->unhandled[witness->count++] = batch.entries[i].unhandled;
    }
    witness->floor = floor;
    batch_release(&batch);
    return more;
}

/* Reads until there is no more, in a bounded number of steps. */
static void witness_drain(struct witness *witness, int32_t max)
{
    for (int i = 0; i < 2 * EVENTS_MAX; i++) {
        if (!witness_step(witness, max)) {
            return;
        }
    }
    check_fail(__FILE__, __LINE__, "the reader says \"more\" for ever");
}

static const char *witness_list(const struct witness *witness)
{
    static char text[16384];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < witness->count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, i ? " " : "",
                                 witness->positions[i]);
        must_hold(used < sizeof text);
    }
    return text;
}

/* ---- Order, starts, limits ------------------------------------------------------------------- */

static void an_empty_log_gives_nothing_and_the_start_as_floor(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
    must_equal(false, witness_step(&witness, 10));
    must_equal(0, witness.count);
    must_equal(0, witness.floor);
}

static void everything_comes_once_in_the_order_of_positions(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 1234);
    static const int32_t sizes[] = {1, 7, 100, 5000};
    for (size_t s = 0; s < 4; s++) {
        static struct witness witness;
        witness = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
        witness_drain(&witness, sizes[s]);
        must_equal(1234, witness.count);
        for (size_t i = 0; i < witness.count; i++) {
            must_equal(i + 1, witness.positions[i]);
        }
        must_equal(1234, witness.floor);
    }
}

static void a_reader_begins_after_its_start(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 8);
    for (int64_t after = 0; after <= 8; after++) {
        struct witness witness =
            witness_of(fixture_reader(*state, store, after), &filter_all, after);
        witness_drain(&witness, 3);
        must_equal(8 - after, witness.count);
        must_hold(witness.count == 0 || witness.positions[0] == after + 1);
        must_equal(8, witness.floor);
    }
}

static void max_bounds_a_call_and_more_tells_the_rest(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
    must_equal(true, witness_step(&witness, 2));
    must_read("1 2", witness_list(&witness));
    must_equal(2, witness.floor);
    must_equal(true, witness_step(&witness, 2));
    must_read("1 2 3 4", witness_list(&witness));
    must_equal(4, witness.floor);
    witness_drain(&witness, 2);
    must_read("1 2 3 4 5", witness_list(&witness));
    must_equal(5, witness.floor);
}

/* A caller that is told "no more" sleeps until there is news, and what came before its call is none
 * to it. One event comes before each of the first calls. */
static void no_more_is_said_only_if_all_that_came_before_the_call_was_handed_up(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static struct witness witness;
    static const size_t counts[] = {5, 6, 64, 66, 130, 300};
    size_t stored = 0;
    witness = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        append_count(store, "t", counts[c]);
        stored += counts[c];
        size_t late = 20;
        for (bool more = true; more;) {
            if (late > 0) {
                append_count(store, "t", 1);
                stored++;
                late--;
            }
            more = witness_step(&witness, 4);
            must_hold(more || witness.count == stored);
        }
    }
}

static void a_reader_at_the_end_sees_what_comes_later(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
    for (int round = 0; round < 20; round++) {
        append_count(store, "t", 3);
        witness_drain(&witness, 2);
        must_equal(3 * (round + 1), witness.count);
        must_equal(3 * (round + 1), witness.floor);
    }
}

static void a_batch_is_appended_to(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 4);
    struct reader *reader = fixture_reader(*state, store, 0);
    struct batch *batch = fixture_batch(*state);
    int64_t floor;
    bool more;
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 2, batch, &floor, &more));
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 2, batch, &floor, &more));
    must_read("1 2 3 4", list_batch(batch));
}

static void two_readers_do_not_affect_each_other(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 6);
    struct witness one = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
    struct witness two = witness_of(fixture_reader(*state, store, 3), &filter_all, 3);
    witness_step(&one, 2);
    witness_step(&two, 1);
    witness_drain(&one, 100);
    witness_drain(&two, 100);
    must_read("1 2 3 4 5 6", witness_list(&one));
    must_read("4 5 6", witness_list(&two));
}

static void a_reader_can_be_closed_in_the_middle(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 500);
    struct batch *batch = fixture_batch(*state);
    int64_t floor;
    bool more;
    struct reader *reader = NULL;
    must_answer(HF_OK, store_reader_open(store, 0, true, &reader));
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 3, batch, &floor, &more));
    store_reader_close(reader);
    must_equal(501, append_one(store, "t", NULL));
    must_read("1 2 3", list_batch(batch)); /* its texts live on */
}

/* ---- Filters --------------------------------------------------------------------------------- */

static void only_matching_events_come_and_the_floor_passes_the_others(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "user.created", NULL);
    append_one(store, "order.paid", NULL);
    append_one(store, "user.renamed.twice", NULL);
    append_one(store, "user.deleted", NULL);
    append_one(store, "order.item.shipped", NULL);
    append_one(store, "order.paid", NULL);
    struct text patterns[] = {text_of("user.*"), text_of("order.item.**")};
    struct filter filter = {.patterns = patterns, .count = 2};
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter, 0);
    witness_drain(&witness, 10);
    must_read("1 4 5", witness_list(&witness));
    must_equal(6, witness.floor);
}

static void the_floor_stays_below_what_was_not_handed_up(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "no", NULL);
    append_one(store, "yes", NULL);
    append_one(store, "no", NULL);
    append_one(store, "no", NULL);
    append_one(store, "yes", NULL);
    append_one(store, "no", NULL);
    struct text pattern = text_of("yes");
    struct filter filter = {.patterns = &pattern, .count = 1};
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter, 0);
    witness_step(&witness, 1);
    must_read("2", witness_list(&witness));
    must_hold(witness.floor >= 2 && witness.floor <= 4);
    witness_drain(&witness, 1);
    must_read("2 5", witness_list(&witness));
    must_equal(6, witness.floor);
}

static void unhandled_events_come_marked_if_they_are_asked_for(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "a.b", NULL);
    append_one(store, "c.d", NULL);
    append_one(store, "a.c", NULL);
    struct text pattern = text_of("a.*");
    struct filter filter = {.patterns = &pattern, .count = 1, .unhandled_too = true};
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter, 0);
    witness_drain(&witness, 2);
    must_read("1 2 3", witness_list(&witness));
    must_equal(false, witness.unhandled[0]);
    must_equal(true, witness.unhandled[1]);
    must_equal(false, witness.unhandled[2]);
}

static void no_pattern_matches_nothing(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 7);
    struct filter filter = {.patterns = NULL, .count = 0};
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter, 0);
    witness_drain(&witness, 2);
    must_equal(0, witness.count);
    must_equal(7, witness.floor);
}

static void the_needle_in_the_haystack_is_found_in_bounded_steps(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "hay", 6000);
    append_one(store, "needle", NULL);
    append_count(store, "hay", 10);
    struct text pattern = text_of("needle");
    struct filter filter = {.patterns = &pattern, .count = 1};
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter, 0);
    int steps = 0;
    for (int64_t before = -1; witness_step(&witness, 10); before = witness.floor) {
        must_hold(witness.floor > before || witness.count > 0);
        must_hold(++steps < 6100);
    }
    must_read("6001", witness_list(&witness));
    must_equal(6011, witness.floor);
}

static void the_filter_may_change_between_calls(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "a", NULL);
    append_one(store, "b", NULL);
    append_one(store, "a", NULL);
    append_one(store, "b", NULL);
    struct text patterns[] = {text_of("a"), text_of("b")};
    struct filter only_a = {.patterns = patterns, .count = 1};
    struct filter both = {.patterns = patterns, .count = 2};
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &only_a, 0);
    witness_step(&witness, 1);
    must_read("1", witness_list(&witness));
    int64_t passed = witness.floor; /* 1, or 2 if it has looked ahead */
    witness.filter = &both;
    witness_drain(&witness, 10);
    must_read(passed >= 2 ? "1 3 4" : "1 2 3 4", witness_list(&witness));
}

/* A reader that is behind may have read on before the filter changes. */
static void a_filter_that_changes_in_a_long_log_counts_for_all_that_follows(void **state)
{
    struct store *store = fixture_open(*state, "a");
    for (int i = 0; i < 40; i++) {
        append_count(store, "a", 50);
        append_count(store, "b", 40);
    }
    struct text patterns[] = {text_of("a"), text_of("b")};
    struct filter only_a = {.patterns = patterns, .count = 1};
    struct filter both = {.patterns = patterns, .count = 2};
    static struct witness witness;
    static bool seen[EVENTS_MAX];
    memset(seen, 0, sizeof seen);
    witness = witness_of(fixture_reader(*state, store, 0), &only_a, 0);
    while (witness.count < 1000) {
        must_equal(true, witness_step(&witness, 64));
    }
    int64_t passed = witness.floor;
    witness.filter = &both;
    witness_drain(&witness, 64);
    must_equal(3600, witness.floor);
    for (size_t i = 0; i < witness.count; i++) {
        must_equal(false, seen[witness.positions[i]]);
        seen[witness.positions[i]] = true;
    }
    for (int64_t position = passed + 1; position <= 3600; position++) {
        must_equal(true, seen[position]);
    }
}

/* ---- Content --------------------------------------------------------------------------------- */

static void entries_are_complete(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event event = event_of("user.created", "key");
    event.tenant = text_of("tenant");
    event.payload = text_of("{ \"x\" :1}");
    event.metadata = text_of("{\"m\":1}");
    event.producer = text_of("me");
    must_answer(HF_OK, append_event(store, &event));
    const struct entry *entry = entry_at(*state, store, 1);
    char id[UUID_TEXT_BYTES];
    uuid_format(event.id, id);
    must_read(id, entry->event.id);
    must_hold(memcmp(event.id, entry->id, 16) == 0);
    must_read("user.created", entry->event.type);
    must_read("{ \"x\" :1}", entry->event.payload);
    must_equal(9, entry->event.payload_bytes);
    must_read("key", entry->event.key);
    must_read("tenant", entry->event.tenant);
    must_read("{\"m\":1}", entry->event.metadata);
    must_read("me", entry->event.producer);
    must_read(NULL, entry->event.schedule_id);
    must_equal(-1, entry->event.key_version);
    must_equal(T0 - 1, entry->event.emitted_at_us);
    must_enter(store, T0, entry->event.entered_at_us);
    must_equal(event.hash, entry->hash);
    must_equal(hash_lane(event.tenant, event.key, event.id), entry->lane);
    must_equal(0, entry->attempts);
    must_hold(text_is_absent(entry->attempts_json));
    must_equal(false, entry->waited);
    must_equal(false, entry->unhandled);
}

static void a_batch_stops_at_its_bytes_but_holds_one_event(void **state)
{
    struct store *store = fixture_open(*state, "a");
    size_t bytes = STORE_BATCH_BYTES_MAX / 2 + STORE_BATCH_BYTES_MAX;
    char *payload = malloc(bytes);
    must_hold(payload);
    memset(payload, '1', bytes);
    struct new_event events[5];
    for (int i = 0; i < 5; i++) {
        events[i] = event_of("t", NULL);
        events[i].payload = (struct text){payload, bytes / 4};
    }
    events[2].payload.length = bytes; /* larger than a whole batch */
    struct append append = append_of(events, 5);
    must_answer(HF_OK, RUN(store, &append));
    free(payload);

    struct reader *reader = fixture_reader(*state, store, 0);
    int64_t next = 1;
    bool more = true;
    for (int calls = 0; more && calls < 10; calls++) {
        struct batch batch;
        int64_t floor = -7;
        batch_init(&batch);
        must_answer(HF_OK, store_reader_next(reader, &filter_all, 100, &batch, &floor, &more));
        size_t sum = 0;
        for (size_t i = 0; i < batch.count; i++) {
            must_hold(sum < STORE_BATCH_BYTES_MAX);
            must_equal(next++, batch.entries[i].event.position);
            sum += batch.entries[i].event.payload_bytes;
        }
        must_hold(batch.count > 0 || !more);
        must_equal(next - 1, floor);
        batch_release(&batch);
    }
    must_equal(6, next);
}

/* ---- Others write ---------------------------------------------------------------------------- */

static void events_of_other_stores_and_processes_are_seen(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    struct child *puppet = puppet_start(*state, "c");
    struct witness witness = witness_of(fixture_reader(*state, a, 0), &filter_all, 0);
    for (int round = 0; round < 10; round++) {
        append_count(b, "t", 2);
        witness_drain(&witness, 100);
        must_equal(4 * round + 2, witness.count);
        puppet_do(puppet, "append t - 2");
        witness_drain(&witness, 100);
        must_equal(4 * round + 4, witness.count);
    }
    child_finish(puppet);
}

static void another_namespace_is_not_seen(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    append_count(other, "t", 5);
    append_one(store, "mine", NULL);
    append_count(other, "t", 5);
    struct witness witness = witness_of(fixture_reader(*state, store, 0), &filter_all, 0);
    witness_drain(&witness, 100);
    must_read("1", witness_list(&witness));
    must_equal(1, witness.floor);
}

struct traffic {
    struct store *stores[2];
};

static void append_traffic(int index, void *ctx)
{
    struct traffic *traffic = ctx;
    for (int i = 0; i < 150; i++) {
        append_one(traffic->stores[index % 2], index % 3 ? "yes" : "no", NULL);
    }
}

/* A reader runs along with six writers: nothing is lost, nothing comes twice, and in strict order
 * nothing comes before what has a lower position. */
static void nothing_is_lost_or_doubled_while_others_write(void **state)
{
    struct traffic traffic = {{fixture_open(*state, "a"), fixture_open(*state, "b")}};
    struct text pattern = text_of("yes");
    struct filter filter = {.patterns = &pattern, .count = 1};
    static struct witness loose;
    static struct witness strict;
    struct reader *reader = NULL;
    must_answer(HF_OK, store_reader_open(traffic.stores[0], 0, true, &reader));
    strict = witness_of(reader, &filter, 0);
    loose = witness_of(fixture_reader(*state, traffic.stores[1], 0), &filter, 0);
    struct crowd crowd;
    crowd_start(&crowd, 6, append_traffic, &traffic);
    while (loose.floor < 900 || strict.floor < 900) {
        witness_step(&loose, 50);
        witness_step(&strict, 7);
    }
    crowd_join(&crowd);
    must_equal(600, loose.count);
    must_equal(600, strict.count);
    static bool seen[901];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < 600; i++) {
        must_hold(!seen[loose.positions[i]]);
        seen[loose.positions[i]] = true;
        must_hold(i == 0 || strict.positions[i] > strict.positions[i - 1]);
    }
    store_reader_close(reader);
}

static const struct CMUnitTest claims[] = {
    CLAIM(an_empty_log_gives_nothing_and_the_start_as_floor),
    CLAIM(everything_comes_once_in_the_order_of_positions),
    CLAIM(a_reader_begins_after_its_start),
    CLAIM(max_bounds_a_call_and_more_tells_the_rest),
    CLAIM(no_more_is_said_only_if_all_that_came_before_the_call_was_handed_up),
    CLAIM(a_reader_at_the_end_sees_what_comes_later),
    CLAIM(a_batch_is_appended_to),
    CLAIM(two_readers_do_not_affect_each_other),
    CLAIM(a_reader_can_be_closed_in_the_middle),
    CLAIM(only_matching_events_come_and_the_floor_passes_the_others),
    CLAIM(the_floor_stays_below_what_was_not_handed_up),
    CLAIM(unhandled_events_come_marked_if_they_are_asked_for),
    CLAIM(no_pattern_matches_nothing),
    CLAIM(the_needle_in_the_haystack_is_found_in_bounded_steps),
    CLAIM(the_filter_may_change_between_calls),
    CLAIM(a_filter_that_changes_in_a_long_log_counts_for_all_that_follows),
    CLAIM(entries_are_complete),
    CLAIM(a_batch_stops_at_its_bytes_but_holds_one_event),
    CLAIM(events_of_other_stores_and_processes_are_seen),
    CLAIM(another_namespace_is_not_seen),
    CLAIM(nothing_is_lost_or_doubled_while_others_write),
};

FIXTURE_MAIN("reader", claims, NULL)
