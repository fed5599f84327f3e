/*
 * subscription.c - subscriptions: the durable ones, and those this process has handlers for.
 *
 * Registering a handler may create the durable subscription, widen its patterns or change its
 * options. Two processes may do so at once: a change names the generation it was made from, and
 * the second process reads again. Threads of this process do so one after the other (bus->making),
 * however long the store takes; bus->mutex is held only while the list of entries is changed, so
 * that two threads agree on one runner and no thread that looks at the list waits for the store:
 * not the watch, which shows the signs of life of all of them.
 *
 * An entry whose last handler is unregistered leaves the list, with all that it costs: at once if
 * it has no turns, else its dispatcher takes it out when it has given back what it had, which may
 * be after handlers that still run. Meanwhile it stays in the list, so that hf_stop waits for it
 * and a handler that is registered again finds it: one process never has two runners for a
 * subscription. A subscription that was removed loses its runner in the same way; its entry stays
 * as long as it has handlers, for hf_unsubscribe. One that is created again under its name has
 * another id, so it is another entry.
 *
 * The dispatcher, unless a stop waits for it, takes entries out with bus->mutex; every other thread
 * with bus->life, too. So a stop that has notified all dispatchers may walk the list without
 * bus->mutex.
 */
#include "bus/subscription.h"

#include <assert.h>

#include "base/time/clock.h"
#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/tail/tail.h"
#include "bus/options.h"
#include "bus/watch.h"

#define UPDATE_TRIES 10      /* against others who change the same subscription */
#define JSON_BYTES_MAX 65536 /* patterns or options */

struct subscription {
    struct subscription *next;
    int64_t id;
    struct handlers *handlers; /* counted; the runner has its own reference */
    struct runner *runner;     /* counted; NULL: the durable subscription was removed */
    bool nudged;               /* its runner is to be called; see nudge */
};

/* ---- The durable part ------------------------------------------------------------------------ */

/* What hf_subscription_create and hf_subscribe want to be stored. */
struct request {
    const char *name;
    struct text patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    bool replace; /* these patterns and no others; else they are added */
    hf_subscription_options given;
};

static hf_status put(hf_bus *bus, const struct request *request, const struct text *patterns,
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
            .name = text_of(request->name),
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

/* HF_CONFLICT: another process has created it meanwhile: what it gave must not be lost. */
static hf_status create(hf_bus *bus, const struct request *request, bool *ret_created)
{
    hf_subscription_options options;
    options_default(&options);
    if (store_look_ms(bus->store) > 0) {
        options.wait_period_ms = store_look_ms(bus->store);
    }
    options_merge(&options, &request->given);
    hf_status status = check_options(bus, &options);
    if (status) {
        return status;
    }
    if (request->given.from.kind == HF_PLACE_NONE) {
        return fail(HF_INVALID,
                    "subscription %s is new: say where it starts (from: start, now, a position or "
                    "a time)",
                    request->name);
    }
    int64_t start;
    status = hf_locate(bus, request->given.from, &start);
    return status ? status
                  : put(bus, request, request->patterns, request->pattern_count, &options, start, 0,
                        ret_created);
}

static hf_status check_unchangeable(const struct request *request,
                                    const struct definition *definition)
{
    const hf_subscription_options *given = &request->given;
    if (given->mode != HF_MODE_DEFAULT && given->mode != definition->options.mode) {
        return fail(HF_CONFLICT, "subscription %s exists with mode %s; the mode cannot be changed",
                    request->name,
                    definition->options.mode == HF_MODE_SHARED ? "shared" : "ordered");
    }
    if (given->order != HF_ORDER_DEFAULT && given->order != definition->options.order) {
        return fail(
            HF_CONFLICT, "subscription %s exists with order %s; the order cannot be changed",
            request->name, definition->options.order == HF_ORDER_STRICT ? "strict" : "relaxed");
    }
    return HF_OK;
}

/* The patterns after the change; false if they stay as they are. */
static bool merge_patterns(const struct request *request, const struct definition *definition,
                           struct text *patterns, size_t *ret_count)
{
    if (request->replace) {
        memcpy(patterns, request->patterns, request->pattern_count * sizeof *patterns);
        *ret_count = request->pattern_count;
        bool same = request->pattern_count == definition->pattern_count;
        for (size_t i = 0; same && i < request->pattern_count; i++) {
            same = text_equal(patterns[i], definition->patterns[i]);
        }
        return !same;
    }
    size_t count = definition->pattern_count;
    memcpy(patterns, definition->patterns, count * sizeof *patterns);
    for (size_t i = 0; i < request->pattern_count; i++) {
        bool covered = false;
        for (size_t j = 0; j < count && !covered; j++) {
            covered = glob_covers(patterns[j], request->patterns[i]);
        }
        if (!covered && count <= HF_PATTERNS_MAX) {
            patterns[count++] = request->patterns[i];
        }
    }
    *ret_count = count;
    return count != definition->pattern_count;
}

/* Changes what differs, if anything does (*ret_changed). HF_CONFLICT with *ret_again: another
 * process changed it meanwhile. */
static hf_status update(hf_bus *bus, const struct request *request,
                        const struct definition *definition, bool *ret_changed, bool *ret_again)
{
    hf_status status = check_unchangeable(request, definition);
    if (status) {
        return status;
    }
    hf_subscription_options options = definition->options;
    if (definition->wanted > 0) { /* not given: the request stays */
        options.partitions = definition->wanted;
    }
    options_merge(&options, &request->given);
    status = check_options(bus, &options);
    if (status) {
        return status;
    }
    struct text patterns[HF_PATTERNS_MAX + 1];
    size_t count;
    bool differs = merge_patterns(request, definition, patterns, &count);
    differs |= !options_equal(&options, &definition->options);
    differs |= definition->wanted > 0 && options.partitions != definition->wanted;
    *ret_changed = differs;
    if (!differs) {
        return HF_OK;
    }
    bool created;
    status = put(bus, request, patterns, count, &options, 0, definition->generation, &created);
    *ret_again = status == HF_CONFLICT || (!status && created);
    return status;
}

/* Another number of partitions is requested: if no process works for the subscription and all are
 * equally far it need not wait; else the members that work for it do it (membership.c). */
static hf_status repartition(hf_bus *bus, const struct request *request,
                             struct definition *definition)
{
    struct repartition change = {
        .change = {.kind = CHANGE_REPARTITION, .now_us = clock_wall_us()},
        .subscription_id = definition->id,
        .lease_ms = definition->options.lease_ms,
        .attempts_max = definition->options.attempts_max,
    };
    hf_status status = bus_run(bus, &change.change);
    return status && status != HF_BUSY ? status : definition_load(bus, request->name, definition);
}

/* Makes the stored subscription what the request says and loads it. */
static hf_status realise(hf_bus *bus, const struct request *request, struct definition *definition,
                         bool *ret_created)
{
    hf_status status = HF_OK;
    bool changed = true;
    *ret_created = false;
    pthread_mutex_lock(&bus->making);
    for (int i = 0; i < UPDATE_TRIES; i++) {
        bool again = false;
        status = definition_load(bus, request->name, definition);
        if (status == HF_NOTFOUND) {
            bool created = false;
            changed = true;
            status = create(bus, request, &created);
            *ret_created = created;
            again = status == HF_CONFLICT;
        } else if (!status) {
            status = update(bus, request, definition, &changed, &again);
        }
        if (!again) {
            break;
        }
    }
    if (!status && changed) {
        status = definition_load(bus, request->name, definition);
    }
    if (!status && definition->wanted > 0) {
        status = repartition(bus, request, definition);
    }
    pthread_mutex_unlock(&bus->making);
    return status;
}

static hf_status request_init(struct request *request, const char *name,
                              const char *const *patterns, size_t count,
                              const hf_subscription_options *options)
{
    *request = (struct request){.name = name};
    hf_subscription_options none = HF_SUBSCRIPTION_OPTIONS_INIT;
    request->given = none;
    if (!name) {
        return fail(HF_INVALID, "subscription name is NULL");
    }
    hf_status status = glob_check_name(text_of(name), "subscription name", HF_NAME_BYTES_MAX);
    if (!status && options) {
        status = bus_read_options(&request->given, sizeof request->given, sizeof request->given,
                                  options, "hf_subscription_options");
    }
    if (!status && (count == 0 || count > HF_PATTERNS_MAX)) {
        status = fail(HF_INVALID, "subscription %s: %zu patterns; it takes 1 to %d", name, count,
                      HF_PATTERNS_MAX);
    }
    for (size_t i = 0; !status && i < count; i++) {
        if (!patterns || !patterns[i]) {
            return fail(HF_INVALID, "subscription %s: pattern is NULL", name);
        }
        request->patterns[request->pattern_count++] = text_of(patterns[i]);
        status = glob_check_pattern(text_of(patterns[i]));
    }
    return status;
}

hf_status hf_subscription_create(hf_bus *bus, const char *name, const char *const *patterns,
                                 size_t pattern_count, const hf_subscription_options *options,
                                 int32_t *ret_created)
{
    hf_status status = bus_check_open(bus);
    struct request request;
    if (!status) {
        status = request_init(&request, name, patterns, pattern_count, options);
    }
    if (status) {
        return status;
    }
    request.replace = true;
    bool created;
    struct definition definition;
    definition_init(&definition);
    status = realise(bus, &request, &definition, &created);
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

/* The entry that has a runner for the subscription. bus->mutex is held. */
static struct subscription *find(const hf_bus *bus, int64_t id)
{
    int64_t entry;
    return set64_get(&bus->entries, (uint64_t)id, &entry) ? (struct subscription *)entry : NULL;
}

/* It is not to be found any more: it loses its runner, or leaves the list. bus->mutex is held. */
static void hide(hf_bus *bus, const struct subscription *subscription)
{
    if (find(bus, subscription->id) == subscription) {
        set64_remove(&bus->entries, (uint64_t)subscription->id);
    }
}

static void entry_free(struct subscription *subscription)
{
    handlers_unreference(subscription->handlers);
    runner_unreference(subscription->runner);
    mem_free(subscription);
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
    status = set64_put(&bus->entries, (uint64_t)definition->id, (int64_t)subscription);
    if (!status && bus->started) {
        status = runner_start(subscription->runner);
    }
    if (status) {
        hide(bus, subscription);
        runner_unreference(subscription->runner);
        mem_free(subscription);
        return status;
    }
    subscription->handlers = handlers;
    subscription->next = bus->subscriptions;
    bus->subscriptions = subscription;
    return HF_OK;
}

/* Handlers of the other kind are still being taken away: waits until they are. bus->mutex is held,
 * and is given up meanwhile. */
static hf_status wait_gone(hf_bus *bus, const struct definition *definition)
{
    struct deadline deadline = bus_deadline(bus);
    bool in_time = !attempt_inside(bus);
    struct subscription *subscription;
    while ((subscription = find(bus, definition->id)) && subscription->handlers->count == 0 &&
           in_time) {
        in_time = cond_wait_until(&bus->retired, &bus->mutex, deadline);
    }
    return !subscription || subscription->handlers->count > 0
               ? HF_OK
               : fail(HF_BUSY,
                      "subscription %" TEXT_PRI " had %s in this bus until now, and they "
                      "have not ended yet",
                      TEXT_ARG(definition->name), handler_kind_name(subscription->handlers->kind));
}

/* Registers a handler with the subscription's entry. bus->mutex is held. */
static hf_status add_handler(hf_bus *bus, const struct definition *definition,
                             const struct handler *handler)
{
    struct subscription *subscription = find(bus, definition->id);
    enum handler_kind kind = handler_kind(handler);
    if (subscription && subscription->handlers->kind != kind) {
        hf_status status = wait_gone(bus, definition);
        if (status) {
            return status;
        }
        subscription = find(bus, definition->id);
    }
    struct handlers *old = subscription ? subscription->handlers : NULL;
    if (subscription && subscription->handlers->kind != kind) {
        return fail(HF_MISUSE,
                    "subscription %" TEXT_PRI " has %s in this bus already; it is "
                    "either handlers or batch handlers",
                    TEXT_ARG(definition->name), handler_kind_name(subscription->handlers->kind));
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
    struct request request;
    if (!status) {
        status = request_init(&request, name, &pattern, 1, options);
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
    status = realise(bus, &request, &definition, &created);
    pthread_mutex_lock(&bus->mutex);
    if (!status && !bus_admits(bus)) {
        status = bus_refuse(bus); /* by a handler that was given up: hf_close may be over */
    }
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

/* Waits until no other thread uses an old list of handlers. */
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

/* Takes the handler out of the list that it is in; *ret_old is the list as it was, NULL if no list
 * has it. bus->mutex is held. */
static hf_status take_out(hf_bus *bus, hf_handler_id id, struct handlers **ret_old)
{
    bool found = false;
    for (struct subscription *at = bus->subscriptions; at && !found; at = at->next) {
        struct handlers *without = handlers_without(at->handlers, id, &found);
        if (!without) {
            return fail(HF_NOMEM, "out of memory");
        }
        if (!found) {
            handlers_unreference(without);
            continue;
        }
        *ret_old = at->handlers;
        at->handlers = without;
        if (at->runner) {
            runner_set_handlers(at->runner, handlers_reference(without));
        }
    }
    return HF_OK;
}

hf_status hf_unsubscribe(hf_bus *bus, hf_handler_id id)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    struct handlers *old = NULL;
    pthread_mutex_lock(&bus->mutex);
    status = take_out(bus, id, &old);
    pthread_mutex_unlock(&bus->mutex);
    if (!status && !old) {
        status = fail(HF_NOTFOUND, "no handler has the id %lld", (long long)id);
    }
    if (!status && !attempt_inside(bus)) {
        status = wait_unused(old, bus_deadline(bus));
    }
    handlers_unreference(old);
    atomic_store(&bus->reap_due, true);
    subscriptions_reap_if_due(bus);
    return status;
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* Signs of life are as frequent as those that are left need them. bus->mutex is held. */
static void tell_leases(hf_bus *bus)
{
    int64_t shortest_ms = INT64_MAX;
    uint64_t seen = watch_leases_seen(bus);
    for (struct subscription *at = bus->subscriptions; at; at = at->next) {
        if (at->runner) {
            pthread_mutex_lock(&at->runner->mutex);
            int64_t lease_ms = at->runner->definition.options.lease_ms;
            pthread_mutex_unlock(&at->runner->mutex);
            shortest_ms = lease_ms < shortest_ms ? lease_ms : shortest_ms;
        }
    }
    HF_POINT("leases_looked_at");
    watch_leases(bus, seen, shortest_ms);
}

/* The entry loses its runner, and leaves the list if it has no handlers. bus->mutex is held. */
static struct subscription *take_runner(hf_bus *bus, struct runner *runner)
{
    struct subscription **at = &bus->subscriptions;
    while ((*at)->runner != runner) {
        at = &(*at)->next;
    }
    struct subscription *subscription = *at;
    hide(bus, subscription);
    if (subscription->handlers->count > 0) {
        subscription->runner = NULL;
        runner_unreference(runner); /* the dispatcher has another one */
        return NULL;
    }
    *at = subscription->next;
    return subscription;
}

enum retired subscription_retired(struct runner *runner)
{
    hf_bus *bus = runner->bus;
    struct subscription *gone = NULL;
    pthread_mutex_lock(&bus->mutex);
    pthread_mutex_lock(&runner->mutex);
    enum course course = runner->course;
    bool ended = runner->stuck == 0 && !runner->finish_status;
    pthread_mutex_unlock(&runner->mutex);
    enum retired retired = course == COURSE_HALT   ? RETIRED_HALTED
                           : course == COURSE_WORK ? RETIRED_WANTED
                           : ended                 ? RETIRED_GONE
                                                   : RETIRED_NOT_YET;
    if (retired == RETIRED_GONE) {
        timekeeper_remove(&bus->timekeeper, runner);
        gone = take_runner(bus, runner);
        tell_leases(bus);
        pthread_cond_broadcast(&bus->retired);
    }
    pthread_mutex_unlock(&bus->mutex);
    if (gone) {
        entry_free(gone);
    }
    return retired;
}

/* Has it neither handlers, nor turns, nor anything left for a stop? bus->life is held. */
static bool is_empty(const struct subscription *subscription)
{
    struct runner *runner = subscription->runner;
    if (subscription->handlers->count > 0) {
        return false;
    }
    if (!runner) {
        return true;
    }
    pthread_mutex_lock(&runner->mutex);
    bool halted = runner->course == COURSE_HALT && runner->stuck == 0;
    pthread_mutex_unlock(&runner->mutex);
    return halted && !runner_is_present(runner) && !runner->finish_status;
}

void subscriptions_reap(hf_bus *bus)
{
    struct subscription *gone = NULL;
    pthread_mutex_lock(&bus->mutex);
    for (struct subscription **at = &bus->subscriptions; *at;) {
        struct subscription *subscription = *at;
        if (!is_empty(subscription)) {
            at = &subscription->next;
            continue;
        }
        *at = subscription->next;
        hide(bus, subscription);
        subscription->next = gone;
        gone = subscription;
    }
    if (gone) {
        tell_leases(bus);
        pthread_cond_broadcast(&bus->retired);
    }
    pthread_mutex_unlock(&bus->mutex);
    while (gone) {
        struct subscription *next = gone->next;
        entry_free(gone);
        gone = next;
    }
}

void subscriptions_reap_if_due(hf_bus *bus)
{
    while (atomic_load(&bus->reap_due) && pthread_mutex_trylock(&bus->life) == 0) {
        atomic_store(&bus->reap_due, false);
        subscriptions_reap(bus);
        HF_POINT("reaped");
        pthread_mutex_unlock(&bus->life);
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

hf_status subscriptions_start(hf_bus *bus)
{
    hf_status status = HF_OK;
    pthread_mutex_lock(&bus->mutex);
    struct subscription *subscription = bus->subscriptions;
    for (; subscription && !status; subscription = subscription->next) {
        if (subscription->runner && !runner_is_present(subscription->runner)) {
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
        if (at->runner) {
            runner_stop_begin(at->runner, deadline);
        }
    }
    bus->not_idle = bus->subscriptions;
    pthread_mutex_unlock(&bus->mutex);
}

/* All dispatchers have been told to stop and bus->life is held: no entry leaves the list, so it may
 * be walked without the lock. */
static struct subscription *first_of(hf_bus *bus)
{
    pthread_mutex_lock(&bus->mutex);
    struct subscription *first = bus->subscriptions;
    pthread_mutex_unlock(&bus->mutex);
    return first;
}

/* What was idle stays so, because nothing begins any more: it is not looked at again. */
static bool are_idle(hf_bus *bus)
{
    struct subscription *at = bus->not_idle;
    while (at && (!at->runner || runner_is_idle(at->runner))) {
        at = at->next;
    }
    bus->not_idle = at;
    return !at;
}

void subscriptions_leave(hf_bus *bus, const struct stop_deadlines *stop_deadlines)
{
    if (atomic_load(&bus->end) != BUS_OPEN &&
        (deadline_passed(stop_deadlines->handlers) || are_idle(bus))) {
        store_leave(bus->store);
    }
}

hf_status subscriptions_stop_end(hf_bus *bus, const struct stop_deadlines *stop_deadlines)
{
    hf_status status = HF_OK;
    for (struct subscription *at = first_of(bus); at; at = at->next) {
        hf_status ended = at->runner ? runner_stop_end(at->runner, stop_deadlines) : HF_OK;
        status = status ? status : ended;
    }
    return status;
}

hf_status subscriptions_join(hf_bus *bus, struct deadline deadline)
{
    hf_status status = HF_OK;
    for (struct subscription *at = first_of(bus); at && !status; at = at->next) {
        status = at->runner ? runner_join(at->runner, deadline) : HF_OK;
    }
    return status;
}

/* The bus is closed, so no entry comes after this; a handler that was given up may still look for
 * one. */
void subscriptions_free(hf_bus *bus)
{
    pthread_mutex_lock(&bus->mutex);
    struct subscription *all = bus->subscriptions;
    bus->subscriptions = NULL;
    set64_clear(&bus->entries);
    pthread_mutex_unlock(&bus->mutex);
    while (all) {
        struct subscription *subscription = all;
        all = subscription->next;
        entry_free(subscription); /* a runner that is still present has another reference */
    }
}

/* Calls the runners. Without `resting` those are left out that rest at the tail. */
static void nudge(hf_bus *bus, uint32_t needs, bool resting)
{
    pthread_mutex_lock(&bus->mutex);
    for (struct subscription *at = bus->subscriptions; at; at = at->next) {
        at->nudged = at->runner && (resting || !atomic_load(&at->runner->rests));
        if (at->nudged) {
            pthread_mutex_lock(&at->runner->mutex);
            runner_need(at->runner, needs | NEED_TURN);
            pthread_mutex_unlock(&at->runner->mutex);
        }
    }
    dispatchers_hold(&bus->dispatchers);
    for (struct subscription *at = bus->subscriptions; at; at = at->next) {
        if (at->nudged) {
            dispatchers_call_held(&bus->dispatchers, &at->runner->seat);
        }
    }
    dispatchers_let_go(&bus->dispatchers);
    pthread_mutex_unlock(&bus->mutex);
}

void subscriptions_nudge(hf_bus *bus, enum news news)
{
    if (news == NEWS_NONE && dispatchers_seats(&bus->dispatchers) >= RUNNERS_MANY) {
        return;
    }
    /* Who waits for a checkpoint waits for those, too, that no event is for. */
    if (news != NEWS_EVENTS || atomic_load(&bus->waiters) > 0) {
        nudge(bus, news == NEWS_EVENTS ? NEED_LOG : NEEDS_OF_NEWS, true);
    } else {
        tail_news(bus->tail);
        if (tail_resting(bus->tail) < dispatchers_seats(&bus->dispatchers)) {
            nudge(bus, NEED_LOG, false);
        }
    }
    HF_POINT("after_nudge");
}
