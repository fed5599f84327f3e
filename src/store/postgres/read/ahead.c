/*
 * ahead.c - reading ahead. See ahead.h.
 *
 *     NONE ---- ahead_ask ----> ASKED ---- the thread ----> RUNNING ----> DONE
 *      ^                          |                            |            |
 *      +------- ahead_take, ahead_drop: at once, after it is done, at once -+
 *
 * One thread makes the fetches in the order in which they were asked for. A reader whose fetch has
 * not begun when it is needed does not wait for those of others: it takes it back and asks by
 * itself.
 *
 * If a fetch fails the reader is not told why: it asks again by itself, and gets its own answer.
 */
#include "store/postgres/read/ahead.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/postgres/verbs.h"

struct ahead {
    struct postgres_engine *engine;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t asked;
    pthread_cond_t done;
    pthread_t thread;
    bool running;  /* the thread works, or waits for work */
    bool joinable; /* there was a thread, and it was not joined */
    bool stop;
    int held;                  /* fetches that are not NONE */
    struct ahead_fetch *first; /* those that are ASKED */
    struct ahead_fetch **last;
};

/* ---- The list -------------------------------------------------------------------------------- */

static void append(struct ahead *ahead, struct ahead_fetch *fetch)
{
    fetch->next = NULL;
    *ahead->last = fetch;
    ahead->last = &fetch->next;
}

static void unlist(struct ahead *ahead, const struct ahead_fetch *fetch)
{
    struct ahead_fetch **at = &ahead->first;
    while (*at != fetch) {
        at = &(*at)->next;
    }
    *at = fetch->next;
    if (!*at) {
        ahead->last = at;
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

static hf_status run(struct postgres_engine *engine, struct ahead_fetch *ahead)
{
    struct session *session = NULL;
    hf_status status = session_take(engine, &session);
    if (!status && session->era != ahead->era) {
        status = fail(HF_STALE, "the server was restarted");
    }
    if (!status) {
        status = fetch_run(&ahead->fetch, session);
    }
    if (!status && (session_is_lost(session) || session->era != ahead->era)) {
        status = fail(HF_UNAVAILABLE, "%s: the connection was lost", engine->place);
    }
    session_give(engine, session);
    return status;
}

/* Makes the first fetch. The mutex is held, and let go meanwhile. */
static void run_first(struct ahead *ahead)
{
    struct ahead_fetch *fetch = ahead->first;
    unlist(ahead, fetch);
    fetch->state = AHEAD_RUNNING;
    pthread_mutex_unlock(&ahead->mutex);
    hf_status status = run(ahead->engine, fetch);
    pthread_mutex_lock(&ahead->mutex);
    fetch->status = status;
    fetch->state = AHEAD_DONE;
    pthread_cond_broadcast(&ahead->done);
}

static void *ahead_main(void *ctx)
{
    struct ahead *ahead = ctx;
    bool in_time = true;
    pthread_mutex_lock(&ahead->mutex);
    while (!ahead->stop && in_time) {
        struct deadline until = deadline_after_ms(AHEAD_IDLE_MS);
        while (!ahead->first && !ahead->stop && in_time) {
            in_time = cond_wait_until(&ahead->asked, &ahead->mutex, until);
        }
        if (ahead->first && !ahead->stop) {
            run_first(ahead);
            in_time = true;
        }
    }
    ahead->running = false;
    pthread_mutex_unlock(&ahead->mutex);
    return NULL;
}

/* Sees to it that there is a thread. The mutex is held: a thread that is joined has let it go for
 * the last time. */
static bool start(struct ahead *ahead)
{
    if (!ahead->running) {
        if (ahead->joinable) {
            pthread_join(ahead->thread, NULL);
        }
        ahead->running =
            !ahead->stop && thread_start(&ahead->thread, "hf-ahead", ahead_main, ahead) == HF_OK;
        ahead->joinable = ahead->running;
    }
    return ahead->running;
}

/* ---- For readers ----------------------------------------------------------------------------- */

void ahead_ask(struct ahead *ahead, struct ahead_fetch *fetch, const struct fetch *what,
               uint64_t era)
{
    if (ahead_is_asked(fetch) || fetch->pace_us > AHEAD_PACE_US ||
        ahead->engine->pool.limit < AHEAD_SESSIONS_LEAST) {
        return;
    }
    pthread_mutex_lock(&ahead->mutex);
    if (ahead->held < AHEAD_MAX && start(ahead)) {
        ahead->held++;
        fetch->fetch = *what;
        fetch->era = era;
        fetch->state = AHEAD_ASKED;
        append(ahead, fetch);
        pthread_cond_signal(&ahead->asked);
    }
    pthread_mutex_unlock(&ahead->mutex);
}

/* Waits for a fetch that has begun. True: it has succeeded, and *ret_fetch has the answers. */
static bool finish(struct ahead *ahead, struct ahead_fetch *fetch, struct fetch *ret_fetch)
{
    pthread_mutex_lock(&ahead->mutex);
    if (fetch->state == AHEAD_ASKED) {
        unlist(ahead, fetch);
    }
    while (fetch->state == AHEAD_RUNNING) {
        cond_wait_until(&ahead->done, &ahead->mutex, DEADLINE_NEVER);
    }
    bool good = fetch->state == AHEAD_DONE && fetch->status == HF_OK;
    fetch->state = AHEAD_NONE;
    ahead->held--;
    pthread_mutex_unlock(&ahead->mutex);
    *ret_fetch = fetch->fetch;
    fetch->fetch = (struct fetch){0};
    return good;
}

static bool is_same(const struct fetch *a, const struct fetch *b)
{
    return a->tail && a->after == b->after && a->hole_count == 0 && a->position_count == 0;
}

/* An answer that reaches the end of the log is out of date: news that came since it was asked for
 * would be taken for read, and nothing would call for it again. */
static bool is_full(const struct fetch *fetch)
{
    return fetch->tail_rows && PQntuples(fetch->tail_rows->result) == fetch->limit;
}

bool ahead_take(struct ahead *ahead, struct ahead_fetch *fetch, struct fetch *what)
{
    struct fetch answers;
    int64_t now_us = clock_mono_us();
    fetch->pace_us = now_us - fetch->taken_us;
    fetch->taken_us = now_us;
    if (!ahead_is_asked(fetch)) {
        return false;
    }
    if (finish(ahead, fetch, &answers) && is_same(what, &answers) && is_full(&answers)) {
        *what = answers;
        return true;
    }
    fetch_release(&answers);
    return false;
}

void ahead_drop(struct ahead *ahead, struct ahead_fetch *fetch)
{
    struct fetch answers;
    if (ahead_is_asked(fetch)) {
        (void)finish(ahead, fetch, &answers);
        fetch_release(&answers);
    }
}

/* ---- For the engine -------------------------------------------------------------------------- */

hf_status ahead_new(struct postgres_engine *engine, struct ahead **ret_ahead)
{
    struct ahead *ahead = mem_calloc(1, sizeof *ahead);
    if (!ahead) {
        return fail(HF_NOMEM, "no memory for an engine");
    }
    ahead->engine = engine;
    ahead->last = &ahead->first;
    hf_status status = mutex_init(&ahead->mutex);
    if (status) {
        mem_free(ahead);
        return status;
    }
    status = cond_init(&ahead->asked);
    if (!status) {
        status = cond_init(&ahead->done);
        if (status) {
            pthread_cond_destroy(&ahead->asked);
        }
    }
    if (status) {
        pthread_mutex_destroy(&ahead->mutex);
        mem_free(ahead);
        return status;
    }
    *ret_ahead = ahead;
    return HF_OK;
}

void ahead_free(struct ahead *ahead)
{
    if (!ahead) {
        return;
    }
    pthread_mutex_lock(&ahead->mutex);
    ahead->stop = true;
    pthread_cond_signal(&ahead->asked);
    bool joinable = ahead->joinable;
    pthread_mutex_unlock(&ahead->mutex);
    if (joinable) {
        pthread_join(ahead->thread, NULL);
    }
    pthread_cond_destroy(&ahead->done);
    pthread_cond_destroy(&ahead->asked);
    pthread_mutex_destroy(&ahead->mutex);
    mem_free(ahead);
}
