/*
 * ledger.c - see ledger.h.
 *
 * Everything is kept in memory: a hash table of events by id, and per key the list of acknowledged
 * events in the order of their publisher's file. Happens-before of G6 is read off a publisher's
 * file: an event that was acknowledged by a line above the S of another of the same key came first.
 * For each event it is enough to remember how many of its key's list were acknowledged then.
 */
#include "support/ledger.h"

#include "support/postgres.h"
#include "support/server.h"

#include "support/rig.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BREACHES_SHOWN 6
#define NEVER INT64_MAX

/* One event in one subscription. */
struct fate {
    int32_t calls;
    int32_t attempt_max;
    int64_t first_call; /* line of the first delivery, counted in the order of deliveries */
    int64_t first_ack;  /* line of the first acknowledged delivery; NEVER: none */
    int64_t last_call;
    char last_verdict;
    int32_t last_process;
    int32_t unexplained; /* times it came again for no reason */
    int32_t dead;        /* dead letters */
    int32_t dead_attempts;
    int32_t dead_story; /* attempts in the story */
    int32_t effects;
};

struct record {
    char id[HF_ID_BYTES];
    struct record *next; /* in its bucket */
    struct keyed *keyed; /* NULL: no key */
    size_t before;       /* of its key's list were acknowledged when it was sent */
    uint64_t hash;
    int64_t position; /* acknowledged; 0: not */
    int64_t place;    /* in the log; 0: not there */
    uint64_t log_hash;
    int32_t places;
    bool sent, refused, unknown, derived, joined, outbox, other_bytes, other_position;
    struct fate fates[LEDGER_SUBSCRIPTIONS_MAX];
};

/* Acknowledged events of one key in one publisher's file. */
struct keyed {
    char *name;
    struct record **records;
    size_t count, capacity;
    int64_t latest; /* scratch of judge_positions */
    struct keyed *next;
};

#define BUCKETS (1 << 16)

struct ledger {
    struct ledger_subscription subscriptions[LEDGER_SUBSCRIPTIONS_MAX];
    size_t subscription_count;
    struct record *buckets[BUCKETS];
    struct keyed *keys[1024];
    int64_t calls, dead, acknowledged, breaches;
    const struct record *shown[BREACHES_SHOWN]; /* the first breaches, for ledger_explain */
    struct processes {
        int32_t *pids;
        size_t count, capacity;
    } gone, frozen;
    struct {
        char name[64];
        int64_t hits;
    } points[256];
    size_t point_count;
};

/* ---- Tables ---------------------------------------------------------------------------------- */

static void *grow(void *block, size_t *capacity, size_t size)
{
    *capacity = *capacity ? *capacity * 2 : 64;
    block = realloc(block, *capacity * size);
    if (!block) {
        abort();
    }
    return block;
}

struct ledger *ledger_new(const struct ledger_subscription *subscriptions, size_t count)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);

    if (!ledger || count > LEDGER_SUBSCRIPTIONS_MAX) {
        abort();
    }
    memcpy(ledger->subscriptions, subscriptions, count * sizeof *subscriptions);
    ledger->subscription_count = count;
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct record *next, *record = ledger->buckets[i]; record; record = next) {
            next = record->next;
            free(record);
        }
    }
    for (size_t i = 0; i < 1024; i++) {
        for (struct keyed *next, *keyed = ledger->keys[i]; keyed; keyed = next) {
            next = keyed->next;
            free(keyed->records);
            free(keyed->name);
            free(keyed);
        }
    }
    free(ledger->gone.pids);
    free(ledger->frozen.pids);
    free(ledger);
}

static struct record *record_of(struct ledger *ledger, const char *id)
{
    struct record **bucket = &ledger->buckets[rig_hash(id, strlen(id)) % BUCKETS];
    struct record *record;

    for (record = *bucket; record; record = record->next) {
        if (strcmp(record->id, id) == 0) {
            return record;
        }
    }
    record = calloc(1, sizeof *record);
    if (!record) {
        abort();
    }
    snprintf(record->id, sizeof record->id, "%s", id);
    for (int i = 0; i < LEDGER_SUBSCRIPTIONS_MAX; i++) {
        record->fates[i].first_call = record->fates[i].first_ack = NEVER;
    }
    record->next = *bucket;
    *bucket = record;
    return record;
}

/* A key is the publisher's own: its name is made unique by the file. */
static struct keyed *key_of(struct ledger *ledger, const char *path, const char *key)
{
    char name[RIG_PATH_BYTES + 80];
    struct keyed **bucket, *keyed;

    snprintf(name, sizeof name, "%s %s", path, key);
    bucket = &ledger->keys[rig_hash(name, strlen(name)) % 1024];
    for (keyed = *bucket; keyed; keyed = keyed->next) {
        if (strcmp(keyed->name, name) == 0) {
            return keyed;
        }
    }
    keyed = calloc(1, sizeof *keyed);
    if (!keyed) {
        abort();
    }
    keyed->name = strdup(name);
    keyed->next = *bucket;
    *bucket = keyed;
    return keyed;
}

static int subscription_of(const struct ledger *ledger, const char *name)
{
    for (size_t i = 0; i < ledger->subscription_count; i++) {
        if (strcmp(ledger->subscriptions[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static bool is_among(const struct processes *processes, int32_t pid)
{
    for (size_t i = 0; i < processes->count; i++) {
        if (processes->pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* May what the one has acknowledged come to the other? */
static bool is_explained(const struct ledger *ledger, int32_t before, int32_t now)
{
    return is_among(&ledger->gone, before) || is_among(&ledger->frozen, before) ||
           is_among(&ledger->frozen, now);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool read_sent(struct ledger *ledger, const char *path, const char *line)
{
    char id[HF_ID_BYTES], key[64];
    unsigned long long hash;
    struct record *record;

    if (sscanf(line, "S %36s %63s %llx", id, key, &hash) != 3) {
        return false;
    }
    record = record_of(ledger, id);
    if (record->sent) {
        return true;
    } /* sent again */
    record->sent = true;
    record->hash = hash;
    if (strcmp(key, "-") != 0) {
        record->keyed = key_of(ledger, path, key);
        record->before = record->keyed->count;
    }
    return true;
}

static bool read_acknowledged(struct ledger *ledger, const char *line)
{
    char id[HF_ID_BYTES];
    long long position;
    struct record *record;
    struct keyed *keyed;

    if (sscanf(line, "A %36s %lld", id, &position) != 2) {
        return false;
    }
    record = record_of(ledger, id);
    if (record->position) {
        record->other_position |= record->position != position;
        return true;
    }
    record->position = position;
    ledger->acknowledged++;
    keyed = record->keyed;
    if (!keyed) {
        return true;
    }
    if (keyed->count == keyed->capacity) {
        keyed->records = grow(keyed->records, &keyed->capacity, sizeof *keyed->records);
    }
    keyed->records[keyed->count++] = record;
    return true;
}

static bool read_delivered(struct ledger *ledger, const char *line)
{
    char name[64], id[HF_ID_BYTES], verdict;
    int attempt, process, index;
    unsigned long long hash;
    struct record *record;
    struct fate *fate;

    if (sscanf(line, "D %63s %36s %d %llx %c %d", name, id, &attempt, &hash, &verdict, &process) !=
        6) {
        return false;
    }
    index = subscription_of(ledger, name);
    if (index < 0) {
        return true;
    } /* not judged */
    record = record_of(ledger, id);
    fate = &record->fates[index];
    ledger->calls++;
    if (fate->calls && fate->last_verdict == 'a' &&
        !is_explained(ledger, fate->last_process, process)) {
        fate->unexplained++;
    }
    fate->calls++;
    fate->attempt_max = attempt > fate->attempt_max ? attempt : fate->attempt_max;
    fate->first_call = fate->calls == 1 ? ledger->calls : fate->first_call;
    if (verdict == 'a' && fate->first_ack == NEVER) {
        fate->first_ack = ledger->calls;
    }
    fate->last_call = ledger->calls;
    fate->last_verdict = verdict;
    fate->last_process = process;
    record->other_bytes |= record->sent && record->hash != hash;
    return true;
}

static bool read_undone(struct ledger *ledger, const char *line)
{
    char name[64], id[HF_ID_BYTES];
    int index;

    if (sscanf(line, "N %63s %36s", name, id) != 2) {
        return false;
    }
    index = subscription_of(ledger, name);
    if (index >= 0) {
        record_of(ledger, id)->fates[index].last_verdict = 'r';
    }
    return true;
}

static void read_process(struct processes *processes, const char *line)
{
    if (processes->count == processes->capacity) {
        processes->pids = grow(processes->pids, &processes->capacity, sizeof *processes->pids);
    }
    processes->pids[processes->count++] = (int32_t)strtol(line + 1, NULL, 10);
}

static bool read_point(struct ledger *ledger, const char *line)
{
    size_t i;
    char name[64];

    if (sscanf(line, "P %63s", name) != 1) {
        return false;
    }
    for (i = 0; i < ledger->point_count && strcmp(ledger->points[i].name, name) != 0;) {
        i++;
    }
    if (i == 256) {
        return true;
    }
    if (i == ledger->point_count) {
        snprintf(ledger->points[ledger->point_count++].name, 64, "%s", name);
    }
    ledger->points[i].hits++;
    return true;
}

static bool read_answer(struct ledger *ledger, const char *line)
{
    char id[HF_ID_BYTES];

    if (sscanf(line + 1, " %36s", id) != 1) {
        return false;
    }
    record_of(ledger, id)->refused |= line[0] == 'F';
    record_of(ledger, id)->unknown |= line[0] == 'U';
    record_of(ledger, id)->joined |= line[0] == 'J';
    return true;
}

/* False: it is no line of a ledger. */
static bool read_line(struct ledger *ledger, const char *path, const char *line)
{
    switch (line[0]) {
    case 'S':
        return read_sent(ledger, path, line);
    case 'A':
        return read_acknowledged(ledger, line);
    case 'F':
    case 'U':
    case 'J':
        return read_answer(ledger, line);
    case 'D':
        return read_delivered(ledger, line);
    case 'N':
        return read_undone(ledger, line);
    case 'P':
        return read_point(ledger, line);
    default:
        return strchr("KZ\n", line[0]) != NULL; /* read before, or an empty line */
    }
}

void ledger_read(struct ledger *ledger, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[600];

    if (!file) {
        return;
    }
    /* Who is gone is read first: a death is noted some time after it happened. */
    while (fgets(line, sizeof line, file)) {
        if ((line[0] == 'K' || line[0] == 'Z') && strchr(line, '\n')) {
            read_process(line[0] == 'K' ? &ledger->gone : &ledger->frozen, line);
        }
    }
    rewind(file);
    /* What cannot be read is told: whatever it said is missing, and may look like a loss. */
    while (fgets(line, sizeof line, file)) {
        if (strchr(line, '\n') && !read_line(ledger, path, line)) {
            rig_say("%s has a line that cannot be read: %.*s", path, (int)strcspn(line, "\n"),
                    line);
        }
    }
    fclose(file);
}

/* ---- The database ---------------------------------------------------------------------------- */

static int see_event(const hf_event *event, void *ctx)
{
    struct ledger *ledger = ctx;
    struct record *record = record_of(ledger, event->id);

    record->places++;
    record->place = event->position;
    record->log_hash = rig_hash(event->payload, event->payload_bytes);
    record->derived = strcmp(event->type, "derived") == 0;
    return 0;
}

static int see_dead(const hf_dead_letter *letter, void *ctx)
{
    struct ledger *ledger = ctx;
    int index = subscription_of(ledger, letter->subscription);
    struct fate *fate;

    ledger->dead++;
    if (index < 0) {
        return 0;
    }
    fate = &record_of(ledger, letter->event.id)->fates[index];
    fate->dead++;
    fate->dead_attempts = letter->attempts;
    for (const char *at = letter->attempts_json; at && (at = strstr(at, "\"attempt\":")); at++) {
        fate->dead_story++;
    }
    return 0;
}

struct seeing {
    struct ledger *ledger;
    void (*see)(struct ledger *ledger, struct record *record);
};

static void see_id(const char *id, void *ctx)
{
    struct seeing *seeing = ctx;

    seeing->see(seeing->ledger, record_of(seeing->ledger, id));
}

/* Calls for every id that the query answers. */
static hf_status each_id(const char *database, const char *sql, struct ledger *ledger,
                         void (*see)(struct ledger *ledger, struct record *record))
{
    struct seeing seeing = {ledger, see};

    if (server_is(database)) {
        return postgres_each(database, sql, see_id, &seeing) ? HF_OK : HF_IO;
    }

    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE, NULL);

    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(db, 10000);
        sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    }
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            see_id((const char *)sqlite3_column_text(statement, 0), &seeing);
        }
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return code == SQLITE_DONE ? HF_OK : HF_IO;
}

static void see_effect(struct ledger *ledger, struct record *record)
{
    for (size_t i = 0; i < ledger->subscription_count; i++) {
        record->fates[i].effects += ledger->subscriptions[i].transactional;
    }
}

static void see_outbox(struct ledger *ledger, struct record *record)
{
    (void)ledger;
    record->outbox = true;
}

hf_status ledger_inspect_tables(struct ledger *ledger, const char *database)
{
    hf_status status = each_id(database, "SELECT id FROM effects", ledger, see_effect);

    if (status) {
        return status;
    }
    return each_id(database, "SELECT id FROM outbox", ledger, see_outbox);
}

hf_status ledger_inspect(struct ledger *ledger, hf_bus *bus)
{
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    int64_t cursor = 0, before = -1;
    hf_status status = HF_OK;

    while (!status && cursor != before) {
        before = cursor;
        status = hf_read(bus, NULL, 10000, 0, &cursor, see_event, ledger);
    }
    filter.limit = 1000000;
    filter.resolved = HF_ON;
    if (!status) {
        status = hf_dead_list(bus, &filter, see_dead, ledger);
    }
    return status;
}

/* ---- The judge ------------------------------------------------------------------------------- */

static void breach(struct ledger *ledger, const char *what, const struct record *record,
                   const char *where)
{
    const struct fate *fate = &record->fates[0];
    int index = subscription_of(ledger, where);

    if (index >= 0) {
        fate = &record->fates[index];
    }
    if (ledger->breaches < BREACHES_SHOWN) {
        ledger->shown[ledger->breaches] = record;
    }
    if (ledger->breaches++ < BREACHES_SHOWN) {
        rig_say("%s: %s in %s: position %lld, place %lld, %d calls, attempt %d, %d dead (%d of %d "
                "told), %d effects",
                what, record->id, where, (long long)record->position, (long long)record->place,
                (int)fate->calls, (int)fate->attempt_max, (int)fate->dead, (int)fate->dead_story,
                (int)fate->dead_attempts, (int)fate->effects);
    }
}

static void judge_event(struct ledger *ledger, const struct record *record)
{
    bool called = false;

    for (size_t i = 0; i < ledger->subscription_count; i++) {
        called |= record->fates[i].calls > 0;
    }
    if (record->position && !record->place) {
        breach(ledger, "lost", record, "the log");
    }
    if (record->joined && record->outbox != (record->place != 0)) {
        breach(ledger, "joined", record, "the outbox");
    }
    if (record->places > 1 || record->other_position ||
        (record->position && record->place && record->position != record->place)) {
        breach(ledger, "twice", record, "the log");
    }
    if ((record->place || called) && !record->sent) {
        breach(ledger, "invented", record, "the log");
    }
    if (record->other_bytes ||
        (record->place && record->sent && record->hash != record->log_hash)) {
        breach(ledger, "other bytes", record, "the log");
    }
    if (record->refused && !record->position && (record->place || called)) {
        breach(ledger, "denied", record, "the log");
    }
    if (called && !record->place) {
        breach(ledger, "delivered but not stored", record, "the log");
    }
}

static void judge_fate(struct ledger *ledger, const struct record *record,
                       const struct ledger_subscription *subscription, const struct fate *fate)
{
    const char *name = subscription->name;
    bool wanted =
        record->place > subscription->after &&
        (!subscription->type || record->derived == (strcmp(subscription->type, "derived") == 0));

    if (wanted && fate->calls == 0 && fate->dead == 0) {
        breach(ledger, "lost", record, name);
    }
    if (!wanted && fate->calls > 0) {
        breach(ledger, "not for it", record, name);
    }
    if (fate->dead > 1) {
        breach(ledger, "dead twice", record, name);
    }
    if (fate->attempt_max > subscription->attempts_max ||
        fate->dead_attempts > subscription->attempts_max) {
        breach(ledger, "attempts", record, name);
    }
    /* Uncounted attempts are told, too. */
    if (fate->dead && fate->dead_story < fate->dead_attempts) {
        breach(ledger, "story", record, name);
    }
    if (fate->unexplained && !subscription->repeats) {
        breach(ledger, "unexplained duplicate", record, name);
    }
    if (subscription->transactional && wanted && fate->effects != (fate->dead ? 0 : 1)) {
        breach(ledger, "effects", record, name);
    }
    if (subscription->derives && wanted) {
        char id[HF_ID_BYTES];

        rig_derived_id(record->id, id);
        if ((record_of(ledger, id)->place != 0) != (fate->effects > 0)) {
            breach(ledger, "joined", record, name);
        }
    }
}

/* When an event of an ordered subscription was done with for the first time. */
static int64_t finished(const struct fate *fate)
{
    return fate->first_ack != NEVER ? fate->first_ack : fate->calls ? fate->last_call : 0;
}

static void judge_order(struct ledger *ledger, const struct keyed *keyed, size_t index)
{
    int64_t *latest = calloc(keyed->count + 1, sizeof *latest);

    if (!latest) {
        abort();
    }
    for (size_t i = 0; i < keyed->count; i++) {
        int64_t at = finished(&keyed->records[i]->fates[index]);

        latest[i + 1] = at > latest[i] ? at : latest[i];
    }
    for (size_t i = 0; i < keyed->count; i++) {
        const struct record *record = keyed->records[i];

        if (record->fates[index].calls &&
            record->fates[index].first_call < latest[record->before]) {
            breach(ledger, "order", record, ledger->subscriptions[index].name);
        }
    }
    free(latest);
}

static int by_place(const void *a, const void *b)
{
    const struct record *const *left = a, *const *right = b;

    return (*left)->place < (*right)->place ? -1 : (*left)->place > (*right)->place;
}

/* Everything that the subscription was given, in the order of positions. The caller frees it. */
static struct record **delivered_of(const struct ledger *ledger, size_t index, size_t *ret_count)
{
    struct record **list = NULL;
    size_t count = 0, capacity = 0;

    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct record *record = ledger->buckets[i]; record; record = record->next) {
            if (!record->place || !record->fates[index].calls) {
                continue;
            }
            if (count == capacity) {
                list = grow(list, &capacity, sizeof *list);
            }
            list[count++] = record;
        }
    }
    if (count > 0) {
        qsort(list, count, sizeof *list, by_place);
    }
    *ret_count = count;
    return list;
}

static void judge_positions(struct ledger *ledger, size_t index)
{
    const struct ledger_subscription *subscription = &ledger->subscriptions[index];
    size_t count;
    struct record **list = delivered_of(ledger, index, &count);
    int64_t latest = 0;

    for (size_t i = 0; i < count; i++) {
        struct keyed *keyed = subscription->strict ? NULL : list[i]->keyed;
        int64_t *before = keyed ? &keyed->latest : &latest;
        int64_t call = list[i]->fates[index].first_call;

        if (call < *before && (keyed || subscription->strict)) {
            breach(ledger, "position", list[i], subscription->name);
        }
        *before = call > *before ? call : *before;
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i]->keyed) {
            list[i]->keyed->latest = 0;
        }
    }
    free(list);
}

int64_t ledger_overtaking(const struct ledger *ledger, const char *subscription)
{
    int index = subscription_of(ledger, subscription);
    size_t count;
    struct record **list = delivered_of(ledger, (size_t)index, &count);
    int64_t latest = 0, overtaking = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t call = list[i]->fates[index].first_call;

        overtaking += call < latest;
        latest = call > latest ? call : latest;
    }
    free(list);
    return overtaking;
}

int64_t ledger_judge(struct ledger *ledger)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct record *record = ledger->buckets[i]; record; record = record->next) {
            judge_event(ledger, record);
            for (size_t s = 0; s < ledger->subscription_count; s++) {
                judge_fate(ledger, record, &ledger->subscriptions[s], &record->fates[s]);
            }
        }
    }
    for (size_t s = 0; s < ledger->subscription_count; s++) {
        for (size_t i = 0; ledger->subscriptions[s].ordered && i < 1024; i++) {
            for (struct keyed *keyed = ledger->keys[i]; keyed; keyed = keyed->next) {
                judge_order(ledger, keyed, s);
            }
        }
        if (ledger->subscriptions[s].strict || ledger->subscriptions[s].by_position) {
            judge_positions(ledger, s);
        }
    }
    return ledger->breaches;
}

static int explain_state(const hf_event_state *state, void *ctx)
{
    (void)ctx;
    rig_say("    in %s: %s, %d failed, next %lld, dead letter %lld, story %s", state->subscription,
            hf_state_name(state->state), (int)state->attempts, (long long)state->next_attempt_at_us,
            (long long)state->dead_id, state->attempts_json ? state->attempts_json : "-");
    return 0;
}

void ledger_explain(const struct ledger *ledger, hf_bus *bus)
{
    for (size_t i = 0; i < BREACHES_SHOWN && ledger->shown[i]; i++) {
        const struct record *record = ledger->shown[i];
        hf_status status;

        rig_say("what the store says of %s, position %lld:", record->id, (long long)record->place);
        status = hf_event_states(bus, record->id, explain_state, NULL);
        if (status) {
            rig_say("    %s: %s", hf_status_name(status), hf_errmsg());
        }
    }
}

int64_t ledger_acknowledged(const struct ledger *ledger)
{
    return ledger->acknowledged;
}

int64_t ledger_delivered(const struct ledger *ledger)
{
    return ledger->calls;
}

int64_t ledger_dead(const struct ledger *ledger)
{
    return ledger->dead;
}

void ledger_unanswered(const struct ledger *ledger, ledger_open_fn found, void *ctx)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct record *record = ledger->buckets[i]; record; record = record->next) {
            const char *key = record->keyed ? strrchr(record->keyed->name, ' ') + 1 : NULL;

            if (record->sent && !record->position && !record->refused) {
                found(record->id, key, ctx);
            }
        }
    }
}

int64_t ledger_hits(const struct ledger *ledger, const char *point)
{
    for (size_t i = 0; i < ledger->point_count; i++) {
        if (strcmp(ledger->points[i].name, point) == 0) {
            return ledger->points[i].hits;
        }
    }
    return 0;
}
