/*
 * batch.h - filling and reusing a struct batch (store.h).
 *
 * A batch owns an array of entries and the arena that their texts live in. Clearing keeps the
 * memory, so a consumer in steady state allocates nothing.
 */
#ifndef HF_STORE_COMMON_BATCH_H
#define HF_STORE_COMMON_BATCH_H

#include "store/store.h"

void batch_init(struct batch *batch);
void batch_clear(struct batch *batch);
void batch_release(struct batch *batch);

/* A new zeroed entry at the end, damaged until checksum_check; NULL without memory. */
struct entry *batch_push(struct batch *batch);
/* True if the batch holds STORE_BATCH_BYTES_MAX or more. */
bool batch_full(const struct batch *batch);
/* Sets the id of an entry, and its text. */
hf_status batch_identify(struct batch *batch, struct entry *entry, const uint8_t id[16]);
/* A copy of an entry of another batch at the end; NULL without memory. */
struct entry *batch_copy(struct batch *batch, const struct entry *entry);
/* A copy of an entry of another batch in the memory of this one, where it stays; it is not among
 * its entries. NULL without memory. */
const struct entry *batch_keep(struct batch *batch, const struct entry *entry);

#endif
