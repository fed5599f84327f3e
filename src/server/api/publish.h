/*
 * publish.h - in which way a request publishes.
 */
#ifndef HF_SERVER_API_PUBLISH_H
#define HF_SERVER_API_PUBLISH_H

#include "server/cloudevent/cloudevent.h"
#include "server/http/exchange.h"

enum mode {
    MODE_NATIVE,     /* an event as the API has it, or an array of them */
    MODE_STRUCTURED, /* a CloudEvent */
    MODE_BATCH,      /* an array of CloudEvents */
    MODE_BINARY,     /* a CloudEvent in headers, and its data */
    MODE_UNKNOWN     /* CloudEvents in another format than JSON */
};

enum mode publish_mode(const struct exchange *exchange);
/* The CloudEvent of a request in binary mode. HF_INVALID names the attribute. */
hf_status publish_read_binary(struct exchange *exchange, hf_new_event *ret_event);

#endif
