/*
 * tokens.h - who may do what: the tokens of a file.
 *
 * A line of the file is
 *
 *     NAME ROLE NAMESPACE SHA256
 *
 * ROLE is viewer, operator or admin; NAMESPACE is a name, or * for all; SHA256 is the hash of the
 * token in 64 hexadecimal digits, so the file does not give tokens away. A token that has several
 * lines has all their rights. Lines that begin with # say nothing. The file must belong to its
 * reader (or root) and be writable by no other. It is read again when it has changed: tokens
 * come and go without a restart. If what is read then is wrong, the tokens stay as they were and
 * the log tells.
 */
#ifndef HF_SERVER_ACCESS_TOKENS_H
#define HF_SERVER_ACCESS_TOKENS_H

#include "server/http/exchange.h"

#define TOKEN_BYTES_MAX 256 /* of a token as it is sent */
#define TOKEN_HASH_BYTES BEARER_HASH_BYTES

struct tokens;

/* HF_INVALID names the line and what is wrong with it. `log` may be NULL. */
hf_status tokens_open(const char *path, hf_log_fn log, void *log_ctx, struct tokens **ret_tokens);

/* What the bearer of a token may do in a namespace (NULL: in all), and the token's name. Takes the
 * same time for every token. ROLE_NONE: no such token, or nothing there. */
enum role tokens_role(struct tokens *tokens, const char *token, const char *namespace_name,
                      struct bearer *ret_bearer, char ret_name[HF_NAME_BYTES_MAX + 1]);

/* The same for the hash of a token, which a session has in its place. */
enum role tokens_role_of(struct tokens *tokens, const unsigned char hash[TOKEN_HASH_BYTES],
                         const char *namespace_name, char ret_name[HF_NAME_BYTES_MAX + 1]);

/* Calls back for each line of the file that is of this hash: "*" stands for all namespaces. The
 * callback must not use `tokens`. */
typedef void (*token_grant_fn)(const char *namespace_name, enum role role, void *ctx);
void tokens_grants(struct tokens *tokens, const unsigned char hash[TOKEN_HASH_BYTES],
                   token_grant_fn found, void *ctx);

/* Grows with each reading of the file, which is looked at. */
uint64_t tokens_version(struct tokens *tokens);

/* NULL is allowed. */
void tokens_close(struct tokens *tokens);

/* "viewer", "operator", "admin"; "none". And back: ROLE_NONE if it is no role's. */
const char *role_name(enum role role);
enum role role_of(const char *name);

/* The hash that stands for a token in the file. */
hf_status token_hash(const char *token, unsigned char ret_hash[TOKEN_HASH_BYTES]);

#endif
