/*
 * config_secret.c - see config_secret.h.
 *
 * A url may carry a password in two places: scheme://user:PASSWORD@host and ?password=PASSWORD.
 * Masking prefers to hide too much: whatever stands between the first colon behind the scheme and
 * the last @ in front of the path, also where the url is so wrong that nobody could connect with
 * it, and the value of every parameter whose name has "password" in it or is itself encoded.
 */
#include "cli/config_secret.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/out.h"

#define MASK "***"
#define URL_BYTES_MAX 65536

const char *config_secret_read(struct arena *arena, const char *what, const char *path)
{
    size_t length = 0;
    char *bytes = cli_read_file(path, CONFIG_SECRET_BYTES_MAX, &length);
    const char *copy = NULL;

    if (!bytes) {
        out_hint("%s names this file.", what);
        return NULL;
    }
    while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r'))
        length--;
    if (length == 0)
        out_complain("%s: %s is empty", what, path);
    else if (!utf8_is_printable((struct text){bytes, length}))
        out_complain("%s: %s must be one line of UTF-8 text without control characters", what,
                     path);
    else
        copy = arena_text(arena, (struct text){bytes, length}).bytes;
    explicit_bzero(bytes, length);
    mem_free(bytes);
    return copy;
}

/* ---- The parts of a url ---------------------------------------------------------------------- */

/* Behind "scheme://"; NULL if the url has no such beginning. */
static const char *authority_of(const char *url)
{
    const char *mark = strstr(url, "://");
    return mark ? mark + 3 : NULL;
}

/* The @ that ends user and password; NULL: there is none. */
static const char *credentials_end(const char *authority)
{
    const char *end = authority + strcspn(authority, "/");
    const char *at = memrchr(authority, '@', (size_t)(end - authority));

    if (at)
        return at;
    end = authority + strcspn(authority, "?");
    return memrchr(authority, '@', (size_t)(end - authority));
}

static bool is_secret_name(const char *name, size_t length)
{
    return memmem(name, length, "password", 8) || memchr(name, '%', length);
}

static bool has_password(const char *url)
{
    struct buf masked;
    bool has;

    buf_init(&masked, URL_BYTES_MAX);
    config_secret_mask(url, &masked);
    has = strcmp(buf_terminate(&masked), url) != 0;
    buf_release(&masked);
    return has;
}

const char *config_secret_add(struct arena *arena, const char *url, const char *password)
{
    struct buf whole;
    const char *copy = NULL;

    if (!authority_of(url)) {
        out_complain("database.password_file: the database is a file, which has no password");
        return NULL;
    }
    if (has_password(url)) {
        out_complain("database.password_file: the url has a password already");
        return NULL;
    }
    buf_init(&whole, URL_BYTES_MAX);
    buf_append(&whole, url, strlen(url));
    buf_printf(&whole, "%cpassword=", strchr(url, '?') ? '&' : '?');
    for (; *password; password++)
        buf_printf(&whole, "%%%02X", (unsigned char)*password);
    if (buf_status(&whole) == HF_OK)
        copy = arena_text(arena, buf_text(&whole)).bytes;
    else
        out_complain("database.password_file: the url with the password is too long");
    if (whole.bytes)
        explicit_bzero(whole.bytes, whole.length);
    buf_release(&whole);
    return copy;
}

/* ---- Masking --------------------------------------------------------------------------------- */

static void mask_parameters(const char *at, struct buf *masked)
{
    while (*at) {
        size_t length = strcspn(at, "&");
        const char *equals = memchr(at, '=', length);

        if (equals && is_secret_name(at, (size_t)(equals - at))) {
            buf_append(masked, at, (size_t)(equals - at) + 1);
            buf_append(masked, MASK, strlen(MASK));
        } else {
            buf_append(masked, at, length);
        }
        at += length;
        if (*at == '&') {
            buf_char(masked, '&');
            at++;
        }
    }
}

void config_secret_mask(const char *url, struct buf *masked)
{
    const char *at = authority_of(url);
    const char *end = at ? credentials_end(at) : NULL;
    const char *colon = end ? memchr(at, ':', (size_t)(end - at)) : NULL;
    const char *query;

    if (!at) {
        buf_append(masked, url, strlen(url));
        return;
    }
    if (colon) {
        buf_append(masked, url, (size_t)(colon - url) + 1);
        buf_append(masked, MASK, strlen(MASK));
        url = end;
    }
    query = strchr(colon ? end : at, '?');
    if (!query) {
        buf_append(masked, url, strlen(url));
        return;
    }
    buf_append(masked, url, (size_t)(query - url) + 1);
    mask_parameters(query + 1, masked);
}
