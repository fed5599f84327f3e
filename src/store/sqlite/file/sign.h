/*
 * sign.h - a sign of life that no one can delete: a lock on the database's directory.
 *
 * A live file can be deleted under its store by a cleaner of temporary files; the directory that
 * holds an open database cannot. Each store keeps a shared lock on one byte of a range of its own,
 * which the token gives, and moves it by one with every sign of life. So the lock tells that the
 * process exists, and where it is tells the low bits of the store's counter.
 *
 * Every user who may read the directory can take such a lock, also one who may not write the
 * database. It is therefore asked only where the live file does not answer.
 */
#ifndef HF_STORE_SQLITE_FILE_SIGN_H
#define HF_STORE_SQLITE_FILE_SIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

#define SIGN_COUNTER_MASK UINT64_C(0xffff)

struct files;

/* Opens the directory and takes the first lock. -1: see errno. */
int sign_open(const struct files *files, const uint8_t token[STORE_TOKEN_BYTES], uint64_t counter);
/* Moves the lock from the count before to this one. */
void sign_move(int fd, const uint8_t token[STORE_TOKEN_BYTES], uint64_t counter);
/* Lets the lock go. */
void sign_drop(int fd, const uint8_t token[STORE_TOKEN_BYTES]);
/* Whether the store of this token holds its lock, asked through the `fd` of another store (-1: not
 * known, false), and its counter's low bits. */
bool sign_read(int fd, const uint8_t token[STORE_TOKEN_BYTES], uint64_t *ret_counter);

#endif
