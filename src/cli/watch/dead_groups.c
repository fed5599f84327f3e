/*
 * dead_groups.c - see dead_groups.h.
 *
 * One pass over all that match, page by page, into a hash table of the field's texts.
 */
#include "cli/watch/dead_groups.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "json/fields.h"

#define PAGE 1000                   /* dead letters read at once */
#define SLOTS (DEAD_GROUPS_MAX * 2) /* a power of two */

/* ---- All that match -------------------------------------------------------------------------- */

struct pages {
    hf_dead_letter_fn found;
    void *ctx;
    int64_t last; /* number of the last one seen */
    int64_t seen; /* of this page */
    bool stopped;
};

static int next_letter(const hf_dead_letter *letter, void *ctx)
{
    struct pages *pages = ctx;

    pages->last = letter->dead_id;
    pages->seen++;
    pages->stopped = pages->found(letter, pages->ctx) != 0;
    return pages->stopped;
}

hf_status dead_each(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found, void *ctx)
{
    struct pages pages = {found, ctx, -1, 0, false};
    hf_dead_filter page = *filter;
    int64_t left = filter->limit < 0 ? INT64_MAX : filter->limit;
    hf_status status = HF_OK;

    while (left > 0 && !status && !pages.stopped) {
        page.limit = left < PAGE ? (int32_t)left : PAGE;
        pages.seen = 0;
        status = hf_dead_list(bus, &page, next_letter, &pages);
        if (pages.seen < page.limit) {
            break;
        }
        left -= pages.seen;
        page.before_dead_id = pages.last;
        page.offset = -1;
    }
    return status;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct dead_group *find_group(struct dead_groups *groups, const char *text)
{
    size_t at = text_hash(text) & (SLOTS - 1);

    while (groups->slots[at].text && strcmp(groups->slots[at].text, text) != 0) {
        at = (at + 1) & (SLOTS - 1);
    }
    if (groups->slots[at].text) {
        return &groups->slots[at];
    }
    if (groups->count == DEAD_GROUPS_MAX) {
        return &groups->rest;
    }
    groups->slots[at].text = mem_dup(text, strlen(text));
    if (!groups->slots[at].text) {
        groups->no_memory = true;
        return &groups->rest;
    }
    groups->count++;
    return &groups->slots[at];
}

static const char *field_text(const struct dead_groups *groups, const hf_dead_letter *letter)
{
    const char *text = letter->error;

    if (strcmp(groups->field, "type") == 0) {
        text = letter->event.type;
    } else if (strcmp(groups->field, "subscription") == 0) {
        text = letter->subscription;
    } else if (strcmp(groups->field, "reason") == 0) {
        text = letter->reason;
    }
    return text ? text : "";
}

static int count_one(const hf_dead_letter *letter, void *ctx)
{
    struct dead_groups *groups = ctx;
    struct dead_group *group = find_group(groups, field_text(groups, letter));

    if (group->count == 0) { /* newest first */
        group->newest_dead_id = letter->dead_id;
        group->newest_us = letter->failed_at_us;
    }
    group->oldest_us = letter->failed_at_us;
    group->count++;
    return groups->no_memory;
}

static int by_count(const void *a, const void *b)
{
    const struct dead_group *left = a;
    const struct dead_group *right = b;

    if (left->count != right->count) {
        return left->count < right->count ? 1 : -1;
    }
    return (left->newest_dead_id < right->newest_dead_id) -
           (left->newest_dead_id > right->newest_dead_id); /* free slots are equal */
}

hf_status dead_groups_count(struct dead_groups *groups, hf_bus *bus, const hf_dead_filter *filter,
                            const char *field)
{
    hf_status status;

    *groups = (struct dead_groups){.field = field};
    groups->slots = mem_calloc(SLOTS, sizeof *groups->slots);
    if (!groups->slots) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = dead_each(bus, filter, count_one, groups);
    if (!status && groups->no_memory) {
        status = fail(HF_NOMEM, "out of memory");
    }
    if (!status) {
        qsort(groups->slots, SLOTS, sizeof *groups->slots, by_count); /* free slots go last */
    }
    return status;
}

void dead_group_show(struct json_out *json, const char *field, const struct dead_group *group)
{
    show_int(json, "count", group->count);
    show_string(json, field, group->text);
    show_id(json, "newest_dead_id", group->newest_dead_id);
    show_time(json, "newest_failed_at", group->newest_us);
    show_time(json, "oldest_failed_at", group->oldest_us);
}

void dead_groups_release(struct dead_groups *groups)
{
    for (size_t i = 0; groups->slots && i < SLOTS; i++) {
        mem_free(groups->slots[i].text);
    }
    mem_free(groups->slots);
}
