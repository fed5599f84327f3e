/*
 * Tests of fencing: a worker that was stopped in its handlers for longer than its lease, and goes
 * on, can neither acknowledge nor overwrite what others have done meanwhile.
 *
 * A first process has one event of every kind of subscription in its handlers when it is stopped
 * with SIGSTOP. A second one takes over, after the lease, and does all of them. Then the first one
 * goes on: its handlers answer that the events are dead, or, if they are transactional, try to keep
 * their effects. None of that may be there in the end, and it must work again as if nothing had
 * happened. Transactional ones are also stopped between taking an event and the beginning of its
 * transaction, which is the only place where they can be stopped on SQLite.
 *
 * Lines of the diary: "I name subscription" a handler of the first event runs, "E name
 * subscription" it ends, "D name subscription" any other event was handled, "GO", "STOP name".
 */
#include "support_actor.h"
#include "support_tables.h"

#ifdef HF_FAULTS
#include "base/point.h"
#endif

#include <signal.h>

static const struct kind {
    const char *name;
    hf_mode mode;
    int32_t partitions;
    bool batched;
    bool transactional;
} kinds[] = {
    /* no name is the beginning of another */
    {"ordered", HF_MODE_ORDERED, 1, false, false},
    {"partitioned", HF_MODE_ORDERED, 8, false, false},
    {"shared", HF_MODE_SHARED, 1, false, false},
    {"batch", HF_MODE_ORDERED, 1, true, false},
    {"leased-batch", HF_MODE_SHARED, 1, true, false},
    {"one-tx", HF_MODE_ORDERED, 1, false, true},
    {"leased-tx", HF_MODE_SHARED, 1, false, true},
    {"unit-tx", HF_MODE_ORDERED, 4, true, true},
    {"leased-unit-tx", HF_MODE_SHARED, 1, true, true},
};

/* On SQLite a handler's transaction is alone in the database: who is stopped in it stops all. */
static bool is_left_out(const struct kind *kind, bool server)
{
    return kind->transactional && !server;
}

/* ---- The worker ------------------------------------------------------------------------------ */

static const char *diary;
static const char *self;

static hf_verdict work_on(const struct kind *kind, const hf_event *event, hf_delivery *delivery)
{
    bool holds = strcmp(self, "first") == 0 && strstr(event->payload, "hold");

    if (kind->transactional &&
        !delivery_run(delivery, "INSERT INTO effects VALUES ('%s', %lld, '%s')", kind->name,
                      (long long)event->position, self)) {
        return HF_RETRY_UNCOUNTED;
    }
    if (!holds) {
        diary_write(diary, "D %s %s", self, kind->name);
        return HF_ACK;
    }
    diary_write(diary, "I %s %s", self, kind->name);
    while (diary_count(diary, "GO") == 0) {
        usleep(5000);
    }
    diary_write(diary, "E %s %s", self, kind->name);
    return kind->transactional ? HF_ACK : HF_DEAD;
}

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    return work_on(ctx, event, delivery);
}

static hf_verdict handle_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                               void *ctx)
{
    hf_verdict verdict = HF_ACK;

    for (size_t i = 0; i < count && verdict == HF_ACK; i++) {
        verdict = work_on(ctx, events[i], delivery);
    }
    return verdict;
}

static hf_status subscribe_kind(hf_bus *bus, const struct kind *kind)
{
    void *ctx = (void *)(uintptr_t)kind;

    return kind->batched ? hf_subscribe_batch(bus, kind->name, "*", handle_batch, ctx, NULL, NULL)
                         : hf_subscribe(bus, kind->name, "*", handle, ctx, NULL, NULL);
}

/* Stands still before its first transaction until "GO". */
static void hold_before_tx(void)
{
#ifdef HF_FAULTS
    if (!point_wait_blocked("before_tx", DEADLINE_MS)) {
        return;
    }
    diary_write(diary, "I %s", self);
    while (diary_count(diary, "GO") == 0) {
        usleep(5000);
    }
    point_release("before_tx");
#endif
}

/* work URL DIARY NAME [KIND]: works for all of them, or for one, until "STOP name". */
static int work(int argc, char **argv)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;
    hf_status status;
    char stop[64];

    if (argc < 3) {
        return 2;
    }
    diary = argv[1];
    self = argv[2];
    options.node_name = self;
    status = hf_open(argv[0], &options, &bus);
    for (size_t i = 0; i < COUNTED(kinds) && status == HF_OK; i++) {
        if (argc > 3 ? strcmp(argv[3], kinds[i].name) == 0
                     : !is_left_out(&kinds[i], strncmp(argv[0], "sqlite:", 7) != 0)) {
            status = subscribe_kind(bus, &kinds[i]);
        }
    }
#ifdef HF_FAULTS
    if (argc > 3 && strcmp(self, "first") == 0) {
        point_arm("before_tx", 1, POINT_STOP_THREAD);
    }
#endif
    if (!status) {
        status = hf_start(bus);
    }
    if (status) {
        fprintf(stderr, "%s: %s\n", self, hf_errmsg());
        return 1;
    }
    if (argc > 3 && strcmp(self, "first") == 0) {
        hold_before_tx();
    }
    snprintf(stop, sizeof stop, "STOP %s", self);
    while (diary_count(diary, stop) == 0) {
        usleep(5000);
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

static const struct part parts[] = {{"work", work}};

/* ---- The parent's side ----------------------------------------------------------------------- */

static void create_kind(struct scene *scene, const struct kind *kind)
{
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"*"};

    options.from = (hf_place){HF_PLACE_NOW, -1};
    options.mode = kind->mode;
    if (kind->mode == HF_MODE_ORDERED) {
        options.partitions = kind->partitions;
    }
    options.batch_by = kind->batched ? HF_BATCH_KEY : HF_BATCH_DEFAULT;
    options.transactional = kind->transactional ? HF_ON : HF_OFF;
    options.lease_ms = 1000;
    options.tx_max_ms = 60000;
    options.handler_timeout_ms = 60000;
    assert_ok(hf_subscription_create(scene->bus, kind->name, patterns, 1, &options, NULL));
}

static void settle_kinds(struct scene *scene)
{
    for (size_t i = 0; i < COUNTED(kinds); i++) {
        if (!is_left_out(&kinds[i], !scene->path)) {
            settle_all(scene->bus, kinds[i].name);
        }
    }
}

/* Every kind has so many lines of this prefix, "X name ". */
static void wait_lines(struct scene *scene, const char *path, const char *prefix, size_t count)
{
    for (size_t i = 0; i < COUNTED(kinds); i++) {
        char line[64];

        if (is_left_out(&kinds[i], !scene->path)) {
            continue;
        }
        snprintf(line, sizeof line, "%s%s", prefix, kinds[i].name);
        if (!diary_wait(path, line, count)) {
            fail_msg("no line %s", line);
        }
    }
}

static void judge_kind(struct scene *scene, const struct kind *kind, const char *id, int events)
{
    struct info info = info_of(scene->bus, kind->name);
    char sql[128];

    assert_int_equal(info.dead, 0);
    assert_int_equal(info.retrying + info.held + info.blocked, 0);
    assert_int_equal(state_of(scene->bus, kind->name, id, NULL), HF_STATE_DONE);
    if (!kind->transactional) {
        return;
    }
    snprintf(sql, sizeof sql, "SELECT count(*) FROM effects WHERE kind = '%s'", kind->name);
    assert_int_equal(tables_number(scene, sql), events);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM effects WHERE kind = '%s' AND who = 'second'",
             kind->name);
    assert_int_equal(tables_number(scene, sql), 1);
}

static void
a_process_that_was_stopped_and_goes_on_can_neither_acknowledge_nor_overwrite(void **state)
{
    struct scene *scene = *state;
    char path[512], id[HF_ID_BYTES];
    pid_t first, second;

    snprintf(path, sizeof path, "%s", scene_file(scene, "diary"));
    tables_run(scene, "CREATE TABLE effects (kind TEXT, position BIGINT, who TEXT)");
    for (size_t i = 0; i < COUNTED(kinds); i++) {
        if (!is_left_out(&kinds[i], !scene->path)) {
            create_kind(scene, &kinds[i]);
        }
    }
    first = actor_start("work", scene->url, path, "first", NULL);
    snprintf(id, sizeof id, "%s", publish(scene->bus, "t", "k", "\"hold\"")->id);
    wait_lines(scene, path, "I first ", 1);
    actor_freeze(scene, first);
    second = actor_start("work", scene->url, path, "second", NULL);
    settle_kinds(scene); /* after a lease */
    wait_lines(scene, path, "D second ", 1);

    diary_write(path, "GO");
    kill(first, SIGCONT);
    wait_lines(scene, path, "E first ", 1);
    diary_write(path, "STOP second");
    assert_int_equal(actor_wait(second), 0);
    publish(scene->bus, "t", "k", "1");
    settle_kinds(scene); /* the first has taken note, and works again */
    wait_lines(scene, path, "D first ", 1);
    diary_write(path, "STOP first");
    assert_int_equal(actor_wait(first), 0);
    for (size_t i = 0; i < COUNTED(kinds); i++) {
        if (!is_left_out(&kinds[i], !scene->path)) {
            judge_kind(scene, &kinds[i], id, 2);
        }
    }
}

#ifdef HF_FAULTS
static void stop_before_tx(struct scene *scene, const struct kind *kind)
{
    char path[512], line[64], id[HF_ID_BYTES];
    pid_t first, second;

    snprintf(path, sizeof path, "%s", scene_file(scene, kind->name));
    create_kind(scene, kind);
    first = actor_start("work", scene->url, path, "first", kind->name, NULL);
    snprintf(id, sizeof id, "%s", publish(scene->bus, "t", "k", "1")->id);
    assert_true(diary_wait(path, "I first", 1));
    actor_freeze(scene, first);
    second = actor_start("work", scene->url, path, "second", kind->name, NULL);
    settle_all(scene->bus, kind->name); /* after a lease */

    diary_write(path, "GO");
    kill(first, SIGCONT);
    diary_write(path, "STOP second");
    assert_int_equal(actor_wait(second), 0);
    publish(scene->bus, "t", "k", "1");
    settle_all(scene->bus, kind->name);
    diary_write(path, "STOP first");
    assert_int_equal(actor_wait(first), 0);
    snprintf(line, sizeof line, "D second %s", kind->name);
    assert_int_equal(diary_count(path, line), 1);
    snprintf(line, sizeof line, "D first %s", kind->name);
    assert_int_equal(diary_count(path, line), 1); /* the second event only */
    judge_kind(scene, kind, id, 2);
}

static void a_process_frozen_before_its_transaction_began_runs_no_handler_in_it(void **state)
{
    struct scene *scene = *state;

    tables_run(scene, "CREATE TABLE effects (kind TEXT, position BIGINT, who TEXT)");
    for (size_t i = 0; i < COUNTED(kinds); i++) {
        if (kinds[i].transactional) {
            stop_before_tx(scene, &kinds[i]);
        }
    }
}
#endif

static const struct CMUnitTest tests[] = {
    scene_test(a_process_that_was_stopped_and_goes_on_can_neither_acknowledge_nor_overwrite),
#ifdef HF_FAULTS
    scene_test(a_process_frozen_before_its_transaction_began_runs_no_handler_in_it),
#endif
};

ACTOR_MAIN(tests, parts)
