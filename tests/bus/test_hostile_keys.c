/*
 * Tests of keys and tenants that are not what one expects: empty, absent, of 64 KiB, of other
 * scripts, equal but for where the tenant ends, and such whose hash is next to the limits of a
 * number. Every one of them has a partition, is delivered, and keeps its own order.
 */
#include "support_tables.h"

#define EACH 3
#define LONG_BYTES 65536

struct pair {
    const char *tenant;
    const char *key;
};

static char longest[LONG_BYTES + 2]; /* one too many */

/* No two of them are one lane. */
static const struct pair pairs[] = {
    {NULL, ""},
    {"", NULL},
    {"", ""},
    {"a", "bc"},
    {"ab", "c"},
    {"abc", NULL},
    {NULL, "abc"},
    {"abc", ""},
    {"", "abc"},
    {NULL, " "},
    {NULL, "a\nb"},
    {NULL, "\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87"},
    {NULL, "\xf0\x9f\x98\x80"},
    {NULL, "e\xcc\x81"}, /* an e and a combining accent */
    {NULL, "\xc3\xa9"},  /* the same letter as one character: other bytes */
    {NULL, "'; DROP TABLE holdfast_events; --"},
    {NULL, "%s%n"},
    {NULL, "user-252235"},  /* the digest is next to INT64_MIN */
    {NULL, "user-2373272"}, /* the digest is next to UINT64_MAX */
    {NULL, longest},
    {longest, longest},
    {NULL, NULL}, /* each is a lane of its own */
};

static int keys_setup(void **state)
{
    for (size_t i = 0; i < LONG_BYTES; i++) { /* no compression makes it short */
        longest[i] = (char)('!' + (i * 7919 + i / 91 * 31 + i / 8281) % 90);
    }
    longest[LONG_BYTES] = '\0';
    return scene_setup(state);
}

#define key_test(test) cmocka_unit_test_setup_teardown(test, keys_setup, scene_teardown)

static hf_status publish_pair(hf_bus *bus, const struct pair *pair, size_t number)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    char payload[32];

    snprintf(payload, sizeof payload, "%zu", number);
    event.type = "t";
    event.tenant = pair->tenant;
    event.key = pair->key;
    event.payload = payload;
    return hf_publish(bus, &event, NULL);
}

static void publish_pairs(hf_bus *bus)
{
    for (int i = 0; i < EACH; i++) {
        for (size_t p = 0; p < COUNTED(pairs); p++) {
            assert_ok(publish_pair(bus, &pairs[p], p));
        }
    }
}

/* Each pair came so often, in the order of the log. */
static void assert_delivered(struct recorder *recorder)
{
    int64_t last[COUNTED(pairs)] = {0};
    int times[COUNTED(pairs)] = {0};

    assert_int_equal(recorder_count(recorder), EACH * COUNTED(pairs));
    for (size_t i = 0; i < recorder_count(recorder); i++) {
        struct seen seen = recorder_get(recorder, i);
        size_t number = strtoul(seen.payload, NULL, 10);

        assert_true(number < COUNTED(pairs));
        if (pairs[number].tenant || pairs[number].key) {
            assert_true(seen.position > last[number]);
        }
        last[number] = seen.position;
        times[number]++;
    }
    for (size_t p = 0; p < COUNTED(pairs); p++) {
        assert_int_equal(times[p], EACH);
    }
}

static void deliver_over(struct scene *scene, int32_t partitions)
{
    hf_subscription_options options = quick_options();
    struct recorder *recorder = scene_recorder(scene, NULL);

    options.partitions = partitions;
    options.concurrency = 3;
    publish_pairs(scene->bus);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_delivered(recorder);
}

static void hostile_keys_are_delivered_in_order_from_one_partition(void **state)
{
    deliver_over(*state, 1);
}

static void hostile_keys_are_delivered_in_order_from_seven_partitions(void **state)
{
    deliver_over(*state, 7);
}

static void hostile_keys_are_delivered_in_order_from_1024_partitions(void **state)
{
    deliver_over(*state, 1024);
}

static void one_byte_more_than_64_kib_is_refused(void **state)
{
    struct scene *scene = *state;
    struct pair pair = {NULL, longest};

    assert_ok(publish_pair(scene->bus, &pair, 0));
    longest[LONG_BYTES] = '!';
    assert_status(publish_pair(scene->bus, &pair, 0), HF_INVALID);
    assert_non_null(strstr(hf_errmsg(), "key is 65537 bytes; the limit is 65536"));
    pair = (struct pair){longest, "k"};
    assert_status(publish_pair(scene->bus, &pair, 0), HF_INVALID);
    assert_non_null(strstr(hf_errmsg(), "tenant"));
}

static void hostile_keys_have_versions_of_their_own(void **state)
{
    struct scene *scene = *state;

    for (size_t p = 0; p < COUNTED(pairs); p++) {
        for (int64_t version = 0; version < 2; version++) {
            hf_new_event event = HF_NEW_EVENT_INIT;
            hf_receipt receipt;

            if (!pairs[p].key || pairs[p].tenant) {
                continue;
            } /* versions belong to keys, whatever the tenant */
            event.type = "t";
            event.key = pairs[p].key;
            event.expected_version = version;
            assert_ok(hf_publish(scene->bus, &event, &receipt));
            assert_int_equal(receipt.key_version, version + 1);
            assert_status(hf_publish(scene->bus, &event, NULL), HF_CONFLICT);
        }
    }
}

static hf_verdict fail_first(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    const size_t *bad = recorder->extra;

    (void)delivery;
    return strtoul(event->payload, NULL, 10) == *bad ? HF_RETRY : HF_ACK;
}

struct wait {
    struct recorder *recorder;
    size_t others;
};

static bool others_are_done(void *ctx)
{
    const struct wait *wait = ctx;

    return recorder_count(wait->recorder) >= wait->others + 1;
}

/* While one of them fails all the others go on, those that look alike, too. */
static void no_hostile_key_waits_for_another(void **state)
{
    struct scene *scene = *state;
    static size_t bad;
    struct recorder *recorder = scene_recorder(scene, fail_first);
    hf_subscription_options options = quick_options();
    struct wait wait = {recorder, EACH * (COUNTED(pairs) - 1)};

    bad = 3; /* "a", "bc" */
    recorder->extra = &bad;
    options.partitions = 3;
    options.retry_base_ms = 3600000;
    options.retry_max_ms = 3600000;
    publish_pairs(scene->bus);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(others_are_done, &wait));
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), wait.others + 1);
    assert_int_equal(info_of(scene->bus, "a").retrying, 1);
    assert_int_equal(info_of(scene->bus, "a").held, EACH - 1);
}

/* What SQL computes is what C has stored, for whatever is published by either. */
static void sql_and_c_hash_hostile_keys_alike(void **state)
{
    struct scene *scene = *state;

    if (scene->path) {
        skip();
    } /* there SQL computes nothing */
    publish_pairs(scene->bus);
    tables_run(scene, "SELECT holdfast.publish('default', 't', key => e.key, tenant => e.tenant) "
                      "FROM (SELECT DISTINCT tenant, key FROM holdfast_private.events) e");
    assert_int_equal(tables_number(scene,
                                   "SELECT count(*) FROM holdfast_private.events WHERE hash <> "
                                   "holdfast_private.hash_of(coalesce(tenant, key, id::text)) "
                                   "OR hash < 0"),
                     0);
    assert_int_equal(
        tables_number(scene, "SELECT max(n) FROM (SELECT count(DISTINCT hash) AS n "
                             "FROM holdfast_private.events WHERE coalesce(tenant, key) IS NOT "
                             "NULL GROUP BY coalesce(tenant, key)) x"),
        1);
    assert_int_equal(tables_events(scene), (EACH + 1) * COUNTED(pairs));
}

static const struct CMUnitTest tests[] = {
    key_test(hostile_keys_are_delivered_in_order_from_one_partition),
    key_test(hostile_keys_are_delivered_in_order_from_seven_partitions),
    key_test(hostile_keys_are_delivered_in_order_from_1024_partitions),
    key_test(one_byte_more_than_64_kib_is_refused),
    key_test(hostile_keys_have_versions_of_their_own),
    key_test(no_hostile_key_waits_for_another),
    key_test(sql_and_c_hash_hostile_keys_alike),
};

SCENE_MAIN(tests)
