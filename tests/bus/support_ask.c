/*
 * support_ask.c - the short ways of support_scene.h to publish, subscribe and look: thin covers of
 * the public calls that copy what callbacks show, because it is gone when they return.
 */
#include "support_scene.h"

#define KEEP(to, from) snprintf(to, sizeof(to), "%s", (from) ? (from) : "")

void assert_status_at(hf_status status, hf_status expected, const char *call, const char *file,
                      int line)
{
    if (status == expected) {
        return;
    }
    print_error("%s answered %s, not %s: %s\n", call, hf_status_name(status),
                hf_status_name(expected), status == HF_OK ? "" : hf_errmsg());
    _fail(file, line);
}

const hf_receipt *publish(hf_bus *bus, const char *type, const char *key, const char *payload)
{
    static _Thread_local hf_receipt receipt;
    hf_new_event event = HF_NEW_EVENT_INIT;

    event.type = type;
    event.key = key;
    event.payload = payload;
    assert_ok(hf_publish(bus, &event, &receipt));
    return &receipt;
}

hf_subscription_options quick_options(void)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_START;
    options.retry_base_ms = 10;
    options.retry_max_ms = 50;
    options.checkpoint_ms = 50;
    options.wait_period_ms = 1000;
    options.handler_timeout_ms = 2 * DEADLINE_MS; /* a handler at a door is not given up */
    options.tx_max_ms = DEADLINE_MS;              /* nor one that a busy machine delays */
    return options;
}

hf_handler_id subscribe(hf_bus *bus, const char *name, const char *pattern,
                        struct recorder *recorder, const hf_subscription_options *options)
{
    hf_subscription_options quick = quick_options();
    hf_handler_id id = -1;

    assert_ok(hf_subscribe(bus, name, pattern, recorder_handle, recorder,
                           options ? options : &quick, &id));
    return id;
}

void settle_all(hf_bus *bus, const char *subscription)
{
    assert_ok(hf_wait(bus, subscription, -1, DEADLINE_MS));
}

static int keep_info(const hf_subscription_info *info, void *ctx)
{
    struct info *copy = ctx;

    copy->options = info->options;
    copy->pattern_count = info->pattern_count;
    for (size_t i = 0; i < info->pattern_count && i < COUNTED(copy->patterns); i++) {
        KEEP(copy->patterns[i], info->patterns[i]);
    }
    copy->checkpoint = info->checkpoint;
    copy->cursor = info->cursor;
    copy->start_position = info->start_position;
    copy->head = info->head;
    copy->lag = info->lag;
    copy->rate = info->rate;
    copy->in_flight = info->in_flight;
    copy->retrying = info->retrying;
    copy->held = info->held;
    copy->blocked = info->blocked;
    copy->dead = info->dead;
    copy->paused_at_us = info->paused_at_us;
    copy->breaker_until_us = info->breaker_until_us;
    copy->owner_alive = info->owner_alive;
    KEEP(copy->checkpoint_event_id, info->checkpoint_event_id);
    KEEP(copy->paused_reason, info->paused_reason);
    KEEP(copy->paused_by, info->paused_by);
    KEEP(copy->breaker, info->breaker);
    KEEP(copy->owner, info->owner);
    KEEP(copy->not_moving, info->not_moving);
    return 0;
}

struct info info_of(hf_bus *bus, const char *subscription)
{
    struct info info;

    memset(&info, 0, sizeof info);
    assert_ok(hf_subscription_get(bus, subscription, keep_info, &info));
    return info;
}

struct state_search {
    const char *subscription;
    int found;
    hf_state state;
    int32_t attempts;
};

static int keep_state(const hf_event_state *state, void *ctx)
{
    struct state_search *search = ctx;

    if (strcmp(state->subscription, search->subscription) == 0) {
        search->found++;
        search->state = state->state;
        search->attempts = state->attempts;
    }
    return 0;
}

hf_state state_of(hf_bus *bus, const char *subscription, const char *id, int32_t *ret_attempts)
{
    struct state_search search = {.subscription = subscription};

    assert_ok(hf_event_states(bus, id, keep_state, &search));
    assert_int_equal(search.found, 1);
    if (ret_attempts) {
        *ret_attempts = search.attempts;
    }
    return search.state;
}

struct dead_search {
    struct dead *dead;
    size_t max;
    size_t count;
};

static int keep_dead(const hf_dead_letter *letter, void *ctx)
{
    struct dead_search *search = ctx;
    struct dead *dead;

    if (search->count++ >= search->max) {
        return 0;
    }
    dead = &search->dead[search->count - 1];
    memset(dead, 0, sizeof *dead);
    dead->dead_id = letter->dead_id;
    dead->attempts = letter->attempts;
    dead->position = letter->event.position;
    dead->failed_at_us = letter->failed_at_us;
    KEEP(dead->event_id, letter->event.id);
    KEEP(dead->type, letter->event.type);
    KEEP(dead->payload, letter->event.payload);
    KEEP(dead->reason, letter->reason);
    KEEP(dead->cause, letter->cause);
    KEEP(dead->error, letter->error);
    KEEP(dead->story, letter->attempts_json);
    return 0;
}

size_t dead_of(hf_bus *bus, const char *subscription, struct dead *ret, size_t max)
{
    struct dead_search search = {.dead = ret, .max = max};
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;

    filter.subscription = subscription;
    filter.limit = 1000;
    assert_ok(hf_dead_list(bus, &filter, keep_dead, &search));
    return search.count;
}

size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + strlen(part), part)) {
        count++;
    }
    return count;
}
