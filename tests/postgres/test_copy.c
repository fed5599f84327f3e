/*
 * test_copy.c - copies of a log whose positions became visible out of order: nothing that a
 * subscription has passed unseen is lost on the way, to a file (there) or to a server (back).
 */
#include "bus/support_copy.h"
#include "postgres/support_side.h"

#define LATE_EACH 4000 /* events of one call */
#define LATE (3 * LATE_EACH)

/* Claims everything there is now, and says so of each; how much it was, and the lowest position. */
static size_t claim_all(hf_bus *bus, int64_t *ret_first)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    size_t total = 0;
    size_t count;

    options.max = HF_CLAIM_MAX;
    *ret_first = INT64_MAX;
    do {
        hf_batch *batch = NULL;

        assert_ok(hf_claim(bus, "s", &options, &batch));
        count = hf_batch_count(batch);
        for (size_t i = 0; i < count; i++) {
            int64_t position = hf_batch_event(batch, i)->position;

            *ret_first = position < *ret_first ? position : *ret_first;
        }
        if (count > 0) {
            assert_ok(hf_ack(bus, "s", hf_batch_lease(batch), NULL, 0));
        }
        hf_batch_free(batch);
        total += count;
    } while (count > 0);
    return total;
}

/* Committed after a process has claimed what is behind it, and none has claimed since: more than
 * one lease may have, and some that the subscription does not want. */
static void an_event_that_was_passed_before_its_commit_is_claimed_from_the_copy(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *urls[] = {there, back};
    const char *wanted[] = {"wanted"};
    PGconn *late = side_open_url(scene->url);
    int64_t first;

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", wanted, 1, &options, NULL));
    side_must(late, "BEGIN");
    for (int i = 0; i < 4; i++) {
        side_must(late,
                  "SELECT FROM holdfast.publish_many('default', array_fill('%s'::text, "
                  "ARRAY[%d]), NULL)",
                  i == 1 ? "other" : "wanted", LATE_EACH);
    }
    publish(scene->bus, "wanted", NULL, "{}");
    assert_int_equal(claim_all(scene->bus, &first), 1);
    assert_int_equal(first, LATE + LATE_EACH + 1);
    side_must(late, "COMMIT");
    PQfinish(late);
    close_bus(scene);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        hf_bus *bus = NULL;

        copy_all(scene->url, urls[i]);
        assert_sound(urls[i]);
        assert_ok(open_default(urls[i], &bus));
        assert_int_equal(claim_all(bus, &first), LATE);
        assert_int_equal(first, 1);
        assert_ok(hf_close(&bus));
    }
}

static const struct CMUnitTest tests[] = {
    copy_test(an_event_that_was_passed_before_its_commit_is_claimed_from_the_copy),
};

SCENE_MAIN(tests)
