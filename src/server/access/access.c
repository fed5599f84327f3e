/*
 * access.c - see access.h.
 */
#include "server/access/access.h"

#include "base/banned.h"

#include <microhttpd.h>

#define BEARER "Bearer "

/* ---- Host and Origin ------------------------------------------------------------------------- */

/* The name in "name:port" or "[::1]:port"; an empty one if it is neither. */
static struct text host_name(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *port;

    end = end ? end + 1 : host + strcspn(host, ":");
    port = *end == ':' ? end + 1 : end;
    return (struct text){host, port[strspn(port, "0123456789")] ? 0 : (size_t)(end - host)};
}

static bool is_name(struct text name, const char *known)
{
    return name.length == strlen(known) && strncasecmp(name.bytes, known, name.length) == 0;
}

static bool is_ours(const struct access *access, const char *host)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
    struct text name = host_name(host);

    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        if (is_name(name, loopback[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < access->host_count; i++) {
        if (is_name(name, access->hosts[i])) {
            return true;
        }
    }
    return access->tokens && access->host_count == 0; /* no page of a stranger has a token */
}

/* Is it the origin of a page that this very host has sent? */
static bool is_own_origin(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");

    return name && strcasecmp(name + 3, host) == 0;
}

bool access_check_source(const struct access *access, struct exchange *exchange)
{
    const char *host = exchange_header(exchange, "Host");
    const char *origin = exchange_header(exchange, "Origin");
    const char *site = exchange_header(exchange, "Sec-Fetch-Site");

    if (!host) {
        return answer_problem(exchange, MHD_HTTP_MISDIRECTED_REQUEST, "the request has no Host");
    }
    if (!is_ours(access, host)) {
        return answer_problem(exchange, MHD_HTTP_MISDIRECTED_REQUEST,
                              "this server does not go by the name %s", host);
    }
    if ((origin && !is_own_origin(origin, host)) || (site && strcasecmp(site, "cross-site") == 0)) {
        return answer_problem(exchange, MHD_HTTP_FORBIDDEN,
                              "a page of another site may not use this server");
    }
    return true;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* What the session of a browser may do. A request without one leaves
 * *ret_role alone. False after a refusal. */
static bool check_session(const struct access *access, struct exchange *exchange,
                          const char *namespace_name, enum role *ret_role)
{
    char id[SESSION_ID_BYTES];

    if (!session_id_of(exchange, id) || !sessions_find(access->sessions, id, &exchange->bearer)) {
        return true;
    }
    *ret_role =
        tokens_role_of(access->tokens, exchange->bearer.token, namespace_name, exchange->actor);
    if (strcmp(exchange->method, "GET") != 0 && !session_secret_is(exchange, id)) {
        return answer_problem(exchange, MHD_HTTP_FORBIDDEN,
                              "the header " SESSION_SECRET_HEADER " is not that of the session");
    }
    return true;
}

bool access_check_role(const struct access *access, struct exchange *exchange, enum role role,
                       const char *namespace_name)
{
    const char *header = exchange_header(exchange, "Authorization");
    enum role has = ROLE_NONE;

    if (role == ROLE_NONE) {
        return true;
    }
    if (!access->tokens) {
        snprintf(exchange->actor, sizeof exchange->actor, "local");
        exchange->bearer.via = VIA_LOCAL;
        return true;
    }
    if (header && strncasecmp(header, BEARER, strlen(BEARER)) == 0) {
        has = tokens_role(access->tokens, header + strlen(BEARER), namespace_name,
                          &exchange->bearer, exchange->actor);
    } else if (!header && !check_session(access, exchange, namespace_name, &has)) {
        return false;
    }
    if (!exchange->actor[0]) {
        answer_header(exchange, "WWW-Authenticate", "Bearer");
        return answer_problem(exchange, MHD_HTTP_UNAUTHORIZED,
                              header ? "the token is not known"
                                     : "a token is needed: Authorization: Bearer TOKEN");
    }
    if (has < role) {
        return answer_problem(
            exchange, MHD_HTTP_FORBIDDEN, "the token %s has %s%s in %s; this needs the role %s",
            exchange->actor, has ? "the role " : "no role", has ? role_name(has) : "",
            namespace_name ? "this namespace" : "all namespaces", role_name(role));
    }
    return true;
}

/* ---- Looking again --------------------------------------------------------------------------- */

uint64_t access_version(const struct access *access)
{
    return access->tokens ? tokens_version(access->tokens) + sessions_version(access->sessions) : 0;
}

bool access_goes_on(const struct access *access, const struct bearer *bearer, enum role role,
                    const char *namespace_name)
{
    char name[HF_NAME_BYTES_MAX + 1];

    if (bearer->via == VIA_SESSION && !sessions_go_on(access->sessions, bearer)) {
        return false;
    }
    return !access->tokens ||
           tokens_role_of(access->tokens, bearer->token, namespace_name, name) >= role;
}
