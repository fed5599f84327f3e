/*
 * Model check of base/gap: a server whose transactions draw, commit, roll back and prepare between
 * the steps of several readers and the prober. Nothing is lost, nothing is handed on twice, nothing
 * is declared dead that commits later; the floor never sinks and never passes what is undecided.
 */
#include "unit.h"

#include "base/gap.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * A server: transactions draw numbers and end; each step of a reader or of the prober is one moment
 * between their steps. A commit is two moments: what it wrote is visible (and the transaction has
 * lost its name), then the lock goes. A look at the locks is two moments: those that sessions keep
 * to themselves, then the table of the others, to which a lock may be moved at any time. The reader
 * runs a step at a time, as it does against a real server: the answer of a statement is used
 * when other things have happened meanwhile.
 */
#define MODEL_NUMBERS 6000
#define MODEL_TRANSACTIONS 12
#define MODEL_READERS 2
#define MODEL_SEEDS 300
#define MODEL_STEPS 20000
#define NAMELESS (UINT64_C(1) << 40) /* ids of those who have ended and not let go yet */

/* Errors that the model must notice, or it is worth nothing. */
enum error {
    ERROR_NONE,
    ERROR_EARLY_NUMBER,   /* the look's number is read before the log */
    ERROR_LATE_LOOK,      /* the look is taken when the holes have been read already */
    ERROR_NO_INHERITANCE, /* a prepared transaction is taken for a new one */
    ERROR_TABLE_FIRST,    /* the table of locks is read before those that sessions keep */
};

enum fate { FATE_UNDRAWN, FATE_OPEN, FATE_VISIBLE, FATE_ROLLED_BACK };
enum phase { PHASE_IDLE, PHASE_OPEN, PHASE_PREPARED, PHASE_RELEASING };

struct transaction {
    enum phase phase;
    uint64_t id;
    bool holds; /* it holds the lock */
    bool kept;  /* the lock is not in the table of locks */
    int64_t numbers[64];
    size_t count;
};

struct model_reader {
    struct gap gap;
    bool strict;
    int step;              /* of sending the statements and using their answers */
    struct gap_look proof; /* taken before the statements were sent */
    struct gap_run tail[16];
    size_t tail_count;
    int64_t late[MODEL_NUMBERS];
    size_t late_count;
    int64_t floor;
    int64_t handed_through; /* strict */
    bool handed[MODEL_NUMBERS + 1];
};

struct model {
    uint64_t seed;
    int64_t last; /* of the sequence */
    enum fate fates[MODEL_NUMBERS + 1];
    struct transaction transactions[MODEL_TRANSACTIONS];
    uint64_t next_id;
    uint64_t crowd; /* transactions at one time */
    bool renames;   /* PREPARE gives a new id */
    uint64_t haste; /* of the readers, compared with the prober's: 1 to 5 */
    bool prepares;  /* transactions are prepared at all: such a one lasts long */
    /* the prober */
    uint64_t begun;
    int look_step; /* 0: there is no look */
    struct gap_holder seen[2 * MODEL_TRANSACTIONS];
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
    if (model->error == ERROR_NONE) {
        fail_msg("%s: %" PRId64, what, number);
    }
}

static void transaction_step(struct model *model, struct transaction *transaction)
{
    uint64_t dice = chance_below(&model->seed, 100);
    switch (transaction->phase) {
    case PHASE_IDLE:
        if (dice < 30) {
            *transaction = (struct transaction){.phase = PHASE_OPEN, .id = ++model->next_id};
        }
        break;
    case PHASE_OPEN:
        if (dice < 40) { /* draws; some savepoints are rolled back at once, which frees nothing */
            size_t wanted = 1 + (dice < 4 ? chance_below(&model->seed, 40) : 0);
            transaction->kept |= !transaction->holds && dice % 4 > 0;
            transaction->holds = true;
            while (wanted-- > 0 && model->last < MODEL_NUMBERS &&
                   transaction->count < COUNT_OF(transaction->numbers)) {
                int64_t number = ++model->last;
                bool undone = chance_below(&model->seed, 5) == 0;
                model->fates[number] = undone ? FATE_ROLLED_BACK : FATE_OPEN;
                if (!undone) {
                    transaction->numbers[transaction->count++] = number;
                }
            }
        } else if (dice < 47 && model->prepares) {
            transaction->phase = PHASE_PREPARED;
            transaction->kept = false;
            if (model->renames) {
                transaction->id = ++model->next_id;
            }
        } else if (dice < 70) {
            goto end;
        } else if (dice < 75) {
            transaction->kept = false; /* another session wants a lock that conflicts */
        }
        break;
    case PHASE_PREPARED:
        if (dice < 5) {
            goto end;
        }
        break;
    case PHASE_RELEASING:
        transaction->phase = PHASE_IDLE;
        transaction->holds = transaction->kept = false;
        break;
    }
    return;
end:
    for (size_t i = 0; i < transaction->count; i++) {
        model->fates[transaction->numbers[i]] = dice % 3 ? FATE_VISIBLE : FATE_ROLLED_BACK;
    }
    if (transaction->phase == PHASE_OPEN) {
        transaction->id = NAMELESS + (uint64_t)(transaction - model->transactions);
    }
    transaction->phase = PHASE_RELEASING;
}

/* One of the two moments of a look. */
static void see_locks(struct model *model, bool kept)
{
    for (size_t i = 0; i < MODEL_TRANSACTIONS; i++) {
        const struct transaction *transaction = &model->transactions[i];
        if (transaction->holds && transaction->kept == kept) {
            model->seen[model->seen_count++] =
                (struct gap_holder){transaction->id, transaction->phase == PHASE_PREPARED &&
                                                         model->error != ERROR_NO_INHERITANCE};
        }
    }
}

static void prober_step(struct model *model)
{
    switch (model->look_step) {
    case 0:
        model->begun++;
        model->seen_count = 0;
        break;
    case 1:
        see_locks(model, model->error != ERROR_TABLE_FIRST);
        break;
    case 2:
        see_locks(model, model->error == ERROR_TABLE_FIRST);
        break;
    default:
        assert_ok(gap_watch_look(&model->watch, model->begun, model->seen, model->seen_count));
        model->look_step = -1;
        break;
    }
    model->look_step++;
}

static void read_tail(struct model *model, struct model_reader *reader)
{
    size_t limit = 1 + chance_below(&model->seed, 20);
    reader->tail_count = 0;
    for (int64_t number = reader->gap.high + 1; number <= model->last && limit > 0; number++) {
        if (model->fates[number] != FATE_VISIBLE) {
            continue;
        }
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
    for (size_t i = 0; i < reader->gap.count; i++) {
        for (int64_t n = reader->gap.holes[i].first; n <= reader->gap.holes[i].last; n++) {
            if (model->fates[n] == FATE_VISIBLE) {
                reader->late[reader->late_count++] = n;
            }
        }
    }
}

static void hand(struct model *model, struct model_reader *reader, int64_t number)
{
    if (reader->handed[number]) {
        model_break(model, "handed on twice", number);
    }
    if (model->fates[number] != FATE_VISIBLE) {
        model_break(model, "handed on, but it was not committed", number);
    }
    if (number <= reader->floor) {
        model_break(model, "handed on below the floor", number);
    }
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
        for (size_t i = 0; i < reader->late_count; i++) {
            hand(model, reader, reader->late[i]);
        }
        for (size_t i = 0; i < reader->tail_count; i++) {
            for (int64_t n = reader->tail[i].first; n <= reader->tail[i].last; n++) {
                hand(model, reader, n);
            }
        }
    } else {
        /* Whatever was seen up to there, in order. */
        for (int64_t n = reader->handed_through + 1; n <= gap_ready(gap, true); n++) {
            if (model->fates[n] == FATE_VISIBLE) {
                hand(model, reader, n);
            }
        }
        reader->handed_through = gap_ready(gap, true);
    }
    if (gap_floor(gap) < reader->floor) {
        model_break(model, "the floor sank", gap_floor(gap));
    }
    for (int64_t n = reader->floor + 1; n <= gap_floor(gap); n++) {
        if (model->fates[n] == FATE_OPEN) {
            model_break(model, "the floor passed what is under way", n);
        }
        if (model->fates[n] == FATE_VISIBLE && !reader->handed[n]) {
            model_break(model, "the floor passed what was never handed on", n);
        }
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
        if (model->error == ERROR_LATE_LOOK) {
            reader->proof = model->watch.look;
        }
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
        uint64_t dice = chance_below(&model->seed, 14);
        if (dice < 6) {
            transaction_step(model, &model->transactions[chance_below(&model->seed, model->crowd)]);
        } else if (dice < 6 + model->haste) {
            reader_step(model, chance_below(&model->seed, MODEL_READERS));
        } else {
            prober_step(model);
        }
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
    for (size_t i = 0; i < MODEL_READERS; i++) {
        gap_release(&model->readers[i].gap);
    }
    gap_watch_release(&model->watch);
    free(model);
}

/* Ends every transaction and reads on: the floors must come to the last visible number. */
static void model_drain(struct model *model)
{
    for (size_t i = 0; i < MODEL_TRANSACTIONS; i++) {
        while (model->transactions[i].phase != PHASE_IDLE || model->transactions[i].holds) {
            transaction_step(model, &model->transactions[i]);
        }
    }
    int64_t last = 0;
    for (int64_t n = 1; n <= model->last; n++) {
        last = model->fates[n] == FATE_VISIBLE ? n : last;
    }
    for (int i = 0; i < 3 * MODEL_NUMBERS; i++) {
        prober_step(model);
        for (size_t r = 0; r < MODEL_READERS; r++) {
            reader_step(model, r);
        }
    }
    for (size_t r = 0; r < MODEL_READERS; r++) {
        if (model->readers[r].floor != last) {
            model_break(model, "in the end the floor is at", model->readers[r].floor);
        }
        for (int64_t n = 1; n <= last; n++) {
            if (model->fates[n] == FATE_VISIBLE && !model->readers[r].handed[n]) {
                model_break(model, "lost", n);
            }
        }
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
    for (enum error error = ERROR_EARLY_NUMBER; error <= ERROR_TABLE_FIRST; error++) {
        int64_t faults = 0;
        for (uint64_t seed = 1; seed <= MODEL_SEEDS && faults == 0; seed++) {
            struct model *model = model_new(seed * 7919, error);
            model_run(model, MODEL_STEPS);
            model_drain(model);
            faults += model->faults;
            model_free(model);
        }
        if (faults == 0) {
            fail_msg("error %d was not noticed", (int)error);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_transactions_do_nothing_is_lost_or_doubled),
        cmocka_unit_test(the_model_notices_each_error),
    };
    return cmocka_run_group_tests_name("gap model", tests, NULL, NULL);
}
