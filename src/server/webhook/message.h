/*
 * message.h - one request of a webhook: the events as CloudEvents, and the headers.
 *
 *     one event, binary mode       its payload is the body, its attributes are headers ce-*
 *     one event, structured mode   application/cloudevents+json; also of an event whose attributes
 *                                  are more than receivers take as headers
 *     a batch                      application/cloudevents-batch+json
 *
 * Besides: webhook-id, which is the same in every attempt, so that a receiver can tell what it has
 * had already; webhook-timestamp; webhook-signature, if there are secrets; and the event's trace.
 * Nothing that an event holds can end a header or begin another.
 */
#ifndef HF_SERVER_WEBHOOK_MESSAGE_H
#define HF_SERVER_WEBHOOK_MESSAGE_H

#include "base/text/buf.h"
#include "server/webhook/secrets.h"

#define MESSAGE_HEADERS_MAX 64

struct message {
    struct text body;
    const char *headers[MESSAGE_HEADERS_MAX]; /* "name: value" */
    size_t header_count;
    struct buf lines; /* owns the headers */
    struct buf own;   /* owns the body, unless that is a payload */
};

/* `secrets` may be NULL. On failure there is nothing to release. */
hf_status message_init(struct message *message, const hf_event *const *events, size_t count,
                       bool batch, bool structured, struct secrets *secrets, int64_t now_us);
void message_release(struct message *message);

#endif
