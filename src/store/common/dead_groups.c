/*
 * dead_groups.c - see dead_groups.h.
 */
#include "store/common/dead_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#define SLOTS 32768         /* a power of two, three times as many as there are groups */
#define TEXT_BYTES_FIXED 64 /* at most, beside the text itself */
_Static_assert(SLOTS >= 3 * STORE_DEAD_KINDS_MAX, "a free slot is found soon");

hf_status dead_groups_init(struct dead_groups *groups)
{
    *groups = (struct dead_groups){.slots = mem_calloc(SLOTS, sizeof *groups->slots)};
    arena_init(&groups->texts, DEAD_GROUPS_BYTES_MAX);
    return groups->slots ? HF_OK : fail(HF_NOMEM, "no memory for groups of dead letters");
}

/* The slot of this text: its group's, or a free one. */
static uint32_t *find_slot(const struct dead_groups *groups, struct text text)
{
    uint64_t at = 0;
    for (size_t i = 0; i < text.length; i++) {
        at = hash_mix(at ^ (unsigned char)text.bytes[i]);
    }
    for (at %= SLOTS; groups->slots[at] != 0; at = (at + 1) % SLOTS) {
        if (text_equal(groups->groups[groups->slots[at] - 1].text, text)) {
            break;
        }
    }
    return &groups->slots[at];
}

static hf_status add_group(struct dead_groups *groups, uint32_t *slot, const struct dead_part *part,
                           struct text text)
{
    if (groups->count == groups->room) {
        size_t room = groups->room ? 2 * groups->room : 64;
        struct dead_part *grown = mem_realloc(groups->groups, room * sizeof *grown);
        if (!grown) {
            return fail(HF_NOMEM, "no memory for groups of dead letters");
        }
        groups->groups = grown;
        groups->room = room;
    }
    groups->groups[groups->count] = *part;
    groups->groups[groups->count].text = arena_text(&groups->texts, text);
    if (arena_status(&groups->texts)) {
        return arena_status(&groups->texts);
    }
    *slot = (uint32_t)++groups->count;
    return HF_OK;
}

hf_status dead_groups_add(struct dead_groups *groups, const struct dead_part *part)
{
    struct text text = text_is_absent(part->text) ? text_of("") : part->text;
    uint32_t *slot = find_slot(groups, text);
    groups->letters += part->letters;
    if (*slot == 0 && (groups->count == STORE_DEAD_KINDS_MAX ||
                       arena_left(&groups->texts) < text.length + TEXT_BYTES_FIXED)) {
        groups->more = true;
        return HF_OK;
    }
    if (*slot == 0) {
        return add_group(groups, slot, part, text);
    }
    struct dead_part *group = &groups->groups[*slot - 1];
    group->letters += part->letters;
    if (part->newest_id > group->newest_id) {
        group->newest_id = part->newest_id;
        group->newest_us = part->newest_us;
    }
    if (part->oldest_id < group->oldest_id) {
        group->oldest_id = part->oldest_id;
        group->oldest_us = part->oldest_us;
    }
    return HF_OK;
}

static int largest_first(const void *a, const void *b)
{
    const struct dead_part *one = a;
    const struct dead_part *other = b;
    if (one->letters != other->letters) {
        return one->letters > other->letters ? -1 : 1;
    }
    return one->newest_id > other->newest_id ? -1 : one->newest_id < other->newest_id;
}

void dead_groups_show(struct dead_groups *groups, int64_t limit, int64_t offset,
                      hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals)
{
    int64_t shown = 0;
    if (groups->count > 1) {
        qsort(groups->groups, groups->count, sizeof *groups->groups, largest_first);
    }
    ret_totals->groups = (int64_t)groups->count;
    ret_totals->letters = groups->letters;
    ret_totals->more = groups->more;
    for (int64_t i = offset; i < ret_totals->groups && (limit < 0 || shown < limit); i++) {
        const struct dead_part *part = &groups->groups[i];
        hf_dead_group group = {
            .text = part->text.bytes,
            .count = part->letters,
            .newest_dead_id = part->newest_id,
            .newest_us = part->newest_us,
            .oldest_us = part->oldest_us,
        };
        shown++;
        if (found(&group, ctx) != 0) {
            break;
        }
    }
}

void dead_groups_release(struct dead_groups *groups)
{
    arena_release(&groups->texts);
    mem_free(groups->groups);
    mem_free(groups->slots);
}
