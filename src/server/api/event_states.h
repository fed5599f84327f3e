/*
 * event_states.h - where an event is, as a part of the answer about it.
 */
#ifndef HF_SERVER_API_EVENT_STATES_H
#define HF_SERVER_API_EVENT_STATES_H

#include "server/http/exchange.h"

/* What a request says about them: "states" and "states_max". */
struct states_wanted {
    int which;   /* STATES_ALL ... */
    int64_t max; /* 0: all of them, by name; else the first so many of those that matter most */
};

/* In the order of their words. */
enum { STATES_ALL, STATES_FOR_IT, STATES_NONE };

/* False after a refusal. */
bool states_query(struct exchange *exchange, struct states_wanted *ret_wanted);

/* Adds "states" to the open object and, unless none are wanted, "state_counts". */
hf_status states_show(struct exchange *exchange, struct json_out *json, const char *id,
                      const struct states_wanted *wanted);

#endif
