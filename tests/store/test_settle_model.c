/*
 * test_settle_model.c - thousands of random settles and decisions against a model of the contract.
 *
 * The model works as the bus does: it takes the events of a lane in order, puts those behind a
 * failing one, retries what is due, buries or blocks, and moves the checkpoint over all that is
 * taken care of. Operators retry, resolve and purge dead letters meanwhile, and now and then
 * another process takes over. After each change everything that the store tells must be what the
 * model knows: waiting, held and blocked rows with their records and payloads, lanes, and what is
 * settled above the checkpoint.
 */
#include "support/make.h"

#define EVENTS 80
#define KEYS "abcdefg"
#define OUTCOMES_MAX 4
#ifndef SEEDS
#define SEEDS 4 /* more of them: CPPFLAGS=-DSEEDS=1000 */
#endif

enum place { FREE, WAITING, HELD, BLOCKED, SETTLED };

struct model_event {
    char key[2];
    enum place place;
    int64_t due_us;
    int32_t attempts;
    int edit;      /* 0: as published */
    bool lettered; /* it has a dead letter */
    bool resolved; /* its dead letter is resolved */
};

struct model {
    struct fixture *f;
    struct store *stores[2];
    struct owner owner;
    int64_t id;
    uint64_t seed;
    int64_t checkpoint;
    int edits;
    struct model_event events[EVENTS + 1];
};

static unsigned next_random(struct model *model, unsigned below)
{
    model->seed = model->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(model->seed >> 33) % below;
}

static const char *payload_of(int edit)
{
    static char text[32];
    snprintf(text, sizeof text, "[%d]", edit);
    return edit ? text : "{}";
}

static bool has_row(const struct model_event *event)
{
    return event->place == WAITING || event->place == HELD || event->place == BLOCKED;
}

static int lane_rows(const struct model *model, const char *key)
{
    int rows = 0;
    for (int p = 1; p <= EVENTS; p++) {
        rows += model->events[p].key[0] == key[0] && has_row(&model->events[p]);
    }
    return rows;
}

/* The lane's lowest held row may go: the one before it is settled. */
static void promote(struct model *model, const char *key)
{
    for (int p = 1; p <= EVENTS; p++) {
        struct model_event *event = &model->events[p];
        if (event->key[0] == key[0] && event->place == HELD) {
            event->place = WAITING;
            event->due_us = model->owner.now_us;
            return;
        }
    }
}

/* ---- Settling -------------------------------------------------------------------------------- */

static struct outcome fail_or_bury(struct model *model, int p, unsigned choice)
{
    struct model_event *event = &model->events[p];
    struct outcome outcome = choice == 0 ? dead(p, event->key) : block(p, event->key);
    outcome.attempts = ++event->attempts;
    event->place = choice == 0 ? SETTLED : BLOCKED;
    event->lettered = true;
    event->resolved = false;
    return outcome;
}

/* An event from the log: the next of its lane. */
static struct outcome settle_fresh(struct model *model, int p)
{
    struct model_event *event = &model->events[p];
    if (lane_rows(model, event->key) > 0) {
        event->place = HELD;
        return held(p, event->key);
    }
    unsigned choice = next_random(model, 10);
    if (choice < 2) {
        return fail_or_bury(model, p, choice);
    }
    if (choice < 5) {
        struct outcome outcome = retry(p, event->key, model->owner.now_us + next_random(model, 30));
        event->place = WAITING;
        event->attempts = 1;
        event->due_us = outcome.next_attempt_us;
        return outcome;
    }
    if (choice == 5) { /* an operator freed the lane a moment ago: it waits at once */
        event->place = WAITING;
        event->due_us = model->owner.now_us;
        return held(p, event->key);
    }
    event->place = SETTLED;
    return done(p, event->key);
}

/* A retry that was due. */
static struct outcome settle_waiting(struct model *model, int p)
{
    struct model_event *event = &model->events[p];
    unsigned choice = next_random(model, 8);
    struct outcome outcome;
    if (choice < 2) {
        outcome = fail_or_bury(model, p, choice);
    } else if (choice < 4) {
        outcome = retry(p, event->key, model->owner.now_us + next_random(model, 30));
        outcome.attempts = ++event->attempts;
        event->due_us = outcome.next_attempt_us;
    } else {
        event->place = SETTLED;
        outcome = done(p, event->key);
    }
    if (event->place == SETTLED) {
        promote(model, event->key);
    }
    return waited(outcome);
}

/* One outcome for one event that the bus could have in its hands; false if this one is not. */
static bool choose(struct model *model, int p, struct outcome *out)
{
    struct model_event *event = &model->events[p];
    if (event->place == WAITING && event->due_us <= model->owner.now_us) {
        *out = settle_waiting(model, p);
        return true;
    }
    if (event->place != FREE || p <= model->checkpoint) {
        return false;
    }
    for (int earlier = 1; earlier < p; earlier++) {
        if (model->events[earlier].place == FREE && earlier > model->checkpoint &&
            model->events[earlier].key[0] == event->key[0]) {
            return false; /* not its turn */
        }
    }
    *out = settle_fresh(model, p);
    return true;
}

static void do_settle(struct model *model)
{
    struct outcome outcomes[OUTCOMES_MAX];
    size_t count = 0;
    bool used[128] = {false}; /* lanes that have an outcome in this settle */
    unsigned tries = 1 + next_random(model, 12);
    while (tries-- > 0 && count < OUTCOMES_MAX) {
        int p = 1 + (int)next_random(model, EVENTS);
        int key = model->events[p].key[0];
        if (!used[key] && choose(model, p, &outcomes[count])) {
            used[key] = true;
            count++;
        }
    }
    int64_t checkpoint = -1;
    if (next_random(model, 3) == 0) {
        while (model->checkpoint < EVENTS && model->events[model->checkpoint + 1].place != FREE) {
            model->checkpoint++;
        }
        checkpoint = model->checkpoint;
    }
    must_answer(HF_OK, settle(&model->owner, checkpoint, outcomes, count));
    for (size_t i = 0; i < count; i++) {
        bool left = outcomes[i].kind == OUTCOME_DONE || outcomes[i].kind == OUTCOME_DEAD;
        if (outcomes[i].waited && left) {
            const char *key = model->events[outcomes[i].position].key;
            must_equal(lane_rows(model, key) > 0, outcomes[i].ret_lane_busy);
        }
    }
}

/* ---- Operators ------------------------------------------------------------------------------- */

/* The dead letter was decided about: the lane that it blocked goes on without it. */
static void unblock(struct model *model, struct model_event *event)
{
    if (event->place == BLOCKED) {
        event->place = SETTLED;
        promote(model, event->key);
    }
}

static void do_retry(struct model *model, int p, int64_t dead_id)
{
    struct model_event *event = &model->events[p];
    if (event->place != BLOCKED && lane_rows(model, event->key) > 0) {
        return;
    }
    int edit = next_random(model, 2) ? ++model->edits : event->edit;
    struct dead_retry change = {
        .change = {.kind = CHANGE_DEAD_RETRY, .now_us = model->owner.now_us},
        .dead_ids = &dead_id,
        .count = 1,
        .payload = text_of(payload_of(edit))};
    must_answer(HF_OK, RUN(model->stores[1], &change));
    must_equal(event->resolved ? 0 : 1, change.ret_count);
    must_equal(event->resolved ? 1 : 0, change.ret_resolved);
    if (event->resolved) {
        return;
    }
    event->edit = edit;
    event->place = WAITING;
    event->attempts = 0;
    event->due_us = model->owner.now_us;
    event->lettered = false;
}

static void do_resolve(struct model *model, int p, int64_t dead_id)
{
    struct model_event *event = &model->events[p];
    struct dead_resolve change = {
        .change = {.kind = CHANGE_DEAD_RESOLVE, .now_us = model->owner.now_us}, .dead_id = dead_id};
    must_answer(event->resolved ? HF_CONFLICT : HF_OK, RUN(model->stores[1], &change));
    event->resolved = true;
    unblock(model, event);
}

static void do_purge(struct model *model, int p, int64_t dead_id)
{
    struct dead_purge change = {
        .change = {.kind = CHANGE_DEAD_PURGE, .now_us = model->owner.now_us},
        .dead_ids = &dead_id,
        .count = 1};
    must_answer(HF_OK, RUN(model->stores[1], &change));
    must_equal(1, change.ret_count);
    model->events[p].lettered = false;
    unblock(model, &model->events[p]);
}

static void do_decide(struct model *model)
{
    int start = 1 + (int)next_random(model, EVENTS);
    for (int p = start; p <= EVENTS; p++) {
        if (model->events[p].lettered) {
            int64_t dead_id = dead_id_of(model->stores[1], p);
            must_hold(dead_id >= 0);
            switch (next_random(model, 3)) {
            case 0:
                do_retry(model, p, dead_id);
                return;
            case 1:
                do_resolve(model, p, dead_id);
                return;
            default:
                do_purge(model, p, dead_id);
                return;
            }
        }
    }
}

static void do_takeover(struct model *model)
{
    struct store *store =
        model->owner.store == model->stores[0] ? model->stores[1] : model->stores[0];
    struct acquire acquire = acquire_of(model->id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, RUN(store, &acquire));
    must_answer(HF_STALE, settle(&model->owner, -1, NULL, 0));
    must_hold(acquire.ret_epoch > model->owner.epoch);
    must_equal(model->owner.checkpoint, acquire.ret_checkpoint);
    model->owner.store = store;
    model->owner.epoch = acquire.ret_epoch;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void compare_lists(const struct model *model, struct store *store)
{
    char ahead[1024] = "";
    char lanes[128] = "";
    size_t used = 0;
    for (int p = (int)model->checkpoint + 1; p <= EVENTS; p++) {
        if (model->events[p].place != FREE) {
            used += (size_t)snprintf(ahead + used, sizeof ahead - used, "%s%d", used ? " " : "", p);
        }
    }
    used = 0;
    for (const char *key = KEYS; *key; key++) {
        used += (size_t)snprintf(lanes + used, sizeof lanes - used, "%s%d", used ? " " : "",
                                 lane_rows(model, key));
    }
    must_read(ahead, list_ahead(store, model->id, 0, model->checkpoint));
    must_read(lanes, list_lanes(store, model->id, 0, KEYS));
}

static void compare_due(const struct model *model, struct store *store)
{
    int64_t now_us = model->owner.now_us;
    int64_t next_us = -1;
    size_t due = 0;
    for (int p = 1; p <= EVENTS; p++) {
        const struct model_event *event = &model->events[p];
        if (event->place != WAITING) {
            continue;
        }
        if (event->due_us <= now_us) {
            due++;
        } else if (next_us < 0 || event->due_us < next_us) {
            next_us = event->due_us;
        }
    }
    struct batch batch;
    int64_t answered_us = -7;
    int64_t last_us = 0;
    batch_init(&batch);
    must_answer(HF_OK, retries_due(store, model->id, now_us, 1000, &batch, &answered_us));
    must_equal(due, batch.count);
    must_equal(next_us, answered_us);
    for (size_t i = 0; i < batch.count; i++) {
        const struct model_event *event = &model->events[batch.entries[i].event.position];
        must_equal(WAITING, event->place);
        must_hold(event->due_us <= now_us);
        must_hold(event->due_us >= last_us);
        last_us = event->due_us;
        must_equal(event->attempts, batch.entries[i].attempts);
        must_read(payload_of(event->edit), batch.entries[i].event.payload);
        must_read(event->key, batch.entries[i].event.key);
    }
    batch_release(&batch);
}

static int compare_letter(const hf_dead_letter *letter, void *ctx)
{
    struct model *model = ctx;
    const struct model_event *event = &model->events[letter->event.position];
    must_hold(event->lettered);
    must_equal(event->resolved, letter->resolved_at_us >= 0);
    must_equal(event->attempts, letter->attempts);
    must_read(payload_of(event->edit), letter->event.payload);
    return 0;
}

static void compare(struct model *model, struct store *store)
{
    int64_t rows[SETTLED + 1] = {0};
    int64_t letters = 0;
    int64_t open = 0;
    for (int p = 1; p <= EVENTS; p++) {
        rows[model->events[p].place]++;
        letters += model->events[p].lettered;
        open += model->events[p].lettered && !model->events[p].resolved;
    }
    struct progress progress = progress_of(store, model->id);
    must_equal(model->checkpoint, progress.checkpoint);
    must_equal(rows[WAITING], progress.retrying);
    must_equal(rows[HELD], progress.held);
    must_equal(rows[BLOCKED], progress.blocked);
    must_equal(open, progress.dead);
    compare_lists(model, store);
    compare_due(model, store);
    struct dead_query any = dead_query_any();
    any.resolved_too = true;
    int64_t count = -7;
    must_answer(HF_OK, store_dead_count(store, &any, &count));
    must_equal(letters, count);
    must_answer(HF_OK, store_dead_list(store, &any, compare_letter, model));
}

/* ---- Playing --------------------------------------------------------------------------------- */

static void play(struct model *model)
{
    char letters[EVENTS + 1] = "";
    for (int p = 1; p <= EVENTS; p++) {
        model->events[p].key[0] = KEYS[next_random(model, (unsigned)strlen(KEYS))];
        letters[p - 1] = model->events[p].key[0];
    }
    append_lanes(model->stores[0], letters);
    model->id = subscribe_ordered(model->stores[0], "s", 1);
    model->owner = own(model->stores[0], model->id, 0);
    for (int step = 0; step < 300 || model->checkpoint < EVENTS; step++) {
        must_hold(step < 5000);
        unsigned choice = next_random(model, 20);
        model->owner.checkpoint = model->checkpoint;
        model->owner.now_us += next_random(model, 15);
        if (choice < 15) {
            do_settle(model);
        } else if (choice < 19) {
            do_decide(model);
        } else {
            do_takeover(model);
        }
        compare(model, model->stores[step % 2]);
    }
}

static void random_settles_do_what_the_contract_says(void **state)
{
    static struct model model;
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char space[64];
        snprintf(space, sizeof space, "%.40s-%d", f->namespace_name, (int)seed);
        struct store_options options = fixture_options(f, "a");
        options.namespace_name = text_of(space);
        model = (struct model){.f = f, .seed = seed * 104729};
        model.stores[0] = fixture_open_with(f, &options);
        model.stores[1] = fixture_open_with(f, &options);
        play(&model);
        fixture_close(f, model.stores[0]);
        fixture_close(f, model.stores[1]);
    }
}

static const struct CMUnitTest claims[] = {
    CLAIM(random_settles_do_what_the_contract_says),
};

FIXTURE_MAIN("settle model", claims, NULL)
