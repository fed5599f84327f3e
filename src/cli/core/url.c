/*
 * url.c - the URL of a database as it may be shown. See url.h.
 *
 * A URL of PostgreSQL may hold secrets in two places:
 *
 *     postgres://user:SECRET@host/database?password=SECRET&sslpassword=SECRET
 *
 * What stands between the first colon after "//" and the last @ is taken for a password, even where
 * libpq would see it differently (slashes and at signs in a password must be escaped, and people
 * forget it): rather hide too much. An @ in a password of the second kind does not count.
 */
#include "cli/core/url.h"

#include "base/banned.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STARS "***"
#define SECRET "password"

/* A text that is being written into a fixed room; what does not fit is left out. */
struct shown {
    char *at;
    size_t left;        /* with the final NUL */
    const char *secret; /* what stands for each secret */
};

static void put(struct shown *shown, const char *text, size_t length)
{
    if (length >= shown->left) {
        length = shown->left - 1;
    }
    memcpy(shown->at, text, length);
    shown->at += length;
    shown->left -= length;
    *shown->at = '\0';
}

/* The password before the host; answers where the URL goes on. */
static const char *put_authority(struct shown *shown, const char *url)
{
    const char *begin = strstr(url, "//");
    const char *parameter = begin ? strstr(begin, SECRET "=") : NULL;
    size_t length = parameter ? (size_t)(parameter - begin) : begin ? strlen(begin) : 0;
    const char *colon = begin ? memchr(begin, ':', length) : NULL;
    const char *end = begin ? memrchr(begin, '@', length) : NULL;

    if (!colon || !end || colon > end) {
        return url;
    }
    put(shown, url, (size_t)(colon + 1 - url));
    put(shown, shown->secret, strlen(shown->secret));
    return end;
}

/* Is this parameter a secret? The name ends with "password", whatever stands before it; or it is
 * encoded, which libpq accepts and no program needs. */
static bool is_secret(const char *parameter, size_t name_length)
{
    size_t length = strlen(SECRET);

    if (memchr(parameter, '%', name_length)) {
        return true;
    }
    return name_length >= length && strncmp(parameter + name_length - length, SECRET, length) == 0;
}

static void put_url(struct shown *shown, const char *url)
{
    *shown->at = '\0';
    if (strncmp(url, "postgres", 8) != 0) {
        put(shown, url, strlen(url));
        return;
    }
    url = put_authority(shown, url);
    size_t length = strcspn(url, "?");
    while (url[length]) {
        put(shown, url, length + 1); /* with the ? or & */
        url += length + 1;
        size_t name_length = strcspn(url, "=&");
        length = strcspn(url, "&");
        if (url[name_length] == '=' && is_secret(url, name_length)) {
            put(shown, url, name_length + 1);
            put(shown, shown->secret, strlen(shown->secret));
            url += length;
            length = 0;
        }
    }
    put(shown, url, length);
}

const char *url_shown(const char *url, char ret_shown[URL_SHOWN_BYTES])
{
    struct shown shown = {ret_shown, URL_SHOWN_BYTES, STARS};

    put_url(&shown, url);
    return ret_shown;
}

char *url_without_secrets(const char *url)
{
    size_t bytes = strlen(url) + 1;
    char *copy = malloc(bytes);
    struct shown shown = {copy, bytes, ""};

    if (copy) {
        put_url(&shown, url);
    }
    return copy;
}

const char *url_engine(const char *url, char *ret_engine, size_t bytes)
{
    size_t length = strspn(url, "abcdefghijklmnopqrstuvwxyz0123456789");

    if (url[length] != ':') {
        snprintf(ret_engine, bytes, "sqlite"); /* a bare path */
    } else if (strncmp(url, "postgresql:", 11) == 0) {
        snprintf(ret_engine, bytes, "postgres");
    } else {
        snprintf(ret_engine, bytes, "%.*s", (int)length, url);
    }
    return ret_engine;
}
