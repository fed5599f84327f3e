/*
 * test_memory.c - every verb without memory: HF_NOMEM, nothing changed, nothing leaked.
 *
 * The 1st, 2nd, ... nth allocation of each verb fails until the verb succeeds. Only the library's
 * own allocations fail; what the database client does is its own business.
 */
#include "base/mem.h"
#include "support/ignore.h"
#include "support/make.h"
#include "support/script.h"

#ifdef HF_FAULTS

#define ALLOCATIONS_MAX 2000

/* ---- Changes --------------------------------------------------------------------------------- */

/* Runs one step with its nth allocation failing; how many failed before it went through. */
static int64_t starve_step(struct script *script, size_t step)
{
    const struct fixture *f = script->fixture;
    static char before[SCRIPT_PICTURE_BYTES];
    static char after[SCRIPT_PICTURE_BYTES];
    script_picture(script->store, before);
    for (int64_t nth = 1; nth < ALLOCATIONS_MAX; nth++) {
        mem_fail_at(nth, false);
        hf_status status = script_step(script, step);
        mem_fail_at(0, false);
        if (!status) {
            return nth - 1;
        }
        if (status == HF_UNKNOWN && !f->sqlite) {
            continue; /* only its answer got lost, on the way from the server */
        }
        if (status != HF_NOMEM) {
            check_fail(__FILE__, __LINE__, "step %s, allocation %" PRId64 ": %s (%s)",
                       script_name(step), nth, status_name(status), err_message());
        }
        script_picture(script->store, after);
        must_read(before, after);
    }
    check_fail(__FILE__, __LINE__, "step %s never ends to allocate", script_name(step));
}

static void a_change_without_memory_changes_nothing(void **state)
{
    struct fixture *f = *state;
    static char undisturbed[64][SCRIPT_PICTURE_BYTES];
    struct script script;
    struct store *store = fixture_open_other(f, "calm");
    script_init(&script, f, store);
    must_hold(script_count() <= 64);
    for (size_t i = 0; i < script_count(); i++) {
        must_answer(HF_OK, script_step(&script, i));
        script_picture(store, undisturbed[i]);
    }
    script_release(&script);

    static char picture[SCRIPT_PICTURE_BYTES];
    store = fixture_open(f, "hungry");
    script_init(&script, f, store);
    int64_t failures = 0;
    for (size_t i = 0; i < script_count(); i++) {
        failures += starve_step(&script, i);
        script_picture(store, picture);
        must_read(undisturbed[i], picture);
    }
    script_release(&script);
    must_hold(failures > 0);
}

/* ---- Queries --------------------------------------------------------------------------------- */

struct asker {
    struct store *store;
    int64_t ordered_id;
    int64_t shared_id;
    uint8_t lease[STORE_TOKEN_BYTES];
    struct entry entry; /* an event of the log */
};

static int ignore_row(const struct subscription_row *row, void *ctx)
{
    (void)row;
    (void)ctx;
    return 0;
}

static int ignore_lane(uint64_t lane, int64_t rows, void *ctx)
{
    (void)lane;
    (void)rows;
    (void)ctx;
    return 0;
}

static int ignore_position(int64_t position, void *ctx)
{
    (void)position;
    (void)ctx;
    return 0;
}

static hf_status ask_get(struct asker *asker, struct batch *batch)
{
    (void)batch;
    return store_subscription_get(asker->store, text_of("o"), ignore_row, NULL);
}

static hf_status ask_list(struct asker *asker, struct batch *batch)
{
    (void)batch;
    return store_subscription_list(asker->store, ignore_row, NULL);
}

static hf_status ask_progress(struct asker *asker, struct batch *batch)
{
    (void)batch;
    struct progress progress;
    return store_progress(asker->store, asker->ordered_id, T0, &progress);
}

static hf_status ask_facts(struct asker *asker, struct batch *batch)
{
    struct delivery_facts facts;
    struct text story;
    struct delivery_query query = {
        .id = asker->entry.id,
        .position = 1,
        .hash = asker->entry.hash,
        .now_us = T0,
    };
    return store_delivery_facts(asker->store, asker->ordered_id, &query, &batch->arena, &facts,
                                &story);
}

static hf_status ask_find(struct asker *asker, struct batch *batch)
{
    return store_event_find(asker->store, asker->entry.id, batch);
}

static hf_status ask_head(struct asker *asker, struct batch *batch)
{
    (void)batch;
    int64_t head;
    int64_t first;
    return store_head(asker->store, &head, &first);
}

static hf_status ask_time(struct asker *asker, struct batch *batch)
{
    (void)batch;
    int64_t position;
    return store_position_before(asker->store, T0 + 1, STORE_DISORDER, &position);
}

static hf_status ask_now(struct asker *asker, struct batch *batch)
{
    (void)batch;
    int64_t position;
    return store_now(asker->store, deadline_after_ms(DEADLINE_MS), &position);
}

static hf_status ask_due(struct asker *asker, struct batch *batch)
{
    int64_t next_us;
    return retries_due(asker->store, asker->ordered_id, T0 + SECOND, 10, batch, &next_us);
}

static hf_status ask_lanes(struct asker *asker, struct batch *batch)
{
    (void)batch;
    return store_lanes(asker->store, asker->ordered_id, 0, ignore_lane, NULL);
}

static hf_status ask_ahead(struct asker *asker, struct batch *batch)
{
    (void)batch;
    return store_ahead(asker->store, asker->ordered_id, 0, 0, ignore_position, NULL);
}

static hf_status ask_lease(struct asker *asker, struct batch *batch)
{
    return store_lease_read(asker->store, asker->shared_id, asker->lease, batch);
}

static hf_status ask_dead(struct asker *asker, struct batch *batch)
{
    (void)batch;
    struct dead_query any = dead_query_any();
    any.type = text_of("*");
    any.error = text_of("two");
    return store_dead_list(asker->store, &any, ignore_letter, NULL);
}

static hf_status ask_dead_count(struct asker *asker, struct batch *batch)
{
    (void)batch;
    struct dead_query any = dead_query_any();
    any.type = text_of("*");
    int64_t count;
    return store_dead_count(asker->store, &any, &count);
}

static hf_status ask_sizes(struct asker *asker, struct batch *batch)
{
    (void)batch;
    struct store_sizes sizes;
    return store_sizes_get(asker->store, &sizes);
}

static hf_status ask_doctor(struct asker *asker, struct batch *batch)
{
    (void)batch;
    return store_doctor(asker->store, ignore_finding, NULL);
}

static hf_status ask_reader(struct asker *asker, struct batch *batch)
{
    struct reader *reader = NULL;
    int64_t floor;
    bool more;
    hf_status status = store_reader_open(asker->store, 0, false, &reader);
    if (!status) {
        status = store_reader_next(reader, &filter_all, 10, batch, &floor, &more);
        store_reader_close(reader);
    }
    return status;
}

static const struct question {
    const char *name;
    hf_status (*ask)(struct asker *asker, struct batch *batch);
} questions[] = {
    {"get", ask_get},
    {"list", ask_list},
    {"progress", ask_progress},
    {"facts", ask_facts},
    {"find", ask_find},
    {"head", ask_head},
    {"position_before", ask_time},
    {"now", ask_now},
    {"due", ask_due},
    {"lanes", ask_lanes},
    {"ahead", ask_ahead},
    {"lease", ask_lease},
    {"dead", ask_dead},
    {"dead_count", ask_dead_count},
    {"sizes", ask_sizes},
    {"doctor", ask_doctor},
    {"reader", ask_reader},
};

/* A store with something to find for every question. */
static void asker_open(struct asker *asker, struct fixture *f)
{
    asker->store = fixture_open(f, "asker");
    append_lanes(asker->store, "aabbcd");
    asker->ordered_id = subscribe_ordered(asker->store, "o", 1);
    asker->shared_id = subscribe_shared(asker->store, "s");
    struct owner owner = own(asker->store, asker->ordered_id, 0);
    must_answer(HF_OK,
                SETTLE(&owner, 0, retry(1, "a", T0), held(2, "a"), dead(3, "b"), done(5, "c")));
    struct claim claim = take(f, asker->store, asker->shared_id, 4, T0);
    memcpy(asker->lease, claim.ret_lease, STORE_TOKEN_BYTES);
    asker->entry = *entry_at(f, asker->store, 1);
}

static void a_query_without_memory_says_so_and_leaks_nothing(void **state)
{
    struct asker asker;
    asker_open(&asker, *state);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        hf_status status = HF_NOMEM;
        struct batch batch;
        batch_init(&batch); /* warms up what is kept, statements and connections */
        must_answer(HF_OK, questions[i].ask(&asker, &batch));
        batch_release(&batch);
        int64_t alive = mem_live();
        for (int64_t nth = 1; nth < ALLOCATIONS_MAX && status != HF_OK; nth++) {
            batch_init(&batch);
            mem_fail_at(nth, false);
            status = questions[i].ask(&asker, &batch);
            mem_fail_at(0, false);
            if (status && status != HF_NOMEM) {
                check_fail(__FILE__, __LINE__, "%s, allocation %" PRId64 ": %s (%s)",
                           questions[i].name, nth, status_name(status), err_message());
            }
            batch_release(&batch);
            if (mem_live() != alive) {
                check_fail(__FILE__, __LINE__, "%s, allocation %" PRId64 " leaks %" PRId64,
                           questions[i].name, nth, mem_live() - alive);
            }
        }
        must_equal(HF_OK, status);
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void opening_without_memory_leaves_nothing_behind(void **state)
{
    struct fixture *f = *state;
    struct store_options options = fixture_options(f, "a");
    struct store *store = NULL;
    fixture_close(f, fixture_open(f, "warm"));
    int64_t alive = mem_live();
    hf_status status = HF_NOMEM;
    int64_t failures = 0;
    for (int64_t nth = 1; nth < ALLOCATIONS_MAX && status != HF_OK; nth++) {
        mem_fail_at(nth, false);
        status = store_open(f->url, &options, &store);
        mem_fail_at(0, false);
        if (!status) {
            store_close(store);
        } else {
            failures++;
            must_equal(HF_NOMEM, status);
            must_hold(!store);
        }
        must_equal(alive, mem_live());
    }
    must_equal(HF_OK, status);
    must_hold(failures > 0);
    must_equal(1, append_one(fixture_open(f, "a"), "t", NULL));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_change_without_memory_changes_nothing),
    CLAIM(a_query_without_memory_says_so_and_leaks_nothing),
    CLAIM(opening_without_memory_leaves_nothing_behind),
};

FIXTURE_MAIN("memory", claims, NULL)

#else

int main(void)
{
    puts("1..0 # SKIP memory cannot be made to fail in this build");
    return 0;
}

#endif
