/*
 * buses.h - the buses of a server: one for each namespace that requests name.
 *
 * The server's own namespace is opened at the start and worked for: schedules fire, what waits for
 * later comes, retention runs. Others are opened when a request names them, and closed when there
 * are too many and none of their requests is under way.
 */
#ifndef HF_SERVER_BUSES_H
#define HF_SERVER_BUSES_H

#include <holdfast.h>

struct buses;

/* Opens the namespace of `options` (made if it is missing) and starts it. */
hf_status buses_open(const char *url, const hf_options *options, struct buses **ret_buses);

/* The bus of a namespace, for one request; HF_NOTFOUND if there is no such namespace, HF_BUSY if
 * requests for too many others are under way. It stays open until buses_put. */
hf_status buses_get(struct buses *buses, const char *namespace_name, hf_bus **ret_bus);
void buses_put(struct buses *buses, hf_bus *bus);

/* The bus of the database as a whole (hf_options.no_namespace). */
hf_bus *buses_whole(struct buses *buses);
/* That of the server's own namespace, and its name. */
hf_bus *buses_own(struct buses *buses);
const char *buses_own_name(const struct buses *buses);

/* Stops and closes all. No request is under way. NULL is allowed. */
void buses_close(struct buses *buses);

#endif
