/*
 * feed.c - the end of the log of one namespace, read once for all that follow it.
 *
 * The thread of a feed waits for events in hf_read, makes a record of each, sends the records to
 * all followers that are at the tail, and keeps the last ones in a ring, so that one that was read
 * for alone finds there what it has missed meanwhile. `low` is the position of the newest record
 * that the ring has given up: a follower that has everything up to there can go on with the ring.
 *
 * Between two reads the thread frees followers whose clients are gone. A follower that has asked
 * for certain events gets the id of the place where it is every TOLD_MS, without an event, so that
 * its client need not begin far back when it connects again.
 *
 * What a message to a thousand clients costs is the writing to a thousand sockets, so events that
 * come shortly after one another are sent together if
 * there are more than PACE_FOLLOWERS: PACE_US for each of them after what was sent last, and at
 * most PACE_MAX_US.
 *
 * A feed whose last follower is gone ends after KEPT_MS. If the log cannot be read the feed tries
 * again; clients stay connected, and get comments (http/stream.h). If it never can be again, as
 * after the namespace was removed, the streams are ended; clients connect again and are told why.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/follow/follower.h"

#define READ_BYTES 1048576 /* of one read */
#define READ_WAIT_MS 500   /* for news; then the thread looks whether it should end */
#define TOLD_MS 15000
#define KEPT_MS 10000
#define RETRY_MS 1000     /* after a failure */
#define PACE_FOLLOWERS 50 /* so few are sent everything at once */
#define PACE_US 40
#define PACE_MAX_US 100000

/* ---- The ring; the mutex is held ------------------------------------------------------------- */

static struct record *ring_at(struct feed *feed, size_t i)
{
    return feed->ring[(feed->ring_first + i) % RING_RECORDS];
}

static void ring_drop_first(struct feed *feed)
{
    struct record *record = ring_at(feed, 0);

    feed->low = record->position;
    feed->ring_bytes -= record->bytes;
    feed->ring_first = (feed->ring_first + 1) % RING_RECORDS;
    feed->ring_count--;
    record_free(record);
}

static void ring_add(struct feed *feed, struct record *record)
{
    if (feed->ring_count == RING_RECORDS) {
        ring_drop_first(feed);
    }
    feed->ring[(feed->ring_first + feed->ring_count) % RING_RECORDS] = record;
    feed->ring_count++;
    feed->ring_bytes += record->bytes;
    while (feed->ring_bytes > RING_BYTES) {
        ring_drop_first(feed);
    }
}

bool feed_take(struct feed *feed, struct follower *follower)
{
    bool at_tail;

    pthread_mutex_lock(&feed->mutex);
    at_tail = feed->ready && follower->cursor >= feed->low;
    for (size_t i = 0; i < feed->ring_count && at_tail; i++) {
        const struct record *record = ring_at(feed, i);
        at_tail = record->position <= follower->cursor || record->messages[follower->form];
    }
    if (at_tail) {
        size_t i = 0;
        while (i < feed->ring_count && follower_send(follower, ring_at(feed, i))) {
            i++;
        }
        stream_flush(follower->stream);
        if (i == feed->ring_count) {
            atomic_store(&follower->place, PLACE_AT_TAIL);
        }
    }
    pthread_mutex_unlock(&feed->mutex);
    return at_tail;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void add_fresh(struct feed *feed, struct record *record)
{
    feed->fresh[feed->fresh_count++] = record;
    feed->fresh_bytes += record->bytes;
}

static int take_event(const hf_event *event, void *ctx)
{
    struct feed *feed = ctx;
    struct record *record = record_new(event, atomic_load(&feed->forms));

    if (!record) {
        feed->short_of_memory = true;
        return 1;
    }
    add_fresh(feed, record);
    return feed->fresh_bytes > READ_BYTES;
}

/* Sends what was read to those that are at the tail, and keeps it. Answers how many these are. */
static size_t pass_on(struct feed *feed, int64_t cursor)
{
    size_t followers = 0;

    pthread_mutex_lock(&feed->mutex);
    for (struct follower *follower = feed->first; follower; follower = follower->next) {
        size_t i = 0;
        if (atomic_load(&follower->place) != PLACE_AT_TAIL) {
            continue;
        }
        while (i < feed->fresh_count && follower_send(follower, feed->fresh[i])) {
            i++;
        }
        stream_flush(follower->stream);
        followers++;
    }
    for (size_t i = 0; i < feed->fresh_count; i++) {
        ring_add(feed, feed->fresh[i]);
    }
    feed->cursor = cursor;
    pthread_mutex_unlock(&feed->mutex);
    return followers;
}

/* Reads on, and passes on what it was. ret_sent: to how many. */
static hf_status read_on(struct feed *feed, size_t *ret_sent)
{
    int64_t cursor = feed->cursor;
    hf_status status;

    feed->fresh_count = 0;
    feed->fresh_bytes = 0;
    feed->short_of_memory = false;
    status = hf_read(feed->bus, NULL, FEED_READ_EVENTS, READ_WAIT_MS, &cursor, take_event, feed);
    if (feed->short_of_memory) { /* the next read begins with the event that had no room */
        cursor =
            feed->fresh_count > 0 ? feed->fresh[feed->fresh_count - 1]->position : feed->cursor;
        status = HF_NOMEM;
    } else if (status == HF_CORRUPT) {
        struct record *record = record_of_damage(cursor + 1, status);
        if (record) {
            add_fresh(feed, record);
            cursor++;
            status = HF_OK;
        }
    }
    if (cursor > feed->cursor) {
        *ret_sent = pass_on(feed, cursor);
    }
    return status;
}

/* Where it begins: at the end. */
static hf_status find_end(struct feed *feed)
{
    int64_t end = 0;
    hf_status status = hf_locate(feed->bus, (hf_place){HF_PLACE_NOW, -1}, &end);

    if (!status) {
        pthread_mutex_lock(&feed->mutex);
        feed->cursor = end;
        feed->low = end;
        feed->ready = true;
        pthread_mutex_unlock(&feed->mutex);
    }
    return status;
}

/* ---- Looking after followers ----------------------------------------------------------------- */

/* Frees it if its client is gone and no thread reads for it. */
static bool let_go(struct follower *follower)
{
    static const enum place places[] = {PLACE_AT_TAIL, PLACE_WAITING, PLACE_IDLE};

    for (size_t i = 0; atomic_load(&follower->gone) && i < sizeof places / sizeof *places; i++) {
        int place = (int)places[i];
        if (atomic_compare_exchange_strong(&follower->place, &place, PLACE_OVER)) {
            follower_free(follower);
            return true;
        }
    }
    return false;
}

/* Tells a client where it is, if it was not told for long. The mutex is held. */
static void tell_place(struct feed *feed, struct follower *follower, int64_t now_us)
{
    char id[24];
    struct message *message;

    if (atomic_load(&follower->place) != PLACE_AT_TAIL || feed->cursor <= follower->told ||
        now_us - follower->told_us < TOLD_MS * INT64_C(1000)) {
        return;
    }
    snprintf(id, sizeof id, "%" PRId64, feed->cursor);
    message = message_new(id, NULL, TEXT_ABSENT);
    if (message && stream_queued(follower->stream) <= FOLLOW_QUEUE_BYTES) {
        stream_send(follower->stream, message);
    }
    message_put(message);
    follower->told = feed->cursor;
    follower->told_us = now_us;
}

/* Between two reads. */
static void look_after(struct feed *feed)
{
    struct follower **at = &feed->first;
    int64_t now_us = clock_mono_us();

    pthread_mutex_lock(&feed->mutex);
    while (*at) {
        struct follower *follower = *at;
        struct follower *next = follower->next;
        if (let_go(follower)) {
            *at = next;
            continue;
        }
        tell_place(feed, follower, now_us);
        follower_queue(follower, PLACE_IDLE);
        at = &follower->next;
    }
    pthread_mutex_unlock(&feed->mutex);
}

static void end_streams(struct feed *feed)
{
    pthread_mutex_lock(&feed->mutex);
    for (struct follower *follower = feed->first; follower; follower = follower->next) {
        stream_end(follower->stream);
    }
    pthread_mutex_unlock(&feed->mutex);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Is it to end? If so, no follower comes to it any more. */
static bool is_over(struct feed *feed)
{
    struct followers *all = feed->all;
    int64_t now_us = clock_mono_us();
    bool over;

    pthread_mutex_lock(&all->mutex);
    pthread_mutex_lock(&feed->mutex);
    if (feed->first || feed->coming > 0) {
        feed->used_us = now_us;
    }
    pthread_mutex_unlock(&feed->mutex);
    over = all->stopping || now_us - feed->used_us > KEPT_MS * INT64_C(1000);
    if (over) {
        feed->state = FEED_ENDED;
    }
    pthread_mutex_unlock(&all->mutex);
    return over;
}

/* Does nothing for a while, unless the server stops. */
static void pause_for(struct feed *feed, int64_t us)
{
    struct deadline deadline = {clock_mono_us() + us};

    pthread_mutex_lock(&feed->all->mutex);
    while (!feed->all->stopping &&
           cond_wait_until(&feed->all->changed, &feed->all->mutex, deadline)) {
    }
    pthread_mutex_unlock(&feed->all->mutex);
}

/* Can it never be read again? */
static bool is_final(hf_status status)
{
    return status == HF_NOTFOUND || status == HF_CLOSED || status == HF_SCHEMA ||
           status == HF_DENIED;
}

static void release(struct feed *feed)
{
    while (feed->ring_count > 0) {
        ring_drop_first(feed);
    }
    buses_put(feed->all->buses, feed->bus);
    feed->bus = NULL;
}

static void *run_feed(void *ctx)
{
    struct feed *feed = ctx;

    while (!is_over(feed)) {
        size_t sent = 0;
        hf_status status = feed->ready ? read_on(feed, &sent) : find_end(feed);
        if (is_final(status)) {
            end_streams(feed);
        }
        look_after(feed);
        if (status) {
            pause_for(feed, RETRY_MS * INT64_C(1000));
        } else if (sent > PACE_FOLLOWERS) {
            int64_t pace_us = (int64_t)sent * PACE_US;
            pause_for(feed, pace_us < PACE_MAX_US ? pace_us : PACE_MAX_US);
        }
    }
    if (!feed->first) { /* else a thread of the backlog may read */
        release(feed);
    }
    return NULL;
}

/* ---- Starting and ending --------------------------------------------------------------------- */

hf_status feed_start(struct feed *feed, const char *name)
{
    hf_status status = buses_get(feed->all->buses, name, &feed->bus);

    if (status) {
        return status;
    }
    snprintf(feed->name, sizeof feed->name, "%s", name);
    feed->ready = false;
    atomic_store(&feed->forms, 0);
    feed->used_us = clock_mono_us();
    status = thread_start(&feed->thread, "hf-feed", run_feed, feed);
    if (status) {
        buses_put(feed->all->buses, feed->bus);
        return status;
    }
    feed->state = FEED_RUNS;
    return HF_OK;
}

void feed_join(struct feed *feed)
{
    pthread_join(feed->thread, NULL);
    while (feed->first) {
        struct follower *follower = feed->first;
        feed->first = follower->next;
        follower_free(follower);
    }
    if (feed->bus) {
        release(feed);
    }
    feed->state = FEED_FREE;
}
