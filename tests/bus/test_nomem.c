/*
 * test_nomem.c - no memory: every call that allocates is repeated with its 1st, 2nd ... Nth
 * allocation failing. It must answer HF_NOMEM, change nothing, leak nothing, and work again.
 *
 * Only calls that need no thread of the bus are tried, so that the count of allocations is the
 * calling thread's alone.
 */
#include "support_scene.h"

#include "base/mem.h"
#include "support/ignore.h"

#define ALLOCATIONS_MAX 500

typedef hf_status (*call_fn)(struct scene *scene);

static char lease[HF_LEASE_BYTES];
static char event_id[HF_ID_BYTES];
static int64_t dead_id;

/* ---- The calls ------------------------------------------------------------------------------- */

static hf_status call_publish_many(struct scene *scene)
{
    hf_new_event events[3] = {HF_NEW_EVENT_INIT, HF_NEW_EVENT_INIT, HF_NEW_EVENT_INIT};
    events[0].type = events[1].type = events[2].type = "b";
    return hf_publish_many(scene->bus, events, 3, NULL);
}

static hf_status call_claim(struct scene *scene)
{
    hf_batch *batch = NULL;
    hf_status status = hf_claim(scene->bus, "s", NULL, &batch);
    if (!status) {
        snprintf(lease, sizeof lease, "%s", hf_batch_lease(batch));
    }
    hf_batch_free(batch);
    return status;
}

static const int64_t one[] = {1};
static const int64_t two[] = {2};
static const int64_t three[] = {3};

static hf_status call_ack(struct scene *scene)
{
    return hf_ack(scene->bus, "s", lease, one, 1);
}

static hf_status call_nack(struct scene *scene)
{
    return hf_nack(scene->bus, "s", lease, two, 1, 60000, "x");
}

static hf_status call_bury(struct scene *scene)
{
    return hf_bury(scene->bus, "s", lease, three, 1, "x");
}

static hf_status call_touch(struct scene *scene)
{
    return hf_touch(scene->bus, "s", lease, -1);
}

static hf_status call_release(struct scene *scene)
{
    return hf_release(scene->bus, "s", lease, NULL, 0);
}

static hf_status call_pause(struct scene *scene)
{
    return hf_pause(scene->bus, "s", "x");
}

static hf_status call_resume(struct scene *scene)
{
    return hf_resume(scene->bus, "s");
}

static hf_status call_event_get(struct scene *scene)
{
    return hf_event_get(scene->bus, event_id, ignore_event, NULL);
}

static hf_status call_event_states(struct scene *scene)
{
    return hf_event_states(scene->bus, event_id, ignore_state, NULL);
}

static hf_status call_read(struct scene *scene)
{
    int64_t cursor = 0;
    return hf_read(scene->bus, NULL, 100, 0, &cursor, ignore_event, NULL);
}

static hf_status call_info(struct scene *scene)
{
    return hf_subscription_get(scene->bus, "s", ignore_info, NULL);
}

static hf_status call_list(struct scene *scene)
{
    return hf_subscription_list(scene->bus, ignore_info, NULL);
}

static hf_status call_stats(struct scene *scene)
{
    hf_stats stats = {.size = sizeof stats};
    return hf_stats_get(scene->bus, &stats);
}

static hf_status call_dead_list(struct scene *scene)
{
    return hf_dead_list(scene->bus, NULL, ignore_letter, NULL);
}

static hf_status call_dead_retry(struct scene *scene)
{
    return hf_dead_retry(scene->bus, dead_id, "{}", HF_AUTO_LENGTH);
}

static hf_status call_seek(struct scene *scene)
{
    return hf_seek(scene->bus, "s", (hf_place){HF_PLACE_START, 0}, HF_OFF, NULL);
}

static const struct {
    const char *name;
    call_fn call;
} calls[] = {
    {"hf_publish_many", call_publish_many},
    {"hf_claim", call_claim},
    {"hf_ack", call_ack},
    {"hf_nack", call_nack},
    {"hf_bury", call_bury},
    {"hf_touch", call_touch},
    {"hf_release", call_release},
    {"hf_pause", call_pause},
    {"hf_resume", call_resume},
    {"hf_event_get", call_event_get},
    {"hf_event_states", call_event_states},
    {"hf_read", call_read},
    {"hf_subscription_get", call_info},
    {"hf_subscription_list", call_list},
    {"hf_stats_get", call_stats},
    {"hf_dead_list", call_dead_list},
    {"hf_dead_retry", call_dead_retry},
    {"hf_seek", call_seek},
};

/* ---- The test -------------------------------------------------------------------------------- */

static int keep_dead_id(const hf_dead_letter *letter, void *ctx)
{
    (void)ctx;
    dead_id = letter->dead_id;
    return 0;
}

/* Fails one allocation after the other until the call gets through. */
static void starve(struct scene *scene, const char *name, call_fn call)
{
    int64_t failures = 0;
    if (!scene->path && strcmp(name, "hf_claim") == 0) {
        assert_ok(call(scene)); /* what a server has claimed would be lost on its way */
        return;
    }
    for (int64_t nth = 1; nth <= ALLOCATIONS_MAX; nth++) {
        int64_t live = mem_live();
        mem_fail_at(nth, false);
        hf_status status = call(scene);
        mem_fail_at(0, false);
        if (!status) {
            print_message("%s: %d allocations failed\n", name, (int)failures);
            return;
        }
        failures++;
        if (status != HF_NOMEM) {
            fail_msg("%s, allocation %d: %s: %s", name, (int)nth, hf_status_name(status),
                     hf_errmsg());
        }
        /* A connection or a statement that was made on the way may stay. */
        if (mem_live() > live + 16) {
            fail_msg("%s, allocation %d: %d blocks leaked", name, (int)nth,
                     (int)(mem_live() - live));
        }
    }
    fail_msg("%s never got through", name);
}

static void without_memory_calls_fail_cleanly_and_work_again(void **state)
{
    struct scene *scene = *state;
    const char *patterns[] = {"a"};
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", patterns, 1, &options, NULL));
    for (int i = 0; i < 5; i++) {
        snprintf(event_id, sizeof event_id, "%s", publish(scene->bus, "a", "k", "{}")->id);
    }
    for (size_t i = 0; i < COUNTED(calls); i++) {
        if (calls[i].call == call_dead_retry) {
            assert_ok(hf_dead_list(scene->bus, NULL, keep_dead_id, NULL));
        }
        starve(scene, calls[i].name, calls[i].call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(without_memory_calls_fail_cleanly_and_work_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
