/*
 * subscription.h - a subscription that this process has handlers for.
 *
 * It knows the durable subscription's id and the handlers; its runner keeps it moving while the bus
 * is started. The durable part (patterns, options, progress) is the store's; a runner reads it
 * again whenever its generation has changed.
 */
#ifndef HF_BUS_SUBSCRIPTION_H
#define HF_BUS_SUBSCRIPTION_H

#include "bus/bus.h"
#include "bus/stop_deadlines.h"
#include "store/common/batch.h"

struct runner;

/* A stored subscription with everything parsed: what the API and the runners work with. */
struct definition {
    struct arena arena; /* the texts below */
    int64_t id;
    int64_t generation;
    struct text name;
    struct text patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    hf_subscription_options options;
    int32_t wanted; /* another number of partitions is requested; 0: none is */
    int64_t created_at_us;
    int64_t start;
    int64_t paused_at_us;    /* -1: not paused */
    int64_t dropped_through; /* what retention took: hf_subscription_info */
    int64_t dropped;
    struct text paused_by;
    struct text paused_reason;
    struct text breaker_json;
};

void definition_init(struct definition *definition);
void definition_release(struct definition *definition);
/* Reads one into `definition` (initialised; what was in it is replaced only on success). The
 * message for HF_NOTFOUND names the subscription. */
hf_status definition_parse(const struct subscription_row *row, struct definition *definition);
hf_status definition_load(hf_bus *bus, const char *name, struct definition *definition);
hf_status definition_load_id(hf_bus *bus, int64_t id, struct definition *definition);
struct filter definition_filter(const struct definition *definition);

/* Starts the runners of all subscriptions; asks them to stop, and waits until they have (see
 * hf_stop). bus->mutex is not held. */
hf_status subscriptions_start(hf_bus *bus);
void subscriptions_stop_begin(hf_bus *bus, struct deadline deadline);
hf_status subscriptions_stop_end(hf_bus *bus, const struct stop_deadlines *stop_deadlines);
/* Leaves the store (store_leave) if the bus is being shut down, and either the time of the handlers
 * is over, or none runs and nothing is to be stored of what ran: from then on the stop does not
 * wait for a database that does not answer. bus->life is held. */
void subscriptions_leave(hf_bus *bus, const struct stop_deadlines *stop_deadlines);
/* Takes out of the list what has neither handlers nor a thread. bus->life is held. */
void subscriptions_reap(hf_bus *bus);
/* The same if an hf_unsubscribe has set bus->reap_due; bus->life is not held. hf_unsubscribe cannot
 * wait for bus->life, because a stop that holds it may wait for the handler that unsubscribes. So
 * every thread calls this after it has let bus->life go: one that held it when the hf_unsubscribe
 * tried to take it sees the flag here. */
void subscriptions_reap_if_due(hf_bus *bus);
/* Before a start: waits for those that the last stop did not wait for. HF_TIMEOUT: one still waits
 * for the store. */
hf_status subscriptions_join(hf_bus *bus, struct deadline deadline);
/* What becomes of a runner that retires. */
enum retired {
    RETIRED_GONE,   /* its entry has left the list: the thread ends, and no one waits for it */
    RETIRED_HALTED, /* a stop waits for the thread: it ends */
    RETIRED_WANTED, /* there are handlers again: it goes on working */
    RETIRED_NOT_YET /* a handler still runs, or something could not be given back */
};
/* By the dispatcher, when it has given back what it had. No lock is held. */
enum retired subscription_retired(struct runner *runner);

/* Frees what has been stopped; called when no thread uses the bus any more. */
void subscriptions_free(hf_bus *bus);
/* What there is news of. */
enum news {
    NEWS_NONE,   /* nothing: time has passed. Of many runners each looks by its own clock */
    NEWS_EVENTS, /* new events in the log */
    NEWS_OTHER,  /* anything */
};
/* Something may have happened: all runners look again. */
void subscriptions_nudge(hf_bus *bus, enum news news);

#endif
