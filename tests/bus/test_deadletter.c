/*
 * test_deadletter.c - listing, counting, retrying, resolving and purging dead letters.
 *
 * Dead letters are made by claiming and burying, so that no test needs a started bus.
 */
#include "support_scene.h"

#include <inttypes.h>

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

static void create(hf_bus *bus, const char *name, const char *pattern)
{
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(bus, name, &pattern, 1, &options, NULL));
}

/* Claims everything that is left and buries it. */
static size_t bury_all(hf_bus *bus, const char *name, const char *error)
{
    hf_batch *batch;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = HF_CLAIM_MAX;
    assert_ok(hf_claim(bus, name, &options, &batch));
    size_t count = hf_batch_count(batch);
    if (count > 0) {
        assert_ok(hf_bury(bus, name, hf_batch_lease(batch), NULL, 0, error));
    }
    hf_batch_free(batch);
    return count;
}

static void publish_and_bury(hf_bus *bus, const char *type, const char *error)
{
    publish(bus, type, NULL, "{\"n\":1}");
    assert_int_equal(bury_all(bus, "s", error), 1);
}

struct listed {
    int64_t ids[2048];
    size_t count;
    size_t stop_after; /* 0: never */
};

static int keep_id(const hf_dead_letter *letter, void *ctx)
{
    struct listed *listed = ctx;
    if (listed->count < COUNTED(listed->ids)) {
        listed->ids[listed->count] = letter->dead_id;
    }
    listed->count++;
    return listed->count == listed->stop_after;
}

static struct listed *list(hf_bus *bus, const hf_dead_filter *filter)
{
    static struct listed listed;
    memset(&listed, 0, sizeof listed);
    assert_ok(hf_dead_list(bus, filter, keep_id, &listed));
    return &listed;
}

static int64_t count_of(hf_bus *bus, const hf_dead_filter *filter)
{
    int64_t count = -1;
    assert_ok(hf_dead_count(bus, filter, &count));
    return count;
}

static hf_dead_filter any(void)
{
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    return filter;
}

/* ---- Listing --------------------------------------------------------------------------------- */

static int check_letter(const hf_dead_letter *letter, void *ctx)
{
    int *calls = ctx;
    ++*calls;
    assert_string_equal(letter->subscription, "s");
    assert_string_equal(letter->reason, "rejected");
    assert_string_equal(letter->error, "bad\nthing");
    assert_int_equal(letter->attempts, 1);
    assert_non_null(strstr(letter->attempts_json, "\"error\":\"bad\\nthing\""));
    assert_true(letter->failed_at_us > letter->event.entered_at_us - 1);
    assert_int_equal(letter->resolved_at_us, -1);
    assert_null(letter->resolved_by);
    assert_null(letter->resolved_note);
    assert_string_equal(letter->event.type, "job.one");
    assert_string_equal(letter->event.payload, "{\"n\":1}");
    assert_int_equal(letter->event.payload_bytes, 7);
    assert_int_equal(letter->event.position, 1);
    assert_int_equal(strlen(letter->event.id), 36);
    assert_null(letter->event.key);
    return 0;
}

static void a_dead_letter_is_complete(void **state)
{
    struct scene *scene = *state;
    int calls = 0;
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "bad\nthing");
    hf_dead_filter filter = any();
    int64_t id = list(scene->bus, &filter)->ids[0];
    assert_ok(hf_dead_get(scene->bus, id, check_letter, &calls));
    assert_ok(hf_dead_list(scene->bus, NULL, check_letter, &calls));
    assert_int_equal(calls, 2);
    assert_ok(hf_subscription_remove(scene->bus, "s"));
    assert_ok(hf_dead_get(scene->bus, id, check_letter, &calls)); /* it outlives it */
    assert_status(hf_dead_get(scene->bus, id + 1, check_letter, &calls), HF_NOTFOUND);
    assert_said("there is no dead letter");
    assert_int_equal(calls, 3);
}

static void dead_letters_are_listed_newest_first_a_hundred_a_page(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", "job.*");
    for (int i = 0; i < 250; i++) {
        publish(scene->bus, "job.one", NULL, NULL);
    }
    assert_int_equal(bury_all(scene->bus, "s", "x"), 250);
    hf_dead_filter filter = any();
    int64_t previous = INT64_MAX;
    size_t pages[] = {100, 100, 50, 0};
    for (size_t page = 0; page < COUNTED(pages); page++) {
        struct listed *listed = list(scene->bus, &filter);
        assert_int_equal(listed->count, pages[page]);
        for (size_t i = 0; i < listed->count; i++) {
            assert_true(listed->ids[i] < previous);
            previous = listed->ids[i];
        }
        filter.before_dead_id = previous;
    }
    filter = any();
    filter.limit = 7;
    filter.offset = 245;
    assert_int_equal(list(scene->bus, &filter)->count, 5);
    filter.limit = 0;
    assert_int_equal(list(scene->bus, &filter)->count, 0);
    filter = any();
    assert_int_equal(count_of(scene->bus, &filter), 250);
    static struct listed stopped;
    stopped = (struct listed){.stop_after = 3};
    assert_ok(hf_dead_list(scene->bus, &filter, keep_id, &stopped));
    assert_int_equal(stopped.count, 3);
}

static void filters_of_a_list_select_dead_letters(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", "job.*");
    create(scene->bus, "t", "job.*");
    publish(scene->bus, "job.one", NULL, NULL);
    assert_int_equal(bury_all(scene->bus, "s", "disk 100% full"), 1);
    assert_int_equal(bury_all(scene->bus, "t", "other"), 1);
    publish_and_bury(scene->bus, "job.two", "Disk empty");
    hf_dead_filter filter = any();
    assert_int_equal(count_of(scene->bus, &filter), 3);
    filter.subscription = "s";
    assert_int_equal(count_of(scene->bus, &filter), 2);
    filter.type = "job.two";
    assert_int_equal(count_of(scene->bus, &filter), 1);
    filter.type = "*.one";
    assert_int_equal(list(scene->bus, &filter)->count, 1);
    filter = any();
    filter.error = "100% f";
    assert_int_equal(count_of(scene->bus, &filter), 1);
    filter.error = "_";
    assert_int_equal(count_of(scene->bus, &filter), 0);
    filter = any();
    filter.reason = "rejected";
    assert_int_equal(count_of(scene->bus, &filter), 3);
    filter.reason = "attempts";
    assert_int_equal(count_of(scene->bus, &filter), 0);
    struct dead dead[2];
    assert_int_equal(dead_of(scene->bus, "s", dead, 2), 2);
    filter = any();
    filter.subscription = "s";
    filter.failed_before_us = dead[1].failed_at_us;
    assert_int_equal(count_of(scene->bus, &filter),
                     1 + (dead[0].failed_at_us == dead[1].failed_at_us));
    filter.failed_before_us = dead[1].failed_at_us - 1;
    assert_int_equal(count_of(scene->bus, &filter), 0);
    filter.failed_before_us = -1;
    filter.failed_after_us = dead[0].failed_at_us;
    assert_in_range(count_of(scene->bus, &filter), 1, 2);
    filter.failed_after_us = dead[0].failed_at_us + 1;
    assert_int_equal(count_of(scene->bus, &filter), 0);
}

static void bad_filters_are_refused_and_nothing_is_called(void **state)
{
    struct scene *scene = *state;
    struct listed listed = {.count = 0};
    int64_t count = -99;
    hf_dead_filter filter = any();
    filter.type = "a..b";
    assert_status(hf_dead_list(scene->bus, &filter, keep_id, &listed), HF_INVALID);
    assert_said("type: ");
    filter = any();
    filter.subscription = "\xff";
    assert_status(hf_dead_purge(scene->bus, &filter, &count), HF_INVALID);
    assert_said("subscription is not valid UTF-8 at byte 0");
    filter = any();
    filter.error = "no \xff";
    assert_status(hf_dead_list(scene->bus, &filter, keep_id, &listed), HF_INVALID);
    assert_said("error is not valid UTF-8 at byte 3");
    filter = any();
    filter.limit = -2;
    assert_status(hf_dead_count(scene->bus, &filter, &count), HF_INVALID);
    filter = any();
    filter.offset = -2;
    assert_status(hf_dead_purge(scene->bus, &filter, &count), HF_INVALID);
    filter = any();
    filter.resolved = (hf_toggle)7;
    assert_status(hf_dead_retry_all(scene->bus, &filter, &count), HF_INVALID);
    filter = any();
    filter.size = 1;
    assert_status(hf_dead_list(scene->bus, &filter, keep_id, &listed), HF_INVALID);
    assert_status(hf_dead_list(scene->bus, NULL, NULL, NULL), HF_INVALID);
    assert_status(hf_dead_list(NULL, NULL, keep_id, &listed), HF_INVALID);
    assert_status(hf_dead_count(scene->bus, NULL, NULL), HF_INVALID);
    assert_status(hf_dead_get(scene->bus, 1, NULL, NULL), HF_INVALID);
    assert_int_equal(listed.count, 0);
    assert_int_equal(count, -99);
}

/* ---- Retrying -------------------------------------------------------------------------------- */

static void a_retried_letter_is_delivered_again_with_a_clean_record(void **state)
{
    struct scene *scene = *state;
    hf_batch *batch;
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "x");
    hf_dead_filter filter = any();
    int64_t id = list(scene->bus, &filter)->ids[0];
    assert_ok(hf_dead_retry(scene->bus, id, NULL, 0));
    assert_int_equal(count_of(scene->bus, &filter), 0);
    assert_status(hf_dead_retry(scene->bus, id, NULL, 0), HF_NOTFOUND);
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    assert_int_equal(hf_batch_count(batch), 1);
    assert_int_equal(hf_batch_attempt(batch, 0), 1);
    assert_string_equal(hf_batch_event(batch, 0)->payload, "{\"n\":1}");
    assert_int_equal(hf_batch_event(batch, 0)->position, 1);
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(batch), NULL, 0));
    hf_batch_free(batch);
    assert_int_equal(info_of(scene->bus, "s").lag, 0);
}

static int check_unchanged(const hf_event *event, void *ctx)
{
    assert_string_equal(event->payload, "{\"n\":1}");
    ++*(int *)ctx;
    return 0;
}

static void a_letter_that_blocks_its_key_can_be_retried_each_time_that_it_dies(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_always);
    hf_subscription_options options = quick_options();
    options.attempts_max = 1;
    options.on_poison = HF_POISON_BLOCK_KEY;
    subscribe(scene->bus, "s", "job", recorder, &options);
    publish(scene->bus, "job", "k", NULL);
    assert_ok(hf_start(scene->bus));
    for (size_t times = 1; times <= 3; times++) {
        assert_true(recorder_wait(recorder, times));
        assert_ok(hf_wait(scene->bus, "s", 1, DEADLINE_MS));
        struct listed *letters = list(scene->bus, NULL);
        assert_int_equal(letters->count, 1);
        assert_ok(hf_dead_retry(scene->bus, letters->ids[0], NULL, 0));
    }
    assert_true(recorder_wait(recorder, 4));
}

static void a_retried_payload_can_be_edited_and_the_log_is_not_changed(void **state)
{
    struct scene *scene = *state;
    hf_batch *batch;
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "x");
    hf_dead_filter filter = any();
    int64_t id = list(scene->bus, &filter)->ids[0];
    assert_status(hf_dead_retry(scene->bus, id, "{", HF_AUTO_LENGTH), HF_INVALID);
    assert_said("payload");
    assert_int_equal(count_of(scene->bus, &filter), 1);
    assert_ok(hf_dead_retry(scene->bus, id, "{\"n\":2}garbage", 7));
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    assert_string_equal(hf_batch_event(batch, 0)->payload, "{\"n\":2}");
    int calls = 0;
    assert_ok(hf_event_get(scene->bus, hf_batch_event(batch, 0)->id, check_unchanged, &calls));
    assert_int_equal(calls, 1);
    assert_ok(hf_bury(scene->bus, "s", hf_batch_lease(batch), NULL, 0, "again"));
    hf_batch_free(batch);
    struct dead dead;
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_string_equal(dead.payload, "{\"n\":2}"); /* what was tried */
    assert_true(dead.dead_id > id);
}

static void a_letter_of_a_removed_subscription_cannot_be_retried(void **state)
{
    struct scene *scene = *state;
    int64_t count = -1;
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "x");
    hf_dead_filter filter = any();
    int64_t id = list(scene->bus, &filter)->ids[0];
    assert_ok(hf_subscription_remove(scene->bus, "s"));
    assert_status(hf_dead_retry(scene->bus, id, NULL, 0), HF_NOTFOUND);
    assert_said("its subscription was removed");
    assert_ok(hf_dead_retry_all(scene->bus, &filter, &count));
    assert_int_equal(count, 0);
    assert_int_equal(count_of(scene->bus, &filter), 1);
}

#define LARGE 1201 /* more than two steps */

static void bury_many(hf_bus *bus)
{
    hf_new_event *events = calloc(LARGE, sizeof *events);
    for (size_t i = 0; i < LARGE; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = i % 2 ? "job.odd" : "job.even";
    }
    assert_ok(hf_publish_many(bus, events, LARGE, NULL));
    free(events);
    assert_int_equal(bury_all(bus, "s", "x"), LARGE);
}

static void all_matching_dead_letters_are_retried_in_steps(void **state)
{
    struct scene *scene = *state;
    int64_t count = -1;
    create(scene->bus, "s", "job.*");
    bury_many(scene->bus);
    hf_dead_filter filter = any();
    filter.type = "job.even";
    assert_ok(hf_dead_retry_all(scene->bus, &filter, &count));
    assert_int_equal(count, 601);
    filter = any();
    filter.limit = 550;
    assert_ok(hf_dead_retry_all(scene->bus, &filter, &count));
    assert_int_equal(count, 550);
    filter.limit = 0;
    assert_ok(hf_dead_retry_all(scene->bus, &filter, &count));
    assert_int_equal(count, 0);
    filter = any();
    struct listed *listed = list(scene->bus, &filter);
    assert_int_equal(listed->count, 50);
    assert_int_equal(info_of(scene->bus, "s").retrying, 1151);
    /* Oldest first: the youngest are left. */
    struct dead dead;
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 50);
    assert_int_equal(dead.position, 1200);
    assert_ok(hf_dead_retry_all(scene->bus, NULL, NULL));
    assert_int_equal(count_of(scene->bus, &filter), 0);
}

static hf_verdict always_dead(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    hf_delivery_error(delivery, "still bad");
    return HF_DEAD;
}

static void dead_letters_that_die_again_during_a_retry_of_all_are_not_retried_again(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    struct recorder *recorder = scene_recorder(scene, always_dead);
    int64_t count = -1;
    subscribe(scene->bus, "s", "job.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 600; i++) {
        publish(scene->bus, "job.one", NULL, NULL);
    }
    settle_all(scene->bus, "s");
    assert_ok(hf_dead_retry_all(scene->bus, NULL, &count));
    assert_int_equal(count, 600);
    settle_all(scene->bus, "s");
    assert_int_equal(recorder_count(recorder), 1200);
    hf_dead_filter filter = any();
    assert_int_equal(count_of(scene->bus, &filter), 600);
}

/* ---- Resolving and purging ------------------------------------------------------------------- */

static int check_resolved(const hf_dead_letter *letter, void *ctx)
{
    (void)ctx;
    assert_true(letter->resolved_at_us >= letter->failed_at_us);
    assert_string_equal(letter->resolved_by, "ann");
    assert_string_equal(letter->resolved_note, "refunded by hand");
    return 0;
}

static void a_resolved_letter_stays_but_is_not_open(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "x");
    publish_and_bury(scene->bus, "job.two", "x");
    hf_dead_filter filter = any();
    int64_t id = list(scene->bus, &filter)->ids[1];
    assert_ok(hf_dead_resolve(scene->bus, id, "ann", "refunded by hand"));
    assert_ok(hf_dead_get(scene->bus, id, check_resolved, NULL));
    assert_status(hf_dead_resolve(scene->bus, id, "bob", NULL), HF_CONFLICT);
    assert_ok(hf_dead_get(scene->bus, id, check_resolved, NULL));
    assert_int_equal(count_of(scene->bus, &filter), 1);
    assert_int_equal(info_of(scene->bus, "s").dead, 1);
    filter.resolved = HF_ON;
    assert_int_equal(count_of(scene->bus, &filter), 2);
    filter.resolved = HF_OFF;
    assert_int_equal(count_of(scene->bus, &filter), 1);
    assert_status(hf_dead_resolve(scene->bus, 999, "ann", NULL), HF_NOTFOUND);
    assert_status(hf_dead_resolve(scene->bus, id, "\xFF", NULL), HF_INVALID);
    assert_status(hf_dead_resolve(NULL, id, "ann", NULL), HF_INVALID);
}

static void a_resolved_letter_and_its_note_stay_when_the_event_dies_again(void **state)
{
    struct scene *scene = *state;
    hf_place start = {HF_PLACE_START, -1};
    hf_dead_filter filter = any();
    struct dead dead;

    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "first");
    int64_t first = list(scene->bus, &filter)->ids[0];
    assert_ok(hf_dead_resolve(scene->bus, first, "ann", "refunded by hand"));
    assert_ok(hf_seek(scene->bus, "s", start, HF_OFF, NULL));
    assert_int_equal(bury_all(scene->bus, "s", "second"), 1);
    assert_ok(hf_dead_get(scene->bus, first, check_resolved, NULL));
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_string_equal(dead.error, "second");
    filter.resolved = HF_ON;
    struct listed *both = list(scene->bus, &filter);
    assert_int_equal(both->count, 2);
    assert_int_equal(both->ids[1], first);
    /* An open one gives way to the next, as there is one open letter for a delivery. */
    assert_ok(hf_seek(scene->bus, "s", start, HF_OFF, NULL));
    assert_int_equal(bury_all(scene->bus, "s", "third"), 1);
    assert_int_equal(list(scene->bus, &filter)->count, 2);
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_string_equal(dead.error, "third");
    assert_int_equal(state_of(scene->bus, "s", dead.event_id, NULL), HF_STATE_DEAD);
    assert_ok(hf_dead_get(scene->bus, first, check_resolved, NULL));
}

static void a_resolved_letter_is_not_retried_and_keeps_its_note(void **state)
{
    struct scene *scene = *state;
    hf_dead_filter filter = any();
    int64_t count = -1;

    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "x");
    publish_and_bury(scene->bus, "job.two", "x");
    int64_t open = list(scene->bus, &filter)->ids[0];
    int64_t resolved = list(scene->bus, &filter)->ids[1];
    assert_ok(hf_dead_resolve(scene->bus, resolved, "ann", "refunded by hand"));
    assert_status(hf_dead_retry(scene->bus, resolved, NULL, 0), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "is resolved"));
    assert_status(hf_dead_retry(scene->bus, resolved, "{}", 2), HF_CONFLICT);
    assert_ok(hf_dead_get(scene->bus, resolved, check_resolved, NULL));
    assert_int_equal(info_of(scene->bus, "s").retrying, 0);
    filter.resolved = HF_ON;
    assert_ok(hf_dead_retry_all(scene->bus, &filter, &count));
    assert_int_equal(count, 1);
    assert_int_equal(info_of(scene->bus, "s").retrying, 1);
    assert_status(hf_dead_retry(scene->bus, open, NULL, 0), HF_NOTFOUND);
    assert_ok(hf_dead_get(scene->bus, resolved, check_resolved, NULL));
}

static void purging_deletes_the_dead_letters_that_match(void **state)
{
    struct scene *scene = *state;
    int64_t count = -1;
    create(scene->bus, "s", "job.*");
    bury_many(scene->bus);
    hf_dead_filter filter = any();
    filter.type = "job.odd";
    assert_ok(hf_dead_purge(scene->bus, &filter, &count));
    assert_int_equal(count, 600);
    filter = any();
    assert_int_equal(count_of(scene->bus, &filter), 601);
    int64_t resolved = list(scene->bus, &filter)->ids[0];
    assert_ok(hf_dead_resolve(scene->bus, resolved, "ann", NULL));
    assert_ok(hf_dead_purge(scene->bus, NULL, &count));
    assert_int_equal(count, 600);
    filter.resolved = HF_ON;
    assert_int_equal(count_of(scene->bus, &filter), 1);
    assert_ok(hf_dead_purge(scene->bus, &filter, &count));
    assert_int_equal(count, 1);
    assert_ok(hf_dead_purge(scene->bus, &filter, &count));
    assert_int_equal(count, 0);
}

static void purging_includes_letters_that_failed_exactly_at_the_given_time(void **state)
{
    struct scene *scene = *state;
    int64_t count = -1;
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", "x");
    usleep(2000); /* two letters must not have died in the same microsecond */
    publish_and_bury(scene->bus, "job.one", "x");
    struct dead dead[2];
    assert_int_equal(dead_of(scene->bus, "s", dead, 2), 2);
    hf_dead_filter filter = any();
    filter.failed_before_us = dead[1].failed_at_us;
    assert_ok(hf_dead_purge(scene->bus, &filter, &count));
    assert_int_equal(count, 1);
    assert_int_equal(dead_of(scene->bus, "s", dead, 2), 1);
    assert_int_equal(dead[0].position, 2);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

struct grouped {
    char words[512];
    size_t count;
};

/* "text count, text count" */
static int keep_group(const hf_dead_group *group, void *ctx)
{
    struct grouped *grouped = ctx;
    size_t used = strlen(grouped->words);
    assert_true(group->newest_dead_id > 0);
    assert_true(group->oldest_us > 0 && group->oldest_us <= group->newest_us);
    snprintf(grouped->words + used, sizeof grouped->words - used, "%s%.20s %" PRId64,
             used ? ", " : "", group->text, group->count);
    grouped->count++;
    return 0;
}

static const char *groups(hf_bus *bus, hf_dead_by by, const hf_dead_filter *filter,
                          hf_dead_totals *totals)
{
    static struct grouped grouped;
    memset(&grouped, 0, sizeof grouped);
    assert_ok(hf_dead_groups(bus, by, filter, keep_group, &grouped, totals));
    return grouped.words;
}

static void dead_letters_are_counted_by_what_they_have_in_common(void **state)
{
    struct scene *scene = *state;
    hf_dead_totals totals = {.size = sizeof totals};
    create(scene->bus, "s", "job.*");
    create(scene->bus, "other", "job.two");
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_ERROR, NULL, &totals), "");
    assert_int_equal(totals.groups, 0);
    publish_and_bury(scene->bus, "job.one", "refused");
    publish_and_bury(scene->bus, "job.two", "refused");
    publish_and_bury(scene->bus, "job.two", NULL);
    assert_int_equal(bury_all(scene->bus, "other", "timed out"), 2);
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_ERROR, NULL, &totals),
                        "timed out 2, refused 2, hf_bury was called w 1");
    assert_int_equal(totals.groups, 3);
    assert_int_equal(totals.letters, 5);
    assert_int_equal(totals.more, 0);
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_TYPE, NULL, NULL), "job.two 4, job.one 1");
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_SUBSCRIPTION, NULL, NULL), "s 3, other 2");
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_REASON, NULL, NULL), "rejected 5");
    hf_dead_filter filter = any();
    filter.type = "*.one";
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_ERROR, &filter, NULL), "refused 1");
    filter = any();
    filter.limit = 1;
    filter.offset = 1;
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_ERROR, &filter, &totals), "refused 2");
    assert_int_equal(totals.groups, 3);
    assert_ok(hf_dead_resolve(scene->bus, list(scene->bus, NULL)->ids[0], NULL, NULL));
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_SUBSCRIPTION, NULL, NULL), "s 3, other 1");
    int64_t count;
    assert_ok(hf_dead_retry_all(scene->bus, NULL, &count));
    assert_int_equal(count, 4);
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_ERROR, NULL, NULL), "");
    filter = any();
    filter.resolved = HF_ON;
    assert_string_equal(groups(scene->bus, HF_DEAD_BY_ERROR, &filter, NULL), "timed out 1");
}

/* What the database would not take as a text has been made one before it is counted. */
static void errors_of_any_bytes_are_grouped(void **state)
{
    struct scene *scene = *state;
    hf_dead_totals totals = {.size = sizeof totals};
    static char huge[65536];
    memset(huge, 'x', sizeof huge - 1);
    create(scene->bus, "s", "job.*");
    publish_and_bury(scene->bus, "job.one", huge);
    publish_and_bury(scene->bus, "job.one", huge);
    publish_and_bury(scene->bus, "job.one", "\xff\xfe broken \xc3");
    publish_and_bury(scene->bus, "job.one", "%s'\";--\n\t\x01");
    groups(scene->bus, HF_DEAD_BY_ERROR, NULL, &totals);
    assert_int_equal(totals.groups, 3);
    assert_int_equal(totals.letters, 4);
}

static void groups_are_refused_with_the_argument_that_is_wrong(void **state)
{
    struct scene *scene = *state;
    struct grouped grouped = {.count = 0};
    hf_dead_totals totals = {.size = 3};
    hf_dead_filter filter = any();
    assert_status(hf_dead_groups(scene->bus, HF_DEAD_BY_ERROR, NULL, NULL, NULL, NULL), HF_INVALID);
    assert_said("found");
    assert_status(hf_dead_groups(scene->bus, (hf_dead_by)4, NULL, keep_group, &grouped, NULL),
                  HF_INVALID);
    assert_said("by is 4");
    assert_status(hf_dead_groups(scene->bus, HF_DEAD_BY_ERROR, NULL, keep_group, &grouped, &totals),
                  HF_INVALID);
    assert_said("hf_dead_totals");
    filter.limit = -2;
    assert_status(hf_dead_groups(scene->bus, HF_DEAD_BY_ERROR, &filter, keep_group, &grouped, NULL),
                  HF_INVALID);
    assert_said("limit");
    assert_int_equal(grouped.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_dead_letter_is_complete),
        scene_test(dead_letters_are_listed_newest_first_a_hundred_a_page),
        scene_test(filters_of_a_list_select_dead_letters),
        scene_test(bad_filters_are_refused_and_nothing_is_called),
        scene_test(a_retried_letter_is_delivered_again_with_a_clean_record),
        scene_test(a_letter_that_blocks_its_key_can_be_retried_each_time_that_it_dies),
        scene_test(a_retried_payload_can_be_edited_and_the_log_is_not_changed),
        scene_test(a_letter_of_a_removed_subscription_cannot_be_retried),
        scene_test(all_matching_dead_letters_are_retried_in_steps),
        scene_test(dead_letters_that_die_again_during_a_retry_of_all_are_not_retried_again),
        scene_test(a_resolved_letter_stays_but_is_not_open),
        scene_test(a_resolved_letter_and_its_note_stay_when_the_event_dies_again),
        scene_test(a_resolved_letter_is_not_retried_and_keeps_its_note),
        scene_test(purging_deletes_the_dead_letters_that_match),
        scene_test(purging_includes_letters_that_failed_exactly_at_the_given_time),
        scene_test(dead_letters_are_counted_by_what_they_have_in_common),
        scene_test(errors_of_any_bytes_are_grouped),
        scene_test(groups_are_refused_with_the_argument_that_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
