/*
 * checksum.h - whether an event is what was published.
 *
 * A checksum is stored with every event, in the log and wherever else one is kept: copies, dead
 * letters, delayed events. It covers everything that is delivered, and the partition hash
 * (base/hash.h has the bytes; docs/adr/0022 the reasons). The content's part is computed when the
 * event is checked at publishing, the store adds position, time of entering and key version, and
 * every read of an event for a handler or a caller compares them. So does `verify`.
 */
#ifndef HF_STORE_COMMON_CHECKSUM_H
#define HF_STORE_COMMON_CHECKSUM_H

#include "store/event.h"

/* Sets hash and content. Everything that the publisher gives must be there already. */
void checksum_seal(struct new_event *event);
/* The same for many, in half of the time. */
void checksum_seal_all(struct new_event *events, size_t count);

/* What is stored with the event at this position; position and entered_at_us are 0 for one that is
 * not in the log yet. */
int64_t checksum_of_new(const struct new_event *event, int64_t position, int64_t entered_at_us);

/* What should be stored with an event that was read. */
int64_t checksum_of_event(const hf_event *event, const uint8_t id[16], int64_t hash);

/* Sets `lane` and `damaged` of the entries from `first` on. Everything else must be there already.
 * Until then they are damaged, so that nothing that was not checked can be handed out. */
void checksum_check(struct batch *batch, size_t first);

#endif
