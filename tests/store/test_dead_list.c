/*
 * test_dead_list.c - listing dead letters: order, pages, filters, alone and in every mixture.
 */
#include "support_scene.h"

static int64_t count_of(struct store *store, const struct dead_query *query)
{
    int64_t count = -7;
    must_answer(HF_OK, store_dead_count(store, query, &count));
    return count;
}

/* ---- Listing --------------------------------------------------------------------------------- */

static void the_list_is_newest_first_or_oldest_first(void **state)
{
    struct scene s = scene_of(*state, "abcde");
    struct dead_query any = dead_query_any();
    must_read("", list_dead(s.store, &any));
    bury_all(&s, 5);
    must_read("5 4 3 2 1", list_dead(s.store, &any));
    any.oldest_first = true;
    must_read("1 2 3 4 5", list_dead(s.store, &any));
}

static void pages_follow_each_other_by_number(void **state)
{
    struct scene s = scene_of(*state, "abcdefg");
    bury_all(&s, 7);
    struct dead_query query = dead_query_any();
    query.limit = 3;
    must_read("7 6 5", list_dead(s.store, &query));
    query.before_dead_id = dead_id_of(s.store, 5);
    must_read("4 3 2", list_dead(s.store, &query));
    query.before_dead_id = dead_id_of(s.store, 2);
    must_read("1", list_dead(s.store, &query));
    query.before_dead_id = dead_id_of(s.store, 1);
    must_read("", list_dead(s.store, &query));

    query = dead_query_any();
    query.oldest_first = true;
    query.limit = 4;
    must_read("1 2 3 4", list_dead(s.store, &query));
    query.after_dead_id = dead_id_of(s.store, 4);
    must_read("5 6 7", list_dead(s.store, &query));

    query = dead_query_any();
    query.limit = 2;
    query.offset = 3;
    must_read("4 3", list_dead(s.store, &query));
    query.limit = 0;
    query.offset = 0;
    must_read("", list_dead(s.store, &query));
}

static int stop_after_two(const hf_dead_letter *letter, void *ctx)
{
    (void)letter;
    return ++*(int *)ctx == 2;
}

static void a_listing_that_is_stopped_is_no_error(void **state)
{
    struct scene s = scene_of(*state, "abcde");
    bury_all(&s, 5);
    int calls = 0;
    struct dead_query any = dead_query_any();
    must_answer(HF_OK, store_dead_list(s.store, &any, stop_after_two, &calls));
    must_equal(2, calls);
}

static void filters_narrow_the_list_and_the_count(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static const char *const types[] = {"user.created", "user.deleted", "order.paid", "user.x.y"};
    static const char *const errors[] = {"timeout 100%", "refused", "time_out", NULL};
    static const char *const reasons[] = {"attempts", "rejected", "attempts", "decode"};
    for (int i = 0; i < 4; i++) {
        append_one(store, types[i], NULL);
    }
    int64_t ids[2] = {subscribe_ordered(store, "mail", 1), subscribe_ordered(store, "audit", 1)};
    for (int i = 0; i < 4; i++) {
        struct owner owner = own(store, ids[i % 2], 0);
        struct outcome outcome = dead(i + 1, "x");
        outcome.reason = text_of(reasons[i]);
        outcome.error = text_of(errors[i]);
        owner.now_us = T0 + i * SECOND;
        must_answer(HF_OK, settle(&owner, i + 1, &outcome, 1));
    }
    struct dead_query query = dead_query_any();
    query.subscription = text_of("mail");
    must_read("3 1", list_dead(store, &query));
    must_equal(2, count_of(store, &query));
    query.type = text_of("user.*");
    must_read("1", list_dead(store, &query));

    query = dead_query_any();
    query.type = text_of("user.*");
    must_read("2 1", list_dead(store, &query));
    query.type = text_of("user.**");
    must_read("4 2 1", list_dead(store, &query));
    must_equal(3, count_of(store, &query));

    query = dead_query_any();
    query.error = text_of("100%");
    must_read("1", list_dead(store, &query));
    query.error = text_of("time_out");
    must_read("3", list_dead(store, &query));
    query.error = text_of("%");
    must_read("1", list_dead(store, &query));
    query.error = text_of("nothing of the kind");
    must_read("", list_dead(store, &query));
    must_equal(0, count_of(store, &query));

    query = dead_query_any();
    query.reason = text_of("attempts");
    must_read("3 1", list_dead(store, &query));

    query = dead_query_any();
    query.failed_after_us = T0 + SECOND;
    must_read("4 3 2", list_dead(store, &query));
    query.failed_before_us = T0 + 2 * SECOND;
    must_read("3 2", list_dead(store, &query));
    must_equal(2, count_of(store, &query));
}

static void limits_count_what_matches_and_not_what_is_skipped(void **state)
{
    struct store *store = fixture_open(*state, "a");
    for (int i = 0; i < 10; i++) {
        append_one(store, i % 5 ? "no" : "yes", NULL);
    }
    struct scene s = {.store = store, .id = subscribe_ordered(store, "s", 1)};
    s.owner = own(store, s.id, 0);
    bury_all(&s, 10);
    struct dead_query query = dead_query_any();
    query.type = text_of("yes");
    query.limit = 2;
    must_read("6 1", list_dead(store, &query));
    query.limit = 1;
    query.offset = 1;
    must_read("1", list_dead(store, &query));
}

static void resolved_letters_are_listed_only_if_asked_for(void **state)
{
    struct scene s = scene_of(*state, "abc");
    bury_all(&s, 3);
    must_answer(HF_OK, resolve(s.store, dead_id_of(s.store, 2)));
    struct dead_query query = dead_query_any();
    must_read("3 1", list_dead(s.store, &query));
    must_equal(2, count_of(s.store, &query));
    query.resolved_too = true;
    must_read("3 2 1", list_dead(s.store, &query));
    must_equal(3, count_of(s.store, &query));
    must_equal(2, progress_of(s.store, s.id).dead);
}

/* ---- Listing, against a model ---------------------------------------------------------------- */

#define MODEL_LETTERS 40

/* What is known of the letter at position i + 1. */
struct model_letter {
    int subscription;
    int type;
    int error;
    int reason;
    bool resolved;
    int64_t dead_id;
};

static const char *const model_subscriptions[] = {"one", "two", NULL};
static const char *const model_types[] = {"a.b", "a.c", "d"};
static const char *const model_patterns[] = {"a.*", "a.c", "*", NULL};
static const char *const model_errors[] = {"left", "right", NULL};
static const char *const model_reasons[] = {"attempts", "decode", NULL};

static unsigned next_random(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

static bool model_type_matches(int pattern, int type)
{
    switch (pattern) {
    case 0:
        return type < 2;
    case 1:
        return type == 1;
    default:
        return true;
    }
}

/* The letters that the query is for, as text; -1 or the last index of a table is "any". */
struct model_query {
    int subscription;
    int pattern;
    int error;
    int reason;
};

static bool model_wants(const struct dead_query *query, const struct model_query *chosen,
                        const struct model_letter *letter, int64_t failed_at_us)
{
    return (chosen->subscription == 2 || chosen->subscription == letter->subscription) &&
           model_type_matches(chosen->pattern, letter->type) &&
           (chosen->error == 2 || chosen->error == letter->error) &&
           (chosen->reason == 2 || chosen->reason == letter->reason) &&
           (query->resolved_too || !letter->resolved) &&
           (query->failed_before_us < 0 || failed_at_us <= query->failed_before_us) &&
           (query->failed_after_us < 0 || failed_at_us >= query->failed_after_us) &&
           (query->before_dead_id < 0 || letter->dead_id < query->before_dead_id) &&
           (query->after_dead_id < 0 || letter->dead_id > query->after_dead_id);
}

/* Buries MODEL_LETTERS events at random and resolves some. */
static void model_bury(struct store *store, struct model_letter *letters, uint64_t *seed)
{
    struct owner owners[2];
    for (int i = 0; i < MODEL_LETTERS; i++) {
        letters[i] = (struct model_letter){.subscription = (int)next_random(seed, 2),
                                           .type = (int)next_random(seed, 3),
                                           .error = (int)next_random(seed, 3),
                                           .reason = (int)next_random(seed, 2),
                                           .resolved = next_random(seed, 4) == 0};
        append_one(store, model_types[letters[i].type], NULL);
    }
    for (int i = 0; i < 2; i++) {
        owners[i] = own(store, subscribe_ordered(store, model_subscriptions[i], 1), 0);
    }
    for (int i = 0; i < MODEL_LETTERS; i++) {
        struct outcome outcome = dead(i + 1, "x");
        outcome.error = text_of(model_errors[letters[i].error]);
        outcome.reason = text_of(model_reasons[letters[i].reason]);
        struct owner *owner = &owners[letters[i].subscription];
        owner->now_us = T0 + i;
        must_answer(HF_OK, settle(owner, -1, &outcome, 1));
        letters[i].dead_id = dead_id_of(store, i + 1);
        if (letters[i].resolved) {
            must_answer(HF_OK, resolve(store, letters[i].dead_id));
        }
    }
}

static struct dead_query model_ask(struct model_query *chosen, const struct model_letter *letters,
                                   uint64_t *seed)
{
    struct dead_query query = dead_query_any();
    /* mostly few conditions at once, or hardly anything would ever match */
    *chosen = (struct model_query){.subscription = (int)next_random(seed, 3),
                                   .pattern = next_random(seed, 3) ? 3 : (int)next_random(seed, 3),
                                   .error = next_random(seed, 3) ? 2 : (int)next_random(seed, 2),
                                   .reason = next_random(seed, 3) ? 2 : (int)next_random(seed, 2)};
    query.subscription = text_of(model_subscriptions[chosen->subscription]);
    query.type = text_of(model_patterns[chosen->pattern]);
    query.error = text_of(model_errors[chosen->error]);
    query.reason = text_of(model_reasons[chosen->reason]);
    query.resolved_too = next_random(seed, 2);
    query.oldest_first = next_random(seed, 2);
    if (next_random(seed, 4) == 0) {
        query.failed_after_us = T0 + next_random(seed, MODEL_LETTERS);
    }
    if (next_random(seed, 4) == 0) {
        query.failed_before_us = T0 + next_random(seed, MODEL_LETTERS);
    }
    if (next_random(seed, 2)) {
        int64_t id = letters[next_random(seed, MODEL_LETTERS)].dead_id;
        *(query.oldest_first ? &query.after_dead_id : &query.before_dead_id) = id;
    }
    return query;
}

static void every_mixture_of_filters_lists_what_the_model_lists(void **state)
{
    static struct model_letter letters[MODEL_LETTERS];
    uint64_t seed = 20260102;
    struct store *store = fixture_open(*state, "a");
    model_bury(store, letters, &seed);
    int64_t listed = 0;
    for (int round = 0; round < 3000; round++) {
        struct model_query chosen;
        struct dead_query query = model_ask(&chosen, letters, &seed);
        query.limit = next_random(&seed, 3) ? -1 : (int64_t)next_random(&seed, 6);
        query.offset = next_random(&seed, 3) ? 0 : (int64_t)next_random(&seed, 4);
        char wanted[512] = "";
        size_t used = 0;
        int64_t matching = 0;
        for (int n = 0; n < MODEL_LETTERS; n++) {
            int i = query.oldest_first ? n : MODEL_LETTERS - 1 - n;
            if (!model_wants(&query, &chosen, &letters[i], T0 + i)) {
                continue;
            }
            matching++;
            if (matching > query.offset &&
                (query.limit < 0 || matching <= query.offset + query.limit)) {
                used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%d",
                                         used ? " " : "", i + 1);
                listed++;
            }
        }
        must_read(wanted, list_dead(store, &query));
        query.limit = -1;
        query.offset = 0;
        must_equal(matching, count_of(store, &query));
    }
    must_hold(listed > 3000);
}

static const struct CMUnitTest claims[] = {
    CLAIM(the_list_is_newest_first_or_oldest_first),
    CLAIM(pages_follow_each_other_by_number),
    CLAIM(a_listing_that_is_stopped_is_no_error),
    CLAIM(filters_narrow_the_list_and_the_count),
    CLAIM(limits_count_what_matches_and_not_what_is_skipped),
    CLAIM(resolved_letters_are_listed_only_if_asked_for),
    CLAIM(every_mixture_of_filters_lists_what_the_model_lists),
};

FIXTURE_MAIN("dead list", claims, NULL)
