/*
 * sessions.h - browsers that have logged in.
 *
 * A person types a token once; the browser keeps the id of a session in a cookie that scripts
 * cannot read, and the server keeps, in memory, the hash of that id and the hash of the token. So a
 * token that is taken out of the file ends its sessions, and a copy of the server's memory has
 * neither.
 *
 * A browser sends a cookie also with requests that pages of others have made it send. So a request
 * that changes something must also say the session's secret in a header, which only the page that
 * has read it can.
 */
#ifndef HF_SERVER_ACCESS_SESSIONS_H
#define HF_SERVER_ACCESS_SESSIONS_H

#include "server/access/tokens.h"

#define SESSIONS_MAX 1024
#define SESSIONS_PER_TOKEN_MAX 64
#define SESSION_ID_BYTES 65 /* 64 hexadecimal digits and the NUL; also of a secret */
#define SESSION_COOKIE "holdfast_session"
#define SESSION_SECRET_HEADER "X-Holdfast-Secret"
#define SESSION_IDLE_S 43200 /* a session that was not used for so long ends */
#define SESSION_AGE_S 604800 /* a session that is so old ends */

struct sessions;

/* NULL: no memory (err). */
struct sessions *sessions_new(void);
/* NULL is allowed. */
void sessions_free(struct sessions *sessions);

/* Begins a session of the token's bearer. If the token has SESSIONS_PER_TOKEN_MAX, the one of them
 * that was not used for the longest time ends; if there are SESSIONS_MAX, such a one of the token
 * that has the most. So the bearer of one token cannot log out those of others. */
hf_status sessions_begin(struct sessions *sessions, const unsigned char token[TOKEN_HASH_BYTES],
                         char ret_id[SESSION_ID_BYTES]);

/* The session of this id, and the token that it is of. False: there is no such session. */
bool sessions_find(struct sessions *sessions, const char *id, struct bearer *ret_bearer);
/* Whether a session that was found goes on. If so it has been used now. */
bool sessions_go_on(struct sessions *sessions, const struct bearer *bearer);
/* Grows with each session that is ended before its time. */
uint64_t sessions_version(struct sessions *sessions);
void sessions_end(struct sessions *sessions, const char *id);

/* The secret that goes with an id. */
hf_status session_secret(const char *id, char ret_secret[SESSION_ID_BYTES]);

/* The id of the session that a request's cookie names; false: it has none. */
bool session_id_of(const struct exchange *exchange, char ret_id[SESSION_ID_BYTES]);
/* Whether a request says the secret that goes with an id. */
bool session_secret_is(const struct exchange *exchange, const char *id);

#endif
