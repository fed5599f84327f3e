/*
 * Unit tests of base/gap: the cases of the specification, ranges and limits, and a model of a server
 * whose transactions draw, commit, roll back and prepare between the steps of several readers.
 */
#include "unit.h"

#include "base/gap.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND_US INT64_C(1000000)

/* ---- Words ----------------------------------------------------------------------------------- */

/* A look that finds nobody, so that everything seen before it is decided. */
static struct gap_look nobody(uint64_t number)
{
    return (struct gap_look){number, UINT64_MAX};
}

/* Nobody has looked. */
static const struct gap_look no_look = {0, UINT64_MAX};

static void see(struct gap *gap, const int64_t *numbers, size_t count, uint64_t begun,
                int64_t now_us)
{
    struct gap_run runs[64];
    assert_true(count <= COUNT_OF(runs));
    for (size_t i = 0; i < count; i++)
        runs[i] = (struct gap_run){numbers[i], numbers[i]};
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
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 hole->first == hole->last ? "%s%" PRId64 : "%s%" PRId64 "-%" PRId64,
                                 i ? " " : "", hole->first, hole->last);
    }
    return text;
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

static void what_is_proven_is_not_counted_as_a_timeout(void **state)
{
    struct gap gap;
    (void)state;
    gap_init(&gap, 5);
    SEE(&gap, 7);
    reread(&gap, NULL, 0, nobody(1), 9 * SECOND_US, 5 * SECOND_US);
    assert_int_equal(gap.dead, 1);
    assert_int_equal(gap.skipped, 0);
    gap_release(&gap);
}

static void what_was_processed_ahead_counts_when_the_gap_fills(void **state)
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
    FOUND(&gap, nobody(1), 6);
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
    reread(&gap, NULL, 0, nobody(1), 0, 0);
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
    for (size_t i = 0; i < COUNT_OF(found); i++)
        found[i] = (int64_t)i + 1;
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

static void what_was_not_read_again_is_not_decided(void **state)
{
    struct gap gap;
    int64_t through = 0;
    (void)state;
    gap_init(&gap, 0);
    SEE(&gap, 10, 20);
    assert_ok(gap_reread(&gap, (const int64_t[]){3}, 1, 4, nobody(1), 0, 0, &through));
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

static void a_hole_waits_for_everybody_who_held_the_lock_after_it_was_seen(void **state)
{
    struct gap gap;
    struct gap_watch watch;
    (void)state;
    gap_init(&gap, 0);
    gap_watch_init(&watch);
    SEE(&gap, 2);
    LOOK(&watch, 1, {10, false}, {11, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
    LOOK(&watch, 2, {11, false}, {12, false}); /* 12 came later: it cannot have drawn 1 */
    reread(&gap, NULL, 0, watch.look, 0, 0);
    assert_int_equal(gap_floor(&gap), 0);
    LOOK(&watch, 3, {12, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
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
    reread(&gap, NULL, 0, nobody(4), 0, 0);
    reread(&gap, NULL, 0, nobody(5), 0, 0);
    assert_int_equal(gap_floor(&gap), 0);
    reread(&gap, NULL, 0, nobody(6), 0, 0);
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
    LOOK(&watch, 1, {10, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
    LOOK(&watch, 2, {10, false}, {11, false});
    see(&gap, (const int64_t[]){4}, 1, 2, 0);
    LOOK(&watch, 3, {11, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
    assert_string_equal(holes_of(&gap), "3"); /* 10 is gone, so 1 is dead; 11 may have drawn 3 */
    LOOK(&watch, 4, {12, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
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
    LOOK(&watch, 1, {10, false}, {11, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
    LOOK(&watch, 2, {11, false}, {77, true});
    LOOK(&watch, 3, {77, true});
    reread(&gap, NULL, 0, watch.look, 0, 0);
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
    LOOK(&watch, 1, {10, false});
    reread(&gap, NULL, 0, watch.look, 0, 0);
    LOOK(&watch, 2, {10, false}, {77, true}); /* nobody is missing: it began after look 1 */
    reread(&gap, NULL, 0, watch.look, 0, 0);
    assert_int_equal(gap_floor(&gap), 0);
    LOOK(&watch, 3, {77, true});
    reread(&gap, NULL, 0, watch.look, 0, 0);
    assert_int_equal(gap_floor(&gap), 2);
    gap_watch_release(&watch);
    gap_release(&gap);
}

static void a_holder_that_is_named_twice_is_one(void **state)
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
    for (size_t i = 0; i < COUNT_OF(runs); i++)
        runs[i] = (struct gap_run){2 * (int64_t)i + 2, 2 * (int64_t)i + 2};
    assert_ok(gap_tail(&gap, runs, COUNT_OF(runs), 0, 0));
    assert_int_equal(gap.count, GAP_HOLES_MAX);
    assert_int_equal(gap.high, 2 * GAP_HOLES_MAX);
    assert_ok(gap_tail(&gap, &(struct gap_run){2 * GAP_HOLES_MAX + 1, 2 * GAP_HOLES_MAX + 3}, 1, 0,
                       0)); /* needs no hole */
    assert_int_equal(gap.high, 2 * GAP_HOLES_MAX + 3);
    reread(&gap, NULL, 0, nobody(1), 0, 0);
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
        for (int64_t number = 2; number <= WIDTH; number += 2)
            if (gap_is_open(&gap, number))
                found[count++] = number;
        int64_t through = 0;
        /* In the first rounds nothing is proven, so there is no room in the end. */
        struct gap_look proof = rounds < 3 ? no_look : nobody((uint64_t)rounds);
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
    for (int64_t number = 2; number <= WIDTH; number += 2)
        assert_true(taken[number]);
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
    assert_int_equal(gap_reread(&gap, NULL, 0, INT64_MAX, nobody(1), 0, 0, &through), HF_NOMEM);
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

/* ---- The model ------------------------------------------------------------------------------- */

/*
 * A server: transactions draw numbers and end; each step of a reader or of the prober is one moment
 * between their steps. A commit is two moments: what it wrote is visible, then the lock goes. The
 * reader runs a step at a time, as it does against a real server: the answer of a statement is used
 * when other things have happened meanwhile.
 */
#define MODEL_NUMBERS 6000
#define MODEL_TRANSACTIONS 12
#define MODEL_READERS 2
#define MODEL_SEEDS 300
#define MODEL_STEPS 20000

/* Errors that the model must notice, or it is worth nothing. */
enum error {
    ERROR_NONE,
    ERROR_EARLY_NUMBER,   /* the look's number is read before the log */
    ERROR_LATE_LOOK,      /* the look is taken when the holes have been read already */
    ERROR_NO_INHERITANCE, /* a prepared transaction is taken for a new one */
};

enum fate { FATE_UNDRAWN, FATE_OPEN, FATE_VISIBLE, FATE_ROLLED_BACK };
enum phase { PHASE_IDLE, PHASE_OPEN, PHASE_PREPARED, PHASE_RELEASING };

struct transaction {
    enum phase phase;
    uint64_t id;
    bool holds; /* the lock */
    int64_t numbers[64];
    size_t count;
};

struct model_reader {
    struct gap gap;
    bool strict;
    int step;                 /* of sending the statements and using their answers */
    struct gap_look proof;    /* taken before the statements were sent */
    struct gap_run tail[16];
    size_t tail_count;
    int64_t late[MODEL_NUMBERS];
    size_t late_count;
    int64_t floor;
    int64_t handed_through;   /* strict */
    bool handed[MODEL_NUMBERS + 1];
};

struct model {
    uint64_t seed;
    int64_t last; /* of the sequence */
    enum fate fates[MODEL_NUMBERS + 1];
    struct transaction transactions[MODEL_TRANSACTIONS];
    uint64_t next_id;
    uint64_t crowd;   /* transactions at one time */
    bool renames;     /* PREPARE gives a new id */
    uint64_t haste;   /* of the readers, compared with the prober's: 1 to 5 */
    bool prepares;    /* anybody prepares at all: such a transaction lasts long */
    /* the prober */
    uint64_t begun;
    bool looking;
    struct gap_holder seen[MODEL_TRANSACTIONS];
    size_t seen_count;
    struct gap_watch watch;
    enum error error;
    struct model_reader readers[MODEL_READERS];
    uint64_t begun_early[MODEL_READERS];
    int64_t faults; /* promises broken */
    int64_t dead_seen;
    int64_t late_seen;
};

static void model_break(struct model *model, const char *what, int64_t number)
{
    model->faults++;
    if (model->error == ERROR_NONE)
        fail_msg("%s: %" PRId64, what, number);
}

static void transaction_step(struct model *model, struct transaction *transaction)
{
    uint64_t dice = chance_below(&model->seed, 100);
    switch (transaction->phase) {
    case PHASE_IDLE:
        if (dice < 30)
            *transaction = (struct transaction){.phase = PHASE_OPEN, .id = ++model->next_id};
        break;
    case PHASE_OPEN:
        if (dice < 40) { /* draws; some savepoints are rolled back at once, which frees nothing */
            size_t wanted = 1 + (dice < 4 ? chance_below(&model->seed, 40) : 0);
            transaction->holds = true;
            while (wanted-- > 0 && model->last < MODEL_NUMBERS &&
                   transaction->count < COUNT_OF(transaction->numbers)) {
                int64_t number = ++model->last;
                bool undone = chance_below(&model->seed, 5) == 0;
                model->fates[number] = undone ? FATE_ROLLED_BACK : FATE_OPEN;
                if (!undone)
                    transaction->numbers[transaction->count++] = number;
            }
        } else if (dice < 47 && model->prepares) {
            transaction->phase = PHASE_PREPARED;
            if (model->renames)
                transaction->id = ++model->next_id;
        } else if (dice < 70) {
            goto end;
        }
        break;
    case PHASE_PREPARED:
        if (dice < 5)
            goto end;
        break;
    case PHASE_RELEASING:
        transaction->phase = PHASE_IDLE;
        transaction->holds = false;
        break;
    }
    return;
end:
    for (size_t i = 0; i < transaction->count; i++)
        model->fates[transaction->numbers[i]] = dice % 3 ? FATE_VISIBLE : FATE_ROLLED_BACK;
    transaction->phase = PHASE_RELEASING;
}

/* Begins a look, or ends the one that is under way; the holders are read at some moment between. */
static void prober_step(struct model *model)
{
    if (!model->looking) {
        model->begun++;
        model->looking = true;
        model->seen_count = SIZE_MAX;
    } else if (model->seen_count == SIZE_MAX) {
        model->seen_count = 0;
        for (size_t i = 0; i < MODEL_TRANSACTIONS; i++) {
            const struct transaction *transaction = &model->transactions[i];
            if (transaction->holds)
                model->seen[model->seen_count++] = (struct gap_holder){
                    transaction->id, transaction->phase == PHASE_PREPARED &&
                                         model->error != ERROR_NO_INHERITANCE};
        }
    } else {
        assert_ok(gap_watch_look(&model->watch, model->begun, model->seen, model->seen_count));
        model->looking = false;
    }
}

static void read_tail(struct model *model, struct model_reader *reader)
{
    size_t limit = 1 + chance_below(&model->seed, 20);
    reader->tail_count = 0;
    for (int64_t number = reader->gap.high + 1; number <= model->last && limit > 0; number++) {
        if (model->fates[number] != FATE_VISIBLE)
            continue;
        struct gap_run *run = reader->tail + reader->tail_count;
        if (reader->tail_count > 0 && run[-1].last == number - 1) {
            run[-1].last = number;
        } else if (reader->tail_count == COUNT_OF(reader->tail)) {
            return;
        } else {
            *run = (struct gap_run){number, number};
            reader->tail_count++;
        }
        limit--;
    }
}

static void read_holes(struct model *model, struct model_reader *reader)
{
    reader->late_count = 0;
    for (size_t i = 0; i < reader->gap.count; i++)
        for (int64_t n = reader->gap.holes[i].first; n <= reader->gap.holes[i].last; n++)
            if (model->fates[n] == FATE_VISIBLE)
                reader->late[reader->late_count++] = n;
}

static void hand(struct model *model, struct model_reader *reader, int64_t number)
{
    if (reader->handed[number])
        model_break(model, "handed on twice", number);
    if (model->fates[number] != FATE_VISIBLE)
        model_break(model, "handed on, but it was not committed", number);
    if (number <= reader->floor)
        model_break(model, "handed on below the floor", number);
    reader->handed[number] = true;
}

/* Uses the answers, and checks every promise. */
static void use_answers(struct model *model, struct model_reader *reader, uint64_t begun)
{
    struct gap *gap = &reader->gap;
    int64_t dead = gap->dead;
    int64_t through = 0;
    assert_ok(gap_reread(gap, reader->late, reader->late_count, INT64_MAX, reader->proof, 0, 0,
                         &through));
    assert_int_equal(through, INT64_MAX);
    assert_ok(gap_tail(gap, reader->tail, reader->tail_count, begun, 0));
    model->dead_seen += gap->dead - dead;
    model->late_seen += (int64_t)reader->late_count;
    if (!reader->strict) {
        for (size_t i = 0; i < reader->late_count; i++)
            hand(model, reader, reader->late[i]);
        for (size_t i = 0; i < reader->tail_count; i++)
            for (int64_t n = reader->tail[i].first; n <= reader->tail[i].last; n++)
                hand(model, reader, n);
    } else {
        /* Whatever was seen up to there, in order. */
        for (int64_t n = reader->handed_through + 1; n <= gap_ready(gap, true); n++)
            if (model->fates[n] == FATE_VISIBLE)
                hand(model, reader, n);
        reader->handed_through = gap_ready(gap, true);
    }
    if (gap_floor(gap) < reader->floor)
        model_break(model, "the floor sank", gap_floor(gap));
    for (int64_t n = reader->floor + 1; n <= gap_floor(gap); n++) {
        if (model->fates[n] == FATE_OPEN)
            model_break(model, "the floor passed what is under way", n);
        if (model->fates[n] == FATE_VISIBLE && !reader->handed[n])
            model_break(model, "the floor passed what was never handed on", n);
    }
    reader->floor = gap_floor(gap);
}

static void reader_step(struct model *model, size_t index)
{
    struct model_reader *reader = &model->readers[index];
    switch (reader->step) {
    case 0:
        reader->proof = model->watch.look;
        model->begun_early[index] = model->begun;
        break;
    case 1:
        read_tail(model, reader);
        break;
    case 2:
        read_holes(model, reader);
        break;
    default:
        if (model->error == ERROR_LATE_LOOK)
            reader->proof = model->watch.look;
        use_answers(model, reader,
                    model->error == ERROR_EARLY_NUMBER ? model->begun_early[index] : model->begun);
        reader->step = -1;
        break;
    }
    reader->step++;
}

static void model_run(struct model *model, int steps)
{
    while (steps-- > 0) {
        uint64_t dice = chance_below(&model->seed, 12);
        if (dice < 6)
            transaction_step(model,
                             &model->transactions[chance_below(&model->seed, model->crowd)]);
        else if (dice < 6 + model->haste)
            reader_step(model, chance_below(&model->seed, MODEL_READERS));
        else
            prober_step(model);
    }
}

static struct model *model_new(uint64_t seed, enum error error)
{
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    model->seed = seed;
    model->crowd = 2 + chance_below(&seed, MODEL_TRANSACTIONS - 1);
    model->haste = 1 + chance_below(&seed, 5);
    model->renames = chance_below(&seed, 2);
    model->prepares = chance_below(&seed, 2);
    model->error = error;
    gap_watch_init(&model->watch);
    for (size_t i = 0; i < MODEL_READERS; i++) {
        gap_init(&model->readers[i].gap, 0);
        model->readers[i].strict = i % 2;
    }
    return model;
}

static void model_free(struct model *model)
{
    for (size_t i = 0; i < MODEL_READERS; i++)
        gap_release(&model->readers[i].gap);
    gap_watch_release(&model->watch);
    free(model);
}

/* Ends every transaction and reads on: the floors must come to the last visible number. */
static void model_drain(struct model *model)
{
    for (size_t i = 0; i < MODEL_TRANSACTIONS; i++)
        while (model->transactions[i].phase != PHASE_IDLE || model->transactions[i].holds)
            transaction_step(model, &model->transactions[i]);
    int64_t last = 0;
    for (int64_t n = 1; n <= model->last; n++)
        last = model->fates[n] == FATE_VISIBLE ? n : last;
    for (int i = 0; i < 3 * MODEL_NUMBERS; i++) {
        prober_step(model);
        for (size_t r = 0; r < MODEL_READERS; r++)
            reader_step(model, r);
    }
    for (size_t r = 0; r < MODEL_READERS; r++) {
        if (model->readers[r].floor != last)
            model_break(model, "in the end the floor is at", model->readers[r].floor);
        for (int64_t n = 1; n <= last; n++)
            if (model->fates[n] == FATE_VISIBLE && !model->readers[r].handed[n])
                model_break(model, "lost", n);
    }
}

static void whatever_transactions_do_nothing_is_lost_or_doubled(void **state)
{
    int64_t early = 0;
    int64_t dead = 0;
    int64_t late = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= MODEL_SEEDS; seed++) {
        struct model *model = model_new(seed * 7919, ERROR_NONE);
        model_run(model, MODEL_STEPS);
        early += model->dead_seen;
        model_drain(model);
        dead += model->dead_seen;
        late += model->late_seen;
        model_free(model);
    }
    /* The model must have met what it is for. */
    assert_true(early > 10000); /* while others were under way */
    assert_true(dead > early);
    assert_true(late > 10000);
}

static void the_model_notices_each_error(void **state)
{
    (void)state;
    for (enum error error = ERROR_EARLY_NUMBER; error <= ERROR_NO_INHERITANCE; error++) {
        int64_t faults = 0;
        for (uint64_t seed = 1; seed <= MODEL_SEEDS && faults == 0; seed++) {
            struct model *model = model_new(seed * 7919, error);
            model_run(model, MODEL_STEPS);
            model_drain(model);
            faults += model->faults;
            model_free(model);
        }
        if (faults == 0)
            fail_msg("error %d was not noticed", (int)error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_state_has_no_holes_and_its_start_as_floor),
        cmocka_unit_test(without_gaps_the_floor_follows_the_log),
        cmocka_unit_test(a_gap_keeps_the_floor_and_is_remembered),
        cmocka_unit_test(a_gap_times_out_only_if_that_was_asked_for_and_is_counted_apart),
        cmocka_unit_test(what_is_proven_is_not_counted_as_a_timeout),
        cmocka_unit_test(what_was_processed_ahead_counts_when_the_gap_fills),
        cmocka_unit_test(several_gaps_are_remembered_as_ranges_and_end_one_by_one),
        cmocka_unit_test(numbers_found_in_the_middle_split_a_range),
        cmocka_unit_test(ten_thousand_rolled_back_numbers_are_one_range),
        cmocka_unit_test(ten_thousand_late_numbers_fill_their_range_at_once),
        cmocka_unit_test(strict_order_waits_for_a_hole_and_relaxed_passes_it),
        cmocka_unit_test(what_was_not_read_again_is_not_decided),
        cmocka_unit_test(a_hole_waits_for_everybody_who_held_the_lock_after_it_was_seen),
        cmocka_unit_test(a_look_that_had_begun_before_the_hole_was_seen_proves_nothing),
        cmocka_unit_test(holes_of_different_age_wait_for_different_holders),
        cmocka_unit_test(a_transaction_that_is_prepared_under_a_new_name_is_still_waited_for),
        cmocka_unit_test(a_forgotten_prepared_transaction_does_not_keep_older_holes_open),
        cmocka_unit_test(a_holder_that_is_named_twice_is_one),
        cmocka_unit_test(at_the_limit_reading_ahead_stops_and_goes_on_later),
        cmocka_unit_test(a_range_that_splits_too_often_is_taken_in_parts_and_loses_nothing),
#ifdef HF_FAULTS
        cmocka_unit_test(without_memory_nothing_changes),
#endif
        cmocka_unit_test(whatever_transactions_do_nothing_is_lost_or_doubled),
        cmocka_unit_test(the_model_notices_each_error),
    };
    return cmocka_run_group_tests_name("gap", tests, NULL, NULL);
}
