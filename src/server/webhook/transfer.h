/*
 * transfer.h - one POST of a webhook through libcurl, with everything about it bounded.
 *
 * A connection is opened only to an address that the rules allow: libcurl asks before it connects
 * to an address that a name was resolved to, and again, with the address of the other end, before
 * it sends a request over a connection, new or old. Redirects are not followed, no proxy is used,
 * and nothing of the environment or of the user's files changes a request.
 */
#ifndef HF_SERVER_WEBHOOK_TRANSFER_H
#define HF_SERVER_WEBHOOK_TRANSFER_H

#include "cli/webhook/webhook.h"

#define TRANSFER_EXCERPT_BYTES 512  /* of the answer's body that are kept */
#define TRANSFER_BODY_BYTES 65536   /* of it that are read; then the connection ends */
#define TRANSFER_HEADER_BYTES 65536 /* of all its headers */

/* Connections of one webhook. */
struct transfers;

struct transfer_request {
    const char *const *headers; /* "name: value" */
    size_t header_count;
    struct text body;
    int64_t timeout_ms;
    bool (*cancelled)(void *ctx); /* asked ten times a second */
    void *ctx;
};

enum transfer_end {
    TRANSFER_ANSWERED,  /* `status` and what follows it */
    TRANSFER_CANCELLED, /* `cancelled` said so */
    TRANSFER_TIMED_OUT, /* no complete answer came in time */
    TRANSFER_REFUSED,   /* `why` names the address, and what kind of one it is */
    TRANSFER_FAILED,    /* `why` */
    TRANSFER_NO_MEMORY
};

struct transfer_result {
    enum transfer_end end;
    int status;
    char retry_after[64]; /* of the header; "": none */
    char location[256];
    char excerpt[TRANSFER_EXCERPT_BYTES]; /* any bytes */
    size_t excerpt_bytes;
    char why[256];
};

/* HF_INVALID, HF_NOTFOUND: libcurl does not take the URL or the file of certificates. */
hf_status transfers_open(const struct webhook_options *options, struct transfers **ret_transfers);

/* Any thread. Ends by the request's timeout. */
void transfer_run(struct transfers *transfers, const struct transfer_request *request,
                  struct transfer_result *ret_result);

/* NULL is allowed. */
void transfers_close(struct transfers *transfers);

#endif
