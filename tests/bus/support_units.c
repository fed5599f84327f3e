/* support_units.c - see support_units.h. */
#include "support_units.h"

#ifdef HF_FAULTS
#include "base/point.h"
#endif

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define ROUND_EVENTS 9
#define ROUND_SHY 4 /* of key "k": some before it and some after it are, too */

/* ---- The worker ------------------------------------------------------------------------------ */

hf_verdict units_handle(const hf_event *const *events, size_t count, hf_delivery *delivery,
                        void *ctx)
{
    static atomic_llong calls;
    long long call = (long long)getpid() * 100000 + atomic_fetch_add(&calls, 1);
    hf_new_event derived = HF_NEW_EVENT_INIT;
    bool poison = false, shy = false;

    (void)ctx;
    derived.type = "derived";
    for (size_t i = 0; i < count; i++) {
        poison |= strstr(events[i]->payload, "poison") != NULL;
        shy |= strstr(events[i]->payload, "shy") != NULL;
        if (!delivery_run(delivery, "INSERT INTO effects VALUES (%lld, %lld, %zu)",
                          (long long)events[i]->position, call, count)) {
            return HF_RETRY_UNCOUNTED;
        }
    }
    if (hf_publish(hf_delivery_bus(delivery), &derived, NULL) != HF_OK) {
        return HF_RETRY_UNCOUNTED;
    }
    if (poison) {
        hf_delivery_error(delivery, "poisoned");
    }
    return poison || (shy && hf_delivery_attempt(delivery) == 1) ? HF_RETRY : HF_ACK;
}

static hf_verdict handle_one(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    return units_handle(&event, 1, delivery, ctx);
}

static hf_status subscribe_to_a(hf_bus *bus, bool singly)
{
    return singly ? hf_subscribe(bus, "a", "cause", handle_one, NULL, NULL, NULL)
                  : hf_subscribe_batch(bus, "a", "cause", units_handle, NULL, NULL, NULL);
}

static int work(int argc, char **argv, bool singly)
{
    hf_bus *bus = NULL;

    if (argc < 1) {
        return 2;
    }
#ifdef HF_FAULTS
    if (argc == 3) {
        point_arm(argv[1], strtoll(argv[2], NULL, 10), POINT_KILL);
    }
#endif
    if (hf_open(argv[0], NULL, &bus) != HF_OK || subscribe_to_a(bus, singly) != HF_OK ||
        hf_start(bus) != HF_OK || hf_wait(bus, "a", -1, DEADLINE_MS) != HF_OK) {
        fprintf(stderr, "%s\n", hf_errmsg());
        return 1;
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

int units_work(int argc, char **argv)
{
    return work(argc, argv, false);
}

int units_work_singly(int argc, char **argv)
{
    return work(argc, argv, true);
}

/* ---- The parent's side ----------------------------------------------------------------------- */

struct units *units_begin(struct scene *scene, hf_subscription_options options)
{
    static struct units units;
    const char *patterns[] = {"cause"};

    memset(&units, 0, sizeof units);
    units.scene = scene;
    units.by = options.batch_by;
    units.shy = -1;
    options.transactional = HF_ON;
    tables_run(scene, "CREATE TABLE effects (position BIGINT, call BIGINT, size BIGINT)");
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    return &units;
}

void units_publish(struct units *units, size_t count, int poison)
{
    for (size_t i = 0; i < count; i++) {
        bool bad = (int)i == poison;
        const hf_receipt *receipt;

        assert_true(units->count < UNITS_EVENTS_MAX);
        receipt = publish(units->scene->bus, "cause", i % 3 ? "k" : "l",
                          bad                    ? UNITS_POISON
                          : (int)i == units->shy ? UNITS_SHY
                                                 : "1");
        snprintf(units->ids[units->count], HF_ID_BYTES, "%s", receipt->id);
        units->positions[units->count] = receipt->position;
        units->poison[units->count++] = bad;
    }
}

bool units_round(struct units *units, const char *point, int nth)
{
    const char *url = units->scene->url;
    char number[16];
    int status;
    bool killed;

    snprintf(number, sizeof number, "%d", nth);
    status = actor_wait(actor_start("work", url, point, number, NULL));
    killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed && status != 0) {
        fail_msg("at %s, %d, the worker ended with %d", point, nth, status);
    }
    if (killed && actor_wait(actor_start("work", url, NULL)) != 0) {
        fail_msg("after a kill at %s, %d, the work was not finished", point, nth);
    }
    units->kills += killed;
    return killed;
}

void units_go_through(struct units *units, const struct moment *moments, size_t count,
                      size_t events, int poison)
{
    for (size_t i = 0; i < count; i++) {
        units_publish(units, events, poison);
        if (!units_round(units, moments[i].point, moments[i].nth) && !moments[i].optional) {
            fail_msg("no process was killed at %s, %d", moments[i].point, moments[i].nth);
        }
    }
}

/* ---- Everywhere ------------------------------------------------------------------------------ */

/* What both modes have, from before the handler runs until its transaction is committed. */
static const struct moment tx_moments[] = {
    {"before_handler", 1, false},
    {"before_handler", 5, true}, /* some deliveries are over, and a shy one waits */
    {"after_handler_before_settle", 1, false},
    {"tx_after_settle", 5, true}, /* some of the commit's events are settled, and not committed */
    {"handler_tx_before_commit", 1, false},
    {"tx_before_commit", 1, false},
    {"tx_after_commit", 1, false},
    {"tx_after_commit", 3, true},
    {"handler_tx_after_commit", 1, false},
};

static const struct moment ordered_moments[] = {
    {"after_acquire_before_commit", 1, false},
    {"before_settle", 1, false},
    {"mid_settle", 1, false},
    {"mid_settle", 3, true},
    {"after_settle", 1, false},
};

static const struct moment shared_moments[] = {
    {"mid_claim", 1, false},           {"after_claim", 1, false}, {"after_claim", 2, true},
    {"before_settle_lease", 1, false}, {"mid_settle", 1, false},  {"after_settle_lease", 1, false},
};

/* A server settles each delivery of those that share a commit by itself. */
static const struct moment server_moment = {"tx_after_settle", 1, false};

void units_be_killed_everywhere(struct scene *scene, hf_subscription_options options)
{
    bool shared = options.mode == HF_MODE_SHARED;
    struct units *units;

    options.attempts_max = 100;
    units = units_begin(scene, options);
    units->shy = ROUND_SHY;
    units_go_through(units, tx_moments, COUNTED(tx_moments), ROUND_EVENTS, -1);
    if (shared) {
        units_go_through(units, shared_moments, COUNTED(shared_moments), ROUND_EVENTS, -1);
    } else {
        units_go_through(units, ordered_moments, COUNTED(ordered_moments), ROUND_EVENTS, -1);
    }
    if (!scene->path && options.checkpoint_events > 1) {
        units_go_through(units, &server_moment, 1, ROUND_EVENTS, -1);
    }
    assert_int_equal(units_judge(units), 0);
}

/* ---- The judge ------------------------------------------------------------------------------- */

/* Of events that died in a unit the whole unit did. */
static void assert_whole(const struct dead *dead, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *last = NULL, *unit;
        long long first = 0;
        int events = 0;
        size_t together = 0;
        char mark[64];

        for (const char *at = dead[i].story; (at = strstr(at, "\"attempt\":")); at++) {
            last = at;
        }
        unit = last ? strstr(last, "\"unit\":{") : NULL;
        if (!unit) {
            continue;
        } /* its last attempt was its own */
        if (sscanf(unit, "\"unit\":{\"first\":%lld,\"events\":%d", &first, &events) != 2) {
            fail_msg("no unit in %s", dead[i].story);
        }
        snprintf(mark, sizeof mark, "\"unit\":{\"first\":%lld,\"events\":%d}", first, events);
        for (size_t j = 0; j < count; j++) {
            together += strstr(dead[j].story, mark) != NULL;
        }
        if (together != (size_t)events) {
            fail_msg("%zu of the %d events of the unit %lld are dead", together, events, first);
        }
    }
}

static bool is_dead(const struct dead *dead, size_t count, int64_t position)
{
    for (size_t i = 0; i < count; i++) {
        if (dead[i].position == position) {
            return true;
        }
    }
    return false;
}

static int64_t rows_of(struct scene *scene, int64_t position)
{
    char sql[128];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM effects WHERE position = %lld",
             (long long)position);
    return tables_number(scene, sql);
}

/* Fails, and says which events have how many rows. */
static void tell_rows(struct units *units, const struct dead *dead, size_t deaths)
{
    for (size_t i = 0; i < units->count; i++) {
        bool died = is_dead(dead, deaths, units->positions[i]);
        int64_t rows = rows_of(units->scene, units->positions[i]);

        if (rows != !died) {
            print_error("position %lld, number %zu, %s, has %lld rows\n",
                        (long long)units->positions[i], i, died ? "dead" : "done", (long long)rows);
        }
    }
    fail_msg("there are not as many effects as events that are done");
}

size_t units_judge(struct units *units)
{
    static struct dead dead[UNITS_EVENTS_MAX];
    struct scene *scene = units->scene;
    size_t deaths = dead_of(scene->bus, "a", dead, COUNTED(dead));
    int64_t alive = 0, calls;
    struct info info = info_of(scene->bus, "a");

    for (size_t i = 0; i < units->count; i++) {
        bool died = is_dead(dead, deaths, units->positions[i]);
        hf_state state = state_of(scene->bus, "a", units->ids[i], NULL);

        if (died) {
            assert_int_equal(rows_of(scene, units->positions[i]), 0);
        }
        assert_int_equal(state, died ? HF_STATE_DEAD : HF_STATE_DONE);
        assert_true(died || !units->poison[i]);
        alive += !died;
    }
    assert_whole(dead, deaths);
    if (tables_number(scene, "SELECT count(DISTINCT position) FROM effects") != alive ||
        tables_number(scene, "SELECT count(*) FROM effects") != alive) {
        tell_rows(units, dead, deaths);
    }
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM (SELECT call FROM effects "
                                          "GROUP BY call HAVING count(*) <> max(size)) x"),
                     0);
    calls = tables_number(scene, "SELECT count(DISTINCT call) FROM effects");
    assert_int_equal(tables_events(scene), (int64_t)units->count + calls);
    assert_int_equal(info.dead, deaths);
    assert_int_equal(info.retrying + info.held + info.blocked, 0);
    return deaths;
}
