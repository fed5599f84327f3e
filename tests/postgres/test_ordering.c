/*
 * test_ordering.c - whatever order transactions commit in, a reader loses nothing, doubles nothing,
 * and its floor passes only what is decided. On a live server: skipped unless the URL is one.
 */
#include "postgres/support_audience.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text/glob.h"
#include "postgres_sql.h"
#include "support/crowd.h"

/* A store with a reader of each kind, and some sessions of publishers. */
struct scene {
    struct fixture *f;
    struct store *store;
    struct audience loose;
    struct audience strict;
    PGconn *a;
    PGconn *b;
    PGconn *c;
};

static struct scene scene_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    struct scene s = {.f = f, .store = fixture_open(f, "reader")};
    audience_open(&s.loose, s.store, 0, false, "*");
    audience_open(&s.strict, s.store, 0, true, "*");
    s.a = side_open(f);
    s.b = side_open(f);
    s.c = side_open(f);
    return s;
}

static void scene_end(struct scene *s)
{
    audience_close(&s->loose);
    audience_close(&s->strict);
    PQfinish(s->a);
    PQfinish(s->b);
    PQfinish(s->c);
}

static int64_t publish(const struct scene *s, PGconn *pg)
{
    return side_publish(pg, s->f, "t", NULL);
}

static void read_both(struct scene *s)
{
    audience_read(&s->loose);
    audience_read(&s->strict);
}

/* Gives the prober time for several looks: whatever would be decided wrongly is decided now. */
static void let_it_look(struct scene *s)
{
    for (int i = 0; i < 10; i++) {
        usleep(30000);
        read_both(s);
    }
}

static void await_both(struct scene *s, int64_t floor)
{
    audience_await(&s->loose, floor);
    audience_await(&s->strict, floor);
}

/* ---- Out of order, rolled back --------------------------------------------------------------- */

static void events_that_commit_out_of_order_are_both_delivered(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    read_both(&s);
    must_read("2", audience_list(&s.loose));
    must_read("", audience_list(&s.strict));
    let_it_look(&s);
    must_equal(0, s.loose.floor);
    must_equal(0, s.strict.floor);
    side_must(s.a, "COMMIT");
    await_both(&s, 2);
    must_read("2 1", audience_list(&s.loose));
    must_read("1 2", audience_list(&s.strict));
    scene_end(&s);
}

static void a_rolled_back_number_does_not_hold_the_floor(void **state)
{
    struct scene s = scene_of(*state);
    must_equal(1, publish(&s, s.a));
    side_must(s.a, "BEGIN");
    must_equal(2, publish(&s, s.a));
    must_equal(3, publish(&s, s.b));
    let_it_look(&s);
    must_equal(1, s.loose.floor);
    side_must(s.a, "ROLLBACK");
    await_both(&s, 3);
    must_read("1 3", audience_list(&s.loose));
    must_read("1 3", audience_list(&s.strict));
    scene_end(&s);
}

static void ten_thousand_rolled_back_numbers_are_passed_at_once(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    side_must(s.a, "SELECT holdfast.publish('%s', 't', '{}') FROM generate_series(1, 10000)",
              s.f->namespace_name);
    must_equal(10001, publish(&s, s.b));
    read_both(&s);
    side_must(s.a, "ROLLBACK");
    await_both(&s, 10001);
    must_read("10001", audience_list(&s.loose));
    scene_end(&s);
}

static void ten_thousand_late_events_come_in_their_order(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    side_must(s.a, "SELECT holdfast.publish('%s', 't', '{}') FROM generate_series(1, 10000)",
              s.f->namespace_name);
    must_equal(10001, publish(&s, s.b));
    read_both(&s);
    must_equal(0, s.strict.count);
    side_must(s.a, "COMMIT");
    await_both(&s, 10001);
    must_equal(10001, s.loose.count);
    must_equal(10001, s.strict.count);
    must_equal(10001, s.loose.positions[0]);
    for (int64_t i = 1; i <= 10000; i++) {
        must_equal(i, s.loose.positions[i]);
    }
    scene_end(&s);
}

/* What waits is read again by the new filter, among more that came between than one fetch has. */
static void a_filter_that_changes_loses_nothing_that_waits(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    side_must(s.c, "BEGIN");
    side_must(s.c, "SELECT holdfast.publish('%s', 't', '{}') FROM generate_series(1, 10000)",
              s.f->namespace_name);
    must_equal(10003, publish(&s, s.b));
    audience_read(&s.strict);
    must_equal(0, s.strict.count);
    side_must(s.c, "COMMIT");
    s.strict.pattern = text_of("t");
    audience_read(&s.strict);
    must_equal(0, s.strict.count);
    side_must(s.a, "COMMIT");
    audience_await(&s.strict, 10003);
    must_equal(10003, s.strict.count);
    scene_end(&s);
}

/* No session publishes: then a single look decides all gaps that there are. */
static void old_gaps_delay_no_reader(void **state)
{
    struct scene s = scene_of(*state);
    int64_t id = side_namespace(s.b, s.f);
    side_must(s.b,
              "DO $$ BEGIN FOR i IN 1 .. 9000 LOOP "
              "IF i %% 3 = 0 THEN PERFORM holdfast_private.draw(%lld); END IF; "
              "PERFORM holdfast.publish('%s', 't', '{}'); END LOOP; END $$",
              (long long)id, s.f->namespace_name);
    audience_read(&s.strict);
    must_equal(12000, s.strict.floor);
    must_equal(9000, s.strict.count);
    audience_await(&s.loose, 12000);
    must_equal(9000, s.loose.count);
    scene_end(&s);
}

/* More gaps than a reader keeps: it stops reading ahead, and goes on when they are decided. */
static void too_many_gaps_stop_the_reading_until_they_are_decided(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    int64_t id = side_namespace(s.b, s.f);
    /* Every second number is drawn and left by the way. */
    side_must(s.b,
              "DO $$ BEGIN FOR i IN 1 .. 6000 LOOP "
              "PERFORM holdfast_private.draw(%lld); "
              "PERFORM holdfast.publish('%s', 't', '{}'); END LOOP; END $$",
              (long long)id, s.f->namespace_name);
    let_it_look(&s);
    must_equal(0, s.loose.floor);
    must_equal(4096, s.loose.count);
    side_must(s.a, "COMMIT");
    await_both(&s, 12001);
    must_equal(6001, s.loose.count);
    must_equal(6001, s.strict.count);
    scene_end(&s);
}

static void a_gap_is_decided_soon_after_the_last_publisher_that_might_fill_it(void **state)
{
    struct scene s = scene_of(*state);
    int64_t worst = 0;
    int64_t sum = 0;
    for (int round = 0; round < 20; round++) {
        side_must(s.a, "BEGIN");
        publish(&s, s.a);
        side_must(s.c, "BEGIN");
        publish(&s, s.c); /* open when the gap is seen, so it counts as well */
        int64_t last = publish(&s, s.b);
        read_both(&s);
        side_must(s.a, "ROLLBACK");
        usleep((useconds_t)(round * 7000));
        audience_read(&s.loose);
        side_must(s.c, "ROLLBACK");
        int64_t ms = audience_await(&s.loose, last);
        worst = ms > worst ? ms : worst;
        sum += ms;
        audience_await(&s.strict, last);
    }
    printf("# a gap is decided %d ms after its publisher on average, %d ms at worst\n",
           (int)(sum / 20), (int)worst);
    must_hold(sum / 20 < 5000); /* 100 ms on a machine that has nothing else to do */
    scene_end(&s);
}

/* ---- Sessions that might fill a gap ---------------------------------------------------------- */

static void a_savepoint_that_is_rolled_back_frees_its_numbers(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    side_must(s.a, "SAVEPOINT one");
    must_equal(1, publish(&s, s.a));
    side_must(s.a, "ROLLBACK TO one");
    must_equal(2, publish(&s, s.b));
    await_both(&s, 2); /* 1 is dead: its lock went with the savepoint */
    must_equal(3, publish(&s, s.a));
    must_equal(4, publish(&s, s.b));
    let_it_look(&s);
    must_equal(2, s.strict.floor);
    side_must(s.a, "COMMIT");
    await_both(&s, 4);
    must_read("2 4 3", audience_list(&s.loose));
    must_read("2 3 4", audience_list(&s.strict));
    scene_end(&s);
}

static void a_number_drawn_long_before_its_insert_is_waited_for(void **state)
{
    struct scene s = scene_of(*state);
    int64_t id = side_namespace(s.a, s.f);
    side_must(s.a, "BEGIN");
    must_equal(1, side_number(s.a, "SELECT holdfast_private.draw(%lld)",
                              (long long)id)); /* assigns no transaction id */
    must_equal(2, publish(&s, s.b));
    let_it_look(&s);
    must_equal(0, s.loose.floor);
    side_must(
        s.a,
        "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
        "entered_at, id, "
        "namespace_id, type, payload) SELECT e.position, 1, holdfast_private.checksum_of("
        "holdfast_private.content_of(e.id, now(), 't', NULL, NULL, NULL, NULL, NULL, '{}'), 1, "
        "e.position, now(), NULL), now(), now(), e.id, %lld, 't', '{}' "
        "FROM (SELECT 1::bigint AS position, gen_random_uuid() AS id) e",
        (long long)id);
    let_it_look(&s);
    must_equal(0, s.strict.floor);
    side_must(s.a, "COMMIT");
    await_both(&s, 2);
    must_read("2 1", audience_list(&s.loose));
    must_read("1 2", audience_list(&s.strict));
    scene_end(&s);
}

static void a_prepared_transaction_is_waited_for(void **state)
{
    struct scene s = scene_of(*state);
    if (side_number(s.a, "SELECT current_setting('max_prepared_transactions')::int") == 0) {
        scene_end(&s);
        skip();
    }
    const char *name = s.f->namespace_name;
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    let_it_look(&s); /* it is known by the name that it had before */
    side_must(s.a, "PREPARE TRANSACTION 'one-%s'", name);
    side_must(s.c, "BEGIN");
    must_equal(3, publish(&s, s.c));
    side_must(s.c, "PREPARE TRANSACTION 'two-%s'", name); /* it is not known yet */
    must_equal(4, publish(&s, s.b));
    let_it_look(&s);
    must_equal(0, s.loose.floor);
    must_equal(0, s.strict.floor);
    side_must(s.b, "COMMIT PREPARED 'one-%s'", name);
    audience_await(&s.loose, 2);
    let_it_look(&s);
    must_equal(2, s.loose.floor);
    side_must(s.b, "ROLLBACK PREPARED 'two-%s'", name);
    await_both(&s, 4);
    must_read("2 4 1", audience_list(&s.loose));
    must_read("1 2 4", audience_list(&s.strict));
    scene_end(&s);
}

static void a_publisher_that_began_after_a_gap_does_not_keep_it_open(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    let_it_look(&s);
    side_must(s.c, "BEGIN");
    must_equal(3, publish(&s, s.c));
    must_equal(4, publish(&s, s.b));
    side_must(s.a, "ROLLBACK");
    await_both(&s, 2); /* 1 is dead though c is open */
    let_it_look(&s);
    must_equal(2, s.strict.floor);
    side_must(s.c, "COMMIT");
    await_both(&s, 4);
    scene_end(&s);
}

static void a_long_transaction_elsewhere_delays_nothing(void **state)
{
    struct scene s = scene_of(*state);
    char name[64];
    char url[sizeof s.f->url + 128];
    snprintf(name, sizeof name, "elsewhere_%d", (int)getpid());
    side_must(s.a, "CREATE DATABASE %s", name);
    PQconninfoOption *options = PQconninfo(s.a);
    const char *host = "";
    const char *user = "";
    const char *port = "";
    for (PQconninfoOption *option = options; option->keyword; option++) {
        const char *value = option->val ? option->val : "";
        host = strcmp(option->keyword, "host") == 0 ? value : host;
        user = strcmp(option->keyword, "user") == 0 ? value : user;
        port = strcmp(option->keyword, "port") == 0 ? value : port;
    }
    snprintf(url, sizeof url, "host='%s' user='%s' port='%s' dbname=%s", host, user, port, name);
    PQconninfoFree(options);
    PGconn *elsewhere = side_open_url(url);
    side_must(elsewhere, "CREATE TABLE t (n int)");
    side_must(elsewhere, "BEGIN");
    side_must(elsewhere, "INSERT INTO t VALUES (1)");
    /* And one in this database that writes, but publishes nothing here. */
    side_must(s.c, "BEGIN");
    side_must(s.c, "CREATE TEMPORARY TABLE mine (n int)");
    side_must(s.c, "SELECT * FROM holdfast_private.events LIMIT 1");
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    side_must(s.a, "ROLLBACK");
    must_equal(3, publish(&s, s.b));
    await_both(&s, 3);
    must_read("2 3", audience_list(&s.strict));
    PQfinish(elsewhere);
    side_must(s.c, "ROLLBACK");
    side_must(s.a, "DROP DATABASE %s WITH (FORCE)", name);
    scene_end(&s);
}

static void another_namespace_s_publishers_delay_nothing(void **state)
{
    struct scene s = scene_of(*state);
    fixture_open_other(s.f, "other");
    side_must(s.c, "BEGIN");
    side_must(s.c,
              "SELECT holdfast.publish(name, 't', '{}') FROM holdfast_private.namespaces "
              "WHERE name <> '%s'",
              s.f->namespace_name);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    side_must(s.a, "ROLLBACK");
    await_both(&s, 2);
    side_must(s.c, "ROLLBACK");
    scene_end(&s);
}

/* ---- Now ------------------------------------------------------------------------------------- */

struct now {
    struct store *store;
    atomic_bool done;
    int64_t position;
};

static void ask_now(int index, void *ctx)
{
    struct now *now = ctx;
    (void)index;
    must_answer(HF_OK, store_now(now->store, deadline_after_ms(DEADLINE_MS), &now->position));
    atomic_store(&now->done, true);
}

static void now_waits_for_publishers_that_are_under_way(void **state)
{
    struct scene s = scene_of(*state);
    must_equal(1, publish(&s, s.b));
    side_must(s.a, "BEGIN");
    must_equal(2, publish(&s, s.a));
    must_equal(3, publish(&s, s.b));
    struct now now = {.store = fixture_open(*state, "caller")};
    struct crowd crowd;
    crowd_start(&crowd, 1, ask_now, &now);
    side_await_look(s.b, "caller");
    must_hold(!atomic_load(&now.done));
    side_must(s.c, "BEGIN"); /* begins while it waits: that is after now */
    must_equal(4, publish(&s, s.c));
    side_must(s.a, "COMMIT");
    crowd_join(&crowd);
    must_equal(3, now.position);
    /* Whatever commits from here on is above it, and a reader that begins there gets it. */
    struct audience later;
    audience_open(&later, s.store, now.position, false, "*");
    side_must(s.c, "COMMIT");
    audience_await(&later, 4);
    must_read("4", audience_list(&later));
    audience_close(&later);
    scene_end(&s);
}

static void now_gives_up_at_its_deadline_and_names_the_publisher(void **state)
{
    struct scene s = scene_of(*state);
    int64_t position = -7;
    side_must(s.a, "BEGIN");
    publish(&s, s.a);
    char pid[32];
    snprintf(pid, sizeof pid, "%d", PQbackendPID(s.a));
    int64_t timeout_ms = 50;
    do { /* on a slow machine the time may be over before it has looked */
        timeout_ms *= 2;
        must_answer(HF_TIMEOUT, store_now(s.store, deadline_after_ms(timeout_ms), &position));
    } while (!strstr(err_message(), pid) && timeout_ms < DEADLINE_MS);
    must_say(pid);
    must_equal(-7, position);
    side_must(s.a, "ROLLBACK");
    must_answer(HF_OK, store_now(s.store, deadline_after_ms(DEADLINE_MS), &position));
    must_equal(1, position);
    scene_end(&s);
}

/* ---- The connection, the plans --------------------------------------------------------------- */

/* Ends the sessions through which the log was read, and holders of locks were looked at; how many
 * there were. */
static int64_t cut_readers(struct scene *s)
{
    return side_number(s->c, "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity "
                             "WHERE datname = current_database() AND application_name = 'reader' "
                             "AND query ~ 't.position|publishing_now|pg_postmaster_start_time'");
}

/* The server lives on, so what was read through the lost connection is still true: the reader goes
 * on where it was, and nothing comes twice (audience_read sees to that). */
static void a_reader_whose_connection_is_lost_goes_on_through_another(void **state)
{
    struct scene s = scene_of(*state);
    publish(&s, s.b);
    side_must(s.a, "BEGIN");
    publish(&s, s.a);
    publish(&s, s.b);
    read_both(&s);
    must_read("1 3", audience_list(&s.loose));
    must_hold(cut_readers(&s) > 0);
    read_both(&s);
    must_equal(1, s.loose.floor);
    side_must(s.a, "COMMIT");
    audience_await(&s.loose, 3);
    audience_await(&s.strict, 3);
    must_read("1 3 2", audience_list(&s.loose));
    must_read("1 2 3", audience_list(&s.strict));
    scene_end(&s);
}

/* Each step of the proof is seen through another session: the reading that finds the gap, the look
 * that finds its holder, the look that does not, and the reading that proves it dead. */
static void a_gap_is_proven_dead_through_several_sessions(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.a, "BEGIN");
    publish(&s, s.a);
    publish(&s, s.b);
    read_both(&s);
    for (int i = 0; i < 3; i++) {
        must_hold(cut_readers(&s) > 0);
        let_it_look(&s);
        must_equal(0, s.loose.floor);
        must_equal(0, s.strict.floor);
    }
    cut_readers(&s);
    side_must(s.a, "ROLLBACK");
    await_both(&s, 2);
    must_read("2", audience_list(&s.strict));
    scene_end(&s);
}

/* The server's expression and filter_matches must agree, whatever the characters. */
static void patterns_mean_the_same_to_the_server(void **state)
{
    static const char *const types[] = {"a",     "a.b",   "a.b.c", "b.a",         "a-b.c", "a(b.c",
                                        "a+b",   "a|b.c", "A.b",   "ä.ö",         "a.ö.c", "x_y.z",
                                        "[a]",   "{1}",   "$",     "^.a",         "a\\d",  "a#b.c",
                                        "(?i)a", "d",     "a?",    "\U0001F600.b"};
    static const char *const patterns[] = {
        "*",     "**",  "a",      "a.*",   "a.**", "*.b", "*.*",         "*.*.c", "a-b.*",
        "a(b.*", "a+b", "a|b.c",  "[a]",   "{1}",  "$",   "^.*",         "a\\d",  "a#b.**",
        "(?i)a", "ä.*", "a.ö.**", "x_y.z", "A.*",  "a?",  "\U0001F600.*"};
    struct scene s = scene_of(*state);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        append_one(s.store, types[i], NULL);
    }
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        struct audience audience;
        audience_open(&audience, s.store, 0, false, patterns[p]);
        audience_read(&audience);
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            bool wanted = glob_match(text_of(patterns[p]), text_of(types[i]));
            if (wanted != audience.seen[i + 1]) {
                check_fail(__FILE__, __LINE__, "%s and %s", patterns[p], types[i]);
            }
        }
        audience_close(&audience);
    }
    scene_end(&s);
}

/* ---- Adversaries ----------------------------------------------------------------------------- */

#define PUBLISHERS 16
#define RUN_MS 5000
#define LEDGER_MAX 40000

/* What one publisher did. */
struct publisher {
    PGconn *pg;
    uint64_t seed;
    int64_t committed[LEDGER_MAX]; /* positions, in the order of their commits */
    size_t count;
    int64_t open[64]; /* positions of the present transaction */
    size_t open_count;
    bool two_phase; /* the present transaction will be prepared: then it may not NOTIFY */
    int64_t prepared;
    int64_t rolled_back;
};

struct battle {
    struct scene *s;
    int64_t namespace_id;
    int64_t until_ms;
    struct publisher publishers[PUBLISHERS];
    _Atomic int64_t prepared, undone; /* transactions */
    _Atomic int64_t ended;
};

/* A slow machine gets longer, until the run was strong enough. */
static bool goes_on(struct battle *battle)
{
    int64_t late_ms = mono_ms() - battle->until_ms;
    bool strong = atomic_load(&battle->prepared) > 0 && atomic_load(&battle->undone) > 100;
    return late_ms < 0 || (!strong && late_ms < DEADLINE_MS);
}

static uint64_t dice(struct publisher *self, uint64_t below)
{
    self->seed += UINT64_C(0x9e3779b97f4a7c15);
    return hash_mix(self->seed) % below;
}

/* One event; its key is the publisher's, and a publisher publishes one after the other. */
static void draw(struct battle *battle, int index)
{
    struct publisher *self = &battle->publishers[index];
    char key[16];
    snprintf(key, sizeof key, "k%d", index);
    if (self->two_phase || dice(self, 4) == 0) { /* draws first, inserts later */
        int64_t position = side_number(self->pg, "SELECT holdfast_private.draw(%lld)",
                                       (long long)battle->namespace_id);
        if (dice(self, 4) == 0) {
            usleep((useconds_t)dice(self, 20000));
        }
        if (dice(self, 3) == 0) {
            self->rolled_back++; /* and some never */
            return;
        }
        side_must(
            self->pg,
            "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
            "entered_at, id, "
            "namespace_id, type, key, payload) SELECT e.position, 1, holdfast_private.checksum_of("
            "holdfast_private.content_of(e.id, now(), e.type, e.key, NULL, NULL, NULL, "
            "NULL, '{}'), "
            "1, e.position, now(), NULL), now(), now(), e.id, %lld, e.type, e.key, '{}' "
            "FROM (SELECT %lld::bigint AS position, gen_random_uuid() AS id, '%s' AS type, "
            "'%s' AS key) e",
            (long long)battle->namespace_id, (long long)position, dice(self, 2) ? "x.a" : "y.b",
            key);
        self->open[self->open_count++] = position;
    } else {
        self->open[self->open_count++] =
            side_publish(self->pg, battle->s->f, dice(self, 2) ? "x.a" : "y.b", key);
    }
}

static void draw_some(struct battle *battle, int index)
{
    struct publisher *self = &battle->publishers[index];
    size_t wanted = 1 + dice(self, dice(self, 5) == 0 ? 12 : 2);
    while (wanted-- > 0) {
        bool save = dice(self, 3) == 0;
        size_t before = self->open_count;
        if (save) {
            side_must(self->pg, "SAVEPOINT s");
        }
        draw(battle, index);
        if (save && dice(self, 2)) {
            side_must(self->pg, "ROLLBACK TO s");
            self->rolled_back += (int64_t)(self->open_count - before);
            self->open_count = before;
        }
    }
}

/* Ends the transaction in some way. True if it committed. */
static bool end_transaction(struct battle *battle, int index, int64_t number)
{
    struct publisher *self = &battle->publishers[index];
    bool keep = dice(self, 4) != 0;
    if (self->two_phase) {
        char name[HF_NAMESPACE_BYTES_MAX + 64];
        snprintf(name, sizeof name, "%s-%d-%lld", battle->s->f->namespace_name, index,
                 (long long)number);
        side_must(self->pg, "PREPARE TRANSACTION '%s'", name);
        usleep((useconds_t)dice(self, 60000));
        side_must(self->pg, "%s PREPARED '%s'", keep ? "COMMIT" : "ROLLBACK", name);
        self->prepared++;
    } else {
        side_must(self->pg, keep ? "COMMIT" : "ROLLBACK");
    }
    return keep;
}

static void fight(int index, void *ctx)
{
    struct battle *battle = ctx;
    struct publisher *self = &battle->publishers[index];
    for (int64_t number = 0; goes_on(battle); number++) {
        self->open_count = 0;
        self->two_phase = dice(self, 8) == 0;
        side_must(self->pg, "BEGIN");
        draw_some(battle, index);
        uint64_t pause = dice(self, 100);
        usleep(pause == 0 ? 1500000 : pause < 10 ? (useconds_t)dice(self, 100000) : 0);
        draw_some(battle, index);
        bool kept = end_transaction(battle, index, number);
        atomic_fetch_add(&battle->prepared, self->two_phase);
        if (!kept) {
            atomic_fetch_add(&battle->undone, 1);
            self->rolled_back += (int64_t)self->open_count;
            continue;
        }
        must_hold(self->count + self->open_count <= LEDGER_MAX);
        memcpy(self->committed + self->count, self->open, self->open_count * sizeof *self->open);
        self->count += self->open_count;
    }
    atomic_fetch_add(&battle->ended, 1);
}

/* Per key, events that were acknowledged before the next was published come in order. */
static void check_order(const struct entry *entry, void *ctx)
{
    int64_t *last = ctx;
    long key = strtol(entry->event.key + 1, NULL, 10);
    must_hold(key >= 0 && key < PUBLISHERS);
    if (entry->event.position < last[key]) {
        check_fail(__FILE__, __LINE__, "key %ld: position %lld came after %lld", key,
                   (long long)entry->event.position, (long long)last[key]);
    }
    last[key] = entry->event.position;
}

static void check_ledger(const struct battle *battle, const struct audience *audience, bool all)
{
    size_t wanted = 0;
    for (int i = 0; i < PUBLISHERS; i++) {
        const struct publisher *publisher = &battle->publishers[i];
        for (size_t n = 0; n < publisher->count; n++) {
            if (all && !audience->seen[publisher->committed[n]]) {
                check_fail(__FILE__, __LINE__, "position %lld was lost",
                           (long long)publisher->committed[n]);
            }
        }
        wanted += publisher->count;
    }
    must_hold(all ? wanted == audience->count : audience->count < wanted);
}

/* Several readers run along with publishers that do everything that is allowed. */
static void adversarial_publishers_lose_and_double_nothing(void **state)
{
    struct scene s = scene_of(*state);
    static struct battle battle;
    static int64_t loose_keys[PUBLISHERS];
    static int64_t some_keys[PUBLISHERS];
    memset(&battle, 0, sizeof battle);
    memset(loose_keys, 0, sizeof loose_keys);
    memset(some_keys, 0, sizeof some_keys);
    battle.s = &s;
    battle.namespace_id = side_namespace(s.a, s.f);
    const char *seed = getenv("SEED");
    const char *ms = getenv("RUN_MS");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : (uint64_t)mono_ms();
    int64_t run_ms = ms ? strtoll(ms, NULL, 10) : RUN_MS;
    printf("# seed %llu\n", (unsigned long long)first);
    for (int i = 0; i < PUBLISHERS; i++) {
        battle.publishers[i].pg = side_open(s.f);
        battle.publishers[i].seed = first + (uint64_t)i * 1000003;
    }
    s.loose.found = check_order;
    s.loose.ctx = loose_keys;
    s.loose.max = 50;
    struct audience some;
    audience_open(&some, s.store, 0, false, "x.*");
    some.found = check_order;
    some.ctx = some_keys;
    some.max = 7;
    battle.until_ms = mono_ms() + run_ms;
    struct crowd crowd;
    crowd_start(&crowd, PUBLISHERS, fight, &battle);
    int64_t end_ms = battle.until_ms + 2 * DEADLINE_MS;
    while (atomic_load(&battle.ended) < PUBLISHERS && mono_ms() < end_ms) {
        uint64_t seen = store_news(s.store);
        read_both(&s);
        audience_read(&some);
        store_wait(s.store, seen, 20);
    }
    crowd_join(&crowd);
    int64_t last = publish(&s, s.a);
    s.loose.found = NULL; /* the last one has no key */
    await_both(&s, last);
    audience_await(&some, last);
    battle.publishers[0].committed[battle.publishers[0].count++] = last;
    check_ledger(&battle, &s.loose, true);
    check_ledger(&battle, &s.strict, true);
    check_ledger(&battle, &some, false);
    int64_t prepared = 0;
    int64_t rolled_back = 0;
    for (int i = 0; i < PUBLISHERS; i++) {
        prepared += battle.publishers[i].prepared;
        rolled_back += battle.publishers[i].rolled_back;
        PQfinish(battle.publishers[i].pg);
    }
    printf("# %lld positions, %zu delivered, %lld rolled back, %lld transactions prepared\n",
           (long long)last, s.loose.count, (long long)rolled_back, (long long)prepared);
    must_hold(prepared > 0 && rolled_back > 100); /* else the run was too weak */
    must_equal(last, (int64_t)s.loose.count + rolled_back);
    audience_close(&some);
    scene_end(&s);
}

static const struct CMUnitTest claims[] = {
    CLAIM(events_that_commit_out_of_order_are_both_delivered),
    CLAIM(a_rolled_back_number_does_not_hold_the_floor),
    CLAIM(ten_thousand_rolled_back_numbers_are_passed_at_once),
    CLAIM(ten_thousand_late_events_come_in_their_order),
    CLAIM(a_filter_that_changes_loses_nothing_that_waits),
    CLAIM(old_gaps_delay_no_reader),
    CLAIM(too_many_gaps_stop_the_reading_until_they_are_decided),
    CLAIM(a_gap_is_decided_soon_after_the_last_publisher_that_might_fill_it),
    CLAIM(a_savepoint_that_is_rolled_back_frees_its_numbers),
    CLAIM(a_number_drawn_long_before_its_insert_is_waited_for),
    CLAIM(a_prepared_transaction_is_waited_for),
    CLAIM(a_publisher_that_began_after_a_gap_does_not_keep_it_open),
    CLAIM(a_long_transaction_elsewhere_delays_nothing),
    CLAIM(another_namespace_s_publishers_delay_nothing),
    CLAIM(now_waits_for_publishers_that_are_under_way),
    CLAIM(now_gives_up_at_its_deadline_and_names_the_publisher),
    CLAIM(a_reader_whose_connection_is_lost_goes_on_through_another),
    CLAIM(a_gap_is_proven_dead_through_several_sessions),
    CLAIM(patterns_mean_the_same_to_the_server),
    CLAIM(adversarial_publishers_lose_and_double_nothing),
};

FIXTURE_MAIN("ordering", claims, NULL)
