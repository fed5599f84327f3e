/*
 * make.h - events, changes and questions in few words.
 *
 * The functions without a status in their type must succeed; those that return hf_status leave the
 * judgement to the test. Time stands at T0 unless a test passes another one. Sets of positions come
 * back as text, "1 2 5", so that a test reads like a table.
 */
#ifndef HF_TESTS_SUPPORT_MAKE_H
#define HF_TESTS_SUPPORT_MAKE_H

#include "support/fixture.h"

#define T0 INT64_C(1800000000000000) /* 2027-01-15T08:00:00Z */
#define SECOND INT64_C(1000000)
#define LEASE_MS 30000
#define LEASE_US (LEASE_MS * INT64_C(1000))

/* A story of one attempt, as the bus writes it. */
#define STORY_ONE "[{\"attempt\":1,\"at\":\"2027-01-15T08:00:00.000000Z\",\"error\":\"one\"}]"
#define STORY_TWO                                                                                  \
    "[{\"attempt\":1,\"at\":\"2027-01-15T08:00:00.000000Z\",\"error\":\"one\"},"                   \
    "{\"attempt\":2,\"at\":\"2027-01-15T08:00:01.000000Z\",\"error\":\"two\"}]"

/* Hands a change over with the deadline of tests. */
hf_status run(struct store *store, struct change *change);
#define RUN(store, it) run((store), &(it)->change)

/* ---- Events ---------------------------------------------------------------------------------- */

/* An event with a new id, payload {} and no texts but type and key (NULL: absent). */
struct new_event event_of(const char *type, const char *key);
/* An append of them; computes their hashes. */
struct append append_of(struct new_event *events, size_t count);
/* Appends one event that was made by event_of. */
hf_status append_event(struct store *store, struct new_event *event);
/* Appends one event; its position. */
int64_t append_one(struct store *store, const char *type, const char *key);
/* Appends count events of a type without key in one go; the first one's position. */
int64_t append_count(struct store *store, const char *type, size_t count);
/* Appends one event of type "t" per letter, which is its key; the first one's position. */
int64_t append_lanes(struct store *store, const char *letters);
/* Appends one event with an expected version. */
hf_status append_version(struct store *store, const char *key, int64_t expected,
                         struct append *ret_append, struct new_event *ret_event);
/* The lane of events with this key and no tenant. */
uint64_t lane_of(const char *key);
/* The nth letter (from 0) whose events belong to this partition, as a key. */
const char *key_in(int32_t partition, int32_t partitions, int nth);
int64_t head_of(struct store *store);
/* The last position that a reader sees. It is the head, unless positions may be given for nothing:
 * that is so wherever publishers do not wait for each other (see gapless). */
int64_t last_of(struct store *store);
/* True if whatever fails or is rolled back uses up no position. */
bool gapless(struct store *store);
/* The position that comes after `before`: the very next one, or, with gaps, any later one. */
#define must_follow(store, before, actual)                                                         \
    check_follows((store), (before), (actual), #actual, __FILE__, __LINE__)
void check_follows(struct store *store, int64_t before, int64_t actual, const char *what,
                   const char *file, int line);
/* When the event entered the log: at now_us of its append, or, where ids carry the time, about
 * now. */
#define must_enter(store, now_us, actual)                                                          \
    check_enters((store), (now_us), (actual), #actual, __FILE__, __LINE__)
void check_enters(struct store *store, int64_t now_us, int64_t actual, const char *what,
                  const char *file, int line);
int64_t entered_of(struct fixture *fixture, struct store *store, int64_t position);

/* A filter for everything. */
extern const struct filter filter_all;

/* ---- Subscriptions --------------------------------------------------------------------------- */

/* A change that creates a subscription to "*" that starts at 0. */
struct subscription_put put_of(const char *name, hf_mode mode, int32_t partitions);
/* Creates one; its id. */
int64_t subscribe_ordered(struct store *store, const char *name, int32_t partitions);
int64_t subscribe_shared(struct store *store, const char *name);
hf_status subscription_drop(struct store *store, const char *name);
hf_status subscription_pause(struct store *store, int64_t id, bool paused, int64_t now_us);
hf_status subscription_seek(struct store *store, int64_t id, int64_t position);
int64_t generation_of(struct store *store, int64_t id);
struct progress progress_of(struct store *store, int64_t id);
/* What is pending, by the one pattern that it has. */
struct pending pending_of(struct store *store, int64_t id, const char *pattern, int64_t max);
/* When the oldest unsettled event entered the log, of a subscription to "*"; -1: there is none. */
int64_t oldest_of(struct store *store, int64_t id);
/* Notes at T0 that a handler runs. */
void note_handler(struct store *store, int32_t slot, int64_t subscription_id, int64_t position,
                  int32_t attempt);

/* ---- Ordered: owning a partition ------------------------------------------------------------- */

/* A partition and the right to settle it. */
struct owner {
    struct store *store;
    int64_t subscription_id;
    int32_t partition;
    int64_t epoch;
    int64_t checkpoint;
    int64_t generation; /* as the last settle answered */
    int64_t now_us;     /* what settles pass */
};

/* store_retries_due for a subscription with one partition, of which nothing is in hand. */
hf_status retries_due(struct store *store, int64_t subscription_id, int64_t now_us, int32_t max,
                      struct batch *batch, int64_t *ret_next_us);

struct acquire acquire_of(int64_t subscription_id, int32_t partition, int64_t lease_ms);
/* Acquires a partition that must be free. */
struct owner own(struct store *store, int64_t subscription_id, int32_t partition);
hf_status give_back(const struct owner *owner);
hf_status settle(struct owner *owner, int64_t checkpoint, struct outcome *outcomes, size_t count);
/* SETTLE(owner, checkpoint, done(...), held(...)) */
#define SETTLE(owner, checkpoint, ...)                                                             \
    settle((owner), (checkpoint), (struct outcome[]){__VA_ARGS__},                                 \
           sizeof((struct outcome[]){__VA_ARGS__}) / sizeof(struct outcome))

struct outcome done(int64_t position, const char *key);
struct outcome held(int64_t position, const char *key);
/* One failed attempt. */
struct outcome retry(int64_t position, const char *key, int64_t next_attempt_us);
/* Two failed attempts, reason "attempts", error "two". */
struct outcome dead(int64_t position, const char *key);
struct outcome block(int64_t position, const char *key);
/* The same outcome of a delivery that had a row in retries. */
struct outcome waited(struct outcome outcome);

/* ---- Shared: claiming ------------------------------------------------------------------------ */

/* A claim of everything; lease_ms LEASE_MS, neither bound nor kept. */
struct claim claim_of(int64_t subscription_id, int32_t max, int64_t now_us, struct batch *batch);
/* Claims into a new batch. */
struct claim take(struct fixture *fixture, struct store *store, int64_t subscription_id,
                  int32_t max, int64_t now_us);
/* Settles positions ("1 2 5") of a claim in one way; RETRY: one failed attempt, due at due_us. */
hf_status finish(struct store *store, const struct claim *claim, enum outcome_kind kind,
                 const char *positions, int64_t now_us, int64_t due_us);
/* Everything left is done. */
hf_status finish_all(struct store *store, const struct claim *claim, int64_t now_us);
/* At T0, its lease is made to last until then. */
hf_status lease_extend(struct store *store, const struct claim *claim, int64_t until_us);

/* ---- Questions ------------------------------------------------------------------------------- */

/* These answer positions as text, in a buffer that is good for a few calls. What the contract gives
 * in no order (ahead) is sorted; a position that comes twice is there twice. */
const char *list_batch(const struct batch *batch);
const char *list_due(struct store *store, int64_t subscription_id, int32_t partition,
                     int64_t now_us);
const char *list_ahead(struct store *store, int64_t subscription_id, int32_t partition,
                       int64_t checkpoint);
/* "ROWS ROWS ...": rows of the lanes of these letters, 0 for a lane that is not listed. */
const char *list_lanes(struct store *store, int64_t subscription_id, int32_t partition,
                       const char *letters);
/* Positions of dead letters, in the order of the listing. */
const char *list_dead(struct store *store, const struct dead_query *query);
struct dead_query dead_query_any(void);
/* The dead_id of the dead letter of this event; -1 if there is none. */
int64_t dead_id_of(struct store *store, int64_t position);

/* Copies the event at this position into a new batch. */
const struct entry *entry_at(struct fixture *fixture, struct store *store, int64_t position);
/* Where the event is; its story, if the test wants it. Texts of the facts stay with the story. */
struct delivery_facts facts_of(struct fixture *fixture, struct store *store,
                               int64_t subscription_id, int64_t position,
                               struct text *ret_attempts_json);
/* Milliseconds of the monotonic clock. */
int64_t mono_ms(void);

#endif
