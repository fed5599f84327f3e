/*
 * route.c - the route GET stream: from the request to a follower.
 */
#include "base/banned.h"
#include "base/text/glob.h"
#include "base/text/json_read.h"
#include "server/cloudevent/cloudevent.h"
#include "server/follow/follow.h"
#include "server/http/members.h"

#include <microhttpd.h>

void stream_show(struct exchange *exchange);

/* Takes the types and the keys. False after a refusal. */
static bool take_words(struct exchange *exchange, struct follow_wish *wish)
{
    if (!exchange_query_words(exchange, "type", wish->types, FOLLOW_WORDS_MAX, &wish->type_count) ||
        !exchange_query_words(exchange, "key", wish->keys, FOLLOW_WORDS_MAX, &wish->key_count)) {
        return false;
    }
    for (size_t i = 0; i < wish->type_count; i++) {
        if (glob_check_pattern(text_of(wish->types[i]))) {
            answer_failure(exchange, HF_INVALID);
            return false;
        }
    }
    return true;
}

/* Where it begins: behind the last event that the client has had, or where the query says. False
 * after a refusal. */
static bool find_place(struct exchange *exchange, int64_t *ret_after)
{
    const char *last = exchange_header(exchange, "Last-Event-ID");
    const char *from = exchange_query(exchange, "from");
    hf_place place = {HF_PLACE_NOW, -1};
    hf_status status;

    if (from && !place_parse(from, &place)) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter from takes start, now, a position, or a time such as "
                              "2026-01-31T12:00:00Z");
    }
    if (last && last[0]) {
        place.kind = HF_PLACE_POSITION;
        if (json_int_decode(text_of(last), &place.value) || place.value < 0) {
            return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                                  "the header Last-Event-ID takes a position: the id of an event "
                                  "of this stream");
        }
    }
    status = hf_locate(exchange->bus, place, ret_after);
    if (status) {
        answer_failure(exchange, status);
    }
    return status == HF_OK;
}

void stream_show(struct exchange *exchange)
{
    struct follow_wish wish = {.cloudevents = exchange_accepts(exchange, CLOUDEVENT_TYPE)};

    if (take_words(exchange, &wish) && find_place(exchange, &wish.after)) {
        followers_answer(followers_of(exchange), exchange, &wish);
    }
}
