/*
 * script.c - the steps, and the picture.
 */
#include "support/script.h"

#include "base/text/buf.h"
#include "base/uuid.h"

#include <sqlite3.h>

void script_init(struct script *script, struct fixture *fixture, struct store *store)
{
    *script = (struct script){.fixture = fixture, .store = store};
    batch_init(&script->batch);
}

void script_release(struct script *script)
{
    batch_release(&script->batch);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static hf_status put(struct script *script, const char *name, hf_mode mode, int64_t *ret_id)
{
    struct subscription_put change = put_of(name, mode, 1);
    hf_status status = RUN(script->store, &change);
    if (!status) {
        *ret_id = change.ret_id;
    }
    return status;
}

static hf_status step_put_ordered(struct script *script)
{
    return put(script, "ordered", HF_MODE_ORDERED, &script->ordered_id);
}

static hf_status step_put_shared(struct script *script)
{
    return put(script, "shared", HF_MODE_SHARED, &script->shared_id);
}

static hf_status step_append(struct script *script)
{
    static const char *const keys[] = {"a", "a", "a", "b", "c", "d"};
    struct new_event events[6];
    for (int i = 0; i < 6; i++) {
        events[i] = event_of("order.placed", keys[i]);
    }
    struct append append = append_of(events, 6);
    return RUN(script->store, &append);
}

static hf_status step_append_version(struct script *script)
{
    struct append append;
    struct new_event event;
    return append_version(script->store, "versioned", 0, &append, &event);
}

static hf_status step_acquire(struct script *script)
{
    struct acquire acquire = acquire_of(script->ordered_id, 0, LEASE_MS);
    hf_status status = RUN(script->store, &acquire);
    if (!status) {
        script->owner = (struct owner){.store = script->store,
                                       .subscription_id = script->ordered_id,
                                       .epoch = acquire.ret_epoch,
                                       .now_us = T0};
    }
    return status;
}

static hf_status step_settle(struct script *script)
{
    return SETTLE(&script->owner, 1, retry(1, "a", T0 + 1), held(2, "a"), held(3, "a"),
                  done(5, "c"));
}

static hf_status step_promote(struct script *script)
{
    return SETTLE(&script->owner, 3, waited(done(1, "a")));
}

static hf_status step_bury(struct script *script)
{
    return SETTLE(&script->owner, -1, waited(dead(2, "a")), dead(4, "b"));
}

static hf_status step_block(struct script *script)
{
    return SETTLE(&script->owner, 6, block(6, "d"));
}

static hf_status claim(struct script *script, int32_t max)
{
    batch_clear(&script->batch);
    struct claim change = claim_of(script->shared_id, max, T0, &script->batch);
    random_bytes(change.lease, sizeof change.lease);
    hf_status status = RUN(script->store, &change);
    if (!status) {
        script->claim = change;
    }
    if (status == HF_UNKNOWN) { /* renounced, as the bus does */
        struct settle_lease settle = {
            .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
            .subscription_id = script->shared_id,
            .release_all = true,
        };
        memcpy(settle.lease, change.lease, sizeof settle.lease);
        hf_status renounced = RUN(script->store, &settle);
        must_hold(renounced == HF_OK || renounced == HF_STALE);
    }
    return status;
}

static hf_status step_claim(struct script *script)
{
    return claim(script, 4);
}

static hf_status step_settle_lease(struct script *script)
{
    return finish(script->store, &script->claim, OUTCOME_DONE, "2", T0, 0);
}

static hf_status step_retry_lease(struct script *script)
{
    return finish(script->store, &script->claim, OUTCOME_RETRY, "1", T0, T0);
}

static hf_status step_bury_lease(struct script *script)
{
    return finish(script->store, &script->claim, OUTCOME_DEAD, "3", T0, 0);
}

static hf_status step_release_lease(struct script *script)
{
    return finish(script->store, &script->claim, OUTCOME_RELEASE, "4", T0, 0);
}

static hf_status step_claim_again(struct script *script)
{
    return claim(script, 3);
}

static hf_status step_ack_all(struct script *script)
{
    return finish_all(script->store, &script->claim, T0);
}

static hf_status step_pause(struct script *script)
{
    return subscription_pause(script->store, script->shared_id, true, T0);
}

static hf_status step_resume(struct script *script)
{
    return subscription_pause(script->store, script->shared_id, false, T0);
}

static hf_status step_breaker(struct script *script)
{
    struct breaker_put change = {.change = {.kind = CHANGE_BREAKER, .now_us = T0},
                                 .subscription_id = script->shared_id,
                                 .state_json = text_of("{\"state\":\"open\"}")};
    return RUN(script->store, &change);
}

/* The newest dead letter of a position; -1 if there is none, or no memory to look. */
static int64_t dead_id_at(struct script *script, int64_t position)
{
    return dead_id_of(script->store, position);
}

static hf_status step_dead_retry(struct script *script)
{
    int64_t id = dead_id_at(script, 6);
    struct dead_retry change = {.change = {.kind = CHANGE_DEAD_RETRY, .now_us = T0},
                                .dead_ids = &id,
                                .count = 1,
                                .payload = text_of("{\"edited\":true}")};
    return RUN(script->store, &change);
}

static hf_status step_dead_resolve(struct script *script)
{
    struct dead_resolve change = {.change = {.kind = CHANGE_DEAD_RESOLVE, .now_us = T0},
                                  .dead_id = dead_id_at(script, 4),
                                  .by = text_of("me"),
                                  .note = text_of("enough")};
    return RUN(script->store, &change);
}

static hf_status step_dead_purge(struct script *script)
{
    int64_t id = dead_id_at(script, 3);
    struct dead_purge change = {
        .change = {.kind = CHANGE_DEAD_PURGE, .now_us = T0}, .dead_ids = &id, .count = 1};
    return RUN(script->store, &change);
}

static hf_status step_tx(struct script *script)
{
    struct batch batch;
    struct tx *tx = NULL;
    struct hold hold = {.subscription_id = script->ordered_id, .epoch = script->owner.epoch};
    struct new_event event = event_of("inside", NULL);
    struct append append = append_of(&event, 1);
    bool lane_busy;
    int64_t next_us;
    batch_init(&batch);
    hf_status status =
        retries_due(script->store, script->ordered_id, T0 + SECOND, 1, &batch, &next_us);
    if (!status && batch.count == 0) {
        status = HF_NOTFOUND;
    }
    if (!status) {
        status = store_tx_begin(script->store, deadline_after_ms(DEADLINE_MS), &tx);
    }
    if (!status) {
        status = tx_enter(tx, &hold, &batch.entries[0], T0);
    }
    if (!status) {
        status = tx_append(tx, &append);
    }
    if (!status) {
        status = tx_leave(tx, true, &lane_busy);
    }
    if (!status) {
        status = tx_commit(tx);
    } else {
        tx_rollback(tx);
    }
    batch_release(&batch);
    return status;
}

/* An event in the application's own transaction; the application has a connection of its own. */
static hf_status step_join(struct script *script)
{
    if (!script->fixture->sqlite) {
        return HF_OK;
    }
    sqlite3 *db = NULL;
    struct new_event event = event_of("joined", NULL);
    struct append append = append_of(&event, 1);
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(script->fixture), &db));
    hf_status status = store_join_begin(script->store, db, deadline_after_ms(DEADLINE_MS));
    if (!status) {
        status = store_join_append(script->store, db, &append);
        if (!status) {
            status = store_join_commit(script->store, db);
        } else {
            must_answer(HF_OK, store_join_rollback(script->store, db));
        }
    }
    sqlite3_close(db);
    return status;
}

static hf_status step_give_back(struct script *script)
{
    return give_back(&script->owner);
}

static hf_status step_seek(struct script *script)
{
    return subscription_seek(script->store, script->ordered_id, 2);
}

static hf_status step_change(struct script *script)
{
    struct subscription_put change = put_of("shared", HF_MODE_SHARED, 1);
    change.patterns_json = text_of("[\"order.*\"]");
    return RUN(script->store, &change);
}

static hf_status step_remove(struct script *script)
{
    return subscription_drop(script->store, "ordered");
}

static const struct script_row {
    const char *name;
    hf_status (*run)(struct script *script);
} script_rows[] = {
    {"put_ordered", step_put_ordered},
    {"put_shared", step_put_shared},
    {"append", step_append},
    {"append_version", step_append_version},
    {"acquire", step_acquire},
    {"settle", step_settle},
    {"promote", step_promote},
    {"bury", step_bury},
    {"block", step_block},
    {"claim", step_claim},
    {"settle_lease", step_settle_lease},
    {"retry_lease", step_retry_lease},
    {"bury_lease", step_bury_lease},
    {"release_lease", step_release_lease},
    {"claim_again", step_claim_again},
    {"ack_all", step_ack_all},
    {"pause", step_pause},
    {"resume", step_resume},
    {"breaker", step_breaker},
    {"dead_retry", step_dead_retry},
    {"dead_resolve", step_dead_resolve},
    {"dead_purge", step_dead_purge},
    {"tx", step_tx},
    {"join", step_join},
    {"give_back", step_give_back},
    {"seek", step_seek},
    {"change", step_change},
    {"remove", step_remove},
};

size_t script_count(void)
{
    return sizeof script_rows / sizeof script_rows[0];
}

const char *script_name(size_t step)
{
    return script_rows[step].name;
}

hf_status script_step(struct script *script, size_t step)
{
    return script_rows[step].run(script);
}

/* ---- The picture ----------------------------------------------------------------------------- */

struct painter {
    struct store *store;
    struct buf *out;
};

static void paint_events(struct painter *painter)
{
    struct reader *reader = NULL;
    struct batch batch;
    int64_t floor = 0;
    bool more = true;
    batch_init(&batch);
    must_answer(HF_OK, store_reader_open(painter->store, 0, false, &reader));
    while (more) {
        must_answer(HF_OK, store_reader_next(reader, &filter_all, 100, &batch, &floor, &more));
    }
    store_reader_close(reader);
    int64_t last = batch.count > 0 ? batch.entries[batch.count - 1].event.position : 0;
    bool exact = gapless(painter->store); /* else positions may be given for nothing */
    buf_printf(painter->out, "head %" PRId64 " floor %" PRId64 "\n",
               exact ? head_of(painter->store) : last, exact ? floor : last);
    for (size_t i = 0; i < batch.count; i++) {
        const hf_event *event = &batch.entries[i].event;
        buf_printf(painter->out, "event %" PRId64 " %s %s %s v%" PRId64 "\n", event->position,
                   event->type, event->key ? event->key : "-", event->payload, event->key_version);
    }
    batch_release(&batch);
}

static int paint_lane(uint64_t lane, int64_t rows, void *ctx)
{
    struct painter *painter = ctx;
    static const char *const keys[] = {"a", "b", "c", "d", "versioned"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (lane_of(keys[i]) == lane) {
            buf_printf(painter->out, "  lane %s %" PRId64 "\n", keys[i], rows);
            return 0;
        }
    }
    buf_printf(painter->out, "  lane ? %" PRId64 "\n", rows);
    return 0;
}

static void paint_waiting(struct painter *painter, int64_t id)
{
    struct batch batch;
    int64_t next_us;
    batch_init(&batch);
    must_answer(HF_OK, retries_due(painter->store, id, T0 + SECOND, 100, &batch, &next_us));
    for (size_t i = 0; i < batch.count; i++) {
        const struct entry *entry = &batch.entries[i];
        buf_printf(painter->out, "  due %" PRId64 " attempts %d %s\n", entry->event.position,
                   entry->attempts, entry->event.payload);
    }
    batch_release(&batch);
}

static int paint_subscription(const struct subscription_row *row, void *ctx)
{
    struct painter *painter = ctx;
    buf_printf(painter->out,
               "subscription %" TEXT_PRI " %" TEXT_PRI " generation %" PRId64 " start %" PRId64
               " paused %" PRId64 " breaker %" TEXT_PRI "\n",
               TEXT_ARG(row->name), TEXT_ARG(row->patterns_json), row->generation, row->start,
               row->paused_at_us, TEXT_ARG(row->breaker_json));
    struct progress progress = progress_of(painter->store, row->id);
    buf_printf(painter->out,
               "  checkpoint %" PRId64 " cursor %" PRId64 " flight %" PRId64 " retrying %" PRId64
               " held %" PRId64 " blocked %" PRId64 " dead %" PRId64 "\n",
               progress.checkpoint, progress.cursor, progress.in_flight, progress.retrying,
               progress.held, progress.blocked, progress.dead);
    if (row->mode == HF_MODE_ORDERED) {
        buf_printf(painter->out, "  ahead %s\n", list_ahead(painter->store, row->id, 0, 0));
        must_answer(HF_OK, store_lanes(painter->store, row->id, 0, paint_lane, painter));
        paint_waiting(painter, row->id);
    }
    return 0;
}

static int paint_dead(const hf_dead_letter *letter, void *ctx)
{
    struct painter *painter = ctx;
    buf_printf(painter->out, "dead %s %" PRId64 " %s %s attempts %d resolved %" PRId64 "\n",
               letter->subscription, letter->event.position, letter->event.payload, letter->reason,
               letter->attempts, letter->resolved_at_us);
    return 0;
}

void script_picture(struct store *store, char out[SCRIPT_PICTURE_BYTES])
{
    struct buf buf;
    buf_init(&buf, SCRIPT_PICTURE_BYTES - 1);
    struct painter painter = {.store = store, .out = &buf};
    struct dead_query any = dead_query_any();
    any.resolved_too = true;
    paint_events(&painter);
    must_answer(HF_OK, store_subscription_list(store, paint_subscription, &painter));
    must_answer(HF_OK, store_dead_list(store, &any, paint_dead, &painter));
    must_answer(HF_OK, buf_status(&buf));
    memcpy(out, buf_terminate(&buf), buf.length + 1);
    buf_release(&buf);
}
