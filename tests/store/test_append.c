/*
 * test_append.c - the contract of struct append: positions, duplicates, versions, bytes.
 */
#include "base/hash.h"
#include "base/uuid.h"
#include "store/common/batch.h"
#include "support/crowd.h"
#include "support/make.h"
#include "support/puppet.h"

/* The event with this id, in a batch of the fixture. */
static const struct entry *found(struct fixture *f, struct store *store, const uint8_t id[16])
{
    struct batch *batch = fixture_batch(f);
    must_answer(HF_OK, store_event_find(store, id, batch));
    must_equal(1, batch->count);
    return &batch->entries[0];
}

/* ---- Positions ------------------------------------------------------------------------------- */

static void a_fresh_log_has_no_head_and_begins_at_one(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t head = -7;
    int64_t first = -7;
    must_answer(HF_OK, store_head(store, &head, &first));
    must_equal(0, head);
    must_equal(1, first);
}

static void positions_begin_at_one_and_have_no_gaps(void **state)
{
    struct store *store = fixture_open(*state, "a");
    must_equal(1, append_one(store, "t", NULL));
    must_equal(2, append_one(store, "t", NULL));
    must_equal(3, append_count(store, "t", 700));
    must_equal(703, append_one(store, "t", NULL));
    int64_t head = -7;
    int64_t first = -7;
    must_answer(HF_OK, store_head(store, &head, &first));
    must_equal(703, head);
    must_equal(1, first);
}

static void events_of_one_append_keep_their_order(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[50];
    for (int i = 0; i < 50; i++) {
        events[i] = event_of("t", NULL);
    }
    struct append append = append_of(events, 50);
    must_answer(HF_OK, RUN(store, &append));
    must_equal(HF_OK, append.change.status);
    for (int i = 0; i < 50; i++) {
        must_equal(i + 1, events[i].position);
        must_equal(false, events[i].duplicate);
        must_equal(-1, events[i].key_version);
        const struct entry *entry = entry_at(*state, store, i + 1);
        must_hold(memcmp(entry->id, events[i].id, 16) == 0);
    }
}

static void two_stores_share_one_sequence_of_positions(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    must_equal(1, append_one(a, "t", NULL));
    must_equal(2, append_one(b, "t", NULL));
    must_equal(3, append_one(a, "t", NULL));
    must_equal(3, head_of(b));
}

static void positions_go_on_after_reopening(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    fixture_close(*state, store);
    store = fixture_open(*state, "a");
    must_equal(5, head_of(store));
    must_equal(6, append_one(store, "t", NULL));
}

/* ---- Duplicates ------------------------------------------------------------------------------ */

static void an_id_in_the_log_answers_the_first_position_as_duplicate(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    struct new_event first = event_of("t", "k");
    must_answer(HF_OK, append_event(store, &first));
    append_count(store, "t", 3);

    struct new_event again = event_of("other", NULL);
    memcpy(again.id, first.id, 16);
    again.payload = text_of("[1]");
    must_answer(HF_OK, append_event(store, &again));
    must_equal(first.position, again.position);
    must_equal(true, again.duplicate);
    must_equal(-1, again.key_version);
    must_equal(7, last_of(store));
    must_follow(store, 7, append_one(store, "t", NULL));

    const struct entry *entry = found(*state, store, first.id);
    must_read("t", entry->event.type);
    must_read("{}", entry->event.payload);
}

static void a_duplicate_answers_the_firsts_version_and_its_own_is_not_looked_at(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct append append;
    struct new_event first;
    must_answer(HF_OK, append_version(store, "k", 0, &append, &first));
    struct new_event second;
    must_answer(HF_OK, append_version(store, "k", 1, &append, &second));

    struct new_event again = event_of("t", "k");
    memcpy(again.id, first.id, 16);
    again.expected_version = 55;
    must_answer(HF_OK, append_event(store, &again));
    must_equal(true, again.duplicate);
    must_equal(first.position, again.position);
    must_equal(1, again.key_version);
    /* and the key's version has not moved */
    must_answer(HF_OK, append_version(store, "k", 2, &append, &second));
    must_equal(3, second.key_version);
}

static void two_equal_ids_in_one_append_are_one_event(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[4] = {event_of("t", NULL), event_of("t", NULL), event_of("t", NULL),
                                  event_of("t", NULL)};
    memcpy(events[2].id, events[0].id, 16);
    struct append append = append_of(events, 4);
    must_answer(HF_OK, RUN(store, &append));
    must_follow(store, 0, events[0].position);
    must_equal(false, events[0].duplicate);
    must_follow(store, events[0].position, events[1].position);
    must_equal(events[0].position, events[2].position);
    must_equal(true, events[2].duplicate);
    must_follow(store, events[1].position, events[3].position);
    must_equal(events[3].position, last_of(store));
}

static int64_t position_with(struct store *store, const uint8_t id[16])
{
    struct batch batch;
    batch_init(&batch);
    must_answer(HF_OK, store_event_find(store, id, &batch));
    int64_t position = batch.entries[0].event.position;
    batch_release(&batch);
    return position;
}

/* Ids of version 4 have no time inside; every `nth` event has one (0: none has). */
static struct new_event event_at(int i, int nth)
{
    struct new_event event = event_of("t", NULL);
    if (nth > 0 && i % nth == 0) {
        random_bytes(event.id, sizeof event.id);
        event.id[6] = (uint8_t)(0x40 | (event.id[6] & 0x0f));
        event.id[8] = (uint8_t)(0x80 | (event.id[8] & 0x3f));
    }
    return event;
}

/* What a repeat is, by the bits of a number: of an event of an earlier append, or of this one. */
static struct new_event new_or_repeated(const struct new_event *old, struct new_event *events,
                                        int i, int nth, uint32_t bits)
{
    bool of_old = bits >> i % 32 & 1;
    bool of_own = i > 0 && bits >> (i + 7) % 32 & bits >> (i + 13) % 32 & 1;
    struct new_event event = event_at(i, nth);
    if (of_old || of_own) {
        memcpy(event.id, of_old ? old[i].id : events[i / 2].id, sizeof event.id);
    }
    return event;
}

/* Each event has the position of the one that has its id, and new ones have the next. */
static void check_repeats(struct store *store, struct new_event *events, int count, int64_t head)
{
    for (int i = 0; i < count; i++) {
        must_hold(events[i].duplicate == (events[i].position <= head));
        if (!events[i].duplicate) {
            must_follow(store, head, events[i].position);
            head = events[i].position;
        }
    }
}

/* In the first 32 of 60 rounds there is one repeat of an earlier append, in the others many. */
static void repeat_at_any_place(struct store *store, int nth, uint32_t round)
{
    struct new_event old[40];
    struct new_event events[40];
    int64_t begin = last_of(store);
    for (int i = 0; i < 40; i++) {
        old[i] = event_at(i, nth);
    }
    struct append append = append_of(old, 40);
    must_answer(HF_OK, RUN(store, &append));
    check_repeats(store, old, 40, begin);
    for (; round < 60; round++) {
        uint32_t bits = round < 32 ? UINT32_C(1) << round : (uint32_t)hash_mix(round);
        for (int i = 0; i < 40; i++) {
            events[i] = new_or_repeated(old, events, i, nth, bits);
        }
        int64_t head = last_of(store);
        append = append_of(events, 40);
        must_answer(HF_OK, RUN(store, &append));
        check_repeats(store, events, 40, head);
        for (int i = 0; i < 40; i++) {
            must_equal(events[i].position, position_with(store, events[i].id));
        }
    }
}

static void repeats_at_any_place_of_a_long_append_are_found(void **state)
{
    repeat_at_any_place(fixture_open(*state, "a"), 0, 0);
}

static void repeats_of_ids_without_a_time_are_found_at_any_place(void **state)
{
    struct store *store = fixture_open(*state, "a");
    repeat_at_any_place(store, 1, 48);
    repeat_at_any_place(store, 3, 48); /* of an append that has others, too */
}

static void an_append_of_duplicates_alone_moves_nothing(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[2] = {event_of("t", NULL), event_of("t", NULL)};
    struct append append = append_of(events, 2);
    must_answer(HF_OK, RUN(store, &append));
    append = append_of(events, 2);
    must_answer(HF_OK, RUN(store, &append));
    must_equal(1, events[0].position);
    must_equal(2, events[1].position);
    must_hold(events[0].duplicate && events[1].duplicate);
    must_equal(2, last_of(store));
}

static void a_fresh_event_clears_the_duplicate_mark(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event event = event_of("t", NULL);
    event.duplicate = true; /* left over from an earlier use of the memory */
    must_answer(HF_OK, append_event(store, &event));
    must_equal(false, event.duplicate);
}

static void an_id_of_another_process_is_a_duplicate(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct child *puppet = puppet_start(*state, "b");
    struct new_event event = event_of("t", NULL);
    char id[UUID_TEXT_BYTES];
    uuid_format(event.id, id);
    must_equal(1, puppet_do(puppet, "publish %s", id));
    must_answer(HF_OK, append_event(store, &event));
    must_equal(1, event.position);
    must_equal(true, event.duplicate);

    struct new_event other = event_of("t", NULL);
    must_answer(HF_OK, append_event(store, &other));
    must_follow(store, 1, other.position);
    uuid_format(other.id, id);
    must_equal(-other.position, puppet_do(puppet, "publish %s", id));
    child_finish(puppet);
}

struct same_id {
    struct store *stores[2];
    struct new_event events[16];
};

static void append_the_same_id(int index, void *ctx)
{
    struct same_id *race = ctx;
    must_answer(HF_OK, append_event(race->stores[index % 2], &race->events[index]));
}

static void race_with_one_id(struct same_id race, int nth)
{
    int64_t last = 0;
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < 16; i++) {
            race.events[i] = event_at(0, nth);
            memcpy(race.events[i].id, race.events[0].id, 16);
        }
        crowd_run(16, append_the_same_id, &race);
        int originals = 0;
        for (int i = 0; i < 16; i++) {
            originals += !race.events[i].duplicate;
            must_equal(race.events[0].position, race.events[i].position);
        }
        must_equal(1, originals);
        must_follow(race.stores[0], last, race.events[0].position);
        last = race.events[0].position;
    }
    must_equal(last, last_of(race.stores[0]));
}

static void one_id_published_by_many_at_once_is_stored_once(void **state)
{
    race_with_one_id(
        (struct same_id){.stores = {fixture_open(*state, "a"), fixture_open(*state, "b")}}, 0);
}

static void one_id_without_a_time_published_by_many_at_once_is_stored_once(void **state)
{
    race_with_one_id(
        (struct same_id){.stores = {fixture_open(*state, "a"), fixture_open(*state, "b")}}, 1);
}

/* ---- Versions -------------------------------------------------------------------------------- */

static void a_keys_version_becomes_expected_plus_one(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct append append;
    struct new_event event;
    for (int64_t version = 0; version < 5; version++) {
        must_answer(HF_OK, append_version(store, "k", version, &append, &event));
        must_equal(version + 1, event.key_version);
        must_equal(version + 1, found(*state, store, event.id)->event.key_version);
    }
    must_answer(HF_OK, append_version(store, "other", 0, &append, &event));
    must_equal(1, event.key_version);
}

static void a_wrong_version_conflicts_and_the_message_tells_event_and_version(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[41];
    for (int i = 0; i < 41; i++) {
        events[i] = event_of("t", "key-under-test");
        events[i].expected_version = i;
    }
    struct append append = append_of(events, 41);
    must_answer(HF_OK, RUN(store, &append));

    struct new_event more[3] = {event_of("t", NULL), event_of("t", NULL),
                                event_of("t", "key-under-test")};
    memset(more[2].id, 0xaa, 16);
    more[2].expected_version = 7;
    append = append_of(more, 3);
    must_answer(HF_CONFLICT, RUN(store, &append));
    must_equal(HF_CONFLICT, append.change.status);
    must_equal(2, append.failed_index);
    must_say("41");
    must_read(err_message(), append.change.message);
    const char *message = err_message();
    must_hold(strstr(message, "event 2") || strstr(message, "[2]") || strstr(message, "#2") ||
              strstr(message, "index 2") || strstr(message, "key-under-test") ||
              strstr(message, "aaaaaaaa-aaaa"));
}

static void a_key_without_versions_is_at_version_zero(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "t", "k");
    append_one(store, "t", "k");
    struct append append;
    struct new_event event;
    must_answer(HF_CONFLICT, append_version(store, "k", 1, &append, &event));
    must_answer(HF_OK, append_version(store, "k", 0, &append, &event));
    append_one(store, "t", "k");
    must_answer(HF_CONFLICT, append_version(store, "k", 2, &append, &event));
    must_answer(HF_OK, append_version(store, "k", 1, &append, &event));
}

static void versions_chain_within_one_append(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[3] = {event_of("t", "k"), event_of("t", "k"), event_of("t", "k")};
    for (int i = 0; i < 3; i++) {
        events[i].expected_version = i;
    }
    struct append append = append_of(events, 3);
    must_answer(HF_OK, RUN(store, &append));
    must_equal(1, events[0].key_version);
    must_equal(3, events[2].key_version);
}

static void a_failed_append_leaves_nothing(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    struct new_event events[4] = {event_of("t", NULL), event_of("t", "new"), event_of("t", "k"),
                                  event_of("t", NULL)};
    events[1].expected_version = 0;
    events[2].expected_version = 9;
    struct append append = append_of(events, 4);
    must_answer(HF_CONFLICT, RUN(store, &append));
    must_equal(2, append.failed_index);
    must_equal(2, last_of(store));
    struct batch *batch = fixture_batch(*state);
    for (int i = 0; i < 4; i++) {
        must_answer(HF_NOTFOUND, store_event_find(store, events[i].id, batch));
    }
    must_equal(0, batch->count);
    /* the other key's version was undone as well */
    struct new_event event;
    must_answer(HF_OK, append_version(store, "new", 0, &append, &event));
    must_follow(store, 2, event.position);
}

static void a_version_race_has_one_winner_body(int index, void *ctx)
{
    struct same_id *race = ctx;
    struct append append;
    hf_status status =
        append_version(race->stores[index % 2], "k", 0, &append, &race->events[index]);
    must_hold(status == HF_OK || status == HF_CONFLICT);
    race->events[index].duplicate = status == HF_OK;
}

static void a_version_race_has_one_winner(void **state)
{
    struct same_id race = {.stores = {fixture_open(*state, "a"), fixture_open(*state, "b")}};
    crowd_run(16, a_version_race_has_one_winner_body, &race);
    int winners = 0;
    for (int i = 0; i < 16; i++) {
        winners += race.events[i].duplicate;
    }
    must_equal(1, winners);
    must_equal(1, head_of(race.stores[0]));
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void every_field_comes_back(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event event = event_of("user.created", "key");
    event.payload = text_of("{\"a\": 1}");
    event.tenant = text_of("tenant");
    event.metadata = text_of("{\"m\":true}");
    event.producer = text_of("host:42");
    event.emitted_at_us = INT64_C(-5000000);
    struct append append = append_of(&event, 1);
    append.change.now_us = T0 + 17;
    must_answer(HF_OK, RUN(store, &append));

    const struct entry *entry = found(*state, store, event.id);
    char id[UUID_TEXT_BYTES];
    uuid_format(event.id, id);
    must_read(id, entry->event.id);
    must_hold(memcmp(entry->id, event.id, 16) == 0);
    must_read("user.created", entry->event.type);
    must_read("{\"a\": 1}", entry->event.payload);
    must_equal(8, entry->event.payload_bytes);
    must_read("key", entry->event.key);
    must_read("tenant", entry->event.tenant);
    must_read("{\"m\":true}", entry->event.metadata);
    must_read("host:42", entry->event.producer);
    must_read(NULL, entry->event.schedule_id);
    must_equal(1, entry->event.position);
    must_equal(-1, entry->event.key_version);
    must_equal(-5000000, entry->event.emitted_at_us);
    must_enter(store, T0 + 17, entry->event.entered_at_us);
    must_equal(event.hash, entry->hash);
    must_equal(hash_lane(event.tenant, event.key, event.id), entry->lane);
    must_equal(0, entry->attempts);
    must_equal(0, entry->uncounted);
    must_hold(text_is_absent(entry->attempts_json));
    must_equal(false, entry->waited);
    must_equal(false, entry->unhandled);
}

static void absent_and_empty_texts_differ(void **state)
{
    struct store *store = fixture_open(*state, "a");
    for (int bits = 0; bits < 16; bits++) {
        struct text empty = {"", 0};
        struct new_event event = event_of("t", NULL);
        event.key = bits & 1 ? empty : TEXT_ABSENT;
        event.tenant = bits & 2 ? empty : TEXT_ABSENT;
        event.metadata = bits & 4 ? text_of("{}") : TEXT_ABSENT;
        event.producer = bits & 8 ? empty : TEXT_ABSENT;
        must_answer(HF_OK, append_event(store, &event));
        const struct entry *entry = found(*state, store, event.id);
        must_read(bits & 1 ? "" : NULL, entry->event.key);
        must_read(bits & 2 ? "" : NULL, entry->event.tenant);
        must_read(bits & 4 ? "{}" : NULL, entry->event.metadata);
        must_read(bits & 8 ? "" : NULL, entry->event.producer);
        must_equal(hash_lane(event.tenant, event.key, event.id), entry->lane);
    }
}

static void texts_that_only_some_events_of_an_append_have_stay_with_them(void **state)
{
    enum { COUNT = 30 };
    struct store *store = fixture_open(*state, "a");
    struct new_event events[COUNT];
    for (int i = 0; i < COUNT; i++) {
        events[i] = event_of("t", NULL);
        events[i].key = i % 2 == 1 ? text_of("key") : TEXT_ABSENT;
        events[i].tenant = i % 3 == 1 ? text_of("tenant") : TEXT_ABSENT;
        events[i].metadata = i == COUNT - 1 ? text_of("{}") : TEXT_ABSENT;
    }
    struct append append = append_of(events, COUNT);
    must_answer(HF_OK, RUN(store, &append));
    for (int i = 0; i < COUNT; i++) {
        const struct entry *entry = entry_at(*state, store, i + 1);
        must_hold(memcmp(entry->id, events[i].id, 16) == 0);
        must_read(i % 2 == 1 ? "key" : NULL, entry->event.key);
        must_read(i % 3 == 1 ? "tenant" : NULL, entry->event.tenant);
        must_read(i == COUNT - 1 ? "{}" : NULL, entry->event.metadata);
    }
}

/* Payloads that a careless engine would change: JSON that is equal but not the same bytes. */
static const char *const odd_payloads[] = {
    "null",
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1E400",
    "1e-0007",
    "123456789012345678901234567890",
    "0.1000000000000000055511151231257827",
    "\"\"",
    " \t\r\n{ \"a\" : 1 }\r\n\t ",
    "{\"b\":1,\"a\":2,\"b\":3}",
    "{\"\":{},\"x\":[]}",
    "\"\\u0041\\/\\\"\\\\\\b\\f\\n\\r\\t\"",
    "\"\\u0001\\u001f\\ud83d\\ude00\"",
    "\"'; DROP TABLE holdfast_events; --\"",
    "\"%s%n$1?1:a@b#c\"",
    "\"\x7f\xc2\x80\xc2\x9f\xc2\xa0\"",
    "\"\xef\xbb\xbf\xe2\x80\xa8\xe2\x80\xa9\xef\xbf\xbe\xef\xbf\xbf\"",
    "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
    "\"e\xcc\x81 \xc3\xa9\"",
};

static void payload_bytes_are_kept_exactly(void **state)
{
    struct store *store = fixture_open(*state, "a");
    for (size_t i = 0; i < sizeof odd_payloads / sizeof odd_payloads[0]; i++) {
        struct new_event event = event_of("t", NULL);
        event.payload = text_of(odd_payloads[i]);
        must_answer(HF_OK, append_event(store, &event));
        const struct entry *entry = found(*state, store, event.id);
        struct text stored = {entry->event.payload, entry->event.payload_bytes};
        must_match(event.payload, stored);
        must_equal('\0', entry->event.payload[entry->event.payload_bytes]);
    }
}

/* A JSON string of every byte that JSON and UTF-8 allow, each several times. */
static size_t fill_payload(char *out, size_t bytes)
{
    static const char *const parts[] = {
        "\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",     "\xed\x9f\xbf",     "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf3\xbf\xbf\xbf", "\xf4\x8f\xbf\xbf", "\\\"",
        "\\\\"};
    size_t used = 0;
    out[used++] = '"';
    for (size_t i = 0; used + 6 < bytes; i++) {
        int code = (int)(i % 0x80);
        const char *part = parts[i % (sizeof parts / sizeof parts[0])];
        if (code >= 0x20 && code != '"' && code != '\\') {
            out[used++] = (char)code;
        } else {
            size_t length = strlen(part);
            memcpy(out + used, part, length);
            used += length;
        }
    }
    while (used + 1 < bytes) {
        out[used++] = ' ';
    }
    out[used++] = '"';
    return used;
}

static void a_payload_of_one_mebibyte_is_kept_exactly(void **state)
{
    struct store *store = fixture_open(*state, "a");
    size_t bytes = HF_PAYLOAD_BYTES_MAX_DEFAULT;
    char *payload = malloc(bytes);
    must_hold(payload);
    must_equal(bytes, fill_payload(payload, bytes));
    struct new_event event = event_of("t", NULL);
    event.payload = (struct text){payload, bytes};
    must_answer(HF_OK, append_event(store, &event));
    const struct entry *entry = found(*state, store, event.id);
    struct text stored = {entry->event.payload, entry->event.payload_bytes};
    must_match(event.payload, stored);
    free(payload);
}

static void texts_at_their_limits_are_kept_exactly(void **state)
{
    struct store *store = fixture_open(*state, "a");
    char *longest = malloc(HF_KEY_BYTES_MAX + 1);
    char *metadata = malloc(HF_METADATA_BYTES_MAX + 1);
    must_hold(longest && metadata);
    memset(longest, 'k', HF_KEY_BYTES_MAX);
    longest[HF_KEY_BYTES_MAX] = '\0';
    memset(metadata, ' ', HF_METADATA_BYTES_MAX);
    metadata[0] = '{';
    metadata[HF_METADATA_BYTES_MAX - 1] = '}';
    metadata[HF_METADATA_BYTES_MAX] = '\0';

    struct new_event event = event_of("t", longest);
    event.type = (struct text){longest, HF_TYPE_BYTES_MAX};
    event.tenant = event.key;
    event.metadata = text_of(metadata);
    event.producer = (struct text){longest, HF_PRODUCER_BYTES_MAX};
    must_answer(HF_OK, append_event(store, &event));
    const struct entry *entry = found(*state, store, event.id);
    must_match(event.type, text_of(entry->event.type));
    must_match(event.key, text_of(entry->event.key));
    must_match(event.tenant, text_of(entry->event.tenant));
    must_match(event.metadata, text_of(entry->event.metadata));
    must_match(event.producer, text_of(entry->event.producer));
    free(longest);
    free(metadata);
}

static void texts_belong_to_the_caller_when_the_verb_has_returned(void **state)
{
    struct store *store = fixture_open(*state, "a");
    char payload[] = "[1234567890]";
    char key[] = "the key";
    struct new_event event = event_of("t", key);
    event.payload = (struct text){payload, strlen(payload)};
    must_answer(HF_OK, append_event(store, &event));
    memset(payload, 'x', sizeof payload);
    memset(key, 'x', sizeof key);
    const struct entry *entry = found(*state, store, event.id);
    must_read("[1234567890]", entry->event.payload);
    must_read("the key", entry->event.key);
}

static void odd_texts_are_values_and_nothing_else(void **state)
{
    static const char *const odd[] = {
        "'",  "\"",  "`",  ";--",      "%",    "_",   "\\",
        "?1", "$1",  ":a", "\x1b[31m", "\r\n", "<b>", "\xf0\x9f\x98\x80",
        " ",  "NULL"};
    struct store *store = fixture_open(*state, "a");
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct append append;
        struct new_event event;
        must_answer(HF_OK, append_version(store, odd[i], 0, &append, &event));
        must_equal(1, event.key_version);
        must_read(odd[i], found(*state, store, event.id)->event.key);
    }
}

static void an_unknown_id_is_not_found(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "t", NULL);
    struct new_event never = event_of("t", NULL);
    struct batch *batch = fixture_batch(*state);
    must_answer(HF_NOTFOUND, store_event_find(store, never.id, batch));
    must_equal(0, batch->count);
}

static void a_batch_is_appended_to(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[2] = {event_of("t", "one"), event_of("t", "two")};
    struct append append = append_of(events, 2);
    must_answer(HF_OK, RUN(store, &append));
    struct batch *batch = fixture_batch(*state);
    must_answer(HF_OK, store_event_find(store, events[1].id, batch));
    must_answer(HF_OK, store_event_find(store, events[0].id, batch));
    must_read("2 1", list_batch(batch));
    must_read("two", batch->entries[0].event.key);
    must_read("one", batch->entries[1].event.key);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_fresh_log_has_no_head_and_begins_at_one),
    CLAIM(positions_begin_at_one_and_have_no_gaps),
    CLAIM(events_of_one_append_keep_their_order),
    CLAIM(two_stores_share_one_sequence_of_positions),
    CLAIM(positions_go_on_after_reopening),
    CLAIM(an_id_in_the_log_answers_the_first_position_as_duplicate),
    CLAIM(a_duplicate_answers_the_firsts_version_and_its_own_is_not_looked_at),
    CLAIM(two_equal_ids_in_one_append_are_one_event),
    CLAIM(repeats_at_any_place_of_a_long_append_are_found),
    CLAIM(repeats_of_ids_without_a_time_are_found_at_any_place),
    CLAIM(an_append_of_duplicates_alone_moves_nothing),
    CLAIM(a_fresh_event_clears_the_duplicate_mark),
    CLAIM(an_id_of_another_process_is_a_duplicate),
    CLAIM(one_id_published_by_many_at_once_is_stored_once),
    CLAIM(one_id_without_a_time_published_by_many_at_once_is_stored_once),
    CLAIM(a_keys_version_becomes_expected_plus_one),
    CLAIM(a_wrong_version_conflicts_and_the_message_tells_event_and_version),
    CLAIM(a_key_without_versions_is_at_version_zero),
    CLAIM(versions_chain_within_one_append),
    CLAIM(a_failed_append_leaves_nothing),
    CLAIM(a_version_race_has_one_winner),
    CLAIM(every_field_comes_back),
    CLAIM(absent_and_empty_texts_differ),
    CLAIM(texts_that_only_some_events_of_an_append_have_stay_with_them),
    CLAIM(payload_bytes_are_kept_exactly),
    CLAIM(a_payload_of_one_mebibyte_is_kept_exactly),
    CLAIM(texts_at_their_limits_are_kept_exactly),
    CLAIM(texts_belong_to_the_caller_when_the_verb_has_returned),
    CLAIM(odd_texts_are_values_and_nothing_else),
    CLAIM(an_unknown_id_is_not_found),
    CLAIM(a_batch_is_appended_to),
};

FIXTURE_MAIN("append", claims, NULL)
