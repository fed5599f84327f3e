/*
 * reader.c - the log's reading end.
 *
 * Positions become visible out of order, or never, so a reader has two memories: the gap proof
 * (base/gap.h), which knows what was seen and what is missing below it, and a queue of events that
 * were read and not handed up yet. When the queue has nothing to hand up the reader fetches, in one
 * round trip and one transaction of three statements:
 *
 *   settings   that make the plans what they must be
 *   tail       what is visible after the highest position seen
 *   holes      what has become visible of the missing numbers
 *
 * in this order (fetch.c): an event that was acknowledged before another one was published is
 * visible when the tail shows the other one, so if it fills a hole, the holes, read later, show it,
 * and it is handed up first. In strict order nothing is handed up beyond the lowest hole. The floor
 * is below the lowest hole and below the first event in the queue.
 *
 * The proof needs looks at the lock's holders; probe.c makes them while there are holes.
 *
 * If few of many rows are wanted, no hole is open, and the namespace has an index on types, the
 * reader goes on by that: up to a position at or below which nothing can become visible any more
 * (types.h), so what is missing there is decided without being seen.
 *
 * A reader has no session: it borrows one of the pool for each call that asks the server something,
 * whichever is free. What was read is true only for the life of the server: one that crashes
 * forgets whose transactions had which names, and may give the same positions again. So a reader
 * belongs to an era (era.h), and puts together only what was seen through sessions of it. When the
 * pool gives it one of another era the reader is over: HF_UNAVAILABLE once, then HF_STALE. The
 * caller opens another one at its checkpoint. A connection that is lost while the server lives on
 * costs nothing but the answer that was waited for. Behind a pooler a connection says nothing about
 * the server, so the server is asked with every fetch when it was started, in the same transaction,
 * and a lost connection ends the reader.
 *
 * Memory: one fetch is bounded in rows, and rows in bytes, because texts above READ_LARGE_BYTES are
 * fetched when they are handed up (queries/read.sql).
 */
#include "store/postgres/read/reader.h"

#include "base/err.h"
#include "base/gap.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/common/filter.h"
#include "store/postgres/postgres.h"
#include "store/postgres/read/ahead.h"
#include "store/postgres/read/fetch.h"
#include "store/postgres/read/probe.h"
#include "store/postgres/read/types.h"
#include "store/postgres/read/wanted.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

#define READ_ROWS_FIRST 64     /* rows of the first fetch, unless more are wanted; it grows */
#define READ_ROWS_MAX 4096     /* rows of the largest fetch */
#define READ_BYTES_MAX 4194304 /* a fetch that is larger than this does not grow */
#define READ_LARGE_BYTES 16384 /* as in queries/read.sql */
#define READ_QUEUE_MAX 8192    /* strict order: then only what is missing below is fetched */

#define TYPED_ROWS_MAX 512 /* by the index on types at once */
#define TYPED_WAIT_MS 20   /* for publishers that are under way */
#define TYPED_PAUSE_MS 250 /* until it is tried again, if it did not help */

enum cut {
    CUT_TAIL = 1 << 0, /* the tail was as long as a fetch may be */
    CUT_LATE = 1 << 1, /* so was what the holes have shown */
    CUT_RARE = 1 << 2, /* few rows of that tail were wanted */
};

struct postgres_reader {
    struct reader head;      /* first: engine.h */
    struct session *session; /* borrowed; NULL between calls */
    struct reader_life life; /* in which all was read; its parts are 0 until they are known */
    bool over;               /* its era is, or may be */
    bool strict;
    bool watching;    /* the prober knows of our holes */
    bool told_full;   /* the log knows that there are too many holes */
    int64_t typed_us; /* the index on types is not asked again before this */
    int64_t gap_timeout_us;
    int64_t vain_us; /* when we looked ourselves and it did not help; -1: it did */
    struct gap gap;
    struct queue queue;
    int64_t barrier;          /* relaxed: nothing beyond is handed up, because holes before it were
                                not read as a whole */
    unsigned cut;             /* enum cut: of what there may be more than the last fetch brought */
    int64_t rows;             /* of the next fetch */
    struct wanted wanted;     /* of the filter that the queue was read by */
    struct ahead_fetch ahead; /* what was asked for ahead, if its limit is not 0 */
    bool plain;               /* the server does not take our regular expressions */
    struct gap_run *runs;     /* of the present fetch */
    int64_t *found;
    size_t scratch_count; /* room in both */
};

static struct postgres_reader *reader_of(struct reader *reader)
{
    return (struct postgres_reader *)reader;
}

static void set_cut(struct postgres_reader *reader, enum cut cut, bool on)
{
    reader->cut = on ? reader->cut | cut : reader->cut & ~(unsigned)cut;
}

static struct postgres_engine *engine_of(const struct postgres_reader *reader)
{
    return postgres_of(reader->head.engine);
}

/* ---- The session ----------------------------------------------------------------------------- */

static hf_status lose(struct postgres_reader *reader)
{
    reader->over = true;
    return fail(HF_UNAVAILABLE,
                "%s: the server that the log was read from may have been restarted since",
                engine_of(reader)->place);
}

/* Borrows a session for the rest of the call. */
static hf_status borrow(struct postgres_reader *reader)
{
    if (reader->session) {
        return HF_OK;
    }
    hf_status status = session_take(engine_of(reader), &reader->session);
    if (status) {
        return status;
    }
    if (reader->life.era == 0) {
        reader->life.era = reader->session->era;
    }
    return reader->session->era == reader->life.era ? HF_OK : lose(reader);
}

static void give_back(struct postgres_reader *reader)
{
    session_give(engine_of(reader), reader->session);
    reader->session = NULL;
}

/* After an answer, or none: whether the session still is what it was when it was borrowed. */
static hf_status check_session(struct postgres_reader *reader, hf_status status)
{
    struct session *session = reader->session;
    if (!session_is_lost(session)) {
        return session->era == reader->life.era ? status : lose(reader);
    }
    give_back(reader);
    if (reader->life.started_us != 0) { /* a pooler */
        return lose(reader);
    }
    return status ? status
                  : fail(HF_UNAVAILABLE, "%s: the connection was lost", engine_of(reader)->place);
}

/* Behind a pooler: whether the server that has answered is the one of the answers before. */
static hf_status check_server(struct postgres_reader *reader, const struct fetch *fetch)
{
    if (!fetch->start_row) {
        return HF_OK;
    }
    int64_t start_us = result_time(fetch->start_row->result, 0, 0, 0);
    if (reader->life.started_us == 0) {
        reader->life.started_us = start_us;
    }
    return start_us == reader->life.started_us ? HF_OK : lose(reader);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A fetch of so many rows, by the present filter. */
static struct fetch fetch_of(const struct postgres_reader *reader, int64_t limit)
{
    const struct wanted *wanted = &reader->wanted;
    return (struct fetch){
        .limit = limit,
        .regex = wanted->regex.length > 0 ? buf_text(&wanted->regex) : TEXT_ABSENT,
        .owned = {.total = wanted->partitions, .bits = wanted->owned},
    };
}

static hf_status ask(struct postgres_reader *reader, struct fetch *fetch)
{
    hf_status status = borrow(reader);
    if (status) {
        return status;
    }
    struct session *session = reader->session;
    fetch->asks_start = session_has(session, SESSION_POOLED);
    status = fetch_run(fetch, session);
    if (status &&
        (strcmp(session->sqlstate, "2201B") == 0 || strncmp(session->sqlstate, "54", 2) == 0)) {
        reader->plain = true; /* its limits are lower than ours: the next call asks for all */
    }
    status = check_session(reader, status);
    return status ? status : check_server(reader, fetch);
}

/* Asks for what comes after this, if nothing else will have to be asked with it. */
static void ask_ahead(struct postgres_reader *reader)
{
    if (reader->gap.count > 0 || reader->cut != CUT_TAIL || reader->life.started_us != 0) {
        return;
    }
    struct fetch fetch = fetch_of(reader, reader->rows);
    fetch.tail = true;
    fetch.many = true;
    fetch.after = reader->gap.high;
    ahead_ask(engine_of(reader)->ahead, &reader->ahead, &fetch, reader->life.era);
}

/* ---- Taking what was read -------------------------------------------------------------------- */

/* Everything that may fail for want of memory, before anything is taken. */
static hf_status make_room(struct postgres_reader *reader, const struct fetch *fetch)
{
    size_t tail = rows_of(fetch->tail_rows);
    size_t late = rows_of(fetch->late_rows);
    size_t needed = tail > late ? tail : late;
    if (needed > reader->scratch_count) {
        struct gap_run *runs = mem_realloc(reader->runs, needed * sizeof *runs);
        reader->runs = runs ? runs : reader->runs;
        int64_t *found = mem_realloc(reader->found, needed * sizeof *found);
        reader->found = found ? found : reader->found;
        if (!runs || !found) {
            return fail(HF_NOMEM, "no memory to read %zu events", needed);
        }
        reader->scratch_count = needed;
    }
    return queue_reserve(&reader->queue, tail + late);
}

static hf_status take_late(struct postgres_reader *reader, struct fetch *fetch,
                           const struct proof *proof)
{
    const PGresult *result = fetch->late_rows->result;
    int rows = PQntuples(result);
    for (int row = 0; row < rows; row++) {
        reader->found[row] = position_at(result, row);
        if (row > 0 && reader->found[row] <= reader->found[row - 1]) {
            return fail(HF_CORRUPT, "%s did not read gaps in order", engine_of(reader)->place);
        }
    }
    bool cut = rows == fetch->limit;
    bool all = fetch->hole_count == reader->gap.count;
    int64_t through = cut   ? reader->found[rows - 1]
                      : all ? INT64_MAX
                            : reader->gap.holes[fetch->hole_count - 1].last;
    bool same = proof_is_of(proof, reader->life);
    int64_t skipped = reader->gap.skipped;
    int64_t floor = gap_floor(&reader->gap);
    int64_t taken = 0;
    hf_status status =
        gap_reread(&reader->gap, reader->found, (size_t)rows, through,
                   same ? proof->look : (struct gap_look){0, UINT64_MAX}, clock_mono_us(),
                   proof->blind ? reader->gap_timeout_us : 0, &taken);
    if (status) {
        return status;
    }
    if (reader->gap.skipped != skipped) {
        atomic_fetch_add(&engine_of(reader)->gap_timeouts, reader->gap.skipped - skipped);
        log_about(engine_of(reader)->log, HF_LOG_WARN, NULL,
                  "gap_timeout: gave up on %lld missing positions between %lld and %lld (%lld so "
                  "far); events that slow transactions commit there are not delivered",
                  (long long)(reader->gap.skipped - skipped), (long long)floor + 1,
                  (long long)gap_floor(&reader->gap), (long long)reader->gap.skipped);
    }
    reader->barrier = taken < through ? taken : through;
    set_cut(reader, CUT_LATE, cut && taken >= through);
    if (rows > 0) {
        bool behind = queue_count(&reader->queue) > 0;
        fetched_queue(fetch->late_rows, &reader->queue, taken);
        if (behind) {
            queue_sort(&reader->queue);
        }
    }
    return HF_OK;
}

/* The next fetch is as large as it may be. */
static void adapt_rows(struct postgres_reader *reader, const struct fetched *rows, bool cut)
{
    int64_t bytes = fetched_bytes(rows, READ_LARGE_BYTES);
    if (bytes > READ_BYTES_MAX && reader->rows > 1) {
        reader->rows /= 2;
    } else if (cut && 2 * bytes < READ_BYTES_MAX) {
        reader->rows = 2 * reader->rows < READ_ROWS_MAX ? 2 * reader->rows : READ_ROWS_MAX;
    }
}

static hf_status take_tail(struct postgres_reader *reader, const struct filter *filter,
                           struct fetch *fetch, uint64_t begun)
{
    bool cut = rows_of(fetch->tail_rows) == (size_t)fetch->limit;
    size_t count = fetched_runs(fetch->tail_rows, reader->runs);
    size_t before = queue_count(&reader->queue);
    hf_status status = gap_tail(&reader->gap, reader->runs, count, begun, clock_mono_us());
    if (status) {
        return status;
    }
    bool whole = count == 0 || reader->gap.high == reader->runs[count - 1].last;
    if (!whole && !reader->told_full) {
        log_about(engine_of(reader)->log, HF_LOG_WARN, NULL,
                  "%d gaps are open below position %lld, so reading ahead stops until transactions "
                  "that have published end",
                  GAP_HOLES_MAX, (long long)reader->gap.high);
    }
    reader->told_full = !whole;
    set_cut(reader, CUT_TAIL, cut && whole);
    adapt_rows(reader, fetch->tail_rows, cut);
    fetched_queue(fetch->tail_rows, &reader->queue, reader->gap.high);
    int64_t wanted = (int64_t)(queue_count(&reader->queue) - before);
    set_cut(reader, CUT_RARE, cut && filter_is_sparse(filter, fetch->limit, wanted));
    return HF_OK;
}

/* Lets the prober know what we wait for. */
static hf_status watch(struct postgres_reader *reader)
{
    struct prober *prober = engine_of(reader)->prober;
    hf_status status = HF_OK;
    if (reader->gap.count == 0) {
        if (reader->watching) {
            prober_unwatch(prober);
            reader->watching = false;
        }
        return HF_OK;
    }
    if (reader->gap.holes[reader->gap.count - 1].witness == 0) {
        prober_ask(prober);
    }
    if (!reader->watching) {
        status = prober_watch(prober);
        reader->watching = status == HF_OK;
    }
    return status;
}

/* How many holes to read again. While strict order keeps many events waiting, what would have to
 * wait behind them is not fetched. */
static size_t holes_wanted(const struct postgres_reader *reader)
{
    size_t count = reader->gap.count;
    if (queue_count(&reader->queue) >= READ_QUEUE_MAX) {
        int64_t before = reader->queue.items[reader->queue.first].position;
        while (count > 1 && reader->gap.holes[count - 1].first > before) {
            count--;
        }
    }
    return count;
}

/* Fetches the events at these positions. All up to typed->through is decided. */
static hf_status take_typed(struct postgres_reader *reader, const struct typed *typed)
{
    struct fetch fetch = fetch_of(reader, (int64_t)typed->count);
    fetch.many = true;
    fetch.holes = typed->places;
    fetch.hole_count = typed->count;
    hf_status status = typed->count > 0 ? ask(reader, &fetch) : HF_OK;
    if (!status && era_now(engine_of(reader)) != reader->life.era) {
        status = lose(reader); /* what was decided was so in this era */
    }
    if (!status) {
        status = make_room(reader, &fetch);
    }
    if (!status) {
        gap_pass(&reader->gap, typed->through);
        if (fetch.late_rows) {
            fetched_queue(fetch.late_rows, &reader->queue, typed->through);
        }
    }
    fetch_release(&fetch);
    return status;
}

/* Reads on by the index on types, if that helps. */
static hf_status fetch_typed(struct postgres_reader *reader, const struct filter *filter,
                             bool *ret_used)
{
    struct typed typed = {0};
    give_back(reader);
    hf_status status = types_find(reader->head.engine, filter, reader->gap.high, TYPED_ROWS_MAX,
                                  TYPED_WAIT_MS, &typed, ret_used);
    if (!status && *ret_used) {
        status = take_typed(reader, &typed);
        set_cut(reader, CUT_RARE, typed.count == TYPED_ROWS_MAX);
        set_cut(reader, CUT_TAIL, true);
    } else if (!status) {
        reader->typed_us = clock_mono_us() + TYPED_PAUSE_MS * INT64_C(1000);
    }
    mem_free(typed.places);
    return status;
}

/* Behind a pooler it is not known which server says what is decided. */
static bool may_use_types(const struct postgres_reader *reader)
{
    return (reader->cut & CUT_RARE) && reader->gap.count == 0 && queue_count(&reader->queue) == 0 &&
           reader->life.started_us == 0 && clock_mono_us() >= reader->typed_us;
}

static hf_status fetch_more(struct postgres_reader *reader, const struct filter *filter)
{
    bool typed = false;
    hf_status status = may_use_types(reader) ? fetch_typed(reader, filter, &typed) : HF_OK;
    if (status || typed) {
        return status;
    }
    struct prober *prober = engine_of(reader)->prober;
    struct proof proof = prober_proof(prober); /* before the questions are sent */
    struct fetch fetch = fetch_of(reader, reader->rows);
    fetch.tail = queue_count(&reader->queue) == 0 && reader->gap.count < GAP_HOLES_MAX;
    fetch.many = reader->cut & CUT_TAIL;
    fetch.after = reader->gap.high;
    fetch.holes = reader->gap.holes;
    fetch.hole_count = holes_wanted(reader);
    bool answered = ahead_take(engine_of(reader)->ahead, &reader->ahead, &fetch);
    status = answered ? HF_OK : ask(reader, &fetch);
    uint64_t begun = prober_begun(prober); /* after the answers have come */
    if (!status) {
        status = make_room(reader, &fetch);
    }
    if (!status) {
        reader->barrier = INT64_MAX;
        set_cut(reader, CUT_LATE, false);
    }
    if (!status && fetch.late_rows) {
        status = take_late(reader, &fetch, &proof);
    }
    if (!status && fetch.tail_rows) {
        status = take_tail(reader, filter, &fetch, begun);
    } else if (!status) {
        set_cut(reader, CUT_TAIL, reader->gap.count < GAP_HOLES_MAX); /* it is still to be read */
    }
    if (!status) {
        status = watch(reader);
    }
    fetch_release(&fetch);
    return status;
}

/*
 * In strict order events wait behind a hole. Most holes are old: no transaction that might fill it
 * is open. So it looks at once and does not wait for the prober, whose news would come too late
 * for a caller that reads only once; but not again and again while it does not help.
 */
static bool may_look(const struct postgres_reader *reader, int64_t now_us)
{
    return reader->strict && reader->gap.count > 0 && queue_count(&reader->queue) > 0 &&
           (reader->vain_us < 0 || now_us - reader->vain_us >= PROBE_PERIOD_MS * INT64_C(1000));
}

static hf_status look_and_fetch(struct postgres_reader *reader, const struct filter *filter,
                                int64_t now_us)
{
    int64_t floor = gap_floor(&reader->gap);
    hf_status status = borrow(reader);
    if (status) {
        return status;
    }
    bool looked = prober_look(engine_of(reader)->prober, reader->session) == HF_OK;
    status = check_session(reader, HF_OK);
    if (!status && looked) { /* a look that fails proves nothing */
        status = fetch_more(reader, filter);
    }
    reader->vain_us = gap_floor(&reader->gap) == floor ? now_us : -1;
    return status;
}

/* Puts the rows of a portion that are not in a hole: those come when the holes are read. Answers
 * the position that the next portion begins at. */
static hf_status take_again(struct postgres_reader *reader, struct fetched *rows,
                            struct queue *queue, int64_t *ret_next)
{
    int count = PQntuples(rows->result);
    hf_status status = queue_reserve(queue, (size_t)count);
    for (int row = 0; row < count && !status; row++) {
        int64_t position = position_at(rows->result, row);
        if (!result_is_null(rows->result, row, READ_BYTES_COLUMN) &&
            !gap_is_open(&reader->gap, position)) {
            queue_put(queue, rows, row, position,
                      result_int8(rows->result, row, READ_BYTES_COLUMN, 0));
        }
        *ret_next = position + 1;
    }
    return status;
}

/* The filter has changed: what is in the queue was read by another one, so it is read again, in
 * portions, because what has become visible in holes between may be any number of events. */
static hf_status read_queue_again(struct postgres_reader *reader)
{
    struct gap_hole range = {
        .first = queue_at(&reader->queue, 0)->position,
        .last = reader->gap.high,
    };
    struct queue again = {0};
    hf_status status = HF_OK;
    for (bool more = true; more && !status;) {
        struct fetch fetch = fetch_of(reader, reader->rows);
        fetch.many = true;
        fetch.holes = &range;
        fetch.hole_count = 1;
        status = ask(reader, &fetch);
        if (!status) {
            more = rows_of(fetch.late_rows) == (size_t)fetch.limit;
            status = take_again(reader, fetch.late_rows, &again, &range.first);
        }
        more = more && range.first <= range.last;
        fetch_release(&fetch);
    }
    struct queue old = reader->queue;
    if (!status) {
        reader->queue = again;
        again = old;
    }
    queue_release(&again);
    return status;
}

/* ---- Handing up ------------------------------------------------------------------------------ */

/* How many of the queue may be handed up. */
static size_t count_ready(struct postgres_reader *reader, const struct filter *filter, size_t max)
{
    int64_t through = gap_ready(&reader->gap, reader->strict);
    if (!reader->strict && reader->barrier < through) {
        through = reader->barrier;
    }
    if (filter->through > 0 && filter->through < through) {
        through = filter->through;
    }
    size_t count = queue_count(&reader->queue);
    count = count < max ? count : max;
    while (count > 0 && queue_at(&reader->queue, count - 1)->position > through) {
        count--;
    }
    return count;
}

/* Puts the large events among the first `count` where they can be handed up, as many as one batch
 * holds. Answers how many of the queue are ready then. */
static hf_status fetch_large(struct postgres_reader *reader, size_t count, size_t *ret_count)
{
    int64_t bytes = 0;
    struct fetch fetch = fetch_of(reader, 0);
    hf_status status = HF_OK;
    int64_t *positions = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct queued *queued = queue_at(&reader->queue, i);
        if (i > 0 && bytes >= STORE_BATCH_BYTES_MAX) {
            count = i;
            break;
        }
        bytes += queued->bytes;
        if (queued->bytes <= READ_LARGE_BYTES) {
            continue;
        }
        if (!positions) {
            positions = mem_alloc(count * sizeof *positions);
            if (!positions) {
                return fail(HF_NOMEM, "no memory to read %zu events", count);
            }
        }
        positions[fetch.position_count++] = queued->position;
    }
    fetch.positions = positions;
    if (fetch.position_count > 0) {
        status = ask(reader, &fetch);
    }
    if (!status && fetch.large_rows) {
        fetched_complete(&fetch, &reader->queue, count);
    }
    fetch_release(&fetch);
    mem_free(positions);
    *ret_count = count;
    return status;
}

static hf_status hand_up(struct postgres_reader *reader, const struct filter *filter, size_t count,
                         struct batch *batch)
{
    size_t first = batch->count;
    size_t done = 0;
    for (; done < count && !(batch->count > first && batch_full(batch)); done++) {
        const struct queued *queued = queue_at(&reader->queue, done);
        if (queued->row < 0) {
            continue;
        }
        const PGresult *result = queued->from->result;
        if (!filter_owns(filter, result_int8(result, queued->row, EVENT_HASH, 0))) {
            continue;
        }
        bool wanted = filter_matches(filter, result_text(result, queued->row, EVENT_TYPE));
        if (!wanted && !filter->unhandled_too) {
            continue;
        }
        struct entry *entry;
        hf_status status = event_push(batch, result, queued->row, 0, &entry);
        if (status) {
            batch->count = first;
            return status;
        }
        entry->unhandled = !wanted;
    }
    queue_drop(&reader->queue, done);
    checksum_check(batch, first);
    return HF_OK;
}

static int64_t floor_of(struct postgres_reader *reader)
{
    int64_t floor = gap_floor(&reader->gap);
    if (queue_count(&reader->queue) > 0 && queue_at(&reader->queue, 0)->position <= floor) {
        floor = queue_at(&reader->queue, 0)->position - 1;
    }
    return floor;
}

/* ---- The contract ---------------------------------------------------------------------------- */

hf_status postgres_reader_open(struct engine *engine, int64_t after, bool strict,
                               struct reader **ret_reader)
{
    struct postgres_reader *reader = mem_calloc(1, sizeof *reader);
    if (!reader) {
        return fail(HF_NOMEM, "no memory for a reader");
    }
    reader->head.engine = engine;
    reader->strict = strict;
    reader->barrier = INT64_MAX;
    reader->vain_us = -1;
    gap_init(&reader->gap, after);
    wanted_init(&reader->wanted);
    *ret_reader = &reader->head;
    return HF_OK;
}

void postgres_reader_close(struct reader *reader)
{
    struct postgres_reader *self = reader_of(reader);
    if (!self) {
        return;
    }
    struct postgres_engine *engine = engine_of(self);
    bool poisoned = atomic_load(&engine->poisoned);
    if (poisoned && ahead_is_asked(&self->ahead)) {
        engine_abandon(self); /* a thread of the parent had it */
        return;
    }
    ahead_drop(engine->ahead, &self->ahead);
    if (self->watching && !poisoned) {
        prober_unwatch(engine->prober);
    }
    queue_release(&self->queue);
    gap_release(&self->gap);
    wanted_release(&self->wanted);
    mem_free(self->runs);
    mem_free(self->found);
    mem_free(self);
}

/* Gets the expression of the patterns, if they are others than before. */
static hf_status ask_regex(struct postgres_reader *reader, const struct filter *filter,
                           struct wanted *wanted)
{
    const struct wanted *before = &reader->wanted;
    if (wanted->patterns.length == 0) {
        return HF_OK;
    }
    if (text_equal(buf_text(&wanted->patterns), buf_text(&before->patterns))) {
        buf_append_text(&wanted->regex, buf_text(&before->regex));
        return buf_status(&wanted->regex);
    }
    hf_status status = borrow(reader);
    if (status) {
        return status;
    }
    return check_session(reader, regex_ask(reader->session, filter, &wanted->regex));
}

/* Notes the filter; if it is another one than before, the queue is read again. */
static hf_status set_filter(struct postgres_reader *reader, const struct filter *filter)
{
    struct wanted wanted;
    hf_status status = wanted_of(&wanted, filter, reader->plain);
    bool changed = !status && !wanted_equal(&wanted, &reader->wanted);
    if (changed) {
        status = ask_regex(reader, filter, &wanted);
    }
    if (!status && changed) {
        ahead_drop(engine_of(reader)->ahead, &reader->ahead);
        struct wanted before = reader->wanted;
        reader->wanted = wanted;
        wanted = before;
        if (queue_count(&reader->queue) > 0) {
            status = read_queue_again(reader);
        }
        if (status) { /* try again with the next call */
            before = reader->wanted;
            reader->wanted = wanted;
            wanted = before;
        }
    }
    wanted_release(&wanted);
    return status;
}

/* Gets more from the server if nothing is ready to be handed up, and the payloads of large events
 * that are. `*ret_ready`: so many may be handed up; `*ret_asked`: it looked for the log's end. */
static hf_status make_ready(struct postgres_reader *self, const struct filter *filter, size_t max,
                            size_t *ret_ready, bool *ret_asked)
{
    hf_status status = HF_OK;
    size_t ready = count_ready(self, filter, max);
    *ret_asked = ready == 0;
    if (*ret_asked) {
        status = fetch_more(self, filter);
        ready = count_ready(self, filter, max);
    }
    int64_t now_us = clock_mono_us();
    if (!status && ready == 0 && may_look(self, now_us)) {
        status = look_and_fetch(self, filter, now_us);
        ready = count_ready(self, filter, max);
    }
    if (!status && ready > 0) {
        status = fetch_large(self, ready, &ready);
    }
    *ret_ready = ready;
    return status;
}

/* Hands up what there is, or what the server has. */
static hf_status next(struct postgres_reader *self, const struct filter *filter, int32_t max,
                      struct batch *batch, bool *ret_asked)
{
    hf_status status = set_filter(self, filter);
    size_t ready = 0;
    if (!status) {
        status = make_ready(self, filter, (size_t)max, &ready, ret_asked);
    }
    return status ? status : hand_up(self, filter, ready, batch);
}

hf_status postgres_reader_next(struct reader *reader, const struct filter *filter, int32_t max,
                               struct batch *batch, int64_t *ret_floor, bool *ret_more)
{
    struct postgres_reader *self = reader_of(reader);
    if (self->over) {
        return fail(HF_STALE, "what was known of the log is not true any more: begin again at the "
                              "checkpoint");
    }
    if (atomic_load(&engine_of(self)->poisoned)) {
        return fail(HF_MISUSE, "this handle belongs to the parent process");
    }
    if (self->life.era != 0 && self->life.era != era_now(engine_of(self))) {
        return lose(self);
    }
    if (self->rows == 0) {
        self->rows = max < READ_ROWS_FIRST ? READ_ROWS_FIRST
                     : max > READ_ROWS_MAX ? READ_ROWS_MAX
                                           : max;
    }
    bool asked = false;
    hf_status status = next(self, filter, max, batch, &asked);
    give_back(self);
    if (status) {
        return status;
    }
    ask_ahead(self);
    *ret_floor = floor_of(self);
    *ret_more = !asked || count_ready(self, filter, 1) > 0 || (self->cut & CUT_LATE) ||
                ((self->cut & CUT_TAIL) && queue_count(&self->queue) == 0) ||
                may_look(self, clock_mono_us());
    return HF_OK;
}

void postgres_reader_gap_timeout(struct reader *reader, int64_t timeout_ms)
{
    reader_of(reader)->gap_timeout_us = timeout_ms * 1000;
}

struct reader_life postgres_reader_life(const struct reader *reader)
{
    return ((const struct postgres_reader *)reader)->life;
}

void postgres_reader_continue(struct reader *reader, struct reader_life life)
{
    reader_of(reader)->life = life;
}

struct reader_gaps postgres_reader_gaps(const struct reader *reader)
{
    const struct postgres_reader *self = (const struct postgres_reader *)reader;
    return (struct reader_gaps){self->gap.count, self->gap.dead, self->gap.skipped};
}
