/*
 * Tests of the oracle itself (support/ledger.h): a ledger that finds nothing wrong proves nothing
 * unless it finds each kind of breach when there is one.
 *
 * A bus delivers some events honestly, and the ledger's lines are written so that one promise looks
 * broken.
 */
#include "support_actor.h"

#include "support/ledger.h"
#include "support/postgres.h"
#include "support/rig.h"

#include <sqlite3.h>

#define EVENTS 4

static const struct ledger_subscription subscriptions[] = {
    {.name = "o", .ordered = true, .attempts_max = 3},
    {.name = "t", .ordered = true, .transactional = true, .attempts_max = 3},
};

/* What was published; the positions are 1 to EVENTS. */
static char ids[EVENTS][HF_ID_BYTES];
static const char payload[] = "{\"n\":1}";
static char path[512];

static unsigned long long hash(void)
{
    return (unsigned long long)rig_hash(payload, strlen(payload));
}

/* Publishes EVENTS events of one key; the effects table has one row for each. */
static void publish_honestly(struct scene *scene)
{
    struct chance chance;

    snprintf(path, sizeof path, "%s", scene_file(scene, "ledger"));
    chance_seed(&chance, 1);
    for (int i = 0; i < EVENTS; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;

        chance_id(&chance, ids[i]);
        event.type = "x";
        event.id = ids[i];
        event.key = "k";
        event.payload = payload;
        assert_ok(hf_publish(scene->bus, &event, NULL));
    }
}

static void sent(int number)
{
    diary_write(path, "S %s k %llx", ids[number], hash());
}

static void acknowledged(int number)
{
    diary_write(path, "A %s %d", ids[number], number + 1);
}

static void delivered(int number, int attempt, char verdict)
{
    for (size_t i = 0; i < COUNTED(subscriptions); i++) {
        diary_write(path, "D %s %s %d %llx %c 7", subscriptions[i].name, ids[number], attempt,
                    hash(), verdict);
    }
}

/* Everything as it should be, but for the event `but` (-1: none). */
static void write_honestly(int but)
{
    for (int i = 0; i < EVENTS; i++) {
        if (i == but) {
            continue;
        }
        sent(i);
        acknowledged(i);
        delivered(i, 1, 'a');
    }
}

static void run_sql(struct scene *scene, const char *sql)
{
    sqlite3 *db = NULL;

    if (!scene->path) {
        assert_true(postgres_run(scene->url, sql));
        return;
    }
    assert_int_equal(sqlite3_open(scene->path, &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The breaches with these numbers of effects. */
static int64_t judge(struct scene *scene, const int *effects)
{
    struct ledger *ledger = ledger_new(subscriptions, COUNTED(subscriptions));
    char sql[200];
    int64_t breaches;

    run_sql(scene, "CREATE TABLE effects (id TEXT); CREATE TABLE outbox (id TEXT)");
    for (int i = 0; i < EVENTS; i++) {
        for (int j = 0; j < (effects ? effects[i] : 1); j++) {
            snprintf(sql, sizeof sql, "INSERT INTO effects VALUES ('%s')", ids[i]);
            run_sql(scene, sql);
        }
    }
    ledger_read(ledger, path);
    assert_ok(ledger_inspect(ledger, scene->bus));
    assert_ok(ledger_inspect_tables(ledger, scene->path ? scene->path : scene->url));
    breaches = ledger_judge(ledger);
    ledger_free(ledger);
    return breaches;
}

static void an_honest_run_has_no_breach(void **state)
{
    publish_honestly(*state);
    write_honestly(-1);
    assert_int_equal(judge(*state, NULL), 0);
}

/* A kill -9 breaks a write off there. */
static void no_line_lies_across_the_end_of_a_page(void **state)
{
    char text[126], page[4096];
    int64_t lines = 0;
    size_t bytes;
    FILE *file;

    snprintf(path, sizeof path, "%s", scene_file(*state, "ledger"));
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 1000; i++) {
        diary_write(path, "%.*s", 1 + i % (int)sizeof text, text);
    }
    file = fopen(path, "re");
    assert_non_null(file);
    while ((bytes = fread(page, 1, sizeof page, file)) > 0) {
        assert_int_equal(page[bytes - 1], '\n');
        for (size_t i = 0; i < bytes; i++) {
            lines += page[i] == '\n';
        }
    }
    fclose(file);
    assert_int_equal(lines, 1000);
}

static void an_event_that_is_not_in_the_log_is_lost(void **state)
{
    publish_honestly(*state);
    write_honestly(-1);
    diary_write(path, "S 11111111-1111-4111-8111-111111111111 - 0");
    diary_write(path, "A 11111111-1111-4111-8111-111111111111 99");
    assert_true(judge(*state, NULL) > 0);
}

static void an_event_that_was_not_delivered_is_lost(void **state)
{
    publish_honestly(*state);
    write_honestly(2);
    sent(2);
    acknowledged(2);
    assert_true(judge(*state, NULL) > 0);
}

static void an_event_that_was_not_sent_is_invented(void **state)
{
    publish_honestly(*state);
    write_honestly(3);
    delivered(3, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

static void other_bytes_are_found(void **state)
{
    publish_honestly(*state);
    write_honestly(3);
    diary_write(path, "S %s k %llx", ids[3], hash() + 1);
    acknowledged(3);
    delivered(3, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

static void a_refused_event_must_not_exist(void **state)
{
    publish_honestly(*state);
    write_honestly(3);
    sent(3);
    diary_write(path, "F %s HF_NOSPACE", ids[3]);
    delivered(3, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

static void another_position_is_found(void **state)
{
    publish_honestly(*state);
    write_honestly(3);
    sent(3);
    diary_write(path, "A %s 17", ids[3]);
    delivered(3, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

static void two_effects_and_none_are_found(void **state)
{
    const int twice[EVENTS] = {1, 1, 2, 1};

    publish_honestly(*state);
    write_honestly(-1);
    assert_true(judge(*state, twice) > 0);
}

static void a_duplicate_needs_a_reason(void **state)
{
    publish_honestly(*state);
    write_honestly(-1);
    delivered(1, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

static void a_death_is_a_reason(void **state)
{
    publish_honestly(*state);
    write_honestly(-1);
    delivered(1, 1, 'a');
    diary_write(path, "K 7");
    assert_int_equal(judge(*state, NULL), 0);
}

static void an_event_that_overtakes_is_found(void **state)
{
    publish_honestly(*state);
    for (int i = 0; i < EVENTS; i++) {
        sent(i);
        acknowledged(i);
    }
    delivered(1, 1, 'a');
    delivered(0, 1, 'a');
    delivered(2, 1, 'a');
    delivered(3, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

static void an_event_that_overtakes_a_failing_one_is_found(void **state)
{
    publish_honestly(*state);
    for (int i = 0; i < EVENTS; i++) {
        sent(i);
        acknowledged(i);
    }
    delivered(0, 1, 'r');
    delivered(1, 1, 'a');
    delivered(0, 2, 'a');
    delivered(2, 1, 'a');
    delivered(3, 1, 'a');
    assert_true(judge(*state, NULL) > 0);
}

/* Breaches if the first subscription promises this as well, and events came in this order. */
static int64_t judge_promise(struct scene *scene, struct ledger_subscription promise,
                             const int *order)
{
    struct ledger *ledger = ledger_new(&promise, 1);
    int64_t breaches;

    publish_honestly(scene);
    for (int i = 0; i < EVENTS; i++) {
        sent(i);
    }
    for (int i = 0; i < EVENTS; i++) {
        acknowledged(i);
    }
    for (int i = 0; i < EVENTS && order[i] >= 0; i++) {
        delivered(order[i], 1, 'a');
    }
    ledger_read(ledger, path);
    assert_ok(ledger_inspect(ledger, scene->bus));
    breaches = ledger_judge(ledger);
    assert_int_equal(ledger_overtaking(ledger, "o") > 0, order[0] > order[1]);
    ledger_free(ledger);
    return breaches;
}

static void the_order_of_positions_is_judged_where_it_is_promised(void **state)
{
    const int order[EVENTS] = {1, 0, 2, 3};
    struct ledger_subscription promise = {.name = "o", .attempts_max = 3, .strict = true};

    assert_true(judge_promise(*state, promise, order) > 0);
}

static void events_that_were_sent_at_once_may_come_in_any_order(void **state)
{
    const int order[EVENTS] = {1, 0, 2, 3};
    struct ledger_subscription promise = {.name = "o", .ordered = true, .attempts_max = 3};

    assert_int_equal(judge_promise(*state, promise, order), 0);
}

static void the_order_of_a_key_is_judged_where_it_is_promised(void **state)
{
    const int order[EVENTS] = {1, 0, 2, 3};
    struct ledger_subscription promise = {.name = "o", .attempts_max = 3, .by_position = true};

    assert_true(judge_promise(*state, promise, order) > 0);
}

static void events_before_the_start_must_not_come_and_the_rest_must(void **state)
{
    const int rest[EVENTS] = {2, 3, -1};
    struct ledger_subscription promise = {.name = "o", .attempts_max = 3, .after = 2};

    assert_int_equal(judge_promise(*state, promise, rest), 0);
}

static void an_event_from_before_the_start_is_found(void **state)
{
    const int all[EVENTS] = {0, 1, 2, 3};
    struct ledger_subscription promise = {.name = "o", .attempts_max = 3, .after = 2};

    assert_true(judge_promise(*state, promise, all) > 0);
}

static void too_many_attempts_are_found(void **state)
{
    publish_honestly(*state);
    write_honestly(3);
    sent(3);
    acknowledged(3);
    for (int attempt = 1; attempt <= 4; attempt++) {
        delivered(3, attempt, attempt < 4 ? 'r' : 'a');
    }
    assert_true(judge(*state, NULL) > 0);
}

static void a_joined_event_without_its_row_is_found(void **state)
{
    publish_honestly(*state);
    write_honestly(-1);
    diary_write(path, "J %s", ids[0]);
    assert_true(judge(*state, NULL) > 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(an_honest_run_has_no_breach),
    bare_test(no_line_lies_across_the_end_of_a_page),
    scene_test(an_event_that_is_not_in_the_log_is_lost),
    scene_test(an_event_that_was_not_delivered_is_lost),
    scene_test(an_event_that_was_not_sent_is_invented),
    scene_test(other_bytes_are_found),
    scene_test(a_refused_event_must_not_exist),
    scene_test(another_position_is_found),
    scene_test(two_effects_and_none_are_found),
    scene_test(a_duplicate_needs_a_reason),
    scene_test(a_death_is_a_reason),
    scene_test(an_event_that_overtakes_is_found),
    scene_test(an_event_that_overtakes_a_failing_one_is_found),
    scene_test(the_order_of_positions_is_judged_where_it_is_promised),
    scene_test(events_that_were_sent_at_once_may_come_in_any_order),
    scene_test(the_order_of_a_key_is_judged_where_it_is_promised),
    scene_test(events_before_the_start_must_not_come_and_the_rest_must),
    scene_test(an_event_from_before_the_start_is_found),
    scene_test(too_many_attempts_are_found),
    scene_test(a_joined_event_without_its_row_is_found),
};

SCENE_MAIN(tests)
