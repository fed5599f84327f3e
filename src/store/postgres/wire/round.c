/*
 * round.c - one round trip: a pipeline of transactions. See round.h.
 *
 *     [ INSERT of all plain appends ] [ append_listed(all) ] [ fire(all) ] [ append(...) ] .
 *
 * A change goes one of five ways, in the order of the table `ways`. Those of the first four share
 * a transaction with the others that go the same way: all plain appends in one statement and one
 * commit, that is the group commit; so all appends with ids that have to be listed, and all firings
 * of schedules; then appends that need the exact way, one statement each, of which one that is
 * refused (a version) says so in its row and spoils nothing. Every other change is one call and a
 * transaction of its own, so that one waiting for a lock, or failing, does not take others with it;
 * those that need not wait for the disk do not (commit_mode.h).
 *
 * Everything is sent before anything is read, and answers come in the order of sending. Within a
 * transaction that is: the settings, if it has any; a result for each statement (a claim has two:
 * verbs.h); the sync, where it commits. What a statement answers is only a draft until then. If any
 * of it failed, the transaction has not happened, and what that means for a change depends on why:
 *
 *     the trouble may be another's         open again, for a round with smaller portions
 *     the server is going, or has gone     open again, for another connection
 *     a pooler says so, which has lost     an append is open again, and doubtful; anything else
 *     the server                           is not known: HF_UNKNOWN
 *     anything else                        this is the answer; with `again` if it passes
 *
 * The same holds for a statement that the server refuses to prepare, with which nothing was sent.
 */
#include "store/postgres/wire/round.h"

#include <string.h>

#include "base/err.h"
#include "base/point.h"
#include "store/common/change.h"
#include "store/postgres/postgres.h"
#include "store/postgres/wire/bundle.h"
#include "store/postgres/wire/commit_mode.h"

struct way {
    const struct bundle *bundle; /* the statement for all that go this way; NULL: one for each */
    hf_status (*send)(struct round *round, const struct way *way);
    hf_status (*read)(struct round *round, const struct way *way);
};

/* The changes that go one way and are not begun (while sending) or sent (while reading). Changing
 * the status of the one that the walk has come to does no harm. */
struct walk {
    struct change *changes;
    const struct way *way;
    hf_status status;
};

/* change_walk_fn */
static struct change *walk_next(void *ctx, struct change *after)
{
    const struct walk *walk = ctx;
    struct change *at = after ? after->next : walk->changes;
    while (at && (at->status != walk->status || at->way != walk->way)) {
        at = at->next;
    }
    return at;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* The parameters of a change's own statement; its times become the server's. */
static hf_status fill_call(struct round *round, struct change *change)
{
    const struct verb *verb = verb_of(change);
    struct params *params = session_params(round->session);
    params->shift_us = skew_shift(round->engine, change->now_us);
    hf_status status = verb->fill(round->engine, params, change);
    if (verb->sets_commit) {
        param_text(params, commit_mode_riding(round->session, commit_mode_of(change)));
    }
    return status;
}

static hf_status send_settings(struct round *round, enum commit_mode mode, bool rides)
{
    if (!commit_mode_has_statement(round->session, mode, rides)) {
        return HF_OK;
    }
    commit_mode_fill(round->session, mode);
    return session_pipe_send(round->session, POSTGRES_QUERY_TX_SETTINGS);
}

static void fill_second(struct round *round, const struct change *change)
{
    verb_of(change)->second->fill(session_params(round->session), change);
}

static hf_status send_call(struct round *round, struct change *change)
{
    const struct verb_second *second = verb_of(change)->second;
    hf_status status = fill_call(round, change);
    if (!status) {
        status = session_pipe_send(round->session, verb_query(change));
    }
    if (!status && second) {
        fill_second(round, change);
        status = session_pipe_send(round->session, second->query);
    }
    return status;
}

static hf_status send_calls(struct round *round, struct walk *walk)
{
    hf_status status = HF_OK;
    for (struct change *at = walk_next(walk, NULL); at && !status; at = walk_next(walk, at)) {
        status = send_call(round, at);
    }
    return status;
}

static hf_status send_bundle(struct round *round, const struct bundle *bundle, struct walk *walk)
{
    bundle->fill(round->engine, session_params(round->session), walk_next, walk);
    return session_pipe_send(round->session, bundle->query);
}

/* Everything that goes this way, as one transaction. Before the sync none of it can happen. */
static hf_status send_shared(struct round *round, const struct way *way)
{
    struct walk walk = {round->changes, way, NOT_BEGUN};
    if (!walk_next(&walk, NULL)) {
        return HF_OK;
    }
    hf_status status = send_settings(round, COMMIT_NORMAL, false);
    if (!status) {
        status = way->bundle ? send_bundle(round, way->bundle, &walk) : send_calls(round, &walk);
    }
    if (status) {
        return status;
    }
    for (struct change *at = walk_next(&walk, NULL); at; at = walk_next(&walk, at)) {
        at->status = SENT;
    }
    return session_pipe_sync(round->session);
}

/* Each change that goes this way, as a transaction of its own. */
static hf_status send_alone(struct round *round, const struct way *way)
{
    struct walk walk = {round->changes, way, NOT_BEGUN};
    hf_status status = HF_OK;
    for (struct change *at = walk_next(&walk, NULL); at && !status; at = walk_next(&walk, at)) {
        status = send_settings(round, commit_mode_of(at), verb_of(at)->sets_commit);
        if (!status) {
            status = send_call(round, at);
        }
        if (!status) {
            at->status = SENT;
            status = session_pipe_sync(round->session);
        }
        HF_POINT("mid_group");
    }
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* How a transaction ended. */
struct ending {
    hf_status status; /* HF_OK: it committed */
    bool open;        /* the refusal does not tell: it may have happened */
    bool ring;        /* others are to be woken */
    char sqlstate[6]; /* of the refusal */
};

/* Notes a refusal; the first one counts. */
static void note_refusal(struct round *round, const PGresult *result, enum postgres_query query,
                         struct ending *ending)
{
    ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK || kind == PGRES_PIPELINE_ABORTED ||
        ending->status != HF_OK) {
        return;
    }
    ending->status = session_fail(round->session, result, query);
    memcpy(ending->sqlstate, round->session->sqlstate, sizeof ending->sqlstate);
    ending->open = session_leaves_open(round->session, ending->sqlstate);
}

/* The functions that read answer anything but HF_OK only if the connection is lost or silent. */

static hf_status read_settings(struct round *round, enum commit_mode mode, bool rides,
                               struct ending *ending)
{
    if (!commit_mode_has_statement(round->session, mode, rides)) {
        return HF_OK;
    }
    PGresult *result;
    hf_status status = session_pipe_next(round->session, &result);
    if (!status) {
        note_refusal(round, result, POSTGRES_QUERY_TX_SETTINGS, ending);
        PQclear(result);
    }
    return status;
}

/* The answer of the second statement of a change; `first` is that of the first one. */
static hf_status read_second(struct round *round, struct change *change, const PGresult *first,
                             struct ending *ending)
{
    const struct verb_second *verb = verb_of(change)->second;
    PGresult *second;
    hf_status status = session_pipe_next(round->session, &second);
    if (status) {
        return status;
    }
    note_refusal(round, second, verb->query, ending);
    if (PQresultStatus(second) == PGRES_TUPLES_OK && !ending->status && !change->draft) {
        change_draft(change, verb->read(round->engine, change, first, second));
    }
    PQclear(second);
    return HF_OK;
}

static hf_status read_call(struct round *round, struct change *change, struct ending *ending)
{
    const struct verb *verb = verb_of(change);
    PGresult *result;
    hf_status status = session_pipe_next(round->session, &result);
    if (status) {
        return status;
    }
    note_refusal(round, result, verb_query(change), ending);
    bool ring = false;
    if (PQresultStatus(result) == PGRES_TUPLES_OK) {
        change_draft(change, verb->read(round->engine, change, result, &ring));
    }
    if (verb->second) {
        status = read_second(round, change, result, ending);
    }
    ending->ring = ending->ring || (ring && !change->draft);
    PQclear(result);
    return status;
}

static hf_status read_calls(struct round *round, struct walk *walk, struct ending *ending)
{
    hf_status status = HF_OK;
    for (struct change *at = walk_next(walk, NULL); at && !status; at = walk_next(walk, at)) {
        status = read_call(round, at, ending);
    }
    return status;
}

static hf_status read_bundle(struct round *round, const struct bundle *bundle, struct walk *walk,
                             struct ending *ending)
{
    PGresult *result;
    hf_status status = session_pipe_next(round->session, &result);
    if (status) {
        return status;
    }
    note_refusal(round, result, bundle->query, ending);
    if (!ending->status) {
        bundle->take(result, walk_next, walk);
        for (struct change *at = walk_next(walk, NULL); at; at = walk_next(walk, at)) {
            ending->ring = ending->ring || !at->draft;
        }
    }
    PQclear(result);
    return HF_OK;
}

/* Reads on to the end of the transaction. */
static hf_status read_sync(struct round *round, struct ending *ending)
{
    for (bool sync = false; !sync;) {
        PGresult *result;
        hf_status status = session_pipe_next(round->session, &result);
        if (status) {
            return status;
        }
        sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (!sync) {
            note_refusal(round, result, POSTGRES_QUERY_COMMIT, ending);
        }
        PQclear(result);
    }
    if (!ending->status) {
        atomic_fetch_add_explicit(&round->engine->commits, 1, memory_order_relaxed);
        if (round->session->unsure) {
            round->session->unsure = false;
            ending->status = fail(HF_UNKNOWN, "%s: committed, but perhaps not on the standby",
                                  round->engine->place);
        }
    }
    return HF_OK;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static hf_status fail_unknown(void)
{
    return fail(HF_UNKNOWN, "the connection was lost before the server answered: the change may "
                            "have happened");
}

/* Trouble of this connection, which another one may not have. */
static bool is_of_connection(const char *sqlstate)
{
    return strncmp(sqlstate, "57P", 3) == 0 || strncmp(sqlstate, "08", 2) == 0 ||
           strcmp(sqlstate, "26000") == 0;
}

/* Trouble of a transaction of many, which smaller portions or another connection may not have. */
static bool is_divisible(const struct ending *ending)
{
    return ending->status != HF_UNKNOWN &&
           (strncmp(ending->sqlstate, "23", 2) == 0 || postgres_is_passing(ending->sqlstate) ||
            is_of_connection(ending->sqlstate));
}

/* Answers a change whose transaction has ended. `elsewhere`: its trouble may not be met again. */
static void conclude(struct change *change, const struct ending *ending, bool elsewhere)
{
    if (!ending->status) {
        change->status = change->draft;
        if (change->status) {
            change_undone(change);
        }
        return;
    }
    change->doubtful = change->doubtful || ending->open;
    if (ending->open && change->kind != CHANGE_APPEND) {
        change_answer(change, fail_unknown());
    } else if (elsewhere) {
        change_undone(change);
        change->status = NOT_BEGUN;
    } else {
        change->again = postgres_is_passing(ending->sqlstate);
        change_answer(change, ending->status);
    }
}

void round_ring(struct round *round, const struct change *change)
{
    bool appends = change->kind == CHANGE_APPEND || change->kind == CHANGE_FIRE;
    *(appends ? &round->ring_appends : &round->ring) = true;
}

static hf_status read_shared(struct round *round, const struct way *way)
{
    struct walk walk = {round->changes, way, SENT};
    struct ending ending = {.status = HF_OK};
    struct change *first = walk_next(&walk, NULL);
    if (!first) {
        return HF_OK;
    }
    hf_status status = read_settings(round, COMMIT_NORMAL, false, &ending);
    if (!status) {
        status = way->bundle ? read_bundle(round, way->bundle, &walk, &ending)
                             : read_calls(round, &walk, &ending);
    }
    if (!status) {
        status = read_sync(round, &ending);
    }
    if (status) {
        return status;
    }
    for (struct change *at = first; at; at = walk_next(&walk, at)) {
        conclude(at, &ending, is_divisible(&ending));
    }
    if (!ending.status && ending.ring) {
        round_ring(round, first);
    }
    return HF_OK;
}

static hf_status read_one(struct round *round, struct change *change)
{
    struct ending ending = {.status = HF_OK};
    hf_status status =
        read_settings(round, commit_mode_of(change), verb_of(change)->sets_commit, &ending);
    if (!status) {
        status = read_call(round, change, &ending);
    }
    if (!status) {
        status = read_sync(round, &ending);
    }
    if (!status) {
        conclude(change, &ending, is_of_connection(ending.sqlstate));
        if (!ending.status && ending.ring) {
            round_ring(round, change);
        }
    } else if (ending.status && !ending.open) {
        change_undone(change); /* the last word was a refusal: it did not happen */
        change->status = NOT_BEGUN;
    }
    return status;
}

static hf_status read_alone(struct round *round, const struct way *way)
{
    struct walk walk = {round->changes, way, SENT};
    hf_status status = HF_OK;
    for (struct change *at = walk_next(&walk, NULL); at && !status; at = walk_next(&walk, at)) {
        status = read_one(round, at);
    }
    return status;
}

/* ---- The round ------------------------------------------------------------------------------- */

enum { WAY_APPEND, WAY_LISTED, WAY_FIRE, WAY_TOGETHER, WAY_ALONE, WAYS };

/* In the order in which they are sent, and so read. */
static const struct way ways[WAYS] = {
    [WAY_APPEND] = {&postgres_bundle_append, send_shared, read_shared},
    [WAY_LISTED] = {&postgres_bundle_append_listed, send_shared, read_shared},
    [WAY_FIRE] = {&postgres_bundle_fire, send_shared, read_shared},
    [WAY_TOGETHER] = {NULL, send_shared, read_shared},
    [WAY_ALONE] = {NULL, send_alone, read_alone},
};

static const struct way *choose_way(const struct round *round, const struct change *change)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        if (way->bundle && round->portion == PORTION_BUNDLE &&
            way->bundle->admits(round->engine, change, round->now_us)) {
            return way;
        }
    }
    bool together = change->kind == CHANGE_APPEND && round->portion != PORTION_SINGLE;
    return &ways[together ? WAY_TOGETHER : WAY_ALONE];
}

static hf_status prepare(struct session *session, enum postgres_query query)
{
    hf_status status = params_finish(&session->params);
    return status ? status : session_prepare(session, query);
}

/* The statement that a change travels with. */
static enum postgres_query query_of(const struct change *change)
{
    const struct bundle *bundle = change->way->bundle;
    return bundle ? bundle->query : verb_query(change);
}

/* Prepares it, and the second one, if the change has two. */
static hf_status prepare_for(struct round *round, struct change *change)
{
    struct session *session = round->session;
    const struct bundle *bundle = change->way->bundle;
    const struct verb_second *second = bundle ? NULL : verb_of(change)->second;
    hf_status status = HF_OK;
    session->sqlstate[0] = '\0'; /* of what follows */
    if (!session->prepared[query_of(change)]) {
        if (bundle) { /* one change shows the types of the parameters as well as many */
            bundle->fill(round->engine, session_params(session), change_walk_one, change);
        } else {
            status = fill_call(round, change);
        }
        status = status ? status : prepare(session, query_of(change));
    }
    if (!status && second && !session->prepared[second->query]) {
        fill_second(round, change);
        status = prepare(session, second->query);
    }
    return status;
}

/* The server refuses to prepare the statement of `first`: another keeps its table locked, perhaps,
 * which is no trouble of those who travel with others. */
static void refuse_travellers(struct round *round, struct change *first, hf_status status)
{
    enum postgres_query query = query_of(first);
    bool again = postgres_is_passing(round->session->sqlstate);
    for (struct change *at = first; at; at = at->next) {
        if (at->status == NOT_BEGUN && query_of(at) == query) {
            at->again = again;
            change_answer(at, status);
        }
    }
}

/* Statements cannot be prepared in a pipeline, so this comes first; mostly there is nothing to
 * do. */
static hf_status prepare_all(struct round *round)
{
    struct session *session = round->session;
    hf_status status = HF_OK;
    if (session_has(session, SESSION_POOLED)) {
        return HF_OK;
    }
    if (!session->prepared[POSTGRES_QUERY_TX_SETTINGS]) {
        commit_mode_fill(session, COMMIT_NORMAL);
        status = prepare(session, POSTGRES_QUERY_TX_SETTINGS);
    }
    for (struct change *at = round->changes; at && !status; at = at->next) {
        if (at->status != NOT_BEGUN) {
            continue;
        }
        status = prepare_for(round, at);
        bool refused = status != HF_OK && session->sqlstate[0] != '\0';
        if (refused && !is_of_connection(session->sqlstate) && !session_is_lost(session)) {
            refuse_travellers(round, at, status);
            status = HF_OK;
        }
    }
    return status;
}

hf_status round_run(struct round *round)
{
    struct session *session = round->session;
    for (struct change *at = round->changes; at; at = at->next) {
        at->way = choose_way(round, at);
    }
    hf_status status = prepare_all(round);
    if (!status) {
        status = session_pipe_enter(session);
    }
    if (status) {
        return status;
    }
    for (const struct way *way = ways; way < ways + WAYS && !status; way++) {
        status = way->send(round, way);
    }
    HF_POINT("before_commit");
    for (const struct way *way = ways; way < ways + WAYS && !status; way++) {
        status = way->read(round, way);
    }
    if (status) {
        session_close(session);
        return status;
    }
    session_pipe_leave(session);
    return HF_OK;
}

void round_lost(struct round *round)
{
    for (struct change *at = round->changes; at; at = at->next) {
        if (at->status == SENT) {
            change_undone(at);
            at->doubtful = true;
            if (at->kind != CHANGE_APPEND) {
                change_answer(at, fail_unknown());
            }
        }
    }
}
