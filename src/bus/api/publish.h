/*
 * publish.h - publishing, whichever thread carries the events into the store.
 */
#ifndef HF_BUS_API_PUBLISH_H
#define HF_BUS_API_PUBLISH_H

#include "bus/bus.h"

/* Hands a checked append over and answers as struct append says. */
typedef hf_status (*carry_fn)(hf_bus *bus, void *ctx, struct append *append);

/* Writes what the store has answered for an event. */
void receipt_fill(const struct new_event *event, hf_receipt *ret_receipt);

/* Checks bus and events, lets them be carried and writes the receipts, which may be NULL; contracts
 * of hf_publish and hf_publish_many. */
hf_status publish_one(hf_bus *bus, const hf_new_event *event, carry_fn carrier, void *ctx,
                      hf_receipt *ret_receipt);
hf_status publish_many(hf_bus *bus, const hf_new_event *events, size_t count, carry_fn carrier,
                       void *ctx, hf_receipt *ret_receipts);

#endif
