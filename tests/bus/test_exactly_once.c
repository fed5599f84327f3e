/*
 * Tests of G5: transactional handlers have exactly-once effects, wherever in the life of a delivery
 * the process is killed.
 *
 * A child works for the subscription "a": for each event it writes a row and publishes one event,
 * both in the delivery's transaction. It is killed (SIGKILL) at a named point, the nth time that it
 * comes there; then another child finishes the work. Whatever the point, in the end there is one
 * row and one published event for each event. A point at which nobody was ever killed fails the
 * test: it would have shown nothing.
 */
#include "support_actor.h"
#include "support_tables.h"

#ifdef HF_FAULTS
#include "base/point.h"

#include <signal.h>
#include <sys/wait.h>

#define ROUND_EVENTS 12

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    hf_new_event derived = HF_NEW_EVENT_INIT;

    (void)ctx;
    derived.type = "derived";
    derived.key = event->id;
    if (!delivery_run(delivery, "INSERT INTO effects VALUES (%lld)", (long long)event->position) ||
        hf_publish(hf_delivery_bus(delivery), &derived, NULL) != HF_OK)
        return HF_RETRY;
    return HF_ACK;
}

/* work URL [POINT NTH]: processes "a" until everything is settled, or it is killed. */
static int work(int argc, char **argv)
{
    hf_bus *bus = NULL;

    if (argc < 1)
        return 2;
    if (argc == 3)
        point_arm(argv[1], strtoll(argv[2], NULL, 10), POINT_KILL);
    if (hf_open(argv[0], NULL, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "cause", handle, NULL, NULL, NULL) != HF_OK ||
        hf_start(bus) != HF_OK || hf_wait(bus, "a", -1, PATIENCE_MS) != HF_OK) {
        fprintf(stderr, "%s\n", hf_errmsg());
        return 1;
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

static const struct part parts[] = {{"work", work}};

/* ---- The parent's side ----------------------------------------------------------------------- */

struct window {
    const char *point;
    bool server_only;
};

/* From before the handler runs until its delivery is part of a stored checkpoint. */
static const struct window windows[] = {
    {"before_handler", false},
    {"after_handler_before_settle", false},
    {"tx_after_settle", true},
    {"handler_tx_before_commit", false},
    {"tx_before_commit", false},
    {"tx_after_commit", false},
    {"handler_tx_after_commit", false},
};

/* One round; true if somebody was killed in it. */
static bool run_round(struct scene *scene, const char *point, int nth)
{
    char number[16];
    int status;
    bool killed;

    snprintf(number, sizeof(number), "%d", nth);
    for (int i = 0; i < ROUND_EVENTS; i++)
        publish(scene->bus, "cause", i % 3 ? "k" : NULL, "1");
    status = actor_wait(actor_start("work", scene->url, point, number, NULL));
    killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed && status != 0)
        fail_msg("at %s the worker ended with %d", point, status);
    if (killed && actor_wait(actor_start("work", scene->url, NULL)) != 0)
        fail_msg("after a kill at %s the work was not finished", point);
    return killed;
}

/* chunks: deliveries share commits. At each point once, or (times 2) also later. */
static void be_killed_everywhere(struct scene *scene, hf_subscription_options options, bool chunks,
                                 int times)
{
    const char *patterns[] = {"cause"};
    int64_t events = 0;

    options.transactional = HF_ON;
    options.attempts_max = 100;
    options.checkpoint_events = chunks ? 1000 : 1;
    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    for (size_t i = 0; i < COUNTED(windows); i++) {
        const struct window *window = &windows[i];
        bool killed = false;

        /* A chunk of one delivery is settled by its commit. */
        if (window->server_only && (scene->path || !chunks))
            continue;
        for (int j = 0; j < times; j++) {
            killed |= run_round(scene, window->point, 1 + 4 * j);
            events += ROUND_EVENTS;
        }
        if (!killed)
            fail_msg("nobody was killed at %s", window->point);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), events);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), events);
    assert_int_equal(tables_events(scene), 2 * events);
}

static void of_single_ordered_deliveries_effects_are_exactly_once(void **state)
{
    be_killed_everywhere(*state, quick_options(), false, 2);
}

static void of_ordered_deliveries_that_share_a_commit_too(void **state)
{
    be_killed_everywhere(*state, quick_options(), true, 2);
}

static void of_ordered_deliveries_with_many_workers_too(void **state)
{
    hf_subscription_options options = quick_options();

    options.concurrency = 3;
    be_killed_everywhere(*state, options, false, 1);
}

static void of_single_shared_deliveries_too(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    be_killed_everywhere(*state, options, false, 1);
}

static void of_shared_deliveries_that_share_a_commit_too(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    be_killed_everywhere(*state, options, true, 1);
}

static const struct CMUnitTest tests[] = {
    scene_test(of_single_ordered_deliveries_effects_are_exactly_once),
    scene_test(of_ordered_deliveries_that_share_a_commit_too),
    scene_test(of_ordered_deliveries_with_many_workers_too),
    scene_test(of_single_shared_deliveries_too),
    scene_test(of_shared_deliveries_that_share_a_commit_too),
};

ACTOR_MAIN(tests, parts)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
