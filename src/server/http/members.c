/*
 * members.c - see members.h.
 */
#include "server/http/members.h"

#include "base/banned.h"
#include "base/text/json_read.h"
#include "base/text/suggest.h"
#include "base/time/time.h"
#include "server/http/router.h"
#include "server/http/words.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdarg.h>

#define STRING_BYTES_MAX 1048576

void members_begin_object(struct members *members, struct exchange *exchange, struct text object)
{
    *members = (struct members){.exchange = exchange, .object = object};
}

void members_begin(struct members *members, struct exchange *exchange)
{
    struct text object = TEXT_ABSENT;

    exchange_object(exchange, &object); /* a refusal is seen at the end */
    members_begin_object(members, exchange, object);
}

void members_mistake(struct members *members, const char *format, ...)
{
    va_list args;

    if (members->mistake[0]) {
        return;
    }
    va_start(args, format);
    vsnprintf(members->mistake, sizeof members->mistake, format, args);
    va_end(args);
}

/* The list of the route has the name, or the options of a subscription. */
static void note_asked(struct exchange *exchange, const char *name)
{
    const struct route *route = exchange->route;
    int number = route ? words_find(route->body, name) : -1;

    assert(!route || number >= 0 || words_find(route->body, "*") >= 0);
    exchange->asked_body |= number >= 0 ? UINT32_C(1) << number : 0;
}

struct text members_raw(struct members *members, const char *name)
{
    struct text raw = TEXT_ABSENT;

    note_asked(members->exchange, name);
    members->names[members->name_count++] = name;
    if (!members->object.bytes || !json_find(members->object, name, &raw) ||
        json_kind(raw) == JSON_NULL) {
        return TEXT_ABSENT;
    }
    return raw;
}

const char *members_string(struct members *members, const char *name, struct text raw)
{
    struct buf word;
    const char *string = NULL;

    buf_init(&word, STRING_BYTES_MAX);
    if (json_string_decode(raw, &word)) {
        members_mistake(members, "\"%s\" takes a string", name);
    } else {
        string = arena_text(&members->exchange->memory, buf_text(&word)).bytes;
    }
    buf_release(&word);
    return string;
}

const char *members_text(struct members *members, const char *name)
{
    struct text raw = members_raw(members, name);

    return raw.bytes ? members_string(members, name, raw) : NULL;
}

int64_t members_number(struct members *members, const char *name, int64_t min, int64_t max,
                       int64_t absent)
{
    struct text raw = members_raw(members, name);
    int64_t number = absent;

    if (raw.bytes && (json_int_decode(raw, &number) || number < min || number > max)) {
        members_mistake(members, "\"%s\" takes a whole number from %" PRId64 " to %" PRId64, name,
                        min, max);
    }
    return number;
}

double members_decimal(struct members *members, const char *name, double absent)
{
    struct text raw = members_raw(members, name);
    double number = absent;

    if (raw.bytes && json_double_decode(raw, &number)) {
        members_mistake(members, "\"%s\" takes a number", name);
    }
    return number;
}

bool members_flag(struct members *members, const char *name, bool absent)
{
    struct text raw = members_raw(members, name);

    if (!raw.bytes) {
        return absent;
    }
    if (json_kind(raw) != JSON_BOOL) {
        members_mistake(members, "\"%s\" takes true or false", name);
    }
    return raw.bytes[0] == 't';
}

int64_t members_time(struct members *members, const char *name)
{
    const char *text = members_text(members, name);
    int64_t us = -1;

    if (text && time_parse(text_of(text), &us)) {
        members_mistake(members, "\"%s\" takes a time such as 2026-01-31T12:00:00Z", name);
    }
    return us;
}

int64_t members_duration(struct members *members, const char *name)
{
    const char *text = members_text(members, name);
    int64_t ms = -1;

    if (text && duration_parse(text_of(text), &ms)) {
        members_mistake(members, "\"%s\" takes a time such as 30s, 5m or 1h30m", name);
    }
    return ms;
}

int members_choice(struct members *members, const char *name, const char *choices)
{
    const char *text = members_text(members, name);
    const char *at = choices;

    for (int number = 1; text && *at; number++) {
        struct text word = {at, strcspn(at, "|")};
        if (text_equal(word, text_of(text))) {
            return number;
        }
        at += word.length + (at[word.length] == '|');
    }
    if (text) {
        members_mistake(members, "\"%s\" takes one of %s", name, choices);
    }
    return 0;
}

bool place_parse(const char *text, hf_place *ret_place)
{
    hf_place place = {HF_PLACE_NONE, -1};

    if (strcmp(text, "start") == 0) {
        place.kind = HF_PLACE_START;
    } else if (strcmp(text, "now") == 0) {
        place.kind = HF_PLACE_NOW;
    } else if (time_parse(text_of(text), &place.value) == HF_OK) {
        place.kind = HF_PLACE_TIME;
    } else if (json_int_decode(text_of(text), &place.value) == HF_OK && place.value >= 0) {
        place.kind = HF_PLACE_POSITION;
    } else {
        return false;
    }
    *ret_place = place;
    return true;
}

/* A member that no route has asked for is likely to be another's name, misspelled. One that is
 * there twice is read in one way here, and may be in another elsewhere. */
static void look_for_strangers(struct members *members)
{
    struct json_iter iter;
    uint64_t seen = 0; /* of the names: a bit each */
    struct text key;
    struct text raw;

    json_iter_init(&iter, members->object);
    while (!members->mistake[0] && json_iter_next(&iter, &key, &raw)) {
        struct suggest suggest;
        bool known = false;
        const char *name = members_string(members, "a member's name", key);
        suggest_init(&suggest, name ? name : "");
        for (size_t i = 0; name && i < members->name_count && !known; i++) {
            known = strcmp(members->names[i], name) == 0;
            suggest_offer(&suggest, members->names[i]);
            if (known && seen & UINT64_C(1) << i) {
                members_mistake(members, "\"%s\" is there twice", name);
            }
            seen |= known ? UINT64_C(1) << i : 0;
        }
        if (name && !known) {
            members_mistake(members,
                            suggest.best ? "there is no \"%.64s\"; did you mean \"%s\"?"
                                         : "there is no \"%.64s\" here",
                            name, suggest.best);
        }
    }
}

bool members_end(struct members *members)
{
    char mistake[sizeof members->mistake];

    if (!members->object.bytes) {
        return false; /* refused when it was read */
    }
    snprintf(mistake, sizeof mistake, "%s", members->mistake);
    members->mistake[0] = '\0'; /* a name that is misspelled is also missing: that is said first */
    look_for_strangers(members);
    if (!members->mistake[0]) {
        snprintf(members->mistake, sizeof members->mistake, "%s", mistake);
    }
    if (members->mistake[0]) {
        return answer_problem(members->exchange, MHD_HTTP_BAD_REQUEST, "%s", members->mistake);
    }
    return true;
}
