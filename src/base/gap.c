/*
 * gap.c - holes in a sequence and their end. See gap.h.
 *
 * Why one number per hole is enough. Let a hole have been seen before look w began, and let look k
 * show no holder that was first seen by look w or an earlier one. The transaction that drew the
 * missing numbers held the lock when look w was made, or had ended by then. If it held the lock,
 * look w saw it, so it was first seen at w or before. A holder keeps the lock to its end, so it is
 * in every look in between and keeps its number; as look k does not show it, it has ended.
 *
 * A prepared transaction may come back under another id, and the new one must inherit the number of
 * the old one. A look is not one moment: the server shows first the locks that sessions keep to
 * themselves and then the table of all others, and preparing moves a lock from there to here. So
 * the first look that shows the new id may still show the old one; it is missing in that look or in
 * the next. A prepared holder therefore inherits in the first two looks that show it.
 *
 * Holes are kept in one array, in order. Reading them again makes a new array out of the old one in
 * one walk over both the holes and the numbers found, so ten thousand rolled-back numbers cost as
 * much as one.
 */
#include "base/gap.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* ---- Holders --------------------------------------------------------------------------------- */

void gap_watch_init(struct gap_watch *watch)
{
    *watch = (struct gap_watch){.look = {0, UINT64_MAX}};
    set64_init(&watch->since[0], GAP_HOLDERS_MAX);
    set64_init(&watch->since[1], GAP_HOLDERS_MAX);
}

void gap_watch_release(struct gap_watch *watch)
{
    set64_release(&watch->since[0]);
    set64_release(&watch->since[1]);
}

/* What is kept of a holder: the look that first saw it, or that it inherited, and whether the last
 * look was the first to show it. */
static int64_t mark_of(uint64_t since, bool fresh)
{
    return (int64_t)(since << 1 | fresh);
}

static uint64_t mark_since(int64_t mark)
{
    return (uint64_t)mark >> 1;
}

/* The lowest number of those who were there and are not in `present`; `otherwise` if all are. */
static uint64_t oldest_missing(const struct set64 *before, const struct set64 *present,
                               uint64_t otherwise)
{
    uint64_t oldest = otherwise;
    uint64_t id;
    int64_t mark;
    size_t cursor = 0;
    while (set64_next(before, &cursor, &id, &mark)) {
        if (mark_since(mark) < oldest && !set64_get(present, id, NULL)) {
            oldest = mark_since(mark);
        }
    }
    return oldest;
}

/* The mark of a holder in look `number`. */
static int64_t mark_now(const struct set64 *before, const struct gap_holder *holder,
                        uint64_t number, uint64_t inherited)
{
    int64_t mark = 0;
    bool known = set64_get(before, holder->id, &mark);
    uint64_t since = known ? mark_since(mark) : number;
    bool inherits = holder->prepared && (!known || (mark & 1));
    since = inherits && inherited < since ? inherited : since;
    return mark_of(since, !known);
}

hf_status gap_watch_look(struct gap_watch *watch, uint64_t number, const struct gap_holder *holders,
                         size_t count)
{
    const struct set64 *before = &watch->since[0];
    struct set64 *present = &watch->since[1];
    set64_clear(present);
    for (size_t i = 0; i < count; i++) {
        hf_status status = set64_put(present, holders[i].id, mark_of(number, true));
        if (status) {
            return status;
        }
    }
    uint64_t inherited = oldest_missing(before, present, number);
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t mark = mark_now(before, &holders[i], number, inherited);
        int64_t other = mark;
        set64_get(present, holders[i].id, &other);
        mark = other < mark ? other : mark; /* named twice, as prepared and not: the older one */
        hf_status status = set64_put(present, holders[i].id, mark);
        if (status) {
            return status;
        }
        oldest = mark_since(mark) < oldest ? mark_since(mark) : oldest;
    }
    struct set64 swap = watch->since[0];
    watch->since[0] = watch->since[1];
    watch->since[1] = swap;
    watch->look = (struct gap_look){number, oldest};
    return HF_OK;
}

/* ---- Holes ----------------------------------------------------------------------------------- */

void gap_init(struct gap *gap, int64_t after)
{
    *gap = (struct gap){.high = after};
}

void gap_release(struct gap *gap)
{
    mem_free(gap->holes);
    gap->holes = NULL;
    gap->count = 0;
}

int64_t gap_floor(const struct gap *gap)
{
    return gap->count > 0 ? gap->holes[0].first - 1 : gap->high;
}

int64_t gap_ready(const struct gap *gap, bool strict)
{
    return strict ? gap_floor(gap) : gap->high;
}

bool gap_is_open(const struct gap *gap, int64_t number)
{
    size_t low = 0;
    size_t high = gap->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gap->holes[middle].last < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < gap->count && gap->holes[low].first <= number;
}

hf_status gap_tail(struct gap *gap, const struct gap_run *runs, size_t count, uint64_t begun,
                   int64_t now_us)
{
    size_t capacity = gap->count + count < GAP_HOLES_MAX ? gap->count + count : GAP_HOLES_MAX;
    if (capacity > gap->count) {
        struct gap_hole *holes = mem_realloc(gap->holes, capacity * sizeof *holes);
        if (!holes) {
            return fail(HF_NOMEM, "no memory for %zu gaps in the log", capacity);
        }
        gap->holes = holes;
    }
    for (size_t i = 0; i < count; i++) {
        if (runs[i].first > gap->high + 1) {
            if (gap->count == GAP_HOLES_MAX) {
                return HF_OK;
            }
            gap->holes[gap->count++] = (struct gap_hole){
                .first = gap->high + 1,
                .last = runs[i].first - 1,
                .begun = begun,
                .since_us = now_us,
            };
        }
        gap->high = runs[i].last;
    }
    return HF_OK;
}

void gap_pass(struct gap *gap, int64_t through)
{
    assert(gap->count == 0 && through >= gap->high);
    gap->high = through;
}

/* One walk of gap_reread. */
struct walk {
    struct gap *gap;
    const int64_t *found; /* what is left of them */
    size_t count;
    int64_t through; /* up to here what is missing may be decided */
    struct gap_look look;
    int64_t now_us;
    int64_t timeout_us;
    struct gap_hole *kept; /* the new holes */
    size_t kept_count;
    size_t waiting; /* old holes behind the present one: they need a place too */
};

/* Room for one more hole than those that must have one? */
static bool has_room(const struct walk *walk)
{
    return walk->kept_count + walk->waiting + 1 < GAP_HOLES_MAX;
}

/* Every transaction that might have drawn the numbers of the hole had ended before the hole was
 * read again. */
static bool is_proven(const struct walk *walk, const struct gap_hole *hole)
{
    return hole->witness > 0 && walk->look.oldest > hole->witness;
}

static bool is_late(const struct walk *walk, const struct gap_hole *hole)
{
    return walk->timeout_us > 0 && walk->now_us - hole->since_us >= walk->timeout_us;
}

/* The numbers first to last of a hole are still missing: keeps them, unless they can be decided. */
static void still_missing(struct walk *walk, const struct gap_hole *hole, int64_t first,
                          int64_t last)
{
    int64_t end = last < walk->through ? last : walk->through;
    bool proven = is_proven(walk, hole);
    if (first <= end && (proven || is_late(walk, hole))) {
        *(proven ? &walk->gap->dead : &walk->gap->skipped) += end - first + 1;
        first = end + 1;
    }
    if (first <= last) {
        struct gap_hole *kept = &walk->kept[walk->kept_count++];
        *kept = *hole;
        kept->first = first;
        kept->last = last;
    }
}

/* One old hole: takes the numbers found in it and keeps what is left. */
static void walk_hole(struct walk *walk, struct gap_hole hole)
{
    if (hole.witness == 0 && walk->look.number > hole.begun) {
        hole.witness = walk->look.number;
    }
    int64_t first = hole.first;
    while (walk->count > 0 && walk->found[0] <= hole.last) {
        int64_t number = walk->found[0];
        if (number > first) {
            if (!has_room(walk) && !is_proven(walk, &hole) && !is_late(walk, &hole)) {
                walk->through = number - 1;
                break;
            }
            still_missing(walk, &hole, first, number - 1);
        }
        first = number + 1;
        walk->found++;
        walk->count--;
    }
    if (first <= hole.last) {
        still_missing(walk, &hole, first, hole.last);
    }
}

hf_status gap_reread(struct gap *gap, const int64_t *found, size_t count, int64_t through,
                     struct gap_look look, int64_t now_us, int64_t timeout_us, int64_t *ret_through)
{
    size_t capacity = gap->count + count < GAP_HOLES_MAX ? gap->count + count : GAP_HOLES_MAX;
    struct walk walk = {
        .gap = gap,
        .found = found,
        .count = count,
        .through = through,
        .look = look,
        .now_us = now_us,
        .timeout_us = timeout_us,
        .kept = mem_alloc(capacity * sizeof *walk.kept),
    };
    if (!walk.kept) {
        return fail(HF_NOMEM, "no memory for %zu gaps in the log", capacity);
    }
    size_t i = 0;
    for (; i < gap->count && walk.through == through; i++) {
        walk.waiting = gap->count - i - 1;
        walk_hole(&walk, gap->holes[i]);
    }
    for (; i < gap->count; i++) { /* there was no room: the rest stays as it is */
        walk.kept[walk.kept_count++] = gap->holes[i];
    }
    mem_free(gap->holes);
    gap->holes = walk.kept;
    gap->count = walk.kept_count;
    *ret_through = walk.count > 0 ? walk.found[0] - 1 : INT64_MAX;
    return HF_OK;
}
