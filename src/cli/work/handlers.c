/*
 * handlers.c - what the bus runs for the plan.
 *
 * For each subscription there is an entry, and the bus has a handler of it for each pattern. A
 * handler runs the item that its entry names at that moment, so a changed plan needs no handler to
 * be registered anew: the next event gets the new command or URL, and runs that have begun go on
 * with the old one. Such an item is retired, and freed when no run uses it any more.
 *
 * When patterns change, those that go are unregistered before others come: the bus runs every
 * handler whose pattern matches, and none at all while some pattern has no handler. So no event is
 * run twice and none is left out in between.
 */
#include "cli/work/handlers.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/terminal/out.h"

struct work_handler {
    struct work_handler *next;
    struct work_entry *entry;
    hf_handler_id id;
    char pattern[HF_TYPE_BYTES_MAX + 1];
};

struct work_entry {
    struct work_entry *next;
    struct work_handler *handlers;
    bool is_left;          /* it is not worked for any more, but a handler has not ended yet */
    pthread_mutex_t mutex; /* protects what follows */
    struct work_item *item;
    char name[HF_NAME_BYTES_MAX + 1];
};

/* ---- Running --------------------------------------------------------------------------------- */

static struct work_item *begin(void *ctx)
{
    struct work_entry *entry = ((struct work_handler *)ctx)->entry;
    struct work_item *item;

    pthread_mutex_lock(&entry->mutex);
    item = entry->item;
    atomic_fetch_add(&item->running, 1);
    pthread_mutex_unlock(&entry->mutex);
    return item;
}

static hf_verdict run_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct work_item *item = begin(ctx);
    hf_verdict verdict = deliver_event(event, delivery, &item->deliver);

    atomic_fetch_sub(&item->running, 1);
    return verdict;
}

static hf_verdict run_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                            void *ctx)
{
    struct work_item *item = begin(ctx);
    hf_verdict verdict = deliver_batch(events, count, delivery, &item->deliver);

    atomic_fetch_sub(&item->running, 1);
    return verdict;
}

static void set_item(struct work_entry *entry, struct work_item *item)
{
    pthread_mutex_lock(&entry->mutex);
    entry->item = item;
    pthread_mutex_unlock(&entry->mutex);
}

/* ---- Entries --------------------------------------------------------------------------------- */

static struct work_entry *find_entry(const struct work *work, const char *name)
{
    struct work_entry *entry = work->entries;

    while (entry && (entry->is_left || strcmp(entry->name, name) != 0)) {
        entry = entry->next;
    }
    return entry;
}

/* The one of its name, or a new one without handlers. NULL after a complaint. */
static struct work_entry *entry_of(struct work *work, struct work_item *item)
{
    struct work_entry *entry = find_entry(work, item->name);

    if (entry) {
        return entry;
    }
    entry = mem_calloc(1, sizeof *entry);
    if (!entry || mutex_init(&entry->mutex)) {
        mem_free(entry);
        out_complain("out of memory");
        return NULL;
    }
    entry->item = item;
    snprintf(entry->name, sizeof entry->name, "%s", item->name);
    entry->next = work->entries;
    work->entries = entry;
    return entry;
}

static void entry_free(struct work_entry *entry)
{
    while (entry->handlers) {
        struct work_handler *handler = entry->handlers;
        entry->handlers = handler->next;
        mem_free(handler);
    }
    pthread_mutex_destroy(&entry->mutex);
    mem_free(entry);
}

/* ---- Registering ----------------------------------------------------------------------------- */

static bool has_handler(const struct work_entry *entry, const char *pattern)
{
    const struct work_handler *handler = entry->handlers;

    while (handler && strcmp(handler->pattern, pattern) != 0) {
        handler = handler->next;
    }
    return handler != NULL;
}

static bool has_pattern(const struct work_item *item, const char *pattern)
{
    for (size_t i = 0; i < item->pattern_count; i++) {
        if (strcmp(item->patterns[i], pattern) == 0) {
            return true;
        }
    }
    return false;
}

static hf_status add_handler(struct work *work, struct work_entry *entry,
                             const struct work_item *item, const char *pattern)
{
    static const hf_subscription_options nothing = HF_SUBSCRIPTION_OPTIONS_INIT;
    const hf_subscription_options *options = work->file ? &nothing : &item->options;
    struct work_handler *handler = mem_calloc(1, sizeof *handler);
    hf_bus *bus = work->cli->bus;
    hf_status status;

    if (!handler) {
        return HF_NOMEM;
    }
    handler->entry = entry;
    snprintf(handler->pattern, sizeof handler->pattern, "%s", pattern);
    status = item->batches ? hf_subscribe_batch(bus, item->name, pattern, run_batch, handler,
                                                options, &handler->id)
                           : hf_subscribe(bus, item->name, pattern, run_event, handler, options,
                                          &handler->id);
    if (status) {
        mem_free(handler);
        return status;
    }
    handler->next = entry->handlers;
    entry->handlers = handler;
    return HF_OK;
}

/* Unregisters the handlers whose patterns the item (NULL: none) does not have. False: one of them
 * still runs, and stays in the list. */
static bool drop_handlers(struct work *work, struct work_entry *entry, const struct work_item *item)
{
    struct work_handler **at = &entry->handlers;
    bool all_ended = true;

    while (*at) {
        struct work_handler *handler = *at;
        if (item && has_pattern(item, handler->pattern)) {
            at = &handler->next;
            continue;
        }
        if (hf_unsubscribe(work->cli->bus, handler->id) == HF_TIMEOUT) {
            handler->pattern[0] = '\0'; /* that of no handler */
            all_ended = false;
            at = &handler->next;
            continue;
        }
        *at = handler->next;
        mem_free(handler);
    }
    return all_ended;
}

int work_attach(struct work *work, struct work_item *item)
{
    struct work_entry *entry = entry_of(work, item);
    hf_status status = HF_OK;

    if (!entry) {
        return EXIT_ERROR;
    }
    drop_handlers(work, entry, item);
    set_item(entry, item);
    for (size_t i = 0; i < item->pattern_count && !status; i++) {
        if (!has_handler(entry, item->patterns[i])) {
            status = add_handler(work, entry, item, item->patterns[i]);
        }
    }
    return cli_fail(status);
}

void work_detach(struct work *work, const char *name)
{
    struct work_entry *entry = find_entry(work, name);
    struct work_entry **at = &work->entries;

    if (!entry) {
        return;
    }
    entry->is_left = true;
    if (!drop_handlers(work, entry, NULL)) {
        return;
    }
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    entry_free(entry);
}

bool work_runs(const struct work *work, const struct work_item *item)
{
    bool runs = atomic_load(&item->running) > 0;

    for (struct work_entry *entry = work->entries; entry && !runs; entry = entry->next) {
        runs = entry->item == item;
    }
    return runs;
}

void work_forget_handlers(struct work *work)
{
    while (work->entries) {
        struct work_entry *entry = work->entries;
        work->entries = entry->next;
        entry_free(entry);
    }
}
