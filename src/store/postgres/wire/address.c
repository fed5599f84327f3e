/*
 * address.c - where the servers are. See address.h.
 *
 * What libpq would use (URL, service file, environment, in this order) is asked of libpq itself: a
 * connection that is begun with an impossible setting reads everything and goes nowhere.
 *
 * Messages show hosts, ports and the database's name, and nothing else of a URL. A password with a
 * slash in it ends the host part early, and then its pieces would stand where port and database
 * are: a URL that looks like that is refused, without showing it.
 */
#include "store/postgres/wire/address.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text/buf.h"

#define PLACE_BYTES_MAX 512
#define LISTS_BYTES_MAX 65536
#define OURS "holdfast_" /* what the names of our own parameters begin with */
#define CONNECT_MS 5000
#define CONNECT_MIN_S 2   /* libpq's own rule */
#define NOT_YET "not yet" /* no sslmode */

/* A silent network is noticed within eight seconds: an idle one by two keepalives, one that owes us
 * an acknowledgement by the other. */
static const struct address_default wanted[] = {
    {"keepalives_idle", "4"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "2"},
    {"tcp_user_timeout", "8000"},
};

/* ---- What is ours ---------------------------------------------------------------------------- */

/* Reads "sessions=N", which ends at `end`. */
static hf_status read_ours(struct address *address, const char *name, const char *end)
{
    const char *value = memchr(name, '=', (size_t)(end - name));
    size_t length = value ? (size_t)(value - name) : (size_t)(end - name);
    if (length != strlen("sessions") || strncmp(name, "sessions", length) != 0) {
        return fail(HF_INVALID,
                    "the database URL is not valid: there is no parameter " OURS
                    "%.*s; Holdfast has " OURS "sessions",
                    (int)(length < 64 ? length : 64), name);
    }
    long number = 0;
    const char *at = value ? value + 1 : end;
    bool digits = at < end && end - at <= 4;
    for (; digits && at < end; at++) {
        digits = isdigit((unsigned char)*at);
        number = number * 10 + (*at - '0');
    }
    if (!digits || number < ADDRESS_SESSIONS_MIN || number > ADDRESS_SESSIONS_MAX) {
        return fail(HF_INVALID,
                    "the database URL is not valid: " OURS
                    "sessions takes a number from %d to %d, the sessions of the server that this "
                    "process may have open; %d is the default",
                    ADDRESS_SESSIONS_MIN, ADDRESS_SESSIONS_MAX, ADDRESS_SESSIONS_DEFAULT);
    }
    address->sessions_max = (int32_t)number;
    return HF_OK;
}

/* Takes our parameters out of the URL, which gets shorter in place. */
static hf_status take_ours(struct address *address)
{
    char *into = strchr(address->url, '?');
    hf_status status = HF_OK;
    if (!into) {
        return HF_OK;
    }
    char separator = '?';
    for (const char *at = into; *at && !status;) {
        const char *name = at + 1;
        size_t length = strcspn(name, "&");
        at = name + length;
        if (strncmp(name, OURS, strlen(OURS)) == 0) {
            status = read_ours(address, name + strlen(OURS), at);
        } else {
            *into++ = separator;
            memmove(into, name, length);
            into += length;
            separator = '&';
        }
    }
    *into = status ? *into : '\0';
    return status;
}

/* ---- What is given --------------------------------------------------------------------------- */

/* libpq quotes what it does not like at the end of its message, after a colon; with the name of a
 * parameter that is helpful, with anything else it may be part of a password. */
static hf_status refuse(const char *why)
{
    const char *quote = why ? strstr(why, ": \"") : NULL;
    bool named = why && strncmp(why, "invalid URI query parameter:", 28) == 0;
    size_t length = !why ? 0 : quote && !named ? (size_t)(quote - why) : strcspn(why, "\n");
    return fail(HF_INVALID, "the database URL is not valid: %.*s", (int)length, why ? why : "");
}

/* postgresql://user:pass/word@host/database is read as the host "user". */
static bool has_stray_slash(const char *url)
{
    const char *rest = strstr(url, "://");
    const char *end = rest ? rest + strcspn(rest, "?") : NULL;
    const char *slash = rest ? strchr(rest + 3, '/') : NULL;
    const char *at = slash ? strchr(slash, '@') : NULL;
    return at && at < end;
}

/* Of postgresql://user:p@ssword@host/database the host would be "ssword@host". */
static bool has_stray_at(const char *url)
{
    const char *rest = strstr(url, "://");
    size_t length = rest ? 3 + strcspn(rest + 3, "/?") : 0;
    const char *first = rest ? memchr(rest, '@', length) : NULL;
    return first && memchr(first + 1, '@', length - (size_t)(first + 1 - rest));
}

static hf_status check_url(const char *url)
{
    size_t scheme = strcspn(url, ":");
    if (strncmp(url + scheme, "://", 3) != 0) {
        return fail(HF_INVALID, "the database URL is not valid: write %.*s://HOST/DATABASE",
                    (int)scheme, url);
    }
    if (has_stray_at(url)) {
        return fail(HF_INVALID, "the database URL is not valid: there are two @; in a user name or "
                                "password write %%40 for @");
    }
    if (has_stray_slash(url)) {
        return fail(HF_INVALID, "the database URL is not valid: there is an @ behind a /; in a "
                                "user name or password write %%2F for / and %%40 for @");
    }
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    if (!options) {
        hf_status status = why ? refuse(why) : fail(HF_NOMEM, "no memory for names");
        PQfreemem(why);
        return status;
    }
    PQconninfoFree(options);
    return HF_OK;
}

/* Everything that libpq would use. */
static hf_status read_given(const char *url, PQconninfoOption **ret_given)
{
    const char *keywords[] = {"dbname", "sslmode", NULL};
    const char *values[] = {url, NOT_YET, NULL};
    PGconn *pg = PQconnectStartParams(keywords, values, 1);
    PQconninfoOption *given = pg ? PQconninfo(pg) : NULL;
    hf_status status = HF_OK;
    if (!given) {
        status = fail(HF_NOMEM, "no memory for a connection");
    } else if (!strstr(PQerrorMessage(pg), NOT_YET)) {
        status = refuse(PQerrorMessage(pg)); /* e.g. a service that does not exist */
    }
    PQfinish(pg);
    if (status) {
        PQconninfoFree(given);
        return status;
    }
    *ret_given = given;
    return HF_OK;
}

/* NULL: not given. */
static const char *given_of(const PQconninfoOption *given, const char *keyword)
{
    for (const PQconninfoOption *at = given; at->keyword; at++) {
        if (strcmp(at->keyword, keyword) == 0) {
            return at->val && *at->val ? at->val : NULL;
        }
    }
    return NULL;
}

/* ---- Hosts ----------------------------------------------------------------------------------- */

static size_t count_items(const char *list)
{
    size_t count = list ? 1 : 0;
    for (const char *at = list ? strchr(list, ',') : NULL; at; at = strchr(at + 1, ',')) {
        count++;
    }
    return count;
}

/* Cuts the next item off; NULL if it is empty. */
static const char *cut(char **at)
{
    char *item = *at;
    char *comma = item ? strchr(item, ',') : NULL;
    *at = comma ? comma + 1 : NULL;
    if (comma) {
        *comma = '\0';
    }
    return item && *item ? item : NULL;
}

/* Copies a list into the buffer; where it begins. */
static size_t keep(struct buf *lists, const char *list)
{
    size_t at = buf_text(lists).length;
    buf_printf(lists, "%s", list ? list : "");
    buf_char(lists, '\0');
    return at;
}

/* libpq has checked that the lists fit together. */
static hf_status split_hosts(struct address *address, const PQconninfoOption *given)
{
    const char *host = given_of(given, "host");
    const char *hostaddr = given_of(given, "hostaddr");
    const char *port = given_of(given, "port");
    address->host_count = count_items(hostaddr ? hostaddr : host);
    if (address->host_count <= 1) {
        address->host_count = 1; /* and libpq finds it by itself */
        return HF_OK;
    }
    if (address->host_count > ADDRESS_HOSTS_MAX) {
        return fail(HF_INVALID, "the database URL has %zu hosts; the most is %d",
                    address->host_count, ADDRESS_HOSTS_MAX);
    }
    struct buf lists;
    buf_init(&lists, LISTS_BYTES_MAX);
    size_t hosts = keep(&lists, host);
    size_t addrs = keep(&lists, hostaddr);
    size_t ports = keep(&lists, port);
    address->lists = buf_detach(&lists, NULL);
    buf_release(&lists);
    if (!address->lists) {
        return fail(HF_NOMEM, "no memory for names");
    }
    char *host_at = address->lists + hosts;
    char *addr_at = address->lists + addrs;
    char *port_at = address->lists + ports;
    bool one_port = count_items(port) <= 1;
    for (size_t i = 0; i < address->host_count; i++) {
        struct address_host *into = &address->hosts[i];
        into->hostaddr = cut(&addr_at);
        into->host = cut(&host_at);
        into->host = into->host || into->hostaddr ? into->host : "localhost";
        into->port = one_port ? (port ? port_at : NULL) : cut(&port_at);
    }
    return HF_OK;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static void put_default(struct address *address, const char *keyword, const char *value)
{
    address->defaults[address->default_count++] = (struct address_default){keyword, value};
}

static void choose_defaults(struct address *address, const PQconninfoOption *given)
{
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!given_of(given, wanted[i].keyword)) {
            put_default(address, wanted[i].keyword, wanted[i].value);
        }
    }
    /* "any" is libpq's own default. In the URL it counts, as everything there. */
    const char *attributes = given_of(given, "target_session_attrs");
    if (address->host_count > 1 && (!attributes || strcmp(attributes, "any") == 0)) {
        put_default(address, "target_session_attrs", "read-write");
    }
    const char *timeout = given_of(given, "connect_timeout");
    long seconds = timeout ? strtol(timeout, NULL, 10) : 0;
    address->connect_ms = !timeout                  ? CONNECT_MS
                          : seconds <= 0            ? -1
                          : seconds < CONNECT_MIN_S ? CONNECT_MIN_S * 1000
                                                    : (int64_t)seconds * 1000;
}

/* ---- For messages ---------------------------------------------------------------------------- */

static hf_status name_place(struct address *address, const PQconninfoOption *given)
{
    const char *host = given_of(given, "host");
    const char *port = given_of(given, "port");
    const char *database = given_of(given, "dbname");
    struct buf place;
    host = host ? host : given_of(given, "hostaddr");
    port = port && strspn(port, "0123456789,") == strlen(port) ? port : NULL;
    buf_init(&place, PLACE_BYTES_MAX);
    buf_printf(&place, "%.200s%s%.80s/%.100s", host ? host : "localhost", port ? ":" : "",
               port ? port : "", database ? database : "");
    address->place = buf_detach(&place, NULL);
    buf_release(&place);
    return address->place ? HF_OK : fail(HF_NOMEM, "no memory for names");
}

/* ---- The whole ------------------------------------------------------------------------------- */

hf_status address_init(struct address *address, const char *url)
{
    PQconninfoOption *given = NULL;
    *address = (struct address){
        .url = mem_dup(url, strlen(url)),
        .sessions_max = ADDRESS_SESSIONS_DEFAULT,
    };
    hf_status status = address->url ? take_ours(address) : fail(HF_NOMEM, "no memory for names");
    if (!status) {
        status = check_url(address->url);
    }
    if (!status) {
        status = read_given(address->url, &given);
    }
    if (!status) {
        status = split_hosts(address, given);
    }
    if (!status) {
        choose_defaults(address, given);
        status = name_place(address, given);
    }
    PQconninfoFree(given);
    return status;
}

void address_release(struct address *address)
{
    mem_free(address->url);
    mem_free(address->place);
    mem_free(address->lists);
    *address = (struct address){0};
}

/* Later ones win over earlier ones, so the defaults come before the URL, and the host after it. */
void address_settings(const struct address *address, size_t host, const char *node_name,
                      struct address_settings *ret_settings)
{
    size_t count = 0;
    struct address_settings *into = ret_settings;
    const struct address_host *at = &address->hosts[host];
    const struct address_default fixed[] = {
        {"fallback_application_name", node_name},
        {"dbname", address->url},
        {"host", at->host},
        {"hostaddr", at->hostaddr},
        {"port", at->port},
        {"client_encoding", "UTF8"},
    };
    for (size_t i = 0; i < address->default_count; i++) {
        into->keywords[count] = address->defaults[i].keyword;
        into->values[count++] = address->defaults[i].value;
    }
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (fixed[i].value && *fixed[i].value) {
            into->keywords[count] = fixed[i].keyword;
            into->values[count++] = fixed[i].value;
        }
    }
    into->keywords[count] = NULL;
    into->values[count] = NULL;
}
