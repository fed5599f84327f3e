/*
 * test_dead_groups.c - groups of dead letters: what they have in common with the list, and that
 * what is counted along is what is there, whatever becomes of the letters.
 */
#include "support_scene.h"

#include "store/namespace.h"
#include "store/verify.h"

/* ---- What the list says ---------------------------------------------------------------------- */

#define GROUPS_MAX 128
#define TEXT_MAX 64

struct expected {
    struct group {
        char text[TEXT_MAX];
        int64_t count, newest_id, newest_us, oldest_us;
    } groups[GROUPS_MAX];
    int count;
    int64_t letters;
    hf_dead_by by;
};

static const char *text_by(const hf_dead_letter *letter, hf_dead_by by)
{
    const char *const texts[] = {[HF_DEAD_BY_ERROR] = letter->error,
                                 [HF_DEAD_BY_TYPE] = letter->event.type,
                                 [HF_DEAD_BY_SUBSCRIPTION] = letter->subscription,
                                 [HF_DEAD_BY_REASON] = letter->reason};
    return texts[by] ? texts[by] : "";
}

/* Letters come newest first. */
static int expect_letter(const hf_dead_letter *letter, void *ctx)
{
    struct expected *expected = ctx;
    const char *text = text_by(letter, expected->by);
    int i = 0;
    while (i < expected->count && strcmp(expected->groups[i].text, text) != 0) {
        i++;
    }
    struct group *group = &expected->groups[i];
    if (i == expected->count) {
        must_hold(expected->count < GROUPS_MAX);
        expected->count++;
        *group = (struct group){.newest_id = letter->dead_id, .newest_us = letter->failed_at_us};
        snprintf(group->text, sizeof group->text, "%s", text);
    }
    group->count++;
    group->oldest_us = letter->failed_at_us;
    expected->letters++;
    return 0;
}

static int largest_first(const void *a, const void *b)
{
    const struct group *one = a;
    const struct group *other = b;
    if (one->count != other->count) {
        return one->count > other->count ? -1 : 1;
    }
    return one->newest_id > other->newest_id ? -1 : 1;
}

static void expect(struct store *store, const struct dead_query *query, hf_dead_by by,
                   struct expected *expected)
{
    struct dead_query all = *query;
    all.limit = -1;
    all.offset = 0;
    all.oldest_first = false;
    *expected = (struct expected){.by = by};
    must_answer(HF_OK, store_dead_list(store, &all, expect_letter, expected));
    qsort(expected->groups, (size_t)expected->count, sizeof expected->groups[0], largest_first);
}

struct compared {
    const struct expected *expected;
    int64_t at;
};

static int compare_group(const hf_dead_group *group, void *ctx)
{
    struct compared *compared = ctx;
    must_hold(compared->at < compared->expected->count);
    const struct group *wanted = &compared->expected->groups[compared->at++];
    must_read(wanted->text, group->text);
    must_equal(wanted->count, group->count);
    must_equal(wanted->newest_id, group->newest_dead_id);
    must_equal(wanted->newest_us, group->newest_us);
    must_equal(wanted->oldest_us, group->oldest_us);
    return 0;
}

/* The groups are those that the list makes. */
static void must_group(struct store *store, const struct dead_query *query, hf_dead_by by)
{
    static struct expected expected;
    struct compared compared = {&expected, query->offset};
    hf_dead_totals totals = {0};
    expect(store, query, by, &expected);
    must_answer(HF_OK, store_dead_groups(store, query, by, compare_group, &compared, &totals));
    int64_t end = query->limit < 0 ? expected.count : query->offset + query->limit;
    end = end < expected.count ? end : expected.count;
    must_equal(end > query->offset ? end : query->offset, compared.at);
    must_equal(expected.count, totals.groups);
    must_equal(expected.letters, totals.letters);
    must_equal(0, totals.more);
}

static void must_group_all(struct store *store)
{
    struct dead_query any = dead_query_any();
    for (hf_dead_by by = HF_DEAD_BY_ERROR; by <= HF_DEAD_BY_REASON; by++) {
        must_group(store, &any, by);
    }
}

static int finding(const char *name, const char *value, hf_log_level level, const char *advice,
                   void *ctx)
{
    (void)level;
    (void)advice;
    print_message("%s: %s\n", name, value);
    ++*(int *)ctx;
    return 0;
}

static void must_verify(struct store *store)
{
    int findings = 0;
    must_answer(HF_OK, store_verify(store, finding, NULL, &findings));
    must_equal(0, findings);
}

/* ---- What becomes of letters ----------------------------------------------------------------- */

static hf_status bury(struct owner *owner, int64_t position, const char *reason, const char *error)
{
    struct outcome outcome = dead(position, "x");
    outcome.reason = text_of(reason);
    outcome.error = text_of(error);
    return settle(owner, -1, &outcome, 1);
}

static int64_t revive(struct store *store, int64_t dead_id)
{
    struct dead_retry change = {.change = {.kind = CHANGE_DEAD_RETRY, .now_us = T0 + SECOND},
                                .dead_ids = &dead_id,
                                .count = 1};
    must_answer(HF_OK, RUN(store, &change));
    return change.ret_count;
}

static int64_t purge(struct store *store, const int64_t *dead_ids, size_t count)
{
    struct dead_purge change = {.change = {.kind = CHANGE_DEAD_PURGE, .now_us = T0 + 5},
                                .dead_ids = dead_ids,
                                .count = count};
    must_answer(HF_OK, RUN(store, &change));
    return change.ret_count;
}

static void no_letters_make_no_groups(void **state)
{
    struct store *store = fixture_open(*state, "a");
    must_group_all(store);
    must_verify(store);
}

static void groups_agree_in_one_text_and_the_largest_comes_first(void **state)
{
    struct scene s = scene_of(*state, "abcdef");
    static const char *const errors[] = {"full", "gone", "gone", NULL, "gone", ""};
    for (int i = 0; i < 6; i++) {
        s.owner.now_us = T0 + i * SECOND;
        must_answer(HF_OK, bury(&s.owner, i + 1, "attempts", errors[i]));
    }
    static struct expected expected;
    struct dead_query any = dead_query_any();
    expect(s.store, &any, HF_DEAD_BY_ERROR, &expected);
    must_equal(3, expected.count); /* none and an empty one are the same */
    must_read("gone", expected.groups[0].text);
    must_equal(3, expected.groups[0].count);
    must_equal(T0 + SECOND, expected.groups[0].oldest_us);
    must_equal(T0 + 4 * SECOND, expected.groups[0].newest_us);
    must_group_all(s.store);
}

static void a_page_of_groups_has_the_totals_of_all(void **state)
{
    struct scene s = scene_of(*state, "abcdefg");
    bury_all(&s, 7);
    struct dead_query query = dead_query_any();
    for (query.limit = 0; query.limit < 9; query.limit += 4) {
        for (query.offset = 0; query.offset < 9; query.offset += 4) {
            must_group(s.store, &query, HF_DEAD_BY_ERROR);
        }
    }
}

static int stop_at_once(const hf_dead_group *group, void *ctx)
{
    (void)group;
    return ++*(int *)ctx;
}

static void a_list_of_groups_that_is_stopped_has_the_totals(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct dead_query any = dead_query_any();
    hf_dead_totals totals = {0};
    int calls = 0;
    bury_all(&s, 3);
    must_answer(HF_OK,
                store_dead_groups(s.store, &any, HF_DEAD_BY_ERROR, stop_at_once, &calls, &totals));
    must_equal(1, calls);
    must_equal(3, totals.groups);
    must_equal(3, totals.letters);
}

static void resolved_retried_and_purged_letters_leave_their_groups(void **state)
{
    struct scene s = scene_of(*state, "abcdefgh");
    for (int64_t p = 1; p <= 8; p++) {
        must_answer(HF_OK, bury(&s.owner, p, "attempts", "refused"));
    }
    must_answer(HF_OK, resolve(s.store, dead_id_of(s.store, 8)));
    must_group_all(s.store);
    must_equal(1, revive(s.store, dead_id_of(s.store, 1)));
    must_group_all(s.store);
    int64_t ids[3] = {dead_id_of(s.store, 2), dead_id_of(s.store, 7), 4711};
    must_equal(2, purge(s.store, ids, 3));
    must_group_all(s.store);
    struct dead_query resolved = dead_query_any();
    resolved.resolved_too = true;
    must_group(s.store, &resolved, HF_DEAD_BY_ERROR);
    must_verify(s.store);
}

static void purging_a_resolved_letter_is_not_counted_twice(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, bury(&s.owner, 1, "attempts", "refused"));
    must_answer(HF_OK, bury(&s.owner, 2, "attempts", "refused"));
    int64_t id = dead_id_of(s.store, 1);
    must_answer(HF_OK, resolve(s.store, id));
    must_equal(1, purge(s.store, &id, 1));
    must_group_all(s.store);
    must_verify(s.store);
}

static void a_delivery_that_dies_again_moves_to_its_new_group(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, bury(&s.owner, 1, "attempts", "refused"));
    must_answer(HF_OK, bury(&s.owner, 1, "attempts", "timed out"));
    must_answer(HF_OK, bury(&s.owner, 2, "attempts", "timed out"));
    struct dead_query any = dead_query_any();
    static struct expected expected;
    expect(s.store, &any, HF_DEAD_BY_ERROR, &expected);
    must_equal(1, expected.count);
    must_equal(2, expected.letters);
    must_group_all(s.store);
    must_verify(s.store);
}

static void a_change_that_fails_counts_nothing(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, bury(&s.owner, 1, "attempts", "refused"));
    struct outcome outcomes[2] = {dead(2, "x"), dead(99, "x")};
    outcomes[0].error = outcomes[1].error = text_of("refused");
    must_answer(HF_CORRUPT, settle(&s.owner, -1, outcomes, 2));
    must_group_all(s.store);
    must_verify(s.store);
}

static void groups_are_those_of_their_namespace(void **state)
{
    struct scene s = scene_of(*state, "ab");
    struct store *other = fixture_open_other(*state, "b");
    must_answer(HF_OK, bury(&s.owner, 1, "attempts", "refused"));
    must_group_all(other);
    append_one(other, "x", NULL);
    struct owner owner = own(other, subscribe_ordered(other, "s", 1), 0);
    must_answer(HF_OK, bury(&owner, 1, "attempts", "refused"));
    must_group_all(other);
    must_group_all(s.store);
    must_verify(s.store);
}

/* ---- Any mixture ----------------------------------------------------------------------------- */

#define EVENTS 60

static unsigned next_random(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

/* Something happens to one of the letters, or one more comes. */
static void play(struct store *store, struct owner owners[2], uint64_t *seed, int64_t now_us)
{
    static const char *const errors[] = {"left", "right", "right hand", "\xc3\xa9t\xc3\xa9 100%",
                                         "",     NULL};
    static const char *const reasons[] = {"attempts", "decode"};
    int64_t position = 1 + next_random(seed, EVENTS);
    struct owner *owner = &owners[next_random(seed, 2)];
    int64_t id = 1 + next_random(seed, 200);
    owner->now_us = now_us;
    switch (next_random(seed, 8)) {
    case 0:
        revive(store, id);
        break;
    case 1:
        resolve(store, id);
        break;
    case 2:
        purge(store, &id, 1);
        break;
    default:
        must_answer(HF_OK, bury(owner, position, reasons[next_random(seed, 2)],
                                errors[next_random(seed, sizeof errors / sizeof errors[0])]));
        break;
    }
}

static struct dead_query ask(uint64_t *seed)
{
    static const char *const subscriptions[] = {"one", "two", "none", NULL, NULL, NULL};
    static const char *const types[] = {"a.*", "a.c", "**", NULL, NULL, NULL};
    static const char *const errors[] = {"right", "%", "hand", NULL, NULL, NULL};
    static const char *const reasons[] = {"attempts", "decode", "lease", NULL, NULL, NULL};
    struct dead_query query = dead_query_any();
    query.subscription = text_of(subscriptions[next_random(seed, 6)]);
    query.type = text_of(types[next_random(seed, 6)]);
    query.error = text_of(errors[next_random(seed, 6)]);
    query.reason = text_of(reasons[next_random(seed, 6)]);
    query.resolved_too = next_random(seed, 4) == 0;
    query.failed_after_us = next_random(seed, 4) ? -1 : T0 + next_random(seed, 300);
    query.failed_before_us = next_random(seed, 4) ? -1 : T0 + next_random(seed, 300);
    query.before_dead_id = next_random(seed, 4) ? -1 : (int64_t)next_random(seed, 200);
    query.limit = next_random(seed, 2) ? -1 : (int64_t)next_random(seed, 4);
    query.offset = next_random(seed, 3) ? 0 : next_random(seed, 3);
    return query;
}

static void every_mixture_of_changes_and_filters_groups_what_is_listed(void **state)
{
    static const char *const types[] = {"a.b", "a.c", "d"};
    uint64_t seed = 20261119;
    struct store *store = fixture_open(*state, "a");
    struct owner owners[2];
    for (int i = 0; i < EVENTS; i++) {
        append_one(store, types[i % 3], NULL);
    }
    owners[0] = own(store, subscribe_ordered(store, "one", 1), 0);
    owners[1] = own(store, subscribe_ordered(store, "two", 1), 0);
    for (int round = 0; round < 300; round++) {
        play(store, owners, &seed, T0 + round);
        struct dead_query query = ask(&seed);
        must_group(store, &query, (hf_dead_by)next_random(&seed, 4));
    }
    must_group_all(store);
    must_verify(store);
}

/* ---- Very many kinds ------------------------------------------------------------------------- */

static int keep_first(const hf_dead_group *group, void *ctx)
{
    int64_t *count = ctx;
    *count = *count == 0 ? group->count : *count;
    return 0;
}

static void of_more_kinds_than_are_looked_at_the_largest_are(void **state)
{
    enum { SINGLES = STORE_DEAD_KINDS_MAX + 5, SAME = 20 };
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", SINGLES + SAME);
    struct owner owner = own(store, subscribe_ordered(store, "s", 1), 0);
    struct outcome *outcomes = calloc(SINGLES + SAME, sizeof *outcomes);
    char(*errors)[32] = calloc(SINGLES + SAME, sizeof *errors);
    for (int64_t i = 0; i < SINGLES + SAME; i++) {
        outcomes[i] = dead(i + 1, "x");
        snprintf(errors[i], sizeof errors[i], "order %" PRId64, i < SINGLES ? i : SINGLES);
        outcomes[i].error = text_of(errors[i]);
    }
    for (int64_t i = 0; i < SINGLES + SAME; i += 1000) {
        int64_t left = SINGLES + SAME - i;
        must_answer(HF_OK, settle(&owner, -1, &outcomes[i], left < 1000 ? (size_t)left : 1000));
    }
    struct dead_query any = dead_query_any();
    hf_dead_totals totals = {0};
    int64_t first = 0;
    must_answer(HF_OK,
                store_dead_groups(store, &any, HF_DEAD_BY_ERROR, keep_first, &first, &totals));
    must_equal(SAME, first);
    must_equal(STORE_DEAD_KINDS_MAX, totals.groups);
    must_equal(STORE_DEAD_KINDS_MAX - 1 + SAME, totals.letters);
    must_equal(1, totals.more);
    must_verify(store);
    free(errors);
    free(outcomes);
}

static const struct CMUnitTest claims[] = {
    CLAIM(no_letters_make_no_groups),
    CLAIM(groups_agree_in_one_text_and_the_largest_comes_first),
    CLAIM(a_page_of_groups_has_the_totals_of_all),
    CLAIM(a_list_of_groups_that_is_stopped_has_the_totals),
    CLAIM(resolved_retried_and_purged_letters_leave_their_groups),
    CLAIM(purging_a_resolved_letter_is_not_counted_twice),
    CLAIM(a_delivery_that_dies_again_moves_to_its_new_group),
    CLAIM(a_change_that_fails_counts_nothing),
    CLAIM(groups_are_those_of_their_namespace),
    CLAIM(every_mixture_of_changes_and_filters_groups_what_is_listed),
    CLAIM(of_more_kinds_than_are_looked_at_the_largest_are),
};

FIXTURE_MAIN("dead groups", claims, NULL)
