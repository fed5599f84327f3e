/*
 * definition.c - a stored subscription, parsed. See subscription.h.
 *
 * The store hands a row to a callback, and its texts die with the callback; a definition is a copy
 * that lives on, with patterns and options already understood. It is made aside and moved over the
 * old one when it is complete, so a failure leaves the old one as it was. Moving is safe because
 * the texts live in blocks of the arena, not in the struct.
 */
#include "base/err.h"
#include "base/text/glob.h"
#include "bus/options.h"
#include "bus/subscription.h"

/* Patterns, names, the reason of a pause and the breaker's state. */
#define DEFINITION_BYTES_MAX ((size_t)1 << 20)

void definition_init(struct definition *definition)
{
    *definition = (struct definition){.paused_at_us = -1, .dropped_through = -1};
    arena_init(&definition->arena, DEFINITION_BYTES_MAX);
}

void definition_release(struct definition *definition)
{
    arena_release(&definition->arena);
    definition_init(definition);
}

static hf_status parse_into(const struct subscription_row *row, struct definition *made)
{
    made->id = row->id;
    made->generation = row->generation;
    made->wanted = row->wanted;
    made->created_at_us = row->created_at_us;
    made->start = row->start;
    made->paused_at_us = row->paused_at_us;
    made->dropped_through = row->dropped_through;
    made->dropped = row->dropped;
    made->name = arena_text(&made->arena, row->name);
    made->paused_by = arena_text(&made->arena, row->paused_by);
    made->paused_reason = arena_text(&made->arena, row->paused_reason);
    made->breaker_json = arena_text(&made->arena, row->breaker_json);
    hf_status status = arena_status(&made->arena);
    if (!status) {
        status = options_read(row->options_json, &made->options);
    }
    if (!status) {
        status = patterns_read(row->patterns_json, &made->arena, made->patterns, HF_PATTERNS_MAX,
                               &made->pattern_count);
    }
    if (status) {
        return fail(status, "subscription %" TEXT_PRI ": %s", TEXT_ARG(row->name), err_message());
    }
    /* These two have columns of their own, which decide. */
    made->options.mode = row->mode;
    made->options.partitions = row->partitions;
    return HF_OK;
}

hf_status definition_parse(const struct subscription_row *row, struct definition *definition)
{
    struct definition made;
    definition_init(&made);
    hf_status status = parse_into(row, &made);
    if (status) {
        definition_release(&made);
        return status;
    }
    definition_release(definition);
    *definition = made;
    return HF_OK;
}

/* Carries the parser's answer past the store, whose own answer says nothing about parsing. */
struct loading {
    struct definition *definition;
    hf_status status;
};

static int load_row(const struct subscription_row *row, void *ctx)
{
    struct loading *loading = ctx;
    loading->status = definition_parse(row, loading->definition);
    return 0;
}

hf_status definition_load(hf_bus *bus, const char *name, struct definition *definition)
{
    struct text text = text_of(name);
    hf_status status = glob_check_name(text, "subscription name", HF_NAME_BYTES_MAX);
    if (status) {
        return status;
    }
    struct loading loading = {.definition = definition};
    status = store_subscription_get(bus->store, text, load_row, &loading);
    if (status == HF_NOTFOUND) {
        return fail(HF_NOTFOUND, "there is no subscription %s", name);
    }
    return status ? status : loading.status;
}

hf_status definition_load_id(hf_bus *bus, int64_t id, struct definition *definition)
{
    struct loading loading = {.definition = definition};
    hf_status status = store_subscription_by_id(bus->store, id, load_row, &loading);
    if (status == HF_NOTFOUND) {
        if (text_is_absent(definition->name)) {
            return fail(HF_NOTFOUND, "subscription number %" PRId64 " was removed", id);
        }
        return fail(HF_NOTFOUND, "subscription %" TEXT_PRI " was removed",
                    TEXT_ARG(definition->name));
    }
    return status ? status : loading.status;
}

struct filter definition_filter(const struct definition *definition)
{
    return (struct filter){
        .patterns = definition->patterns,
        .count = definition->pattern_count,
        .unhandled_too = definition->options.on_unhandled == HF_UNHANDLED_DEAD_LETTER,
    };
}
