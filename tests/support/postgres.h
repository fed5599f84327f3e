/*
 * postgres.h - what a test asks a PostgreSQL server directly.
 */
#ifndef HF_TESTS_SUPPORT_POSTGRES_H
#define HF_TESTS_SUPPORT_POSTGRES_H

/* How many processes have the namespace open and are alive; -1 if the server cannot tell. */
int postgres_alive(const char *url, const char *namespace_name);

/* A server notices the end of a process by its closed connection, a moment later than the parent
 * does. Waits until fewer than `before` are alive. */
void postgres_await_death(const char *url, const char *namespace_name, int before);

#endif
