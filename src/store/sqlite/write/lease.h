/*
 * lease.h - a lease of a shared subscription: its row, and the list of positions in it.
 *
 * The list is sorted and without doubles. In the row it is a blob: the first position, then the
 * distance of each to the one before, as varints (7 bits a byte, lowest first, the high bit says
 * that more follow). A hundred neighbours take a hundred and some bytes, and settling a whole batch
 * writes one row whatever its size.
 */
#ifndef HF_STORE_SQLITE_WRITE_LEASE_H
#define HF_STORE_SQLITE_WRITE_LEASE_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/text/buf.h"
#include "store/store.h"

struct conn;
struct sqlite_engine;

#define LEASE_POSITIONS_MAX HF_CLAIM_MAX
#define LEASE_VARINT_BYTES_MAX 9 /* of a number below 2^63 */

/* Values of `piece`; above 0 it is the number of events in the next piece. */
#define LEASE_HELD (-1) /* a claim holds it */
#define LEASE_FREE 0    /* no claim holds it: the next one may take all of it, with other events */

struct lease {
    uint8_t token[STORE_TOKEN_BYTES];
    int64_t subscription_id;
    int64_t expires_at_us;
    int64_t lease_ms; /* as the claim asked for */
    bool owned;       /* `owner` is set */
    uint8_t owner[STORE_TOKEN_BYTES];
    char owner_name[HF_PRODUCER_BYTES_MAX + 1]; /* "": not known */
    int64_t claimed_at_us;                      /* -1: not known, or no claim holds it */
    bool bound;
    bool kept;
    int32_t piece;
    bool has_retries;
    int64_t *positions; /* owned; NULL if count is 0 */
    int32_t *times; /* owned: how often each of them was handed out, this lease included; -1: not
                           known. NULL: each once. Of those with a row in retries the row says it */
    size_t count;
};

/* ---- The list -------------------------------------------------------------------------------- */

/* Appends the list to `out`; the caller asks buf_status. */
void lease_encode(const int64_t *positions, size_t count, struct buf *out);
/* Exactly `count` positions, ascending and above 0, in exactly `length` bytes; else HF_CORRUPT. */
hf_status lease_decode(const void *bytes, size_t length, int64_t *ret_positions, size_t count);
/* Where the position is in the list; SIZE_MAX if it is not. */
size_t lease_find(const int64_t *positions, size_t count, int64_t position);

/* ---- The row --------------------------------------------------------------------------------- */

void lease_init(struct lease *lease);
void lease_release(struct lease *lease);

/* Whether it has ended: no claim holds it, its time is over, or its owner is dead. A reader looks
 * once, so an owner that is only frozen counts as alive. */
bool lease_is_over(struct sqlite_engine *engine, const struct lease *lease, int64_t now_us);

/* Reads a lease, into one that was initialised. HF_NOTFOUND, without a message. */
hf_status lease_load(struct conn *conn, const uint8_t token[STORE_TOKEN_BYTES],
                     struct lease *ret_lease);
/* Writes a new row. */
hf_status lease_store(struct conn *conn, const struct lease *lease);
/* Stores the changed list and expiry of an existing row; removes it if nothing is left. */
hf_status lease_update(struct conn *conn, const struct lease *lease);
hf_status lease_remove(struct conn *conn, const struct lease *lease);

/* How often the position at this place was handed out; -1: not known. */
int32_t lease_times(const struct lease *lease, size_t at);
/* Copies what is at `from` to `to`; who closes a gap so sets the count in the end. */
void lease_move(struct lease *lease, size_t to, size_t from);
/* Takes the position at this place out. */
void lease_cut(struct lease *lease, size_t at);

/* Frees the row: it gets a token that no process knows, and the next claims get what is left as
 * `piece` says. Removes it if nothing is left. */
hf_status lease_set_free(struct conn *conn, struct lease *lease, int32_t piece, int64_t now_us);

#endif
