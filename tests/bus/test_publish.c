/*
 * test_publish.c - the door for events: limits, receipts, idempotence, versions, many at once, and
 * the application's own transaction.
 */
#include "support_scene.h"

#include "base/uuid.h"
#include "support/sqlite.h"

static hf_new_event event_of(const char *type)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = type;
    return event;
}

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

static int count_event(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int64_t *)ctx;
    return 0;
}

/* How many there are: positions may have gaps. */
static int64_t events_of(hf_bus *bus)
{
    int64_t count = 0;
    int64_t cursor = 0;
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(bus, &stats));
    for (int i = 0; i < 100 && cursor < stats.head; i++) {
        assert_ok(hf_read(bus, NULL, 1000, 100, &cursor, count_event, &count));
    }
    return count;
}

static int64_t head_of(hf_bus *bus)
{
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(bus, &stats));
    return stats.head;
}

/* `count` times a byte, NUL-terminated; the caller frees it. */
static char *repeat(char byte, size_t count)
{
    char *text = malloc(count + 1);
    assert_non_null(text);
    memset(text, byte, count);
    text[count] = '\0';
    return text;
}

/* ---- What comes back ------------------------------------------------------------------------- */

static int check_full(const hf_event *event, void *ctx)
{
    int *calls = ctx;
    ++*calls;
    assert_string_equal(event->id, "018f0000-0000-7000-8000-0123456789ab");
    assert_string_equal(event->type, "user.created");
    assert_int_equal(event->payload_bytes, 13);
    assert_memory_equal(event->payload, " {\"a\" :  1}\n ", 14);
    assert_string_equal(event->key, "");
    assert_string_equal(event->tenant, "t\xC3\xBC\n");
    assert_string_equal(event->metadata, "{ \"x\":null}");
    assert_string_equal(event->producer, "me");
    assert_null(event->schedule_id);
    assert_int_equal(event->position, 1);
    assert_int_equal(event->key_version, 1);
    assert_int_equal(event->emitted_at_us, 5);
    assert_true(event->entered_at_us > INT64_C(1600000000000000));
    return 0;
}

static void an_event_comes_back_as_it_was_published(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("user.created");
    event.payload = " {\"a\" :  1}\n {beyond the length";
    event.payload_bytes = 13;
    event.id = "018F0000-0000-7000-8000-0123456789AB";
    event.key = "";
    event.tenant = "t\xC3\xBC\n";
    event.metadata = "{ \"x\":null}";
    event.producer = "me";
    event.emitted_at_us = 5;
    event.expected_version = 0;
    hf_receipt receipt;
    int calls = 0;
    assert_ok(hf_publish(scene->bus, &event, &receipt));
    assert_string_equal(receipt.id, "018f0000-0000-7000-8000-0123456789ab");
    assert_int_equal(receipt.key_version, 1);
    assert_int_equal(receipt.duplicate, 0);
    assert_ok(hf_event_get(scene->bus, receipt.id, check_full, &calls));
    assert_int_equal(calls, 1);
}

struct plain {
    int64_t before_us;
    int calls;
    char producer[64];
};

static int check_plain(const hf_event *event, void *ctx)
{
    struct plain *plain = ctx;
    plain->calls++;
    snprintf(plain->producer, sizeof plain->producer, "%s", event->producer);
    assert_string_equal(event->payload, "null");
    assert_int_equal(event->payload_bytes, 4);
    assert_null(event->key);
    assert_null(event->tenant);
    assert_null(event->metadata);
    assert_int_equal(event->key_version, -1);
    assert_true(event->emitted_at_us >= plain->before_us);
    uint8_t id[16];
    assert_ok(uuid_parse((struct text){event->id, strlen(event->id)}, id));
    assert_true(uuid_v7_time_us(id) >= plain->before_us - 1000);
    return 0;
}

static void absent_fields_of_an_event_are_filled_in(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    options.node_name = "the-node";
    hf_bus *bus = scene_open(scene, &options);
    struct plain plain = {.before_us = wall_us()};
    hf_new_event event = event_of("a");
    hf_receipt receipt;
    assert_ok(hf_publish(bus, &event, &receipt));
    assert_int_equal(receipt.key_version, -1);
    assert_ok(hf_event_get(bus, receipt.id, check_plain, &plain));
    assert_int_equal(plain.calls, 1);
    assert_string_equal(plain.producer, "the-node");
    assert_ok(hf_publish(bus, &event, NULL));
}

/* ---- Limits ---------------------------------------------------------------------------------- */

struct text_limit {
    const char *field;
    size_t offset;
    size_t max;
};

static void text_limits_are_exact_and_named(void **state)
{
    static const struct text_limit limits[] = {
        {"type", offsetof(hf_new_event, type), HF_TYPE_BYTES_MAX},
        {"key", offsetof(hf_new_event, key), HF_KEY_BYTES_MAX},
        {"tenant", offsetof(hf_new_event, tenant), HF_KEY_BYTES_MAX},
        {"producer", offsetof(hf_new_event, producer), HF_PRODUCER_BYTES_MAX},
    };
    struct scene *scene = *state;
    for (size_t i = 0; i < COUNTED(limits); i++) {
        char *text = repeat('x', limits[i].max + 1);
        const char *given = text;
        hf_new_event event = event_of("a");
        memcpy((char *)&event + limits[i].offset, &given, sizeof given);
        char words[128];
        assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
        snprintf(words, sizeof words, "%s is %zu bytes; the limit is %zu", limits[i].field,
                 limits[i].max + 1, limits[i].max);
        assert_said(words);
        text[limits[i].max] = '\0';
        assert_ok(hf_publish(scene->bus, &event, NULL));
        free(text);
    }
    assert_int_equal(head_of(scene->bus), COUNTED(limits));
}

static void metadata_has_its_limit(void **state)
{
    struct scene *scene = *state;
    char *text = repeat(' ', HF_METADATA_BYTES_MAX + 1);
    text[0] = '{';
    text[HF_METADATA_BYTES_MAX - 1] = '}';
    hf_new_event event = event_of("a");
    event.metadata = text;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    assert_said("metadata is 65537 bytes; the limit is 65536");
    text[HF_METADATA_BYTES_MAX] = '\0';
    assert_ok(hf_publish(scene->bus, &event, NULL));
    free(text);
}

static void the_payload_limit_is_exact_and_can_be_raised(void **state)
{
    struct scene *scene = *state;
    char *text = repeat('1', HF_PAYLOAD_BYTES_MAX_DEFAULT + 1);
    text[0] = '"';
    text[HF_PAYLOAD_BYTES_MAX_DEFAULT - 1] = '"';
    hf_new_event event = event_of("a");
    event.payload = text;
    event.payload_bytes = HF_PAYLOAD_BYTES_MAX_DEFAULT;
    assert_ok(hf_publish(scene->bus, &event, NULL));
    text[HF_PAYLOAD_BYTES_MAX_DEFAULT - 1] = '1';
    text[HF_PAYLOAD_BYTES_MAX_DEFAULT] = '"';
    event.payload_bytes++;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    assert_said("payload is 1048577 bytes; the limit is 1048576");

    hf_options options = scene->options;
    options.payload_bytes_max = HF_PAYLOAD_BYTES_MAX_DEFAULT + 1;
    assert_ok(hf_publish(scene_open(scene, &options), &event, NULL));
    free(text);
}

struct refused {
    const char *why;
    const char *words; /* in the message */
    hf_new_event event;
};

#define GIVEN(...)                                                                                 \
    {                                                                                              \
        .size = sizeof(hf_new_event), .payload_bytes = HF_AUTO_LENGTH, .emitted_at_us = -1,        \
        .expected_version = -1, __VA_ARGS__                                                        \
    }

static const struct refused refusals[] = {
    {"no type", "type", GIVEN(.payload = "1")},
    {"empty type", "type", GIVEN(.type = "")},
    {"empty segment", "type", GIVEN(.type = "a..b")},
    {"a pattern as type", "type", GIVEN(.type = "user.*")},
    {"white space in a type", "type", GIVEN(.type = "a b")},
    {"empty payload", "payload", GIVEN(.type = "a", .payload = "")},
    {"no JSON", "payload is not valid JSON at byte 0", GIVEN(.type = "a", .payload = "hello")},
    {"half JSON", "payload", GIVEN(.type = "a", .payload = "{\"a\":1")},
    {"two values", "payload", GIVEN(.type = "a", .payload = "1 2")},
    {"not UTF-8", "payload", GIVEN(.type = "a", .payload = "\"\xFF\"")},
    {"an escaped NUL", "payload", GIVEN(.type = "a", .payload = "\"\\u0000\"")},
    {"a NUL byte",
     "payload",
     {.size = sizeof(hf_new_event),
      .type = "a",
      .payload = "1\0",
      .payload_bytes = 2,
      .emitted_at_us = -1,
      .expected_version = -1}},
    {"a length without bytes",
     "payload_bytes is 5",
     {.size = sizeof(hf_new_event),
      .type = "a",
      .payload_bytes = 5,
      .emitted_at_us = -1,
      .expected_version = -1}},
    {"key not UTF-8", "key is not valid UTF-8 at byte 2", GIVEN(.type = "a", .key = "ab\xC3")},
    {"tenant not UTF-8", "tenant", GIVEN(.type = "a", .tenant = "\xED\xA0\x80")},
    {"producer not UTF-8", "producer", GIVEN(.type = "a", .producer = "\xC0\x80")},
    {"metadata no object", "metadata", GIVEN(.type = "a", .metadata = "[1]")},
    {"metadata no JSON", "metadata", GIVEN(.type = "a", .metadata = "{")},
    {"empty metadata", "metadata", GIVEN(.type = "a", .metadata = "")},
    {"short id", "id is 3 characters", GIVEN(.type = "a", .id = "abc")},
    {"id with braces", "id", GIVEN(.type = "a", .id = "{18f0000-0000-7000-8000-0123456789ab}")},
    {"id without dashes", "id", GIVEN(.type = "a", .id = "018f0000x0000x7000x8000x0123456789ab")},
};

static void texts_outside_the_rules_are_refused_and_named(void **state)
{
    struct scene *scene = *state;
    for (size_t i = 0; i < COUNTED(refusals); i++) {
        hf_receipt receipt;
        memset(&receipt, 0x5A, sizeof receipt);
        hf_receipt before = receipt;
        hf_status status = hf_publish(scene->bus, &refusals[i].event, &receipt);
        if (status != HF_INVALID) {
            fail_msg("%s: %s", refusals[i].why, hf_status_name(status));
        }
        assert_said(refusals[i].words);
        assert_memory_equal(&before, &receipt, sizeof receipt);
    }
    assert_int_equal(head_of(scene->bus), 0);
}

static void numbers_outside_the_rules_are_refused(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    event.expected_version = 3;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    assert_said("expected_version is 3 but key is NULL");
    event.key = "k";
    event.expected_version = -2;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    event.expected_version = INT64_MAX;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    event = event_of("a");
    event.emitted_at_us = INT64_MAX;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    assert_said("emitted_at_us");
    event.emitted_at_us = INT64_C(-62135596800000000); /* year 1 */
    assert_ok(hf_publish(scene->bus, &event, NULL));
}

static void json_nesting_has_its_limit(void **state)
{
    struct scene *scene = *state;
    char deep[2 * (HF_JSON_DEPTH_MAX + 1) + 1] = "";
    memset(deep, '[', HF_JSON_DEPTH_MAX);
    memset(deep + HF_JSON_DEPTH_MAX, ']', HF_JSON_DEPTH_MAX);
    hf_new_event event = event_of("a");
    event.payload = deep;
    assert_ok(hf_publish(scene->bus, &event, NULL));
    memset(deep, '[', HF_JSON_DEPTH_MAX + 1);
    memset(deep + HF_JSON_DEPTH_MAX + 1, ']', HF_JSON_DEPTH_MAX + 1);
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
}

static void null_arguments_are_named(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    assert_status(hf_publish(NULL, &event, NULL), HF_INVALID);
    assert_said("bus");
    assert_status(hf_publish(scene->bus, NULL, NULL), HF_INVALID);
    assert_said("event is NULL");
    assert_status(hf_publish_many(scene->bus, NULL, 3, NULL), HF_INVALID);
    assert_said("events is NULL");
    assert_status(hf_sqlite_begin(scene->bus, NULL), HF_INVALID);
    assert_said("db is NULL");
}

/* ---- Structs of another size ----------------------------------------------------------------- */

static void a_program_compiled_against_a_smaller_struct_is_served(void **state)
{
    struct scene *scene = *state;
    struct {
        char bytes[offsetof(hf_new_event, expected_version)];
    } old[3];
    for (size_t i = 0; i < COUNTED(old); i++) {
        hf_new_event event = event_of("a");
        event.size = sizeof old[0];
        event.key = i == 2 ? "third" : "k";
        memcpy(&old[i], &event, sizeof old[i]);
    }
    hf_receipt receipts[3];
    const hf_new_event *given = (const hf_new_event *)(const void *)old;
    assert_ok(hf_publish(scene->bus, given, NULL));
    assert_ok(hf_publish_many(scene->bus, given, 3, receipts));
    assert_int_equal(receipts[2].position, 4);
    assert_int_equal(receipts[2].key_version, -1);
}

static void an_impossible_size_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    event.size = 0;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    event.size = sizeof event + 8;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    hf_new_event mixed[2] = {event_of("a"), event_of("b")};
    mixed[1].size -= 8;
    assert_status(hf_publish_many(scene->bus, mixed, 2, NULL), HF_INVALID);
    assert_said("event 1: ");
}

/* ---- Idempotence and versions ---------------------------------------------------------------- */

static void an_id_is_stored_once(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    hf_receipt first;
    hf_receipt second;
    event.id = "018f0000-0000-7000-8000-000000000001";
    assert_ok(hf_publish(scene->bus, &event, &first));
    publish(scene->bus, "b", NULL, NULL);
    event.type = "other";
    event.payload = "{}";
    assert_ok(hf_publish(scene->bus, &event, &second));
    assert_int_equal(first.duplicate, 0);
    assert_int_equal(second.duplicate, 1);
    assert_int_equal(second.position, first.position);
    assert_int_equal(head_of(scene->bus), 2);
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.published, 2);
}

static void a_key_has_versions(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    hf_receipt receipt;
    event.key = "account-1";
    event.expected_version = 0;
    assert_ok(hf_publish(scene->bus, &event, &receipt));
    assert_int_equal(receipt.key_version, 1);
    assert_status(hf_publish(scene->bus, &event, &receipt), HF_CONFLICT);
    assert_said("1");
    event.expected_version = 1;
    assert_ok(hf_publish(scene->bus, &event, &receipt));
    assert_int_equal(receipt.key_version, 2);
    event.id = receipt.id;
    char id[HF_ID_BYTES];
    memcpy(id, receipt.id, sizeof id);
    event.id = id;
    assert_ok(hf_publish(scene->bus, &event, &receipt)); /* a repeat is no conflict */
    assert_int_equal(receipt.duplicate, 1);
    assert_int_equal(receipt.key_version, 2);
    assert_int_equal(head_of(scene->bus), 2);
}

/* ---- Many ------------------------------------------------------------------------------------ */

#define MANY 2500

static void publish_many_gets_neighbouring_positions_in_order(void **state)
{
    struct scene *scene = *state;
    hf_new_event *events = calloc(MANY, sizeof *events);
    hf_receipt *receipts = calloc(MANY, sizeof *receipts);
    for (size_t i = 0; i < MANY; i++) {
        events[i] = event_of("a");
    }
    assert_ok(hf_publish_many(scene->bus, events, MANY, receipts));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(receipts[i].position, i + 1);
        assert_true(i == 0 || strcmp(receipts[i - 1].id, receipts[i].id) < 0);
    }
    assert_ok(hf_publish_many(scene->bus, events, MANY, NULL));
    assert_int_equal(head_of(scene->bus), 2 * MANY);
    free(receipts);
    free(events);
}

static void publish_many_stores_all_or_none(void **state)
{
    struct scene *scene = *state;
    hf_new_event events[20];
    hf_receipt receipts[20];
    memset(receipts, 0x5A, sizeof receipts);
    for (size_t i = 0; i < COUNTED(events); i++) {
        events[i] = event_of("a");
    }
    events[17].payload = "nonsense";
    assert_status(hf_publish_many(scene->bus, events, 20, receipts), HF_INVALID);
    assert_said("event 17: payload");
    events[17].payload = NULL;
    events[17].key = "k";
    events[17].expected_version = 5;
    assert_status(hf_publish_many(scene->bus, events, 20, receipts), HF_CONFLICT);
    assert_said("event 17: expected version 5 of key k");
    assert_int_equal(receipts[0].position, INT64_C(0x5A5A5A5A5A5A5A5A));
    assert_int_equal(events_of(scene->bus), 0);
    assert_ok(hf_publish_many(scene->bus, events, 17, receipts));
    assert_int_equal(events_of(scene->bus), 17);
}

static void a_second_equal_id_in_one_call_is_a_duplicate(void **state)
{
    struct scene *scene = *state;
    hf_new_event events[3] = {event_of("a"), event_of("b"), event_of("c")};
    hf_receipt receipts[3];
    events[0].id = events[2].id = "018f0000-0000-7000-8000-000000000002";
    assert_ok(hf_publish_many(scene->bus, events, 3, receipts));
    assert_int_equal(receipts[2].duplicate, 1);
    assert_int_equal(receipts[2].position, receipts[0].position);
    assert_int_equal(head_of(scene->bus), 2);
}

static void publishing_no_events_is_fine_and_too_many_are_not(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    assert_ok(hf_publish_many(scene->bus, NULL, 0, NULL));
    assert_status(hf_publish_many(scene->bus, &event, HF_PUBLISH_MANY_MAX + 1, NULL), HF_INVALID);
    assert_said("count is 100001; the limit is 100000");
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define THREADS 8
#define EACH 100

struct publisher {
    hf_bus *bus;
    pthread_t thread;
    int64_t positions[EACH];
    hf_status status;
};

static void *publish_each(void *ctx)
{
    struct publisher *publisher = ctx;
    hf_new_event event = event_of("a");
    for (size_t i = 0; i < EACH && publisher->status == HF_OK; i++) {
        hf_receipt receipt;
        publisher->status = hf_publish(publisher->bus, &event, &receipt);
        publisher->positions[i] = receipt.position;
    }
    return NULL;
}

static void threads_share_the_positions_without_gaps(void **state)
{
    struct scene *scene = *state;
    struct publisher publishers[THREADS];
    bool seen[THREADS * EACH + 1] = {false};
    memset(publishers, 0, sizeof publishers);
    for (size_t i = 0; i < THREADS; i++) {
        publishers[i].bus = scene->bus;
        assert_int_equal(pthread_create(&publishers[i].thread, NULL, publish_each, &publishers[i]),
                         0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(publishers[i].thread, NULL);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(publishers[i].status, HF_OK);
        for (size_t j = 0; j < EACH; j++) {
            int64_t position = publishers[i].positions[j];
            assert_in_range(position, 1, THREADS * EACH);
            assert_false(seen[position]);
            assert_true(j == 0 || publishers[i].positions[j - 1] < position);
            seen[position] = true;
        }
    }
}

static void after_shutdown_publishing_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_status(hf_publish(scene->bus, &event, NULL), HF_CLOSED);
    assert_status(hf_publish_many(scene->bus, &event, 1, NULL), HF_CLOSED);
    assert_status(hf_publish_async(scene->bus, &event, NULL, NULL), HF_CLOSED);
}

/* ---- The application's own transaction ------------------------------------------------------- */

static sqlite3 *open_app(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS app (x)", NULL, NULL, NULL),
                     SQLITE_OK);
    return db;
}

static int64_t app_rows(sqlite3 *db)
{
    return sqlite_number(db, "SELECT count(*) FROM app");
}

static void app_insert(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "INSERT INTO app VALUES (1)", NULL, NULL, NULL), SQLITE_OK);
}

static void the_event_exists_if_the_applications_transaction_commits(void **state)
{
    struct scene *scene = *state;
    sqlite3 *db = open_app(scene_sqlite(scene));
    hf_new_event event = event_of("a");
    hf_receipt receipt = {0};
    assert_ok(hf_sqlite_begin(scene->bus, db));
    app_insert(db);
    assert_ok(hf_sqlite_publish(scene->bus, db, &event, &receipt));
    assert_int_equal(receipt.position, 1);
    assert_ok(hf_sqlite_commit(scene->bus, db));
    assert_int_equal(app_rows(db), 1);
    assert_int_equal(head_of(scene->bus), 1);

    assert_ok(hf_sqlite_begin(scene->bus, db));
    app_insert(db);
    assert_ok(hf_sqlite_publish(scene->bus, db, &event, &receipt));
    assert_ok(hf_sqlite_rollback(scene->bus, db));
    assert_int_equal(app_rows(db), 1);
    assert_int_equal(head_of(scene->bus), 1);
    assert_int_equal(publish(scene->bus, "b", NULL, NULL)->position, 2);
    sqlite3_close(db);
}

static void a_transaction_that_was_not_begun_here_is_refused(void **state)
{
    struct scene *scene = *state;
    sqlite3 *db = open_app(scene_sqlite(scene));
    hf_new_event event = event_of("a");
    assert_status(hf_sqlite_publish(scene->bus, db, &event, NULL), HF_MISUSE);
    assert_status(hf_sqlite_commit(scene->bus, db), HF_MISUSE);
    sqlite3 *other = open_app(scene_file(scene, "other.db"));
    assert_status(hf_sqlite_begin(scene->bus, other), HF_MISUSE);
    assert_ok(hf_sqlite_begin(scene->bus, db));
    assert_status(hf_publish(scene->bus, &event, NULL), HF_MISUSE);
    event.payload = "{";
    assert_status(hf_sqlite_publish(scene->bus, db, &event, NULL), HF_INVALID);
    assert_ok(hf_sqlite_rollback(scene->bus, db));
    publish(scene->bus, "b", NULL, NULL);
    sqlite3_close(other);
    sqlite3_close(db);
}

/* ---- Inside a transactional handler ---------------------------------------------------------- */

static hf_verdict publish_then_fail_once(const hf_event *event, hf_delivery *delivery,
                                         struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    hf_new_event next = event_of("out.made");
    if (hf_publish(hf_delivery_bus(delivery), &next, NULL) != HF_OK) {
        return HF_DEAD;
    }
    return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void a_transactional_handler_publishes_if_and_only_if_it_succeeds(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.transactional = HF_ON;
    struct recorder *recorder = scene_recorder(scene, publish_then_fail_once);
    subscribe(scene->bus, "s", "in.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "in.came", NULL, NULL);
    settle_all(scene->bus, "s");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(events_of(scene->bus), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_event_comes_back_as_it_was_published),
        scene_test(absent_fields_of_an_event_are_filled_in),
        scene_test(text_limits_are_exact_and_named),
        scene_test(metadata_has_its_limit),
        scene_test(the_payload_limit_is_exact_and_can_be_raised),
        scene_test(texts_outside_the_rules_are_refused_and_named),
        scene_test(numbers_outside_the_rules_are_refused),
        scene_test(json_nesting_has_its_limit),
        scene_test(null_arguments_are_named),
        scene_test(a_program_compiled_against_a_smaller_struct_is_served),
        scene_test(an_impossible_size_is_refused),
        scene_test(an_id_is_stored_once),
        scene_test(a_key_has_versions),
        scene_test(publish_many_gets_neighbouring_positions_in_order),
        scene_test(publish_many_stores_all_or_none),
        scene_test(a_second_equal_id_in_one_call_is_a_duplicate),
        scene_test(publishing_no_events_is_fine_and_too_many_are_not),
        scene_test(threads_share_the_positions_without_gaps),
        scene_test(after_shutdown_publishing_is_refused),
        scene_test(the_event_exists_if_the_applications_transaction_commits),
        scene_test(a_transaction_that_was_not_begun_here_is_refused),
        scene_test(a_transactional_handler_publishes_if_and_only_if_it_succeeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
