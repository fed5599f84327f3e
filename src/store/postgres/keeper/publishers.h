/*
 * publishers.h - transactions that had published and not ended when the keeper looked.
 *
 * A publisher that is under way may commit what no consumer has been notified of, so consumers are
 * notified again until every publisher that was under way at some moment has ended. One that begins
 * later notifies in another way (see keeper.c). A transaction is known by its name in the server's
 * locks; when it is prepared it gets another one, that begins with '-'.
 *
 * No more than PUBLISHERS_MAX are remembered. If there were more (`cut`), the list proves nothing,
 * and the next look must note all of them again.
 */
#ifndef HF_STORE_POSTGRES_KEEPER_PUBLISHERS_H
#define HF_STORE_POSTGRES_KEEPER_PUBLISHERS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

#define PUBLISHERS_MAX 64
#define PUBLISHER_NAME_MAX 24

struct publishers {
    bool cut; /* there were more than fit */
    size_t count;
    char names[PUBLISHERS_MAX][PUBLISHER_NAME_MAX];
};

/* How many the column of the result's only row names. */
size_t publishers_in(const PGresult *result, int column);
/* Waits for those that the column names, and for no others. */
void publishers_note(struct publishers *publishers, const PGresult *result, int column);
/* Goes on waiting for those that the column still names. */
void publishers_keep(struct publishers *publishers, const PGresult *result, int column);
/* Does the column name a transaction that was prepared? */
bool publishers_prepared(const PGresult *result, int column);

#endif
