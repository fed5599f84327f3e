/*
 * secrets.h - signatures of webhooks, as https://www.standardwebhooks.com describes them.
 *
 * The file has a secret a line: "whsec_" and 24 to 64 bytes in base64. Lines that begin with # say
 * nothing. A request is signed with each of them, so that a receiver can go from one secret to
 * the next while requests keep coming: add the new one, let the receiver take it, remove the old
 * one. The file is guarded (server/access/guarded.h), and read again when it has changed; if what
 * is read then is wrong, the secrets stay as they were and the log says why.
 */
#ifndef HF_SERVER_WEBHOOK_SECRETS_H
#define HF_SERVER_WEBHOOK_SECRETS_H

#include "base/text/buf.h"

#include <holdfast.h>

#define SECRETS_MAX 8
#define SECRET_BYTES_MIN 24
#define SECRET_BYTES_MAX 64

struct secrets;

/* HF_INVALID names the line and what is wrong with it. `path` outlives it; `log` may be NULL. */
hf_status secrets_open(const char *path, hf_log_fn log, void *log_ctx,
                       struct secrets **ret_secrets);

/* Appends the value of the header webhook-signature: "v1,BASE64 v1,BASE64". Any thread. */
hf_status secrets_sign(struct secrets *secrets, const char *id, int64_t timestamp_s,
                       struct text body, struct buf *value);

/* NULL is allowed. */
void secrets_close(struct secrets *secrets);

#endif
