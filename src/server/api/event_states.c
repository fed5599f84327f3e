/*
 * event_states.c - where an event is, as a part of the answer about it. See event_states.h.
 *
 * With thousands of subscriptions a reader wants to see those first of which there is something to
 * say. So with a maximum each state has a part of its own, which is filled up to the maximum and no
 * further, and the parts are put together in the order of their importance at the end.
 */
#include "server/api/event_states.h"

#include "base/banned.h"
#include "base/text/json_read.h"
#include "json/objects.h"

#define STATES_WORDS "all|for_it|none"
#define STATES_MAX_MAX 10000
#define PART_BYTES_MAX ((size_t)64 << 20)

static const hf_state importance[] = {
    HF_STATE_DEAD,    HF_STATE_RETRYING,  HF_STATE_PROCESSING, HF_STATE_HELD,
    HF_STATE_PENDING, HF_STATE_CANCELLED, HF_STATE_DONE,       HF_STATE_NOT_FOR_IT,
};
#define STATE_COUNT (sizeof importance / sizeof importance[0])

/* The states of one kind. */
struct part {
    struct buf text;
    struct json_out json;
    int64_t count;
};

struct parts {
    const struct states_wanted *wanted;
    struct json_out *json;
    struct part parts[STATE_COUNT]; /* by hf_state */
};

bool states_query(struct exchange *exchange, struct states_wanted *ret_wanted)
{
    *ret_wanted = (struct states_wanted){.which = STATES_ALL};
    return exchange_query_choice(exchange, "states", STATES_WORDS, &ret_wanted->which) &&
           exchange_query_number(exchange, "states_max", 1, STATES_MAX_MAX, &ret_wanted->max);
}

static int see_state(const hf_event_state *state, void *ctx)
{
    struct parts *parts = ctx;
    struct part *part = &parts->parts[state->state];
    int64_t max = parts->wanted->max;

    if (parts->wanted->which == STATES_FOR_IT && state->state == HF_STATE_NOT_FOR_IT) {
        return 0;
    }
    part->count++;
    if (max == 0 || part->count <= max) {
        struct json_out *json = max == 0 ? parts->json : &part->json;
        json_object_begin(json);
        show_event_state(json, state);
        json_object_end(json);
    }
    return 0;
}

/* Puts the parts together, up to the maximum. */
static hf_status join_parts(struct parts *parts)
{
    int64_t left = parts->wanted->max;
    hf_status status = HF_OK;

    for (size_t i = 0; i < STATE_COUNT && !status; i++) {
        struct part *part = &parts->parts[importance[i]];
        struct json_iter iter;
        struct text one;

        json_array_end(&part->json);
        status = buf_status(&part->text);
        if (!status && part->count > 0 && json_iter_init(&iter, buf_text(&part->text))) {
            while (left > 0 && json_iter_next(&iter, NULL, &one)) {
                json_raw(parts->json, one);
                left--;
            }
        }
    }
    return status;
}

static void show_counts(const struct parts *parts)
{
    json_key(parts->json, "state_counts");
    json_object_begin(parts->json);
    for (size_t i = 0; i < STATE_COUNT; i++) {
        show_int(parts->json, hf_state_name(importance[i]), parts->parts[importance[i]].count);
    }
    json_object_end(parts->json);
}

hf_status states_show(struct exchange *exchange, struct json_out *json, const char *id,
                      const struct states_wanted *wanted)
{
    struct parts parts = {.wanted = wanted, .json = json};
    hf_status status = HF_OK;

    for (size_t i = 0; i < STATE_COUNT; i++) {
        buf_init(&parts.parts[i].text, PART_BYTES_MAX);
        json_out_init(&parts.parts[i].json, &parts.parts[i].text);
        json_array_begin(&parts.parts[i].json);
    }
    json_key(json, "states");
    json_array_begin(json);
    if (wanted->which != STATES_NONE) {
        status = hf_event_states(exchange->bus, id, see_state, &parts);
    }
    if (!status && wanted->max > 0) {
        status = join_parts(&parts);
    }
    json_array_end(json);
    if (wanted->which != STATES_NONE) {
        show_counts(&parts);
    }
    for (size_t i = 0; i < STATE_COUNT; i++) {
        buf_release(&parts.parts[i].text);
    }
    return status;
}
