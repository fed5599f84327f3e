/*
 * library.h - what measurements of the library share: events of one call, a backlog, a handler that
 * counts.
 */
#ifndef HF_BENCH_LIBRARY_H
#define HF_BENCH_LIBRARY_H

#include "peer.h"

#include <stdatomic.h>

#define SUBSCRIPTION "bench"
#define FILL_BATCH 1000

/* Events of one call, with what they point at. */
struct sheaf {
    hf_new_event *events;
    char (*payloads)[PAYLOAD_BYTES + 1];
    char (*keys)[24];
    char (*names)[37]; /* ids */
    int count;
    int ids;
};

/* `ids`: the version of UUIDs that are given, 4 or 7; 0: the library makes them. */
void sheaf_make(struct sheaf *sheaf, int count, int ids);
void sheaf_free(struct sheaf *sheaf);
/* Publishes all of it, with numbers from here on. Of several keys each comes in turn. */
void sheaf_publish(struct sheaf *sheaf, hf_bus *bus, int64_t number, int64_t keys);

/* Publishes so many events, rounded up to a thousand. */
void library_fill(const char *url, long long events, int64_t keys);
/* A handler; ctx is an atomic_llong. */
hf_verdict count_event(const hf_event *event, hf_delivery *delivery, void *ctx);
/* Starts the bus, and waits until all is settled. */
void library_settle(const struct task *task, hf_bus *bus, atomic_llong *handled,
                    struct result *ret_result);

/* What makes a database large (growth.c). */
void grow_events(const struct task *task);
void grow_namespaces(const struct task *task);
void grow_letters(const struct task *task);
void grow_retries(const struct task *task);
/* A backlog of new events at the end of a log that may be long. */
void library_tail(const struct task *task, bool shared, struct result *ret_result);
/* Events at a rate, which an ordered and a shared subscription follow. */
void library_steady(const struct task *task, struct result *ret_result);

#endif
