/*
 * known.h - definitions of shared subscriptions that were claimed from, by name.
 *
 *     struct known *known;
 *     bool remembered;
 *     hf_status status = known_take(bus, name, &known, &remembered);
 *     if (status == HF_OK) {
 *         ... known->definition ...        (nobody changes it)
 *         known_give(known);
 *     }
 *
 * What is remembered may have been changed or removed since. Whoever uses it names its id and
 * generation to the store, which refuses what is out of date; then known_forget, and ask again.
 */
#ifndef HF_BUS_API_KNOWN_H
#define HF_BUS_API_KNOWN_H

#include "bus/subscription.h"

struct known {
    atomic_int references;
    struct definition definition;
};

/* Of a bus, when it is opened and when nobody uses it any more. */
hf_status memory_new(struct memory **ret_memory);
void memory_free(struct memory *memory);
/* The definition of that name, for the caller to give back. *ret_remembered: it was not read now.
 * HF_NOTFOUND names the subscription. */
hf_status known_take(hf_bus *bus, const char *name, struct known **ret_known, bool *ret_remembered);
void known_give(struct known *known);
/* True, with its id, if it is remembered. */
bool known_id(hf_bus *bus, const char *name, int64_t *ret_id);
/* The store said that it is out of date. */
void known_forget(hf_bus *bus, const char *name);

#endif
