/*
 * backlog.c - followers, and reading for those that are behind.
 *
 * A few threads take the followers of the backlog in turn. Each turn sends one piece of the log to
 * one of them, so that a follower that begins far back keeps none of the others waiting, and the
 * database is read by few at a time however many are behind. All events of the piece are read and
 * those that the follower does not want left out here: a search in the database for the next one
 * that matches could last as long as the log is.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/glob.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/follow/follower.h"

#define PIECE_EVENTS 256

/* ---- Followers ------------------------------------------------------------------------------- */

/* Copies words into memory of their own. False: there is none. */
static bool copy_words(const char *const *words, size_t count, struct text **ret_words)
{
    size_t bytes = count * sizeof **ret_words;
    struct text *copies;
    char *at;

    if (count == 0) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(words[i]) + 1;
    }
    copies = mem_alloc(bytes);
    if (!copies) {
        return false;
    }
    at = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        copies[i] = (struct text){at, strlen(words[i])};
        at = (char *)memcpy(at, words[i], copies[i].length + 1) + copies[i].length + 1;
    }
    *ret_words = copies;
    return true;
}

struct follower *follower_new(const struct follow_wish *wish)
{
    struct follower *follower = mem_calloc(1, sizeof *follower);

    if (!follower || !copy_words(wish->types, wish->type_count, &follower->types) ||
        !copy_words(wish->keys, wish->key_count, &follower->keys)) {
        follower_free(follower);
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    follower->type_count = wish->type_count;
    follower->key_count = wish->key_count;
    follower->form = wish->cloudevents ? FORM_CLOUDEVENT : FORM_NATIVE;
    follower->cursor = wish->after;
    follower->told = wish->after;
    follower->told_us = clock_mono_us();
    atomic_init(&follower->place, PLACE_QUEUED);
    atomic_init(&follower->gone, false);
    return follower;
}

void follower_free(struct follower *follower)
{
    if (follower) {
        stream_put(follower->stream);
        mem_free(follower->types);
        mem_free(follower->keys);
        mem_free(follower);
    }
}

bool follower_wants(const struct follower *follower, const char *type, const char *key)
{
    bool wanted = follower->type_count == 0;

    for (size_t i = 0; i < follower->type_count && !wanted; i++) {
        wanted = glob_match(follower->types[i], text_of(type));
    }
    if (!wanted || follower->key_count == 0) {
        return wanted;
    }
    for (size_t i = 0; i < follower->key_count; i++) {
        if (text_equal(follower->keys[i], text_of(key))) {
            return true;
        }
    }
    return false;
}

void follower_queue(struct follower *follower, enum place from)
{
    int expected = (int)from;

    if (atomic_compare_exchange_strong(&follower->place, &expected, PLACE_QUEUED)) {
        backlog_push(&follower->feed->all->backlog, follower);
    }
}

/* The hook `room` comes when nothing waits any more. If that was so before `place` was set, it does
 * not come again, which is why this looks once more. */
void follower_wait(struct follower *follower)
{
    atomic_store(&follower->place, PLACE_WAITING);
    if (stream_queued(follower->stream) == 0 && !atomic_load(&follower->gone)) {
        follower_queue(follower, PLACE_WAITING);
    }
}

/* Whether more can be sent to its client, as soon as what waits has left. */
static bool has_room(const struct follower *follower)
{
    if (stream_queued(follower->stream) <= FOLLOW_QUEUE_BYTES) {
        return true;
    }
    stream_flush(follower->stream);
    return stream_queued(follower->stream) <= FOLLOW_QUEUE_BYTES;
}

bool follower_send(struct follower *follower, const struct record *record)
{
    if (record->position <= follower->cursor) {
        return true;
    }
    if (!record->type || follower_wants(follower, record->type, record->key)) {
        struct message *message = record->messages[follower->form];
        if (!message) {
            atomic_store(&follower->place, PLACE_IDLE); /* it is read for alone until it is past */
            return false;
        }
        if (!has_room(follower)) {
            follower_wait(follower);
            return false;
        }
        if (!stream_append(follower->stream, message)) {
            atomic_store(&follower->place, PLACE_WAITING); /* for `gone` */
            return false;
        }
        follower->told = record->position;
        follower->told_us = clock_mono_us();
    }
    follower->cursor = record->position;
    return true;
}

/* ---- The backlog ----------------------------------------------------------------------------- */

void backlog_init(struct backlog *backlog)
{
    *backlog = (struct backlog){.first = NULL};
    pthread_mutex_init(&backlog->mutex, NULL);
    pthread_cond_init(&backlog->filled, NULL);
    backlog->last = &backlog->first;
}

void backlog_push(struct backlog *backlog, struct follower *follower)
{
    pthread_mutex_lock(&backlog->mutex);
    follower->after_it = NULL;
    *backlog->last = follower;
    backlog->last = &follower->after_it;
    pthread_cond_signal(&backlog->filled);
    pthread_mutex_unlock(&backlog->mutex);
}

/* The next one; NULL: it stops. */
static struct follower *take(struct backlog *backlog)
{
    struct follower *follower;

    pthread_mutex_lock(&backlog->mutex);
    while (!backlog->first && !backlog->stopping) {
        pthread_cond_wait(&backlog->filled, &backlog->mutex);
    }
    follower = backlog->stopping ? NULL : backlog->first;
    if (follower) {
        backlog->first = follower->after_it;
        backlog->last = backlog->first ? backlog->last : &backlog->first;
    }
    pthread_mutex_unlock(&backlog->mutex);
    return follower;
}

void backlog_stop(struct backlog *backlog)
{
    pthread_mutex_lock(&backlog->mutex);
    backlog->stopping = true;
    pthread_cond_broadcast(&backlog->filled);
    pthread_mutex_unlock(&backlog->mutex);
}

void backlog_release(struct backlog *backlog)
{
    pthread_cond_destroy(&backlog->filled);
    pthread_mutex_destroy(&backlog->mutex);
}

/* ---- Reading for one ------------------------------------------------------------------------- */

/* A piece of the log for a follower. */
struct piece {
    struct follower *follower;
    bool waits;       /* the follower has become WAITING */
    hf_status status; /* HF_NOMEM: not even one message could be made */
};

static void send_record(struct piece *piece, struct record *record)
{
    if (!record) {
        piece->status = HF_NOMEM;
        return;
    }
    piece->waits = !follower_send(piece->follower, record);
    record_free(record);
}

static int send_event(const hf_event *event, void *ctx)
{
    struct piece *piece = ctx;
    struct follower *follower = piece->follower;

    if (!follower_wants(follower, event->type, event->key)) {
        follower->cursor = event->position;
        return 0;
    }
    send_record(piece, record_new(event, 1U << follower->form));
    return piece->waits || piece->status;
}

static void read_for(struct follower *follower)
{
    struct piece piece = {.follower = follower};
    int64_t before = follower->cursor;
    int64_t cursor = before;
    hf_status status;

    if (atomic_load(&follower->gone)) {
        atomic_store(&follower->place, PLACE_WAITING);
        return;
    }
    if (feed_take(follower->feed, follower)) {
        return;
    }
    status = hf_read(follower->feed->bus, NULL, PIECE_EVENTS, 0, &cursor, send_event, &piece);
    if (status == HF_CORRUPT && !piece.waits) {
        send_record(&piece, record_of_damage(cursor + 1, status));
        cursor = piece.waits ? cursor : cursor + 1;
    }
    if (piece.waits) {
        return; /* it is not ours any more */
    }
    stream_flush(follower->stream);
    if (!status && !piece.status && cursor > follower->cursor) {
        follower->cursor = cursor;
    }
    if (follower->cursor > before) {
        backlog_push(&follower->feed->all->backlog, follower);
    } else {
        atomic_store(&follower->place, PLACE_IDLE);
    }
}

void *backlog_run(void *ctx)
{
    struct backlog *backlog = ctx;
    struct follower *follower;

    while ((follower = take(backlog))) {
        read_for(follower);
    }
    return NULL;
}
