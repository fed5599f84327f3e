/*
 * handlers.c - counted lists of handlers. See handlers.h.
 */
#include "bus/deliver/work/handlers.h"

#include "base/mem.h"
#include "base/text/glob.h"

static struct handlers *handlers_new(size_t count, enum handler_kind kind)
{
    struct handlers *handlers = mem_calloc(1, sizeof *handlers + count * sizeof handlers->items[0]);
    if (handlers) {
        atomic_store(&handlers->references, 1);
        handlers->kind = kind;
    }
    return handlers;
}

/* Appends a copy; false without memory. */
static bool handlers_push(struct handlers *handlers, const struct handler *from)
{
    struct handler *to = &handlers->items[handlers->count];
    *to = *from;
    to->pattern.bytes = mem_dup(from->pattern.bytes, from->pattern.length);
    if (!to->pattern.bytes) {
        return false;
    }
    handlers->count++;
    return true;
}

enum handler_kind handler_kind(const struct handler *handler)
{
    return handler->run_batch ? HANDLERS_BATCH : HANDLERS_SINGLE;
}

const char *handler_kind_name(enum handler_kind kind)
{
    return kind == HANDLERS_BATCH ? "batch handlers" : "handlers";
}

struct handlers *handlers_with(const struct handlers *old, const struct handler *more)
{
    size_t count = old ? old->count : 0;
    struct handlers *handlers = handlers_new(count + 1, handler_kind(more));
    if (!handlers) {
        return NULL;
    }
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        ok = handlers_push(handlers, &old->items[i]);
    }
    if (!ok || !handlers_push(handlers, more)) {
        handlers_unreference(handlers);
        return NULL;
    }
    return handlers;
}

struct handlers *handlers_without(const struct handlers *old, hf_handler_id id, bool *ret_found)
{
    *ret_found = false;
    size_t count = old ? old->count : 0;
    struct handlers *handlers = handlers_new(count, old ? old->kind : HANDLERS_SINGLE);
    for (size_t i = 0; handlers && i < count; i++) {
        if (old->items[i].id == id) {
            *ret_found = true;
        } else if (!handlers_push(handlers, &old->items[i])) {
            handlers_unreference(handlers);
            return NULL;
        }
    }
    return handlers;
}

struct handlers *handlers_reference(struct handlers *handlers)
{
    atomic_fetch_add(&handlers->references, 1);
    return handlers;
}

void handlers_unreference(struct handlers *handlers)
{
    if (!handlers || atomic_fetch_sub(&handlers->references, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < handlers->count; i++) {
        mem_free((void *)(uintptr_t)handlers->items[i].pattern.bytes);
    }
    mem_free(handlers);
}

static bool covered(const struct handlers *handlers, struct text pattern)
{
    for (size_t i = 0; i < handlers->count; i++) {
        if (glob_covers(handlers->items[i].pattern, pattern)) {
            return true;
        }
    }
    return false;
}

bool handlers_cover(const struct handlers *handlers, const struct text *patterns, size_t count,
                    struct text *ret_first_missing)
{
    for (size_t i = 0; i < count; i++) {
        if (!covered(handlers, patterns[i])) {
            if (ret_first_missing) {
                *ret_first_missing = patterns[i];
            }
            return false;
        }
    }
    return true;
}
