/*
 * keeper.c - the thread that listens, shows signs of life and keeps the house. See keeper.h; what
 * other threads call is in calls.c.
 *
 * Wake-ups
 *   store_news() is a number in memory. It changes when this process commits something that rings,
 *   when a notification comes, and when the keeper sees that the log's head has moved.
 *   A NOTIFY in every publishing transaction would serialise the commits of the whole cluster. So
 *   it is sent after our group commit, by this thread, many at a time, and only if a consumer
 *   sleeps; publishers in SQL (holdfast.publish) do it in their own transaction, only if one does.
 *   To sleep is to declare it (a flag that expires). An event is not overlooked:
 *
 *     committed before the flag was set: after setting it the keeper looks at the head. It has
 *         moved since the last look that found no publisher under way, so the news changes and
 *         consumers read once more. (A look that found one proves nothing about the head that it
 *         saw: that was drawn, and may be committed since.)
 *     published before, committed later (it has looked at the flag already, and does not notify):
 *         its transaction holds the sequence's lock. The keeper reads the holders after setting the
 *         flag, and lets the consumers read again every POLL_MS until those are gone;
 *     published after: it sees the flag.
 *
 *   To look at the flag is a round trip, as dear as eight publishes of many threads. While no
 *   consumer has slept for a minute the keeper looks every RING_ALONE_MS only: the event that finds
 *   the first one asleep may come so much later.
 *
 *   While many notifications come the flag is taken back: a process that works needs no alarm. So
 *   a process that receives one must declare anew: another may have taken the flag back. The same
 *   goes for few notifications of many publishers at once: each waits for the one before it to be
 *   on disk, so on a slow disk they are few because of us. Until the crowd has gone the head is
 *   looked at every CROWD_GLANCE_MS instead, by a glance: to ask who is under way goes through all
 *   locks of the server, at the expense of those who take some. A moving head is news enough; what
 *   is committed late behind it is a hole, which the reader of the log watches by itself. If the
 *   head stands still there is a look at once, and one every CROWD_LOOK_MS in any case. A process
 *   that dies asleep leaves its flag for at most SLEEP_MS: until then publishers notify without
 *   need, which costs them a little and nothing else.
 *
 * Signs of life
 *   The advisory lock on this connection says that the process lives; it vanishes with the process.
 *   The number of beats says that it is not frozen; it rises while the bus says that it is alive
 *   (store_alive), three times per lease, and is the node's heartbeat. If the connection is lost,
 *   others may take over at once; fencing keeps that safe.
 *
 * Looking
 *   Some things ring no bell: a process that died before it could, or that dies now; a change that
 *   was made without the library. So every look also brings a number that changes with the
 *   definitions and with the company of this process, and a new number is news; so is another time
 *   at which the next timer is due. Beat, declaration and look are one statement, for all
 *   subscriptions: an idle process makes one per IDLE_MS. While a runner stands by for an owner in
 *   another process, there is one per GUARD_MS. Opening makes none: a process that publishes and
 *   ends has no use for it, and the first thread that waits causes one.
 *
 * The house: months ahead of time, the journal's rotation, the rows of dead processes, and sessions
 * of this process that have not been used for a while.
 *
 * Beginning
 *   A store begins with its keeper. One that is brief does not: a program that publishes or looks,
 *   and ends, needs no second session, whose making costs the server more than all the rest. There
 *   the keeper begins with what needs it: the first wait, the first change that gets the process
 *   what others take back from the dead (apply.c), or, after a while, any sign of life. Until then
 *   events are told to others on the session that has published them.
 *
 * Whatever fails here is tried again; the engine works without the keeper, only wake-ups are late.
 */
#include "store/postgres/keeper/keeper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/postgres/postgres.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

#define MS INT64_C(1000)
#define IDLE_MS KEEPER_LOOK_MS
#define DEAF_MS 1000     /* the same where LISTEN is impossible, or locks are hidden */
#define GUARD_MS 800     /* the same while a thread stands by for another process */
#define SLEEP_MS 30000   /* how long a declaration is good */
#define POLL_MS 50       /* between two reads while old publishers are not over */
#define RING_MS 1        /* between two notifications */
#define RING_ALONE_MS 20 /* the same while no consumer has slept for SLEEPER_MS */
#define SLEEPER_MS 60000
#define DECLARE_MS 10        /* between two declarations in a flood */
#define HOUSE_MS 3600000     /* between two rounds through the house */
#define HOUSE_AGAIN_MS 60000 /* the same if another process was in the way */
#define ROTATE_MS 250        /* between two looks at the journal's size */
#define ROTATE_COMMITS 200   /* commits since the last such look, without which there is none */
#define STATEMENT_MS 10000
#define RETRY_MS 500           /* after a failed connection */
#define NOTIFY_EVENTS "events" /* what ring() sends: there are new events, and nothing else */
#define BEAT_MIN_MS 10
#define BEATS_PER_LEASE 3
#define FLOOD_MS 100 /* so many notifications in such a time are a flood */
#define FLOOD_COUNT 100
#define CROWD_COUNT 4      /* so many publishers at once are a crowd */
#define CROWD_MS 500       /* how long they are a crowd after they were seen */
#define CROWD_GLANCE_MS 25 /* between two glances in a crowd */
#define CROWD_LOOK_MS 50   /* between two looks in a crowd */
#define UNDER_WAY 2        /* the column of keeper_look that names publishers */
#define FAKE_WAIT_MS 5

/* ---- Looking --------------------------------------------------------------------------------- */

static int64_t beat_gap_us(struct keeper *keeper)
{
    int64_t lease_ms = atomic_load(&keeper->lease_ms);
    int64_t gap_ms = lease_ms / BEATS_PER_LEASE;
    gap_ms = gap_ms > IDLE_MS ? IDLE_MS : gap_ms < BEAT_MIN_MS ? BEAT_MIN_MS : gap_ms;
    return gap_ms * MS;
}

/* A publisher that takes long is looked at less and less often. */
static int64_t poll_gap_us(const struct keeper *keeper)
{
    int64_t gap_us = (keeper->look_at_us - keeper->watch_at_us) / 8;
    return gap_us < POLL_MS * MS ? POLL_MS * MS : gap_us > DEAF_MS * MS ? DEAF_MS * MS : gap_us;
}

static bool is_declared(const struct keeper *keeper, int64_t now_us)
{
    return keeper->declared_until_us > now_us;
}

/* Whether publishers stand in each other's way if they notify. */
static bool is_crowded(const struct keeper *keeper, int64_t now_us)
{
    return keeper->crowded_until_us > now_us;
}

/* In a crowd: has the head moved since it was last seen? Costs the server a read of the sequence,
 * where a look goes through all its locks. */
static hf_status glance(struct postgres_engine *engine, bool *ret_moved)
{
    struct keeper *keeper = &engine->keeper;
    session_params(&keeper->session);
    PGresult *result;
    hf_status status = session_query(&keeper->session, POSTGRES_QUERY_KEEPER_GLANCE, &result);
    if (status) {
        return status;
    }
    int64_t head = result_int8(result, 0, 0, 0);
    PQclear(result);
    *ret_moved = head != keeper->seen;
    keeper->seen = head;
    keeper->seen_at_us = clock_mono_us();
    return HF_OK;
}

/* Takes requests back, because they are being met; answers which of them there were. */
static unsigned take_requests(struct keeper *keeper, unsigned requests)
{
    pthread_mutex_lock(&keeper->mutex);
    unsigned taken = keeper->requests & requests;
    keeper->requests &= ~requests;
    pthread_mutex_unlock(&keeper->mutex);
    return taken;
}

static void fill_look(struct postgres_engine *engine, bool beat, bool declare)
{
    struct keeper *keeper = &engine->keeper;
    struct params *params = session_params(&keeper->session);
    param_uuid(params, engine->token);
    param_text(params, engine->node_name);
    param_bool(params, keeper->locked);
    param_bool(params, beat);
    if (declare) {
        param_int4(params, SLEEP_MS);
    } else {
        param_null(params, PARAM_INT4);
    }
}

/* Notes the head, the other processes and when the next timer is due. Returns whether one of them
 * has changed. */
static bool note_place(struct keeper *keeper, const PGresult *result, int64_t now_us)
{
    int64_t head = result_int8(result, 0, 1, 0);
    int64_t company = result_int8(result, 0, 4, 0);
    int64_t next_due = result_time(result, 0, 5, INT64_MAX);
    bool moved = head != keeper->told || company != keeper->company || next_due != keeper->next_due;
    atomic_fetch_add(&keeper->timers_news, next_due != keeper->next_due);
    atomic_fetch_add(&keeper->other_news, company != keeper->company);
    keeper->next_due = next_due;
    keeper->company = company;
    keeper->under_way = publishers_in(result, UNDER_WAY);
    if (is_crowded(keeper, now_us) && keeper->under_way >= CROWD_COUNT && head != keeper->looked) {
        keeper->crowded_until_us = now_us + CROWD_MS * MS;
    }
    keeper->looked = head;
    keeper->seen = head;
    keeper->seen_at_us = now_us;
    keeper->blind = result_is_null(result, 0, UNDER_WAY);
    keeper->told = !keeper->blind && keeper->under_way == 0 ? head : -1;
    return moved;
}

/* Notes the publishers whose end is waited for. `fresh`: all that run now are. */
static void note_publishers(struct keeper *keeper, const PGresult *result, bool fresh)
{
    publishers_keep(&keeper->publishers, result, UNDER_WAY);
    if (fresh || keeper->publishers.cut ||
        (keeper->expecting && publishers_prepared(result, UNDER_WAY))) {
        publishers_note(&keeper->publishers, result, UNDER_WAY);
    }
}

/* Beats, declares and looks, as wanted, in one statement. */
static hf_status look(struct postgres_engine *engine, bool beat, bool declare)
{
    struct keeper *keeper = &engine->keeper;
    int64_t now_us = clock_mono_us();
    bool expect = take_requests(keeper, REQUEST_EXPECT);
    keeper->expecting = keeper->expecting || expect;
    bool fresh = expect || (declare && !is_declared(keeper, now_us));
    bool polling = keeper->publishers.count > 0;
    fill_look(engine, beat, declare);
    if (beat) {
        atomic_store(&keeper->alive, false);
    }
    PGresult *result;
    int64_t asked_us = clock_steady_us();
    hf_status status = session_query(&keeper->session, POSTGRES_QUERY_KEEPER_LOOK, &result);
    if (status) {
        return status;
    }
    bool set_back = skew_see(engine, result_time(result, 0, 3, 0), asked_us, clock_steady_us());
    keeper->look_at_us = now_us;
    keeper->beat_at_us = beat ? now_us : keeper->beat_at_us;
    bool moved = note_place(keeper, result, now_us);
    engine_note_schema(engine, result_int8(result, 0, 6, 0), result_int8(result, 0, 7, 0));
    atomic_fetch_add(&keeper->other_news, set_back);
    if (declare) {
        keeper->flag = result_int8(result, 0, 0, 0);
        keeper->declared_until_us = now_us + SLEEP_MS * MS;
    }
    keeper->watch_at_us = fresh ? now_us : keeper->watch_at_us;
    note_publishers(keeper, result, fresh);
    PQclear(result);
    if (keeper->expecting && keeper->publishers.count == 0 && !keeper->publishers.cut) {
        keeper->expecting = false;
        keeper_ring_appends(engine);
    } else if (moved || polling || set_back) { /* polling: once more after the last has ended */
        keeper_wake(engine);
    }
    return HF_OK;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static hf_status take_lock(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    if (session_has(&keeper->session, SESSION_POOLED) || keeper->locked) {
        return HF_OK;
    }
    param_uuid(session_params(&keeper->session), engine->token);
    PGresult *result;
    hf_status status = session_query_once(&keeper->session, POSTGRES_QUERY_KEEPER_LOCK, &result);
    if (!status) {
        keeper->locked = result_bool(result, 0, 0);
        PQclear(result);
    }
    return status;
}

static hf_status keeper_connect(struct postgres_engine *engine, struct deadline deadline)
{
    struct keeper *keeper = &engine->keeper;
    keeper->locked = false;
    keeper->listening = false;
    keeper->declared_until_us = 0;
    running_forget(&keeper->running);
    keeper->publishers.count = 0;
    keeper->publishers.cut = keeper->expecting; /* who is still waited for: look anew */
    keeper->session.deadline = deadline;
    hf_status status = session_connect(&keeper->session, deadline);
    atomic_fetch_add(&keeper->connects, status == HF_OK);
    if (!status && !session_has(&keeper->session, SESSION_POOLED)) {
        status = session_script(&keeper->session, engine->sql[POSTGRES_QUERY_KEEPER_LISTEN]);
        keeper->listening = status == HF_OK;
    }
    if (!status) {
        status = take_lock(engine);
    }
    bool again = atomic_load(&keeper->connects) > 1;
    if (!status) {
        status = postgres_node_register(engine, &keeper->session, keeper->locked, again);
    }
    if (!status && again) {
        status = look(engine, true, false);
    } else if (!status) {
        keeper->beat_at_us = clock_mono_us(); /* registering is the first sign of life */
    }
    return status;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* What the others want now: enum request. */
static unsigned read_requests(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    unsigned requests = keeper->requests | (keeper->waiters > 0 ? REQUEST_WAITING : 0);
    pthread_mutex_unlock(&keeper->mutex);
    return requests;
}

/* Notifies all; else those that sleep. */
static hf_status ask_ring(struct keeper *keeper, struct session *session, bool all)
{
    PGresult *result;
    HF_POINT("keeper_ring");
    session_params(session);
    hf_status status = session_query(
        session, all ? POSTGRES_QUERY_KEEPER_RING_ALL : POSTGRES_QUERY_KEEPER_RING, &result);
    if (!status) {
        bool sleeps = !all && PQntuples(result) > 0 && result_bool(result, 0, 1);
        if (sleeps && session == &keeper->session) { /* else it is not the keeper's thread */
            keeper->sleeper_at_us = clock_real_us();
        }
        PQclear(result);
    }
    return status;
}

/* How long after one notification the next may come. */
static int64_t ring_apart_us(const struct keeper *keeper, unsigned requests, int64_t real_us)
{
    bool alone = !(requests & REQUEST_RING) && real_us - keeper->sleeper_at_us > SLEEPER_MS * MS;
    return (alone ? RING_ALONE_MS : RING_MS) * MS;
}

/* REQUEST_RING: notifies all; else those that sleep. */
static hf_status run_ring(struct postgres_engine *engine, struct session *session, bool all)
{
    struct keeper *keeper = &engine->keeper;
    unsigned taken =
        take_requests(keeper, all ? REQUEST_RING | REQUEST_RING_APPENDS : REQUEST_RING_APPENDS);
    hf_status status = ask_ring(keeper, session, all);
    if (status) { /* later, then */
        pthread_mutex_lock(&keeper->mutex);
        keeper->requests |= taken | (all ? REQUEST_RING : REQUEST_RING_APPENDS);
        pthread_mutex_unlock(&keeper->mutex);
    }
    return status;
}

/* ret_done false: an open transaction is in the way. We do not wait for it: processes that get
 * no sign of life from us take us for dead. */
static hf_status make_months(struct postgres_engine *engine, bool *ret_done)
{
    struct session *session = &engine->keeper.session;
    PGresult *result;
    param_int4(session_params(session), engine->namespace_id);
    hf_status status = session_query_once(session, POSTGRES_QUERY_TRY_MONTHS, &result);
    *ret_done = true;
    if (!status) {
        *ret_done = PQntuples(result) == 0 || !PQgetisnull(result, 0, 0);
        PQclear(result);
    }
    return status;
}

static hf_status keep_house(struct postgres_engine *engine, int64_t now_us)
{
    struct keeper *keeper = &engine->keeper;
    hf_status status = HF_OK;
    if (now_us - keeper->house_at_us >= HOUSE_MS * MS) {
        bool done;
        status = make_months(engine, &done);
        keeper->house_at_us = done ? now_us : now_us - (HOUSE_MS - HOUSE_AGAIN_MS) * MS;
        if (!status) {
            param_uuid(session_params(&keeper->session), engine->token);
            status = session_run(&keeper->session, POSTGRES_QUERY_KEEPER_SWEEP);
        }
    }
    int64_t commits = atomic_load_explicit(&engine->commits, memory_order_relaxed);
    if (!status && now_us - keeper->rotated_at_us >= ROTATE_MS * MS &&
        commits - keeper->rotated_commits >= ROTATE_COMMITS) {
        param_int8(session_params(&keeper->session), commits - keeper->rotated_commits);
        keeper->rotated_at_us = now_us;
        keeper->rotated_commits = commits;
        status = session_run(&keeper->session, POSTGRES_QUERY_KEEPER_ROTATE);
    }
    return status;
}

static hf_status take_flag_back(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    param_int8(session_params(&keeper->session), keeper->flag);
    return session_run(&keeper->session, POSTGRES_QUERY_KEEPER_AWAKE);
}

/* The next look: when it is due (INT64_MAX: not before something happens), and what it is to do. */
struct plan {
    int64_t at_us;
    bool beat;
    bool declare;
    bool glance; /* a glance is enough, if it finds that the head has moved */
};

static void not_later(struct plan *plan, int64_t at_us)
{
    plan->at_us = at_us < plan->at_us ? at_us : plan->at_us;
}

/* For a thread that sleeps, although publishers have not been told that: declare it at once, but
 * less often in a flood of notifications, and only look at the head in a crowd. */
static void plan_undeclared(const struct keeper *keeper, unsigned requests, int64_t now_us,
                            struct plan *plan)
{
    bool crowded = is_crowded(keeper, now_us);
    int64_t gap_ms = crowded ? CROWD_GLANCE_MS : keeper->notified >= FLOOD_COUNT ? DECLARE_MS : 0;
    int64_t next_us = keeper->seen_at_us + gap_ms * MS;
    plan->at_us = gap_ms > 0 && next_us > now_us ? next_us : now_us;
    plan->glance = crowded && !plan->beat && !(requests & REQUEST_EXPECT) && !keeper->expecting &&
                   now_us - keeper->look_at_us < CROWD_LOOK_MS * MS;
}

static struct plan plan_look(struct keeper *keeper, unsigned requests, int64_t now_us)
{
    bool waiting = requests & REQUEST_WAITING;
    bool sleeps = waiting && keeper->listening;
    int64_t beat_us = keeper->beat_at_us + beat_gap_us(keeper);
    bool wants_beat = atomic_load(&keeper->alive) || waiting;
    struct plan plan = {
        .at_us = wants_beat ? beat_us : keeper->beat_at_us + HOUSE_MS * MS / 2,
        .beat = beat_us <= now_us,
        .declare = sleeps && !is_crowded(keeper, now_us) &&
                   keeper->declared_until_us - now_us < (SLEEP_MS - IDLE_MS / 2) * MS,
    };
    if (requests & REQUEST_EXPECT) {
        not_later(&plan, keeper->look_at_us + POLL_MS * MS);
    }
    if (sleeps && !is_declared(keeper, now_us)) {
        plan_undeclared(keeper, requests, now_us, &plan);
    } else if (keeper->publishers.count > 0) {
        not_later(&plan, keeper->look_at_us + poll_gap_us(keeper));
    } else if (waiting && (!keeper->listening || keeper->blind)) {
        not_later(&plan, keeper->look_at_us + DEAF_MS * MS);
    }
    if (atomic_load(&keeper->guard_until_us) > now_us) {
        not_later(&plan, keeper->look_at_us + GUARD_MS * MS);
    }
    return plan;
}

/* Looks as planned. Where nothing has moved a glance proves nothing: who is under way must be
 * known. */
static hf_status carry_out(struct postgres_engine *engine, const struct plan *plan)
{
    struct keeper *keeper = &engine->keeper;
    hf_status status = keeper->locked ? HF_OK : take_lock(engine);
    bool moved = false;
    if (!status && plan->glance) {
        status = glance(engine, &moved);
    }
    if (moved) {
        keeper_wake(engine);
    } else if (!status) {
        status = look(engine, plan->beat, plan->declare);
    }
    return status;
}

/* Everything that is due. `*ret_wait_us`: how long nothing will be. */
static hf_status work(struct postgres_engine *engine, unsigned requests, int64_t *ret_wait_us)
{
    struct keeper *keeper = &engine->keeper;
    int64_t now_us = clock_mono_us();
    hf_status status = HF_OK;
    hf_status rung = HF_OK;
    int64_t wait_us = IDLE_MS * MS;
    keeper->session.deadline = deadline_after_ms(STATEMENT_MS);
    if (requests & (REQUEST_RING | REQUEST_RING_APPENDS)) {
        int64_t real_us = clock_real_us();
        int64_t left_us = keeper->rung_at_us + ring_apart_us(keeper, requests, real_us) - real_us;
        if (left_us <= 0) {
            keeper->rung_at_us = real_us;
            rung = run_ring(engine, &keeper->session, requests & REQUEST_RING);
            status = session_is_lost(&keeper->session) ? rung : HF_OK; /* signs of life go on */
        } else {
            wait_us = left_us;
        }
    }
    struct plan plan = plan_look(keeper, requests, now_us);
    if (!status && plan.at_us <= now_us) {
        status = carry_out(engine, &plan);
        plan = plan_look(keeper, requests, now_us);
    }
    if (!status) {
        status = keep_house(engine, now_us);
    }
    if (!status) {
        status = running_tell(engine, now_us, &wait_us);
    }
    if (plan.at_us - now_us < wait_us) {
        wait_us = plan.at_us > now_us ? plan.at_us - now_us : 0;
    }
    *ret_wait_us = wait_us;
    return status ? status : rung;
}

/* Takes the notifications that have come, also those that came with the answers to statements. If
 * there were any there is no time to wait. */
static hf_status receive(struct postgres_engine *engine, int64_t *ret_wait_us)
{
    struct keeper *keeper = &engine->keeper;
    PGconn *pg = keeper->session.pg;
    int32_t received = 0;
    bool others = false;
    if (!PQconsumeInput(pg)) {
        return fail(HF_UNAVAILABLE, "%s: the keeper's connection was lost", engine->place);
    }
    for (PGnotify *notify = PQnotifies(pg); notify; notify = PQnotifies(pg)) {
        bool foreign = notify->be_pid != PQbackendPID(pg);
        received += foreign;
        others = others || (foreign && strcmp(notify->extra, NOTIFY_EVENTS) != 0);
        PQfreemem(notify);
    }
    if (received == 0) {
        return HF_OK;
    }
    int64_t now_us = clock_real_us();
    if (now_us - keeper->notified_at_us >= FLOOD_MS * MS) {
        keeper->notified_at_us = now_us;
        keeper->notified = 0;
    }
    keeper->notified += received;
    int64_t mono_us = clock_mono_us();
    if (keeper->under_way >= CROWD_COUNT) {
        keeper->crowded_until_us = mono_us + CROWD_MS * MS;
    }
    bool declared = is_declared(keeper, mono_us);
    bool flood = keeper->notified >= FLOOD_COUNT || is_crowded(keeper, mono_us);
    keeper->declared_until_us = 0;
    atomic_fetch_add(&keeper->other_news, others);
    keeper_wake(engine);
    *ret_wait_us = 0;
    return declared && flood ? take_flag_back(engine) : HF_OK;
}

/* Waits for the server, for the others, or for the time. */
static void rest(struct keeper *keeper, int64_t wait_us, bool connected)
{
    struct pollfd fds[2] = {
        {.fd = keeper->wake_fd, .events = POLLIN},
        {.fd = connected ? PQsocket(keeper->session.pg) : -1, .events = POLLIN},
    };
    if (clock_is_fake() && wait_us > FAKE_WAIT_MS * MS) {
        wait_us = FAKE_WAIT_MS * MS; /* time may pass at any moment */
    }
    poll(fds, 2, (int)((wait_us + MS - 1) / MS));
    if (fds[0].revents) {
        uint64_t count;
        ssize_t got = read(keeper->wake_fd, &count, sizeof count);
        (void)got; /* the descriptor is non-blocking */
    }
}

/* How long the next attempt to connect may take. A server that is slow to take connections would
 * never see us again, and others would take us for dead; one that is away is not waited for. */
static int64_t longer_ms(const struct keeper *keeper, hf_status status, int64_t connect_ms)
{
    if (status != HF_TIMEOUT && !keeper->session.unanswered) {
        return KEEPER_CONNECT_MS;
    }
    return 2 * connect_ms < STATEMENT_MS ? 2 * connect_ms : STATEMENT_MS;
}

static void *keeper_main(void *ctx)
{
    struct postgres_engine *engine = ctx;
    struct keeper *keeper = &engine->keeper;
    int64_t connect_ms = KEEPER_CONNECT_MS;
    bool told = false;
    for (;;) {
        unsigned requests = read_requests(keeper);
        if (requests & REQUEST_STOP) {
            return NULL;
        }
        int64_t wait_us = RETRY_MS * MS;
        hf_status status = HF_OK;
        if (!session_is_up(&keeper->session) || era_is_over(&keeper->session)) {
            session_close(&keeper->session);
            status = keeper_connect(engine, deadline_after_ms(connect_ms));
            connect_ms = longer_ms(keeper, status, connect_ms);
            if (!status) {
                atomic_fetch_add(&keeper->timers_news, 1);
                atomic_fetch_add(&keeper->other_news, 1);
                keeper_wake(engine); /* who knows what we missed */
            } else {
                session_close(&keeper->session); /* no half of what it should be: once more */
            }
        }
        if (!status) {
            status = work(engine, requests, &wait_us);
        }
        if (!status) {
            status = receive(engine, &wait_us);
        }
        if (status && !told) {
            log_about(engine->log, HF_LOG_WARN, NULL, "keeper: %s", err_message());
        }
        told = status != HF_OK;
        session_pool_trim(engine);
        bool connected = keeper->session.pg && PQstatus(keeper->session.pg) == CONNECTION_OK;
        rest(keeper, status == HF_OK ? wait_us : RETRY_MS * MS, connected && !status);
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

hf_status keeper_init(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    hf_status status = mutex_init(&keeper->mutex);
    if (status) {
        return status;
    }
    status = cond_init(&keeper->cond);
    if (status) {
        pthread_mutex_destroy(&keeper->mutex);
        return status;
    }
    keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->wake_fd < 0) {
        pthread_cond_destroy(&keeper->cond);
        pthread_mutex_destroy(&keeper->mutex);
        return fail(HF_NOMEM, "cannot make an eventfd: %s", strerror(errno));
    }
    session_init(&keeper->session, engine, SESSION_KEEPER);
    atomic_store(&keeper->news, 1);
    atomic_store(&keeper->lease_ms, BEATS_PER_LEASE * engine->node.heartbeat_ms);
    keeper->told = -1;
    keeper->open_us = clock_real_us();
    keeper->life = KEEPER_WANTED;
    return HF_OK;
}

static void keeper_release(struct keeper *keeper)
{
    session_release(&keeper->session);
    close(keeper->wake_fd);
    keeper->wake_fd = -1;
    pthread_cond_destroy(&keeper->cond);
    pthread_mutex_destroy(&keeper->mutex);
    keeper->life = KEEPER_NONE;
}

static enum keeper_life read_life(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    enum keeper_life life = keeper->life;
    pthread_mutex_unlock(&keeper->mutex);
    return life;
}

static void set_life(struct keeper *keeper, enum keeper_life life)
{
    pthread_mutex_lock(&keeper->mutex);
    keeper->life = life;
    pthread_cond_broadcast(&keeper->cond);
    pthread_mutex_unlock(&keeper->mutex);
}

bool keeper_is_running(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    return keeper->life != KEEPER_NONE && read_life(keeper) == KEEPER_RUNS;
}

/* Whether it is the caller who makes it begin; if not it runs, or the time is over. */
static bool may_begin(struct keeper *keeper, struct deadline deadline)
{
    pthread_mutex_lock(&keeper->mutex);
    while (keeper->life == KEEPER_BEGINS && !deadline_passed(deadline)) {
        cond_wait_until(&keeper->cond, &keeper->mutex, deadline);
    }
    bool begin = keeper->life == KEEPER_WANTED;
    keeper->life = begin ? KEEPER_BEGINS : keeper->life;
    pthread_mutex_unlock(&keeper->mutex);
    return begin;
}

hf_status keeper_start(struct postgres_engine *engine, struct deadline deadline)
{
    struct keeper *keeper = &engine->keeper;
    if (!may_begin(keeper, deadline)) {
        return keeper_is_running(engine)
                   ? HF_OK
                   : fail(HF_TIMEOUT, "%s: no session for signs of life in time", engine->place);
    }
    hf_status status = keeper_connect(engine, deadline);
    keeper->house_at_us = clock_mono_us() - HOUSE_MS * MS; /* due at once */
    if (!status) {
        status = thread_start(&keeper->thread, "hf-keeper", keeper_main, engine);
    }
    if (status) {
        session_close(&keeper->session);
    }
    set_life(keeper, status ? KEEPER_WANTED : KEEPER_RUNS);
    return status;
}

void keeper_ring_instead(struct postgres_engine *engine, struct session *session)
{
    struct keeper *keeper = &engine->keeper;
    bool replaced = keeper->life != KEEPER_NONE && !keeper_is_running(engine);
    unsigned requests = replaced ? read_requests(keeper) : 0;
    if (requests & (REQUEST_RING | REQUEST_RING_APPENDS)) {
        (void)run_ring(engine, session, requests & REQUEST_RING); /* else with what comes next */
    }
}

void keeper_stop(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    if (keeper->life == KEEPER_NONE) {
        return;
    }
    if (read_life(keeper) != KEEPER_RUNS) {
        keeper_release(keeper);
        return;
    }
    pthread_mutex_lock(&keeper->mutex);
    keeper->requests |= REQUEST_STOP;
    pthread_mutex_unlock(&keeper->mutex);
    keeper_poke(keeper);
    pthread_join(keeper->thread, NULL);
    /* What was rung last, closing included, is still to be told. Publishers must not go on to
     * notify a process that has gone; others that sleep are woken by it and declare anew. */
    unsigned requests = read_requests(keeper);
    bool declared = keeper->flag != 0;
    bool rings = requests & (REQUEST_RING | REQUEST_RING_APPENDS);
    if ((rings || declared) && session_is_up(&keeper->session)) {
        keeper->session.deadline = deadline_after_ms(STATEMENT_MS / 10);
        if (declared) {
            take_flag_back(engine);
        }
        run_ring(engine, &keeper->session, declared || (requests & REQUEST_RING));
    }
    keeper_release(keeper);
}

void keeper_abandon(struct keeper *keeper)
{
    if (keeper->wake_fd >= 0) {
        close(keeper->wake_fd);
        keeper->wake_fd = -1;
    }
}
