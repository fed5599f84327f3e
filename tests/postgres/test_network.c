/*
 * test_network.c - a network that fails before or after every single message of a change.
 *
 * Each change is tried again and again behind a proxy (support_proxy.h): the fault comes at the
 * first message, at the second, and so on, until the change is through before the fault comes. Then
 * another fault, and the other side's messages. After each trial the network is fine again, the
 * server has done what it had been told, and the database is asked what happened, past the proxy:
 *
 *     HF_OK        it happened, once
 *     HF_UNKNOWN   it happened once or not at all; with an id, doing it again makes it once
 *     any other    it did not happen
 *
 * With a connection that ends the store finds out by itself whether events were stored, so there
 * the answer must be HF_OK. With one that stalls it cannot, and must say so within its deadline.
 */
#include "postgres/support_proxy.h"
#include "postgres/support_side.h"
#include "support/make.h"

#include "base/uuid.h"

#include <inttypes.h>

#define MESSAGES_MAX 200 /* more than any change has */
#define HASTE_MS 100     /* a deadline behind a network that stalls; longer on a slow machine */
#define HASTE_MS_MAX 6400
#define GRACE_MS 30000 /* a slow machine; without a deadline it would be minutes */
#define FAR (10 * LEASE_US)
#define MANY 5
#define SLOW_MAX 100 /* trials that a slow machine spoils */
#define SLOW_MANY 10 /* of them: it needs more time */

struct trial {
    struct fixture *f;
    struct proxy *proxy;
    struct store *direct;
    struct store *patient; /* behind the proxy */
    struct store *hasty;   /* behind the proxy, with little time */
    struct store *store;   /* one of the two */
    int64_t timeout_ms;    /* of its calls */
    int64_t haste_ms;      /* of the hasty one's */
    PGconn *side;
    int64_t id; /* of the subscription */
    int64_t namespace_id;
    struct proxy_fault fault;
    /* what is being tried */
    struct new_event events[MANY];
    struct batch batch;
    struct claim claim;
    struct owner owner;
    int64_t position;
};

/* A change under trial. */
struct act {
    void (*begin)(struct trial *trial); /* while the network is fine */
    hf_status (*run)(struct trial *trial);
    void (*judge)(struct trial *trial, hf_status status);
    bool resolves; /* by its ids: if the connection ends the answer is HF_OK */
};

/* ---- The trial ------------------------------------------------------------------------------- */

static hf_status open_behind(struct trial *t, const char *node, int64_t timeout_ms,
                             struct store **ret_store)
{
    char url[sizeof t->f->url + 64];
    struct store_options options = fixture_options(t->f, node);
    options.durability = HF_DURABILITY_POWER;
    options.timeout_ms = timeout_ms;
    proxy_url(t->proxy, t->f->url, url, sizeof url);
    return store_open(url, &options, ret_store);
}

/* With as little time as this machine can open a store in. */
static void open_hasty(struct trial *t)
{
    hf_status status = open_behind(t, "hasty", t->haste_ms, &t->hasty);
    while (status && t->haste_ms < HASTE_MS_MAX) {
        t->haste_ms *= 2;
        status = open_behind(t, "hasty", t->haste_ms, &t->hasty);
    }
    must_answer(HF_OK, status);
}

static struct trial trial_of(struct fixture *f)
{
    const char *dir = getenv("TEST_POSTGRES");
    if (f->sqlite || !dir) {
        skip();
    }
    struct trial t = {.f = f, .proxy = proxy_start(dir), .direct = fixture_open(f, "direct")};
    must_answer(HF_OK, open_behind(&t, "patient", DEADLINE_MS, &t.patient));
    t.haste_ms = HASTE_MS;
    open_hasty(&t);
    t.side = side_open(f);
    t.namespace_id = side_namespace(t.side, f);
    batch_init(&t.batch);
    return t;
}

static void trial_end(struct trial *t)
{
    batch_release(&t->batch);
    store_close(t->patient);
    store_close(t->hasty);
    proxy_stop(t->proxy);
    PQfinish(t->side);
}

static hf_status go(struct trial *t, struct change *change)
{
    return store_run(t->store, change, deadline_after_ms(t->timeout_ms));
}

static const char *fault_name(const struct trial *t)
{
    static const char *const actions[PROXY_ACTIONS] = {"cut", "reset", "half", "stall"};
    static char name[64];
    snprintf(name, sizeof name, "%s %s message %" PRId64 " of the %s", actions[t->fault.action],
             t->fault.after ? "after" : "before", t->fault.nth,
             t->fault.side == PROXY_CLIENT ? "client" : "server");
    return name;
}

enum ending {
    THROUGH, /* before the fault came */
    STRUCK,
    SLOW, /* the little time was over before either */
};

static enum ending try_once(struct trial *t, const struct act *act)
{
    t->store = t->fault.action == PROXY_STALL ? t->hasty : t->patient;
    t->timeout_ms = DEADLINE_MS;
    act->begin(t);
    t->timeout_ms = t->fault.action == PROXY_STALL ? t->haste_ms : DEADLINE_MS;
    proxy_arm(t->proxy, t->fault);
    int64_t begun_ms = mono_ms();
    hf_status status = act->run(t);
    int64_t took_ms = mono_ms() - begun_ms;
    bool struck = proxy_struck(t->proxy);
    char message[256];
    snprintf(message, sizeof message, "%s", status == HF_OK ? "" : err_message());
    proxy_calm(t->proxy);
    bool hasty = t->fault.action == PROXY_STALL;
    bool kept = status == HF_OK || (struck && !act->resolves) || hasty;
    if (!kept || (hasty && took_ms > t->haste_ms + GRACE_MS)) {
        check_fail(__FILE__, __LINE__, "%s: answered %s (%s) after %d ms", fault_name(t),
                   status_name(status), message, (int)took_ms);
    }
    act->judge(t, status);
    return struck ? STRUCK : status == HF_OK ? THROUGH : SLOW;
}

static void be_less_hasty(struct trial *t)
{
    store_close(t->hasty);
    t->haste_ms = t->haste_ms < HASTE_MS_MAX ? t->haste_ms * 2 : t->haste_ms;
    open_hasty(t);
}

static void try_messages(struct trial *t, const struct act *act, struct proxy_fault fault)
{
    for (int side = 0; side < 2; side++) {
        t->fault = fault;
        t->fault.side = (enum proxy_side)side;
        t->fault.nth = 1;
        int slow = 0;
        for (enum ending ending = STRUCK; ending != THROUGH;) {
            ending = try_once(t, act);
            t->fault.nth += ending == STRUCK;
            slow += ending == SLOW;
            if (ending == SLOW && slow % SLOW_MANY == 0) {
                be_less_hasty(t);
            }
            must_hold(t->fault.nth < MESSAGES_MAX && slow < SLOW_MAX);
        }
        must_hold(t->fault.nth > 2); /* it was tried */
    }
}

static void try_every_message(struct trial *t, const struct act *act)
{
    static const struct proxy_fault faults[] = {
        {.action = PROXY_CUT},
        {.action = PROXY_RESET, .after = true},
        {.action = PROXY_HALF, .after = true},
        {.action = PROXY_STALL},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        try_messages(t, act, faults[i]);
    }
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static int64_t stored(struct trial *t, const struct new_event *event)
{
    char id[UUID_TEXT_BYTES];
    uuid_format(event->id, id);
    return side_number(t->side,
                       "SELECT count(*) FROM holdfast_private.events WHERE namespace_id = %" PRId64
                       " AND id = '%s'",
                       t->namespace_id, id);
}

static void make_events(struct trial *t, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        t->events[i] = event_of("t", "k");
    }
}

/* So that the connection stands and knows the statement. */
static void begin_publish(struct trial *t)
{
    make_events(t, 1);
    struct append append = append_of(t->events, 1);
    must_answer(HF_OK, go(t, &append.change));
    make_events(t, MANY);
}

static hf_status publish(struct trial *t, size_t count)
{
    struct append append = append_of(t->events, count);
    return go(t, &append.change);
}

static void judge_publish(struct trial *t, size_t count, hf_status status)
{
    int64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += stored(t, &t->events[i]);
    }
    bool fits = status == HF_OK        ? found == (int64_t)count
                : status == HF_UNKNOWN ? found == 0 || found == (int64_t)count
                                       : found == 0;
    if (!fits) {
        check_fail(__FILE__, __LINE__, "%s: %s, but %" PRId64 " of %zu are stored", fault_name(t),
                   status_name(status), found, count);
    }
    struct append append = append_of(t->events, count);
    must_answer(HF_OK, store_run(t->direct, &append.change, deadline_after_ms(DEADLINE_MS)));
    for (size_t i = 0; i < count; i++) {
        must_equal(found > 0, t->events[i].duplicate);
        must_equal(1, stored(t, &t->events[i]));
    }
}

static hf_status publish_one(struct trial *t)
{
    return publish(t, 1);
}

static void judge_one(struct trial *t, hf_status status)
{
    judge_publish(t, 1, status);
}

static hf_status publish_many(struct trial *t)
{
    return publish(t, MANY);
}

static void judge_many(struct trial *t, hf_status status)
{
    judge_publish(t, MANY, status);
}

static void a_publish_is_stored_once_or_known_to_be_open(void **state)
{
    struct trial t = trial_of(*state);
    try_every_message(&t, &(struct act){begin_publish, publish_one, judge_one, true});
    trial_end(&t);
}

static void many_events_are_stored_all_or_none(void **state)
{
    struct trial t = trial_of(*state);
    try_every_message(&t, &(struct act){begin_publish, publish_many, judge_many, true});
    trial_end(&t);
}

/* A key's version says how many of its events there are, so a second one would be noticed. */
static void begin_version(struct trial *t)
{
    make_events(t, 1);
    t->events[0].expected_version = 0;
    t->events[0].key = text_of("warm");
    struct append append = append_of(t->events, 1);
    hf_status status = go(t, &append.change);
    must_hold(status == HF_OK || status == HF_CONFLICT);
    static char key[32];
    static int number;
    snprintf(key, sizeof key, "v%d", ++number);
    make_events(t, 1);
    t->events[0].key = text_of(key);
    t->events[0].expected_version = 0;
}

static void a_versioned_publish_is_not_in_conflict_with_itself(void **state)
{
    struct trial t = trial_of(*state);
    try_every_message(&t, &(struct act){begin_version, publish_one, judge_one, true});
    trial_end(&t);
}

/* Also the messages of connecting, of the greeting, and of preparing. */
static void begin_cold(struct trial *t)
{
    proxy_shut(t->proxy, true);
    make_events(t, 1);
}

static void a_publish_survives_faults_while_it_connects(void **state)
{
    struct trial t = trial_of(*state);
    const struct act act = {begin_cold, publish_one, judge_one, true};
    try_messages(&t, &act, (struct proxy_fault){.action = PROXY_RESET});
    try_messages(&t, &act, (struct proxy_fault){.action = PROXY_STALL});
    trial_end(&t);
}

/* ---- Shared delivery ------------------------------------------------------------------------- */

/* Everything that a claim far in the future finds, which is then done. */
static size_t drain(struct trial *t)
{
    struct claim claim = claim_of(t->id, 100, T0 + FAR, &t->batch);
    batch_clear(&t->batch);
    must_answer(HF_OK, RUN(t->direct, &claim));
    size_t count = t->batch.count;
    if (count > 0) {
        must_answer(HF_OK, finish_all(t->direct, &claim, T0 + FAR));
    }
    return count;
}

static void begin_claim(struct trial *t)
{
    append_count(t->direct, "t", 1);
    t->claim = claim_of(t->id, 10, T0, &t->batch);
    batch_clear(&t->batch);
    must_answer(HF_OK, go(t, &t->claim.change));
    must_answer(HF_OK, finish_all(t->store, &t->claim, T0));
    must_equal(0, drain(t));
    append_count(t->direct, "t", 3);
}

static hf_status claim(struct trial *t)
{
    t->claim = claim_of(t->id, 10, T0, &t->batch);
    batch_clear(&t->batch);
    return go(t, &t->claim.change);
}

static void judge_claim(struct trial *t, hf_status status)
{
    must_equal(status == HF_OK ? 3 : 0, t->batch.count);
    if (status && status != HF_UNKNOWN) { /* no worker has them */
        struct claim again = claim_of(t->id, 10, T0, &t->batch);
        must_answer(HF_OK, RUN(t->direct, &again));
        must_equal(3, t->batch.count);
    }
    /* Whichever worker had them, three come again when the lease is over, one half at a time. */
    size_t found = 0;
    for (int i = 0; i < 10 && found < 3; i++) {
        found += drain(t);
    }
    must_equal(3, found);
    must_equal(0, drain(t));
}

static void a_claim_loses_nothing(void **state)
{
    struct trial t = trial_of(*state);
    t.id = subscribe_shared(t.direct, "s");
    try_every_message(&t, &(struct act){begin_claim, claim, judge_claim, false});
    trial_end(&t);
}

static void begin_ack(struct trial *t)
{
    begin_claim(t);
    must_answer(HF_OK, claim(t));
    must_equal(3, t->batch.count);
}

static hf_status ack(struct trial *t)
{
    struct settle_lease change = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
        .subscription_id = t->id,
        .all = true,
    };
    memcpy(change.lease, t->claim.ret_lease, sizeof change.lease);
    return go(t, &change.change);
}

static void judge_ack(struct trial *t, hf_status status)
{
    size_t found = 0;
    for (int i = 0; i < 10 && found < 3; i++) {
        found += drain(t);
    }
    bool fits = status == HF_OK        ? found == 0
                : status == HF_UNKNOWN ? found == 0 || found == 3
                                       : found == 3;
    if (!fits) {
        check_fail(__FILE__, __LINE__, "%s: %s, and %zu come again", fault_name(t),
                   status_name(status), found);
    }
}

static void an_acknowledgement_counts_or_not_as_it_says(void **state)
{
    struct trial t = trial_of(*state);
    t.id = subscribe_shared(t.direct, "s");
    try_every_message(&t, &(struct act){begin_ack, ack, judge_ack, false});
    trial_end(&t);
}

/* ---- Ordered delivery ------------------------------------------------------------------------ */

static hf_status settle_one(struct trial *t, struct outcome outcome)
{
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = T0},
                            .subscription_id = t->id,
                            .epoch = t->owner.epoch,
                            .checkpoint = outcome.position,
                            .outcomes = &outcome,
                            .count = 1};
    return go(t, &change.change);
}

static void begin_settle(struct trial *t)
{
    struct acquire acquire = acquire_of(t->id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, go(t, &acquire.change));
    t->owner.epoch = acquire.ret_epoch;
    must_answer(HF_OK, settle_one(t, done(append_one(t->direct, "t", "k"), "k")));
    t->position = append_one(t->direct, "t", "k");
}

static hf_status settle_done(struct trial *t)
{
    return settle_one(t, done(t->position, "k"));
}

/* Whether it happened. */
static bool judge_settled(struct trial *t, hf_status status)
{
    bool happened = progress_of(t->direct, t->id).checkpoint >= t->position;
    if (status != HF_UNKNOWN && happened != (status == HF_OK)) {
        check_fail(__FILE__, __LINE__, "%s: %s, but it %s", fault_name(t), status_name(status),
                   happened ? "happened" : "did not happen");
    }
    return happened;
}

static void judge_done(struct trial *t, hf_status status)
{
    judge_settled(t, status);
}

static void a_settle_counts_or_not_as_it_says(void **state)
{
    struct trial t = trial_of(*state);
    t.id = subscribe_ordered(t.direct, "s", 1);
    try_every_message(&t, &(struct act){begin_settle, settle_done, judge_done, false});
    trial_end(&t);
}

static hf_status settle_dead(struct trial *t)
{
    return settle_one(t, dead(t->position, "k"));
}

static void judge_dead(struct trial *t, hf_status status)
{
    bool happened = judge_settled(t, status);
    must_equal(happened, side_number(t->side,
                                     "SELECT count(*) FROM holdfast_private.letters WHERE "
                                     "namespace_id = %" PRId64 " AND position = %" PRId64,
                                     t->namespace_id, t->position));
    if (!happened) {
        begin_settle(t); /* who loads again finds it where it was */
        must_answer(HF_OK, settle_dead(t));
    }
}

static void a_dead_letter_is_written_once_with_its_settle(void **state)
{
    struct trial t = trial_of(*state);
    t.id = subscribe_ordered(t.direct, "s", 1);
    try_every_message(&t, &(struct act){begin_settle, settle_dead, judge_dead, false});
    trial_end(&t);
}

/* ---- Transactional delivery ------------------------------------------------------------------ */

static void begin_tx(struct trial *t)
{
    begin_settle(t);
    t->f->batch_count = t->f->batch_count > 8 ? 8 : t->f->batch_count;
    batch_clear(&t->batch);
    must_answer(HF_OK, store_reader_next(fixture_reader(t->f, t->direct, t->position - 1),
                                         &filter_all, 1, &t->batch, &(int64_t){0}, &(bool){0}));
    must_equal(1, t->batch.count);
    store_reader_close(t->f->readers[0]);
    t->f->readers[0] = NULL;
}

static hf_status run_handler(struct trial *t, struct tx *tx)
{
    struct hold hold = {.subscription_id = t->id, .epoch = t->owner.epoch};
    bool busy;
    hf_status status = tx_enter(tx, &hold, &t->batch.entries[0], T0);
    if (!status) {
        char sql[128];
        snprintf(sql, sizeof sql, "INSERT INTO effects VALUES (%" PRId64 ")", t->position);
        PGresult *result = PQexec(tx_connection(tx), sql);
        status = PQresultStatus(result) == PGRES_COMMAND_OK ? HF_OK : HF_UNAVAILABLE;
        PQclear(result);
    }
    return status == HF_OK ? tx_leave(tx, true, &busy) : status;
}

static hf_status deliver(struct trial *t)
{
    struct tx *tx = NULL;
    hf_status status = store_tx_begin(t->store, deadline_after_ms(t->timeout_ms), &tx);
    if (status) {
        return status;
    }
    status = run_handler(t, tx);
    if (!status) {
        return tx_commit(tx);
    }
    tx_rollback(tx);
    return status;
}

static void judge_effect(struct trial *t, hf_status status)
{
    int64_t effects =
        side_number(t->side, "SELECT count(*) FROM effects WHERE position = %" PRId64, t->position);
    int64_t settled = side_number(t->side,
                                  "SELECT count(*) FROM holdfast_private.settled WHERE "
                                  "subscription_id = %" PRId64 " AND position = %" PRId64,
                                  t->id, t->position);
    must_equal(effects, settled);
    if (status != HF_UNKNOWN && (status == HF_OK) != (effects == 1)) {
        check_fail(__FILE__, __LINE__, "%s: %s, and %" PRId64 " effects", fault_name(t),
                   status_name(status), effects);
    }
}

/* The handler itself waits as long as libpq lets it, so nothing stalls here. */
static void effects_are_there_if_and_only_if_the_delivery_is_settled(void **state)
{
    struct trial t = trial_of(*state);
    t.id = subscribe_ordered(t.direct, "s", 1);
    side_must(t.side, "CREATE TABLE effects (position bigint PRIMARY KEY)");
    const struct act act = {begin_tx, deliver, judge_effect, false};
    try_messages(&t, &act, (struct proxy_fault){.action = PROXY_CUT});
    try_messages(&t, &act, (struct proxy_fault){.action = PROXY_RESET});
    side_must(t.side, "DROP TABLE effects");
    trial_end(&t);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_publish_is_stored_once_or_known_to_be_open),
    CLAIM(many_events_are_stored_all_or_none),
    CLAIM(a_versioned_publish_is_not_in_conflict_with_itself),
    CLAIM(a_publish_survives_faults_while_it_connects),
    CLAIM(a_claim_loses_nothing),
    CLAIM(an_acknowledgement_counts_or_not_as_it_says),
    CLAIM(a_settle_counts_or_not_as_it_says),
    CLAIM(a_dead_letter_is_written_once_with_its_settle),
    CLAIM(effects_are_there_if_and_only_if_the_delivery_is_settled),
};

FIXTURE_MAIN("network", claims, NULL)
