/*
 * session.h - one connection to the server: its statements, its deadline, its end and new
 * beginning.
 *
 * Statements are named by the enum that scripts/embed-sql makes of sql/postgres/queries. In
 * their text `{namespace}` stands for the number of the engine's namespace, so that a statement can
 * name the namespace's own table: holdfast.events_{namespace}. Parameters and results are binary.
 *
 *     struct params *params = session_params(session);
 *     param_int8(params, subscription_id);
 *     PGresult *result;
 *     hf_status status = session_query(session, POSTGRES_QUERY_LANES, &result);
 *     if (status != HF_OK) {
 *         return status;
 *     }
 *     for (int row = 0; row < PQntuples(result); row++) {
 *         uint64_t lane = (uint64_t)result_int8(result, row, 0, 0);      (row.h)
 *         ...
 *     }
 *     PQclear(result);
 *
 * Deadlines
 *   No call waits for the server beyond session->deadline. libpq's blocking calls are not used: the
 *   socket is watched by poll(). A statement that is not answered in time is cancelled, outside of
 *   commits, and the session is closed.
 *
 * Lost connections
 *   A session that lost its connection connects again at the next statement outside a transaction.
 *   session_query on a SESSION_READER also runs its statement again, once: it only reads. A caller
 *   that keeps something in memory that is only true while the server lives compares session->era
 *   (era.h). session->number rises with every connection.
 *
 * Poolers
 *   Behind a transaction pooler (the server's process is not the one that the connection named)
 *   nothing of a session lasts: no named statements, no settings but local ones, no LISTEN.
 */
#ifndef HF_STORE_POSTGRES_WIRE_SESSION_H
#define HF_STORE_POSTGRES_WIRE_SESSION_H

#include <libpq-fe.h>

#include "base/time/deadline.h"
#include "postgres_sql.h"
#include "store/postgres/wire/param.h"

struct postgres_engine;

enum session_kind {
    SESSION_WRITER,  /* apply's */
    SESSION_KEEPER,  /* the keeper's: LISTEN, the advisory lock, renewals */
    SESSION_READER,  /* of the pool: reads, and is given back */
    SESSION_CHECKER, /* backend_check.c's: asks about a session that has fallen silent */
    SESSION_HANDLER, /* of the pool: a handler's transaction */
    SESSION_FOREIGN  /* the application's; it is neither closed nor connected again */
};

enum session_fact {
    SESSION_GREETED = 1 << 0,     /* it can be used, and checked: see backend_check.c */
    SESSION_POOLED = 1 << 1,      /* it is behind a transaction pooler */
    SESSION_WEAK_COMMIT = 1 << 2, /* the server's synchronous_commit is weaker than `on` */
};

struct session {
    struct postgres_engine *engine;
    PGconn *pg; /* NULL: not connected */
    enum session_kind kind;
    uint64_t number;          /* of the connection; 0: never connected */
    uint64_t era;             /* era.h; 0: not connected, or a kind that keeps nothing in mind */
    int64_t birth_us;         /* of the server's process: struct kin */
    struct deadline deadline; /* of the statements that follow */
    struct params params;
    unsigned facts; /* enum session_fact: what is known of the connection; 0 without one */
    bool in_tx;     /* between session_begin and session_commit or session_rollback */
    bool publishes; /* the writer's: what it sends has events of a caller in it */
    bool unsure;    /* the server warned that a commit may not have been replicated */
    bool prepared[POSTGRES_QUERY_COUNT];
    char sqlstate[6];          /* of the last failure; "" if the server did not say */
    bool unanswered;           /* the last attempt to connect ended because its time was over */
    struct session *next;      /* pool.c's */
    int64_t idle_us;           /* pool.c's: since when it has been idle */
    struct session *next_open; /* engine.c's: all sessions with a connection */
};

void session_init(struct session *session, struct postgres_engine *engine, enum session_kind kind);
/* Whether one of these facts is known of the connection. */
static inline bool session_has(const struct session *session, enum session_fact fact)
{
    return session->facts & fact;
}
/* Wraps the application's own connection. */
void session_wrap(struct session *session, struct postgres_engine *engine, PGconn *pg,
                  struct deadline deadline);
/* Connects if there is no connection (any more), again and again while the server is only not there
 * yet. HF_UNAVAILABLE, HF_DENIED, HF_NOTFOUND (no such database). */
hf_status session_connect(struct session *session, struct deadline deadline);
/* One attempt with every host. */
hf_status session_connect_once(struct session *session, struct deadline deadline);
/* Whether there is a connection that has not been lost, as far as one can tell without asking. */
bool session_is_up(struct session *session);
/* Whether there is none, or libpq has already found that it was lost, or it is the parent's. */
bool session_is_lost(const struct session *session);
/* Closes the connection; what was open on it is rolled back by the server. */
void session_close(struct session *session);
/* The server does not answer: ends the connection. That of a handler is only shut down: the number
 * of its socket must stay taken as long as tx_abort may use it. */
void session_cut(struct session *session);
/* Moves a connection to a session that has none, with all that is known of it; engine_move_session
 * is for others. */
void session_move(struct session *from, struct session *to);
/* Frees the rest. */
void session_release(struct session *session);

/* The parameters for the next statement, emptied. */
struct params *session_params(struct session *session);
/* Runs a statement with those parameters. On HF_OK the caller clears *ret_result. On failure the
 * thread's message says what the server said; session->sqlstate is its code. */
hf_status session_query(struct session *session, enum postgres_query query, PGresult **ret_result);
/* The same, for a statement whose plan must be made for these parameters each time. */
hf_status session_query_once(struct session *session, enum postgres_query query,
                             PGresult **ret_result);
/* The same, without a result. */
hf_status session_run(struct session *session, enum postgres_query query);
/* Runs a statement with those parameters, planned for them, and hands up its rows one by one as
 * they arrive: each is row 0 of a result that lives until the function returns. Anything but HF_OK
 * from it ends the statement, and the connection with it. silence_ms: how long the next row may
 * take. */
typedef hf_status (*session_row_fn)(const PGresult *result, void *ctx);
hf_status session_stream(struct session *session, enum postgres_query query, int64_t silence_ms,
                         session_row_fn row, void *ctx);
/* Runs several statements without parameters, in the simple protocol. */
hf_status session_script(struct session *session, const char *sql);

/* Runs a statement on a session that has a connection; `once` as above. For dial.c. */
hf_status session_execute(struct session *session, enum postgres_query query, bool once,
                          PGresult **ret_result);
/* Waits for the socket; false when the deadline has passed, or the store is left and the server has
 * been silent for a second. */
bool session_wait(struct session *session, short events, struct deadline deadline);
/* Whether the store is left and what this session waits for is needed by no caller. */
bool session_hurries(const struct session *session);
/* The server has sent nothing for a while: whether no answer will come any more
 * (backend_check.c). */
bool session_backend_is_lost(struct session *session);
/* Asks the server to stop a statement, without waiting; frees the request. NULL is allowed. */
void session_cancel(PGcancel *cancel);

/* A transaction on this session. session_commit: anything but HF_OK means that nothing is kept,
 * except HF_UNKNOWN. Both ends close the session if the server does not answer. */
hf_status session_begin(struct session *session);
hf_status session_commit(struct session *session);
void session_rollback(struct session *session);
/* Back to SAVEPOINT holdfast. */
hf_status session_undo(struct session *session);

/* ---- Pipelines (round.c, line.c) ------------------------------------------------------------- */

/* Prepares a statement, if it is not yet: not possible in a pipeline. */
hf_status session_prepare(struct session *session, enum postgres_query query);
/* Between enter and leave statements are sent ahead of their results. All between two
 * session_pipe_sync are one transaction, which commits at the sync. */
hf_status session_pipe_enter(struct session *session);
/* Prepares a statement on the way; when its result says so, the caller notes it in `prepared`. */
hf_status session_pipe_prepare(struct session *session, enum postgres_query query);
hf_status session_pipe_send(struct session *session, enum postgres_query query);
hf_status session_pipe_sync(struct session *session);
/* The result of the oldest statement that is not answered yet, whatever it is (PGRES_TUPLES_OK, an
 * error, PGRES_PIPELINE_ABORTED, PGRES_PIPELINE_SYNC). HF_UNAVAILABLE: the connection is lost.
 * HF_TIMEOUT: no answer before the deadline; the session is as it was. */
hf_status session_pipe_next(struct session *session, PGresult **ret_result);
void session_pipe_leave(struct session *session);

/* ---- Errors (errors.c) ----------------------------------------------------------------------- */

/* What a failed result means to us, with a sentence; copies the code to session->sqlstate. */
hf_status session_fail(struct session *session, const PGresult *result, enum postgres_query query);
/* Whether what was sent may have happened in spite of this refusal: it comes from a pooler, which
 * has lost the server. */
bool session_leaves_open(const struct session *session, const char *sqlstate);
/* Worth trying again at once, and nothing happened: a serialisation failure, a deadlock, a lock
 * that could not be had, a server that shuts down. */
bool postgres_is_passing(const char *sqlstate);

/* ---- A server that has no session left (dial.c) ---------------------------------------------- */

/* Whether the server has refused a session because it has none left, so that none is asked for
 * until a pause is over; and until when, on the monotonic clock. */
bool session_is_refused(const struct postgres_engine *engine);
int64_t session_refused_until_us(const struct postgres_engine *engine);

#endif
