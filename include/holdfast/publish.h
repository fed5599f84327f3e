/*
 * holdfast/publish.h - publishing, waiting for the disk or not.
 */
#ifndef HOLDFAST_PUBLISH_H
#define HOLDFAST_PUBLISH_H

#include <holdfast/bus.h>
#include <holdfast/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Publishes one event and returns when it is durable. Publishing an id again stores nothing and
 * answers the first position. Threads that publish at the same time share one commit.
 *
  * HF_INVALID: type, payload, key ... outside its limits; the message names the field and the
  * limit. HF_CONFLICT: expected_version is not the key's version; the message says which it is.
  * HF_NOSPACE, HF_TIMEOUT, HF_BUSY: nothing was stored. HF_UNKNOWN: it may have been; publish again
  * with the same id, or look it up: the receipt has the id (position and key_version are -1), also
  * if none was given, and the message names it. HF_CLOSED after shutdown. Inside a transactional
  * handler the event joins the handler's transaction: it exists if and only if that commits. */
HF_API hf_status hf_publish(hf_bus *bus, const hf_new_event *event, hf_receipt *ret_receipt);

/* Publishes `count` events in order in one transaction: all or none. ret_receipts is NULL or an
 * array of `count`. On failure the message names the index of the offending event. With HF_UNKNOWN
 * the receipts have the ids that were tried, as of hf_publish. */
HF_API hf_status hf_publish_many(hf_bus *bus, const hf_new_event *events, size_t count,
                                 hf_receipt *ret_receipts);

/* Runs once, on a thread of the bus, when an asynchronous publish is answered. `message` explains
  * a failure, else "". The receipt has the id in any case; position and key_version are -1 on
  * failure. It may publish asynchronously again but must not call hf_stop, hf_shutdown, hf_flush or
  * hf_close. */
typedef void (*hf_published_fn)(hf_status status, const hf_receipt *receipt, const char *message,
                                void *ctx);

/* Copies the event, queues it and returns; `done` is called when it is durable or has failed.
 * Events of one thread enter the log in the order of its calls. A full queue makes the call wait
 * up to timeout_ms, then HF_BUSY. If the call fails, `done` never runs. It never joins a
 * transaction, also not from inside a transactional handler. */
HF_API hf_status hf_publish_async(hf_bus *bus, const hf_new_event *event, hf_published_fn done,
                                  void *ctx);

/* Waits until everything that was published asynchronously before has been answered (timeout_ms -1:
 * as long as it takes). HF_TIMEOUT; HF_MISUSE from inside a completion callback. */
HF_API hf_status hf_flush(hf_bus *bus, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_PUBLISH_H */
