/*
 * router.h - which route a request is for.
 *
 * The routes are listed in api/routes.def. A template is what follows "/v1/"; a part in braces
 * stands for one part of the path, percent-decoded. "/v1/namespaces/NAME/..." is "/v1/..." in the
 * namespace NAME, so that a template never names one.
 */
#ifndef HF_SERVER_HTTP_ROUTER_H
#define HF_SERVER_HTTP_ROUTER_H

#include "server/http/exchange.h"

typedef void (*route_fn)(struct exchange *exchange);

/* What exchange->bus is while the route runs: the bus of the namespace that the path names, or that
 * of the database as a whole. */
enum scope { SCOPE_NAMESPACE, SCOPE_DATABASE };

struct route {
    const char *method;
    const char *template_text; /* "subscriptions/{name}/pause" */
    enum scope scope;
    enum role role; /* that the caller must have in the namespace, or in all */
    route_fn run;
    const char *name;    /* of the function: the operation's id in the OpenAPI document */
    const char *query;   /* names of the parameters that it takes, as routes.def has them */
    const char *body;    /* names of the members of its body, likewise */
    const char *answers; /* what it answers, in words of words.h */
    const char *summary;
};

extern const struct route routes[];
extern const size_t route_count;

/* Asserts that a route that has answered without a failure has read all that its row lists. */
void router_check_asked(const struct exchange *exchange);

/* Finds the route of exchange->method and exchange->path, and fills in route, params and
 * namespace_name. False after a refusal: 404, 405 with the methods that the path takes, or 400 for
 * a parameter that the route does not take. */
bool router_find(struct exchange *exchange);

/* Whether the parameters of the request are among those of a list (words.h), and are texts. False
 * after a refusal. */
bool router_check_query(struct exchange *exchange, const char *query);

/* Of the route that publishes (api/events.c): publishes a single event of the API's own kind, if
 * the request is that, and returns: the answer comes on a thread of the bus, which then calls
 * exchange->answered. That may have happened when this returns. False: it is another request, and
 * nothing was done. */
bool events_publish_at_once(struct exchange *exchange);

#endif
