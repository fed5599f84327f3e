/*
 * assign.c - fixed assignments: hf_assign, and what the members makes of it.
 *
 * Normally processes share the partitions of a subscription out by themselves. A process that was
 * told which are its own takes these and no others, ever: when it is gone no other process takes
 * them unless it was assigned them, too, or shares. It says what it wants when it refreshes its
 * membership, so those who share leave it to it, and give back what they have of it; of two that
 * want the same one the second stands by. Whose a partition is remains the store's business: every
 * settle is fenced by owner and epoch as always.
 *
 * An assignment is of this process and is not stored with the subscription. It was made for a
 * certain number of partitions, because partition 3 of 8 is not partition 3 of 16. When the number
 * is another one the process wants nothing, and says why, until it is assigned partitions again.
 */
#include "bus/deliver/ordered/assign.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "bus/deliver/ordered/ordered.h"
#include "store/membership.h"

hf_status assignments_init(struct assignments *assignments)
{
    return mutex_init(&assignments->mutex);
}

static void assignment_free(struct assignment *assignment)
{
    if (assignment) {
        mem_free(assignment->name);
        mem_free(assignment);
    }
}

void assignments_release(struct assignments *assignments)
{
    while (assignments->first) {
        struct assignment *assignment = assignments->first;
        assignments->first = assignment->next;
        assignment_free(assignment);
    }
    pthread_mutex_destroy(&assignments->mutex);
}

/* Where the subscription's is linked, or would be. The mutex is held. */
static struct assignment **find(struct assignments *assignments, const char *name,
                                int32_t *ret_count)
{
    struct assignment **at = &assignments->first;
    int32_t count = 0;
    while (*at && strcmp((*at)->name, name) != 0) {
        at = &(*at)->next;
        count++;
    }
    *ret_count = count;
    return at;
}

/* ---- hf_assign ------------------------------------------------------------------------------- */

/* The subscription is one whose partitions can be assigned, and has, or will have, so many. */
static hf_status check_subscription(hf_bus *bus, const char *name, int32_t *total)
{
    struct definition definition;
    definition_init(&definition);
    hf_status status = definition_load(bus, name, &definition);
    const hf_subscription_options *options = &definition.options;
    if (!status && options->mode == HF_MODE_SHARED) {
        status = fail(HF_MISUSE, "%s is shared: it has no partitions to assign", name);
    }
    if (!status && options->instance_mode == HF_INSTANCE_SINGLE) {
        status = fail(HF_MISUSE,
                      "%s has instance_mode single: the newest process takes all partitions, "
                      "so none can be assigned",
                      name);
    }
    if (!status && *total == -1) {
        *total = options->partitions;
    }
    if (!status && *total != options->partitions && *total != definition.wanted) {
        status = fail(HF_CONFLICT, "%s has %d partitions, and the assignment is for %d", name,
                      options->partitions, *total);
    }
    definition_release(&definition);
    return status;
}

static hf_status make(const char *name, const int32_t *partitions, size_t count, int32_t total,
                      struct assignment **ret_assignment)
{
    struct assignment *assignment = mem_calloc(1, sizeof *assignment);
    if (assignment) {
        assignment->name = mem_dup(name, strlen(name));
    }
    if (!assignment || !assignment->name) {
        assignment_free(assignment);
        return fail(HF_NOMEM, "out of memory for an assignment");
    }
    assignment->total = total;
    for (size_t i = 0; i < count; i++) {
        if (partitions[i] < 0 || partitions[i] >= total) {
            assignment_free(assignment);
            return fail(HF_INVALID, "partition is %d; of %d partitions it must be 0 to %d",
                        partitions[i], total, total - 1);
        }
        ranges_put(&assignment->ranges, partitions[i]);
    }
    *ret_assignment = assignment;
    return HF_OK;
}

/* Puts one in place of what there was; NULL: nothing is assigned any more. */
static hf_status put(struct assignments *assignments, const char *name,
                     struct assignment *assignment)
{
    hf_status status = HF_OK;
    struct assignment *old = NULL;
    pthread_mutex_lock(&assignments->mutex);
    int32_t count;
    struct assignment **at = find(assignments, name, &count);
    if (!*at && assignment && count >= ASSIGNMENTS_MAX) {
        status = fail(HF_INVALID, "%d subscriptions have assignments already, which is the limit",
                      ASSIGNMENTS_MAX);
        old = assignment;
    } else {
        old = *at;
        struct assignment *rest = old ? old->next : NULL;
        if (assignment) {
            assignment->next = rest;
            *at = assignment;
        } else {
            *at = rest;
        }
        atomic_fetch_add(&assignments->version, 1);
    }
    pthread_mutex_unlock(&assignments->mutex);
    assignment_free(old);
    return status;
}

hf_status hf_assign(hf_bus *bus, const char *subscription, const int32_t *partitions, size_t count,
                    int32_t total)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (!subscription) {
        return fail(HF_INVALID, "subscription is NULL");
    }
    if (!partitions != (count == 0) || count > HF_PARTITIONS_MAX) {
        return fail(HF_INVALID, "partitions is %s and count is %zu; the limit is %d",
                    partitions ? "given" : "NULL", count, HF_PARTITIONS_MAX);
    }
    if (total != -1 && (total < 1 || total > HF_PARTITIONS_MAX)) {
        return fail(HF_INVALID, "total is %d; it must be 1 to %d", total, HF_PARTITIONS_MAX);
    }
    struct assignment *assignment = NULL;
    if (count > 0) {
        status = check_subscription(bus, subscription, &total);
        if (!status) {
            status = make(subscription, partitions, count, total, &assignment);
        }
    }
    if (!status) {
        status = put(&bus->assignments, subscription, assignment);
    }
    if (!status) {
        subscriptions_nudge(bus, NEWS_OTHER);
    }
    return status;
}

/* ---- For the members ------------------------------------------------------------------------- */

/* Copies what is assigned. False: nothing is. */
static bool look_up(struct runner *runner, struct ranges *ret_ranges, int32_t *ret_total)
{
    struct assignments *assignments = &runner->bus->assignments;
    pthread_mutex_lock(&assignments->mutex);
    int32_t count;
    const struct assignment *assignment = *find(assignments, runner->name, &count);
    if (assignment) {
        *ret_ranges = assignment->ranges;
        *ret_total = assignment->total;
    }
    runner->ordered->assigned = atomic_load(&assignments->version);
    pthread_mutex_unlock(&assignments->mutex);
    return assignment != NULL;
}

struct text assign_text(struct runner *runner, char buffer[RANGES_BYTES_MAX])
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    struct ranges ranges;
    int32_t total;
    ordered->assigned_generation = runner->definition.generation;
    ordered->fixed = look_up(runner, &ranges, &total);
    if (!ordered->fixed) {
        return TEXT_ABSENT;
    }
    bool single = options->instance_mode == HF_INSTANCE_SINGLE;
    ordered->wanted = ranges;
    ranges_format(&ranges, buffer);
    if (single || total != options->partitions) {
        runner_say(runner, HF_LOG_ERROR,
                   "takes no partition: %.100s of %d are assigned, but it has %d partitions%s",
                   buffer, total, options->partitions, single ? " and instance_mode single" : "");
        ordered->wanted = (struct ranges){{0}};
        buffer[0] = '\0';
    }
    return text_of(buffer);
}

bool assign_changed(const struct runner *runner)
{
    const struct ordered *ordered = runner->ordered;
    return ordered->assigned != atomic_load(&runner->bus->assignments.version) ||
           (ordered->fixed && ordered->assigned_generation != runner->definition.generation);
}

/* What we were assigned and do not have. */
static struct ranges missing(const struct ordered *ordered)
{
    struct ranges missing = ordered->wanted;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        const struct part *part = &ordered->parts[i];
        if (part->state == PART_OURS) {
            missing.words[part->number / 64] &= ~(UINT64_C(1) << (part->number % 64));
        }
    }
    return missing;
}

bool assign_has_all(const struct runner *runner)
{
    struct ranges lack = missing(runner->ordered);
    return runner->ordered->fixed && ranges_count(&lack) == 0;
}

/* Who has the first one that we wait for. */
struct holder {
    const struct ranges *lack;
    char name[HF_PRODUCER_BYTES_MAX + 1];
};

static int see_member(struct text assigned, void *ctx)
{
    (void)assigned;
    (void)ctx;
    return 0;
}

static int see_partition(const struct partition_row *row, void *ctx)
{
    struct holder *holder = ctx;
    if (!row->owner_alive || !ranges_has(holder->lack, row->partition)) {
        return 0;
    }
    snprintf(holder->name, sizeof holder->name, "%" TEXT_PRI, TEXT_ARG(row->owner_name));
    return 1;
}

void assign_say_waiting(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    struct ranges lack = missing(ordered);
    if (memcmp(&lack, &ordered->waits, sizeof lack) == 0 || ordered->drained) {
        return;
    }
    ordered->waits = lack;
    struct holder holder = {.lack = &lack};
    if (ranges_count(&lack) == 0 || store_partitions(runner->bus->store, runner->definition.id,
                                                     see_member, see_partition, &holder)) {
        return;
    }
    char text[RANGES_BYTES_MAX];
    ranges_format(&lack, text);
    if (holder.name[0]) {
        runner_say(runner, HF_LOG_INFO, "stands by for partition %.100s: %s has it, and is alive",
                   text, holder.name);
    } else {
        ordered->waits = (struct ranges){{0}}; /* none has an owner yet: look again */
    }
}
