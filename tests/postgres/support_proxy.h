/*
 * support_proxy.h - a network that fails on command.
 *
 * A proxy stands between the store and the server, on a loopback port of its own. It passes on
 * whole messages of the protocol, counts them, and at the message that it was told does what
 * networks do:
 *
 *     CUT     both sides see the end of the connection
 *     RESET   the client gets a reset
 *     HALF    only the side that the message would have gone to sees the end
 *     STALL   nothing passes any more, and neither side is told
 *
 * The message itself is passed on first (`after`) or never. What the server had got by then it
 * works on to the end, as it would: proxy_calm waits for that. What a stalled connection had been
 * given comes late, when proxy_calm lets it through, after the client has given up.
 *
 * Keepers' connections (those that LISTEN) are not counted, because they come when they like.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_PROXY_H
#define HF_TESTS_POSTGRES_SUPPORT_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proxy_action { PROXY_CUT, PROXY_RESET, PROXY_HALF, PROXY_STALL, PROXY_ACTIONS };
enum proxy_side { PROXY_CLIENT, PROXY_SERVER }; /* who sends the message */

struct proxy_fault {
    enum proxy_action action;
    enum proxy_side side;
    int64_t nth; /* from 1, since it was armed */
    bool after;
    bool all; /* STALL: every connection from then on, also new ones */
};

struct proxy;

/* In front of the server whose socket is in this directory. */
struct proxy *proxy_start(const char *server_dir);
void proxy_stop(struct proxy *proxy);
/* The URL of the same database behind the proxy. */
void proxy_url(const struct proxy *proxy, const char *url, char *out, size_t out_bytes);

/* One fault; the count begins anew. */
void proxy_arm(struct proxy *proxy, struct proxy_fault fault);
/* Whether the fault has happened. */
bool proxy_struck(struct proxy *proxy);
/* No fault any more; connections that a fault has met are over, also for the server. */
void proxy_calm(struct proxy *proxy);
/* From now on every connection is told that the server has this version; NULL: its own. The text
 * must live on. */
void proxy_pretend(struct proxy *proxy, const char *server_version);
/* Ends all connections; whether new ones are let in. */
void proxy_shut(struct proxy *proxy, bool open);
/* How many connections were made so far. */
int64_t proxy_connections(struct proxy *proxy);

#endif
