/*
 * apply.c - a list of changes on the writer's session. See engine.h for the contract.
 *
 * The list goes through rounds (round.h), a round trip each, until every change has its answer.
 * Mostly the first one is all; what failed in it for a passing reason goes through the next, in
 * smaller portions:
 *
 *     round 1   plain appends together, listed ones, and firings; exact appends together; others
 *               one by one
 *     round 2   all appends together, the exact way (an id was repeated, a month was missing ...)
 *     round 3   every append for itself (another transaction holds one of the ids)
 * (firings are one by one from round 2 on)
 *
 * Locks are waited for only briefly (commit_mode.h), for the group's sake. A change that still
 * meets one answers HF_BUSY with `again` set, and its own thread hands it over again (store.c).
 *
 * When the connection is lost
 *   What has had an answer from the server keeps it. Appends that have not are appended again, the
 *   exact way: the ids tell what happened, because the unique index waits for an old transaction
 *   that is still about to commit. If that fails, too, they stay `doubtful`, and store.c answers
 *   HF_UNKNOWN. For other changes that cannot be known: HF_UNKNOWN at once. What was not sent, or
 *   was refused by a server that shuts down, is simply sent again; a pooler's refusal says nothing
 *   of the server's. A commit is never cancelled: when its time is over the connection is closed,
 *   and the answer is HF_UNKNOWN.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "store/common/change.h"
#include "store/postgres/postgres.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/round.h"
#include "store/postgres/write/migrate.h"

#define LOST_MAX 8 /* connections that one list may lose */

static bool any_open(const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (change_is_open(at)) {
            return true;
        }
    }
    return false;
}

/* Answers all that are in a state, with the thread's message. */
static void answer_all(struct change *changes, hf_status state, hf_status status)
{
    for (struct change *at = changes; at; at = at->next) {
        if (at->status == state) {
            change_answer(at, status);
        }
    }
}

/* Until when to wait for another connection. The deadline is that of the leader, whose change is
 * the first: it does not count for the others. */
static struct deadline until_when(const struct round *round, struct deadline deadline)
{
    return any_open(round->changes->next) ? round->session->deadline : deadline;
}

/* The connection is lost. If there is to be another, makes what is only appends now open for
 * one more round; if not, or it cannot be had, answers everything. */
static hf_status recover(struct round *round, hf_status why, bool connect, struct deadline deadline)
{
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    round_lost(round);
    hf_status status = connect ? session_connect(round->session, until_when(round, deadline))
                               : err_set(why, message);
    if (status) {
        answer_all(round->changes, NOT_BEGUN, status);
        snprintf(message, sizeof message, "%s", err_message());
        (void)fail(HF_UNKNOWN, "it is not known whether the events were stored: %s", message);
        answer_all(round->changes, SENT, HF_UNKNOWN);
        return status;
    }
    for (struct change *at = round->changes; at; at = at->next) {
        at->status = at->status == SENT ? NOT_BEGUN : at->status;
    }
    return HF_OK;
}

/* Until every change has its answer. */
static void run_rounds(struct round *round, struct deadline deadline)
{
    int lost = 0;
    for (;;) {
        round->now_us = clock_wall_us();
        hf_status status = round_run(round);
        if (!status && !any_open(round->changes)) {
            return;
        }
        if (!status && round->portion != PORTION_SINGLE && session_is_up(round->session)) {
            round->portion++;
            continue;
        }
        if (!status) {
            /* Lost, or refused what there is no smaller portion of: another one may do better. */
            session_close(round->session);
            status = fail(HF_UNAVAILABLE, "%s: the connection was lost", round->engine->place);
        }
        bool connect = status == HF_UNAVAILABLE && ++lost <= LOST_MAX;
        if (recover(round, status, connect, deadline) != HF_OK) {
            return;
        }
        /* What may have happened is only told by the exact way. */
        round->portion = round->portion == PORTION_BUNDLE ? PORTION_TOGETHER : round->portion;
    }
}

/* What may have happened is news, too: processes that see it need not wait for their next look. */
static void ring_doubts(struct round *round)
{
    for (const struct change *at = round->changes; at; at = at->next) {
        if (at->status == HF_UNKNOWN || (at->status && at->doubtful)) {
            round_ring(round, at);
        }
    }
}

/* The shortest lease that depends on signs of life says how often to show them. */
static void note_leases(struct postgres_engine *engine, const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (at->kind == CHANGE_ACQUIRE) {
            keeper_lease(engine, ((const struct acquire *)at)->lease_ms);
        } else if (at->kind == CHANGE_MEMBERS_REFRESH) {
            keeper_lease(engine, ((const struct members_refresh *)at)->lease_ms);
        } else if (at->kind == CHANGE_CLAIM && ((const struct claim *)at)->kept) {
            keeper_lease(engine, ((const struct claim *)at)->lease_ms);
        }
    }
}

/* What a change needs others to know of this process. */
enum presence {
    PRESENCE_NONE,
    PRESENCE_PASSING, /* that it was there: times of leases and retries depend on the change, which
                         are looked after if the server's clock is set back (clock_mind) */
    PRESENCE_LIVING   /* before the change, that it lives: it gets something that others take back
                         from the dead */
};

static enum presence presence_for(const struct change *change)
{
    const struct claim *claim = (const struct claim *)change;
    switch (change->kind) {
    case CHANGE_MEMBERS_REFRESH:
    case CHANGE_ACQUIRE:
    case CHANGE_GIVE_BACK:
    case CHANGE_DEPART:
    case CHANGE_SETTLE:
    case CHANGE_CHECKPOINTS:
        return PRESENCE_LIVING;
    case CHANGE_CLAIM:
        return claim->bound || claim->kept ? PRESENCE_LIVING : PRESENCE_PASSING;
    case CHANGE_SETTLE_LEASE:
    case CHANGE_RATE_TAKE:
    case CHANGE_CANCEL:
        return PRESENCE_PASSING;
    default:
        return PRESENCE_NONE;
    }
}

static enum presence presence_needed(const struct change *changes)
{
    enum presence most = PRESENCE_NONE;
    for (const struct change *at = changes; at; at = at->next) {
        enum presence one = presence_for(at);
        most = one > most ? one : most;
    }
    return most;
}

/* Says once that this process, which has no keeper, was there. Who may not say so may not make the
 * changes either, and they answer that; what passes is tried again with the next ones. */
static hf_status pass(struct session *session)
{
    struct postgres_engine *engine = session->engine;
    if (engine->passed || keeper_is_running(engine)) {
        return HF_OK;
    }
    PGresult *result;
    session_params(session);
    hf_status status = session_query_once(session, POSTGRES_QUERY_PROCESS_PASS, &result);
    if (!status) {
        PQclear(result);
        engine->passed = true;
    }
    return session_is_lost(session) ? status : HF_OK;
}

static bool has_events(const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (at->kind == CHANGE_APPEND) {
            return true;
        }
    }
    return false;
}

/* Connects the writer's session. If the store is brief, its keeper begins with the first change
 * before which others must know that the process lives. */
static hf_status connect_writer(struct session *session, const struct change *changes,
                                struct deadline deadline)
{
    enum presence presence = presence_needed(changes);
    hf_status status =
        presence == PRESENCE_LIVING ? keeper_start(session->engine, deadline) : HF_OK;
    if (status) {
        return status;
    }
    session->deadline = deadline;
    if (!session_is_up(session) || era_is_over(session)) {
        session_close(session);
        single_take(session);
    }
    status = session_connect(session, deadline);
    return status || presence != PRESENCE_PASSING ? status : pass(session);
}

static hf_status apply_changes(struct postgres_engine *engine, struct change *changes,
                               struct deadline deadline)
{
    struct session *session = &engine->writer;
    session->publishes = has_events(changes);
    hf_status status = connect_writer(session, changes, deadline);
    if (status) {
        return status;
    }
    for (struct change *at = changes; at; at = at->next) {
        at->status = NOT_BEGUN;
    }
    note_leases(engine, changes);
    /* What is under way cannot be taken back: the deadline of the leader counts no longer. */
    struct deadline usual = deadline_after_ms(engine->timeout_ms);
    session->deadline = usual.mono_us > deadline.mono_us ? usual : deadline;
    struct round round = {.engine = engine, .session = session, .changes = changes};
    run_rounds(&round, deadline);
    ring_doubts(&round);
    HF_POINT("after_commit_before_ack");
    if (round.ring) {
        keeper_ring(engine);
    } else if (round.ring_appends) {
        keeper_ring_appends(engine);
    }
    keeper_ring_instead(engine, session);
    return HF_OK;
}

hf_status postgres_apply(struct engine *base, struct change *changes, struct deadline deadline)
{
    struct postgres_engine *engine = postgres_of(base);
    hf_status status = postgres_check_work(engine);
    if (!status) {
        single_enter_writer(engine);
        status = apply_changes(engine, changes, deadline);
        single_leave_writer(engine);
    }
    return status;
}
