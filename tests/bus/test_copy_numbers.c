/*
 * Tests of what a copy says about numbers: ids that were given are known, positions and numbers of
 * dead letters are not given again, and a rate that was not measured is not known.
 */
#include "support_copy.h"
#include "support_tables.h"

/* ---- Ids ------------------------------------------------------------------------------------- */

static void publish_ids(hf_bus *bus, const hf_receipt *known, size_t count, hf_receipt *ret)
{
    hf_new_event *events = calloc(count, sizeof *events);

    for (size_t i = 0; i < count; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "a";
        events[i].id = known && known[i].position > 0 ? known[i].id : NULL;
    }
    assert_ok(hf_publish_many(bus, events, count, ret));
    free(events);
}

/* An event of a file has entered the log later than the time inside its id says, and a server looks
 * for such an id in another place: also for one of several, and for the last one of the file. */
static void ids_of_a_file_are_known_in_its_copy(void **state)
{
    hf_receipt known[4] = {0};
    hf_receipt mixed[4] = {0};
    hf_receipt again[4] = {0};
    hf_bus *bus = NULL;

    (void)state;
    assert_ok(open_default(there, &bus));
    publish_ids(bus, NULL, 3, known); /* the fourth is a new one */
    assert_ok(hf_close(&bus));
    copy_all(there, back);
    assert_ok(open_default(back, &bus));
    publish_ids(bus, &known[2], 1, again);
    assert_int_equal(again[0].duplicate, 1);
    assert_int_equal(again[0].position, known[2].position);
    publish_ids(bus, known, 4, mixed);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mixed[i].duplicate, 1);
        assert_int_equal(mixed[i].position, known[i].position);
    }
    assert_int_equal(mixed[3].duplicate, 0);
    assert_true(mixed[3].position > known[2].position);
    publish_ids(bus, mixed, 4, again); /* what was published to the copy is known as well */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(again[i].duplicate, 1);
        assert_int_equal(again[i].position, mixed[i].position);
    }
    publish_ids(bus, NULL, 4, again);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(again[i].duplicate, 0);
        assert_true(again[i].position > (i > 0 ? again[i - 1].position : mixed[3].position));
    }
    assert_ok(hf_close(&bus));
    assert_int_equal(content_of(back).count, 8);
    assert_sound(back);
}

/* ---- Positions ------------------------------------------------------------------------------- */

/* Takes the events after a position out of the log, as retention does. */
static void forget_after(struct scene *scene, int64_t position)
{
    char sql[128];

    snprintf(sql, sizeof sql,
             scene->path ? "DELETE FROM holdfast_events WHERE place > (1 << 44) + %lld"
                         : "DELETE FROM holdfast_private.events WHERE position > %lld",
             (long long)position);
    tables_run(scene, sql);
}

/* The newest events of the source are gone when it is copied, or all of them. */
static void positions_go_on(struct scene *scene, int64_t kept)
{
    const char *urls[] = {there, back};
    hf_receipt receipts[5] = {0};
    int64_t newest;

    publish_ids(scene->bus, NULL, COUNTED(receipts), receipts);
    newest = receipts[COUNTED(receipts) - 1].position;
    close_bus(scene);
    forget_after(scene, kept > 0 ? receipts[kept - 1].position : 0);
    copy_all(scene->url, there);
    copy_all(there, back);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        hf_bus *bus = NULL;

        assert_int_equal(content_of(urls[i]).count, kept);
        assert_ok(open_default(urls[i], &bus));
        assert_true(publish(bus, "a", NULL, "{}")->position > newest);
        assert_ok(hf_close(&bus));
    }
}

static void positions_of_a_log_whose_newest_events_are_gone_go_on(void **state)
{
    positions_go_on(*state, 2);
}

static void positions_of_a_log_that_is_empty_go_on(void **state)
{
    positions_go_on(*state, 0);
}

/* ---- Dead letters ---------------------------------------------------------------------------- */

static int note_letter(const hf_dead_letter *letter, void *ctx)
{
    *(int64_t *)ctx = letter->dead_id;
    return 1; /* the newest comes first */
}

/* The number of the dead letter that a new event becomes in the shared subscription "s". */
static int64_t bury_one(hf_bus *bus)
{
    hf_batch *batch = NULL;
    int64_t number = 0;

    publish(bus, "a", NULL, "{}");
    assert_ok(hf_claim(bus, "s", NULL, &batch));
    assert_int_equal(hf_batch_count(batch), 1);
    assert_ok(hf_bury(bus, "s", hf_batch_lease(batch), NULL, 0, "no"));
    hf_batch_free(batch);
    assert_ok(hf_dead_list(bus, NULL, note_letter, &number));
    return number;
}

static void create_shared(hf_bus *bus)
{
    hf_subscription_options options = quick_options();
    const char *all[] = {"*"};

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(bus, "s", all, 1, &options, NULL));
}

/* The newest dead letters of the source are gone when it is copied. */
static void the_number_of_a_dead_letter_is_never_used_again(void **state)
{
    struct scene *scene = *state;
    const char *urls[] = {there, back};
    hf_dead_filter newer = HF_DEAD_FILTER_INIT;
    int64_t kept;
    int64_t highest;
    int64_t count = 0;

    create_shared(scene->bus);
    kept = bury_one(scene->bus);
    newer.failed_after_us = wall_us();
    while (wall_us() == newer.failed_after_us) {
        continue;
    }
    bury_one(scene->bus);
    highest = bury_one(scene->bus);
    assert_true(highest >= kept + 2);
    assert_ok(hf_dead_purge(scene->bus, &newer, &count));
    assert_int_equal(count, 2);
    close_bus(scene);
    copy_all(scene->url, there);
    copy_all(there, back);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        int64_t number = 0;
        hf_bus *bus = NULL;

        assert_ok(open_default(urls[i], &bus));
        assert_ok(hf_dead_list(bus, NULL, note_letter, &number));
        assert_int_equal(number, kept);
        assert_true(bury_one(bus) > highest);
        assert_ok(hf_close(&bus));
    }
}

/* A target that has numbered further, in another namespace, goes on from there; what is copied
 * gets numbers that neither side has used. */
static void numbers_that_the_target_has_used_are_not_used_again(void **state)
{
    struct scene *scene = *state;
    const char *urls[] = {there, back};
    hf_options other = HF_OPTIONS_INIT;
    int64_t used[COUNTED(urls)];
    hf_bus *bus = NULL;

    other.timeout_ms = DEADLINE_MS;
    other.namespace_name = "other";
    for (size_t i = 0; i < COUNTED(urls); i++) {
        assert_ok(hf_open(urls[i], &other, &bus));
        create_shared(bus);
        for (int n = 0; n < 3; n++) {
            used[i] = bury_one(bus);
        }
        assert_ok(hf_close(&bus));
    }
    create_shared(scene->bus);
    for (int n = 0; n < 2; n++) {
        bury_one(scene->bus);
    }
    close_bus(scene);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        int64_t number = 0;

        copy_all(scene->url, urls[i]);
        assert_ok(open_default(urls[i], &bus));
        assert_ok(hf_dead_list(bus, NULL, note_letter, &number));
        assert_true(number > used[i]);
        assert_true(bury_one(bus) > number);
        assert_ok(hf_close(&bus));
        assert_sound(urls[i]);
    }
}

/* ---- Rates ----------------------------------------------------------------------------------- */

/* The copy has not seen the checkpoint move: it does not say that it stands still. It is known
 * again after 30 seconds, in which a machine can copy this. */
static void a_fresh_copy_shows_no_rate_of_a_subscription(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *urls[] = {there, back};
    const char *all[] = {"*"};

    create_shared(scene->bus);
    bury_one(scene->bus);
    assert_ok(hf_subscription_create(scene->bus, "idle", all, 1, &options, NULL));
    close_bus(scene);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        int64_t begun_us = mono_us();
        double moved;
        double idle;
        hf_bus *bus = NULL;

        copy_all(i > 0 ? urls[i - 1] : scene->url, urls[i]);
        assert_ok(open_default(urls[i], &bus));
        moved = info_of(bus, "s").rate;
        idle = info_of(bus, "idle").rate;
        assert_ok(hf_close(&bus));
        if (mono_us() - begun_us < INT64_C(25000000)) {
            assert_true(moved == -1);
            assert_true(idle == -1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        copy_test(ids_of_a_file_are_known_in_its_copy),
        copy_test(positions_of_a_log_whose_newest_events_are_gone_go_on),
        copy_test(positions_of_a_log_that_is_empty_go_on),
        copy_test(the_number_of_a_dead_letter_is_never_used_again),
        copy_test(numbers_that_the_target_has_used_are_not_used_again),
        copy_test(a_fresh_copy_shows_no_rate_of_a_subscription),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
