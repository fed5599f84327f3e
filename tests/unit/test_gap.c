/*
 * Unit tests of base/gap: the cases of the specification, ranges and limits. test_gap_model.c has
 * the rest.
 */
#include "unit.h"

#include "base/gap.h"
#include "base/mem.h"
#include "support/cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND_US INT64_C(1000000)

/* ---- Words ----------------------------------------------------------------------------------- */

/* A look that finds no holder, so that everything seen before it is decided. */
static struct gap_look no_holders(uint64_t number)
{
    return (struct gap_look){number, UINT64_MAX};
}

/* There was no look. */
static const struct gap_look no_look = {0, UINT64_MAX};

static void see(struct gap *gap, const int64_t *numbers, size_t count, uint64_t begun,
                int64_t now_us)
{
    struct gap_run runs[64];
    assert_true(count <= COUNT_OF(runs));
    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct gap_run){numbers[i], numbers[i]};
    }
    assert_ok(gap_tail(gap, runs, count, begun, now_us));
}
#define SEE(gap, ...)                                                                              \
    see((gap), (const int64_t[]){__VA_ARGS__}, COUNT_OF(((const int64_t[]){__VA_ARGS__})), 0, 0)

static void reread(struct gap *gap, const int64_t *found, size_t count, struct gap_look look,
                   int64_t now_us, int64_t timeout_us)
{
    int64_t through = 0;
    assert_ok(gap_reread(gap, found, count, INT64_MAX, look, now_us, timeout_us, &through));
    assert_int_equal(through, INT64_MAX);
}
#define FOUND(gap, look, ...)                                                                      \
    reread((gap), (const int64_t[]){__VA_ARGS__}, COUNT_OF(((const int64_t[]){__VA_ARGS__})),      \
           (look), 0, 0)

/* "6-7 9": the holes. */
static const char *holes_of(const struct gap *gap)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < gap->count && used < sizeof text - 64; i++) {
        const struct gap_hole *hole = &gap->holes[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, i ? " " : "",
                                 hole->first);
        if (hole->last > hole->first) {
            used += (size_t)snprintf(text + used, sizeof text - used, "-%" PRId64, hole->last);
        }
    }
    return text;
}

/* ---- The table that SQL is tested against, too ----------------------------------------------- */

static void gaps_are_decided_as_the_table_says(void **state)
{
    struct play play;
    struct cases cases;
    char name[CASES_LINE_BYTES] = "";
    int checks = 0;

    (void)state;
    play_init(&play);
    for (cases_open(&cases, "gaps.txt"); cases_next(&cases);) {
        int64_t numbers[PLAY_NUMBERS_MAX];
        char *const *words = cases.words + 1;
        size_t count = cases.count - 1;
        if (strcmp(cases.words[0], "case") == 0) {
            snprintf(name, sizeof name, "%s", words[0]);
            play_release(&play);
            play_init(&play);
        } else if (strcmp(cases.words[0], "see") == 0) {
            play_see(&play, numbers, play_numbers(words, count, numbers));
        } else if (strcmp(cases.words[0], "look") == 0) {
            play_look(&play, words, count);
        } else if (strcmp(cases.words[0], "read") == 0) {
            int64_t through = play_through(words, &count);
            play_read(&play, numbers, play_numbers(words, count, numbers), through);
        } else if (strcmp(cases.words[0], "left-claim") != 0) {
            if (strcmp(play_left(&play), play_words(&cases, 1)) != 0) {
                fail_msg("gaps.txt:%d: %s: left are \"%s\"", cases.line, name, play_left(&play));
            }
            checks++;
        }
    }
    assert_true(checks > 30);
    play_release(&play);
}

/* ---- The cases of the specification ---------------------------------------------------------- */

static void a_fresh_state_has_no_holes_and_its_start_as_floor(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    assert_int_equal(gap_floor(&gap), 5);
    assert_int_equal(gap.high, 5);
    assert_int_equal(gap.count, 0);
    assert_int_equal(gap.dead, 0);
    assert_int_equal(gap.skipped, 0);
    assert_false(gap_is_open(&gap, 5));
    assert_false(gap_is_open(&gap, 6));
    gap_release(&gap);
}

static void without_gaps_the_floor_follows_the_log(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 6, 7, 8);
    assert_int_equal(gap_floor(&gap), 8);
    assert_string_equal(holes_of(&gap), "");
    gap_release(&gap);
}

static void a_gap_keeps_the_floor_and_is_remembered(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 7, 8);
    assert_int_equal(gap_floor(&gap), 5);
    assert_string_equal(holes_of(&gap), "6");
    assert_true(gap_is_open(&gap, 6));
    assert_false(gap_is_open(&gap, 7));
    reread(&gap, NULL, 0, no_look, 3600 * SECOND_US, 0);
    assert_int_equal(gap_floor(&gap), 5); /* however long it takes */
    gap_release(&gap);
}

static void a_gap_times_out_only_if_that_was_asked_for_and_is_counted_apart(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    see(&gap, (const int64_t[]){7, 8}, 2, 0, 100 * SECOND_US);
    reread(&gap, NULL, 0, no_look, 105 * SECOND_US - 1, 5 * SECOND_US);
    assert_int_equal(gap_floor(&gap), 5);
    reread(&gap, NULL, 0, no_look, 105 * SECOND_US, 5 * SECOND_US);
    assert_int_equal(gap_floor(&gap), 8);
    assert_int_equal(gap.skipped, 1);
    assert_int_equal(gap.dead, 0);
    gap_release(&gap);
}

static void a_hole_that_is_proven_dead_is_not_counted_as_a_timeout(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 7);
    reread(&gap, NULL, 0, no_holders(1), 9 * SECOND_US, 5 * SECOND_US);
    assert_int_equal(gap.dead, 1);
    assert_int_equal(gap.skipped, 0);
    gap_release(&gap);
}

static void events_processed_above_a_gap_count_when_it_fills(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 6); /* the specification's case: 6 is done already, then come 7 and 8 */
    SEE(&gap, 7, 8);
    assert_int_equal(gap_floor(&gap), 8);
    SEE(&gap, 10, 11); /* 10 and 11 ahead of 9 */
    assert_int_equal(gap_floor(&gap), 8);
    FOUND(&gap, no_look, 9);
    assert_int_equal(gap_floor(&gap), 11);
    gap_release(&gap);
}

static void several_gaps_are_remembered_as_ranges_and_end_one_by_one(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 8, 10);
    assert_int_equal(gap_floor(&gap), 5);
    assert_string_equal(holes_of(&gap), "6-7 9");
    FOUND(&gap, no_look, 9);
    assert_int_equal(gap_floor(&gap), 5);
    assert_string_equal(holes_of(&gap), "6-7");
    FOUND(&gap, no_look, 6);
    assert_int_equal(gap_floor(&gap), 6);
    FOUND(&gap, no_look, 7);
    assert_int_equal(gap_floor(&gap), 10);
    gap_release(&gap);
}

/* ---- Ranges and order ------------------------------------------------------------------------ */

static void numbers_found_in_the_middle_split_a_range(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 0);
    SEE(&gap, 11, 21);
    assert_string_equal(holes_of(&gap), "1-10 12-20");
    FOUND(&gap, no_look, 1, 4, 5, 10, 12, 13, 20);
    assert_string_equal(holes_of(&gap), "2-3 6-9 14-19");
    assert_int_equal(gap_floor(&gap), 1);
    assert_true(gap_is_open(&gap, 2) && gap_is_open(&gap, 9) && gap_is_open(&gap, 14));
    assert_false(gap_is_open(&gap, 1) || gap_is_open(&gap, 4) || gap_is_open(&gap, 20));
    FOUND(&gap, no_holders(1), 6);
    assert_string_equal(holes_of(&gap), "");
    assert_int_equal(gap_floor(&gap), 21);
    assert_int_equal(gap.dead, 2 + 3 + 6);
    gap_release(&gap);
}

static void ten_thousand_rolled_back_numbers_are_one_range(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 7);
    SEE(&gap, 10008);
    assert_int_equal(gap.count, 1);
    assert_int_equal(gap_floor(&gap), 7);
    reread(&gap, NULL, 0, no_holders(1), 0, 0);
    assert_int_equal(gap_floor(&gap), 10008);
    assert_int_equal(gap.dead, 10000);
    gap_release(&gap);
}

static void ten_thousand_late_numbers_fill_their_range_at_once(void **state)
{
    static int64_t found[10000];
    struct gap gap;
    (void)state;
    gap_init(&gap, 0);
    SEE(&gap, 10001);
    for (size_t i = 0; i < COUNT_OF(found); i++) {
        found[i] = (int64_t)i + 1;
    }
    reread(&gap, found, COUNT_OF(found), no_look, 0, 0);
    assert_int_equal(gap_floor(&gap), 10001);
    assert_int_equal(gap.dead, 0);
    gap_release(&gap);
}

static void strict_order_waits_for_a_hole_and_relaxed_passes_it(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 6, 8, 9);
    assert_int_equal(gap_ready(&gap, true), 6);
    assert_int_equal(gap_ready(&gap, false), 9);
    FOUND(&gap, no_look, 7);
    assert_int_equal(gap_ready(&gap, true), 9);
    assert_int_equal(gap_ready(&gap, false), 9);
    gap_release(&gap);
}

static void a_hole_that_was_not_read_again_is_not_decided(void **state)
{
    struct gap gap;
    int64_t through = 0;
    (void)state;
    gap_init(&gap, 0);
    SEE(&gap, 10, 20);
    assert_ok(gap_reread(&gap, (const int64_t[]){3}, 1, 4, no_holders(1), 0, 0, &through));
    assert_string_equal(holes_of(&gap), "5-9 11-19");
    assert_int_equal(gap.dead, 3);
    gap_release(&gap);
}

/* ---- Holders --------------------------------------------------------------------------------- */

static void look(struct gap_watch *watch, uint64_t number, const struct gap_holder *holders,
                 size_t count)
{
    assert_ok(gap_watch_look(watch, number, holders, count));
    assert_int_equal(watch->look.number, number);
}
#define LOOK(watch, number, ...)                                                                   \
    look((watch), (number), (const struct gap_holder[]){__VA_ARGS__},                              \
         COUNT_OF(((const struct gap_holder[]){__VA_ARGS__})))
/* Looks, and reads again with what that look has shown. */
#define LOOK_AND_READ(gap, watch, number, ...)                                                     \
    LOOK(watch, number, __VA_ARGS__);                                                              \
    reread((gap), NULL, 0, (watch)->look, 0, 0)

static void a_hole_waits_for_each_holder_of_the_lock_after_it_was_seen(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    SEE(&gap, 2);
    LOOK_AND_READ(&gap, &watch, 1, {10, false}, {11, false});
    /* 12 came later: it cannot have drawn 1. */
    LOOK_AND_READ(&gap, &watch, 2, {11, false}, {12, false});
    assert_int_equal(gap_floor(&gap), 0);
    LOOK_AND_READ(&gap, &watch, 3, {12, false});
    assert_int_equal(gap_floor(&gap), 2);
    assert_int_equal(gap.dead, 1);
    gap_watch_release(&watch);
    gap_release(&gap);
}

static void a_look_that_had_begun_before_the_hole_was_seen_proves_nothing(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 0);
    see(&gap, (const int64_t[]){2}, 1, 5, 0);
    reread(&gap, NULL, 0, no_holders(4), 0, 0);
    reread(&gap, NULL, 0, no_holders(5), 0, 0);
    assert_int_equal(gap_floor(&gap), 0);
    reread(&gap, NULL, 0, no_holders(6), 0, 0);
    assert_int_equal(gap_floor(&gap), 2);
    gap_release(&gap);
}

static void holes_of_different_age_wait_for_different_holders(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    see(&gap, (const int64_t[]){2}, 1, 0, 0);
    LOOK_AND_READ(&gap, &watch, 1, {10, false});
    LOOK(&watch, 2, {10, false}, {11, false});
    see(&gap, (const int64_t[]){4}, 1, 2, 0);
    LOOK_AND_READ(&gap, &watch, 3, {11, false});
    assert_string_equal(holes_of(&gap), "3"); /* 10 is gone, so 1 is dead; 11 may have drawn 3 */
    LOOK_AND_READ(&gap, &watch, 4, {12, false});
    assert_int_equal(gap_floor(&gap), 4);
    gap_watch_release(&watch);
    gap_release(&gap);
}

static void a_transaction_that_is_prepared_under_a_new_name_is_still_waited_for(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    SEE(&gap, 2);
    LOOK_AND_READ(&gap, &watch, 1, {10, false}, {11, false});
    LOOK(&watch, 2, {11, false}, {77, true});
    LOOK_AND_READ(&gap, &watch, 3, {77, true});
    assert_int_equal(gap_floor(&gap), 0);
    FOUND(&gap, watch.look, 1); /* COMMIT PREPARED */
    assert_int_equal(gap_floor(&gap), 2);
    gap_watch_release(&watch);
    gap_release(&gap);
}

/* The server shows the locks that sessions keep to themselves first, and the others a moment later:
 * a transaction that is prepared between the two is seen under its old and under its new name. */
static void a_transaction_that_is_seen_under_both_names_is_still_waited_for(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    SEE(&gap, 2);
    LOOK_AND_READ(&gap, &watch, 1, {10, false});
    LOOK(&watch, 2, {10, false}, {77, true});
    LOOK(&watch, 3, {77, true});
    LOOK_AND_READ(&gap, &watch, 4, {77, true});
    assert_int_equal(gap_floor(&gap), 0);
    FOUND(&gap, watch.look, 1); /* COMMIT PREPARED */
    assert_int_equal(gap_floor(&gap), 2);
    gap_watch_release(&watch);
    gap_release(&gap);
}

static void a_forgotten_prepared_transaction_does_not_keep_older_holes_open(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    SEE(&gap, 2);
    LOOK_AND_READ(&gap, &watch, 1, {10, false});
    /* 77 began after look 1, unless it is 10 and look 2 showed both of its names. */
    LOOK_AND_READ(&gap, &watch, 2, {10, false}, {77, true});
    assert_int_equal(gap_floor(&gap), 0);
    LOOK(&watch, 3, {10, false}, {77, true}); /* 10 is still there: it is not 77 */
    LOOK_AND_READ(&gap, &watch, 4, {77, true});
    assert_int_equal(gap_floor(&gap), 2);
    gap_watch_release(&watch);
    gap_release(&gap);
}

static void a_holder_of_the_lock_that_is_named_twice_counts_once(void **state)
{
    struct gap_watch watch;
    (void)state;
    gap_watch_init(&watch);
    LOOK(&watch, 1, {10, false});
    LOOK(&watch, 2, {10, false}, {10, true}, {10, false});
    assert_int_equal(watch.look.oldest, 1);
    LOOK(&watch, 3, {11, false}, {12, true}, {12, false}, {12, true});
    assert_int_equal(watch.look.oldest, 1); /* 12 may be what 10 was */
    look(&watch, 4, NULL, 0);
    assert_true(watch.look.oldest == UINT64_MAX);
    gap_watch_release(&watch);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void at_the_limit_reading_ahead_stops_and_goes_on_later(void **state)
{
    static struct gap_run runs[GAP_HOLES_MAX + 10];
    struct gap gap;
    (void)state;
    gap_init(&gap, 0);
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        runs[i] = (struct gap_run){2 * (int64_t)i + 2, 2 * (int64_t)i + 2};
    }
    assert_ok(gap_tail(&gap, runs, COUNT_OF(runs), 0, 0));
    assert_int_equal(gap.count, GAP_HOLES_MAX);
    assert_int_equal(gap.high, 2 * GAP_HOLES_MAX);
    assert_ok(gap_tail(&gap, &(struct gap_run){2 * GAP_HOLES_MAX + 1, 2 * GAP_HOLES_MAX + 3}, 1, 0,
                       0)); /* needs no hole */
    assert_int_equal(gap.high, 2 * GAP_HOLES_MAX + 3);
    reread(&gap, NULL, 0, no_holders(1), 0, 0);
    assert_int_equal(gap_floor(&gap), 2 * GAP_HOLES_MAX + 3);
    gap_release(&gap);
}

/* Every second number of a long range comes late: more pieces than there is room for. */
static void a_range_that_splits_too_often_is_taken_in_parts_and_loses_nothing(void **state)
{
    enum { WIDTH = 6 * GAP_HOLES_MAX };
    static int64_t found[WIDTH / 2];
    static bool taken[WIDTH + 2];
    struct gap gap;
    (void)state;
    memset(taken, 0, sizeof taken);
    gap_init(&gap, 0);
    SEE(&gap, WIDTH + 1);
    int rounds = 0;
    while (gap.count > 0) {
        size_t count = 0;
        for (int64_t number = 2; number <= WIDTH; number += 2) {
            if (gap_is_open(&gap, number)) {
                found[count++] = number;
            }
        }
        int64_t through = 0;
        /* In the first rounds nothing is proven, so there is no room in the end. */
        struct gap_look proof = rounds < 3 ? no_look : no_holders((uint64_t)rounds);
        assert_ok(gap_reread(&gap, found, count, INT64_MAX, proof, 0, 0, &through));
        assert_true(gap.count <= GAP_HOLES_MAX);
        for (size_t i = 0; i < count; i++) {
            if (found[i] > through) {
                assert_true(gap_is_open(&gap, found[i]));
                continue;
            }
            assert_false(taken[found[i]]);
            assert_false(gap_is_open(&gap, found[i]));
            taken[found[i]] = true;
        }
        assert_true(rounds++ < 10);
    }
    for (int64_t number = 2; number <= WIDTH; number += 2) {
        assert_true(taken[number]);
    }
    assert_int_equal(gap.dead, WIDTH / 2);
    assert_int_equal(gap_floor(&gap), WIDTH + 1);
    gap_release(&gap);
}

#ifdef HF_FAULTS
static void without_memory_nothing_changes(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    int64_t through = -7;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    mem_fail_at(1, false);
    assert_int_equal(gap_tail(&gap, &(struct gap_run){2, 2}, 1, 0, 0), HF_NOMEM);
    assert_int_equal(gap.high, 0);
    SEE(&gap, 2);
    mem_fail_at(1, false);
    assert_int_equal(gap_reread(&gap, NULL, 0, INT64_MAX, no_holders(1), 0, 0, &through), HF_NOMEM);
    assert_int_equal(through, -7);
    assert_int_equal(gap_floor(&gap), 0);
    mem_fail_at(1, false);
    assert_int_equal(gap_watch_look(&watch, 1, &(struct gap_holder){1, false}, 1), HF_NOMEM);
    assert_int_equal(watch.look.number, 0);
    LOOK(&watch, 2, {1, false});
    assert_int_equal(watch.look.oldest, 2);
    gap_watch_release(&watch);
    gap_release(&gap);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_decided_as_the_table_says),
        cmocka_unit_test(a_fresh_state_has_no_holes_and_its_start_as_floor),
        cmocka_unit_test(without_gaps_the_floor_follows_the_log),
        cmocka_unit_test(a_gap_keeps_the_floor_and_is_remembered),
        cmocka_unit_test(a_gap_times_out_only_if_that_was_asked_for_and_is_counted_apart),
        cmocka_unit_test(a_hole_that_is_proven_dead_is_not_counted_as_a_timeout),
        cmocka_unit_test(events_processed_above_a_gap_count_when_it_fills),
        cmocka_unit_test(several_gaps_are_remembered_as_ranges_and_end_one_by_one),
        cmocka_unit_test(numbers_found_in_the_middle_split_a_range),
        cmocka_unit_test(ten_thousand_rolled_back_numbers_are_one_range),
        cmocka_unit_test(ten_thousand_late_numbers_fill_their_range_at_once),
        cmocka_unit_test(strict_order_waits_for_a_hole_and_relaxed_passes_it),
        cmocka_unit_test(a_hole_that_was_not_read_again_is_not_decided),
        cmocka_unit_test(a_hole_waits_for_each_holder_of_the_lock_after_it_was_seen),
        cmocka_unit_test(a_look_that_had_begun_before_the_hole_was_seen_proves_nothing),
        cmocka_unit_test(holes_of_different_age_wait_for_different_holders),
        cmocka_unit_test(a_transaction_that_is_prepared_under_a_new_name_is_still_waited_for),
        cmocka_unit_test(a_transaction_that_is_seen_under_both_names_is_still_waited_for),
        cmocka_unit_test(a_forgotten_prepared_transaction_does_not_keep_older_holes_open),
        cmocka_unit_test(a_holder_of_the_lock_that_is_named_twice_counts_once),
        cmocka_unit_test(at_the_limit_reading_ahead_stops_and_goes_on_later),
        cmocka_unit_test(a_range_that_splits_too_often_is_taken_in_parts_and_loses_nothing),
#ifdef HF_FAULTS
        cmocka_unit_test(without_memory_nothing_changes),
#endif
    };
    return cmocka_run_group_tests_name("gap", tests, NULL, NULL);
}
