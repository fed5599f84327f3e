/*
 * node.c - nodes: registering this process as one, and listing those of the namespace.
 *
 * A node is a process's row with what it says about itself (functions/watch/nodes.sql). The keeper
 * registers it on each of its connections, so a row that was swept while the server was out of
 * reach comes back; its beats are the heartbeat. Closing, or a process that sweeps the dead, moves
 * the node to past_nodes.
 *
 * An id that was given is looked for when the store is opened. The server learns of a process's
 * death a moment later than the supervisor that starts it again, so the store asks for a little
 * while. If the id is found to be another's later (we were frozen, or cut off, for so long that
 * another process took it) no call is there to return it, so it goes into the log; work is not
 * affected, ids are for people.
 */
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define CONFLICT_WAIT_MS 1000 /* for the end of the process that has our id */
#define CONFLICT_PAUSE_MS 50

static hf_status register_once(struct postgres_engine *engine, struct session *session, bool locked,
                               bool again)
{
    const struct node_facts *node = &engine->node;
    struct params *params = session_params(session);
    param_uuid(params, engine->token);
    param_bool(params, locked);
    param_bool(params, again);
    param_text(params, node->id);
    param_bool(params, node->given);
    param_text(params, engine->node_name);
    param_text(params, node->description);
    param_json(params, node->metadata_json);
    param_text(params, node->host);
    param_int8(params, node->pid);
    param_text(params, text_of(HF_VERSION));
    param_int8(params, node->heartbeat_ms);
    PGresult *result;
    int64_t asked_us = clock_steady_us();
    hf_status status = session_query_once(session, POSTGRES_QUERY_KEEPER_REGISTER, &result);
    if (status) {
        return status;
    }
    skew_see(engine, result_time(result, 0, 2, 0), asked_us, clock_steady_us());
    status = (hf_status)result_int8(result, 0, 0, HF_CORRUPT);
    struct text message = result_text(result, 0, 1);
    if (status) {
        status = fail(status, "%s: %" TEXT_PRI, engine->place, TEXT_ARG(message));
    } else if (message.length > 0) {
        log_about(engine->log, HF_LOG_WARN, NULL, "%s: %" TEXT_PRI, engine->place,
                  TEXT_ARG(message));
    }
    PQclear(result);
    return status;
}

hf_status postgres_node_register(struct postgres_engine *engine, struct session *session,
                                 bool locked, bool again)
{
    hf_status status = register_once(engine, session, locked, again);
    for (int waited_ms = 0; status == HF_CONFLICT && !again && waited_ms < CONFLICT_WAIT_MS;
         waited_ms += CONFLICT_PAUSE_MS) {
        nanosleep(&(struct timespec){.tv_nsec = CONFLICT_PAUSE_MS * 1000000L}, NULL);
        status = register_once(engine, session, locked, again);
    }
    if (again && (status == HF_CONFLICT || status == HF_BUSY)) {
        log_about(engine->log, HF_LOG_WARN, NULL, "%s", err_message());
        status = HF_OK;
    }
    return status;
}

hf_status postgres_node_list(struct engine *engine, struct text id, node_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_NODE_LIST);
    param_uuid(params, postgres_of(engine)->token);
    param_text(params, id);
    pg_lookup_run(&lookup);
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        const PGresult *result = lookup.result;
        struct node_row one = {
            .id = result_text(result, row, 0),
            .name = result_text(result, row, 1),
            .description = result_text(result, row, 2),
            .metadata_json = result_text(result, row, 3),
            .host = result_text(result, row, 4),
            .version = result_text(result, row, 5),
            .pid = result_int8(result, row, 6, -1),
            .heartbeat_ms = result_int8(result, row, 7, -1),
            .started_at_us = result_time(result, row, 8, -1),
            .seen_at_us = result_time(result, row, 9, -1),
            .stopped_at_us = result_time(result, row, 10, -1),
            .state = (hf_node_state)result_int8(result, row, 11, HF_NODE_GONE),
            .self = result_bool(result, row, 12),
        };
        enough = found(&one, ctx);
    }
    return pg_lookup_end(&lookup);
}
