/*
 * test_now.c - where a subscription begins, and where a seek to the end leads, while transactions
 * that have published are open.
 *
 * The contract of "from now on": it answers a position such that every event that was acknowledged
 * before the call began is at or below it, and every event whose publishing begins after the call
 * has returned is above it. In between, what was drawn before the answer's number was read is below
 * it, and the call waits until that is decided; what was drawn afterwards is above it and will be
 * delivered, even if the transaction that drew it was open when the call began. Whatever is below
 * is not delivered, whatever is above is, and nothing is both or neither.
 */
#include "postgres/support_stage.h"

#include "support/crowd.h"

#include <stdatomic.h>

struct call {
    hf_bus *bus; /* not the one that reads: the server must show them apart */
    struct recorder *recorder;
    bool seek; /* an existing subscription, to the end; else a new one from now */
    hf_status status;
    char message[HF_ERROR_BYTES_MAX]; /* what the calling thread was told */
    atomic_bool done;
};

static void run_call(int index, void *ctx)
{
    struct call *call = ctx;
    (void)index;
    if (call->seek) {
        hf_place end = {HF_PLACE_NOW, 0};
        call->status = hf_seek(call->bus, "late", end, HF_OFF, NULL);
    } else {
        hf_subscription_options options = quick_options();
        options.from.kind = HF_PLACE_NOW;
        call->status =
            hf_subscribe(call->bus, "late", "*", recorder_handle, call->recorder, &options, NULL);
    }
    snprintf(call->message, sizeof call->message, "%s", call->status ? hf_errmsg() : "");
    atomic_store(&call->done, true);
}

static void assert_call_worked(const struct call *call)
{
    if (call->status) {
        fail_msg("the call answered %s: %s", hf_status_name(call->status), call->message);
    }
}

static struct call call_of(struct stage *s, bool seek)
{
    hf_options options = s->scene->options;
    options.node_name = "caller";
    options.timeout_ms = DEADLINE_MS; /* it waits for what the test does meanwhile */
    return (struct call){
        .bus = scene_open(s->scene, &options),
        .recorder = scene_recorder(s->scene, NULL),
        .seek = seek,
    };
}

static bool owner_knows_of_the_seek(void *ctx)
{
    return scene_said(ctx, "lost the subscription: it was moved or changed");
}

static void begin_now(struct stage *s, bool seek)
{
    struct call call = call_of(s, seek);
    struct recorder *recorder = call.recorder;
    struct crowd crowd;
    assert_int_equal(stage_publish(s->b), 1); /* acknowledged before: not for it */
    if (seek) {
        struct door *door = scene_door(s->scene);
        recorder->door = door; /* nothing is handled before the seek */
        subscribe(s->bus, "late", "*", recorder, NULL);
        assert_true(recorder_wait_begun(recorder, 1));
    }
    side_must(s->a, "BEGIN");
    assert_int_equal(stage_publish(s->a), 2); /* drawn before: not for it, though committed later */
    assert_int_equal(stage_publish(s->b), 3);
    crowd_start(&crowd, 1, run_call, &call);
    side_await_look(s->b, "caller");
    side_must(s->c, "BEGIN");
    assert_int_equal(stage_publish(s->c), 4); /* drawn after, by a publisher that began after */
    assert_int_equal(stage_publish(s->a),
                     5); /* drawn after, by a publisher that was there before */
    assert_int_equal(stage_publish(s->b), 6);
    stage_let_it_look();
    assert_false(atomic_load(&call.done)); /* a is open */
    side_must(s->a, "COMMIT");
    crowd_join(&crowd); /* c is not waited for */
    assert_call_worked(&call);
    assert_ok(hf_start(call.bus));
    struct info info = info_of(s->bus, "late");
    assert_int_equal(info.start_position, 3);
    assert_int_equal(stage_publish(s->b), 7); /* began after the call had returned */
    side_must(s->c, "COMMIT");
    if (seek) { /* until its owner knows of it, it may begin what it has read ahead */
        assert_true(wait_until(owner_knows_of_the_seek, s->scene));
        door_open(recorder->door);
    }
    settle_all(s->bus, NULL);
    size_t before = seek ? 1 : 0; /* the one that was in the handler */
    assert_int_equal(recorder_count(recorder), 4 + before);
    for (int64_t position = 2; position <= 3; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 0);
    }
    for (int64_t position = 4; position <= 7; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    /* The others, which began at the start, have got everything. */
    assert_int_equal(recorder_count(s->loose), 7);
    assert_int_equal(recorder_count(s->shared), 7);
    assert_string_equal(stage_list(s->strict), "1 2 3 4 5 6 7");
}

static void a_subscription_from_now_waits_for_publishers_that_are_under_way(void **state)
{
    struct stage s = stage_of(*state);
    begin_now(&s, false);
    stage_end(&s);
}

static void a_seek_to_the_end_waits_for_publishers_that_are_under_way(void **state)
{
    struct stage s = stage_of(*state);
    begin_now(&s, true);
    stage_end(&s);
}

/* The number is drawn, and neither a row nor a transaction id tells of it. */
static void now_waits_for_a_number_that_was_only_drawn(void **state)
{
    struct stage s = stage_of(*state);
    struct call call = call_of(&s, false);
    struct recorder *recorder = call.recorder;
    struct crowd crowd;
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_draw(s.a), 1);
    crowd_start(&crowd, 1, run_call, &call);
    side_await_look(s.b, "caller");
    stage_let_it_look();
    assert_false(atomic_load(&call.done));
    stage_insert(s.a, 1);
    side_must(s.a, "COMMIT");
    crowd_join(&crowd);
    assert_call_worked(&call);
    assert_ok(hf_start(call.bus));
    assert_int_equal(info_of(s.bus, "late").start_position, 1);
    stage_publish(s.b);
    settle_all(s.bus, NULL);
    assert_string_equal(stage_list(recorder), "2");
    stage_end(&s);
}

/* Nothing is visible, or only later positions are: what is under way belongs to the log all the
 * same. */
static void a_subscription_from_the_start_gets_what_is_under_way(void **state)
{
    struct stage s = stage_of(*state);
    struct recorder *empty = scene_recorder(s.scene, NULL);
    struct recorder *later = scene_recorder(s.scene, NULL);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    subscribe(s.bus, "empty", "*", empty, NULL);
    assert_int_equal(stage_publish(s.b), 2);
    subscribe(s.bus, "later", "*", later, NULL);
    hf_place start = {HF_PLACE_START, 0};
    assert_ok(hf_seek(s.bus, "strict", start, HF_OFF, NULL));
    assert_string_equal(stage_await(empty, 1), "2");
    assert_string_equal(stage_await(later, 1), "2");
    side_must(s.a, "COMMIT");
    settle_all(s.bus, NULL);
    assert_string_equal(stage_list(empty), "2 1");
    assert_string_equal(stage_list(later), "2 1");
    assert_string_equal(stage_list(s.strict), "1 2");
    stage_end(&s);
}

static void waiting_for_a_position_that_is_under_way_waits_for_it(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    assert_int_equal(stage_publish(s.b), 2);
    assert_string_equal(stage_await(s.loose, 1), "2");
    assert_status(hf_wait(s.bus, "loose", 1, 100), HF_TIMEOUT);
    assert_status(hf_wait(s.bus, "shared", 1, 100), HF_TIMEOUT);
    side_must(s.a, "ROLLBACK");
    assert_ok(hf_wait(s.bus, "loose", 1, DEADLINE_MS));
    assert_ok(hf_wait(s.bus, "shared", 1, DEADLINE_MS));
    stage_end(&s);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_subscription_from_now_waits_for_publishers_that_are_under_way),
    scene_test(a_seek_to_the_end_waits_for_publishers_that_are_under_way),
    scene_test(now_waits_for_a_number_that_was_only_drawn),
    scene_test(a_subscription_from_the_start_gets_what_is_under_way),
    scene_test(waiting_for_a_position_that_is_under_way_waits_for_it),
};

SCENE_MAIN(tests)
