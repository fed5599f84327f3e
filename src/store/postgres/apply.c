/*
 * apply.c - a list of changes on the writer's session. See engine.h for the contract.
 *
 * One round trip carries the whole list, as a pipeline of transactions:
 *
 *     [ INSERT of all plain appends ] [ fire(all) ] [ append(...) append(...) ] [ settle(...) ] .
 *
 * All plain appends share one statement and one commit: that is the group commit. So do all firings
 * of schedules. Appends that need the exact way share one transaction too: one that is refused (a
 * version) says so in its row and spoils nothing. Every other change is one call and a transaction
 * of its own, so that one waiting for a lock, or failing, does not take others with it; those that
 * need not wait for the disk (`relaxed`) do not.
 *
 * What failed for a passing reason goes through the next round, in smaller portions:
 *
 *     round 1   plain appends together, firings together, exact appends together, others one by one
 *     round 2   all appends together, the exact way (an id was repeated, a month was missing ...)
 *     round 3   every append for itself (somebody else's transaction holds one of the ids)
 * (firings are one by one from round 2 on)
 *
 * Locks are waited for only briefly (session.c), for the group's sake. A change that still meets
 * one answers HF_BUSY with `again` set, and its own thread hands it over again (store.c).
 *
 * When the connection is lost
 *   What has had an answer from the server keeps it. Appends that have not are appended again, the
 *   exact way: the ids tell what happened, because the unique index waits for an old transaction
 *   that is still about to commit. If that fails, too, they stay `doubtful`, and store.c answers
 *   HF_UNKNOWN. For other changes nobody can tell: HF_UNKNOWN at once. What was not sent, or was
 *   refused by a server that shuts down, is simply sent again; a pooler's refusal says nothing of
 *   the server's. A commit is never cancelled: when its time is over the connection is closed, and
 *   the answer is HF_UNKNOWN.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/point.h"
#include "store/postgres/append.h"
#include "store/postgres/firing.h"
#include "store/postgres/postgres.h"
#include "store/postgres/row.h"
#include "store/postgres/verbs.h"

#define LOST_MAX 8                 /* connections that one list may lose */
#define LOCK_TIMEOUT_LOCAL "100ms" /* behind a pooler; else session.c has set it */

/* While a change has no answer its status is one of these. */
#define NOT_BEGUN ((hf_status)-2) /* nothing has happened, for sure */
#define SENT ((hf_status)-1)      /* on its way: it may have happened */

enum portion { PORTION_PLAIN, PORTION_TOGETHER, PORTION_SINGLE };

/* One walk through the list. */
struct round {
    struct postgres_engine *engine;
    struct session *session;
    struct change *changes;
    enum portion portion;
    int64_t now_us; /* decides what is plain */
    bool ring_appends; /* events were appended */
    bool ring;      /* something else that others should hear of */
    bool pooled;    /* every transaction needs its settings */
};

static const struct verb *const verbs[CHANGE_KINDS] = {
    [CHANGE_APPEND] = &postgres_verb_append,
    [CHANGE_SUBSCRIPTION_PUT] = &postgres_verb_subscription_put,
    [CHANGE_SUBSCRIPTION_REMOVE] = &postgres_verb_subscription_remove,
    [CHANGE_PAUSE] = &postgres_verb_pause,
    [CHANGE_BREAKER] = &postgres_verb_breaker_put,
    [CHANGE_SEEK] = &postgres_verb_seek,
    [CHANGE_MUSTER] = &postgres_verb_muster,
    [CHANGE_REPARTITION] = &postgres_verb_repartition,
    [CHANGE_ACQUIRE] = &postgres_verb_acquire,
    [CHANGE_GIVE_BACK] = &postgres_verb_give_back,
    [CHANGE_SETTLE] = &postgres_verb_settle,
    [CHANGE_CHECKPOINTS] = &postgres_verb_checkpoints,
    [CHANGE_CLAIM] = &postgres_verb_claim,
    [CHANGE_SETTLE_LEASE] = &postgres_verb_settle_lease,
    [CHANGE_DEAD_RETRY] = &postgres_verb_dead_retry,
    [CHANGE_DEAD_RESOLVE] = &postgres_verb_dead_resolve,
    [CHANGE_DEAD_PURGE] = &postgres_verb_dead_purge,
    [CHANGE_NAMESPACE_PUT] = &postgres_verb_namespace_put,
    [CHANGE_NAMESPACE_REMOVE] = &postgres_verb_namespace_remove,
    [CHANGE_NAMESPACE_GRANT] = &postgres_verb_namespace_grant,
    [CHANGE_NAMESPACE_REVOKE] = &postgres_verb_namespace_revoke,
    [CHANGE_SCHEDULE_PUT] = &postgres_verb_schedule_put,
    [CHANGE_SCHEDULE_REMOVE] = &postgres_verb_schedule_remove,
    [CHANGE_SCHEDULE_PAUSE] = &postgres_verb_schedule_pause,
    [CHANGE_FIRE] = &postgres_verb_fire,
    [CHANGE_DELAY] = &postgres_verb_delay,
    [CHANGE_RELEASE] = &postgres_verb_release,
    [CHANGE_RETAIN] = &postgres_verb_retain,
    [CHANGE_TRANSFER] = &postgres_verb_transfer,
};

static enum postgres_query query_of(const struct change *change)
{
    const struct verb *verb = verbs[change->kind];
    return verb->choose ? verb->choose(change) : verb->query;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static bool is_open(const struct change *change)
{
    return change->status == NOT_BEGUN || change->status == SENT;
}

/* A claim that was undone must not leave entries in its batch. */
static void forget_claim(struct change *change)
{
    if (change->kind == CHANGE_CLAIM) {
        ((struct claim *)change)->batch->count = 0;
    }
}

static void answer(struct change *change, hf_status status)
{
    change->status = status;
    snprintf(change->message, sizeof change->message, "%s", status == HF_OK ? "" : err_message());
    if (status != HF_OK) {
        forget_claim(change);
    }
}

/* Gives the thread's message to every change without an answer. */
static void answer_open(struct change *changes, hf_status sent, hf_status not_begun)
{
    for (struct change *at = changes; at; at = at->next) {
        if (is_open(at)) {
            answer(at, at->status == SENT ? sent : not_begun);
        }
    }
}

/* ---- Which way a change goes ----------------------------------------------------------------- */

enum way { WAY_NONE, WAY_PLAIN, WAY_FIRE, WAY_TOGETHER, WAY_ALONE };

/* Decided once per round, because it takes a look at every event. */
static void choose_ways(struct round *round)
{
    for (struct change *at = round->changes; at; at = at->next) {
        if (round->portion == PORTION_PLAIN && firing_is_shared(at)) {
            at->way = WAY_FIRE;
        } else if (at->kind != CHANGE_APPEND || round->portion == PORTION_SINGLE) {
            at->way = WAY_ALONE;
        } else {
            bool plain = round->portion == PORTION_PLAIN &&
                         append_is_plain(round->engine, (struct append *)at, round->now_us);
            at->way = plain ? WAY_PLAIN : WAY_TOGETHER;
        }
    }
}

/* While sending, what goes is what was not begun; while reading, what was sent. */
static enum way way_of(const struct change *change, hf_status open)
{
    return change->status == open ? (enum way)change->way : WAY_NONE;
}

static struct change *next_of(void *ctx, struct change *after, enum way way)
{
    const struct round *round = ctx;
    struct change *at = after ? after->next : round->changes;
    while (at && way_of(at, NOT_BEGUN) != way) {
        at = at->next;
    }
    return at;
}

static struct change *next_plain(void *ctx, struct change *after)
{
    return next_of(ctx, after, WAY_PLAIN);
}

static struct change *next_fire(void *ctx, struct change *after)
{
    return next_of(ctx, after, WAY_FIRE);
}

static bool has_way(const struct round *round, enum way way, hf_status open)
{
    for (const struct change *at = round->changes; at; at = at->next) {
        if (way_of(at, open) == way) {
            return true;
        }
    }
    return false;
}

static void mark(struct round *round, enum way way, hf_status from, hf_status to)
{
    for (struct change *at = round->changes; at; at = at->next) {
        if (way_of(at, from) == way) {
            at->status = to;
        }
    }
}

/* How a transaction commits. */
enum pace {
    PACE_NORMAL,  /* as durably as the store was opened for */
    PACE_RELAXED, /* without waiting for the disk */
    PACE_FIRM     /* durably in any case */
};

/* A kept lease does not end while its process lives. If the server crashed and lost the settle that
 * we were told of, the lease would be there again and nobody would ever work on it. */
static enum pace pace_of(const struct change *change)
{
    if (change->kind == CHANGE_SETTLE_LEASE && ((const struct settle_lease *)change)->kept) {
        return PACE_FIRM;
    }
    return change->relaxed ? PACE_RELAXED : PACE_NORMAL;
}

/* What synchronous_commit must be for a transaction; absent: as it is. */
static struct text commit_of(const struct round *round, enum pace pace)
{
    bool process = round->engine->durability == HF_DURABILITY_PROCESS;
    bool off = pace == PACE_RELAXED || (pace == PACE_NORMAL && process);
    bool on = !off && (process || round->session->weak_commit);
    return off ? text_of("off") : on ? text_of("on") : TEXT_ABSENT;
}

/* Whether the session commits in another way than this. */
static bool is_other_pace(const struct round *round, enum pace pace)
{
    bool power = round->engine->durability == HF_DURABILITY_POWER;
    return pace == (power ? PACE_RELAXED : PACE_FIRM);
}

/* Whether a transaction begins with a statement that sets something. */
static bool has_settings(const struct round *round, enum pace pace)
{
    return round->pooled || is_other_pace(round, pace);
}

/* The same for that of one change: its function may be able to do it on the way. */
static bool change_has_settings(const struct round *round, const struct change *change)
{
    return round->pooled ||
           (is_other_pace(round, pace_of(change)) && !verbs[change->kind]->sets_commit);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* The parameters of a change; its times become the server's. */
static hf_status fill(struct round *round, struct change *change)
{
    struct params *params = session_params(round->session);
    params->shift_us = skew_shift(round->engine, change->now_us);
    const struct verb *verb = verbs[change->kind];
    hf_status status = verb->fill(round->engine, params, change);
    if (verb->sets_commit) {
        enum pace pace = pace_of(change);
        bool sets = !round->pooled && is_other_pace(round, pace);
        param_text(params, sets ? commit_of(round, pace) : TEXT_ABSENT);
    }
    return status;
}

static void fill_settings(struct round *round, enum pace pace)
{
    struct params *params = session_params(round->session);
    param_text(params, commit_of(round, pace));
    param_text(params, round->pooled ? text_of(LOCK_TIMEOUT_LOCAL) : TEXT_ABSENT);
}

static hf_status prepare(struct round *round, enum postgres_query query)
{
    hf_status status = params_finish(&round->session->params);
    return status == HF_OK ? session_prepare(round->session, query) : status;
}

/* Statements cannot be prepared in a pipeline, so this comes first; mostly there is nothing to
 * do. */
static hf_status prepare_all(struct round *round)
{
    struct session *session = round->session;
    hf_status status = HF_OK;
    if (session->pooled) {
        return HF_OK;
    }
    if (!session->prepared[POSTGRES_QUERY_APPEND_PLAIN] && round->engine->namespace_id != 0) {
        append_fill_plain(session_params(session), next_plain, round);
        status = prepare(round, POSTGRES_QUERY_APPEND_PLAIN);
    }
    if (status == HF_OK && !session->prepared[POSTGRES_QUERY_TX_SETTINGS]) {
        fill_settings(round, PACE_NORMAL);
        status = prepare(round, POSTGRES_QUERY_TX_SETTINGS);
    }
    for (struct change *at = round->changes; at && status == HF_OK; at = at->next) {
        enum way way = way_of(at, NOT_BEGUN);
        bool called = way == WAY_TOGETHER || way == WAY_ALONE || way == WAY_FIRE;
        if (called && !session->prepared[query_of(at)]) {
            status = fill(round, at);
            if (status == HF_OK) {
                status = prepare(round, query_of(at));
            }
        }
    }
    return status;
}

static hf_status send_settings(struct round *round, bool has, enum pace pace)
{
    if (!has) {
        return HF_OK;
    }
    fill_settings(round, pace);
    return session_pipe_send(round->session, POSTGRES_QUERY_TX_SETTINGS);
}

/* All plain appends, or all firings: one statement. */
static hf_status send_bundle(struct round *round, enum way way)
{
    if (!next_of(round, NULL, way)) {
        return HF_OK;
    }
    hf_status status = send_settings(round, has_settings(round, PACE_NORMAL), PACE_NORMAL);
    if (status == HF_OK && way == WAY_PLAIN) {
        append_fill_plain(session_params(round->session), next_plain, round);
        status = session_pipe_send(round->session, POSTGRES_QUERY_APPEND_PLAIN);
    } else if (status == HF_OK) {
        firing_fill(round->engine, session_params(round->session), next_fire, round);
        status = session_pipe_send(round->session, POSTGRES_QUERY_CHANGE_FIRE);
    }
    if (status == HF_OK) {
        mark(round, way, NOT_BEGUN, SENT);
        status = session_pipe_sync(round->session);
    }
    return status;
}

static hf_status send_call(struct round *round, struct change *change)
{
    hf_status status = fill(round, change);
    return status == HF_OK ? session_pipe_send(round->session, query_of(change)) : status;
}

static hf_status send_together(struct round *round)
{
    if (!has_way(round, WAY_TOGETHER, NOT_BEGUN)) {
        return HF_OK;
    }
    hf_status status = send_settings(round, has_settings(round, PACE_NORMAL), PACE_NORMAL);
    for (struct change *at = round->changes; at && status == HF_OK; at = at->next) {
        if (way_of(at, NOT_BEGUN) == WAY_TOGETHER) {
            status = send_call(round, at);
            at->status = SENT;
        }
    }
    return status == HF_OK ? session_pipe_sync(round->session) : status;
}

static hf_status send_alone(struct round *round)
{
    hf_status status = HF_OK;
    for (struct change *at = round->changes; at && status == HF_OK; at = at->next) {
        if (way_of(at, NOT_BEGUN) != WAY_ALONE) {
            continue;
        }
        status = send_settings(round, change_has_settings(round, at), pace_of(at));
        if (status == HF_OK) {
            status = send_call(round, at);
        }
        if (status == HF_OK) {
            at->status = SENT;
            status = session_pipe_sync(round->session);
        }
        HF_POINT("mid_group");
    }
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* What became of a transaction as a whole. */
struct verdict {
    hf_status status; /* HF_OK: committed */
    bool open;        /* refused by somebody who does not know: it may have happened */
    char sqlstate[6];
};

static hf_status fail_unknown(void)
{
    return fail(HF_UNKNOWN, "the connection was lost before the server answered: the change may "
                            "have happened");
}

static void judge(struct round *round, const PGresult *result, enum postgres_query query,
                  struct verdict *verdict)
{
    ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK || kind == PGRES_PIPELINE_ABORTED ||
        verdict->status != HF_OK) {
        return;
    }
    verdict->status = session_fail(round->session, result, query);
    memcpy(verdict->sqlstate, round->session->sqlstate, sizeof verdict->sqlstate);
    verdict->open = session_leaves_open(round->session, verdict->sqlstate);
}

/* Reads on to the end of the transaction. Anything but HF_OK: the connection is lost or silent. */
static hf_status read_sync(struct round *round, struct verdict *verdict)
{
    for (;;) {
        PGresult *result;
        hf_status status = session_pipe_next(round->session, &result);
        if (status != HF_OK) {
            return status;
        }
        bool sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (!sync) {
            judge(round, result, POSTGRES_QUERY_COMMIT, verdict);
        }
        PQclear(result);
        if (!sync) {
            continue;
        }
        if (verdict->status == HF_OK) {
            atomic_fetch_add_explicit(&round->engine->commits, 1, memory_order_relaxed);
            if (round->session->unsure) {
                round->session->unsure = false;
                verdict->status = fail(HF_UNKNOWN, "%s: committed, but perhaps not on the standby",
                                       round->engine->place);
            }
        }
        return HF_OK;
    }
}

/* The result of the settings, if they were sent. */
static hf_status read_settings(struct round *round, bool has, struct verdict *verdict)
{
    if (!has) {
        return HF_OK;
    }
    PGresult *result;
    hf_status status = session_pipe_next(round->session, &result);
    if (status == HF_OK) {
        judge(round, result, POSTGRES_QUERY_TX_SETTINGS, verdict);
        PQclear(result);
    }
    return status;
}

/* Trouble of a whole statement of many, which smaller portions may not have. */
static bool is_divisible(const char *sqlstate)
{
    return strncmp(sqlstate, "23", 2) == 0 || postgres_is_passing(sqlstate);
}

/* Ends a way whose transaction failed: what may be tried differently is open again. */
static void fail_way(struct round *round, enum way way, const struct verdict *verdict)
{
    bool divisible = verdict->status != HF_UNKNOWN && is_divisible(verdict->sqlstate);
    for (struct change *at = round->changes; at; at = at->next) {
        if (way_of(at, SENT) == way) {
            at->doubtful = at->doubtful || verdict->open;
            if (verdict->open && at->kind != CHANGE_APPEND) {
                answer(at, fail_unknown());
            } else if (divisible) {
                at->status = NOT_BEGUN;
            } else {
                answer(at, verdict->status);
            }
        }
    }
}

/* Gives each change of a bundle its part of the answer. */
static void share_out(struct round *round, enum way way, const PGresult *result)
{
    struct firing_answers firings = {.ours = {.count = 0}};
    hf_status whole = way == WAY_FIRE ? firing_begin(result, &firings) : HF_OK;
    int row = 0;
    for (struct change *at = round->changes; at; at = at->next) {
        if (way_of(at, SENT) == way) {
            answer(at, whole             ? whole
                       : way == WAY_FIRE ? firing_take(&firings, at)
                                         : append_take_plain((struct append *)at, result, &row));
            round->ring_appends = round->ring_appends || at->status == HF_OK;
        }
    }
}

static hf_status read_bundle(struct round *round, enum way way)
{
    if (!has_way(round, way, SENT)) {
        return HF_OK;
    }
    struct verdict verdict = {.status = HF_OK};
    PGresult *result = NULL;
    hf_status status = read_settings(round, has_settings(round, PACE_NORMAL), &verdict);
    if (status == HF_OK) {
        status = session_pipe_next(round->session, &result);
    }
    if (status == HF_OK) {
        judge(round, result,
              way == WAY_FIRE ? POSTGRES_QUERY_CHANGE_FIRE : POSTGRES_QUERY_APPEND_PLAIN, &verdict);
        status = read_sync(round, &verdict);
    }
    if (status == HF_OK && verdict.status != HF_OK) {
        fail_way(round, way, &verdict);
    } else if (status == HF_OK) {
        share_out(round, way, result);
    }
    PQclear(result);
    return status;
}

/* A call's row. Its status is final only when its transaction has committed. */
static hf_status read_call(struct round *round, struct change *change, struct verdict *verdict,
                           hf_status *ret_answer, bool *ret_ring)
{
    PGresult *result;
    hf_status status = session_pipe_next(round->session, &result);
    if (status != HF_OK) {
        return status;
    }
    const struct verb *verb = verbs[change->kind];
    judge(round, result, query_of(change), verdict);
    if (PQresultStatus(result) == PGRES_TUPLES_OK) {
        *ret_answer = verb->read(round->engine, change, result, ret_ring);
        snprintf(change->message, sizeof change->message, "%s",
                 *ret_answer == HF_OK ? "" : err_message());
    }
    PQclear(result);
    return HF_OK;
}

static hf_status read_together(struct round *round)
{
    if (!has_way(round, WAY_TOGETHER, SENT)) {
        return HF_OK;
    }
    struct verdict verdict = {.status = HF_OK};
    bool ring = false;
    hf_status status = read_settings(round, has_settings(round, PACE_NORMAL), &verdict);
    for (struct change *at = round->changes; at && status == HF_OK; at = at->next) {
        if (way_of(at, SENT) == WAY_TOGETHER) {
            at->draft = HF_OK;
            status = read_call(round, at, &verdict, &at->draft, &ring);
        }
    }
    if (status == HF_OK) {
        status = read_sync(round, &verdict);
    }
    if (status != HF_OK) {
        return status;
    }
    if (verdict.status != HF_OK) {
        fail_way(round, WAY_TOGETHER, &verdict);
        return HF_OK;
    }
    for (struct change *at = round->changes; at; at = at->next) {
        if (way_of(at, SENT) == WAY_TOGETHER) {
            at->status = at->draft;
        }
    }
    round->ring_appends = round->ring_appends || ring;
    return HF_OK;
}

/* One transaction, one change. */
static hf_status read_one(struct round *round, struct change *change)
{
    struct verdict verdict = {.status = HF_OK};
    bool ring = false;
    change->draft = HF_OK;
    hf_status status = read_settings(round, change_has_settings(round, change), &verdict);
    if (status == HF_OK) {
        status = read_call(round, change, &verdict, &change->draft, &ring);
    }
    if (status == HF_OK) {
        status = read_sync(round, &verdict);
    }
    if (status != HF_OK) {
        if (verdict.status != HF_OK && !verdict.open) {
            forget_claim(change); /* the last word was a refusal: it did not happen */
            change->status = NOT_BEGUN;
        }
        return status;
    }
    if (verdict.status == HF_OK) {
        change->status = change->draft;
        bool appends = change->kind == CHANGE_APPEND || change->kind == CHANGE_FIRE;
        bool *rung = appends ? &round->ring_appends : &round->ring;
        *rung = *rung || (ring && change->status == HF_OK);
        if (change->status != HF_OK) {
            forget_claim(change);
        }
        return HF_OK;
    }
    if (verdict.open && change->kind != CHANGE_APPEND) {
        answer(change, fail_unknown());
        return HF_OK;
    }
    change->doubtful = change->doubtful || verdict.open;
    bool away = strncmp(verdict.sqlstate, "57P", 3) == 0 || strncmp(verdict.sqlstate, "08", 2) == 0;
    if (away || strcmp(verdict.sqlstate, "26000") == 0) {
        forget_claim(change);
        change->status = NOT_BEGUN;
        return HF_OK;
    }
    change->again = postgres_is_passing(verdict.sqlstate);
    answer(change, verdict.status);
    return HF_OK;
}

static hf_status read_alone(struct round *round)
{
    hf_status status = HF_OK;
    for (struct change *at = round->changes; at && status == HF_OK; at = at->next) {
        if (way_of(at, SENT) == WAY_ALONE) {
            status = read_one(round, at);
        }
    }
    return status;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* Sends what is open and reads what comes. Anything but HF_OK: the connection is lost (and closed),
 * or nothing could be sent. */
static hf_status run_round(struct round *round)
{
    struct session *session = round->session;
    choose_ways(round);
    hf_status status = prepare_all(round);
    if (status == HF_OK) {
        status = session_pipe_enter(session);
    }
    if (status != HF_OK) {
        return status;
    }
    status = send_bundle(round, WAY_PLAIN);
    if (status == HF_OK) {
        status = send_bundle(round, WAY_FIRE);
    }
    if (status == HF_OK) {
        status = send_together(round);
    }
    if (status == HF_OK) {
        status = send_alone(round);
    }
    HF_POINT("before_commit");
    if (status == HF_OK) {
        status = read_bundle(round, WAY_PLAIN);
    }
    if (status == HF_OK) {
        status = read_bundle(round, WAY_FIRE);
    }
    if (status == HF_OK) {
        status = read_together(round);
    }
    if (status == HF_OK) {
        status = read_alone(round);
    }
    if (status != HF_OK) {
        session_close(session);
        return status;
    }
    session_pipe_leave(session);
    return HF_OK;
}

static bool any_open(const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (is_open(at)) {
            return true;
        }
    }
    return false;
}

/* After a loss: appends are sent again, for others nobody can tell. */
static void sort_out_lost(struct change *changes)
{
    for (struct change *at = changes; at; at = at->next) {
        if (at->status == SENT) {
            forget_claim(at);
            at->doubtful = true;
            if (at->kind != CHANGE_APPEND) {
                answer(at, fail_unknown());
            }
        }
    }
}

/* Connects again and makes what was sent, which now is only appends, open for another round.
 * Answers what cannot be helped. */
static hf_status recover(struct round *round, hf_status why, struct deadline deadline)
{
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    sort_out_lost(round->changes);
    hf_status status = err_set(why, message);
    if (why == HF_UNAVAILABLE) {
        status = session_connect(round->session, deadline);
    }
    if (status != HF_OK) {
        snprintf(message, sizeof message, "%s", err_message());
        (void)fail(status, "nobody knows whether the events were stored: %s", message);
        answer_open(round->changes, HF_UNKNOWN, status);
        return status;
    }
    for (struct change *at = round->changes; at; at = at->next) {
        if (at->status == SENT) {
            at->status = NOT_BEGUN;
        }
    }
    return HF_OK;
}

/* Until every change has its answer. */
static void run_rounds(struct round *round, struct deadline deadline)
{
    int lost = 0;
    while (any_open(round->changes)) {
        round->now_us = clock_wall_us();
        round->pooled = round->session->pooled;
        hf_status status = run_round(round);
        bool last = round->portion == PORTION_SINGLE;
        if (status == HF_OK && (!any_open(round->changes) ||
                                (!last && session_is_up(round->session)))) {
            round->portion += last ? 0 : 1;
            continue;
        }
        if (status == HF_OK) {
            /* Lost, or refused what there is no smaller portion of: another one may do better. */
            session_close(round->session);
            status = fail(HF_UNAVAILABLE, "%s: the connection was lost", round->engine->place);
        }
        if (++lost > LOST_MAX) {
            answer_open(round->changes, HF_UNKNOWN, status);
            return;
        }
        if (recover(round, status, deadline) != HF_OK) {
            return;
        }
        round->portion = round->portion == PORTION_PLAIN ? PORTION_TOGETHER : round->portion;
    }
}

/* The shortest lease that anybody asked for says how often to show signs of life. */
static void note_leases(struct postgres_engine *engine, const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (at->kind == CHANGE_ACQUIRE) {
            keeper_lease(engine, ((const struct acquire *)at)->lease_ms);
        } else if (at->kind == CHANGE_MUSTER) {
            keeper_lease(engine, ((const struct muster *)at)->lease_ms);
        } else if (at->kind == CHANGE_CLAIM) {
            keeper_lease(engine, ((const struct claim *)at)->lease_ms);
        }
    }
}

hf_status postgres_apply(struct engine *base, struct change *changes, struct deadline deadline)
{
    struct postgres_engine *engine = postgres_of(base);
    struct session *session = &engine->writer;
    if (!session_is_up(session)) {
        session_close(session);
    }
    hf_status status = session_connect(session, deadline);
    if (status != HF_OK) {
        return status;
    }
    for (struct change *at = changes; at; at = at->next) {
        at->status = NOT_BEGUN;
    }
    note_leases(engine, changes);
    /* What is under way is past taking back, so the leader's haste does not count any more. */
    struct deadline patience = deadline_after_ms(engine->timeout_ms);
    session->deadline = patience.mono_us > deadline.mono_us ? patience : deadline;
    struct round round = {.engine = engine, .session = session, .changes = changes};
    run_rounds(&round, deadline);
    HF_POINT("after_commit_before_ack");
    if (round.ring) {
        keeper_ring(engine);
    } else if (round.ring_appends) {
        keeper_ring_appends(engine);
    }
    return HF_OK;
}
