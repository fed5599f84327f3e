/*
 * subscription.c - subscriptions: the durable ones, and those this process has handlers for.
 *
 * Registering a handler may create the durable subscription, widen its patterns or change its
 * options. Two processes may do so at once: a change names the generation it was made from, and
 * whoever comes second reads again. Threads of this process do so one after the other
 * (bus->making), however long the store takes; bus->mutex is held only while the list of entries is
 * changed, so that two threads agree on one runner and nobody who looks at the list waits for the
 * store: not the watch, which shows the signs of life of all of them.
 *
 * Entries of the list are never removed before the bus is closed: a subscription that was removed
 * leaves an idle runner behind, and one that is created again under its name is a new entry.
 */
#include "bus/subscription.h"

#include <assert.h>

#include "base/clock.h"
#include <inttypes.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/mem.h"
#include "bus/options.h"
#include "bus/runner.h"

#define UPDATE_TRIES 10      /* against others who change the same subscription */
#define JSON_BYTES_MAX 65536 /* patterns or options */

struct subscription {
    struct subscription *next;
    int64_t id;
    struct handlers *handlers; /* counted; the runner has its own reference */
    struct runner *runner;     /* counted */
};

/* ---- The durable part ------------------------------------------------------------------------ */

/* What hf_subscription_create and hf_subscribe want to be stored. */
struct wish {
    const char *name;
    struct text patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    bool replace; /* these patterns and no others; else they are added */
    hf_subscription_options given;
};

static hf_status put(hf_bus *bus, const struct wish *wish, const struct text *patterns,
                     size_t count, const hf_subscription_options *options, int64_t start,
                     int64_t generation, bool *ret_created)
{
    struct buf patterns_json;
    struct buf options_json;
    buf_init(&patterns_json, JSON_BYTES_MAX);
    buf_init(&options_json, JSON_BYTES_MAX);
    hf_status status = patterns_check(patterns, count);
    if (!status) {
        status = patterns_write(patterns, count, &patterns_json);
    }
    if (!status) {
        status = options_write(options, &options_json);
    }
    if (!status) {
        struct subscription_put change = {
            .change = {.kind = CHANGE_SUBSCRIPTION_PUT, .now_us = clock_wall_us()},
            .name = text_of(wish->name),
            .patterns_json = buf_text(&patterns_json),
            .options_json = buf_text(&options_json),
            .mode = options->mode,
            .partitions = options->partitions,
            .start = start,
            .expect_generation = generation,
        };
        status = bus_run(bus, &change.change);
        *ret_created = change.ret_created;
    }
    buf_release(&patterns_json);
    buf_release(&options_json);
    return status;
}

static hf_status check_options(const hf_bus *bus, const hf_subscription_options *options)
{
    if (options->gap_timeout_ms > 0 && !store_has_gaps(bus->store)) {
        return fail(HF_INVALID,
                    "gap_timeout_ms is %" PRId64 ": it is for PostgreSQL servers that hide their "
                    "locks; here positions have no gaps",
                    options->gap_timeout_ms);
    }
    return options_check(options);
}

/* HF_CONFLICT: somebody else has created it meanwhile, and what they gave must not be lost. */
static hf_status create(hf_bus *bus, const struct wish *wish, bool *ret_created)
{
    hf_subscription_options options;
    options_default(&options);
    if (store_look_ms(bus->store) > 0) {
        options.wait_period_ms = store_look_ms(bus->store);
    }
    options_merge(&options, &wish->given);
    hf_status status = check_options(bus, &options);
    if (status) {
        return status;
    }
    if (wish->given.from.kind == HF_PLACE_NONE) {
        return fail(HF_INVALID,
                    "subscription %s is new: say where it starts (from: start, now, a position or "
                    "a time)",
                    wish->name);
    }
    int64_t start;
    status = hf_locate(bus, wish->given.from, &start);
    return status ? status
                  : put(bus, wish, wish->patterns, wish->pattern_count, &options, start, 0,
                        ret_created);
}

static hf_status check_unchangeable(const struct wish *wish, const struct definition *definition)
{
    const hf_subscription_options *given = &wish->given;
    if (given->mode != HF_MODE_DEFAULT && given->mode != definition->options.mode) {
        return fail(HF_CONFLICT, "subscription %s exists with mode %s; the mode cannot be changed",
                    wish->name, definition->options.mode == HF_MODE_SHARED ? "shared" : "ordered");
    }
    if (given->order != HF_ORDER_DEFAULT && given->order != definition->options.order) {
        return fail(HF_CONFLICT,
                    "subscription %s exists with order %s; the order cannot be changed", wish->name,
                    definition->options.order == HF_ORDER_STRICT ? "strict" : "relaxed");
    }
    return HF_OK;
}

/* The patterns after the change; false if they stay as they are. */
static bool merge_patterns(const struct wish *wish, const struct definition *definition,
                           struct text *patterns, size_t *ret_count)
{
    if (wish->replace) {
        memcpy(patterns, wish->patterns, wish->pattern_count * sizeof *patterns);
        *ret_count = wish->pattern_count;
        bool same = wish->pattern_count == definition->pattern_count;
        for (size_t i = 0; same && i < wish->pattern_count; i++) {
            same = text_equal(patterns[i], definition->patterns[i]);
        }
        return !same;
    }
    size_t count = definition->pattern_count;
    memcpy(patterns, definition->patterns, count * sizeof *patterns);
    for (size_t i = 0; i < wish->pattern_count; i++) {
        bool covered = false;
        for (size_t j = 0; j < count && !covered; j++) {
            covered = glob_covers(patterns[j], wish->patterns[i]);
        }
        if (!covered && count <= HF_PATTERNS_MAX) {
            patterns[count++] = wish->patterns[i];
        }
    }
    *ret_count = count;
    return count != definition->pattern_count;
}

/* Changes what differs. HF_CONFLICT with *ret_again: somebody else changed it meanwhile. */
static hf_status update(hf_bus *bus, const struct wish *wish, const struct definition *definition,
                        bool *ret_again)
{
    hf_status status = check_unchangeable(wish, definition);
    if (status) {
        return status;
    }
    hf_subscription_options options = definition->options;
    if (definition->wanted > 0) { /* not given: the wish stays */
        options.partitions = definition->wanted;
    }
    options_merge(&options, &wish->given);
    status = check_options(bus, &options);
    if (status) {
        return status;
    }
    struct text patterns[HF_PATTERNS_MAX + 1];
    size_t count;
    bool differs = merge_patterns(wish, definition, patterns, &count);
    differs |= !options_equal(&options, &definition->options);
    differs |= definition->wanted > 0 && options.partitions != definition->wanted;
    if (!differs) {
        return HF_OK;
    }
    bool created;
    status = put(bus, wish, patterns, count, &options, 0, definition->generation, &created);
    *ret_again = status == HF_CONFLICT || (!status && created);
    return status;
}

/* Another number of partitions is wished for: if nobody works for the subscription and all are
 * equally far it need not wait; else whoever works for it sees to it (crew.c). */
static hf_status repartition(hf_bus *bus, const struct wish *wish, struct definition *definition)
{
    struct repartition change = {
        .change = {.kind = CHANGE_REPARTITION, .now_us = clock_wall_us()},
        .subscription_id = definition->id,
        .lease_ms = definition->options.lease_ms,
        .attempts_max = definition->options.attempts_max,
    };
    hf_status status = bus_run(bus, &change.change);
    return status && status != HF_BUSY ? status : definition_load(bus, wish->name, definition);
}

/* Makes the stored subscription what the wish says and loads it. */
static hf_status realise(hf_bus *bus, const struct wish *wish, struct definition *definition,
                         bool *ret_created)
{
    hf_status status = HF_OK;
    *ret_created = false;
    pthread_mutex_lock(&bus->making);
    for (int i = 0; i < UPDATE_TRIES; i++) {
        bool again = false;
        status = definition_load(bus, wish->name, definition);
        if (status == HF_NOTFOUND) {
            bool created = false;
            status = create(bus, wish, &created);
            *ret_created = created;
            again = status == HF_CONFLICT;
        } else if (!status) {
            status = update(bus, wish, definition, &again);
        }
        if (!again) {
            break;
        }
    }
    if (!status) {
        status = definition_load(bus, wish->name, definition);
    }
    if (!status && definition->wanted > 0) {
        status = repartition(bus, wish, definition);
    }
    pthread_mutex_unlock(&bus->making);
    return status;
}

static hf_status wish_init(struct wish *wish, const char *name, const char *const *patterns,
                           size_t count, const hf_subscription_options *options)
{
    *wish = (struct wish){.name = name};
    hf_subscription_options none = HF_SUBSCRIPTION_OPTIONS_INIT;
    wish->given = none;
    if (!name) {
        return fail(HF_INVALID, "subscription name is NULL");
    }
    hf_status status = glob_check_name(text_of(name), "subscription name", HF_NAME_BYTES_MAX);
    if (!status && options) {
        status =
            bus_read_options(&wish->given, sizeof wish->given, options, "hf_subscription_options");
    }
    if (!status && (count == 0 || count > HF_PATTERNS_MAX)) {
        status = fail(HF_INVALID, "subscription %s: %zu patterns; it takes 1 to %d", name, count,
                      HF_PATTERNS_MAX);
    }
    for (size_t i = 0; !status && i < count; i++) {
        if (!patterns || !patterns[i]) {
            return fail(HF_INVALID, "subscription %s: pattern is NULL", name);
        }
        wish->patterns[wish->pattern_count++] = text_of(patterns[i]);
        status = glob_check_pattern(text_of(patterns[i]));
    }
    return status;
}

hf_status hf_subscription_create(hf_bus *bus, const char *name, const char *const *patterns,
                                 size_t pattern_count, const hf_subscription_options *options,
                                 int32_t *ret_created)
{
    hf_status status = bus_check_open(bus);
    struct wish wish;
    if (!status) {
        status = wish_init(&wish, name, patterns, pattern_count, options);
    }
    if (status) {
        return status;
    }
    wish.replace = true;
    bool created;
    struct definition definition;
    definition_init(&definition);
    status = realise(bus, &wish, &definition, &created);
    definition_release(&definition);
    if (!status && ret_created) {
        *ret_created = created;
    }
    return status;
}

hf_status hf_subscription_remove(hf_bus *bus, const char *name)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (!name) {
        return fail(HF_INVALID, "subscription name is NULL");
    }
    struct subscription_remove change = {
        .change = {.kind = CHANGE_SUBSCRIPTION_REMOVE, .now_us = clock_wall_us()},
        .name = text_of(name),
    };
    return bus_run(bus, &change.change);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

static struct subscription *find(hf_bus *bus, int64_t id)
{
    struct subscription *subscription = bus->subscriptions;
    while (subscription && subscription->id != id) {
        subscription = subscription->next;
    }
    return subscription;
}

/* A new entry with its runner. bus->mutex is held. */
static hf_status enlist(hf_bus *bus, const struct definition *definition, struct handlers *handlers)
{
    struct subscription *subscription = mem_calloc(1, sizeof *subscription);
    if (!subscription) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    subscription->id = definition->id;
    hf_status status =
        runner_new(bus, definition, handlers_reference(handlers), &subscription->runner);
    if (status) {
        handlers_unreference(handlers);
        mem_free(subscription);
        return status;
    }
    if (bus->started) {
        status = runner_start(subscription->runner);
    }
    if (status) {
        runner_unreference(subscription->runner);
        mem_free(subscription);
        return status;
    }
    subscription->handlers = handlers;
    subscription->next = bus->subscriptions;
    bus->subscriptions = subscription;
    return HF_OK;
}

/* Registers a handler with the subscription's entry. bus->mutex is held. */
static hf_status add_handler(hf_bus *bus, const struct definition *definition,
                             const struct handler *handler)
{
    struct subscription *subscription = find(bus, definition->id);
    struct handlers *old = subscription ? subscription->handlers : NULL;
    if (subscription && subscription->runner->batched != (handler->run_batch != NULL)) {
        return fail(HF_MISUSE, "subscription %" TEXT_PRI " %s %s in this bus already; it is "
                               "either handlers or batch handlers until the bus is closed",
                    TEXT_ARG(definition->name), old->count > 0 ? "has" : "had",
                    subscription->runner->batched ? "batch handlers" : "handlers");
    }
    struct handlers *handlers = handlers_with(old, handler);
    if (!handlers) {
        return fail(HF_NOMEM, "out of memory for a handler");
    }
    if (!subscription) {
        hf_status status = enlist(bus, definition, handlers);
        if (status) {
            handlers_unreference(handlers);
        }
        return status;
    }
    subscription->handlers = handlers;
    runner_set_handlers(subscription->runner, handlers_reference(handlers));
    handlers_unreference(old);
    return HF_OK;
}

/* Registers `more`, of which the caller has set what is to be run. */
static hf_status register_handler(hf_bus *bus, const char *name, const char *pattern,
                                  struct handler more, const hf_subscription_options *options,
                                  hf_handler_id *ret_id)
{
    hf_status status = bus_check_open(bus);
    struct wish wish;
    if (!status) {
        status = wish_init(&wish, name, &pattern, 1, options);
    }
    if (!status && !more.run && !more.run_batch) {
        status = fail(HF_INVALID, "subscription %s: handler is NULL", name);
    }
    if (status) {
        return status;
    }
    bool created;
    struct definition definition;
    definition_init(&definition);
    status = realise(bus, &wish, &definition, &created);
    pthread_mutex_lock(&bus->mutex);
    if (!status) {
        more.id = ++bus->last_handler_id;
        more.pattern = text_of(pattern);
        status = add_handler(bus, &definition, &more);
        if (!status && ret_id) {
            *ret_id = more.id;
        }
    }
    pthread_mutex_unlock(&bus->mutex);
    definition_release(&definition);
    return status;
}

hf_status hf_subscribe(hf_bus *bus, const char *name, const char *pattern, hf_handler_fn handler,
                       void *ctx, const hf_subscription_options *options, hf_handler_id *ret_id)
{
    return register_handler(bus, name, pattern, (struct handler){.run = handler, .ctx = ctx},
                            options, ret_id);
}

hf_status hf_subscribe_batch(hf_bus *bus, const char *name, const char *pattern,
                             hf_batch_handler_fn handler, void *ctx,
                             const hf_subscription_options *options, hf_handler_id *ret_id)
{
    return register_handler(bus, name, pattern, (struct handler){.run_batch = handler, .ctx = ctx},
                            options, ret_id);
}

/* Waits until nobody but us uses an old list of handlers. */
static hf_status wait_unused(struct handlers *handlers, struct deadline deadline)
{
    while (atomic_load(&handlers->references) > 1) {
        if (deadline_passed(deadline)) {
            return fail(HF_TIMEOUT, "the handler is unregistered but still runs");
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return HF_OK;
}

hf_status hf_unsubscribe(hf_bus *bus, hf_handler_id id)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    bool found = false;
    struct handlers *old = NULL;
    pthread_mutex_lock(&bus->mutex);
    struct subscription *subscription = bus->subscriptions;
    for (; subscription && !found && !status; subscription = subscription->next) {
        struct handlers *without = handlers_without(subscription->handlers, id, &found);
        if (!without) {
            status = fail(HF_NOMEM, "out of memory");
        } else if (found) {
            old = subscription->handlers;
            subscription->handlers = without;
            runner_set_handlers(subscription->runner, handlers_reference(without));
        } else {
            handlers_unreference(without);
        }
    }
    pthread_mutex_unlock(&bus->mutex);
    if (!status && !found) {
        status = fail(HF_NOTFOUND, "no handler has the id %lld", (long long)id);
    }
    if (!status && !attempt_inside(bus)) {
        status = wait_unused(old, bus_deadline(bus));
    }
    handlers_unreference(old);
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------- */

hf_status subscriptions_start(hf_bus *bus)
{
    hf_status status = HF_OK;
    pthread_mutex_lock(&bus->mutex);
    struct subscription *subscription = bus->subscriptions;
    for (; subscription && !status; subscription = subscription->next) {
        if (!subscription->runner->companion.present) {
            status = runner_start(subscription->runner);
        }
    }
    pthread_mutex_unlock(&bus->mutex);
    return status;
}

void subscriptions_stop_begin(hf_bus *bus, struct deadline deadline)
{
    pthread_mutex_lock(&bus->mutex);
    for (struct subscription *at = bus->subscriptions; at; at = at->next) {
        runner_stop_begin(at->runner, deadline);
    }
    pthread_mutex_unlock(&bus->mutex);
}

/* Entries stay while the bus is open, so the list may be walked without the lock. */
static struct subscription *first_of(hf_bus *bus)
{
    pthread_mutex_lock(&bus->mutex);
    struct subscription *first = bus->subscriptions;
    pthread_mutex_unlock(&bus->mutex);
    return first;
}

hf_status subscriptions_stop_end(hf_bus *bus, const struct patience *patience)
{
    hf_status status = HF_OK;
    for (struct subscription *at = first_of(bus); at; at = at->next) {
        hf_status ended = runner_stop_end(at->runner, patience);
        status = status ? status : ended;
    }
    return status;
}

hf_status subscriptions_join(hf_bus *bus, struct deadline deadline)
{
    hf_status status = HF_OK;
    for (struct subscription *at = first_of(bus); at && !status; at = at->next) {
        status = runner_join(at->runner, deadline);
    }
    return status;
}

void subscriptions_free(hf_bus *bus)
{
    while (bus->subscriptions) {
        struct subscription *subscription = bus->subscriptions;
        bus->subscriptions = subscription->next;
        handlers_unreference(subscription->handlers);
        companion_leave(&subscription->runner->companion); /* it has a reference of its own */
        runner_unreference(subscription->runner);
        mem_free(subscription);
    }
}

void subscriptions_nudge(hf_bus *bus)
{
    pthread_mutex_lock(&bus->mutex);
    for (struct subscription *at = bus->subscriptions; at; at = at->next) {
        runner_nudge(at->runner);
    }
    pthread_mutex_unlock(&bus->mutex);
}
