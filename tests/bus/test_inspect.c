/*
 * test_inspect.c - looking: events and their states, the log, subscriptions and why they do not
 * move, the namespace's numbers, the engine's health.
 */
#include "support_scene.h"

#include "bus/api/inspect.h"

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

static void assert_why(hf_bus *bus, const char *words)
{
    struct info info = info_of(bus, "s");
    if (!words) {
        assert_string_equal(info.not_moving, "");
    } else if (!strstr(info.not_moving, words)) {
        fail_msg("not_moving is \"%s\" and does not say \"%s\"", info.not_moving, words);
    }
}

static void create(hf_bus *bus, const char *name, const hf_subscription_options *options)
{
    const char *patterns[] = {"a.*"};
    hf_subscription_options quick = quick_options();
    assert_ok(hf_subscription_create(bus, name, patterns, 1, options ? options : &quick, NULL));
}

static hf_subscription_options shared_options(void)
{
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    return options;
}

/* ---- The rules of states --------------------------------------------------------------------- */

struct rule {
    const char *claim;
    hf_mode mode;
    hf_on_unhandled on_unhandled;
    const char *type;
    struct delivery_facts facts;
    hf_state state;
};

#define ORDERED HF_MODE_ORDERED, HF_UNHANDLED_SKIP
#define SHARED HF_MODE_SHARED, HF_UNHANDLED_SKIP
#define STRICT_ORDERED HF_MODE_ORDERED, HF_UNHANDLED_DEAD_LETTER

/* The event is at position 10. */
static const struct rule rules[] = {
    {"not reached", ORDERED, "a.b", {.checkpoint = 9, .dead_id = -1}, HF_STATE_PENDING},
    {"reached", ORDERED, "a.b", {.checkpoint = 10, .dead_id = -1}, HF_STATE_DONE},
    {"settled ahead",
     ORDERED,
     "a.b",
     {.checkpoint = 5, .settled = true, .dead_id = -1},
     HF_STATE_DONE},
    {"running",
     ORDERED,
     "a.b",
     {.checkpoint = 5, .leased = true, .dead_id = -1},
     HF_STATE_PROCESSING},
    {"a retry that runs",
     ORDERED,
     "a.b",
     {.checkpoint = 50, .leased = true, .waiting = true, .dead_id = -1},
     HF_STATE_PROCESSING},
    {"a retry behind the checkpoint",
     ORDERED,
     "a.b",
     {.checkpoint = 50, .waiting = true, .dead_id = -1},
     HF_STATE_RETRYING},
    {"held behind the checkpoint",
     ORDERED,
     "a.b",
     {.checkpoint = 50, .held = true, .dead_id = -1},
     HF_STATE_HELD},
    {"blocked", ORDERED, "a.b", {.checkpoint = 50, .blocked = true, .dead_id = 3}, HF_STATE_DEAD},
    {"dead", ORDERED, "a.b", {.checkpoint = 50, .dead_id = 3}, HF_STATE_DEAD},
    {"retried from the dead",
     ORDERED,
     "a.b",
     {.checkpoint = 50, .waiting = true, .dead_id = 3},
     HF_STATE_RETRYING},
    {"before the start",
     ORDERED,
     "a.b",
     {.start = 10, .checkpoint = 10, .dead_id = -1},
     HF_STATE_NOT_FOR_IT},
    {"dead before the start",
     ORDERED,
     "a.b",
     {.start = 10, .checkpoint = 10, .dead_id = 4},
     HF_STATE_DEAD},
    {"another type", ORDERED, "x.y", {.checkpoint = 50, .dead_id = -1}, HF_STATE_NOT_FOR_IT},
    {"another type to come", ORDERED, "x.y", {.checkpoint = 5, .dead_id = -1}, HF_STATE_NOT_FOR_IT},
    {"a stray that will die",
     STRICT_ORDERED,
     "x.y",
     {.checkpoint = 5, .dead_id = -1},
     HF_STATE_PENDING},
    {"a stray whose letter was purged",
     STRICT_ORDERED,
     "x.y",
     {.checkpoint = 50, .dead_id = -1},
     HF_STATE_NOT_FOR_IT},
    {"shared, not handed out",
     SHARED,
     "a.b",
     {.checkpoint = -1, .cursor = 9, .dead_id = -1},
     HF_STATE_PENDING},
    {"shared, in a lease",
     SHARED,
     "a.b",
     {.checkpoint = -1, .cursor = 20, .leased = true, .dead_id = -1},
     HF_STATE_PROCESSING},
    {"shared, done", SHARED, "a.b", {.checkpoint = -1, .cursor = 10, .dead_id = -1}, HF_STATE_DONE},
    {"cancelled ahead",
     ORDERED,
     "a.b",
     {.checkpoint = 5, .settled = true, .cancelled_at_us = 7, .dead_id = -1},
     HF_STATE_CANCELLED},
    {"cancelled and passed",
     SHARED,
     "a.b",
     {.checkpoint = -1, .cursor = 20, .cancelled_at_us = 7, .dead_id = -1},
     HF_STATE_CANCELLED},
    {"cancelled after its letter was resolved",
     ORDERED,
     "a.b",
     {.checkpoint = 50, .cancelled_at_us = 7, .dead_id = 3},
     HF_STATE_CANCELLED},
    {"gone from the log and passed",
     ORDERED,
     NULL,
     {.checkpoint = 50, .dead_id = -1},
     HF_STATE_DONE},
};

static void states_of_deliveries_follow_from_the_stored_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTED(rules); i++) {
        struct definition definition;
        definition_init(&definition);
        definition.options.mode = rules[i].mode;
        definition.options.on_unhandled = rules[i].on_unhandled;
        definition.patterns[0] = text_of("a.*");
        definition.pattern_count = 1;
        struct delivery_facts facts = rules[i].facts;
        facts.cancelled_at_us = facts.cancelled_at_us > 0 ? facts.cancelled_at_us : -1;
        hf_state found = inspect_state(&definition, 10, text_of(rules[i].type), &facts);
        if (found != rules[i].state) {
            fail_msg("%s: %s, not %s", rules[i].claim, hf_state_name(found),
                     hf_state_name(rules[i].state));
        }
    }
}

static void every_state_of_a_delivery_has_a_name(void **state)
{
    (void)state;
    const char *names[] = {"not_for_it", "pending", "processing", "retrying",
                           "held",       "done",    "dead",       "cancelled"};
    for (size_t i = 0; i < COUNTED(names); i++) {
        assert_string_equal(hf_state_name((hf_state)i), names[i]);
    }
    assert_non_null(hf_state_name((hf_state)99));
}

/* ---- Events and their states ----------------------------------------------------------------- */

static int count_event(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int *)ctx;
    return 0;
}

static int count_state(const hf_event_state *found, void *ctx)
{
    (void)found;
    ++*(int *)ctx;
    return 0;
}

static void an_unknown_event_is_not_found(void **state)
{
    struct scene *scene = *state;
    const char *id = "018f0000-0000-7000-8000-000000000001";
    int calls = 0;
    create(scene->bus, "s", NULL);
    assert_status(hf_event_get(scene->bus, id, count_event, &calls), HF_NOTFOUND);
    assert_said(id);
    assert_status(hf_event_states(scene->bus, id, count_state, &calls), HF_NOTFOUND);
    assert_status(hf_event_get(scene->bus, "nonsense", count_event, &calls), HF_INVALID);
    assert_status(hf_event_get(scene->bus, NULL, count_event, &calls), HF_INVALID);
    assert_status(hf_event_states(NULL, id, count_state, &calls), HF_INVALID);
    const hf_receipt *receipt = publish(scene->bus, "a.b", NULL, NULL);
    assert_status(hf_event_get(scene->bus, receipt->id, NULL, NULL), HF_INVALID);
    assert_status(hf_event_states(scene->bus, receipt->id, NULL, NULL), HF_INVALID);
    assert_int_equal(calls, 0);
}

struct names {
    char all[256];
    size_t stop_after; /* 0: never */
    size_t count;
};

static int append_name(const hf_event_state *found, void *ctx)
{
    struct names *names = ctx;
    size_t at = strlen(names->all);
    snprintf(names->all + at, sizeof names->all - at, "%s=%s ", found->subscription,
             hf_state_name(found->state));
    return ++names->count == names->stop_after;
}

static void an_event_has_a_state_in_every_subscription(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options now = shared_options();
    hf_subscription_options shared = shared_options();
    const char *other[] = {"x.*"};
    char id[HF_ID_BYTES];
    memcpy(id, publish(scene->bus, "a.b", NULL, NULL)->id, sizeof id);
    now.from.kind = HF_PLACE_NOW;
    create(scene->bus, "b-late", &now);
    create(scene->bus, "a-waits", &shared);
    assert_ok(hf_subscription_create(scene->bus, "c-other", other, 1, &shared, NULL));
    struct names names = {.count = 0};
    assert_ok(hf_event_states(scene->bus, id, append_name, &names));
    assert_string_equal(names.all, "a-waits=pending b-late=not_for_it c-other=not_for_it ");
    names = (struct names){.stop_after = 2};
    assert_ok(hf_event_states(scene->bus, id, append_name, &names));
    assert_int_equal(names.count, 2);
}

struct kept_state {
    hf_state state;
    int32_t attempts;
    char story[512];
    int64_t next_us;
    int64_t dead_id;
};

static int keep_state(const hf_event_state *found, void *ctx)
{
    struct kept_state *kept = ctx;
    kept->state = found->state;
    kept->attempts = found->attempts;
    snprintf(kept->story, sizeof kept->story, "%s",
             found->attempts_json ? found->attempts_json : "");
    kept->next_us = found->next_attempt_at_us;
    kept->dead_id = found->dead_id;
    return 0;
}

static void the_life_of_a_shared_delivery_can_be_followed(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options shared = shared_options();
    struct kept_state kept;
    hf_batch *batch;
    char id[HF_ID_BYTES];
    create(scene->bus, "s", &shared);
    memcpy(id, publish(scene->bus, "a.b", NULL, NULL)->id, sizeof id);
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_PENDING);
    assert_int_equal(kept.attempts, 0);
    assert_string_equal(kept.story, "");
    assert_int_equal(kept.next_us, -1);

    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_PROCESSING);

    int64_t before_us = wall_us();
    assert_ok(hf_nack(scene->bus, "s", hf_batch_lease(batch), NULL, 0, 1, "once"));
    hf_batch_free(batch);
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_RETRYING);
    assert_int_equal(kept.attempts, 1);
    assert_non_null(strstr(kept.story, "\"error\":\"once\""));
    assert_in_range(kept.next_us, before_us, wall_us() + 1000000);

    hf_claim_options patient = HF_CLAIM_OPTIONS_INIT;
    patient.wait_ms = DEADLINE_MS;
    assert_ok(hf_claim(scene->bus, "s", &patient, &batch));
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_PROCESSING);
    assert_int_equal(kept.attempts, 1);
    assert_ok(hf_bury(scene->bus, "s", hf_batch_lease(batch), NULL, 0, "twice"));
    hf_batch_free(batch);
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_DEAD);
    assert_int_equal(kept.attempts, 2);
    assert_true(kept.dead_id > 0);
    assert_int_equal(kept.next_us, -1);

    assert_ok(hf_dead_retry(scene->bus, kept.dead_id, NULL, 0));
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_RETRYING);
    assert_int_equal(kept.attempts, 0);
    assert_int_equal(kept.dead_id, -1);
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(batch), NULL, 0));
    hf_batch_free(batch);
    assert_ok(hf_event_states(scene->bus, id, keep_state, &kept));
    assert_int_equal(kept.state, HF_STATE_DONE);
}

static hf_verdict poison_dies(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return strstr(event->payload, "poison") ? HF_DEAD : HF_ACK;
}

static void a_blocked_key_shows_held_events_and_says_what_frees_it(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.on_poison = HF_POISON_BLOCK_KEY;
    struct recorder *recorder = scene_recorder(scene, poison_dies);
    char poison[HF_ID_BYTES];
    char behind[HF_ID_BYTES];
    subscribe(scene->bus, "s", "a.*", recorder, &options);
    memcpy(poison, publish(scene->bus, "a.b", "k", "\"poison\"")->id, sizeof poison);
    memcpy(behind, publish(scene->bus, "a.b", "k", "1")->id, sizeof behind);
    publish(scene->bus, "a.b", "other", "2");
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "s", 3, DEADLINE_MS));
    assert_ok(hf_wait(scene->bus, "s", 1, DEADLINE_MS));
    assert_status(hf_wait(scene->bus, "s", -1, 200), HF_TIMEOUT);
    assert_int_equal(state_of(scene->bus, "s", poison, NULL), HF_STATE_DEAD);
    assert_int_equal(state_of(scene->bus, "s", behind, NULL), HF_STATE_HELD);
    struct info info = info_of(scene->bus, "s");
    assert_int_equal(info.blocked, 1);
    assert_int_equal(info.held, 1);
    assert_int_equal(info.lag, 0);
    assert_why(scene->bus, "1 key is blocked by dead letters and 1 events wait behind it");
    assert_ok(hf_stop(scene->bus, -1));
    assert_why(scene->bus, "1 key is blocked by dead letters"); /* a process would not help */
    assert_ok(hf_start(scene->bus));
    struct dead dead;
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_ok(hf_dead_resolve(scene->bus, dead.dead_id, NULL, NULL));
    settle_all(scene->bus, "s");
    assert_int_equal(state_of(scene->bus, "s", behind, NULL), HF_STATE_DONE);
    assert_why(scene->bus, NULL);
}

/* ---- Reading the log ------------------------------------------------------------------------- */

struct positions {
    int64_t list[64];
    size_t count;
    size_t stop_after;
};

static int keep_position(const hf_event *event, void *ctx)
{
    struct positions *positions = ctx;
    if (positions->count < COUNTED(positions->list)) {
        positions->list[positions->count] = event->position;
    }
    positions->count++;
    return positions->count == positions->stop_after;
}

static void reading_goes_on_where_it_stopped(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, i % 2 ? "odd" : "even", NULL, NULL);
    }
    int64_t cursor = 0;
    struct positions positions = {.count = 0};
    assert_ok(hf_read(scene->bus, NULL, 4, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 4);
    assert_int_equal(cursor, 4);
    assert_ok(hf_read(scene->bus, "*", 100, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 10);
    assert_int_equal(cursor, 10);
    assert_ok(hf_read(scene->bus, NULL, 100, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 10);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(positions.list[i], i + 1);
    }
    cursor = 0;
    positions = (struct positions){.count = 0};
    assert_ok(hf_read(scene->bus, "odd", 3, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.list[2], 6);
    assert_true(cursor >= 6 && cursor < 8);
    assert_ok(hf_read(scene->bus, "odd", 100, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 5);
    assert_int_equal(cursor, 10); /* the even ones have been seen too */
}

static void a_reader_may_stop_and_loses_nothing(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "a", NULL, NULL);
    }
    int64_t cursor = 0;
    struct positions positions = {.stop_after = 2};
    assert_ok(hf_read(scene->bus, NULL, 100, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 2);
    assert_int_equal(cursor, 2);
    assert_ok(hf_read(scene->bus, NULL, 100, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 5);
}

static void a_long_log_is_read_in_pieces(void **state)
{
    struct scene *scene = *state;
    hf_new_event *events = calloc(5000, sizeof *events);
    for (size_t i = 0; i < 5000; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = i == 4321 ? "needle" : "hay";
    }
    assert_ok(hf_publish_many(scene->bus, events, 5000, NULL));
    free(events);
    int64_t cursor = 0;
    struct positions positions = {.count = 0};
    assert_ok(hf_read(scene->bus, "needle", 10, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 1);
    assert_int_equal(positions.list[0], 4322);
    assert_int_equal(cursor, 5000);
    cursor = 1;
    positions = (struct positions){.count = 0};
    assert_ok(hf_read(scene->bus, "hay", 4000, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 4000);
    assert_int_equal(cursor, 4001);
}

struct tail {
    hf_bus *bus;
    pthread_t thread;
    int64_t cursor;
    struct positions positions;
    hf_status status;
};

static struct tail tail;

static void *read_tail(void *ctx)
{
    (void)ctx;
    tail.status =
        hf_read(tail.bus, "a", 10, DEADLINE_MS, &tail.cursor, keep_position, &tail.positions);
    return NULL;
}

static void reading_waits_for_what_is_published(void **state)
{
    struct scene *scene = *state;
    tail = (struct tail){.bus = scene->bus};
    assert_int_equal(pthread_create(&tail.thread, NULL, read_tail, NULL), 0);
    hf_bus *other = scene_open(scene, NULL);
    publish(other, "not-it", NULL, NULL);
    publish(other, "a", NULL, NULL);
    pthread_join(tail.thread, NULL);
    assert_int_equal(tail.status, HF_OK);
    assert_int_equal(tail.positions.count, 1);
    assert_int_equal(tail.cursor, 2);

    int64_t begin_us = mono_us();
    struct positions none = {.count = 0};
    assert_ok(hf_read(scene->bus, NULL, 1, 50, &tail.cursor, keep_position, &none));
    assert_true(mono_us() - begin_us >= 50000);
    assert_int_equal(none.count, 0);
}

static void bad_reads_are_refused(void **state)
{
    struct scene *scene = *state;
    int64_t cursor = 0;
    struct positions positions = {.count = 0};
    publish(scene->bus, "a", NULL, NULL);
    assert_status(hf_read(scene->bus, "a..b", 1, 0, &cursor, keep_position, &positions),
                  HF_INVALID);
    assert_status(hf_read(scene->bus, NULL, 1, 0, NULL, keep_position, &positions), HF_INVALID);
    assert_status(hf_read(scene->bus, NULL, 1, 0, &cursor, NULL, NULL), HF_INVALID);
    assert_status(hf_read(scene->bus, NULL, 1, -2, &cursor, keep_position, &positions), HF_INVALID);
    cursor = -1;
    assert_status(hf_read(scene->bus, NULL, 1, 0, &cursor, keep_position, &positions), HF_INVALID);
    assert_said("cursor is -1");
    cursor = 0;
    assert_ok(hf_read(scene->bus, NULL, 0, 0, &cursor, keep_position, &positions));
    assert_int_equal(positions.count, 0);
    assert_int_equal(cursor, 0);
}

/* ---- Subscriptions --------------------------------------------------------------------------- */

static int append_info_name(const hf_subscription_info *info, void *ctx)
{
    struct names *names = ctx;
    size_t at = strlen(names->all);
    snprintf(names->all + at, sizeof names->all - at, "%s ", info->name);
    return ++names->count == names->stop_after;
}

static void subscriptions_are_listed_by_name(void **state)
{
    struct scene *scene = *state;
    struct names names = {.count = 0};
    assert_ok(hf_subscription_list(scene->bus, append_info_name, &names));
    assert_int_equal(names.count, 0);
    create(scene->bus, "beta", NULL);
    create(scene->bus, "Zeta", NULL);
    create(scene->bus, "alpha", NULL);
    assert_ok(hf_subscription_list(scene->bus, append_info_name, &names));
    assert_string_equal(names.all, "Zeta alpha beta ");
    names = (struct names){.stop_after = 1};
    assert_ok(hf_subscription_list(scene->bus, append_info_name, &names));
    assert_int_equal(names.count, 1);
    assert_status(hf_subscription_list(scene->bus, NULL, NULL), HF_INVALID);
    assert_status(hf_subscription_get(scene->bus, "missing", append_info_name, &names),
                  HF_NOTFOUND);
    assert_status(hf_subscription_get(scene->bus, NULL, append_info_name, &names), HF_INVALID);
    assert_status(hf_subscription_get(scene->bus, "beta", NULL, NULL), HF_INVALID);
    hf_options options = scene->options;
    options.namespace_name = "elsewhere";
    names = (struct names){.count = 0};
    assert_ok(hf_subscription_list(scene_open(scene, &options), append_info_name, &names));
    assert_int_equal(names.count, 0);
}

/* Counts those of which pending is neither exact nor a lower limit that says so. */
struct looked {
    int count;
    int exact;
    int wrong;
};

static int look_at_pending(const hf_subscription_info *info, void *ctx)
{
    struct looked *looked = ctx;
    looked->count++;
    looked->exact += info->pending == 2 && !info->pending_more;
    looked->wrong += info->pending > 2 || (info->pending < 2 && !info->pending_more);
    return 0;
}

static void thousands_that_are_behind_are_listed_with_lower_limits(void **state)
{
    struct scene *scene = *state;
    struct looked looked = {0};
    hf_stats stats = {.size = sizeof stats};
    for (int i = 0; i < LIST_LOOKS_MAX + 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        create(scene->bus, name, NULL);
    }
    publish(scene->bus, "a.b", NULL, NULL);
    publish(scene->bus, "a.b", NULL, NULL);
    assert_ok(hf_subscription_list(scene->bus, look_at_pending, &looked));
    assert_int_equal(looked.count, LIST_LOOKS_MAX + 5);
    assert_true(looked.exact >= LIST_LOOKS_MAX);
    assert_int_equal(looked.wrong, 0);
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_true(stats.oldest_waiting_us > 0);
}

static void a_new_subscription_shows_all_its_fields(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options shared = shared_options();
    publish(scene->bus, "a.b", NULL, NULL);
    create(scene->bus, "s", &shared);
    struct info info = info_of(scene->bus, "s");
    assert_int_equal(info.options.mode, HF_MODE_SHARED);
    assert_int_equal(info.options.retry_base_ms, 10);
    assert_int_equal(info.options.attempts_max, 4); /* complete: what was not given is there */
    assert_int_equal(info.pattern_count, 1);
    assert_string_equal(info.patterns[0], "a.*");
    assert_int_equal(info.start_position, 0);
    assert_int_equal(info.checkpoint, 0);
    assert_int_equal(info.cursor, 0);
    assert_int_equal(info.head, 1);
    assert_int_equal(info.lag, 1);
    assert_int_equal(info.in_flight, 0);
    assert_int_equal(info.paused_at_us, -1);
    assert_string_equal(info.breaker, "");
    assert_string_equal(info.owner, "");
    assert_string_equal(info.checkpoint_event_id, "");
    assert_why(scene->bus, NULL); /* whether a worker claims is not known */
}

static void an_ordered_subscription_without_a_process_says_so(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    assert_why(scene->bus, NULL); /* nothing to do */
    publish(scene->bus, "a.b", NULL, NULL);
    struct info info = info_of(scene->bus, "s");
    assert_int_equal(info.cursor, -1);
    assert_int_equal(info.in_flight, 0);
    assert_why(scene->bus, "no worker is running for it");
    struct recorder *recorder = scene_recorder(scene, NULL);
    subscribe(scene->bus, "s", "a.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "s");
    info = info_of(scene->bus, "s");
    assert_true(info.owner_alive);
    assert_string_not_equal(info.owner, "");
    assert_int_equal(strlen(info.checkpoint_event_id), 36);
    assert_why(scene->bus, NULL);
    assert_ok(hf_stop(scene->bus, -1));
    publish(scene->bus, "a.b", NULL, NULL);
    assert_why(scene->bus, "no worker is running for it");
}

static void a_subscription_with_only_retries_left_reports_that(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options shared = shared_options();
    hf_batch *batch;
    create(scene->bus, "s", &shared);
    publish(scene->bus, "a.b", NULL, NULL);
    publish(scene->bus, "a.b", NULL, NULL);
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    assert_why(scene->bus, NULL);
    const int64_t one[] = {1};
    assert_ok(hf_nack(scene->bus, "s", hf_batch_lease(batch), one, 1, 60000, "x"));
    assert_why(scene->bus, NULL); /* the other is being handled */
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(batch), NULL, 0));
    hf_batch_free(batch);
    assert_why(scene->bus, "1 event waits for its next attempt");
    assert_why(scene->bus, "; it is due at 2");
    assert_ok(hf_pause(scene->bus, "s", "lunch"));
    assert_why(scene->bus, "it was paused at ");
    assert_why(scene->bus, ": lunch");
}

static bool breaker_is_open(void *ctx)
{
    return strcmp(info_of(ctx, "s").breaker, "open") == 0;
}

static void an_open_breaker_is_shown_and_resuming_closes_it(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.breaker = HF_ON;
    options.breaker_events = 3;
    options.retry_base_ms = 60000;
    options.retry_max_ms = 60000;
    create(scene->bus, "s", &options);
    assert_string_equal(info_of(scene->bus, "s").breaker, "closed");
    assert_int_equal(info_of(scene->bus, "s").breaker_until_us, -1);
    subscribe(scene->bus, "s", "a.*", scene_recorder(scene, fail_always), &options);
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "a.b", NULL, NULL);
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(breaker_is_open, scene->bus));
    assert_true(info_of(scene->bus, "s").breaker_until_us > wall_us());
    assert_why(scene->bus, "its circuit breaker is open");
    assert_ok(hf_stop(scene->bus, -1));
    assert_ok(hf_resume(scene->bus, "s"));
    assert_string_equal(info_of(scene->bus, "s").breaker, "closed");
}

/* ---- Numbers and health ---------------------------------------------------------------------- */

static void the_namespaces_numbers_add_up(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options shared = shared_options();
    hf_batch *batch;
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.head, 0);
    assert_int_equal(stats.first, 1);
    assert_int_equal(stats.subscriptions, 0);
    assert_int_equal(stats.oldest_waiting_us, -1);
    create(scene->bus, "s", &shared);
    create(scene->bus, "t", &shared);
    int64_t before_us = wall_us();
    for (int i = 0; i < 6; i++) {
        publish(scene->bus, "a.b", NULL, NULL);
    }
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    const int64_t p[] = {1, 2, 3};
    assert_ok(hf_nack(scene->bus, "s", hf_batch_lease(batch), &p[0], 1, 60000, "x"));
    assert_ok(hf_bury(scene->bus, "s", hf_batch_lease(batch), &p[1], 1, "x"));
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(batch), &p[2], 1));
    hf_batch_free(batch);
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.size, sizeof stats);
    assert_int_equal(stats.head, 6);
    assert_int_equal(stats.first, 1);
    assert_int_equal(stats.subscriptions, 2);
    assert_int_equal(stats.retrying, 1);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.in_flight, 3);
    assert_int_equal(stats.dead, 1);
    /* On a server it is the time inside the id, in milliseconds. */
    assert_in_range(stats.oldest_waiting_us, before_us / 1000 * 1000, wall_us());
    assert_true(stats.store_bytes > 0);
    assert_true(stats.wal_bytes > 0);
    assert_int_equal(stats.published, 6);
    assert_true(stats.commits >= 6);
    assert_int_equal(stats.delivered, 0);
}

static void stats_of_an_older_program_are_not_overrun(void **state)
{
    struct scene *scene = *state;
    union {
        hf_stats stats;
        unsigned char bytes[sizeof(hf_stats)];
    } given;
    memset(&given, 0xEE, sizeof given);
    given.stats.size = offsetof(hf_stats, subscriptions);
    assert_ok(hf_stats_get(scene->bus, &given.stats));
    assert_int_equal(given.stats.head, 0);
    assert_int_equal(given.stats.first, 1);
    assert_int_equal(given.stats.size, offsetof(hf_stats, subscriptions));
    for (size_t i = offsetof(hf_stats, subscriptions); i < sizeof given; i++) {
        assert_int_equal(given.bytes[i], 0xEE);
    }
    given.stats.size = 0;
    assert_status(hf_stats_get(scene->bus, &given.stats), HF_INVALID);
    assert_status(hf_stats_get(scene->bus, NULL), HF_INVALID);
    assert_status(hf_stats_get(NULL, &given.stats), HF_INVALID);
}

static int find_journal(const char *name, const char *value, hf_log_level level, const char *advice,
                        void *ctx)
{
    (void)advice;
    (void)level;
    if ((strcmp(name, "journal_mode") == 0 && strcmp(value, "wal") == 0) ||
        (strcmp(name, "engine") == 0 && strcmp(value, "postgres") == 0)) {
        ++*(int *)ctx;
    }
    return 0;
}

static void the_doctor_looks_at_the_engine(void **state)
{
    struct scene *scene = *state;
    int found = 0;
    assert_ok(hf_doctor(scene->bus, find_journal, &found));
    assert_int_equal(found, 1);
    assert_status(hf_doctor(scene->bus, NULL, NULL), HF_INVALID);
    assert_status(hf_doctor(NULL, find_journal, &found), HF_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_deliveries_follow_from_the_stored_facts),
        cmocka_unit_test(every_state_of_a_delivery_has_a_name),
        scene_test(an_unknown_event_is_not_found),
        scene_test(an_event_has_a_state_in_every_subscription),
        scene_test(the_life_of_a_shared_delivery_can_be_followed),
        scene_test(a_blocked_key_shows_held_events_and_says_what_frees_it),
        scene_test(reading_goes_on_where_it_stopped),
        scene_test(a_reader_may_stop_and_loses_nothing),
        scene_test(a_long_log_is_read_in_pieces),
        scene_test(reading_waits_for_what_is_published),
        scene_test(bad_reads_are_refused),
        scene_test(subscriptions_are_listed_by_name),
        scene_test(thousands_that_are_behind_are_listed_with_lower_limits),
        scene_test(a_new_subscription_shows_all_its_fields),
        scene_test(an_ordered_subscription_without_a_process_says_so),
        scene_test(a_subscription_with_only_retries_left_reports_that),
        scene_test(an_open_breaker_is_shown_and_resuming_closes_it),
        scene_test(the_namespaces_numbers_add_up),
        scene_test(stats_of_an_older_program_are_not_overrun),
        scene_test(the_doctor_looks_at_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
