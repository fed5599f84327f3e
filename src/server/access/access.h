/*
 * access.h - may this request be answered?
 *
 * Three questions, in this order:
 *   Host    is it a name that this server goes by? A page whose name was made to lead to this
 *           machine (DNS rebinding) sends its own.
 *   Origin  does a page of another site send it? A browser says so, and nothing else does.
 *   Token   what may its bearer do in the namespace? Without a file of tokens the server listens
 *           to this machine only, and who can reach it may do everything. A browser that has logged
 *           in has a session in place of the token (sessions.h).
 */
#ifndef HF_SERVER_ACCESS_ACCESS_H
#define HF_SERVER_ACCESS_ACCESS_H

#include "server/access/sessions.h"
#include "server/access/tokens.h"
#include "server/http/exchange.h"

struct access {
    struct tokens *tokens; /* NULL: there are none */
    struct sessions *sessions;
    const char *const *hosts; /* names that it goes by besides those of this machine's loopback */
    size_t host_count;
};

/* Host and Origin, for every request. False after a refusal. */
bool access_check_source(const struct access *access, struct exchange *exchange);

/* Whether the caller has the role in the namespace (NULL: in all), and fills in exchange->actor.
 * False after a refusal: 401 without a token that is known, 403 with one that may not. */
bool access_check_role(const struct access *access, struct exchange *exchange, enum role role,
                       const char *namespace_name);

/* Another number than before: a token or a session may be gone. The file of tokens is looked at. */
uint64_t access_version(const struct access *access);
/* Whether a caller that had the role in the namespace has it still. */
bool access_goes_on(const struct access *access, const struct bearer *bearer, enum role role,
                    const char *namespace_name);

#endif
