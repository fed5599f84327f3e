/*
 * make.c - the short forms of make.h.
 */
#include "support/make.h"

#include "base/hash.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/common/checksum.h"

#include <inttypes.h>

#define LIST_BYTES 16384
#define APPEND_STEP 500

static const struct text pattern_all[] = {{"*", 1}};
const struct filter filter_all = {.patterns = pattern_all, .count = 1};

int64_t mono_ms(void)
{
    return clock_mono_us() / 1000;
}

hf_status run(struct store *store, struct change *change)
{
    return store_run(store, change, deadline_after_ms(DEADLINE_MS));
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct new_event event_of(const char *type, const char *key)
{
    struct new_event event = {
        .type = text_of(type),
        .payload = {"{}", 2},
        .key = text_of(key),
        .emitted_at_us = T0 - 1,
        .expected_version = -1,
        .position = -7,
        .key_version = -7,
    };
    uuid_v7(clock_wall_us(), event.id);
    return event;
}

struct append append_of(struct new_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        checksum_seal(&events[i]);
    }
    return (struct append){
        .change = {.kind = CHANGE_APPEND, .now_us = T0},
        .events = events,
        .count = count,
        .failed_index = SIZE_MAX,
    };
}

hf_status append_event(struct store *store, struct new_event *event)
{
    struct append append = append_of(event, 1);
    return RUN(store, &append);
}

int64_t append_one(struct store *store, const char *type, const char *key)
{
    struct new_event event = event_of(type, key);
    must_answer(HF_OK, append_event(store, &event));
    return event.position;
}

int64_t append_count(struct store *store, const char *type, size_t count)
{
    int64_t first = -1;
    while (count > 0) {
        struct new_event events[APPEND_STEP];
        size_t step = count < APPEND_STEP ? count : APPEND_STEP;
        for (size_t i = 0; i < step; i++) {
            events[i] = event_of(type, NULL);
        }
        struct append append = append_of(events, step);
        must_answer(HF_OK, RUN(store, &append));
        first = first < 0 ? events[0].position : first;
        count -= step;
    }
    return first;
}

int64_t append_lanes(struct store *store, const char *letters)
{
    struct new_event events[APPEND_STEP];
    char keys[APPEND_STEP][2];
    size_t count = strlen(letters);
    must_hold(count > 0 && count <= APPEND_STEP);
    for (size_t i = 0; i < count; i++) {
        keys[i][0] = letters[i];
        keys[i][1] = '\0';
        events[i] = event_of("t", keys[i]);
    }
    struct append append = append_of(events, count);
    must_answer(HF_OK, RUN(store, &append));
    return events[0].position;
}

hf_status append_version(struct store *store, const char *key, int64_t expected,
                         struct append *ret_append, struct new_event *ret_event)
{
    *ret_event = event_of("t", key);
    ret_event->expected_version = expected;
    *ret_append = append_of(ret_event, 1);
    return RUN(store, ret_append);
}

uint64_t lane_of(const char *key)
{
    static const uint8_t no_id[16];
    return hash_lane(TEXT_ABSENT, text_of(key), no_id);
}

const char *key_in(int32_t partition, int32_t partitions, int nth)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const uint8_t no_id[16];
    static char keys[sizeof letters][2];
    for (size_t i = 0; letters[i]; i++) {
        keys[i][0] = letters[i];
        if (hash_event(TEXT_ABSENT, text_of(keys[i]), no_id) % partitions == partition &&
            nth-- == 0) {
            return keys[i];
        }
    }
    check_fail(__FILE__, __LINE__, "no letter is left for partition %d", partition);
}

int64_t head_of(struct store *store)
{
    int64_t head = -1;
    int64_t first = -1;
    must_answer(HF_OK, store_head(store, &head, &first));
    return head;
}

static bool is_sqlite(struct store *store)
{
    return strcmp(store_engine_name(store), "sqlite") == 0;
}

bool gapless(struct store *store)
{
    return is_sqlite(store);
}

int64_t last_of(struct store *store)
{
    struct reader *reader;
    struct batch batch;
    int64_t last = 0;
    int64_t floor;
    bool more = true;
    batch_init(&batch);
    must_answer(HF_OK, store_reader_open(store, 0, false, &reader));
    while (more) {
        must_answer(HF_OK, store_reader_next(reader, &filter_all, 1000, &batch, &floor, &more));
        last = batch.count > 0 ? batch.entries[batch.count - 1].event.position : last;
        batch_clear(&batch);
    }
    store_reader_close(reader);
    batch_release(&batch);
    if (gapless(store)) {
        must_equal(head_of(store), last);
    }
    return last;
}

void check_follows(struct store *store, int64_t before, int64_t actual, const char *what,
                   const char *file, int line)
{
    if (gapless(store) ? actual != before + 1 : actual <= before) {
        check_fail(file, line, "%s is %" PRId64 ", which does not follow %" PRId64, what, actual,
                   before);
    }
}

void check_enters(struct store *store, int64_t now_us, int64_t actual, const char *what,
                  const char *file, int line)
{
    if (is_sqlite(store)) {
        check_equal(now_us, actual, what, file, line);
    } else if (llabs(actual - clock_wall_us()) > DEADLINE_MS * INT64_C(1000)) {
        check_fail(file, line, "%s is %" PRId64 ", which is not about now", what, actual);
    }
}

int64_t entered_of(struct fixture *fixture, struct store *store, int64_t position)
{
    return entry_at(fixture, store, position)->event.entered_at_us;
}

/* ---- Subscriptions --------------------------------------------------------------------------- */

struct subscription_put put_of(const char *name, hf_mode mode, int32_t partitions)
{
    return (struct subscription_put){
        .change = {.kind = CHANGE_SUBSCRIPTION_PUT, .now_us = T0},
        .name = text_of(name),
        .patterns_json = text_of("[\"*\"]"),
        .options_json = text_of("{}"),
        .mode = mode,
        .partitions = partitions,
        .expect_generation = -1,
        .ret_id = -7,
    };
}

int64_t subscribe_ordered(struct store *store, const char *name, int32_t partitions)
{
    struct subscription_put put = put_of(name, HF_MODE_ORDERED, partitions);
    must_answer(HF_OK, RUN(store, &put));
    return put.ret_id;
}

int64_t subscribe_shared(struct store *store, const char *name)
{
    struct subscription_put put = put_of(name, HF_MODE_SHARED, 1);
    must_answer(HF_OK, RUN(store, &put));
    return put.ret_id;
}

hf_status subscription_drop(struct store *store, const char *name)
{
    struct subscription_remove change = {
        .change = {.kind = CHANGE_SUBSCRIPTION_REMOVE, .now_us = T0}, .name = text_of(name)};
    return RUN(store, &change);
}

hf_status subscription_pause(struct store *store, int64_t id, bool paused, int64_t now_us)
{
    struct pause change = {.change = {.kind = CHANGE_PAUSE, .now_us = now_us},
                           .subscription_id = id,
                           .paused = paused,
                           .by = text_of("operator"),
                           .reason = text_of("because")};
    return RUN(store, &change);
}

hf_status subscription_seek(struct store *store, int64_t id, int64_t position)
{
    struct seek change = {
        .change = {.kind = CHANGE_SEEK, .now_us = T0}, .subscription_id = id, .position = position};
    return RUN(store, &change);
}

static int note_generation(const struct subscription_row *row, void *ctx)
{
    *(int64_t *)ctx = row->generation;
    return 0;
}

int64_t generation_of(struct store *store, int64_t id)
{
    int64_t generation = -1;
    must_answer(HF_OK, store_subscription_by_id(store, id, note_generation, &generation));
    return generation;
}

struct progress progress_of(struct store *store, int64_t id)
{
    struct progress progress;
    memset(&progress, 0x55, sizeof progress);
    must_answer(HF_OK, store_progress(store, id, T0, &progress));
    return progress;
}

struct pending pending_of(struct store *store, int64_t id, const char *pattern, int64_t max)
{
    struct text patterns[] = {text_of(pattern)};
    struct pending_query query = {
        .subscription_id = id,
        .filter = {.patterns = patterns, .count = 1},
        .max = max,
    };
    struct pending pending;
    memset(&pending, 0x55, sizeof pending);
    must_answer(HF_OK, store_pending(store, &query, &pending));
    return pending;
}

int64_t oldest_of(struct store *store, int64_t id)
{
    int64_t open_us = progress_of(store, id).oldest_open_us;
    int64_t first_us = pending_of(store, id, "*", 1).first_at_us;
    return open_us < 0 || (first_us >= 0 && first_us < open_us) ? first_us : open_us;
}

void note_handler(struct store *store, int32_t slot, int64_t subscription_id, int64_t position,
                  int32_t attempt)
{
    struct handler_note note = {
        .subscription_id = subscription_id,
        .position = position,
        .attempt = attempt,
        .now_us = T0,
    };
    store_note(store, slot, &note);
}

/* ---- Ordered: owning a partition ------------------------------------------------------------- */

struct acquire acquire_of(int64_t subscription_id, int32_t partition, int64_t lease_ms)
{
    return (struct acquire){
        .change = {.kind = CHANGE_ACQUIRE, .now_us = T0},
        .subscription_id = subscription_id,
        .partition = partition,
        .lease_ms = lease_ms,
        .retry_max_ms = -1,
        .ret_epoch = -7,
        .ret_checkpoint = -7,
        .ret_generation = -7,
        .ret_crashed = -7,
    };
}

struct owner own(struct store *store, int64_t subscription_id, int32_t partition)
{
    struct acquire acquire = acquire_of(subscription_id, partition, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    return (struct owner){
        .store = store,
        .subscription_id = subscription_id,
        .partition = partition,
        .epoch = acquire.ret_epoch,
        .checkpoint = acquire.ret_checkpoint,
        .generation = acquire.ret_generation,
        .now_us = T0,
    };
}

hf_status give_back(const struct owner *owner)
{
    struct give_back change = {.change = {.kind = CHANGE_GIVE_BACK, .now_us = T0},
                               .subscription_id = owner->subscription_id,
                               .partition = owner->partition,
                               .epoch = owner->epoch};
    return RUN(owner->store, &change);
}

hf_status settle(struct owner *owner, int64_t checkpoint, struct outcome *outcomes, size_t count)
{
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = owner->now_us},
                            .subscription_id = owner->subscription_id,
                            .partition = owner->partition,
                            .epoch = owner->epoch,
                            .checkpoint = checkpoint,
                            .outcomes = outcomes,
                            .count = count,
                            .ret_generation = -7};
    hf_status status = RUN(owner->store, &change);
    if (!status) {
        owner->generation = change.ret_generation;
    }
    return status;
}

struct outcome done(int64_t position, const char *key)
{
    return (struct outcome){.kind = OUTCOME_DONE, .position = position, .lane = lane_of(key)};
}

struct outcome held(int64_t position, const char *key)
{
    return (struct outcome){.kind = OUTCOME_HELD, .position = position, .lane = lane_of(key)};
}

struct outcome retry(int64_t position, const char *key, int64_t next_attempt_us)
{
    return (struct outcome){
        .kind = OUTCOME_RETRY,
        .position = position,
        .lane = lane_of(key),
        .attempts = 1,
        .attempts_json = text_of(STORY_ONE),
        .cause = CAUSE_HANDLER,
        .next_attempt_us = next_attempt_us,
    };
}

struct outcome dead(int64_t position, const char *key)
{
    return (struct outcome){
        .kind = OUTCOME_DEAD,
        .position = position,
        .lane = lane_of(key),
        .attempts = 2,
        .attempts_json = text_of(STORY_TWO),
        .cause = CAUSE_HANDLER,
        .reason = text_of("attempts"),
        .error = text_of("two"),
    };
}

struct outcome block(int64_t position, const char *key)
{
    struct outcome outcome = dead(position, key);
    outcome.kind = OUTCOME_BLOCK;
    return outcome;
}

struct outcome waited(struct outcome outcome)
{
    outcome.waited = true;
    return outcome;
}

/* ---- Shared: claiming ------------------------------------------------------------------------ */

struct claim claim_of(int64_t subscription_id, int32_t max, int64_t now_us, struct batch *batch)
{
    return (struct claim){
        .change = {.kind = CHANGE_CLAIM, .now_us = now_us},
        .subscription_id = subscription_id,
        .filter = filter_all,
        .max = max,
        .lease_ms = LEASE_MS,
        .retry_max_ms = -1,
        .batch = batch,
        .ret_expires_at_us = -7,
        .ret_wake_us = -7,
    };
}

struct claim take(struct fixture *fixture, struct store *store, int64_t subscription_id,
                  int32_t max, int64_t now_us)
{
    struct claim claim = claim_of(subscription_id, max, now_us, fixture_batch(fixture));
    must_answer(HF_OK, RUN(store, &claim));
    return claim;
}

/* The outcome of one position; what the batch knows of it (lane, whether it waited) comes along. */
static struct outcome finish_outcome(const struct claim *claim, enum outcome_kind kind,
                                     int64_t position, int64_t due_us)
{
    struct outcome outcome = {.kind = kind,
                              .position = position,
                              .attempts = 1,
                              .attempts_json = text_of(STORY_ONE),
                              .cause = CAUSE_HANDLER,
                              .next_attempt_us = due_us,
                              .reason = text_of("attempts"),
                              .error = text_of("one")};
    for (size_t i = 0; i < claim->batch->count; i++) {
        const struct entry *entry = &claim->batch->entries[i];
        if (entry->event.position == position) {
            outcome.lane = entry->lane;
            outcome.waited = entry->waited;
        }
    }
    return outcome;
}

hf_status finish(struct store *store, const struct claim *claim, enum outcome_kind kind,
                 const char *positions, int64_t now_us, int64_t due_us)
{
    struct outcome outcomes[256];
    size_t count = 0;
    for (const char *at = positions; *at; count++) {
        char *end;
        must_hold(count < 256);
        outcomes[count] = finish_outcome(claim, kind, strtoll(at, &end, 10), due_us);
        at = end + strspn(end, " ");
    }
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = now_us},
                                  .subscription_id = claim->subscription_id,
                                  .outcomes = outcomes,
                                  .count = count};
    memcpy(change.lease, claim->ret_lease, sizeof change.lease);
    return RUN(store, &change);
}

hf_status finish_all(struct store *store, const struct claim *claim, int64_t now_us)
{
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = now_us},
                                  .subscription_id = claim->subscription_id,
                                  .all = true};
    memcpy(change.lease, claim->ret_lease, sizeof change.lease);
    return RUN(store, &change);
}

hf_status lease_extend(struct store *store, const struct claim *claim, int64_t until_us)
{
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
                                  .subscription_id = claim->subscription_id,
                                  .extend_us = until_us};
    memcpy(change.lease, claim->ret_lease, sizeof change.lease);
    return RUN(store, &change);
}

/* ---- Questions ------------------------------------------------------------------------------- */

/* A list of numbers on its way to text. */
struct list {
    char *bytes;
    size_t used;
};

static struct list list_begin(void)
{
    static __thread char buffers[4][LIST_BYTES];
    static __thread unsigned next;
    struct list list = {.bytes = buffers[next++ % 4]};
    list.bytes[0] = '\0';
    return list;
}

static void list_add(struct list *list, int64_t number)
{
    int length = snprintf(list->bytes + list->used, LIST_BYTES - list->used, "%s%" PRId64,
                          list->used ? " " : "", number);
    list->used += (size_t)length;
    must_hold(list->used < LIST_BYTES);
}

/* Positions that come in no order. */
struct position_set {
    int64_t positions[1024];
    size_t count;
};

static int set_add(int64_t position, void *ctx)
{
    struct position_set *set = ctx;
    must_hold(set->count < sizeof set->positions / sizeof set->positions[0]);
    set->positions[set->count++] = position;
    return 0;
}

static int position_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

const char *list_batch(const struct batch *batch)
{
    struct list list = list_begin();
    for (size_t i = 0; i < batch->count; i++) {
        list_add(&list, batch->entries[i].event.position);
    }
    return list.bytes;
}

hf_status retries_due(struct store *store, int64_t subscription_id, int64_t now_us, int32_t max,
                      struct batch *batch, int64_t *ret_next_us)
{
    struct due_query query = {
        .subscription_id = subscription_id,
        .partitions = &(const int32_t){0},
        .partition_count = 1,
        .now_us = now_us,
        .max = max,
    };
    return store_retries_due(store, &query, batch, ret_next_us);
}

const char *list_due(struct store *store, int64_t subscription_id, int32_t partition,
                     int64_t now_us)
{
    struct batch batch;
    batch_init(&batch);
    int64_t next_us = -7;
    struct due_query query = {
        .subscription_id = subscription_id,
        .partitions = &partition,
        .partition_count = 1,
        .now_us = now_us,
        .max = 1000,
    };
    must_answer(HF_OK, store_retries_due(store, &query, &batch, &next_us));
    const char *text = list_batch(&batch);
    batch_release(&batch);
    return text;
}

const char *list_ahead(struct store *store, int64_t subscription_id, int32_t partition,
                       int64_t checkpoint)
{
    struct position_set set = {.count = 0};
    must_answer(HF_OK, store_ahead(store, subscription_id, partition, checkpoint, set_add, &set));
    qsort(set.positions, set.count, sizeof set.positions[0], position_compare);
    struct list list = list_begin();
    for (size_t i = 0; i < set.count; i++) {
        list_add(&list, set.positions[i]);
    }
    return list.bytes;
}

struct lane_count {
    const char *letters;
    int64_t rows[64];
};

static int lane_note(uint64_t lane, int64_t rows, void *ctx)
{
    struct lane_count *counts = ctx;
    for (size_t i = 0; counts->letters[i]; i++) {
        char key[2] = {counts->letters[i], '\0'};
        if (lane_of(key) == lane) {
            counts->rows[i] += rows;
            return 0;
        }
    }
    check_fail(__FILE__, __LINE__, "lane %" PRIx64 " of no key in \"%s\" is listed", lane,
               counts->letters);
}

const char *list_lanes(struct store *store, int64_t subscription_id, int32_t partition,
                       const char *letters)
{
    struct lane_count counts = {.letters = letters};
    must_hold(strlen(letters) < 64);
    must_answer(HF_OK, store_lanes(store, subscription_id, partition, lane_note, &counts));
    struct list list = list_begin();
    for (size_t i = 0; letters[i]; i++) {
        list_add(&list, counts.rows[i]);
    }
    return list.bytes;
}

static int dead_note_position(const hf_dead_letter *letter, void *ctx)
{
    list_add(ctx, letter->event.position);
    return 0;
}

const char *list_dead(struct store *store, const struct dead_query *query)
{
    struct list list = list_begin();
    must_answer(HF_OK, store_dead_list(store, query, dead_note_position, &list));
    return list.bytes;
}

struct dead_query dead_query_any(void)
{
    return (struct dead_query){.failed_before_us = -1,
                               .failed_after_us = -1,
                               .before_dead_id = -1,
                               .after_dead_id = -1,
                               .limit = -1};
}

struct dead_search {
    int64_t position;
    int64_t dead_id;
};

static int dead_note_id(const hf_dead_letter *letter, void *ctx)
{
    struct dead_search *search = ctx;
    if (letter->event.position == search->position) {
        search->dead_id = letter->dead_id;
    }
    return 0;
}

int64_t dead_id_of(struct store *store, int64_t position)
{
    struct dead_search search = {.position = position, .dead_id = -1};
    struct dead_query query = dead_query_any();
    query.resolved_too = true;
    must_answer(HF_OK, store_dead_list(store, &query, dead_note_id, &search));
    return search.dead_id;
}

const struct entry *entry_at(struct fixture *fixture, struct store *store, int64_t position)
{
    struct batch *batch = fixture_batch(fixture);
    struct reader *reader = NULL;
    int64_t floor = -7;
    bool more = true;
    must_answer(HF_OK, store_reader_open(store, position - 1, false, &reader));
    while (batch->count == 0 && more) {
        must_answer(HF_OK, store_reader_next(reader, &filter_all, 1, batch, &floor, &more));
    }
    store_reader_close(reader);
    must_equal(1, batch->count);
    must_equal(position, batch->entries[0].event.position);
    return &batch->entries[0];
}

struct delivery_facts facts_of(struct fixture *fixture, struct store *store,
                               int64_t subscription_id, int64_t position,
                               struct text *ret_attempts_json)
{
    const struct entry *entry = entry_at(fixture, store, position);
    struct batch *batch = &fixture->batches[fixture->batch_count - 1];
    struct delivery_facts facts;
    struct text story = TEXT_ABSENT;
    memset(&facts, 0x55, sizeof facts);
    struct delivery_query query = {
        .id = entry->id,
        .position = position,
        .hash = entry->hash,
        .now_us = T0,
    };
    must_answer(
        HF_OK, store_delivery_facts(store, subscription_id, &query, &batch->arena, &facts, &story));
    if (ret_attempts_json) {
        *ret_attempts_json = story;
    } else {
        batch_release(batch);
        fixture->batch_count--;
    }
    return facts;
}
