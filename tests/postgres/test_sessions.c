/*
 * test_sessions.c - how many sessions a store has with its server: the limit, the turn of those who
 * wait, a server that has none left, those that are not used any more, their era, and stores that
 * are brief.
 */
#include "postgres/support_cluster.h"
#include "postgres/support_proxy.h"
#include "postgres/support_side.h"
#include "support/crowd.h"
#include "support/make.h"
#include "support/postgres.h"

#include <libpq-fe.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "store/transfer.h"

#define THREADS 6
#define SCARCE 3 /* sessions that a role may have: writer, keeper, and one to read */
#define WORK_MS 3000
#define HOLD_MS 80   /* longer than a thread waits for a session before it opens another (pool.h) */
#define MOMENT_MS 50 /* as long as that */
#define TRIES 50
#define HOUR_US INT64_C(3600000000)
#define LOCKED_MS 400 /* longer than the writer waits for a lock (commit_mode.h) */
#define ROUNDS 20

static void add_to_url(struct fixture *f, const char *parameter)
{
    size_t used = strlen(f->url);
    snprintf(f->url + used, sizeof f->url - used, "&%s", parameter);
}

static void skip_without_server(const struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
}

static hf_status open_with(struct fixture *f, const char *parameter, struct store **ret_store)
{
    char url[sizeof f->url + 64];
    struct store_options options = fixture_options(f, "limited");
    snprintf(url, sizeof url, "%s&%s", f->url, parameter);
    return store_open(url, &options, ret_store);
}

/* ---- The limit ------------------------------------------------------------------------------- */

static void a_limit_of_sessions_out_of_range_is_refused(void **state)
{
    static const char *const wrong[] = {"3", "0", "-1", "1001", "99999999999", "8x", "", "many"};
    struct fixture *f = *state;
    struct store *store = NULL;
    char parameter[64];
    skip_without_server(f);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(parameter, sizeof parameter, "holdfast_sessions=%s", wrong[i]);
        must_answer(HF_INVALID, open_with(f, parameter, &store));
        must_say("holdfast_sessions takes a number from 4 to 1000");
    }
    must_answer(HF_INVALID, open_with(f, "holdfast_sessions", &store));
    must_answer(HF_INVALID, open_with(f, "holdfast_session=8", &store));
    must_say("there is no parameter holdfast_session;");
    must_answer(HF_OK, open_with(f, "holdfast_sessions=4", &store));
    store_close(store);
    must_answer(HF_OK, open_with(f, "holdfast_sessions=1000&connect_timeout=9", &store));
    store_close(store);
}

/* ---- Waiting for a turn ---------------------------------------------------------------------- */

struct turns {
    struct store *store;
    atomic_int gone;
    int order[THREADS]; /* who was the nth to be served; written by who has the session */
    hf_status status[THREADS];
};

struct turn {
    struct turns *turns;
    int index;
};

static void take_turn(int index, void *ctx)
{
    const struct turn *turn = ctx;
    struct turns *turns = turn->turns;
    struct exporter *exporter = NULL;
    (void)index;
    turns->status[turn->index] = store_export_open(turns->store, &exporter);
    if (exporter) {
        turns->order[atomic_fetch_add(&turns->gone, 1)] = turn->index;
        store_export_close(exporter);
    }
}

static void threads_that_wait_for_a_session_get_one_in_the_order_of_asking(void **state)
{
    struct fixture *f = *state;
    static struct turns turns;
    static struct turn turn[THREADS];
    static struct crowd crowds[THREADS];
    struct exporter *exporter;
    skip_without_server(f);
    add_to_url(f, "holdfast_sessions=4"); /* one to read */
    turns = (struct turns){.store = fixture_open(f, "queue")};
    must_answer(HF_OK, store_export_open(turns.store, &exporter)); /* which has it */
    for (int i = 0; i < THREADS; i++) {
        turn[i] = (struct turn){&turns, i};
        crowd_start(&crowds[i], 1, take_turn, &turn[i]);
        crowd_settle(&crowds[i]);
    }
    must_equal(0, atomic_load(&turns.gone));
    store_export_close(exporter);
    for (int i = 0; i < THREADS; i++) {
        crowd_join(&crowds[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        must_answer(HF_OK, turns.status[i]);
        must_equal(i, turns.order[i]);
    }
}

static void a_call_that_finds_no_session_in_time_says_what_to_do(void **state)
{
    struct fixture *f = *state;
    struct exporter *exporter;
    int64_t head;
    int64_t first;
    skip_without_server(f);
    add_to_url(f, "holdfast_sessions=4");
    fixture_close(f, fixture_open(f, "maker")); /* which takes its time */
    struct store_options options = fixture_options(f, "hasty");
    options.timeout_ms = 2000;
    struct store *store = fixture_open_with(f, &options);
    must_answer(HF_OK, store_export_open(store, &exporter));
    must_answer(HF_TIMEOUT, store_head(store, &head, &first));
    must_say("holdfast_sessions in the URL (now 4)");
    append_one(store, "t", NULL); /* writing needs none of them */
    store_export_close(exporter);
    must_answer(HF_OK, store_head(store, &head, &first));
}

/* ---- Opening another ------------------------------------------------------------------------- */

static int64_t count_sessions(PGconn *pg, const char *name)
{
    return side_number(pg,
                       "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                       "AND application_name = '%s'",
                       name);
}

static void ask_once(int index, void *ctx)
{
    int64_t head;
    int64_t first;
    (void)index;
    must_answer(HF_OK, store_head(ctx, &head, &first));
}

/* A thread wants a session while another one has the only one, for how long is answered. */
static int64_t ask_beside(struct store *store, int64_t hold_ms)
{
    struct crowd crowd;
    struct exporter *exporter;
    must_answer(HF_OK, store_export_open(store, &exporter));
    int64_t begun_ms = mono_ms();
    crowd_start(&crowd, 1, ask_once, store);
    usleep((useconds_t)hold_ms * 1000);
    if (hold_ms > MOMENT_MS) {
        crowd_join(&crowd); /* it does not wait for us */
    }
    store_export_close(exporter);
    int64_t held_ms = mono_ms() - begun_ms;
    if (hold_ms <= MOMENT_MS) {
        crowd_join(&crowd);
    }
    return held_ms;
}

static void a_session_that_comes_back_in_a_moment_is_waited_for(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    PGconn *pg = NULL;
    int64_t held_ms = MOMENT_MS;
    for (int i = 0; i < TRIES && held_ms >= MOMENT_MS; i++) { /* a busy machine may hold us up */
        char name[32];
        snprintf(name, sizeof name, "moment-%d", i);
        struct store *store = fixture_open(f, name);
        pg = pg ? pg : side_open(f);
        ask_once(0, store);
        held_ms = ask_beside(store, 1);
        if (held_ms < MOMENT_MS) {
            must_equal(3, count_sessions(pg, name)); /* writer, keeper, and the one */
        }
        fixture_close(f, store);
    }
    must_hold(held_ms < MOMENT_MS);
    PQfinish(pg);
}

static void a_thread_that_has_waited_for_a_session_opens_another(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = fixture_open(f, "lasting");
    PGconn *pg = side_open(f);
    ask_once(0, store);
    ask_beside(store, HOLD_MS);
    must_equal(4, count_sessions(pg, "lasting"));
    fixture_close(f, store);
    PQfinish(pg);
}

/* ---- A server that has none left ------------------------------------------------------------- */

struct work {
    struct store *store;
    atomic_int done;
    atomic_int failed;
};

/* Looks that last: others do not wait for their ends, but want sessions of their own. */
static void hold_again_and_again(int index, void *ctx)
{
    struct work *work = ctx;
    int64_t begun_ms = mono_ms();
    (void)index;
    while (mono_ms() - begun_ms < WORK_MS) {
        struct exporter *exporter = NULL;
        hf_status status = store_export_open(work->store, &exporter);
        atomic_fetch_add(status == HF_OK ? &work->done : &work->failed, 1);
        usleep(HOLD_MS * 1000);
        store_export_close(exporter);
    }
}

/* The server refuses the second session to read with. All threads share the first one, and the
 * server is not asked over and over. */
static void a_server_without_sessions_is_asked_rarely(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct cluster cluster;
    char url[sizeof f->url];
    cluster_start(&cluster);
    cluster_database(&cluster, "hf", f->url, sizeof f->url);
    PGconn *root = side_open(f);
    side_must(root, "CREATE ROLE scarce LOGIN CONNECTION LIMIT %d", SCARCE);
    side_must(root, "ALTER DATABASE hf OWNER TO scarce");
    struct proxy *proxy = proxy_start(cluster.dir);
    add_to_url(f, "user=scarce");
    proxy_url(proxy, f->url, url, sizeof url);
    snprintf(f->url, sizeof f->url, "%s", url);
    static struct work work;
    work = (struct work){.store = fixture_open(f, "scarce")};
    int64_t before = proxy_connections(proxy);
    crowd_run(THREADS, hold_again_and_again, &work);
    int64_t asked = proxy_connections(proxy) - before;
    print_message("# %d answers, %d connections asked for\n", atomic_load(&work.done), (int)asked);
    must_equal(0, atomic_load(&work.failed));
    must_hold(atomic_load(&work.done) > THREADS);
    must_hold(asked <= 1 + THREADS + 2); /* the first of each thread at the same moment, at most */
    fixture_close(f, work.store);
    PQfinish(root);
    proxy_stop(proxy);
    cluster_stop(&cluster);
}

/* ---- Sessions that are not used -------------------------------------------------------------- */

static void sessions_that_are_not_used_are_closed(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    static struct work work;
    work = (struct work){.store = fixture_open(f, "idle")};
    PGconn *pg = side_open(f);
    crowd_run(THREADS, hold_again_and_again, &work);
    must_equal(0, atomic_load(&work.failed));
    int64_t most = count_sessions(pg, "idle");
    print_message("# %d sessions at first\n", (int)most);
    must_hold(most > 4 && most <= 8);
    clock_fake_set(clock_wall_us(), clock_mono_us());
    clock_fake_advance(HOUR_US);
    store_wake(work.store);
    int64_t begun_ms = mono_ms();
    while (count_sessions(pg, "idle") > 4 && mono_ms() - begun_ms < DEADLINE_MS) {
        usleep(5000);
    }
    int64_t left = count_sessions(pg, "idle");
    clock_fake_off();
    must_equal(4, left); /* writer, keeper, and two that are kept */
    fixture_close(f, work.store);
    PQfinish(pg);
}

/* ---- Eras ------------------------------------------------------------------------------------ */

/* One look: every definition. */
static int count_row(const struct subscription_row *row, void *ctx)
{
    (void)row;
    ++*(int *)ctx;
    return 0;
}

static int look(struct store *store)
{
    int rows = 0;
    must_answer(HF_OK, store_subscription_list(store, count_row, &rows));
    return rows;
}

static void a_session_of_the_same_server_begins_no_era(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = fixture_open(f, "kin");
    PGconn *pg = side_open(f);
    uint64_t era = store_era(store);
    int64_t before = count_sessions(pg, "kin");
    must_equal(0, look(store));
    must_equal(before + 1, count_sessions(pg, "kin"));
    must_equal((int64_t)era, (int64_t)store_era(store));
    fixture_close(f, store);
    PQfinish(pg);
}

/* ---- Brief stores ---------------------------------------------------------------------------- */

static struct store *open_brief(struct fixture *f, const char *name)
{
    struct store_options options = fixture_options(f, name);
    options.brief = true;
    return fixture_open_with(f, &options);
}

static int64_t count_processes(PGconn *pg, const char *name)
{
    return side_number(pg, "SELECT count(*) FROM holdfast_private.processes WHERE node_name = '%s'",
                       name);
}

static void a_brief_store_that_publishes_has_one_session_and_is_no_node(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "brief");
    PGconn *pg = side_open(f);
    must_equal(1, append_one(store, "t", NULL));
    must_equal(1, count_sessions(pg, "brief"));
    must_equal(0, count_processes(pg, "brief"));
    fixture_close(f, store);
    must_equal(0, count_processes(pg, "brief"));
    PQfinish(pg);
}

static void a_brief_store_that_looks_and_writes_in_turns_has_one_session(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "turns");
    PGconn *pg = side_open(f);
    must_equal(0, look(store));
    uint64_t era = store_era(store);
    subscribe_shared(store, "s");
    for (int i = 1; i <= 3; i++) {
        must_equal(i, append_one(store, "t", NULL));
        must_equal(1, look(store));
    }
    must_equal(1, count_sessions(pg, "turns"));
    must_equal((int64_t)era, (int64_t)store_era(store));
    fixture_close(f, store);
    PQfinish(pg);
}

/* Only those that write give up on a lock after a moment. */
static void a_look_of_a_brief_store_waits_for_a_lock_after_it_has_written(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "patient");
    must_equal(1, append_one(store, "t", NULL));
    PGconn *pg = postgres_lock(f->url, "holdfast_private.subscriptions");
    must_hold(pg);
    side_must(pg, "SET idle_in_transaction_session_timeout = '%d ms'", LOCKED_MS);
    must_equal(0, look(store)); /* the server ends the other session meanwhile */
    PQfinish(pg);
    fixture_close(f, store);
}

static void a_brief_store_whose_session_was_ended_goes_on_with_another(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "ended");
    PGconn *pg = side_open(f);
    for (int i = 1; i <= 4; i++) {
        side_must(pg, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                      "WHERE application_name = 'ended'");
        if (i % 2) {
            must_equal(0, look(store));
        } else {
            must_equal(i / 2, append_one(store, "t", NULL));
        }
    }
    must_equal(1, count_sessions(pg, "ended"));
    fixture_close(f, store);
    PQfinish(pg);
}

static void look_and_write(int index, void *ctx)
{
    struct work *work = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        if (index % 2) {
            look(work->store);
        } else {
            append_one(work->store, "t", NULL);
        }
        atomic_fetch_add(&work->done, 1);
    }
}

static void threads_of_a_brief_store_look_and_write_at_the_same_time(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    static struct work work;
    work = (struct work){.store = open_brief(f, "both")};
    crowd_run(THREADS, look_and_write, &work);
    must_equal(THREADS * ROUNDS, atomic_load(&work.done));
    must_equal(THREADS / 2 * ROUNDS + 1, append_one(work.store, "t", NULL));
    fixture_close(f, work.store);
}

/* A claim as the command makes it: its lease ends by the clock alone. */
static struct claim take_detached(struct fixture *f, struct store *store, int64_t id)
{
    struct claim claim = claim_of(id, 1, clock_wall_us(), fixture_batch(f));
    must_hold(!claim.bound && !claim.kept);
    must_answer(HF_OK, RUN(store, &claim));
    return claim;
}

static void a_brief_store_with_detached_leases_has_one_session_and_is_no_node(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "detached");
    PGconn *pg = side_open(f);
    int64_t id = subscribe_shared(store, "s");
    append_one(store, "t", NULL);
    struct claim claim = take_detached(f, store, id);
    must_equal(1, claim.batch->count);
    must_equal(1, count_sessions(pg, "detached"));
    must_equal(0, count_processes(pg, "detached"));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DONE, "1", clock_wall_us(), 0));
    must_equal(1, count_sessions(pg, "detached"));
    must_equal(0, count_processes(pg, "detached"));
    fixture_close(f, store);
    PQfinish(pg);
}

static void a_lease_of_a_brief_store_stays_when_the_store_is_closed(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "leaves");
    int64_t id = subscribe_shared(store, "s");
    append_one(store, "t", NULL);
    must_equal(1, take_detached(f, store, id).batch->count);
    fixture_close(f, store);
    store = open_brief(f, "comes");
    must_equal(0, take_detached(f, store, id).batch->count);
    fixture_close(f, store);
}

/* It is by this time that a clock which was set back is found out (clock_mind). */
static void a_brief_store_that_claims_leaves_the_time_when_it_was_there(void **state)
{
    static const char recent[] = "SELECT count(*) FROM holdfast_private.namespaces "
                                 "WHERE id = %lld AND closed_at > clock_timestamp() - interval "
                                 "'1 minute' AND closed_at <= clock_timestamp()";
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "leaver");
    PGconn *pg = side_open(f);
    long long namespace_id = side_namespace(pg, f);
    int64_t id = subscribe_shared(store, "s");
    side_must(pg, "UPDATE holdfast_private.namespaces SET closed_at = NULL");
    take_detached(f, store, id);
    must_equal(1, side_number(pg, recent, namespace_id));
    fixture_close(f, store);
    PQfinish(pg);
}

static void a_brief_store_that_claims_finds_out_that_the_clock_was_set_back(void **state)
{
    static const char late[] = "SELECT count(*) FROM holdfast_private.leases "
                               "WHERE subscription_id = %lld "
                               "AND expires_at > clock_timestamp() + interval '1 day'";
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "before");
    PGconn *pg = side_open(f);
    int64_t id = subscribe_shared(store, "s");
    append_one(store, "t", NULL);
    must_equal(1, take_detached(f, store, id).batch->count);
    fixture_close(f, store);
    side_must(pg, "UPDATE holdfast_private.leases SET expires_at = expires_at + interval '1 year'");
    side_must(pg, "UPDATE holdfast_private.namespaces SET closed_at = closed_at + interval '1 "
                  "year'");
    must_equal(1, side_number(pg, late, (long long)id));
    store = open_brief(f, "after");
    take_detached(f, store, id);
    must_equal(0, side_number(pg, late, (long long)id));
    fixture_close(f, store);
    PQfinish(pg);
}

static void a_brief_store_is_a_node_before_it_has_a_lease_that_is_bound_to_it(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "taker");
    PGconn *pg = side_open(f);
    int64_t id = subscribe_shared(store, "s");
    append_one(store, "t", NULL);
    must_equal(0, count_processes(pg, "taker"));
    struct claim claim = claim_of(id, 1, clock_wall_us(), fixture_batch(f));
    claim.bound = true;
    must_answer(HF_OK, RUN(store, &claim));
    must_equal(1, claim.batch->count);
    must_equal(1, count_processes(pg, "taker"));
    fixture_close(f, store);
    must_equal(0, count_processes(pg, "taker"));
    PQfinish(pg);
}

static void a_brief_store_is_a_node_while_it_waits(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "waiter");
    PGconn *pg = side_open(f);
    store_wait(store, store_news(store), 1);
    must_equal(1, count_processes(pg, "waiter"));
    fixture_close(f, store);
    PQfinish(pg);
}

static void a_brief_store_has_notified_those_who_sleep_when_its_publish_is_answered(void **state)
{
    struct fixture *f = *state;
    skip_without_server(f);
    struct store *store = open_brief(f, "bell");
    PGconn *pg = side_open(f);
    int64_t namespace_id = side_namespace(pg, f);
    side_must(pg, "LISTEN holdfast_%lld", (long long)namespace_id);
    side_must(pg, "SELECT holdfast.sleep(%lld, 60000)", (long long)namespace_id);
    append_one(store, "t", NULL);
    side_must(pg, "SELECT 1"); /* what came before it has been received with its answer */
    PGnotify *notify = PQnotifies(pg);
    must_hold(notify);
    PQfreemem(notify);
    must_equal(1, count_sessions(pg, "bell"));
    fixture_close(f, store);
    PQfinish(pg);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_limit_of_sessions_out_of_range_is_refused),
    CLAIM(threads_that_wait_for_a_session_get_one_in_the_order_of_asking),
    CLAIM(a_call_that_finds_no_session_in_time_says_what_to_do),
    CLAIM(a_session_that_comes_back_in_a_moment_is_waited_for),
    CLAIM(a_thread_that_has_waited_for_a_session_opens_another),
    CLAIM(a_server_without_sessions_is_asked_rarely),
    CLAIM(sessions_that_are_not_used_are_closed),
    CLAIM(a_session_of_the_same_server_begins_no_era),
    CLAIM(a_brief_store_that_publishes_has_one_session_and_is_no_node),
    CLAIM(a_brief_store_that_looks_and_writes_in_turns_has_one_session),
    CLAIM(a_look_of_a_brief_store_waits_for_a_lock_after_it_has_written),
    CLAIM(a_brief_store_whose_session_was_ended_goes_on_with_another),
    CLAIM(threads_of_a_brief_store_look_and_write_at_the_same_time),
    CLAIM(a_brief_store_with_detached_leases_has_one_session_and_is_no_node),
    CLAIM(a_lease_of_a_brief_store_stays_when_the_store_is_closed),
    CLAIM(a_brief_store_that_claims_leaves_the_time_when_it_was_there),
    CLAIM(a_brief_store_that_claims_finds_out_that_the_clock_was_set_back),
    CLAIM(a_brief_store_is_a_node_before_it_has_a_lease_that_is_bound_to_it),
    CLAIM(a_brief_store_is_a_node_while_it_waits),
    CLAIM(a_brief_store_has_notified_those_who_sleep_when_its_publish_is_answered),
};

FIXTURE_MAIN("sessions", claims, NULL)
