/*
 * test_verdict.c - what the end of an attempt means: attempts, delays, reasons, stories.
 */
#include "unit/unit.h"

#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "bus/deliver/work/verdict.h"
#include "bus/options.h"
#include "store/common/story.h"

#define NOW INT64_C(1763178878000000)
#define NO_JITTER (UINT64_C(1) << 63) /* the middle of the random range: the delay as it is */

static struct buf story; /* of the outcome under test; cleared by run() */

static hf_subscription_options policy(void)
{
    hf_subscription_options options;
    options_default(&options);
    return options;
}

static struct entry entry_with(int32_t attempts, int32_t uncounted, const char *json)
{
    return (struct entry){
        .event = {.position = 17},
        .lane = 99,
        .waited = attempts + uncounted > 0,
        .attempts = attempts,
        .uncounted = uncounted,
        .attempts_json = text_of(json),
    };
}

static struct outcome run(const hf_subscription_options *options, const struct entry *entry,
                          struct ending ending)
{
    struct outcome outcome;
    buf_clear(&story);
    assert_ok(verdict_outcome(options, entry, &ending, text_of("node-1"), NOW, NO_JITTER, &story,
                              &outcome));
    assert_int_equal(outcome.position, 17);
    assert_int_equal(outcome.lane, 99);
    assert_int_equal(outcome.waited, entry->waited);
    return outcome;
}

static struct ending ended(hf_verdict verdict, const char *error)
{
    return (struct ending){.verdict = verdict, .error = text_of(error), .delay_ms = -1};
}

static void assert_text(struct text text, const char *expected)
{
    if (!expected) {
        assert_null(text.bytes);
        return;
    }
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.bytes, expected, text.length);
}

/* The story's attempts in order: number, error, whether it counted. */
static void assert_story(struct text json, size_t count, int64_t last_attempt,
                         const char *last_error, bool last_counted)
{
    assert_ok(json_check(json.bytes, json.length, NULL, "story"));
    struct json_iter iter;
    struct text raw;
    struct text last = TEXT_ABSENT;
    size_t found = 0;
    assert_true(json_iter_init(&iter, json));
    while (json_iter_next(&iter, NULL, &raw)) {
        last = raw;
        found++;
    }
    assert_int_equal(found, count);
    int64_t attempt;
    struct buf error;
    buf_init(&error, 65536);
    assert_ok(json_find_int(last, "attempt", &attempt));
    assert_ok(json_find_string(last, "error", &error));
    bool counted = !json_find(last, "counted", &raw) || text_equal(raw, text_of("true"));
    assert_int_equal(attempt, last_attempt);
    assert_string_equal(buf_terminate(&error), last_error);
    assert_int_equal(counted, last_counted);
    buf_release(&error);
}

/* ---- The table ------------------------------------------------------------------------------- */

struct line {
    const char *claim;
    hf_verdict verdict;
    int32_t attempts; /* before */
    int32_t uncounted;
    enum outcome_kind kind;
    int32_t attempts_after;
    int32_t uncounted_after;
    int64_t delay_ms; /* RETRY */
    const char *reason;
};

/* attempts_max 4, base 1000 ms, doubled, at most 30 000 ms. */
static const struct line lines[] = {
    {"an ack is done", HF_ACK, 0, 0, OUTCOME_DONE, 0, 0, -1, NULL},
    {"an ack after failures is done", HF_ACK, 3, 5, OUTCOME_DONE, 3, 5, -1, NULL},
    {"attempt 2 waits the base", HF_RETRY, 0, 0, OUTCOME_RETRY, 1, 0, 1000, NULL},
    {"attempt 3 waits twice that", HF_RETRY, 1, 0, OUTCOME_RETRY, 2, 0, 2000, NULL},
    {"attempt 4 waits four times that", HF_RETRY, 2, 0, OUTCOME_RETRY, 3, 0, 4000, NULL},
    {"the fourth failure is the last", HF_RETRY, 3, 0, OUTCOME_DEAD, 4, 0, -1, "attempts"},
    {"more than allowed dies too", HF_RETRY, 9, 0, OUTCOME_DEAD, 10, 0, -1, "attempts"},
    {"uncounted leaves attempts alone", HF_RETRY_UNCOUNTED, 0, 0, OUTCOME_RETRY, 0, 1, 1000, NULL},
    {"uncounted backs off by runs", HF_RETRY_UNCOUNTED, 0, 2, OUTCOME_RETRY, 0, 3, 4000, NULL},
    {"uncounted never waits too long", HF_RETRY_UNCOUNTED, 1, 80, OUTCOME_RETRY, 1, 81, 30000,
     NULL},
    {"uncounted does not kill the last", HF_RETRY_UNCOUNTED, 3, 0, OUTCOME_RETRY, 3, 1, 8000, NULL},
    {"the hundredth is still uncounted", HF_RETRY_UNCOUNTED, 0, 99, OUTCOME_RETRY, 0, 100, 30000,
     NULL},
    {"after a hundred it counts", HF_RETRY_UNCOUNTED, 0, 100, OUTCOME_RETRY, 1, 100, 1000, NULL},
    {"and may be the last", HF_RETRY_UNCOUNTED, 3, 100, OUTCOME_DEAD, 4, 100, -1, "attempts"},
    {"a counted failure ignores uncounted", HF_RETRY, 1, 50, OUTCOME_RETRY, 2, 50, 2000, NULL},
    {"dead at once", HF_DEAD, 0, 0, OUTCOME_DEAD, 1, 0, -1, "rejected"},
    {"dead at the last", HF_DEAD, 3, 0, OUTCOME_DEAD, 4, 0, -1, "rejected"},
    {"undecodable at once", HF_UNDECODABLE, 0, 0, OUTCOME_DEAD, 1, 0, -1, "decode"},
    {"no verdict counts as retry", (hf_verdict)77, 0, 0, OUTCOME_RETRY, 1, 0, 1000, NULL},
};

static void every_answer_leads_to_its_outcome(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        const struct line *line = &lines[i];
        struct entry entry = entry_with(line->attempts, line->uncounted, NULL);
        struct outcome outcome = run(&options, &entry, ended(line->verdict, "boom"));
        if (outcome.kind != line->kind || outcome.attempts != line->attempts_after ||
            outcome.uncounted != line->uncounted_after) {
            fail_msg("%s: kind %d, attempts %d, uncounted %d", line->claim, outcome.kind,
                     outcome.attempts, outcome.uncounted);
        }
        if (outcome.kind == OUTCOME_RETRY) {
            assert_int_equal(outcome.next_attempt_us - NOW, line->delay_ms * 1000);
        }
        assert_text(outcome.reason, line->reason);
        assert_text(outcome.error, line->reason ? "boom" : NULL);
        if (outcome.kind != OUTCOME_DONE) {
            bool counted = line->attempts_after > line->attempts;
            assert_story(outcome.attempts_json, 1, line->attempts + 1, "boom", counted);
        }
    }
}

static void an_explicit_delay_wins_over_the_policy(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(0, 0, NULL);
    struct ending ending = ended(HF_RETRY, "later");
    ending.delay_ms = 0;
    assert_int_equal(run(&options, &entry, ending).next_attempt_us, NOW);
    ending.delay_ms = 86400000;
    assert_int_equal(run(&options, &entry, ending).next_attempt_us, NOW + INT64_C(86400000000));
    entry.attempts = 3;
    assert_int_equal(run(&options, &entry, ending).kind, OUTCOME_DEAD);
}

static void one_attempt_means_no_retry(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    options.attempts_max = 1;
    struct entry entry = entry_with(0, 0, NULL);
    struct outcome outcome = run(&options, &entry, ended(HF_RETRY, "boom"));
    assert_int_equal(outcome.kind, OUTCOME_DEAD);
    assert_text(outcome.reason, "attempts");
    assert_int_equal(run(&options, &entry, ended(HF_RETRY_UNCOUNTED, "lock")).kind, OUTCOME_RETRY);
}

static void jitter_stays_within_its_share_and_the_maximum(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    options.retry_base_ms = 29000;
    struct entry entry = entry_with(0, 0, NULL);
    struct ending ending = ended(HF_RETRY, "boom");
    uint64_t seed = 1;
    int64_t low = INT64_MAX;
    int64_t high = 0;
    for (int i = 0; i < 1000; i++) {
        struct outcome outcome;
        buf_clear(&story);
        assert_ok(verdict_outcome(&options, &entry, &ending, text_of("n"), NOW, chance(&seed),
                                  &story, &outcome));
        int64_t delay_ms = (outcome.next_attempt_us - NOW) / 1000;
        low = delay_ms < low ? delay_ms : low;
        high = delay_ms > high ? delay_ms : high;
    }
    assert_in_range(low, 26100, 26500);
    assert_int_equal(high, 30000);
}

/* ---- Poison ---------------------------------------------------------------------------------- */

static void only_ordered_subscriptions_block_a_key(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(3, 0, NULL);
    options.on_poison = HF_POISON_BLOCK_KEY;
    assert_int_equal(run(&options, &entry, ended(HF_RETRY, "x")).kind, OUTCOME_BLOCK);
    assert_int_equal(run(&options, &entry, ended(HF_DEAD, "x")).kind, OUTCOME_BLOCK);
    options.mode = HF_MODE_SHARED;
    assert_int_equal(run(&options, &entry, ended(HF_RETRY, "x")).kind, OUTCOME_DEAD);
    options.mode = HF_MODE_ORDERED;
    options.on_poison = HF_POISON_HALT;
    assert_int_equal(run(&options, &entry, ended(HF_RETRY, "x")).kind, OUTCOME_DEAD);
    entry.attempts = 0;
    options.on_poison = HF_POISON_BLOCK_KEY;
    assert_int_equal(run(&options, &entry, ended(HF_RETRY, "x")).kind, OUTCOME_RETRY);
}

/* ---- Stories and errors ---------------------------------------------------------------------- */

static void the_story_grows_by_every_attempt(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    const char *before = "[{\"attempt\":1,\"at\":\"2025-11-15T03:54:38.000000Z\",\"error\":\"one\","
                         "\"node\":\"n\"}]";
    struct entry entry = entry_with(1, 0, before);
    struct outcome outcome = run(&options, &entry, ended(HF_RETRY, "two"));
    assert_story(outcome.attempts_json, 2, 2, "two", true);
    assert_non_null(strstr(outcome.attempts_json.bytes, "\"error\":\"one\""));
    assert_non_null(strstr(outcome.attempts_json.bytes, "2025-11-15T03:54:38.000000Z"));
    assert_non_null(strstr(outcome.attempts_json.bytes, "\"node\":\"node-1\""));
}

static void a_failure_without_words_gets_a_sentence(void **state)
{
    (void)state;
    const struct {
        hf_verdict verdict;
        const char *sentence;
    } cases[] = {
        {HF_RETRY, "the handler answered HF_RETRY without an error text"},
        {HF_RETRY_UNCOUNTED, "the handler answered HF_RETRY_UNCOUNTED without an error text"},
        {HF_DEAD, "the handler answered HF_DEAD without an error text"},
        {HF_UNDECODABLE, "the handler answered HF_UNDECODABLE without an error text"},
        {(hf_verdict)-3, "the handler answered a number that is no hf_verdict"},
    };
    hf_subscription_options options = policy();
    struct entry entry = entry_with(0, 0, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bool counted = cases[i].verdict != HF_RETRY_UNCOUNTED;
        struct outcome outcome = run(&options, &entry, ended(cases[i].verdict, NULL));
        assert_story(outcome.attempts_json, 1, 1, cases[i].sentence, counted);
        outcome = run(&options, &entry, ended(cases[i].verdict, ""));
        assert_story(outcome.attempts_json, 1, 1, cases[i].sentence, counted);
    }
}

static void a_long_error_is_cut_between_characters(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(0, 0, NULL);
    char error[HF_ERROR_BYTES_MAX + 10];
    memset(error, 'e', sizeof error);
    memcpy(error + HF_ERROR_BYTES_MAX - 1, "\xC3\xBC", 2); /* the limit is inside of it */
    struct ending ending = {.verdict = HF_DEAD, .error = {error, sizeof error}, .delay_ms = -1};
    struct outcome outcome = run(&options, &entry, ending);
    assert_int_equal(outcome.error.length, HF_ERROR_BYTES_MAX - 1);
    assert_ok(json_check(outcome.attempts_json.bytes, outcome.attempts_json.length, NULL, "story"));
}

static void an_error_that_is_not_utf8_is_repaired(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(0, 0, NULL);
    struct outcome outcome = run(&options, &entry, ended(HF_DEAD, "caf\xE9 closed\n"));
    assert_text(outcome.error, "caf\xEF\xBF\xBD closed\n");
    assert_story(outcome.attempts_json, 1, 1, "caf\xEF\xBF\xBD closed\n", true);

    char bad[HF_ERROR_BYTES_MAX];
    memset(bad, 0xFF, sizeof bad);
    outcome = run(&options, &entry,
                  (struct ending){.verdict = HF_DEAD, .error = {bad, sizeof bad}, .delay_ms = -1});
    assert_int_equal(outcome.error.length, HF_ERROR_BYTES_MAX / 3 * 3);
}

/* ---- Spent ----------------------------------------------------------------------------------- */

static void an_entry_is_spent_when_its_attempts_are_used_up(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(3, 100, NULL);
    assert_false(verdict_is_spent(&options, &entry));
    entry.attempts = 4;
    assert_true(verdict_is_spent(&options, &entry));
    options.attempts_max = 5;
    assert_false(verdict_is_spent(&options, &entry));
}

static void a_spent_entry_dies_with_the_story_it_has(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    const char *json = "[{\"attempt\":1,\"error\":\"a \\\"quoted\\\" one\"},"
                       "{\"attempt\":2,\"error\":\"" STORY_ERROR_DIED "\"}]";
    struct entry entry = entry_with(4, 0, json);
    entry.cause = CAUSE_DIED;
    struct outcome outcome;
    buf_clear(&story);
    assert_ok(verdict_spent(&options, &entry, &story, &outcome));
    assert_int_equal(outcome.kind, OUTCOME_DEAD);
    assert_int_equal(outcome.cause, CAUSE_DIED);
    assert_int_equal(outcome.attempts, 4);
    assert_int_equal(outcome.position, 17);
    assert_true(outcome.waited);
    assert_text(outcome.attempts_json, json);
    assert_text(outcome.error, STORY_ERROR_DIED);
    assert_text(outcome.reason, "attempts");

    options.on_poison = HF_POISON_BLOCK_KEY;
    buf_clear(&story);
    assert_ok(verdict_spent(&options, &entry, &story, &outcome));
    assert_int_equal(outcome.kind, OUTCOME_BLOCK);
}

static void a_spent_entry_whose_lease_expired_says_so(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry =
        entry_with(4, 0, "[{\"attempt\":4,\"error\":\"" STORY_ERROR_EXPIRED "\"}]");
    entry.cause = CAUSE_EXPIRED;
    struct outcome outcome;
    buf_clear(&story);
    assert_ok(verdict_spent(&options, &entry, &story, &outcome));
    assert_text(outcome.reason, "lease");
    assert_text(outcome.error, STORY_ERROR_EXPIRED);
    entry.cause = CAUSE_HANDLER; /* whose words these were, then */
    buf_clear(&story);
    assert_ok(verdict_spent(&options, &entry, &story, &outcome));
    assert_text(outcome.reason, "attempts");
}

/* ---- Causes ---------------------------------------------------------------------------------- */

static void the_cause_is_the_verdict_s_unless_it_is_given(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(1, 0, "[]");
    entry.cause = CAUSE_DIED;
    struct ending ending = ended(HF_RETRY, STORY_ERROR_DIED);
    assert_int_equal(run(&options, &entry, ending).cause, CAUSE_HANDLER);
    assert_int_equal(run(&options, &entry, ended(HF_DEAD, "x")).cause, CAUSE_HANDLER);
    assert_int_equal(run(&options, &entry, ended(HF_UNDECODABLE, "x")).cause, CAUSE_UNDECODABLE);
    ending.cause = CAUSE_TIMEOUT;
    assert_int_equal(run(&options, &entry, ending).cause, CAUSE_TIMEOUT);
    struct outcome damaged = verdict_damaged(&options, &entry);
    assert_int_equal(damaged.cause, CAUSE_DIED);
}

/* A story that has grown to its limit takes no more attempts: it still tells of an earlier one. */
static void cause_and_unit_are_known_when_the_story_is_full(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    static char json[STORY_BYTES_MAX - 100];
    static const char first[] = "[{\"attempt\":1,\"at\":\"\",\"error\":\"";
    static const char last[] = "\",\"node\":\"n\",\"unit\":{\"first\":9,\"events\":7}}]";
    memset(json, 'x', sizeof json - 1);
    memcpy(json, first, sizeof first - 1);
    memcpy(json + sizeof json - sizeof last, last, sizeof last);
    struct entry entry = entry_with(1, 0, json);
    entry.cause = CAUSE_DIED;
    entry.unit = (struct unit_mark){.first = 9, .events = 7};
    struct ending ending = ended(HF_RETRY, "x");
    ending.unit = (struct unit_mark){.first = 17, .events = 2};
    struct outcome outcome = run(&options, &entry, ending);
    assert_text(outcome.attempts_json, json);
    assert_int_equal(outcome.cause, CAUSE_HANDLER);
    assert_int_equal(outcome.unit.first, 17);
    assert_int_equal(outcome.unit.events, 2);
}

static void every_cause_is_known_again_by_its_name(void **state)
{
    (void)state;
    for (enum cause cause = CAUSE_HANDLER; cause <= CAUSE_EXPIRED; cause++) {
        struct text name = cause_name(cause);
        assert_true(name.length > 0);
        assert_int_equal(cause_of(name), cause);
    }
    assert_true(text_is_absent(cause_name(CAUSE_NONE)));
    assert_int_equal(cause_of(TEXT_ABSENT), CAUSE_NONE);
    assert_int_equal(cause_of(text_of("")), CAUSE_NONE);
    assert_int_equal(cause_of(text_of(STORY_ERROR_DIED)), CAUSE_NONE);
}

static void a_spent_entry_without_a_story_gets_an_empty_one(void **state)
{
    (void)state;
    hf_subscription_options options = policy();
    struct entry entry = entry_with(4, 0, NULL);
    struct outcome outcome;
    buf_clear(&story);
    assert_ok(verdict_spent(&options, &entry, &story, &outcome));
    assert_text(outcome.attempts_json, "[]");
    assert_text(outcome.error, NULL);
    assert_text(outcome.reason, "attempts");
}

static int setup(void **state)
{
    (void)state;
    buf_init(&story, STORY_BYTES_MAX);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_release(&story);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_leads_to_its_outcome),
        cmocka_unit_test(an_explicit_delay_wins_over_the_policy),
        cmocka_unit_test(one_attempt_means_no_retry),
        cmocka_unit_test(jitter_stays_within_its_share_and_the_maximum),
        cmocka_unit_test(only_ordered_subscriptions_block_a_key),
        cmocka_unit_test(the_story_grows_by_every_attempt),
        cmocka_unit_test(a_failure_without_words_gets_a_sentence),
        cmocka_unit_test(a_long_error_is_cut_between_characters),
        cmocka_unit_test(an_error_that_is_not_utf8_is_repaired),
        cmocka_unit_test(an_entry_is_spent_when_its_attempts_are_used_up),
        cmocka_unit_test(a_spent_entry_dies_with_the_story_it_has),
        cmocka_unit_test(a_spent_entry_whose_lease_expired_says_so),
        cmocka_unit_test(a_spent_entry_without_a_story_gets_an_empty_one),
        cmocka_unit_test(the_cause_is_the_verdict_s_unless_it_is_given),
        cmocka_unit_test(cause_and_unit_are_known_when_the_story_is_full),
        cmocka_unit_test(every_cause_is_known_again_by_its_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
