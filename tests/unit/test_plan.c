/*
 * Unit tests of bus/deliver/plan: the table of plan.h for every combination that can occur, what
 * holds for all of them, and a model of a dispatcher to which things happen at random.
 */
#include "unit.h"

#include "bus/deliver/turn/plan.h"

#include <stdbool.h>

#define NOW_US INT64_C(1000000000)
#define MONO_US INT64_C(5000000)
#define LATER_US 300 /* a time that has not come; each has its own number of them */
#define ALL_STEPS                                                                                  \
    (STEP(ACTION_PAUSE) | STEP(ACTION_TEND) | STEP(ACTION_SETTLE) | STEP(ACTION_RETRIES) |         \
     STEP(ACTION_LOG) | STEP(ACTION_BREAKER))

/* ---- The table ------------------------------------------------------------------------------- */

/* Conditions that are not bits of a word. */
enum clock_fact {
    CLOCK_REFRESH = 1 << 0, /* the definition may be read */
    CLOCK_STORE = 1 << 1,   /* the store may be asked */
    CLOCK_RETRY = 1 << 2,   /* a retry is due */
    CLOCK_CLAIM = 1 << 3,   /* something to claim is due */
};

/* A row of the table: it applies if all of `with` are there and none of `without`; of `one_of`
 * (needs, or clocks) one must be. */
struct row {
    enum action action;
    uint32_t bars_with;
    uint32_t bars_without;
    uint32_t hand_with;
    uint32_t hand_without;
    uint32_t needs_with;
    uint32_t needs_without;
    uint32_t clocks_with;
    uint32_t clocks_without;
    uint32_t step;
    uint32_t needs_one_of;
    uint32_t clocks_one_of;
    bool rest; /* of all rows below only those of BREAKER, TURN and WAIT apply */
};

/* The table of plan.h. */
static const struct row rows[] = {
    {ACTION_END, .bars_with = BAR_STOPPING},
    {ACTION_END, .bars_with = BAR_RETIRING, .hand_without = HAND_BUSY},
    {ACTION_TURN, .bars_with = BAR_REMOVED, .needs_with = NEED_TURN},
    {ACTION_WAIT, .bars_with = BAR_REMOVED},
    {ACTION_REFRESH, .clocks_with = CLOCK_REFRESH, .needs_one_of = NEED_DEFINITION | NEED_STANDING},
    {.clocks_without = CLOCK_STORE, .rest = true},
    {ACTION_PAUSE, .step = STEP(ACTION_PAUSE), .hand_with = HAND_STUCK,
     .needs_without = NEED_DEFINITION},
    {.bars_with = BAR_LOST, .hand_with = HAND_BUSY, .rest = true},
    {ACTION_DROP, .bars_with = BAR_LOST},
    {ACTION_CHECK, .needs_with = NEED_OWNERSHIP, .needs_without = NEED_DEFINITION | NEED_RESET,
     .hand_with = HAND_OWNED},
    {ACTION_ADMIT, .needs_with = NEED_ADMISSION, .needs_without = NEED_DEFINITION},
    {ACTION_TEND, .step = STEP(ACTION_TEND)},
    {.needs_with = NEED_RESET,
     .needs_without = NEED_DEFINITION,
     .hand_with = HAND_OWNED | HAND_BUSY,
     .rest = true},
    {ACTION_RESET, .needs_with = NEED_RESET, .needs_without = NEED_DEFINITION,
     .hand_with = HAND_OWNED},
    {ACTION_SETTLE, .step = STEP(ACTION_SETTLE), .hand_with = HAND_OWNED},
    {ACTION_RETRIES, .step = STEP(ACTION_RETRIES), .hand_with = HAND_OWNED,
     .bars_without = BAR_HELD_BACK, .needs_without = NEED_DEFINITION, .needs_one_of = NEED_RETRIES,
     .clocks_one_of = CLOCK_RETRY},
    {ACTION_LOG, .step = STEP(ACTION_LOG), .hand_with = HAND_OWNED, .bars_without = BAR_HELD_BACK,
     .needs_without = NEED_DEFINITION, .needs_one_of = NEED_LOG | NEED_LOG_REST | NEED_READ_ON,
     .clocks_one_of = CLOCK_CLAIM},
    {ACTION_BREAKER, .step = STEP(ACTION_BREAKER), .hand_with = HAND_BREAKS},
    {ACTION_BREAKER, .step = STEP(ACTION_BREAKER), .needs_with = NEED_BREAKER},
    {ACTION_TURN, .needs_with = NEED_TURN},
    {ACTION_WAIT},
};

/* A situation, and the clocks of it as the table sees them. */
struct scene {
    struct situation situation;
    uint32_t clocks;
};

static struct scene scene_of(uint32_t needs, uint32_t bars, uint32_t hand, uint32_t steps,
                             uint32_t clocks)
{
    return (struct scene){
        .situation =
            {
                .needs = needs,
                .bars = bars,
                .hand = hand,
                .steps = steps,
                .now_us = NOW_US,
                .mono_us = MONO_US,
                .refresh_us = clocks & CLOCK_REFRESH ? MONO_US : MONO_US + LATER_US,
                .store_us = clocks & CLOCK_STORE ? MONO_US : MONO_US + 2 * LATER_US,
                .retry_us = clocks & CLOCK_RETRY ? NOW_US : NOW_US + 3 * LATER_US,
                .claim_us = clocks & CLOCK_CLAIM ? NOW_US : NOW_US + 4 * LATER_US,
                .wake_us = NOW_US + 5 * LATER_US,
            },
        .clocks = clocks,
    };
}

static bool has(uint32_t word, uint32_t with, uint32_t without)
{
    return (word & with) == with && !(word & without);
}

static bool applies(const struct row *row, const struct scene *scene)
{
    const struct situation *s = &scene->situation;
    bool any = row->needs_one_of | row->clocks_one_of;
    return has(s->bars, row->bars_with, row->bars_without) &&
           has(s->hand, row->hand_with, row->hand_without) &&
           has(s->needs, row->needs_with, row->needs_without) &&
           has(scene->clocks, row->clocks_with, row->clocks_without) &&
           has(s->steps, row->step, 0) &&
           (!any || (s->needs & row->needs_one_of) || (scene->clocks & row->clocks_one_of));
}

static enum action look_up(const struct scene *scene)
{
    bool rest = false;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        bool last = row->action == ACTION_BREAKER || row->action == ACTION_TURN ||
                    (row->action == ACTION_WAIT && !row->rest);
        if ((rest && !last) || !applies(row, scene)) {
            continue;
        }
        if (!row->rest) {
            return row->action;
        }
        rest = true;
    }
    return ACTION_WAIT;
}

/* What holds whatever the situation is. */
static bool is_sound(const struct situation *s, struct plan next)
{
    uint32_t optional = ALL_STEPS & STEP(next.action);
    if (optional && !(s->steps & optional)) {
        return false; /* a step is taken at most once in a turn */
    }
    bool asks = next.action > ACTION_REFRESH && next.action != ACTION_BREAKER;
    if (asks && s->mono_us < s->store_us) {
        return false; /* the store is given time */
    }
    if (next.action == ACTION_WAIT) { /* not for nothing, and not for ever */
        return !(s->needs & NEED_TURN) && next.wake_us > s->now_us;
    }
    return true;
}

static void check(uint32_t needs, uint32_t bars, uint32_t hand, uint32_t steps, uint32_t clocks)
{
    struct scene scene = scene_of(needs, bars, hand, steps, clocks);
    struct plan next = plan(&scene.situation);
    enum action wanted = look_up(&scene);
    if (next.action != wanted || !is_sound(&scene.situation, next)) {
        fail_msg("needs %x bars %x hand %x steps %x clocks %x: action %d, wanted %d; wakes in %lld",
                 needs, bars, hand, steps, clocks, (int)next.action, (int)wanted,
                 (long long)(next.wake_us - NOW_US));
    }
}

/* The steps that can be left in a turn: what is behind TEND is not taken before it. Answers how
 * many. */
static size_t list_steps(uint32_t list[64])
{
    size_t count = 0;
    uint32_t behind = STEP(ACTION_SETTLE) | STEP(ACTION_RETRIES) | STEP(ACTION_LOG);
    for (uint32_t steps = 0; steps <= ALL_STEPS; steps++) {
        bool tend = steps & STEP(ACTION_TEND);
        if (!(steps & ~(uint32_t)ALL_STEPS) && (!tend || (steps & behind) == behind)) {
            list[count++] = steps;
        }
    }
    return count;
}

/* Every hand, set of steps and state of the clocks. */
static void check_all(uint32_t needs, uint32_t bars)
{
    uint32_t steps[64];
    size_t count = list_steps(steps);
    for (uint32_t hand = 0; hand < 16; hand++) {
        for (size_t i = 0; i < count; i++) {
            for (uint32_t clocks = 0; clocks < 16; clocks++) {
                check(needs, bars, hand, steps[i], clocks);
            }
        }
    }
}

static void every_combination_is_planned_as_the_table_says(void **state)
{
    (void)state;
    static const uint32_t bits[] = {NEED_TURN,      NEED_DEFINITION, NEED_STANDING,
                                    NEED_ADMISSION, NEED_OWNERSHIP,  NEED_RESET,
                                    NEED_RETRIES,   NEED_LOG,        NEED_BREAKER};
    static const uint32_t bars[] = {0,
                                    BAR_LOST,
                                    BAR_HELD_BACK,
                                    BAR_LOST | BAR_HELD_BACK,
                                    BAR_RETIRING,
                                    BAR_RETIRING | BAR_LOST,
                                    BAR_RETIRING | BAR_HELD_BACK};
    for (uint32_t set = 0; set < 1U << COUNT_OF(bits); set++) {
        uint32_t needs = 0;
        for (size_t i = 0; i < COUNT_OF(bits); i++) {
            needs |= set >> i & 1 ? bits[i] : 0;
        }
        for (size_t i = 0; i < COUNT_OF(bars); i++) {
            check_all(needs, bars[i]);
        }
    }
}

static void a_runner_that_stops_or_was_removed_does_nothing_else(void **state)
{
    (void)state;
    static const uint32_t bars[] = {BAR_STOPPING, BAR_REMOVED, BAR_REMOVED | BAR_RETIRING,
                                    BAR_STOPPING | BAR_LOST, BAR_REMOVED | BAR_HELD_BACK};
    for (uint32_t needs = 0; needs < 2 * NEED_BREAKER; needs += 5) {
        for (size_t i = 0; i < COUNT_OF(bars); i++) {
            check(needs, bars[i], needs % 16, ALL_STEPS, needs % 7);
        }
    }
}

/* They keep workers back; the dispatcher goes on. */
static void other_bars_change_no_plan(void **state)
{
    (void)state;
    static const uint32_t bars[] = {BAR_RESET, BAR_HALTING, BAR_BREAKER, BAR_AWAY};
    for (uint32_t needs = 0; needs < 2 * NEED_BREAKER; needs++) {
        for (size_t i = 0; i < COUNT_OF(bars); i++) {
            check(needs, bars[i], needs % 16, ALL_STEPS, CLOCK_REFRESH | CLOCK_STORE);
        }
    }
}

static void each_need_of_the_log_is_a_reason_to_read_it(void **state)
{
    (void)state;
    static const uint32_t needs[] = {NEED_LOG, NEED_LOG_REST, NEED_READ_ON};
    for (size_t i = 0; i < COUNT_OF(needs); i++) {
        check_all(needs[i], 0);
        check_all(needs[i] | NEED_RETRIES, 0);
        check_all(needs[i], BAR_HELD_BACK);
    }
}

/* What was not taken because it was not due names its time; what was taken has named its own. */
static void the_wait_ends_with_the_earliest_time(void **state)
{
    (void)state;
    struct scene scene =
        scene_of(0, 0, HAND_OWNED, ALL_STEPS & ~STEP(ACTION_TEND), CLOCK_REFRESH | CLOCK_STORE);
    struct situation *s = &scene.situation;
    s->steps &= ~STEP(ACTION_SETTLE);
    assert_int_equal(plan(s).wake_us, NOW_US + 3 * LATER_US); /* the retry */
    s->steps &= ~STEP(ACTION_RETRIES);
    assert_int_equal(plan(s).wake_us, NOW_US + 4 * LATER_US); /* the claim */
    s->steps &= ~STEP(ACTION_LOG);
    assert_int_equal(plan(s).wake_us, NOW_US + 5 * LATER_US); /* what an action has named */
    s->store_us = MONO_US + 2 * LATER_US;
    assert_int_equal(plan(s).wake_us, NOW_US + 2 * LATER_US); /* the store */
    s->refresh_us = MONO_US + LATER_US;
    s->needs = NEED_STANDING;
    assert_int_equal(plan(s).wake_us, NOW_US + LATER_US); /* the definition */
}

/* ---- The model ------------------------------------------------------------------------------- */

#define MODEL_SEEDS 400
#define MODEL_STEPS 3000
#define MODEL_TURN_MAX 64 /* actions of one turn */

/*
 * A subscription, a store, and workers, as far as the plan can tell. Performing does what
 * dispatcher.c does with the words; the store fails at random.
 */
struct model {
    uint64_t seed;
    bool ordered;
    bool failing; /* the store, at times */
    struct situation s;
    int64_t definition; /* generation of the stored definition */
    int64_t known;      /* generation of the definition that was read last */
    int64_t read_by;    /* generation by which the deliveries in hand were read */
    bool admits;        /* the definition that is stored */
    bool differs;       /* it reads the log differently than what the hand was read by */
    bool ours;          /* the store says that what is in hand is ours */
    int log;            /* events of the log that are not in hand */
    int due;            /* retries that are due and not in hand */
    int ready;
    int running;
    int ended;
    int settled;
    bool ended_loop;
};

static bool fails(struct model *m)
{
    if (!m->failing || chance_below(&m->seed, 4)) {
        return false;
    }
    m->s.store_us = m->s.mono_us + 1000;
    return true;
}

static void take(struct model *m, uint32_t needs)
{
    m->s.needs &= ~needs;
}

static void begin_turn(struct model *m)
{
    take(m, NEED_TURN);
    m->s.mono_us++;
    m->s.now_us++;
    m->s.wake_us = INT64_MAX;
    m->s.steps = m->s.mono_us < m->s.store_us ? 0 : ALL_STEPS;
}

static void drop(struct model *m)
{
    m->log += m->ready + m->ended;
    m->ready = 0;
    m->ended = 0;
    m->s.bars &= ~(uint32_t)BAR_LOST;
    if (m->ordered) {
        m->s.hand &= ~(uint32_t)HAND_OWNED;
    }
}

static void refresh(struct model *m)
{
    uint32_t needs = m->s.needs & (NEED_DEFINITION | NEED_STANDING);
    take(m, NEED_DEFINITION | NEED_STANDING);
    if (fails(m)) {
        m->s.refresh_us = m->s.store_us;
        m->s.needs |= needs;
        return;
    }
    m->known = m->definition;
    m->s.needs |= NEED_ADMISSION;
    if (m->ordered && (m->s.hand & HAND_OWNED) && m->known != m->read_by) {
        m->s.needs |= m->differs ? NEED_RESET | NEED_OWNERSHIP : NEED_OWNERSHIP;
    }
}

static void check_ours(struct model *m)
{
    assert_true(m->s.hand & HAND_OWNED);
    if (fails(m) || m->known != m->definition) {
        m->s.needs |= NEED_DEFINITION;
        return;
    }
    if (!m->ours) {
        m->s.bars |= BAR_LOST;
        m->s.needs |= NEED_TURN;
        return;
    }
    take(m, NEED_OWNERSHIP);
    m->read_by = m->known;
}

static void tend(struct model *m)
{
    m->s.steps &= ~STEP(ACTION_TEND);
    if (!m->ordered || (m->s.hand & HAND_OWNED) || !plan_admits(m->s.needs, m->s.bars) ||
        fails(m)) {
        return;
    }
    m->s.hand |= HAND_OWNED;
    m->ours = true;
    m->read_by = m->known;
    m->differs = m->known != m->definition && m->differs;
    take(m, NEED_RESET | NEED_OWNERSHIP);
    m->s.needs |= NEED_LOG | NEED_RETRIES;
}

static void settle(struct model *m)
{
    m->s.steps &= ~STEP(ACTION_SETTLE);
    assert_true(m->s.hand & HAND_OWNED);
    assert_false(m->s.bars & BAR_LOST);
    if (m->ended == 0 || fails(m)) {
        return;
    }
    if (m->ordered && !m->ours) {
        m->s.bars |= BAR_LOST;
        m->s.steps &= ~(STEP(ACTION_RETRIES) | STEP(ACTION_LOG));
        m->s.needs |= NEED_TURN;
        return;
    }
    m->settled += m->ended;
    m->ended = 0;
    m->s.needs |= m->known == m->definition ? 0 : NEED_DEFINITION;
}

static void get(struct model *m, enum action action)
{
    int *from = action == ACTION_LOG ? &m->log : &m->due;
    uint32_t need = action == ACTION_LOG ? NEED_LOG | NEED_LOG_REST | NEED_READ_ON : NEED_RETRIES;
    m->s.steps &= ~STEP(action);
    assert_true(plan_admits(m->s.needs, m->s.bars));
    assert_true(m->s.hand & HAND_OWNED);
    if (m->ready + m->running + m->ended >= 8) {
        return; /* no room: a report comes */
    }
    take(m, need);
    if (fails(m)) {
        m->s.needs |= need & (NEED_LOG | NEED_RETRIES);
        return;
    }
    int count = *from < 4 ? *from : 4;
    m->ready += count;
    *from -= count;
    if (*from > 0) {
        m->s.needs |= (need & (NEED_LOG | NEED_RETRIES)) | NEED_TURN;
    }
}

static void admit(struct model *m)
{
    take(m, NEED_ADMISSION);
    m->s.bars &= ~(uint32_t)BAR_HELD_BACK;
    m->s.bars |= m->admits ? 0 : BAR_HELD_BACK;
}

static void perform(struct model *m, enum action action)
{
    switch (action) {
    case ACTION_REFRESH:
        refresh(m);
        break;
    case ACTION_PAUSE:
        m->s.steps &= ~STEP(ACTION_PAUSE);
        m->s.needs |= NEED_DEFINITION;
        break;
    case ACTION_DROP:
        assert_int_equal(m->running, 0);
        drop(m);
        break;
    case ACTION_CHECK:
        check_ours(m);
        break;
    case ACTION_ADMIT:
        admit(m);
        break;
    case ACTION_TEND:
        tend(m);
        break;
    case ACTION_RESET:
        assert_int_equal(m->running, 0);
        if (!fails(m)) {
            m->settled += m->ended;
            m->ended = 0;
            drop(m);
            m->s.needs |= NEED_TURN;
        }
        break;
    case ACTION_SETTLE:
        settle(m);
        break;
    case ACTION_RETRIES:
    case ACTION_LOG:
        get(m, action);
        break;
    case ACTION_BREAKER:
        m->s.steps &= ~STEP(ACTION_BREAKER);
        m->s.needs = fails(m) ? m->s.needs : m->s.needs & ~(uint32_t)NEED_BREAKER;
        break;
    case ACTION_TURN:
        begin_turn(m);
        break;
    case ACTION_WAIT:
    case ACTION_END:
    case ACTION_RESUME:
    case ACTION_FINISH:
    case ACTION_RETIRE:
    case ACTION_LEAVE:
        break;
    }
    m->s.hand &= ~(uint32_t)HAND_BUSY;
    m->s.hand |= m->running > 0 ? HAND_BUSY : 0;
}

/* Plans and performs until there is nothing to do. */
static int64_t run_turns(struct model *m)
{
    for (int i = 0; i < MODEL_TURN_MAX * 4; i++) {
        struct plan next = plan(&m->s);
        if (next.action == ACTION_WAIT) {
            return next.wake_us;
        }
        m->ended_loop |= next.action == ACTION_END;
        if (m->ended_loop) {
            return INT64_MAX;
        }
        perform(m, next.action);
    }
    fail_msg("seed %llu: the turn does not end: needs %x bars %x hand %x steps %x",
             (unsigned long long)m->seed, m->s.needs, m->s.bars, m->s.hand, m->s.steps);
    return 0;
}

/* A worker begins or ends something, if it can. */
static bool work(struct model *m)
{
    bool worked = true;
    uint32_t barred = m->s.bars | (m->s.needs & NEED_RESET);
    if (m->ready > 0 && !barred) {
        m->ready--;
        m->running++;
    } else if (m->running > 0) {
        m->running--;
        m->ended++;
        m->s.needs |= NEED_TURN;
    } else {
        worked = false;
    }
    m->s.hand &= ~(uint32_t)HAND_BUSY;
    m->s.hand |= m->running > 0 ? HAND_BUSY : 0;
    return worked;
}

/* Something happens between two turns, told by news. */
static void happen(struct model *m)
{
    switch (chance_below(&m->seed, 10)) {
    case 0:
        m->definition++;
        m->differs |= chance_below(&m->seed, 3) == 0;
        m->admits = chance_below(&m->seed, 3) > 0;
        break;
    case 1:
        m->ours = !m->ordered || chance_below(&m->seed, 2);
        break;
    case 2:
        m->s.bars |= BAR_HELD_BACK;
        m->s.needs |= NEED_ADMISSION;
        break;
    case 3:
        m->s.bars |= m->ordered && (m->s.hand & HAND_OWNED) ? BAR_LOST : 0;
        break;
    case 4:
        m->s.needs |= NEED_BREAKER;
        break;
    case 5:
        m->due++;
        break;
    default:
        m->log++;
        break;
    }
    m->s.needs |= NEED_TURN | NEEDS_OF_NEWS;
}

static void start(struct model *m, uint64_t seed)
{
    *m = (struct model){.seed = seed, .ordered = seed % 2, .admits = true, .ours = true};
    m->s = (struct situation){
        .needs = NEED_DEFINITION | NEED_TURN,
        .hand = m->ordered ? 0 : HAND_OWNED,
        .now_us = NOW_US,
        .mono_us = MONO_US,
        .retry_us = INT64_MAX,
        .claim_us = INT64_MAX,
        .wake_us = INT64_MAX,
    };
    m->definition = 1;
}

/* Nothing happens any more and the store works: everything that can be done is. */
static void come_to_rest(struct model *m)
{
    m->failing = false;
    m->admits = true;
    m->ours = m->ours || (m->s.hand & HAND_OWNED);
    m->s.needs |= NEED_TURN | NEEDS_OF_NEWS;
    for (int i = 0; i < 100000; i++) {
        int64_t wake_us = run_turns(m);
        if (work(m)) {
            continue;
        }
        if (wake_us < INT64_MAX) {
            m->s.mono_us += wake_us - m->s.now_us;
            m->s.now_us = wake_us;
            m->s.needs |= NEED_TURN;
        } else if (!(m->s.needs & NEED_TURN)) {
            return;
        }
    }
    fail_msg("seed %llu: it does not come to rest: needs %x bars %x log %d due %d",
             (unsigned long long)m->seed, m->s.needs, m->s.bars, m->log, m->due);
}

static void whatever_happens_all_is_delivered_in_the_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= MODEL_SEEDS; seed++) {
        struct model m;
        start(&m, seed);
        for (int i = 0; i < MODEL_STEPS; i++) {
            m.failing = i / 100 % 3 == 2;
            int64_t wake_us = run_turns(&m);
            if (chance_below(&m.seed, 3) == 0) {
                happen(&m);
            } else if (chance_below(&m.seed, 4) == 0 && wake_us < INT64_MAX) {
                m.s.mono_us += wake_us > m.s.now_us ? wake_us - m.s.now_us : 0;
                m.s.now_us = wake_us > m.s.now_us ? wake_us : m.s.now_us;
                m.s.needs |= NEED_TURN;
            } else {
                work(&m);
            }
        }
        come_to_rest(&m);
        assert_int_equal(m.log + m.due + m.ready + m.running + m.ended, 0);
        assert_int_equal(m.s.bars, 0);
        assert_int_equal(m.known, m.definition);
        assert_int_equal(m.s.needs & ~(uint32_t)NEED_MEMBERS_SOON, 0);
        assert_true(m.settled > 0);
    }
}

/* It goes on settling what runs, and ends when nothing does. */
static void a_runner_that_retires_settles_first(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= MODEL_SEEDS; seed++) {
        struct model m;
        start(&m, seed);
        m.log = 100;
        for (int i = 0; i < 40; i++) {
            run_turns(&m);
            work(&m);
        }
        m.s.bars |= BAR_RETIRING;
        m.s.needs |= NEED_TURN;
        for (int i = 0; i < 100 && !m.ended_loop; i++) {
            bool busy = m.running > 0;
            run_turns(&m);
            assert_int_equal(m.ended_loop, !busy);
            work(&m);
        }
        assert_true(m.ended_loop);
        assert_int_equal(m.running, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_is_planned_as_the_table_says),
        cmocka_unit_test(a_runner_that_stops_or_was_removed_does_nothing_else),
        cmocka_unit_test(other_bars_change_no_plan),
        cmocka_unit_test(each_need_of_the_log_is_a_reason_to_read_it),
        cmocka_unit_test(the_wait_ends_with_the_earliest_time),
        cmocka_unit_test(whatever_happens_all_is_delivered_in_the_end),
        cmocka_unit_test(a_runner_that_retires_settles_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
