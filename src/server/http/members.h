/*
 * members.h - the members of a JSON object that a request has sent, taken by name.
 *
 *     struct members members;
 *     members_begin(&members, exchange);
 *     reason = members_text(&members, "reason");
 *     if (!members_end(&members)) {
 *         return; // the request was refused
 *     }
 *
 * Taking never has to be checked: the first mistake is remembered, and members_end refuses the
 * request with it. A member that was not taken by then is a mistake, too. null is absent.
 */
#ifndef HF_SERVER_HTTP_MEMBERS_H
#define HF_SERVER_HTTP_MEMBERS_H

#include "server/http/exchange.h"

#define MEMBERS_MAX 64

struct members {
    struct exchange *exchange;
    struct text object;
    const char *names[MEMBERS_MAX]; /* that were asked for */
    size_t name_count;
    char mistake[256]; /* "": none so far */
};

/* Those of the body. */
void members_begin(struct members *members, struct exchange *exchange);
/* Those of an object within it. */
void members_begin_object(struct members *members, struct exchange *exchange, struct text object);

/* A string; NULL if absent. It lives as long as the exchange. */
const char *members_text(struct members *members, const char *name);
/* A raw string that is a part of the member `name`, decoded; NULL after a mistake. */
const char *members_string(struct members *members, const char *name, struct text raw);
/* The raw value; absent if it is. */
struct text members_raw(struct members *members, const char *name);
/* A whole number from min to max; `absent` if there is none. */
int64_t members_number(struct members *members, const char *name, int64_t min, int64_t max,
                       int64_t absent);
double members_decimal(struct members *members, const char *name, double absent);
bool members_flag(struct members *members, const char *name, bool absent);
/* RFC 3339, in us; -1 if absent. */
int64_t members_time(struct members *members, const char *name);
/* "30s", "5m", "1h30m", in ms; -1 if absent. */
int64_t members_duration(struct members *members, const char *name);
/* One of the words of "ordered|shared", by its number from 1; 0 if absent. */
int members_choice(struct members *members, const char *name, const char *choices);

/* Remembers a mistake of the caller's own finding. */
void members_mistake(struct members *members, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* False after a refusal. */
bool members_end(struct members *members);

/* A place in the log from a text: start, now, a position, or a time. False: it is none. */
bool place_parse(const char *text, hf_place *ret_place);

#endif
