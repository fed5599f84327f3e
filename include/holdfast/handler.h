/*
 * holdfast/handler.h - handlers: what delivers events to code of this process.
 */
#ifndef HOLDFAST_HANDLER_H
#define HOLDFAST_HANDLER_H

#include <holdfast/event.h>
#include <holdfast/postgres.h>
#include <holdfast/sqlite.h>
#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hf_verdict {
    HF_ACK = 0,             /* done */
    HF_RETRY = 1,           /* failed: try again by the retry policy, then dead letter */
    HF_RETRY_UNCOUNTED = 2, /* not the event's fault (lock, shutdown): try again; at most 100 */
    HF_DEAD = 3,            /* will never work: dead letter now, reason "rejected" */
    HF_UNDECODABLE = 4      /* the payload cannot be understood: dead letter now, reason "decode" */
} hf_verdict;

/* One attempt at one event, as the handler sees it. */
typedef struct hf_delivery hf_delivery;

/* Handles one event. Runs on a thread of the bus. `event` and `delivery` are valid until it
 * returns. If several handlers of a subscription match, they run in the order of registration and
 * fail as one: the first that does not answer HF_ACK decides. Past handler_timeout_ms the attempt
 * counts as failed and whatever the handler answers later is refused. A transactional handler has
 * at most tx_max_ms: then its transaction is rolled back under its feet, other writers of the
 * database go on, and every statement and hf_publish inside fails from then on. (On SQLite a
 * statement that runs at that moment is stopped first; an SQL function of the application that does
 * not return keeps other writers waiting until it does.) */
typedef hf_verdict (*hf_handler_fn)(const hf_event *event, hf_delivery *delivery, void *ctx);

HF_API const char *hf_delivery_subscription(const hf_delivery *delivery);
/* 1 for the first attempt. */
HF_API int32_t hf_delivery_attempt(const hf_delivery *delivery);
HF_API int32_t hf_delivery_attempts_max(const hf_delivery *delivery);
HF_API hf_bus *hf_delivery_bus(const hf_delivery *delivery);
/* 1 once the attempt has timed out or the bus is stopping: a long handler should return. */
HF_API int hf_delivery_cancelled(const hf_delivery *delivery);
/* The connection of the transaction that the handler runs in; NULL unless the subscription is
 * transactional and the bus is on SQLite. Valid during the call. COMMIT, ROLLBACK, ATTACH and
 * PRAGMA are refused on it, and everything past tx_max_ms; finalize your statements before
 * returning. */
HF_API struct sqlite3 *hf_delivery_sqlite(const hf_delivery *delivery);
/*
 * The same on PostgreSQL (NULL elsewhere): READ COMMITTED, blocking, UTF8. A handler that ends the
 * transaction, or leaves it with a failed statement (use savepoints), an unread result, a COPY or
 * pipeline mode, and answers HF_ACK, has failed. Use SET LOCAL, neither LISTEN nor PREPARE: the
 * connection goes on to other deliveries. If the transaction failed by something that passes
 * (SQLSTATE 40xxx, 55P03, 57P0x, 08xxx, a lost connection), HF_RETRY and HF_ACK do not count.
 */
HF_API struct pg_conn *hf_delivery_postgres(const hf_delivery *delivery);
/* Says why the attempt failed; kept with the attempt (up to 2048 bytes), shown in dead letters. */
HF_API void hf_delivery_error(hf_delivery *delivery, const char *format, ...) HF_PRINTF(2, 3);
/* If this attempt fails and there is another one, that begins after at least this time: what the
 * handler depends on has said when to come again. The wait of the retry policy counts where it is
 * longer; retry_max_ms does not limit this one, 366 days do. The last call of an attempt counts. */
HF_API void hf_delivery_retry_in(hf_delivery *delivery, int64_t delay_ms);

typedef int64_t hf_handler_id;

/* Registers a handler for a pattern of a subscription ("user.created", "user.*", "order.*.shipped",
 * "order.**", "*"). A missing subscription is created with this pattern (options->from is then
 * required); an existing one gets the pattern added if it has none that covers it, and the given
 * options replace the stored ones. On a started bus delivery begins at once.
 *
 * A process works for a subscription only while its handlers cover all stored patterns, so an old
 * program cannot skip what a newer one has subscribed to. */
HF_API hf_status hf_subscribe(hf_bus *bus, const char *name, const char *pattern,
                              hf_handler_fn handler, void *ctx,
                              const hf_subscription_options *options, hf_handler_id *ret_id);

/* Handles several events, in the order of the log, as one: the verdict is that of them all. They
 * fail, wait and come again together, and with `transactional` what the handler writes and the
 * settling of all of them are one transaction. See docs/delivery.md, "Batches". */
typedef hf_verdict (*hf_batch_handler_fn)(const hf_event *const *events, size_t count,
                                          hf_delivery *delivery, void *ctx);

/* As hf_subscribe. HF_MISUSE: with this bus the subscription has the other kind of handlers. If it
 * had them until now, both calls wait until those have ended; HF_BUSY: after timeout_ms they have
 * not, or the call comes from inside a handler. */
HF_API hf_status hf_subscribe_batch(hf_bus *bus, const char *name, const char *pattern,
                                    hf_batch_handler_fn handler, void *ctx,
                                    const hf_subscription_options *options, hf_handler_id *ret_id);

/* Unregisters a handler and waits until it does not run any more (from inside a handler it does not
 * wait). HF_TIMEOUT: it is unregistered, but still runs after timeout_ms. The durable subscription
 * stays. When its last handler is gone, what this process has of it goes, too: progress is stored,
 * partitions and leases are given back, threads, connections and memory are freed, usually within
 * a second. hf_stop and hf_close wait for it. HF_NOTFOUND. */
HF_API hf_status hf_unsubscribe(hf_bus *bus, hf_handler_id id);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_HANDLER_H */
