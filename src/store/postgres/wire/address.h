/*
 * address.h - where the servers are, and what is said to them when connecting.
 *
 * The URL goes to libpq as it is, so whatever libpq knows works: SSL parameters, service files, the
 * environment's PG*, a password file. Only what is not set there is set here:
 *
 *     fallback_application_name   the node's name
 *     keepalives_*, tcp_user_timeout   so that a network that swallows everything is noticed
 *     connect_timeout             per host; kept by dial.c, because libpq leaves it to its callers
 *     target_session_attrs        read-write, if there are several hosts
 *
 * One parameter of the URL is not libpq's but ours, and is taken out before libpq sees it:
 *
 *     holdfast_sessions=N         how many sessions a store may have open (wire/pool.h)
 *
 * Several hosts are walked by us and not by libpq, which would wait for the first that is silent as
 * long as we let it wait at all.
 */
#ifndef HF_STORE_POSTGRES_WIRE_ADDRESS_H
#define HF_STORE_POSTGRES_WIRE_ADDRESS_H

#include <holdfast.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_HOSTS_MAX 16
#define ADDRESS_SETTINGS_MAX 16 /* with the NULL at the end */
#define ADDRESS_SESSIONS_DEFAULT 8
#define ADDRESS_SESSIONS_MIN 4 /* the writer's, the keeper's, the checker's, one for reading */
#define ADDRESS_SESSIONS_MAX 1000

struct address {
    char *url;   /* the libpq URI, without what is ours, NUL-terminated; may hold a password */
    char *place; /* "host:port/database" for messages; no password */
    char *lists; /* owns what hosts points to */
    size_t host_count;
    struct address_host {
        const char *host; /* NULL, as the others: libpq's default */
        const char *hostaddr;
        const char *port;
    } hosts[ADDRESS_HOSTS_MAX];
    size_t default_count; /* what is not set elsewhere */
    struct address_default {
        const char *keyword;
        const char *value;
    } defaults[ADDRESS_SETTINGS_MAX];
    int64_t connect_ms;   /* for one host; -1: as long as the caller waits */
    int32_t sessions_max; /* open at one time, besides those that are lent to handlers */
};

/* Parameters for libpq, ended by NULL. */
struct address_settings {
    const char *keywords[ADDRESS_SETTINGS_MAX];
    const char *values[ADDRESS_SETTINGS_MAX];
};

/* Reads the URL, and what the environment and service files add to it; asks no server.
 * HF_INVALID, HF_NOMEM; the message does not show what could be a password. */
hf_status address_init(struct address *address, const char *url);
void address_release(struct address *address);

/* What to say to this host. The texts are those of the arguments. */
void address_settings(const struct address *address, size_t host, const char *node_name,
                      struct address_settings *ret_settings);

#endif
