/*
 * dispatcher.c - the turns of a runner: survey, plan, perform. See plan.h.
 *
 *     begin_turn -> ( survey -> plan -> perform ) ... -> end_turn
 *
 * plan() decides, perform() acts: it, and what it calls, is all that talks to the store for a
 * subscription that works (runner_life.c does when one ends). What an action finds is told by needs
 * and bars, by the time at which it wants to be looked at again (turn_wake), and by steps that it
 * takes out of the turn.
 *
 * Between two turns the runner waits among the dispatchers of the bus (dispatchers.h). It is called
 * by workers that report something to be settled, by the watch when there is news in the store, by
 * handlers being registered, and by its own clock (wake_at). Handlers that are over their time are
 * not its business but the timekeeper's: a turn may wait for the store. A call that comes too often
 * costs a look; one that is missed costs at most the wait period, never an event, because every
 * look asks the store.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/limiter.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/tail/tail.h"
#include "bus/options.h"
#include "store/membership.h"

#define REFRESH_US 50000 /* without news, look at the definition at most this often */
#define WAIT_MS_MAX 3600000
#define LOOK_APART_MS 100    /* see wait_ms */
#define TEND_MS 1000         /* see tend_ms */
#define RATE_SHARE_US 100000 /* see ask_rate */
#define RATE_WAIT_US 20000   /* between two looks whether more may begin by the rate, at least */

void turn_wake(struct turn *turn, int64_t at_us)
{
    turn->wake_us = at_us < turn->wake_us ? at_us : turn->wake_us;
}

void turn_store(struct turn *turn, int64_t at_us)
{
    turn->store_us = at_us < turn->store_us ? at_us : turn->store_us;
}

/* ---- The breaker ----------------------------------------------------------------------------- */

static void store_breaker(struct runner *runner, int64_t now_us)
{
    pthread_mutex_lock(&runner->mutex);
    bool changed = runner_take(runner, NEED_BREAKER);
    struct breaker breaker = runner->breaker;
    pthread_mutex_unlock(&runner->mutex);
    if (!changed) {
        return;
    }
    struct buf buf;
    buf_init(&buf, 4096);
    struct json_out out;
    json_out_init(&out, &buf);
    breaker_write(&breaker, &out);
    log_about(&runner->bus->log, HF_LOG_WARN, runner->name, "circuit breaker is %s",
              breaker_state_name(breaker.state));
    struct breaker_put put = {
        .change = {.kind = CHANGE_BREAKER, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .state_json = breaker.state == BREAKER_CLOSED ? TEXT_ABSENT : buf_text(&buf),
    };
    hf_status status = buf_status(&buf);
    if (!status) {
        status = runner_run(runner, &put.change);
    }
    if (status) {
        runner_need(runner, NEED_BREAKER); /* in the next turn */
    }
    buf_release(&buf);
}

/* With the breaker open nothing runs; when its pause is over, exactly one delivery does. Answers
 * when to look again (wall clock). */
static int64_t ask_breaker(struct runner *runner, int64_t now_us)
{
    if (!runner_breaks(runner)) {
        return INT64_MAX;
    }
    int64_t again_us = INT64_MAX;
    pthread_mutex_lock(&runner->mutex);
    struct breaker_policy policy = options_breaker(&runner->definition.options);
    if (runner->breaker.state != BREAKER_CLOSED && runner->window.ready > 0 &&
        breaker_ask(&runner->breaker, &policy, now_us) == BREAKER_PROBE) {
        runner->probe_wanted = true;
    }
    if (runner->breaker.state != BREAKER_CLOSED) {
        int64_t ms = breaker_wait_ms(&runner->breaker, now_us);
        again_us = ms > 0 ? now_us + ms * 1000 : INT64_MAX; /* over: whatever comes is the probe */
    }
    if (runner->breaker.state != BREAKER_CLOSED && !runner->probe_wanted) {
        runner_raise(runner, BAR_BREAKER);
    } else {
        runner_lower(runner, BAR_BREAKER);
    }
    pthread_mutex_unlock(&runner->mutex);
    return again_us;
}

/* ---- The rate -------------------------------------------------------------------------------- */

/* What this process may begin of the rate is used up, and something is ready: takes some more from
 * the store, what can begin in RATE_SHARE_US, so that a process that dies has not taken much. */
static void ask_rate(struct runner *runner, const struct turn *turn)
{
    const hf_subscription_options *options = &runner->definition.options;
    int64_t share = options->rate_events * RATE_SHARE_US / (options->rate_ms * 1000);
    pthread_mutex_lock(&runner->mutex);
    int64_t left = runner_rate_left(runner);
    int64_t ready = runner->window.ready;
    pthread_mutex_unlock(&runner->mutex);
    runner->rate_wake_us = INT64_MAX;
    if (options->rate_events == 0 || left > 0 || ready == 0) {
        return;
    }
    share = share < 1 ? 1 : share;
    struct rate_take take = {
        .change = {.kind = CHANGE_RATE_TAKE, .relaxed = true, .now_us = clock_wall_us()},
        .subscription_id = runner->definition.id,
        .events = options->rate_events,
        .period_us = options->rate_ms * 1000,
        .want = (ready < share ? ready : share) - left,
    };
    hf_status status = runner_run(runner, &take.change);
    if (status) {
        runner_store_failed(runner, status, "take a share of the rate");
        return;
    }
    pthread_mutex_lock(&runner->mutex);
    runner->rate_left = left + take.ret_granted;
    runner->rate_until_us = clock_mono_us() + LIMITER_BURST_US;
    if (runner->rate_left <= 0) {
        int64_t wait_us = take.ret_wait_us > RATE_WAIT_US ? take.ret_wait_us : RATE_WAIT_US;
        runner->rate_wake_us = turn->mono_us + wait_us;
    }
    pthread_mutex_unlock(&runner->mutex);
}

/* ---- Handlers that are stuck ----------------------------------------------------------------- */

/* Are so many handlers past their time that the subscription is to be paused? The mutex is held. */
static bool has_stuck(const struct runner *runner)
{
    return runner->stuck >= runner->definition.options.stuck_max &&
           runner->definition.paused_at_us < 0;
}

static void pause_for_stuck(struct runner *runner)
{
    char reason[128];
    snprintf(reason, sizeof reason, "%d handlers are past their timeout and have not returned",
             runner->definition.options.stuck_max);
    runner_pause(runner, reason);
}

/* ---- Survey and perform ---------------------------------------------------------------------- */

static struct situation survey(struct runner *runner, const struct turn *turn)
{
    struct situation situation = {
        .phase = runner->phase,
        .steps = turn->steps,
        .now_us = turn->now_us,
        .mono_us = turn->mono_us,
        .refresh_us = runner->retry_refresh_us,
        .store_us = runner->retry_store_us,
        .retry_us = INT64_MAX,
        .claim_us = INT64_MAX,
        .wake_us = turn->wake_us,
        .pause_us = runner->pause_us,
    };
    pthread_mutex_lock(&runner->mutex);
    situation.bars = runner_bars(runner);
    situation.needs = atomic_load(&runner->needs); /* after the bars: see runner_raise */
    situation.hand =
        (runner->window.busy > 0 ? HAND_BUSY : 0) | (has_stuck(runner) ? HAND_STUCK : 0) |
        (runner_breaks(runner) || runner->definition.options.rate_events > 0 ? HAND_BREAKS : 0) |
        (runner->worker_count > 0 ? HAND_WORKERS : 0) | (runner->stuck > 0 ? HAND_STRAYS : 0) |
        (runner->aborting ? HAND_ABORTING : 0) | (runner->finish_status ? HAND_OWING : 0);
    pthread_mutex_unlock(&runner->mutex);
    runner->mode->survey(runner, &situation);
    return situation;
}

enum action turn_next(struct runner *runner, const struct turn *turn)
{
    struct situation situation = survey(runner, turn);
    return plan(&situation).action;
}

static void perform(struct runner *runner, enum action action, struct turn *turn)
{
    turn->steps &= ~STEP(action);
    switch (action) {
    case ACTION_REFRESH:
        runner_refresh(runner, turn->mono_us);
        HF_POINT("after_refresh");
        break;
    case ACTION_PAUSE:
        pause_for_stuck(runner);
        break;
    case ACTION_BREAKER:
        store_breaker(runner, turn->now_us);
        turn_wake(turn, ask_breaker(runner, turn->now_us));
        ask_rate(runner, turn);
        break;
    case ACTION_DROP:
    case ACTION_CHECK:
    case ACTION_ADMIT:
    case ACTION_TEND:
    case ACTION_RESET:
    case ACTION_SETTLE:
    case ACTION_RETRIES:
    case ACTION_LOG:
        runner->mode->perform(runner, action, turn);
        break;
    case ACTION_WAIT:
    case ACTION_TURN:
    case ACTION_END:
    case ACTION_RESUME:
    case ACTION_FINISH:
    case ACTION_RETIRE:
    case ACTION_LEAVE:
        break; /* the turn ends: runner_turn */
    }
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* How long the runner may wait while something is in hand: what begins or ends meanwhile has
 * its own times (a checkpoint, a stall), for which no thread calls it; but workers call it for what
 * is to be stored sooner than RUNNER_PROMPT_MS. */
static int64_t tend_ms(const struct runner *runner)
{
    int64_t store_ms = runner_checkpoint_us(runner) / 1000;
    return store_ms >= RUNNER_PROMPT_MS && store_ms < TEND_MS ? store_ms : TEND_MS;
}

/* How long the runner waits, if nothing happens. Where the store looks as often and makes news of
 * what it finds, that does for all subscriptions at once. The looks of many runners together come
 * every LOOK_APART_MS, at times of their own: most of them find nothing, and what they are for (a
 * foreign program, a ring that was lost) is rare. */
static int64_t wait_ms(const struct runner *runner)
{
    int64_t period_ms = runner->definition.options.wait_period_ms;
    int64_t look_ms = store_look_ms(runner->bus->store);
    int64_t runners = dispatchers_seats(&runner->bus->dispatchers);
    if (look_ms > 0 && period_ms >= look_ms) {
        return WAIT_MS_MAX;
    }
    if (runners < RUNNERS_MANY || period_ms >= runners * LOOK_APART_MS) {
        return period_ms;
    }
    int64_t half_ms = runners * LOOK_APART_MS / 2;
    uint64_t chance = hash_mix((uint64_t)runner->definition.id ^ (uint64_t)clock_mono_us());
    return half_ms + (int64_t)(chance % (uint64_t)(2 * half_ms));
}

/* The runner's time has come: it looks at everything, because not everything makes news: a hole
 * that ends, for one. If it was only to tend what is in hand, or to store, and has looked not long
 * ago, it need not. The mutex is held. */
static bool look_around(struct runner *runner)
{
    int64_t mono_us = clock_mono_us();
    int64_t period_ms = runner_has_work(runner) ? TEND_MS : wait_ms(runner);
    bool looks =
        deadline_passed(runner->look_deadline) || mono_us - runner->looked_us >= period_ms * 1000;
    if (looks) {
        bool many = dispatchers_seats(&runner->bus->dispatchers) >= RUNNERS_MANY;
        runner->looked_us = mono_us;
        runner_need(runner, many ? NEEDS_OF_NEWS : NEED_DEFINITION | NEEDS_OF_NEWS);
    }
    return looks;
}

static struct deadline deadline_at(int64_t wall_us)
{
    int64_t now_us = clock_wall_us();
    if (wall_us == INT64_MAX) {
        return DEADLINE_NEVER;
    }
    return deadline_after_ms(wall_us <= now_us ? 0 : (wall_us - now_us + 999) / 1000);
}

/* Until when the runner waits, if it is not called (monotonic). Its clock is the time that the plan
 * names, or the wait period as the backstop for everything else. */
static int64_t wake_at(struct runner *runner, const struct turn *turn)
{
    struct deadline deadline = deadline_after_ms(wait_ms(runner));
    deadline = deadline_earlier(deadline, deadline_at(turn->wake_us));
    runner->look_deadline = deadline;
    deadline = deadline_earlier(deadline, deadline_at(turn->store_us));
    pthread_mutex_lock(&runner->mutex);
    if (runner_has_work(runner)) {
        deadline = deadline_earlier(deadline, deadline_after_ms(tend_ms(runner)));
    }
    pthread_mutex_unlock(&runner->mutex);
    return deadline_earlier(deadline, (struct deadline){runner->rate_wake_us}).mono_us;
}

/* The same in a phase that waits for something else than work. */
static int64_t pause_end(int64_t wake_us)
{
    int64_t left_us = wake_us - clock_wall_us();
    return wake_us == INT64_MAX ? INT64_MAX : clock_mono_us() + (left_us > 0 ? left_us : 0);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* How often a turn without news looks at the definition. The turns of many runners are apart from
 * each other by themselves, above all while they start. */
static int64_t refresh_us(const struct runner *runner)
{
    int64_t apart_us = runner_apart_us(runner);
    return apart_us > REFRESH_US ? apart_us : REFRESH_US;
}

static struct turn begin_turn(struct runner *runner, bool by_clock)
{
    struct turn turn = {
        .now_us = clock_wall_us(),
        .mono_us = clock_mono_us(),
        .wake_us = INT64_MAX,
        .store_us = INT64_MAX,
    };
    char trouble[sizeof runner->trouble];
    pthread_mutex_lock(&runner->mutex);
    /* Before what is found is handed out it is asked whether anything has changed. */
    uint32_t needs = atomic_load(&runner->needs) & ~(uint32_t)(NEED_MEMBERS_SOON | NEED_CHECKPOINT);
    uint32_t others = needs & ~(uint32_t)(NEED_TURN | NEED_LOG);
    bool looks = by_clock && look_around(runner);
    bool only_events = others == 0 && !looks && !runner_has_work(runner);
    memcpy(trouble, runner->trouble, sizeof trouble);
    runner->trouble[0] = '\0';
    runner_take(runner, NEED_TURN);
    chunk_report_all(runner, turn.mono_us);
    pthread_mutex_unlock(&runner->mutex);
    runner_log_notices(runner);
    if (trouble[0]) {
        runner_say(runner, HF_LOG_ERROR, "%s", trouble);
    }
    if (turn.mono_us - runner->refreshed_us >= refresh_us(runner) && !only_events) {
        runner_need(runner, NEED_STANDING);
    }
    if (turn.mono_us >= runner->retry_store_us) {
        turn.steps = runner->mode->steps | STEP(ACTION_PAUSE) | STEP(ACTION_BREAKER);
    }
    return turn;
}

/* Sees to the workers. */
static void end_turn(struct runner *runner, struct turn *turn)
{
    pthread_mutex_lock(&runner->mutex);
    runner_signal_work(runner);
    if (runner->rest_until_us > 0) {
        turn_wake(turn, turn->now_us + (runner->rest_until_us - turn->mono_us));
        if (runner->rest_until_us <= turn->mono_us) {
            runner->rest_until_us = 0;
        }
    }
    pthread_mutex_unlock(&runner->mutex);
    HF_POINT("after_step");
}

struct seat_next runner_turn(struct seat *seat, bool by_clock)
{
    struct runner *runner = (struct runner *)((char *)seat - offsetof(struct runner, seat));
    bool works = runner->phase == PHASE_WORK;
    tail_serve(runner->bus->tail);
    struct turn turn = begin_turn(runner, by_clock && works);
    struct plan next;
    for (;;) {
        struct situation situation = survey(runner, &turn);
        next = plan(&situation);
        if (next.action < ACTION_REFRESH) {
            break;
        }
        perform(runner, next.action, &turn);
        dispatchers_moved(seat);
    }
    if (works) {
        end_turn(runner, &turn);
    }
    switch (next.action) {
    case ACTION_WAIT:
        turn_wake(&turn, next.wake_us);
        runner_put_away(runner);
        return (struct seat_next){SEAT_WAIT,
                                  works ? wake_at(runner, &turn) : pause_end(next.wake_us)};
    case ACTION_TURN:
        return (struct seat_next){.kind = SEAT_AGAIN};
    default:
        return (struct seat_next){.kind = runner_end_phase(runner, next.action) ? SEAT_AGAIN
                                                                                : SEAT_LEAVE};
    }
}
