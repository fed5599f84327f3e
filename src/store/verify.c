/*
 * verify.c - the walk through a database that looks for damage. See verify.h.
 *
 * First the checks, of which the first one reads every page, then the scans. If the database
 * refuses to be read at some place (HF_CORRUPT), that is a finding like the others, and the walk
 * goes on with the next check or table: an operator who looks at a damaged database needs to know
 * all of it. Any other failure (no connection, no time) ends the walk with that status: then
 * nothing is known of the rest.
 *
 * Of each kind at most VERIFY_TOLD_MAX findings are told, and then that there are more: a table
 * that was damaged as a whole says so in a hundred lines, not in a million.
 */
#include "store/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/text/buf.h"
#include "base/text/json_check.h"
#include "base/text/utf8.h"
#include "base/uuid.h"
#include "store/engine.h"

#define SENTENCE_BYTES_MAX 4096

/* What a finding is called, and what to do about it. */
struct kind {
    const char *name;
    const char *advice;
};

static const struct kind check_kinds[VERIFY_CHECKS] = {
    [VERIFY_FILE] = {"file", "the file is damaged: restore a backup, or save what can be read "
                             "with the .recover command of sqlite3"},
    [VERIFY_SCHEMA] = {"schema",
                       "statements rely on it: make it as it is in a new database of this "
                       "program, and remove what does not belong to Holdfast"},
    [VERIFY_ORPHAN] = {"orphan", "nothing reads these rows any more: delete them"},
    [VERIFY_TIP] = {"tip", "new events would get positions that are taken: set the sequence to the "
                           "newest position before anything is published"},
    [VERIFY_MONTH] = {"month", "nothing can be published into that month: make its table with "
                               "holdfast.ensure_months(), or restore it"},
    [VERIFY_LOST] = {"lost", "these events are gone, and no subscription that is behind them gets "
                             "them: restore a backup, or publish them again"},
    [VERIFY_DOUBLED] = {"doubled", "consumers get it twice, and publishing the id again may store "
                                   "it once more: the index that guards ids was missing. Delete "
                                   "all but the first, and make the index again"},
    [VERIFY_PARTITIONS] = {"partitions", "part of the events is not delivered: remove the "
                                         "subscription and create it again at its checkpoint"},
    [VERIFY_CHECKPOINT] = {"checkpoint", "seek the subscription to where it shall go on: "
                                         "holdfast sub seek"},
    [VERIFY_RETRY] = {"retry", "this delivery cannot run: publish the event again if it is needed, "
                               "and delete the row"},
    [VERIFY_HELD] = {"held", "nothing will release this delivery: set its kind to 1, or seek the "
                             "subscription to before it"},
    [VERIFY_SLICE] = {"slice", "the owner of its partition does not find this row: set partition "
                               "to the hash modulo the number of partitions"},
    [VERIFY_COPY] = {"copy", "nothing reads this row any more: delete it"},
    [VERIFY_SETTLED] = {"settled", "a later event at this position would be skipped: delete the "
                                   "row"},
    [VERIFY_LEASE] = {"lease", "these deliveries cannot run: publish the events again if they are "
                               "needed, and delete the row"},
    [VERIFY_TYPES] = {"types", "events are not found by their types: build the index again, with "
                               "holdfast namespace set NAME --type-index off, and then on"},
    [VERIFY_UNIQUE] = {"unique", "publishing with this key answers an event that is not the one, "
                                 "or stores a second one too early: delete the row"},
    [VERIFY_RATE] = {"rate", "the clock was set back, or the row was changed: look at the clock. "
                             "The next delivery of the subscription sets it right"},
    [VERIFY_DEAD_KIND] = {"dead_kind",
                          "groups of dead letters are counted wrongly, and nothing else "
                          "is affected: copy the bus into a new database"},
    [VERIFY_RIGHTS] = {"rights", "what it does not see was not examined: run verify as the owner "
                                 "of the schema"},
};

enum row_kind {
    ROW_UNREADABLE, /* not one row, but a table or check from there on */
    ROW_POSITION,
    ROW_ID,
    ROW_HASH,
    ROW_CHECKSUM,
    ROW_TEXT,
    ROW_JSON,
    ROW_KINDS
};

static const struct kind row_kinds[ROW_KINDS] = {
    [ROW_UNREADABLE] = {"unreadable", "what lies behind it was not examined: restore a backup"},
    [ROW_POSITION] = {"position", "consumers may miss it, or get it twice: publish it again if it "
                                  "is needed, and delete the row"},
    [ROW_ID] = {"id", "it cannot be delivered: restore it from a backup, or delete the row"},
    [ROW_HASH] = {"hash", "the row was changed after it was published, and may be in the wrong "
                          "partition: restore it from a backup"},
    [ROW_CHECKSUM] = {"checksum",
                      "the row was changed after it was stored, and no handler gets it: "
                      "it becomes a dead letter. Restore it from a backup, or publish "
                      "the event again"},
    [ROW_TEXT] = {"text", "the row was changed after it was published: restore it from a backup"},
    [ROW_JSON] = {"json", "the row was changed after it was published: restore it from a backup"},
};

/* What the texts of a table's rows are called. */
static const struct {
    const char *name;
    const char *metadata;
    const char *story;
    int32_t rows_max; /* of a chunk */
} tables[VERIFY_TABLES] = {
    [VERIFY_EVENTS] = {"the log", "metadata", NULL, VERIFY_EVENTS_MAX},
    [VERIFY_COPIES] = {"the copies of events", "metadata", NULL, VERIFY_ROWS_MAX},
    [VERIFY_DEAD_LETTERS] = {"the dead letters", "metadata", "story", VERIFY_ROWS_MAX},
    [VERIFY_RETRIES] = {"the waiting deliveries", NULL, "story", VERIFY_ROWS_MAX},
    [VERIFY_OUTCOMES] = {"the outcomes", NULL, "story", VERIFY_ROWS_MAX},
    [VERIFY_SUBSCRIPTIONS] = {"the subscriptions", "options", "patterns", VERIFY_ROWS_MAX},
    [VERIFY_SCHEDULES] = {"the schedules", "metadata", NULL, VERIFY_ROWS_MAX},
    [VERIFY_DELAYED] = {"the events for later", "metadata", NULL, VERIFY_ROWS_MAX},
};

struct walk {
    struct engine *engine;
    hf_finding_fn found;
    hf_verify_progress_fn progress; /* NULL: none */
    void *ctx;
    enum verify_table table; /* the present scan's */
    int64_t rows;            /* examined */
    int64_t told[ROW_KINDS]; /* of the present scan */
    int64_t checked;         /* told by the present check */
    int64_t last_first;      /* key of the row before, in the log */
    int64_t last_second;
    bool any_last;
    bool altered; /* the schema is not the one that this program makes */
    bool stopped;
    struct buf sentence;
};

static void tell(struct walk *walk, const struct kind *kind, const char *sentence)
{
    if (!walk->stopped) {
        walk->stopped =
            walk->found(kind->name, sentence, HF_LOG_ERROR, kind->advice, walk->ctx) != 0;
    }
}

/* Made safe for a terminal: what is damaged may be anything. */
static void tell_text(struct walk *walk, const struct kind *kind, struct text sentence)
{
    buf_clear(&walk->sentence);
    if (sentence.length > SENTENCE_BYTES_MAX / 4) {
        sentence.length = SENTENCE_BYTES_MAX / 4; /* each byte may become three */
    }
    utf8_sanitize(sentence, &walk->sentence);
    tell(walk, kind, buf_terminate(&walk->sentence));
}

static void tell_more(struct walk *walk, const struct kind *kind)
{
    char sentence[128];
    snprintf(sentence, sizeof sentence, "there are more than %d findings of this kind",
             VERIFY_TOLD_MAX);
    tell(walk, kind, sentence);
}

static void step(struct walk *walk)
{
    if (!walk->stopped && walk->progress) {
        walk->stopped = walk->progress(walk->rows, walk->ctx) != 0;
    }
}

/* What cannot be read is a finding, and so is what a schema that is not ours does not have; every
 * other failure is one of the walk. */
static hf_status outlive(struct walk *walk, hf_status status, const char *what)
{
    if (status != HF_CORRUPT && !(status == HF_SCHEMA && walk->altered)) {
        return status;
    }
    char sentence[STORE_MESSAGE_BYTES + 64];
    snprintf(sentence, sizeof sentence, "%s: %s", what, err_message());
    tell_text(walk, &row_kinds[ROW_UNREADABLE], text_of(sentence));
    return HF_OK;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

struct check {
    struct walk *walk;
    const struct kind *kind;
};

static int check_said(struct text sentence, void *ctx)
{
    struct check *check = ctx;
    struct walk *walk = check->walk;
    if (walk->checked++ < VERIFY_TOLD_MAX) {
        tell_text(walk, check->kind, sentence);
    } else {
        tell_more(walk, check->kind);
        return 1;
    }
    return walk->stopped;
}

static hf_status run_check(struct walk *walk, enum verify_check number)
{
    struct check check = {walk, &check_kinds[number]};
    walk->checked = 0;
    hf_status status = walk->engine->class->verify_check(walk->engine, number, VERIFY_TOLD_MAX + 1,
                                                         check_said, &check);
    walk->altered |= number == VERIFY_SCHEMA && walk->checked > 0;
    return outlive(walk, status, check.kind->name);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* `what` is a sentence, or the end of one that begins with the row. */
static void row_said(struct walk *walk, enum row_kind kind, const struct verify_row *row,
                     const char *what)
{
    char sentence[1024];
    if (walk->told[kind] > VERIFY_TOLD_MAX) {
        return;
    }
    if (walk->told[kind]++ == VERIFY_TOLD_MAX) {
        tell_more(walk, &row_kinds[kind]);
        return;
    }
    snprintf(sentence, sizeof sentence, "%" TEXT_PRI ": %s", TEXT_ARG(row->subject), what);
    tell_text(walk, &row_kinds[kind], text_of(sentence));
}

static void look_at_text(struct walk *walk, const struct verify_row *row, struct text text,
                         const char *name)
{
    size_t valid = utf8_valid_bytes(text);
    if (valid < text.length) {
        char what[128];
        snprintf(what, sizeof what, "its %s is not UTF-8 at byte %zu", name, valid);
        row_said(walk, ROW_TEXT, row, what);
    }
}

/* As deep as JSON may be anywhere: a bus with wider limits has not made damage. */
static void look_at_json(struct walk *walk, const struct verify_row *row, struct text json,
                         const char *name, char opening)
{
    static const struct json_limits limits = {0, JSON_DEPTH_MAX};
    char what[STORE_MESSAGE_BYTES];
    if (text_is_absent(json)) {
        return;
    }
    if (json_check(json.bytes, json.length, &limits, name) != HF_OK) {
        snprintf(what, sizeof what, "its %s", err_message());
        row_said(walk, ROW_JSON, row, what);
        return;
    }
    size_t at = 0;
    while (at < json.length && strchr(" \t\r\n", json.bytes[at])) {
        at++;
    }
    if (opening && json.bytes[at] != opening) {
        snprintf(what, sizeof what, "its %s is not %s", name,
                 opening == '{' ? "an object" : "an array");
        row_said(walk, ROW_JSON, row, what);
    }
}

static void look_at_event(struct walk *walk, const struct verify_row *row)
{
    if (row->id.length != UUID_BYTES) {
        row_said(walk, ROW_ID, row, "its id is not 16 bytes");
        return;
    }
    int64_t hash = hash_event(row->tenant, row->key, (const uint8_t *)row->id.bytes);
    if (hash != row->hash) {
        char what[128];
        snprintf(what, sizeof what,
                 "its hash is %" PRId64 ", that of its tenant, key or id is %" PRId64, row->hash,
                 hash);
        row_said(walk, ROW_HASH, row, what);
    }
    struct hash_content content = {
        .id = (const uint8_t *)row->id.bytes,
        .emitted_at_us = row->emitted_at_us,
        .type = row->type,
        .key = row->key,
        .tenant = row->tenant,
        .metadata = row->metadata,
        .producer = row->producer,
        .schedule_id = row->schedule_id,
        .payload = row->payload,
    };
    if (hash_checksum(hash_content(&content), row->hash, row->second, row->entered_at_us,
                      row->key_version) != row->checksum) {
        row_said(walk, ROW_CHECKSUM, row, "its checksum does not match what is stored");
    }
}

/* Two events at one position, or one before the first. */
static void look_at_position(struct walk *walk, const struct verify_row *row)
{
    if (row->second < 1) {
        row_said(walk, ROW_POSITION, row, "positions begin at 1");
    } else if (walk->any_last && row->first == walk->last_first &&
               row->second == walk->last_second) {
        row_said(walk, ROW_POSITION, row, "another event has the same position");
    }
    walk->any_last = true;
    walk->last_first = row->first;
    walk->last_second = row->second;
}

static void look_at_row(const struct verify_row *row, void *ctx)
{
    struct walk *walk = ctx;
    walk->rows++;
    if (walk->table == VERIFY_EVENTS) {
        look_at_position(walk, row);
    }
    if (row->is_event) {
        look_at_event(walk, row);
    }
    look_at_text(walk, row, row->type, "type");
    look_at_text(walk, row, row->tenant, "tenant");
    look_at_text(walk, row, row->key, "key");
    look_at_json(walk, row, row->payload, "payload", '\0');
    look_at_json(walk, row, row->metadata, tables[walk->table].metadata, '{');
    look_at_json(walk, row, row->story, tables[walk->table].story, '[');
}

/* Whether a scan has moved on: rows of a damaged table may come in any order, and for ever. */
static bool is_behind(const struct verify_cursor *cursor, const struct verify_cursor *before)
{
    if (cursor->first != before->first) {
        return cursor->first > before->first;
    }
    if (cursor->second != before->second) {
        return cursor->second > before->second;
    }
    return memcmp(cursor->id, before->id, sizeof cursor->id) > 0;
}

static hf_status run_scan(struct walk *walk, enum verify_table table)
{
    struct verify_cursor cursor = {0};
    hf_status status = HF_OK;
    bool more = true;
    walk->table = table;
    memset(walk->told, 0, sizeof walk->told);
    while (!status && more && !walk->stopped) {
        struct verify_cursor before = cursor;
        status = walk->engine->class->verify_scan(walk->engine, table, tables[table].rows_max,
                                                  &cursor, &more, look_at_row, walk);
        step(walk);
        if (!status && more && !is_behind(&cursor, &before)) {
            status = fail(HF_CORRUPT, "its rows are not in the order of their keys");
        }
    }
    return outlive(walk, status, tables[table].name);
}

hf_status verify_engine(struct engine *engine, hf_finding_fn found, hf_verify_progress_fn progress,
                        void *ctx)
{
    struct walk walk = {.engine = engine, .found = found, .progress = progress, .ctx = ctx};
    hf_status status = HF_OK;
    buf_init(&walk.sentence, SENTENCE_BYTES_MAX);
    for (int check = 0; check < VERIFY_CHECKS && !status && !walk.stopped; check++) {
        status = run_check(&walk, (enum verify_check)check);
        step(&walk);
    }
    for (int table = 0; table < VERIFY_TABLES && !status && !walk.stopped; table++) {
        status = run_scan(&walk, (enum verify_table)table);
    }
    buf_release(&walk.sentence);
    return status;
}
