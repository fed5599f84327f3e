/*
 * test_timers_pages.c - schedules in pages: what a page holds is bounded, and at the borders of
 * pages none is lost and none comes twice, whatever happens between two of them.
 */
#include "support_timers.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 64
#define HEAVY_COUNT 14
#define HEAVY_BYTES (1 << 20)

/* Names of all schedules that were shown, in order, and what single pages held. */
struct shown {
    size_t count;
    char names[SHOWN_MAX][16];
    int64_t next_us[SHOWN_MAX];
    uint8_t ids[SHOWN_MAX][16];
    int pages;
    int32_t page_rows; /* of the page that is being read */
    int64_t page_bytes;
    int64_t page_bytes_max;
};

static int show(const struct schedule_row *row, void *ctx)
{
    struct shown *shown = ctx;
    must_hold(shown->count < SHOWN_MAX);
    size_t at = shown->count++;
    snprintf(shown->names[at], sizeof shown->names[at], "%" TEXT_PRI, TEXT_ARG(row->name));
    shown->next_us[at] = row->next_us;
    memcpy(shown->ids[at], row->id, sizeof shown->ids[at]);
    shown->page_rows++;
    shown->page_bytes += (int64_t)(row->definition.payload.length +
                                   row->definition.metadata.length + row->paused_reason.length);
    return 0;
}

static void begin_page(struct shown *shown)
{
    shown->pages++;
    shown->page_rows = 0;
    shown->page_bytes = 0;
}

/* What every page must be. */
static void end_page(struct shown *shown, int32_t max, bool more)
{
    must_hold(shown->page_rows <= max);
    must_hold(!more || shown->page_rows > 0);
    if (shown->page_bytes > shown->page_bytes_max) {
        shown->page_bytes_max = shown->page_bytes;
    }
}

/* The page behind what was shown of those that are due; whether there may be another. */
static bool due_page(struct store *store, int64_t now_us, int32_t max, struct shown *shown)
{
    struct due_page page = {.now_us = now_us, .max = max, .after_us = STORE_NEVER};
    bool more;
    if (shown->count > 0) {
        page.after_us = shown->next_us[shown->count - 1];
        memcpy(page.after_id, shown->ids[shown->count - 1], sizeof page.after_id);
    }
    begin_page(shown);
    must_answer(HF_OK, store_schedules_due(store, &page, &more, show, shown));
    end_page(shown, max, more);
    return more;
}

/* The same of all. */
static bool list_page(struct store *store, int32_t max, struct shown *shown)
{
    const char *after = shown->count > 0 ? shown->names[shown->count - 1] : "";
    bool more;
    begin_page(shown);
    must_answer(HF_OK, store_schedule_list(store, text_of(after), max, &more, show, shown));
    end_page(shown, max, more);
    return more;
}

static struct shown all_due(struct store *store, int64_t now_us, int32_t max)
{
    struct shown shown = {0};
    while (due_page(store, now_us, max, &shown)) {
    }
    return shown;
}

static struct shown all_listed(struct store *store, int32_t max)
{
    struct shown shown = {0};
    while (list_page(store, max, &shown)) {
    }
    return shown;
}

static int times_shown(const struct shown *shown, const char *name)
{
    int times = 0;
    for (size_t i = 0; i < shown->count; i++) {
        times += strcmp(shown->names[i], name) == 0;
    }
    return times;
}

static const char *name_of(int number)
{
    static char name[16];
    snprintf(name, sizeof name, "s%02d", number);
    return name;
}

/* ---- Borders --------------------------------------------------------------------------------- */

/* Most of them are due in the same microsecond, so borders fall between those. */
static void due_schedules_come_once_whatever_a_page_holds(void **state)
{
    enum { COUNT = 11 };
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    for (int i = 0; i < COUNT; i++) {
        add_schedule(store, name_of(i), i < 2 ? T0 + 20 : i < 9 ? T0 + 10 : T0);
        add_schedule(other, name_of(i), T0 + 10);
    }
    add_schedule(store, "early", T0 + 100);
    add_schedule(store, "paused", T0 + 10);
    must_answer(HF_OK, pause_schedule(store, "paused", true, 0));
    for (int32_t max = 1; max <= COUNT + 1; max++) {
        struct shown shown = all_due(store, T0 + 50, max);
        must_equal(COUNT, shown.count);
        for (int i = 0; i < COUNT; i++) {
            must_equal(1, times_shown(&shown, name_of(i)));
        }
        for (size_t i = 1; i < shown.count; i++) {
            must_hold(shown.next_us[i - 1] < shown.next_us[i] ||
                      (shown.next_us[i - 1] == shown.next_us[i] &&
                       memcmp(shown.ids[i - 1], shown.ids[i], 16) < 0));
        }
    }
    must_equal(1, all_due(store, T0 + 50, COUNT + 1).pages); /* it was not full */
}

static void all_schedules_come_once_by_name_whatever_a_page_holds(void **state)
{
    static const char *const names[] = {"B", "a", "a b", "b", "b0", "c-d", "\xc3\xa4"};
    enum { COUNT = sizeof names / sizeof names[0] };
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    for (int i = COUNT - 1; i >= 0; i--) {
        add_schedule(store, names[i], i % 2 ? T0 : STORE_NEVER);
        add_schedule(other, name_of(i), T0);
    }
    must_answer(HF_OK, pause_schedule(store, "b", true, 0));
    for (int32_t max = 1; max <= COUNT + 1; max++) {
        struct shown shown = all_listed(store, max);
        must_equal(COUNT, shown.count);
        for (int i = 0; i < COUNT; i++) {
            must_read(names[i], shown.names[i]);
        }
    }
    must_equal(1, all_listed(store, COUNT + 1).pages);
}

/* ---- Between two pages ----------------------------------------------------------------------- */

#define MEDDLED 10 /* schedules, due at the same time */

/* Changes schedules in every way: those that were shown (the last of which is where the next page
 * begins) and of those to come the first. Another process does so. */
static void meddle(struct store *other, const struct shown *shown)
{
    must_equal(4, shown->count);
    struct seen fired = schedule(other, shown->names[3]); /* moves behind all of them, and is due */
    must_answer(HF_OK, fire_seen(other, &fired, T0 + 20, false));
    must_answer(HF_OK, remove_schedule(other, shown->names[2]));
    must_answer(HF_OK, pause_schedule(other, shown->names[1], true, 0));
    add_schedule(other, shown->names[0], T0 + 20);
}

static void changes_between_two_pages_of_due_schedules_lose_none(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open(*state, "b");
    for (int i = 0; i < MEDDLED; i++) {
        add_schedule(store, name_of(i), T0);
    }
    struct shown before = all_due(store, T0 + 50, MEDDLED + 1);
    struct shown shown = {0};
    must_hold(due_page(store, T0 + 50, 4, &shown));
    meddle(other, &shown);
    must_answer(HF_OK, remove_schedule(other, before.names[5]));
    must_answer(HF_OK, pause_schedule(other, before.names[7], true, 0));
    while (due_page(store, T0 + 50, 2, &shown)) {
    }
    for (int i = 0; i < MEDDLED; i++) {
        int times = i == 5 || i == 7 ? 0 : i == 0 || i == 3 ? 2 : 1;
        must_equal(times, times_shown(&shown, before.names[i]));
    }
    for (size_t i = 1; i < shown.count; i++) { /* twice means: in two places */
        must_hold(shown.next_us[i - 1] < shown.next_us[i] ||
                  memcmp(shown.ids[i - 1], shown.ids[i], 16) < 0);
    }
}

static void changes_between_two_pages_of_the_list_lose_no_schedule(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open(*state, "b");
    for (int i = 0; i < MEDDLED; i++) {
        add_schedule(store, name_of(i), T0);
    }
    struct shown shown = {0};
    must_hold(list_page(store, 4, &shown));
    meddle(other, &shown);
    must_answer(HF_OK, remove_schedule(other, "s03")); /* where the next page begins */
    must_answer(HF_OK, remove_schedule(other, "s05"));
    must_answer(HF_OK, pause_schedule(other, "s07", true, 0));
    add_schedule(other, "s08.new", T0);
    while (list_page(store, 2, &shown)) {
    }
    must_equal(MEDDLED, shown.count); /* without one, and with another */
    for (int i = 0; i < MEDDLED; i++) {
        must_equal(i == 5 ? 0 : 1, times_shown(&shown, name_of(i)));
    }
    must_equal(1, times_shown(&shown, "s08.new"));
}

/* Another process fires it between two pages, so it is on both, each time with what it waits for.
 * Who has read both fires only what it waits for now. */
static void a_schedule_that_was_seen_on_two_pages_fires_each_time_once(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open(*state, "b");
    struct shot shots[2];
    struct change *changes[2] = {&shots[0].fire.change, &shots[1].fire.change};
    add_schedule(store, "s", T0);
    struct seen first = schedule(store, "s");
    must_answer(HF_OK, fire_seen(other, &first, T0 + SECOND, false));
    struct seen second = schedule(store, "s");
    aim(&shots[0], &first, T0 + SECOND, false);
    aim(&shots[1], &second, T0 + 2 * SECOND, false);
    store_run_together(store, changes, 2, deadline_after_ms(DEADLINE_MS));
    must_answer(HF_STALE, changes[0]->status);
    must_answer(HF_OK, changes[1]->status);
    must_equal(2, log_count(*state, store));
    must_equal(T0 + 2 * SECOND, schedule(store, "s").next_us);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Digits: a number to JSON, and what a server stores in a hundredth of its length. */
static struct text heavy(size_t bytes)
{
    static char digits[6 * HEAVY_BYTES];
    must_hold(bytes <= sizeof digits);
    memset(digits, '1', sizeof digits);
    return (struct text){digits, bytes};
}

enum part { PAYLOAD, METADATA, REASON };

/* One with a large part, which is due at next_us unless that is the reason of a pause. */
static void add_heavy(struct store *store, const char *name, int64_t next_us, enum part part,
                      size_t bytes)
{
    struct schedule_put put = schedule_of(name, next_us);
    if (part == PAYLOAD) {
        put.definition.payload = heavy(bytes);
    } else if (part == METADATA) {
        put.definition.metadata = heavy(bytes);
    } else {
        put.paused = true;
        put.paused_reason = heavy(bytes);
    }
    must_answer(HF_OK, RUN(store, &put));
}

static void add_heavies(struct store *store, enum part part)
{
    for (int i = 0; i < HEAVY_COUNT; i++) {
        add_heavy(store, name_of(i), T0, part, HEAVY_BYTES);
    }
}

/* Each of them once, and no page with more of them than is allowed, nor with much less. */
static void must_be_cut_well(const struct shown *shown)
{
    must_equal(HEAVY_COUNT, shown->count);
    for (int i = 0; i < HEAVY_COUNT; i++) {
        must_equal(1, times_shown(shown, name_of(i)));
    }
    must_hold(shown->page_bytes_max < STORE_BATCH_BYTES_MAX + 2 * HEAVY_BYTES);
    must_hold(shown->pages <= HEAVY_COUNT / 2);
}

static void a_page_of_due_ones_holds_few_large_ones(struct fixture *fixture, enum part part)
{
    struct store *store = fixture_open(fixture, "a");
    add_heavies(store, part);
    struct shown shown = all_due(store, T0, STORE_SCHEDULES_MAX);
    must_be_cut_well(&shown);
}

static void a_page_of_the_list_holds_few_large_ones(struct fixture *fixture, enum part part)
{
    struct store *store = fixture_open(fixture, "a");
    add_heavies(store, part);
    struct shown shown = all_listed(store, STORE_SCHEDULES_MAX);
    must_be_cut_well(&shown);
}

static void a_page_of_due_schedules_holds_few_large_payloads(void **state)
{
    a_page_of_due_ones_holds_few_large_ones(*state, PAYLOAD);
}

static void a_page_of_due_schedules_holds_few_with_large_metadata(void **state)
{
    a_page_of_due_ones_holds_few_large_ones(*state, METADATA);
}

static void a_page_of_the_list_holds_few_large_payloads(void **state)
{
    a_page_of_the_list_holds_few_large_ones(*state, PAYLOAD);
}

static void a_page_of_the_list_holds_few_with_large_metadata(void **state)
{
    a_page_of_the_list_holds_few_large_ones(*state, METADATA);
}

static void a_page_of_the_list_holds_few_with_large_reasons(void **state)
{
    a_page_of_the_list_holds_few_large_ones(*state, REASON);
}

/* It must come nevertheless, and delay no other. */
static void a_schedule_that_is_larger_than_a_page_is_a_page(void **state)
{
    struct store *store = fixture_open(*state, "a");
    add_schedule(store, "a", T0);
    add_heavy(store, "b", T0 + 1, PAYLOAD, 6 * HEAVY_BYTES);
    add_heavy(store, "c", T0 + 2, PAYLOAD, 6 * HEAVY_BYTES);
    add_schedule(store, "d", T0 + 3);
    struct shown due = all_due(store, T0 + 3, STORE_SCHEDULES_MAX);
    struct shown listed = all_listed(store, STORE_SCHEDULES_MAX);
    must_equal(4, due.count);
    must_equal(4, listed.count);
    must_equal(3, due.pages);
    must_equal(3, listed.pages);
    must_hold(due.page_bytes_max < 7 * HEAVY_BYTES);
    must_hold(listed.page_bytes_max < 7 * HEAVY_BYTES);
}

static const struct CMUnitTest claims[] = {
    CLAIM(due_schedules_come_once_whatever_a_page_holds),
    CLAIM(all_schedules_come_once_by_name_whatever_a_page_holds),
    CLAIM(changes_between_two_pages_of_due_schedules_lose_none),
    CLAIM(changes_between_two_pages_of_the_list_lose_no_schedule),
    CLAIM(a_schedule_that_was_seen_on_two_pages_fires_each_time_once),
    CLAIM(a_page_of_due_schedules_holds_few_large_payloads),
    CLAIM(a_page_of_due_schedules_holds_few_with_large_metadata),
    CLAIM(a_page_of_the_list_holds_few_large_payloads),
    CLAIM(a_page_of_the_list_holds_few_with_large_metadata),
    CLAIM(a_page_of_the_list_holds_few_with_large_reasons),
    CLAIM(a_schedule_that_is_larger_than_a_page_is_a_page),
};

FIXTURE_MAIN("timers pages", claims, NULL)
