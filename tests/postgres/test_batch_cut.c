/*
 * Tests of G5 for batch handlers when the server ends the worker's connections: at a named point of
 * a unit's life all of them are terminated, and the process goes on by itself. Whatever the point,
 * each event has its effect once, and each unit that was committed is whole (support_units.h).
 */
#include "bus/support_units.h"

#ifdef HF_FAULTS
#include "base/point.h"

#define ROUND_EVENTS 12
#define TRIES_MAX 50

static const char CUT[] = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                          "WHERE application_name = 'victim' AND datname = current_database()";

struct cut {
    const char *url;
    const char *point;
    int ended; /* connections; -1: no thread came to the point */
};

static void *cut_main(void *ctx)
{
    struct cut *cut = ctx;
    struct scene scene = {.path = NULL};

    cut->ended = -1;
    if (point_wait_blocked(cut->point, DEADLINE_MS)) {
        snprintf(scene.url, sizeof scene.url, "%s", cut->url);
        cut->ended = (int)tables_number(&scene, CUT);
    }
    point_release(cut->point);
    return NULL;
}

/* suffer URL POINT NTH: works for "a" until all is settled. */
static int suffer(int argc, char **argv)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_status status = HF_UNAVAILABLE;
    struct cut cut;
    pthread_t thread;
    hf_bus *bus = NULL;

    if (argc < 3) {
        return 2;
    }
    options.node_name = "victim";
    cut = (struct cut){argv[0], argv[1], 0};
    point_arm(argv[1], strtoll(argv[2], NULL, 10), POINT_STOP_THREAD);
    if (pthread_create(&thread, NULL, cut_main, &cut) != 0 ||
        hf_open(argv[0], &options, &bus) != HF_OK ||
        hf_subscribe_batch(bus, "a", "cause", units_handle, NULL, NULL, NULL) != HF_OK ||
        hf_start(bus) != HF_OK) {
        fprintf(stderr, "%s\n", hf_errmsg());
        return 3;
    }
    for (int i = 0; i < TRIES_MAX && status != HF_OK; i++) {
        status = hf_wait(bus, "a", -1, DEADLINE_MS);
        if (status) {
            usleep(50000);
        }
    }
    if (status) {
        fprintf(stderr, "%s: %s\n", hf_status_name(status), hf_errmsg());
    }
    pthread_join(thread, NULL);
    hf_close(&bus);
    return status != HF_OK ? 4 : cut.ended > 0 ? 0 : 5;
}

static const struct part parts[] = {{"suffer", suffer}};

/* ---- The parent's side ----------------------------------------------------------------------- */

static const struct window {
    const char *point;
    const char *nth;
} windows[] = {
    {"before_handler", "1"},
    {"after_handler_before_settle", "1"},
    {"handler_tx_before_commit", "2"},
    {"tx_before_commit", "1"},
    {"tx_after_commit", "1"},
    {"handler_tx_after_commit", "1"},
    {"before_settle", "1"},
    {"after_settle", "1"},
};

static void be_cut_everywhere(struct scene *scene, hf_subscription_options options, size_t count)
{
    struct units *units;

    options.attempts_max = 100;
    units = units_begin(scene, options);
    for (size_t i = 0; i < count; i++) {
        int status;

        units_publish(units, ROUND_EVENTS, -1);
        status =
            actor_wait(actor_start("suffer", scene->url, windows[i].point, windows[i].nth, NULL));
        if (status != 0) {
            fail_msg("cut at %s, the worker ended with %d", windows[i].point, status);
        }
    }
    assert_int_equal(units_judge(units), 0);
}

static void effects_of_units_by_key_are_exactly_once(void **state)
{
    hf_subscription_options options = quick_options();

    options.batch_by = HF_BATCH_KEY;
    be_cut_everywhere(*state, options, COUNTED(windows));
}

static void effects_of_units_without_keys_are_exactly_once(void **state)
{
    hf_subscription_options options = quick_options();

    options.batch = 5;
    be_cut_everywhere(*state, options, 6);
}

static void effects_of_units_in_a_lease_are_exactly_once(void **state)
{
    hf_subscription_options options = quick_options();

    options.batch_by = HF_BATCH_KEY;
    options.mode = HF_MODE_SHARED;
    be_cut_everywhere(*state, options, 6);
}

static const struct CMUnitTest tests[] = {
    scene_test(effects_of_units_by_key_are_exactly_once),
    scene_test(effects_of_units_without_keys_are_exactly_once),
    scene_test(effects_of_units_in_a_lease_are_exactly_once),
};

ACTOR_MAIN(tests, parts)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
