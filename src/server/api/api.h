/*
 * api.h - what the files of the API share: the routes, and lists as JSON.
 */
#ifndef HF_SERVER_API_API_H
#define HF_SERVER_API_API_H

#include "server/http/exchange.h"
#include "server/http/members.h"
#include "server/http/router.h"
#include "json/objects.h"

#define ROUTE(method, template_text, scope, role, function, query, body, answers, summary)         \
    void function(struct exchange *exchange);
#include "server/api/routes.def"
#undef ROUTE

#define LIST_LIMIT 100 /* of a list, if none is given */
#define LIST_LIMIT_MAX 1000
#define LIST_BYTES_MAX 8388608 /* a page that has more ends early */

/*
 * A list: {"items": [...], "next": "..."}. `next` is what the parameter `after` takes to go on
 * behind the last item; it is null at the end.
 */
struct list {
    struct exchange *exchange;
    struct json_out json;
    int64_t limit; /* of items; asked for in the query */
    int64_t count;
    bool ended; /* the items */
};

/* Takes `limit` from the query. False after a refusal. */
bool list_begin(struct list *list, struct exchange *exchange);
/* An item: the caller writes its fields between the two. */
struct json_out *list_item(struct list *list);
void list_item_end(struct list *list);
/* Ends the items: members of the answer that follow them, before `next`. May be left out. */
struct json_out *list_rest(struct list *list);
/* Whether the page ends here: it has as many items as were asked for, or very many bytes. */
bool list_is_full(const struct list *list);
/* There is more behind `next` (NULL: that is all). A failure takes the place of the answer. */
void list_end(struct list *list, hf_status status, const char *next);

/* {"name": value} of a call that changes something, or its failure. */
void answer_done(struct exchange *exchange, hf_status status);
void answer_count(struct exchange *exchange, hf_status status, const char *name, int64_t count);

/* A place in the log: {"from": "start"}, "now", a position, or a time. HF_PLACE_NONE if absent. */
hf_place members_place(struct members *members, const char *name);

#endif
