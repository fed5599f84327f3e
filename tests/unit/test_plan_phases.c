/*
 * Unit tests of bus/deliver/plan: the phases of a runner. Every combination that can occur, and a
 * model of a runner that stops, retires and works again at random.
 */
#include "unit.h"

#include "bus/deliver/turn/plan.h"

#include <stdbool.h>

#define NOW_US INT64_C(1000000000)
#define MONO_US INT64_C(5000000)
#define LATER_US 300
#define SEEDS 400
#define STEPS 3000

/* What is written in plan.h about the other phases. */
static enum action look_up_phase(const struct situation *s)
{
    bool works = !(s->bars & (BAR_STOPPING | BAR_RETIRING));
    bool kept = s->hand & (HAND_OWING | HAND_STRAYS);
    switch (s->phase) {
    case PHASE_DRAIN:
        if (s->hand & HAND_WORKERS) {
            return works ? ACTION_RESUME : ACTION_WAIT;
        }
        return works || !(s->hand & HAND_BUSY) ? ACTION_FINISH : ACTION_WAIT;
    case PHASE_RETIRE:
        return ACTION_RETIRE;
    case PHASE_PAUSE:
        return kept && (s->bars & BAR_RETIRING) && s->mono_us < s->pause_us ? ACTION_WAIT
                                                                            : ACTION_FINISH;
    case PHASE_HALT:
        return s->hand & HAND_ABORTING ? ACTION_WAIT : ACTION_LEAVE;
    case PHASE_WORK:
    case PHASE_OVER:
        break;
    }
    return ACTION_LEAVE;
}

/* Whatever else there is to do, told by needs, is for the phase of work. */
static struct situation situation_of(enum phase phase, uint32_t hand, uint32_t bars)
{
    return (struct situation){
        .phase = phase,
        .needs = hand * 37 & (2 * NEED_BREAKER - 1),
        .bars = bars,
        .hand = hand,
        .now_us = NOW_US,
        .mono_us = MONO_US,
        .retry_us = NOW_US,
        .claim_us = NOW_US,
        .wake_us = NOW_US + LATER_US / 2,
    };
}

static void every_phase_is_planned_as_the_table_says(void **state)
{
    (void)state;
    static const uint32_t courses[] = {0, BAR_STOPPING, BAR_RETIRING, BAR_RETIRING | BAR_LOST,
                                       BAR_STOPPING | BAR_REMOVED};
    for (uint32_t phase = PHASE_DRAIN; phase <= PHASE_OVER; phase++) {
        for (uint32_t hand = 0; hand < 2 * HAND_OWING; hand++) {
            for (size_t i = 0; i < COUNT_OF(courses); i++) {
                for (uint32_t due = 0; due < 2; due++) {
                    struct situation s = situation_of((enum phase)phase, hand, courses[i]);
                    s.pause_us = due ? MONO_US : MONO_US + LATER_US;
                    struct plan next = plan(&s);
                    assert_int_equal(next.action, look_up_phase(&s));
                    if (next.action == ACTION_WAIT) {
                        assert_int_equal(next.wake_us,
                                         phase == PHASE_PAUSE ? NOW_US + LATER_US : INT64_MAX);
                    }
                }
            }
        }
    }
}

/* The life of a runner: what the world does to it, and what it has to give back. */
struct life {
    uint64_t seed;
    struct situation s;
    int workers;
    int strays;   /* handlers that were given up and have not returned */
    int aborting; /* strays that keep a transaction */
    bool owed;    /* something is ours that was not given back */
    bool wanted;  /* handlers were registered */
    bool stopped; /* hf_stop was called */
    int finished; /* FINISH was tried so often since WORK ended */
};

static void look_at(struct life *life)
{
    life->s.hand = (life->workers > 0 ? HAND_WORKERS | HAND_BUSY : 0) |
                   (life->strays > 0 ? HAND_STRAYS : 0) | (life->aborting > 0 ? HAND_ABORTING : 0) |
                   (life->owed && life->finished > 0 ? HAND_OWING : 0);
    life->s.bars = life->stopped ? BAR_STOPPING : life->wanted ? 0 : BAR_RETIRING;
}

static void finish(struct life *life)
{
    assert_true(life->workers == 0);
    life->finished++;
    if (life->owed) {
        life->owed = life->aborting > 0 || chance_below(&life->seed, 3) > 0;
    }
}

/* As runner_life.c does. False: it is over. */
static bool end_phase(struct life *life, enum action action)
{
    switch (action) {
    case ACTION_END:
        life->s.phase = PHASE_DRAIN;
        life->finished = 0;
        break;
    case ACTION_RESUME:
        life->s.phase = PHASE_WORK;
        break;
    case ACTION_FINISH:
        life->s.phase = PHASE_RETIRE;
        finish(life);
        break;
    case ACTION_RETIRE:
        assert_true(life->finished > 0);
        life->s.pause_us = life->s.mono_us + 10;
        life->s.phase = life->stopped                      ? PHASE_HALT
                        : life->wanted                     ? PHASE_WORK
                        : life->strays == 0 && !life->owed ? PHASE_OVER
                                                           : PHASE_PAUSE;
        break;
    case ACTION_LEAVE:
        assert_int_equal(life->aborting, 0);
        finish(life);
        life->s.phase = PHASE_OVER;
        break;
    default:
        assert_true(life->s.phase == PHASE_WORK);
        break;
    }
    return life->s.phase != PHASE_OVER;
}

/* Something happens to it between two turns. */
static void befall(struct life *life)
{
    switch (chance_below(&life->seed, 8)) {
    case 0:
        life->wanted = !life->stopped && chance_below(&life->seed, 4) > 0;
        break;
    case 1:
        life->stopped |= chance_below(&life->seed, 6) == 0;
        break;
    case 2: /* a worker is given up */
        if (life->workers > 0) {
            life->workers--;
            life->strays++;
            life->aborting += (int)chance_below(&life->seed, 2);
        }
        break;
    case 3:
        life->aborting -= life->aborting > 0 ? 1 : 0;
        break;
    case 4:
        life->strays -= life->strays > life->aborting ? 1 : 0;
        break;
    default:
        life->workers -= life->workers > 0 ? 1 : 0;
        break;
    }
    life->s.mono_us++;
}

static void whatever_happens_a_runner_that_is_to_end_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct life life = {.seed = seed, .wanted = true};
        bool goes_on = true;
        for (int i = 0; i < STEPS && goes_on; i++) {
            befall(&life);
            look_at(&life);
            if (life.s.phase == PHASE_WORK && life.wanted && !life.stopped) {
                life.workers += life.workers < 4 ? 1 : 0;
                life.owed = true;
                continue;
            }
            struct plan next = plan(&life.s);
            goes_on = next.action == ACTION_WAIT || end_phase(&life, next.action);
        }
        life.stopped = true;
        for (int i = 0; i < STEPS && goes_on; i++) { /* all that runs ends */
            life.workers = 0;
            life.strays = 0;
            life.aborting = 0;
            look_at(&life);
            struct plan next = plan(&life.s);
            assert_int_not_equal(next.action, ACTION_WAIT);
            goes_on = end_phase(&life, next.action);
        }
        assert_false(goes_on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phase_is_planned_as_the_table_says),
        cmocka_unit_test(whatever_happens_a_runner_that_is_to_end_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
