/*
 * test_claim_model.c - thousands of random claims and answers against a model of the contract.
 *
 * The model knows of every event where it is: still in the log, in a lease, waiting, released, done
 * or dead; how many attempts are recorded; and which payload it has, for dead letters are delivered
 * again with edited ones. Whatever a claim hands out must be free by the model, come with the
 * record and the payload that the model knows, and be in no other lease. An empty claim means that
 * nothing is free. In the end everything is done or dead, once.
 */
#include "support/make.h"

#define EVENTS_MAX 300
#define LEASES_MAX 900
#ifndef SEEDS
#define SEEDS 6 /* more of them: CPPFLAGS=-DSEEDS=1000 */
#endif

enum place { IN_LOG, LEASED, WAITING, RELEASED, DONE, DEAD };

struct model_event {
    enum place place;
    int lease; /* LEASED: which */
    int64_t due_us;
    int32_t attempts;
    int edit; /* 0: as published */
};

struct model_lease {
    uint8_t token[STORE_TOKEN_BYTES];
    int64_t expires_us;
    int count;    /* what is left in it */
    bool divided; /* a part was handed out again: what is left is no expired lease of its own */
};

struct model {
    struct fixture *f;
    struct store *stores[2];
    int64_t id;
    int64_t now_us;
    uint64_t seed;
    int head;
    int cursor;
    int lease_count;
    int edits;
    struct model_event events[EVENTS_MAX + 1];
    struct model_lease leases[LEASES_MAX];
};

static unsigned next_random(struct model *model, unsigned below)
{
    model->seed = model->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(model->seed >> 33) % below;
}

static struct store *any_store(struct model *model)
{
    return model->stores[next_random(model, 2)];
}

static const char *payload_of(int edit)
{
    static char text[32];
    snprintf(text, sizeof text, "[%d]", edit);
    return edit ? text : "{}";
}

static bool lease_expired(const struct model *model, int lease)
{
    return model->leases[lease].expires_us <= model->now_us;
}

/* Whether a claim may hand the event out now. */
static bool event_free(const struct model *model, int position)
{
    const struct model_event *event = &model->events[position];
    switch (event->place) {
    case IN_LOG:
        return position > model->cursor;
    case LEASED:
        return lease_expired(model, event->lease);
    case WAITING:
        return event->due_us <= model->now_us;
    case RELEASED:
        return true;
    case DONE:
    case DEAD:
        break;
    }
    return false;
}

/* ---- Claiming -------------------------------------------------------------------------------- */

/* Takes an event out of the expired lease that it was in. */
static void leave_expired(struct model *model, struct model_event *event)
{
    struct model_lease *lease = &model->leases[event->lease];
    if (lease->count == 1 && !lease->divided) {
        event->attempts++; /* the lease of one expired */
    }
    lease->count--;
    lease->divided = true;
}

static void check_entry(struct model *model, const struct entry *entry, int new_lease)
{
    int position = (int)entry->event.position;
    must_hold(position >= 1 && position <= model->head);
    struct model_event *event = &model->events[position];
    if (!event_free(model, position)) {
        check_fail(__FILE__, __LINE__, "event %d is handed out although it is in place %d",
                   position, event->place);
    }
    if (event->place == LEASED) {
        leave_expired(model, event);
    }
    must_equal(event->attempts, entry->attempts);
    must_read(payload_of(event->edit), entry->event.payload);
    must_hold(!entry->unhandled);
    must_equal(event->attempts == 0,
               text_is_absent(entry->attempts_json) || entry->attempts_json.length <= 2);
    event->place = LEASED;
    event->lease = new_lease;
    model->leases[new_lease].count++;
}

/* Leases of one that expired may have been recorded by the claim without being handed out by it. */
static void find_recorded(struct model *model)
{
    for (int p = 1; p <= model->head; p++) {
        struct model_event *event = &model->events[p];
        if (event->place != LEASED || !lease_expired(model, event->lease) ||
            model->leases[event->lease].count != 1 || model->leases[event->lease].divided) {
            continue;
        }
        struct delivery_facts facts = facts_of(model->f, model->stores[0], model->id, p, NULL);
        if (facts.waiting) {
            must_equal(event->attempts + 1, facts.attempts);
            must_hold(facts.next_attempt_us <= model->now_us);
            leave_expired(model, event);
            event->place = WAITING;
            event->due_us = facts.next_attempt_us;
        }
    }
}

static size_t do_claim(struct model *model, int32_t max)
{
    struct batch batch;
    batch_init(&batch);
    must_hold(model->lease_count < LEASES_MAX);
    int lease = model->lease_count;
    struct claim claim = claim_of(model->id, max, model->now_us, &batch);
    must_answer(HF_OK, RUN(any_store(model), &claim));
    must_hold(batch.count <= (size_t)max);
    if (batch.count > 0) {
        model->lease_count++;
        model->leases[lease] = (struct model_lease){.expires_us = claim.ret_expires_at_us};
        memcpy(model->leases[lease].token, claim.ret_lease, STORE_TOKEN_BYTES);
        must_equal(model->now_us + LEASE_US, claim.ret_expires_at_us);
    } else if (!claim.ret_more) {
        for (int p = 1; p <= model->head; p++) {
            if (event_free(model, p)) {
                check_fail(__FILE__, __LINE__, "nothing is handed out but event %d is free", p);
            }
        }
    }
    for (size_t i = 0; i < batch.count; i++) {
        check_entry(model, &batch.entries[i], lease);
    }
    size_t count = batch.count;
    batch_release(&batch);
    find_recorded(model);
    int64_t cursor = progress_of(model->stores[0], model->id).cursor;
    must_hold(cursor >= model->cursor && cursor <= model->head);
    for (int p = model->cursor + 1; p <= cursor; p++) {
        must_hold(model->events[p].place != IN_LOG); /* what the cursor passed was handed out */
    }
    model->cursor = (int)cursor;
    return count;
}

/* ---- Answering ------------------------------------------------------------------------------- */

/* Some event of the lease in the way of the kind; moves it in the model. */
static struct outcome foresee(struct model *model, int position, enum outcome_kind kind)
{
    struct model_event *event = &model->events[position];
    struct outcome outcome = {.kind = kind,
                              .position = position,
                              .lane = 0,
                              .attempts = event->attempts + 1,
                              .attempts_json = text_of(STORY_ONE),
                              .next_attempt_us = model->now_us + next_random(model, 5) * SECOND,
                              .reason = text_of("attempts"),
                              .error = text_of("one"),
                              .waited = event->attempts > 0 || event->edit > 0};
    switch (kind) {
    case OUTCOME_DONE:
        event->place = DONE;
        break;
    case OUTCOME_RETRY:
        event->place = WAITING;
        event->attempts++;
        event->due_us = outcome.next_attempt_us;
        break;
    case OUTCOME_DEAD:
        event->place = DEAD;
        event->attempts++;
        break;
    default:
        event->place = RELEASED;
    }
    model->leases[event->lease].count--;
    return outcome;
}

static void do_settle(struct model *model)
{
    static const enum outcome_kind kinds[] = {OUTCOME_DONE, OUTCOME_DONE, OUTCOME_RETRY,
                                              OUTCOME_DEAD, OUTCOME_RELEASE};
    if (model->lease_count == 0) {
        return;
    }
    int lease = (int)next_random(model, (unsigned)model->lease_count);
    if (model->leases[lease].count == 0 || model->leases[lease].divided) {
        return;
    }
    struct outcome outcomes[64];
    size_t count = 0;
    for (int p = 1; p <= model->head && count < 64; p++) {
        if (model->events[p].place == LEASED && model->events[p].lease == lease &&
            next_random(model, 3) > 0) {
            outcomes[count++] = foresee(model, p, kinds[next_random(model, 5)]);
        }
    }
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = model->now_us},
                                  .subscription_id = model->id,
                                  .outcomes = outcomes,
                                  .count = count};
    if (model->leases[lease].count > 0 && next_random(model, 4) == 0) {
        change.extend_us = model->now_us + 2 * LEASE_US;
        model->leases[lease].expires_us = change.extend_us;
    }
    memcpy(change.lease, model->leases[lease].token, STORE_TOKEN_BYTES);
    must_answer(HF_OK, RUN(any_store(model), &change));
}

/* A lease with nothing left is answered for no more. */
static void do_stale(struct model *model)
{
    for (int i = 0; i < model->lease_count; i++) {
        if (model->leases[i].count == 0 && next_random(model, 8) == 0) {
            struct settle_lease change = {
                .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = model->now_us},
                .subscription_id = model->id,
                .all = true};
            memcpy(change.lease, model->leases[i].token, STORE_TOKEN_BYTES);
            must_answer(HF_STALE, RUN(any_store(model), &change));
            return;
        }
    }
}

static void do_dead_retry(struct model *model)
{
    int start = 1 + (int)next_random(model, (unsigned)model->head);
    for (int p = start; p <= model->head; p++) {
        struct model_event *event = &model->events[p];
        if (event->place != DEAD) {
            continue;
        }
        int64_t dead_id = dead_id_of(model->stores[0], p);
        must_hold(dead_id >= 0);
        event->edit = next_random(model, 2) ? ++model->edits : event->edit;
        struct dead_retry change = {.change = {.kind = CHANGE_DEAD_RETRY, .now_us = model->now_us},
                                    .dead_ids = &dead_id,
                                    .count = 1,
                                    .payload = text_of(payload_of(event->edit))};
        must_answer(HF_OK, RUN(any_store(model), &change));
        must_equal(1, change.ret_count);
        event->place = WAITING;
        event->attempts = 0;
        event->due_us = model->now_us;
        return;
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int check_letter(const hf_dead_letter *letter, void *ctx)
{
    struct model *model = ctx;
    const struct model_event *event = &model->events[letter->event.position];
    must_equal(DEAD, event->place);
    must_equal(event->attempts, letter->attempts);
    must_read(payload_of(event->edit), letter->event.payload);
    return 0;
}

static void check_numbers(struct model *model)
{
    int64_t leased = 0;
    int64_t left_over = 0; /* the other part of an expired lease: still leased, or free already */
    int64_t waiting = 0;
    int64_t buried = 0;
    int64_t checkpoint = model->cursor;
    for (int p = model->head; p >= 1; p--) {
        enum place place = model->events[p].place;
        leased += place == LEASED;
        left_over += place == LEASED && model->leases[model->events[p].lease].divided;
        waiting += place == WAITING;
        buried += place == DEAD;
        if (p <= model->cursor && place != DONE && place != DEAD) {
            checkpoint = p - 1;
        }
    }
    struct progress progress = progress_of(any_store(model), model->id);
    must_equal(model->head, progress.head);
    must_hold(progress.in_flight <= leased);
    must_hold(progress.in_flight >= leased - left_over);
    must_equal(buried, progress.dead);
    must_equal(checkpoint, progress.checkpoint);
    must_hold(progress.retrying >= waiting);
    struct dead_query any = dead_query_any();
    must_answer(HF_OK, store_dead_list(any_store(model), &any, check_letter, model));
}

/* ---- Playing --------------------------------------------------------------------------------- */

static void do_something(struct model *model)
{
    unsigned choice = next_random(model, 100);
    if (choice < 12 && model->head < EVENTS_MAX - 5) {
        int count = 1 + (int)next_random(model, 5);
        append_count(any_store(model), "t", (size_t)count);
        model->head += count;
    } else if (choice < 40) {
        do_claim(model, 1 + (int32_t)next_random(model, 9));
    } else if (choice < 75) {
        do_settle(model);
    } else if (choice < 80) {
        do_stale(model);
    } else if (choice < 85 && model->head > 0) {
        do_dead_retry(model);
    } else if (choice < 97) {
        model->now_us += next_random(model, 3) * SECOND;
    } else {
        model->now_us += LEASE_US + 1; /* everything out expires */
    }
}

/* All processes that are left answer: until nothing is free, everything handed out is done. */
static void play_to_the_end(struct model *model)
{
    for (int round = 0; round < 2000; round++) {
        size_t count = do_claim(model, 20);
        for (int p = 1; p <= model->head && count > 0; p++) {
            struct model_event *event = &model->events[p];
            if (event->place == LEASED && event->lease == model->lease_count - 1) {
                event->place = DONE;
                model->leases[event->lease].count--;
            }
        }
        if (count > 0) {
            struct settle_lease change = {
                .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = model->now_us},
                .subscription_id = model->id,
                .all = true};
            memcpy(change.lease, model->leases[model->lease_count - 1].token, STORE_TOKEN_BYTES);
            must_answer(HF_OK, RUN(any_store(model), &change));
        } else {
            model->now_us += 3 * LEASE_US;
        }
        bool open = false;
        for (int p = 1; p <= model->head; p++) {
            open = open || (model->events[p].place != DONE && model->events[p].place != DEAD);
        }
        if (!open) {
            return;
        }
    }
    check_fail(__FILE__, __LINE__, "something is never handed out");
}

static void random_claims_do_what_the_contract_says(void **state)
{
    static struct model model;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        model = (struct model){.f = *state, .seed = seed * 7919, .now_us = T0};
        /* each seed has a namespace of its own */
        struct store_options options = fixture_options(*state, "a");
        char space[64];
        snprintf(space, sizeof space, "%.40s-%d", ((struct fixture *)*state)->namespace_name,
                 (int)seed);
        options.namespace_name = text_of(space);
        model.stores[0] = fixture_open_with(*state, &options);
        model.stores[1] = fixture_open_with(*state, &options);
        model.id = subscribe_shared(model.stores[0], "s");
        for (int step = 0; step < 900; step++) {
            do_something(&model);
            check_numbers(&model);
        }
        must_hold(model.lease_count > 50);
        play_to_the_end(&model);
        check_numbers(&model);
        struct progress progress = progress_of(model.stores[0], model.id);
        must_equal(model.head, progress.checkpoint);
        must_equal(0, progress.retrying);
        fixture_close(*state, model.stores[0]);
        fixture_close(*state, model.stores[1]);
    }
}

static const struct CMUnitTest claims[] = {
    CLAIM(random_claims_do_what_the_contract_says),
};

FIXTURE_MAIN("claim model", claims, NULL)
