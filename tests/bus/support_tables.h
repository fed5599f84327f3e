/*
 * support_tables.h - the application's own tables, beside the bus's in the database of a scene, on
 * either engine.
 */
#ifndef TESTS_BUS_SUPPORT_TABLES_H
#define TESTS_BUS_SUPPORT_TABLES_H

#include "support_scene.h"

/* Runs statements on a connection of its own; expects that they work. */
void tables_run(struct scene *scene, const char *sql);
/* The first column of the first row, a number; -1 if there is none. */
int64_t tables_number(struct scene *scene, const char *sql);
/* How many events are in the log. */
int64_t tables_events(struct scene *scene);

/* Runs statements on the connection that a transactional handler was handed; false if one failed,
 * or if there is no connection. */
bool delivery_run(hf_delivery *delivery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether there is one. */
bool delivery_has_connection(hf_delivery *delivery);

#endif
