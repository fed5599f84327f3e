/*
 * single.c - the one session of a store that is brief. See single.h.
 *
 * Sessions that write and sessions that read differ in their settings (hello), which change hands
 * with the connection: one round trip of SETs. Prepared statements stay what they are.
 *
 * A thread that reads never waits for the writer: if apply is under way it opens a session. What a
 * failure leaves is a session without a connection, and its user connects it.
 */
#include "store/postgres/wire/single.h"

#include "base/mem.h"
#include "base/thread.h"
#include "store/postgres/postgres.h"

hf_status single_init(struct single *single)
{
    return mutex_init(&single->mutex);
}

void single_release(struct single *single)
{
    pthread_mutex_destroy(&single->mutex);
}

void single_enter_writer(struct postgres_engine *engine)
{
    pthread_mutex_lock(&engine->single.mutex);
}

void single_leave_writer(struct postgres_engine *engine)
{
    pthread_mutex_unlock(&engine->single.mutex);
}

/* Where nothing of a session lasts (a pooler) there is nothing to be set. */
static void hand_over(struct session *from, struct session *to)
{
    if (!session_is_up(from) || era_is_over(from)) {
        return;
    }
    engine_move_session(from, to);
    enum postgres_query query =
        to->kind == SESSION_WRITER ? POSTGRES_QUERY_BECOME_WRITER : POSTGRES_QUERY_BECOME_READER;
    if (!session_has(to, SESSION_POOLED) &&
        session_script(to, postgres_queries[query].sql) != HF_OK) {
        session_close(to);
    }
}

static void take_for_writer(struct session *writer)
{
    struct session *spare = session_pool_take_idle(writer->engine);
    if (spare) {
        hand_over(spare, writer);
        session_pool_drop(spare);
    }
}

static void take_for_reader(struct session *reader)
{
    struct postgres_engine *engine = reader->engine;
    if (pthread_mutex_trylock(&engine->single.mutex) == 0) {
        if (engine->writer.pg) {
            hand_over(&engine->writer, reader);
        }
        pthread_mutex_unlock(&engine->single.mutex);
    }
}

void single_take(struct session *session)
{
    struct postgres_engine *engine = session->engine;
    if (session->pg || !engine->single.wanted || keeper_is_running(engine)) {
        return;
    }
    if (session->kind == SESSION_WRITER) {
        take_for_writer(session);
    } else if (session->kind == SESSION_READER) {
        take_for_reader(session);
    }
}

bool single_writer_is_connected(struct postgres_engine *engine)
{
    if (!engine->single.wanted) {
        return true;
    }
    bool connected = true; /* it is in use */
    if (pthread_mutex_trylock(&engine->single.mutex) == 0) {
        connected = engine->writer.pg != NULL;
        pthread_mutex_unlock(&engine->single.mutex);
    }
    return connected;
}
