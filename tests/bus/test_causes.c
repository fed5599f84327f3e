/*
 * Tests of causes: why an attempt failed is a field that the store keeps. An error's text is for
 * people, so that one which reads like a text of ours changes nothing.
 */
#include "support_scene.h"

#include "store/common/story.h"

/* ---- Texts that read like ours --------------------------------------------------------------- */

/* The first attempt fails with the text that `tag` is; later ones wait at the door in `extra`. */
static hf_verdict fail_once_with_tag(const hf_event *event, hf_delivery *delivery,
                                     struct recorder *recorder)
{
    (void)event;
    if (hf_delivery_attempt(delivery) == 1) {
        hf_delivery_error(delivery, "%s", (const char *)recorder->tag);
        return HF_RETRY;
    }
    door_pass(recorder->extra);
    return HF_ACK;
}

/* An event that may have killed its process runs while no other handler does. This one has not:
 * while its second attempt is in its handler, those of another subscription run. */
static void others_run_beside_the_second_attempt(struct scene *scene, hf_mode mode,
                                                 const char *error)
{
    struct recorder *odd = scene_recorder(scene, fail_once_with_tag);
    struct recorder *other = scene_recorder(scene, NULL);
    struct door *door = scene_door(scene);
    hf_subscription_options options = quick_options();
    odd->tag = error;
    odd->extra = door;
    options.mode = mode;
    options.handler_timeout_ms = 10 * DEADLINE_MS;
    subscribe(scene->bus, "odd", "odd", odd, &options);
    subscribe(scene->bus, "other", "other", other, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "odd", NULL, "1");
    assert_true(door_wait_inside(door, 1));
    publish(scene->bus, "other", NULL, "2");
    assert_true(recorder_wait(other, 1));
    door_open(door);
    settle_all(scene->bus, "odd");
    assert_int_equal(recorder_count(odd), 2);
}

static void an_error_that_reads_like_a_crash_is_only_an_error(void **state)
{
    others_run_beside_the_second_attempt(*state, HF_MODE_ORDERED, STORY_ERROR_DIED);
}

static void an_error_that_reads_like_a_crash_is_only_an_error_in_shared_work(void **state)
{
    others_run_beside_the_second_attempt(*state, HF_MODE_SHARED,
                                         STORY_ERROR_DIED ": says the handler");
}

static hf_subscription_options pulled(int32_t attempts_max)
{
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    options.attempts_max = attempts_max;
    return options;
}

/* Claims what is due and answers how much; the lease is kept. */
static size_t claim(hf_bus *bus, int64_t lease_ms, int64_t wait_ms, char lease[HF_LEASE_BYTES])
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.lease_ms = lease_ms;
    options.wait_ms = wait_ms;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    memcpy(lease, hf_batch_lease(batch), HF_LEASE_BYTES);
    hf_batch_free(batch);
    return count;
}

static void an_error_that_reads_like_an_expired_lease_is_no_lease(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = pulled(4);
    const char *pattern = "x";
    char lease[HF_LEASE_BYTES];
    struct dead dead;
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    publish(scene->bus, "x", NULL, "1");
    assert_int_equal(claim(scene->bus, -1, 0, lease), 1);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, STORY_ERROR_EXPIRED));
    options = pulled(1); /* now it has had all its attempts */
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    assert_int_equal(claim(scene->bus, -1, 0, lease), 0);
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_string_equal(dead.error, STORY_ERROR_EXPIRED);
    assert_string_equal(dead.reason, "attempts");
}

/* ---- The same of a unit ---------------------------------------------------------------------- */

#define UNIT_EVENTS 4

static struct units {
    pthread_mutex_t mutex;
    size_t calls;
    size_t sizes[8];
} units;

static hf_verdict fail_unit_once(const hf_event *const *events, size_t count, hf_delivery *delivery,
                                 void *ctx)
{
    (void)events;
    (void)ctx;
    pthread_mutex_lock(&units.mutex);
    size_t call = units.calls++;
    if (call < COUNTED(units.sizes)) {
        units.sizes[call] = count;
    }
    pthread_mutex_unlock(&units.mutex);
    if (call > 0) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "%s",
                      STORY_ERROR_DIED "\",\"node\":\"n\",\"unit\":{\"first\":1,\"events\":2}}]");
    return HF_RETRY;
}

static void a_unit_comes_again_as_it_was_whatever_its_error_says(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.batch = UNIT_EVENTS;
    units = (struct units){.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", fail_unit_once, NULL, &options, NULL));
    for (int i = 0; i < UNIT_EVENTS; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    pthread_mutex_lock(&units.mutex);
    assert_int_equal(units.calls, 2);
    assert_int_equal(units.sizes[0], UNIT_EVENTS);
    assert_int_equal(units.sizes[1], UNIT_EVENTS);
    pthread_mutex_unlock(&units.mutex);
}

/* ---- What is told ---------------------------------------------------------------------------- */

static hf_verdict answer_by_type(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    (void)recorder;
    hf_delivery_error(delivery, "%s", STORY_ERROR_DIED);
    if (strcmp(event->type, "garbled") == 0) {
        return HF_UNDECODABLE;
    }
    return strcmp(event->type, "rejected") == 0 ? HF_DEAD : HF_RETRY;
}

static void assert_dead(struct scene *scene, const char *subscription, const char *reason,
                        const char *cause)
{
    struct dead dead;
    assert_int_equal(dead_of(scene->bus, subscription, &dead, 1), 1);
    assert_string_equal(dead.reason, reason);
    assert_string_equal(dead.cause, cause);
}

static void a_dead_letter_tells_what_its_handler_answered(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, answer_by_type);
    hf_subscription_options options = quick_options();
    const char *types[] = {"failed", "rejected", "garbled"};
    options.attempts_max = 2;
    for (size_t i = 0; i < COUNTED(types); i++) {
        subscribe(scene->bus, types[i], types[i], recorder, &options);
        publish(scene->bus, types[i], NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    for (size_t i = 0; i < COUNTED(types); i++) {
        settle_all(scene->bus, types[i]);
    }
    assert_dead(scene, "failed", "attempts", "handler");
    assert_dead(scene, "rejected", "rejected", "handler");
    assert_dead(scene, "garbled", "decode", "undecodable");
}

static void a_dead_letter_tells_that_its_handler_did_not_return(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    recorder->door = scene_door(scene);
    options.attempts_max = 1;
    options.handler_timeout_ms = 20;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    door_open(recorder->door);
    assert_dead(scene, "a", "attempts", "timeout");
}

struct told {
    hf_state state;
    char cause[16];
};

static int keep_told(const hf_event_state *state, void *ctx)
{
    struct told *told = ctx;
    told->state = state->state;
    snprintf(told->cause, sizeof told->cause, "%s", state->cause ? state->cause : "");
    return 0;
}

static struct told told_of(struct scene *scene, const char *id)
{
    struct told told = {0};
    assert_ok(hf_event_states(scene->bus, id, keep_told, &told));
    return told;
}

static bool is_buried(void *ctx)
{
    struct scene *scene = ctx;
    char lease[HF_LEASE_BYTES];
    struct dead dead;
    return claim(scene->bus, 1, 0, lease) == 0 && dead_of(scene->bus, "s", &dead, 1) == 1;
}

static void the_state_of_an_event_tells_why_its_last_attempt_failed(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = pulled(2);
    const char *pattern = "x";
    char lease[HF_LEASE_BYTES];
    char id[HF_ID_BYTES];
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    memcpy(id, publish(scene->bus, "x", NULL, "1")->id, sizeof id);
    assert_string_equal(told_of(scene, id).cause, "");
    assert_int_equal(claim(scene->bus, -1, 0, lease), 1);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, "no"));
    assert_int_equal(told_of(scene, id).state, HF_STATE_RETRYING);
    assert_string_equal(told_of(scene, id).cause, "handler");
    assert_int_equal(claim(scene->bus, 1, 0, lease), 1); /* this lease expires */
    assert_true(wait_until(is_buried, scene));
    assert_int_equal(told_of(scene, id).state, HF_STATE_DEAD);
    assert_string_equal(told_of(scene, id).cause, "lease_expired");
    assert_dead(scene, "s", "lease", "lease_expired");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_error_that_reads_like_a_crash_is_only_an_error),
        scene_test(an_error_that_reads_like_a_crash_is_only_an_error_in_shared_work),
        scene_test(an_error_that_reads_like_an_expired_lease_is_no_lease),
        scene_test(a_unit_comes_again_as_it_was_whatever_its_error_says),
        scene_test(a_dead_letter_tells_what_its_handler_answered),
        scene_test(a_dead_letter_tells_that_its_handler_did_not_return),
        scene_test(the_state_of_an_event_tells_why_its_last_attempt_failed),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
