/*
 * reload.h - SIGHUP: carries out the configuration file as it is now, while the server works, and
 * gives new connections the certificate and key that are in their files now.
 *
 * Each of the two is taken as a whole or not at all, whatever becomes of the other.
 *
 * It is done by a thread, because it may wait for the database and for handlers that have to end,
 * and the main thread answers the watchdog meanwhile.
 */
#ifndef HF_SERVER_RELOAD_H
#define HF_SERVER_RELOAD_H

#include "server/server.h"
#include "server/settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct reload {
    struct work *work;
    struct server *server; /* NULL until it has started */
    const struct server_settings *settings;
    pthread_t thread;
    bool runs;
    bool again; /* the file has changed once more meanwhile */
    atomic_bool ended;
};

/* Whether there is a configuration file to read again. */
bool reload_has_file(const struct reload *reload);
/* Begins, or begins again when the one that runs has ended. */
void reload_request(struct reload *reload);
/* Now and then, by the main thread: goes on to the next one. */
void reload_look(struct reload *reload);
/* Waits for its end. */
void reload_finish(struct reload *reload);

#endif
