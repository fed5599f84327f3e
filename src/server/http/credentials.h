/*
 * credentials.h - a certificate and its key, for TLS connections.
 *
 * A renewed certificate makes new credentials; connections that stand keep theirs. So credentials
 * are counted, and freed when neither the listener nor a connection has them any more.
 */
#ifndef HF_SERVER_HTTP_CREDENTIALS_H
#define HF_SERVER_HTTP_CREDENTIALS_H

#include <holdfast.h>
#include <stdbool.h>

struct credentials;

/* From PEM texts, which are not needed afterwards. HF_INVALID: they cannot be read, or do not
 * belong together. */
hf_status credentials_new(const char *certificate, const char *key,
                          struct credentials **ret_credentials);
struct credentials *credentials_take(struct credentials *credentials);
/* NULL is allowed. */
void credentials_put(struct credentials *credentials);

/* Gives them to a gnutls_session_t that has not begun its handshake; the caller puts them when the
 * session has ended. False: out of memory. */
bool credentials_use(struct credentials *credentials, void *session);

#endif
