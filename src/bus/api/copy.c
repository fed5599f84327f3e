/*
 * copy.c - copying a bus into another database. docs/adr/0019 says why it is done so.
 *
 *     check all namespaces, of the source and of the target
 *     mark all namespaces in the target
 *     each:  take out what must come again
 *            rounds:  events up to the floor, from a snapshot of its own each
 *            last:    from one snapshot the events above the floor, and everything else
 *            proof:   both sides are read again and compared
 *     take the marks away, all at once
 *     build the indexes on types
 *
 * The floor is a position that nothing can come at or below any more. On PostgreSQL a position may
 * become visible after higher ones: what was copied above the floor is not all that there will be,
 * so a later run takes it out and begins at the floor. It is stored with each portion.
 *
 * A copy that is refused leaves no mark. The check comes before the first mark; if a namespace of
 * the target is taken between its check and its mark, this run removes the marks that it has set.
 *
 * What subscriptions have only fits together in one snapshot, so it is copied last, at once, and
 * again from the beginning by every run.
 *
 * If it stops (killed, the disk is full, a connection is lost): the target has a mark, and no
 * process can open it; the next run with the same source goes on. Of two runs at once the later one
 * wins, the other gets HF_STALE.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/api/copy_rows.h"
#include "bus/bus.h"
#include "bus/timers/types.h"
#include "store/namespace.h"

#define NAMES_BYTES_MAX ((size_t)256 << 20) /* of all namespaces together */
#define STEP_TIMEOUT_MS 600000              /* of one portion */
#define ROUNDS_MAX 100                      /* after the events of a source that is in use */

struct copy {
    hf_bus *from;
    hf_bus *to;
    hf_copy_options options;
    hf_copy_progress_fn progress; /* may be NULL */
    void *ctx;
    hf_copy_report report;
    hf_copy_progress told;
    bool stopped; /* by the callback */
    char source[TRANSFER_IDENTITY_BYTES];
    char run[TRANSFER_IDENTITY_BYTES];
    struct buf names;  /* one after the other, each with its NUL */
    struct buf marked; /* likewise: those that had no mark before this run */
    struct buf floors; /* an int64_t of each name: up to where the target has everything */
    struct portion portion;

    /* of the present namespace */
    const char *name;
    size_t place; /* among the names */
    int64_t from_id;
    int64_t to_id;
    enum transfer_table table;
    int64_t floor;
    bool floor_moves; /* with every portion: all up to its last event is there */
    int64_t last;     /* position of the last event that was copied */
    int64_t head;     /* the newest position of the source at the moment of the copy */
    int index_steps;  /* towards the index on types */
};

/* ---- Steps ----------------------------------------------------------------------------------- */

static struct transfer step_of(const struct copy *copy, enum transfer_step step)
{
    return (struct transfer){
        .change = {.kind = CHANGE_TRANSFER, .now_us = clock_wall_us()},
        .step = step,
        .name = text_of(copy->name),
        .source = text_of(copy->source),
        .run = text_of(copy->run),
        .floor = copy->floor,
    };
}

static hf_status run_step(struct copy *copy, struct transfer *step)
{
    return store_run(copy->to->store, &step->change, deadline_after_ms(STEP_TIMEOUT_MS));
}

/* Answers HF_CLOSED if the callback wants to stop. */
static hf_status tell(struct copy *copy, const char *phase, int64_t position)
{
    copy->told.namespace_name = copy->name;
    copy->told.phase = phase;
    copy->told.position = position;
    copy->told.events = copy->report.events;
    if (copy->progress && copy->progress(&copy->told, copy->ctx) != 0) {
        copy->stopped = true;
        return fail(HF_CLOSED, "the copy was stopped");
    }
    return HF_OK;
}

static hf_status write_portion(struct copy *copy)
{
    struct portion *portion = &copy->portion;
    bool events = copy->table == TRANSFER_EVENTS;
    if (portion->rows == 0) {
        return HF_OK;
    }
    if (events) {
        copy->last = portion->values[(portion->rows - 1) * (size_t)portion->columns].number;
        copy->floor = copy->floor_moves ? copy->last : copy->floor;
    }
    struct transfer put = step_of(copy, TRANSFER_PUT);
    put.table = copy->table;
    put.values = portion->values;
    put.rows = portion->rows;
    put.columns = portion->columns;
    HF_POINT("copy_before_portion");
    hf_status status = run_step(copy, &put);
    if (!status) {
        HF_POINT("copy_after_portion");
        *(events ? &copy->report.events : &copy->report.rows) += (int64_t)portion->rows;
        copy->told.rows += (int64_t)portion->rows;
        portion_clear(portion);
        status = tell(copy, events ? "events" : "state", copy->last);
    }
    return status;
}

/* The newest position is no part of a snapshot on PostgreSQL: it is that of just before. */
static hf_status take_row(const struct transfer_value *values, int count, void *ctx)
{
    struct copy *copy = ctx;
    struct transfer_value own[TRANSFER_COLUMNS_MAX];
    if (copy->table == TRANSFER_NAMESPACE) {
        memcpy(own, values, (size_t)count * sizeof *values);
        own[0].number = copy->head = copy->head > copy->last ? copy->head : copy->last;
        values = own;
    }
    hf_status status = portion_add(&copy->portion, values, count);
    return !status && portion_is_full(&copy->portion) ? write_portion(copy) : status;
}

static hf_status copy_table(struct copy *copy, struct exporter *exporter, enum transfer_table table,
                            int64_t after, int64_t upto)
{
    copy->table = table;
    portion_clear(&copy->portion);
    hf_status status =
        store_export_rows(exporter, copy->from_id, table, after, upto, take_row, copy);
    return status ? status : write_portion(copy);
}

/* ---- Events in rounds ------------------------------------------------------------------------ */

static hf_status copy_round(struct copy *copy, int64_t upto)
{
    struct exporter *exporter = NULL;
    hf_status status = store_export_open(copy->from->store, &exporter);
    if (!status) {
        copy->floor_moves = true;
        status = copy_table(copy, exporter, TRANSFER_EVENTS, copy->floor, upto);
        copy->floor = status == HF_OK ? upto : copy->floor;
    }
    store_export_close(exporter);
    return status;
}

/* Until little is left: what is left is copied from the last snapshot. */
static hf_status copy_rounds(struct copy *copy)
{
    hf_status status = HF_OK;
    for (int round = 0; round < ROUNDS_MAX && !status; round++) {
        struct transfer_facts facts;
        status = store_transfer_facts(copy->from->store, text_of(copy->name), &facts);
        if (status || facts.floor <= copy->floor) {
            break;
        }
        copy->told.head = facts.head;
        int64_t distance = facts.floor - copy->floor;
        status = copy_round(copy, facts.floor);
        if (distance < TRANSFER_ROWS_MAX) {
            break;
        }
    }
    return status;
}

/* ---- The proof ------------------------------------------------------------------------------- */

struct reading {
    struct copy *copy;
    struct digest digest;
};

static hf_status digest_row(const struct transfer_value *values, int count, void *ctx)
{
    struct reading *reading = ctx;
    hf_status status = digest_add(&reading->digest, values, count);
    reading->copy->told.rows++;
    if (!status && reading->digest.rows % TRANSFER_ROWS_MAX == 0) {
        bool events = reading->digest.table == TRANSFER_EVENTS;
        status =
            tell(reading->copy, "verify", events ? values[0].number : reading->copy->told.position);
    }
    return status;
}

static hf_status read_again(struct copy *copy, struct exporter *exporter, int64_t id,
                            enum transfer_table table, int64_t after, int64_t upto,
                            struct digest *ret_digest)
{
    struct reading reading = {.copy = copy};
    digest_init(&reading.digest, table);
    hf_status status = store_export_rows(exporter, id, table, after, upto, digest_row, &reading);
    *ret_digest = reading.digest;
    digest_release(ret_digest);
    return status;
}

static hf_status compare(const struct copy *copy, const struct digest *source,
                         const struct digest *target)
{
    if (source->rows == target->rows && source->hash == target->hash) {
        return HF_OK;
    }
    return fail(HF_CORRUPT,
                "namespace %s: the %s of the copy are not those of the source: %" PRId64
                " rows (%016" PRIx64 ") there, %" PRId64 " (%016" PRIx64 ") here",
                copy->name, transfer_table_name(source->table), source->rows, source->hash,
                target->rows, target->hash);
}

/* The digests of the last snapshot: of all tables but the events, and of the events above the
 * floor. */
static hf_status digest_snapshot(struct copy *copy, struct exporter *exporter,
                                 struct digest ret_digests[TRANSFER_TABLES])
{
    hf_status status = HF_OK;
    for (int table = 0; table < TRANSFER_TABLES && !status; table++) {
        status = read_again(copy, exporter, copy->from_id, (enum transfer_table)table, copy->floor,
                            INT64_MAX, &ret_digests[table]);
    }
    return status;
}

/* The events up to the floor never change, so they need no snapshot; a source that is in use may
 * have forgotten the oldest meanwhile, or all of them. */
static hf_status compare_log(struct copy *copy, struct exporter *target)
{
    struct exporter *source = NULL;
    struct digest theirs;
    struct digest ours;
    hf_status status = store_export_open(copy->from->store, &source);
    if (!status) {
        status = read_again(copy, source, copy->from_id, TRANSFER_EVENTS, 0, copy->floor, &theirs);
    }
    store_export_close(source);
    if (!status) {
        int64_t forgotten = theirs.rows > 0 ? theirs.first - 1 : copy->floor;
        int64_t after = copy->options.live == HF_ON ? forgotten : 0;
        status = read_again(copy, target, copy->to_id, TRANSFER_EVENTS, after, copy->floor, &ours);
    }
    return status ? status : compare(copy, &theirs, &ours);
}

static hf_status prove(struct copy *copy, const struct digest snapshot[TRANSFER_TABLES])
{
    struct exporter *target = NULL;
    struct transfer_facts facts = {0};
    struct text name = text_of(copy->name);
    hf_status status = store_transfer_facts(copy->to->store, name, &facts);
    if (!status && facts.head != copy->head) {
        status = fail(HF_CORRUPT,
                      "namespace %s: the newest position of the copy is %" PRId64
                      ", that of the source %" PRId64,
                      copy->name, facts.head, copy->head);
    }
    if (!status) {
        status = store_export_open(copy->to->store, &target);
    }
    for (int table = 0; table < TRANSFER_TABLES && !status; table++) {
        struct digest ours;
        status = read_again(copy, target, facts.namespace_id, (enum transfer_table)table,
                            copy->floor, INT64_MAX, &ours);
        status = status ? status : compare(copy, &snapshot[table], &ours);
    }
    copy->to_id = facts.namespace_id;
    status = status ? status : compare_log(copy, target);
    store_export_close(target);
    return status;
}

/* ---- One namespace --------------------------------------------------------------------------- */

static hf_status check_quiet(const struct copy *copy, const struct transfer_facts *facts)
{
    if (facts->copying) {
        return fail(HF_CONFLICT, "namespace %s of the source is a copy that is not complete itself",
                    copy->name);
    }
    if (copy->options.live == HF_ON) {
        return HF_OK;
    }
    if (facts->processes > 0) {
        return fail(HF_CONFLICT,
                    "namespace %s of the source is open in %d process%s: %s; stop %s, or copy it "
                    "live",
                    copy->name, (int)facts->processes, facts->processes == 1 ? "" : "es",
                    facts->names, facts->processes == 1 ? "it" : "them");
    }
    return facts->floor >= 0 ? HF_OK
                             : fail(HF_CONFLICT,
                                    "a program is publishing to namespace %s of the source; stop "
                                    "it, or copy it live",
                                    copy->name);
}

/* Whether the source has stood still until now. The target has the head of the moment. */
static hf_status check_still(struct copy *copy)
{
    struct text name = text_of(copy->name);
    struct transfer_facts source;
    struct transfer_facts target;
    hf_status status = store_transfer_facts(copy->from->store, name, &source);
    if (!status) {
        status = store_transfer_facts(copy->to->store, name, &target);
    }
    if (status) {
        return status;
    }
    int64_t later = source.head - target.head;
    if (copy->options.live == HF_ON) {
        copy->report.later += later;
        return HF_OK;
    }
    if (later != 0) {
        return fail(HF_CONFLICT,
                    "%" PRId64 " position%s of namespace %s %s given while it was copied: stop who "
                    "publishes, and copy again, which takes only the rest",
                    later, later == 1 ? "" : "s", copy->name, later == 1 ? "was" : "were");
    }
    return check_quiet(copy, &source);
}

static hf_status clear_target(struct copy *copy)
{
    hf_status status = HF_OK;
    bool more = true;
    while (!status && more) {
        struct transfer clear = step_of(copy, TRANSFER_CLEAR);
        status = run_step(copy, &clear);
        more = clear.ret_more;
        HF_POINT("copy_mid_clear");
        status = status ? status : tell(copy, "state", copy->floor);
    }
    return status;
}

/* What is above the floor and all that is not an event, from one snapshot. */
static hf_status copy_rest(struct copy *copy, struct digest ret_digests[TRANSFER_TABLES])
{
    struct exporter *exporter = NULL;
    struct transfer_facts facts = {0};
    hf_status status = store_transfer_facts(copy->from->store, text_of(copy->name), &facts);
    if (!status) {
        status = store_export_open(copy->from->store, &exporter);
    }
    copy->head = facts.head;
    copy->floor_moves = false;
    for (int table = 0; table < TRANSFER_TABLES && !status; table++) {
        status = copy_table(copy, exporter, (enum transfer_table)table, copy->floor, INT64_MAX);
    }
    if (!status) {
        HF_POINT("copy_before_proof");
        status = digest_snapshot(copy, exporter, ret_digests);
    }
    store_export_close(exporter);
    return status;
}

static hf_status copy_namespace(struct copy *copy)
{
    struct transfer_facts facts;
    struct digest digests[TRANSFER_TABLES];
    hf_status status = store_transfer_facts(copy->from->store, text_of(copy->name), &facts);
    if (status) {
        return status;
    }
    copy->from_id = facts.namespace_id;
    memcpy(&copy->floor, copy->floors.bytes + copy->place * sizeof copy->floor, sizeof copy->floor);
    copy->last = copy->floor;
    copy->told.head = facts.head;
    status = clear_target(copy);
    if (!status) {
        status = copy_rounds(copy);
    }
    if (!status) {
        status = copy_rest(copy, digests);
    }
    if (!status) {
        status = prove(copy, digests);
    }
    if (!status) {
        copy->report.namespaces++;
        copy->report.undriven += facts.driven;
    }
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int note_name(const struct namespace_row *row, void *ctx)
{
    struct copy *copy = ctx;
    if (row->removing_at_us < 0) {
        buf_append(&copy->names, row->name.bytes, row->name.length);
        buf_char(&copy->names, '\0');
    }
    return 0;
}

/* Calls `each` with copy->name set to one of the names after the other. */
static hf_status for_names(struct copy *copy, const struct buf *names,
                           hf_status (*each)(struct copy *copy))
{
    hf_status status = HF_OK;
    copy->place = 0;
    for (size_t at = 0; at < names->length && !status; copy->place++) {
        copy->name = names->bytes + at;
        status = each(copy);
        at += strlen(copy->name) + 1;
    }
    return status;
}

static hf_status for_all(struct copy *copy, hf_status (*each)(struct copy *copy))
{
    return for_names(copy, &copy->names, each);
}

static int note_gapless(const struct namespace_row *row, void *ctx)
{
    *(bool *)ctx = row->gapless;
    return 0;
}

/* On an engine that leaves positions out by itself it is a setting worth keeping. */
static hf_status is_gapless(struct copy *copy, bool *ret_gapless)
{
    if (!store_has_gaps(copy->from->store)) {
        return HF_OK;
    }
    return store_namespace_list(copy->from->store, text_of(copy->name), note_gapless, ret_gapless);
}

/* CHECK or BEGIN. */
static hf_status run_first_step(struct copy *copy, struct transfer *step)
{
    bool gapless = false;
    hf_status status = is_gapless(copy, &gapless);
    step->gapless = gapless ? HF_ON : HF_TOGGLE_DEFAULT;
    return status ? status : run_step(copy, step);
}

static hf_status check_source(struct copy *copy)
{
    struct transfer_facts facts;
    hf_status status = store_transfer_facts(copy->from->store, text_of(copy->name), &facts);
    return status ? status : check_quiet(copy, &facts);
}

/* Before anything is written: a namespace that stands in the way is found now. */
static hf_status check_target(struct copy *copy)
{
    struct transfer step = step_of(copy, TRANSFER_CHECK);
    return run_first_step(copy, &step);
}

static hf_status mark(struct copy *copy)
{
    struct transfer begin = step_of(copy, TRANSFER_BEGIN);
    hf_status status = run_first_step(copy, &begin);
    if (!status) {
        buf_append(&copy->floors, &begin.ret_floor, sizeof begin.ret_floor);
        status = buf_status(&copy->floors);
    }
    if (!status && begin.ret_resumed) {
        copy->report.resumed = 1;
    } else if (!status) {
        buf_append(&copy->marked, copy->name, strlen(copy->name) + 1);
        status = buf_status(&copy->marked);
    }
    return status;
}

static hf_status unmark(struct copy *copy)
{
    struct transfer end = step_of(copy, TRANSFER_END);
    return run_step(copy, &end);
}

/* A run that may succeed when it is repeated (the connection was lost, the disk is full) leaves its
 * marks to the next one. A run that was refused removes them: nothing has been copied yet. */
static hf_status mark_all(struct copy *copy)
{
    hf_status status = for_all(copy, mark);
    if (!status || status_retriable(status)) {
        return status;
    }
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    hf_status unmarked = for_names(copy, &copy->marked, unmark);
    if (unmarked && unmarked != HF_STALE) {
        return fail(status, "%.800s; and what this run has marked in the target stays closed: %s",
                    message, err_message());
    }
    return err_set(status, message);
}

/* ---- After the copy -------------------------------------------------------------------------- */

/* The first step may find that nothing is to be done, so nothing is told before it. */
static bool stops_indexing(void *ctx)
{
    struct copy *copy = ctx;
    if (copy->index_steps++ == 0) {
        return false;
    }
    copy->told.namespace_name = copy->name;
    copy->told.phase = "index";
    return copy->progress && copy->progress(&copy->told, copy->ctx) != 0;
}

/* The index on types, if the source has one. The copy is complete: if this fails or is stopped, the
 * processes that work in the namespace do the rest (bus/timers). */
static hf_status index_types(struct copy *copy)
{
    copy->index_steps = 0;
    if (types_run(copy->to, text_of(copy->name), stops_indexing, copy)) {
        log_about(&copy->to->log, HF_LOG_WARN, NULL, "namespace %s: the index on types: %s",
                  copy->name, err_message());
    }
    return HF_OK;
}

static hf_status find_names(struct copy *copy)
{
    struct text name =
        copy->options.namespace_name ? text_of(copy->options.namespace_name) : TEXT_ABSENT;
    hf_status status = store_namespace_list(copy->from->store, name, note_name, copy);
    if (!status) {
        status = buf_status(&copy->names);
    }
    if (!status && copy->names.length == 0 && !text_is_absent(name)) {
        return fail(HF_NOTFOUND, "the source has no namespace %" TEXT_PRI, TEXT_ARG(name));
    }
    return status;
}

/* Whether the source can be copied, whatever the target is. */
static hf_status check_sources(struct copy *copy)
{
    hf_status status = find_names(copy);
    return status ? status : for_all(copy, check_source);
}

static hf_status copy_all(struct copy *copy)
{
    char target[TRANSFER_IDENTITY_BYTES];
    hf_status status = store_identity(copy->from->store, copy->source);
    if (!status) {
        status = store_identity(copy->to->store, target);
    }
    if (!status && strcmp(copy->source, target) == 0) {
        return fail(HF_INVALID, "the source and the target are the same database");
    }
    if (!status) {
        status = check_sources(copy);
    }
    if (!status) {
        status = for_all(copy, check_target);
    }
    HF_POINT("copy_checked");
    if (!status) {
        status = mark_all(copy);
    }
    HF_POINT("copy_marked");
    if (!status) {
        status = for_all(copy, copy_namespace);
    }
    if (!status) {
        status = for_all(copy, check_still);
    }
    HF_POINT("copy_before_end");
    if (!status && copy->names.length > 0) {
        copy->name = NULL;
        struct transfer end = step_of(copy, TRANSFER_END);
        status = run_step(copy, &end);
    }
    return status ? status : for_all(copy, index_types);
}

static void name_run(char out[TRANSFER_IDENTITY_BYTES])
{
    snprintf(out, TRANSFER_IDENTITY_BYTES, "%016" PRIx64 "%016" PRIx64, random_u64(), random_u64());
}

static hf_status check_arguments(const hf_bus *from, const hf_bus *to,
                                 const hf_copy_options *options)
{
    hf_status status = bus_check_handle(from);
    if (!status && to) {
        status = bus_check_handle(to);
    }
    if (!status && from == to) {
        status = fail(HF_INVALID, "the source and the target are the same bus");
    }
    if (!status && options->namespace_name) {
        status = glob_check_name(text_of(options->namespace_name), "namespace name",
                                 HF_NAMESPACE_BYTES_MAX);
    }
    if (!status && (options->live < HF_TOGGLE_DEFAULT || options->live > HF_ON)) {
        status = fail(HF_INVALID, "live is %d, which is no hf_toggle", (int)options->live);
    }
    return status;
}

hf_status hf_copy(hf_bus *from, hf_bus *to, const hf_copy_options *options,
                  hf_copy_progress_fn progress, void *ctx, hf_copy_report *ret_report)
{
    struct copy copy = {
        .from = from,
        .to = to,
        .options = HF_COPY_OPTIONS_INIT,
        .progress = progress,
        .ctx = ctx,
        .report = HF_COPY_REPORT_INIT,
    };
    hf_status status = HF_OK;
    if (options) {
        status = bus_read_options(&copy.options, sizeof copy.options, sizeof copy.options, options,
                                  "hf_copy_options");
    }
    if (!status && ret_report) {
        status = bus_check_size(ret_report->size, sizeof copy.report, sizeof copy.report,
                                "hf_copy_report");
    }
    if (!status) {
        status = check_arguments(from, to, &copy.options);
    }
    if (status) {
        return status;
    }
    name_run(copy.run);
    buf_init(&copy.names, NAMES_BYTES_MAX);
    buf_init(&copy.marked, NAMES_BYTES_MAX);
    buf_init(&copy.floors, NAMES_BYTES_MAX);
    status = portion_init(&copy.portion);
    if (!status) {
        status = to ? copy_all(&copy) : check_sources(&copy);
    }
    portion_release(&copy.portion);
    buf_release(&copy.names);
    buf_release(&copy.marked);
    buf_release(&copy.floors);
    if (copy.stopped) {
        status = HF_OK;
    } else if (!status && to) {
        copy.report.complete = 1;
    }
    if (!status && ret_report) {
        size_t size = ret_report->size;
        memcpy(ret_report, &copy.report, size < sizeof copy.report ? size : sizeof copy.report);
        ret_report->size = size;
    }
    return status;
}
