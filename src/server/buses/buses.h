/*
 * buses.h - the buses of a server: one for each namespace that requests name.
 *
 * The bus of the server's own namespace is the caller's, which works for it: schedules fire, what
 * waits for later comes, retention runs, declared subscriptions have their handlers. Others are
 * opened when a request names them, and closed when there are too many and none of their requests
 * is under way.
 */
#ifndef HF_SERVER_BUSES_H
#define HF_SERVER_BUSES_H

#include <holdfast.h>
#include <stdbool.h>

struct buses;

/* `own` is the bus of the namespace of `options`; it outlives the buses. */
hf_status buses_open(const char *url, const hf_options *options, hf_bus *own,
                     struct buses **ret_buses);

/* The bus of a namespace, for one request; HF_NOTFOUND if there is no such namespace, HF_BUSY if
 * requests for too many others are under way. It stays open until buses_put. */
hf_status buses_get(struct buses *buses, const char *namespace_name, hf_bus **ret_bus);
void buses_put(struct buses *buses, hf_bus *bus);

/* Closes the bus of a namespace that is about to be removed, or when the last request that uses it
 * ends; the next request opens another one. False: it is the server's own. */
bool buses_let_go_of(struct buses *buses, const char *namespace_name);

/* The bus of the database as a whole (hf_options.no_namespace). */
hf_bus *buses_whole(struct buses *buses);
/* That of the server's own namespace, and its name. */
hf_bus *buses_own(struct buses *buses);
const char *buses_own_name(const struct buses *buses);

/* Closes all but `own`. No request is under way. NULL is allowed. */
void buses_close(struct buses *buses);

#endif
