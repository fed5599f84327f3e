/*
 * Tests of fixed assignments (hf_assign) and of looking at partitions: who takes what, who leaves
 * it to whom, and what is left over.
 *
 * Buses of one process are members of their own. A child is this program started again
 * (support_actor.h): it writes "R" when it is ready, and is killed.
 */
#include "support_actor.h"

#include "base/point.h"
#include "base/time/clock.h"

#define PARTITIONS 4
#define KEYS 24

static hf_subscription_options of_partitions(int32_t partitions)
{
    hf_subscription_options options = quick_options();

    options.partitions = partitions;
    options.concurrency = 2;
    options.lease_ms = 600000; /* no process is taken for frozen while its clocks stand still */
    return options;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static hf_verdict acknowledge(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    return HF_ACK;
}

/* hold URL DIARY: has partitions 0 and 1 until it is killed. */
static int hold(int argc, char **argv)
{
    static const int32_t some[] = {0, 1};
    hf_subscription_options options = of_partitions(PARTITIONS);
    hf_options bus_options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    bus_options.node_name = "child";
    if (argc < 2 || hf_open(argv[0], &bus_options, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", acknowledge, NULL, &options, NULL) != HF_OK ||
        hf_assign(bus, "a", some, 2, PARTITIONS) != HF_OK || hf_start(bus) != HF_OK) {
        return 1;
    }
    diary_write(argv[1], "R");
    for (;;) {
        pause();
    }
}

/* ---- The parent's side ----------------------------------------------------------------------- */

/* What hf_partition_list says, one letter each: the first of the owner's name ('-': none, in
 * capitals if it is moving) and, if it is unowned, a '!'. */
struct picture {
    hf_bus *bus;
    char letters[2 * HF_PARTITIONS_MAX + 1];
    int32_t standby[HF_PARTITIONS_MAX];
    hf_partition_info infos[HF_PARTITIONS_MAX];
    const char *wanted;
    const char *or_else;
};

static int draw(const hf_partition_info *info, void *ctx)
{
    struct picture *picture = ctx;
    size_t length = strlen(picture->letters);
    char letter = info->owner && info->owner_alive ? info->owner[0] : '-';

    picture->infos[info->partition] = *info;
    picture->standby[info->partition] = info->standby;
    if (info->state == HF_PARTITION_MOVING) {
        letter = letter == '-' ? '~' : (char)(letter - 'a' + 'A');
    }
    snprintf(picture->letters + length, sizeof picture->letters - length, "%c%s", letter,
             info->state == HF_PARTITION_UNOWNED ? "!" : "");
    return 0;
}

static bool looks_so(void *ctx)
{
    struct picture *picture = ctx;

    picture->letters[0] = '\0';
    if (hf_partition_list(picture->bus, "a", draw, picture) != HF_OK) {
        return false;
    }
    return strcmp(picture->letters, picture->wanted) == 0 ||
           strcmp(picture->letters, picture->or_else) == 0;
}

/* Waits until the partitions are in these hands, or in those. */
static struct picture *expect_either(hf_bus *bus, const char *letters, const char *or_else)
{
    static struct picture picture;

    picture.bus = bus;
    picture.wanted = letters;
    picture.or_else = or_else;
    if (!wait_until(looks_so, &picture)) {
        fail_msg("the partitions are %s instead of %s", picture.letters, letters);
    }
    return &picture;
}

static struct picture *expect(hf_bus *bus, const char *letters)
{
    return expect_either(bus, letters, letters);
}

static hf_bus *node(struct scene *scene, const char *name)
{
    hf_options options = scene->options;

    options.node_name = name;
    return scene_open(scene, &options);
}

/* A bus that works for "a": for the partitions, or with count 0 for its share. */
static hf_bus *worker(struct scene *scene, const char *name, struct recorder *recorder,
                      const int32_t *partitions, size_t count)
{
    hf_subscription_options options = of_partitions(PARTITIONS);
    hf_bus *bus = node(scene, name);

    subscribe(bus, "a", "*", recorder, &options);
    if (count > 0) {
        assert_ok(hf_assign(bus, "a", partitions, count, PARTITIONS));
    }
    assert_ok(hf_start(bus));
    return bus;
}

static void publish_keys(hf_bus *bus, int each)
{
    for (int i = 0; i < each; i++) {
        for (int k = 0; k < KEYS; k++) {
            char key[16];

            snprintf(key, sizeof key, "k%d", k);
            publish(bus, "x", key, "1");
        }
    }
}

struct said {
    struct scene *scene;
    const char *text;
};

static bool was_said(void *ctx)
{
    const struct said *said = ctx;
    return scene_said(said->scene, said->text);
}

static void expect_said(struct scene *scene, const char *text)
{
    struct said said = {scene, text};

    if (!wait_until(was_said, &said)) {
        fail_msg("there is no record: %s", text);
    }
}

static void create(hf_bus *bus, int32_t partitions)
{
    static const char *const patterns[] = {"*"};
    hf_subscription_options options = of_partitions(partitions);

    assert_ok(hf_subscription_create(bus, "a", patterns, 1, &options, NULL));
}

static const int32_t zero[] = {0};
static const int32_t low[] = {0, 1};
static const int32_t high[] = {2, 3};

/* ---- Who takes what -------------------------------------------------------------------------- */

static void a_process_with_assigned_partitions_takes_exactly_those(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct picture *picture;
    hf_bus *a = worker(scene, "a", recorder, high, 2);
    int64_t head;

    publish_keys(a, 2);
    head = info_of(a, "a").head;
    assert_int_equal(head, 2 * KEYS);
    picture = expect(a, "-!-!aa");
    assert_int_equal(picture->infos[2].assigned, 1);
    assert_int_equal(picture->infos[0].assigned, 0);
    assert_int_equal(picture->infos[0].checkpoint, 0);
    assert_int_equal(picture->infos[0].lag, head);
    assert_true(picture->infos[2].epoch > 0);
    expect_said(scene, "processing 2 of 4 partitions");
    assert_string_equal(info_of(a, "a").not_moving,
                        "partitions 0-1 have no owner, and no process that runs may take them");
    worker(scene, "b", recorder, low, 2);
    expect(a, "bbaa");
    settle_all(a, "a");
    assert_int_equal(recorder_count(recorder), 2 * KEYS);
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_string_equal(info_of(a, "a").not_moving, "");
}

static void members_that_share_leave_partitions_that_are_assigned_to_others(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *a = worker(scene, "a", recorder, NULL, 0);
    hf_bus *b;

    expect(a, "aaaa");
    publish_keys(a, 1);
    b = worker(scene, "b", recorder, low, 2);
    expect(a, "bbaa");
    publish_keys(a, 1);
    worker(scene, "c", recorder, NULL, 0);
    expect_either(a, "bbac", "bbca");
    publish_keys(a, 1);
    scene_close(scene, b);
    publish_keys(a, 1);
    settle_all(a, "a");
    assert_int_equal(recorder_count(recorder), 4 * KEYS);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

#ifdef HF_FAULTS

static int stopped_teardown(void **state)
{
    clock_fake_off();
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return scene_teardown(state);
}

static bool is_nudged(void *ctx)
{
    return point_hits("after_nudge") > *(const int64_t *)ctx;
}

/* The news that another process has come arrives when a look at the store is just over, and the
 * next is not due for a long time: the clocks stand still. */
static void a_member_that_joins_while_others_refresh_gets_its_share(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    static const char *const patterns[] = {"*"};
    hf_subscription_options options = quick_options();
    const char *diary = scene_file(scene, "diary");
    hf_bus *a = worker(scene, "a", recorder, NULL, 0);
    int64_t nudges;
    pid_t pid;

    publish_keys(a, 1);
    settle_all(a, "a");
    expect(a, "aaaa");
    clock_fake_set(wall_us(), mono_us());
    point_arm("after_refresh", 1, POINT_STOP_THREAD);
    assert_ok(hf_subscription_create(a, "other", patterns, 1, &options, NULL)); /* it is news */
    assert_true(point_wait_blocked("after_refresh", DEADLINE_MS));
    nudges = point_hits("after_nudge");
    pid = actor_start("hold", scene->url, diary, NULL);
    expect(a, "AAaa");
    assert_true(wait_until(is_nudged, &nudges));
    usleep(100000); /* that may have been another's: if it is too early nothing is proven */
    point_release("after_refresh");
    expect(a, "ccaa");
    actor_kill(pid);
}

/* Who takes over from a dead process reads one event after the other, those of its other
 * partitions, too. The definition changes between its look at that and its look at the log, when
 * some are done and no checkpoint tells it. */
static void a_changed_definition_undoes_no_work_after_a_takeover(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    static const char *const patterns[] = {"*"};
    hf_subscription_options options = of_partitions(PARTITIONS);
    const char *diary = scene_file(scene, "diary");
    hf_bus *a = node(scene, "a");
    hf_bus *b;
    pid_t pid;

    options.checkpoint_ms = 60000;
    options.checkpoint_events = 1000;
    create(a, PARTITIONS);
    pid = actor_start("hold", scene->url, diary, NULL);
    expect(a, "cc-!-!");
    actor_kill(pid);
    expect(a, "-!-!-!-!");
    publish_keys(a, 4);
    b = node(scene, "b");
    recorder->door = scene_door(scene);
    subscribe(b, "a", "*", recorder, &options);
    assert_ok(hf_start(b));
    /* Events of all partitions come, so that some of these are not of the dead one's. */
    for (int i = 0; i < KEYS; i++) {
        assert_true(door_wait_inside(recorder->door, 1));
        point_arm("after_refresh", 1, POINT_STOP_THREAD);
        door_let(recorder->door, 1);
        assert_true(point_wait_blocked("after_refresh", DEADLINE_MS));
        options.attempts_max = 7 + i;
        assert_ok(hf_subscription_create(a, "a", patterns, 1, &options, NULL));
        point_release("after_refresh");
    }
    door_open(recorder->door);
    settle_all(b, "a");
    assert_int_equal(recorder_count(recorder), 4 * KEYS);
}

#endif

static void the_second_of_two_processes_with_one_partition_stands_by(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *a = worker(scene, "a", recorder, low, 2);
    hf_bus *b;

    expect(a, "aa-!-!");
    b = worker(scene, "b", recorder, zero, 1);
    expect_said(scene, "stands by for partition 0: a has it, and is alive");
    assert_int_equal(expect(b, "aa-!-!")->standby[0], 1);
    assert_int_equal(expect(b, "aa-!-!")->standby[1], 0);
    scene_close(scene, a);
    expect(b, "b-!-!-!");
}

static void a_partition_of_a_dead_process_is_unowned_or_shared_out(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    const char *diary = scene_file(scene, "diary");
    hf_bus *other = node(scene, "other");
    pid_t pid;

    create(other, PARTITIONS);
    pid = actor_start("hold", scene->url, diary, NULL);
    if (!diary_wait(diary, "R", 1)) {
        actor_kill(pid);
        fail_msg("the child did not start");
    }
    expect(other, "cc-!-!");
    actor_kill(pid);
    publish_keys(other, 1);
    expect(other, "-!-!-!-!");
    worker(scene, "b", recorder, NULL, 0);
    expect(other, "bbbb");
    settle_all(other, "a");
}

static void an_assignment_can_be_changed_and_withdrawn(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *a = worker(scene, "a", recorder, low, 2);

    expect(a, "aa-!-!");
    assert_ok(hf_assign(a, "a", high, 2, PARTITIONS));
    expect(a, "-!-!aa");
    publish_keys(a, 1);
    assert_ok(hf_assign(a, "a", NULL, 0, -1));
    expect(a, "aaaa");
    settle_all(a, "a");
    assert_int_equal(recorder_count(recorder), KEYS);
}

/* What runs when a partition is to go ends first. */
static void a_partition_goes_to_its_assigned_process_when_its_handlers_have_ended(void **state)
{
    struct scene *scene = *state;
    struct recorder *slow = scene_recorder(scene, NULL);
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = of_partitions(1);
    hf_bus *a = node(scene, "a");
    hf_bus *b = node(scene, "b");

    slow->door = scene_door(scene);
    subscribe(a, "a", "*", slow, &options);
    assert_ok(hf_start(a));
    publish(a, "x", "k", "1");
    publish(a, "x", "k", "2");
    assert_true(door_wait_inside(slow->door, 1));
    subscribe(b, "a", "*", recorder, &options);
    assert_ok(hf_assign(b, "a", zero, 1, -1));
    assert_ok(hf_start(b));
    expect(a, "A");
    assert_int_equal(recorder_count(recorder), 0);
    door_open(slow->door);
    expect(a, "b");
    settle_all(a, "a");
    assert_int_equal(recorder_count(slow) + recorder_count(recorder), 2);
}

/* ---- Another number of partitions ------------------------------------------------------------ */

static void an_assignment_for_another_number_of_partitions_takes_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    static const int32_t all[] = {0, 1, 2, 3};
    static const int32_t five[] = {5};
    hf_bus *a = worker(scene, "a", recorder, all, 4);

    publish_keys(a, 1);
    expect(a, "aaaa");
    create(a, 6);
    expect(a, "-!-!-!-!-!-!");
    expect_said(scene, "takes no partition: 0-3 of 4 are assigned, but it has 6 partitions");
    publish_keys(a, 1);
    assert_ok(hf_assign(a, "a", five, 1, 6));
    expect(a, "-!-!-!-!-!a");
    worker(scene, "b", recorder, NULL, 0);
    create(a, 6);
    expect(a, "bbbbba");
    settle_all(a, "a");
    assert_int_equal(recorder_count(recorder), 2 * KEYS);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

static void partitions_may_be_assigned_by_the_number_that_was_requested(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = of_partitions(-1);
    hf_bus *a = node(scene, "a");
    hf_bus *b = node(scene, "b");

    create(a, 1);
    publish_keys(a, 1);
    create(a, 3); /* no process works, so it remains a request */
    subscribe(b, "a", "*", recorder, &options);
    assert_status(hf_assign(b, "a", zero, 1, 2), HF_CONFLICT);
    assert_ok(hf_assign(b, "a", zero, 1, 3));
    assert_ok(hf_start(b));
    subscribe(a, "a", "*", recorder, &options);
    assert_ok(hf_start(a));
    expect(a, "baa");
    settle_all(a, "a");
    assert_int_equal(recorder_count(recorder), KEYS);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void partitions_that_cannot_be_assigned_are_refused_with_the_limit(void **state)
{
    struct scene *scene = *state;
    static const int32_t outside[] = {1, 4}, negative[] = {-1};
    hf_bus *bus = scene->bus;

    assert_status(hf_assign(bus, "a", zero, 1, -1), HF_NOTFOUND);
    create(bus, PARTITIONS);
    assert_status(hf_assign(bus, "a", outside, 2, PARTITIONS), HF_INVALID);
    assert_string_equal(hf_errmsg(), "partition is 4; of 4 partitions it must be 0 to 3");
    assert_status(hf_assign(bus, "a", negative, 1, -1), HF_INVALID);
    assert_status(hf_assign(bus, "a", zero, 1, 8), HF_CONFLICT);
    assert_string_equal(hf_errmsg(), "a has 4 partitions, and the assignment is for 8");
    assert_status(hf_assign(bus, "a", zero, 1, 0), HF_INVALID);
    assert_status(hf_assign(bus, "a", zero, 1, HF_PARTITIONS_MAX + 1), HF_INVALID);
    assert_status(hf_assign(bus, "a", zero, 0, -1), HF_INVALID);
    assert_status(hf_assign(bus, "a", NULL, 1, -1), HF_INVALID);
    assert_status(hf_assign(bus, NULL, zero, 1, -1), HF_INVALID);
    assert_status(hf_assign(NULL, "a", zero, 1, -1), HF_INVALID);
}

static void shared_and_single_subscriptions_have_nothing_to_assign(void **state)
{
    struct scene *scene = *state;
    static const char *const patterns[] = {"*"};
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", patterns, 1, &options, NULL));
    assert_status(hf_assign(scene->bus, "s", zero, 1, -1), HF_MISUSE);
    options = quick_options();
    options.instance_mode = HF_INSTANCE_SINGLE;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    assert_status(hf_assign(scene->bus, "a", zero, 1, -1), HF_MISUSE);
    assert_status(hf_partition_list(scene->bus, "s", draw, NULL), HF_OK);
    assert_status(hf_partition_list(scene->bus, "none", draw, NULL), HF_NOTFOUND);
    assert_status(hf_partition_list(scene->bus, "a", NULL, NULL), HF_INVALID);
}

/* A subscription that becomes single while a process has an assignment. */
static void an_assignment_does_not_outlive_a_change_to_single(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    static const char *const patterns[] = {"*"};
    hf_subscription_options options = of_partitions(PARTITIONS);
    hf_bus *a = worker(scene, "a", recorder, low, 2);

    expect(a, "aa-!-!");
    options.instance_mode = HF_INSTANCE_SINGLE;
    assert_ok(hf_subscription_create(a, "a", patterns, 1, &options, NULL));
    expect(a, "-!-!-!-!");
    expect_said(scene, "instance_mode single");
    options.instance_mode = HF_INSTANCE_COORDINATED;
    assert_ok(hf_subscription_create(a, "a", patterns, 1, &options, NULL));
    expect(a, "aa-!-!");
}

/* ---- Blocked keys ---------------------------------------------------------------------------- */

struct blocked {
    size_t count;
    hf_blocked_key keys[8];
    char key[8][16];
    char tenant[8][16];
    char event_id[8][HF_ID_BYTES];
};

static int note_blocked(const hf_blocked_key *key, void *ctx)
{
    struct blocked *blocked = ctx;
    size_t i = blocked->count++;

    blocked->keys[i] = *key;
    snprintf(blocked->key[i], 16, "%s", key->key ? key->key : "NULL");
    snprintf(blocked->tenant[i], 16, "%s", key->tenant ? key->tenant : "NULL");
    snprintf(blocked->event_id[i], HF_ID_BYTES, "%s", key->event_id ? key->event_id : "NULL");
    return blocked->count == 8;
}

static struct blocked blocked_of(hf_bus *bus, int64_t after, size_t limit)
{
    struct blocked blocked = {.count = 0};

    assert_ok(hf_blocked_list(bus, "a", after, limit, note_blocked, &blocked));
    return blocked;
}

static hf_verdict refuse_bad_keys(const hf_event *event, hf_delivery *delivery,
                                  struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return event->key && strncmp(event->key, "bad", 3) == 0 && strcmp(event->payload, "1") == 0
               ? HF_DEAD
               : HF_ACK;
}

static bool has_two_blocked_and_two_held(void *ctx)
{
    struct info info = info_of(ctx, "a");
    return info.blocked == 2 && info.held == 2;
}

static void blocked_keys_are_listed_and_released(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, refuse_bad_keys);
    hf_subscription_options options = of_partitions(PARTITIONS);
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt first;
    struct blocked blocked;

    options.on_poison = HF_POISON_BLOCK_KEY;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    event.type = "x";
    event.payload = "1";
    event.key = "bad1";
    event.tenant = "acme";
    assert_ok(hf_publish(scene->bus, &event, &first));
    publish(scene->bus, "x", "good", "1");
    publish(scene->bus, "x", "bad2", "1");
    publish(scene->bus, "x", "bad2", "2");
    publish(scene->bus, "x", "bad2", "3");
    if (!wait_until(has_two_blocked_and_two_held, scene->bus)) {
        fail_msg("the events behind bad2 are not held");
    }
    blocked = blocked_of(scene->bus, 0, 100);
    assert_int_equal(blocked.count, 2);
    assert_string_equal(blocked.key[0], "bad1");
    assert_string_equal(blocked.tenant[0], "acme");
    assert_string_equal(blocked.event_id[0], first.id);
    assert_int_equal(blocked.keys[0].position, first.position);
    assert_int_equal(blocked.keys[0].held, 0);
    assert_true(blocked.keys[0].since_us > 0);
    assert_string_equal(blocked.key[1], "bad2");
    assert_string_equal(blocked.tenant[1], "NULL");
    assert_int_equal(blocked.keys[1].held, 2);
    assert_int_equal(blocked_of(scene->bus, 0, 1).count, 1);
    assert_string_equal(blocked_of(scene->bus, first.position, 1).key[0], "bad2");
    assert_int_equal(blocked_of(scene->bus, 0, 0).count, 0);
    assert_ok(hf_dead_resolve(scene->bus, blocked.keys[1].dead_id, "me", NULL));
    settle_all(scene->bus, "a");
    assert_int_equal(blocked_of(scene->bus, 0, 100).count, 1);
    assert_int_equal(recorder_calls(recorder, 0, "bad2"), 3);
    assert_status(hf_blocked_list(scene->bus, "none", 0, 1, note_blocked, &blocked), HF_NOTFOUND);
    assert_status(hf_blocked_list(scene->bus, "a", -1, 1, note_blocked, &blocked), HF_INVALID);
}

static void every_state_of_a_partition_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(hf_partition_state_name(HF_PARTITION_UNOWNED), "unowned");
    assert_string_equal(hf_partition_state_name(HF_PARTITION_OWNED), "owned");
    assert_string_equal(hf_partition_state_name(HF_PARTITION_MOVING), "moving");
    assert_string_equal(hf_partition_state_name((hf_partition_state)9), "?");
}

static const struct CMUnitTest tests[] = {
    scene_test(a_process_with_assigned_partitions_takes_exactly_those),
    scene_test(members_that_share_leave_partitions_that_are_assigned_to_others),
#ifdef HF_FAULTS
    cmocka_unit_test_setup_teardown(a_member_that_joins_while_others_refresh_gets_its_share,
                                    scene_setup, stopped_teardown),
#endif
#ifdef HF_FAULTS
    cmocka_unit_test_setup_teardown(a_changed_definition_undoes_no_work_after_a_takeover,
                                    scene_setup, stopped_teardown),
#endif
    scene_test(the_second_of_two_processes_with_one_partition_stands_by),
    scene_test(a_partition_of_a_dead_process_is_unowned_or_shared_out),
    scene_test(an_assignment_can_be_changed_and_withdrawn),
    scene_test(a_partition_goes_to_its_assigned_process_when_its_handlers_have_ended),
    scene_test(an_assignment_for_another_number_of_partitions_takes_nothing),
    scene_test(partitions_may_be_assigned_by_the_number_that_was_requested),
    scene_test(partitions_that_cannot_be_assigned_are_refused_with_the_limit),
    scene_test(shared_and_single_subscriptions_have_nothing_to_assign),
    scene_test(an_assignment_does_not_outlive_a_change_to_single),
    scene_test(blocked_keys_are_listed_and_released),
    cmocka_unit_test(every_state_of_a_partition_has_a_name),
};

static const struct part parts[] = {{"hold", hold}};

ACTOR_MAIN(tests, parts)
