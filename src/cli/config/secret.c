/*
 * secret.c - see secret.h.
 *
 * The password becomes a parameter of the url, every byte of it encoded, so that no character can
 * mean anything. From then on the url is shown only through url_shown.
 */
#include "cli/config/secret.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "cli/core/cli.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"

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
    while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r')) {
        length--;
    }
    if (length == 0) {
        out_complain("%s: %s is empty", what, path);
    } else if (!utf8_is_printable((struct text){bytes, length})) {
        out_complain("%s: %s must be one line of UTF-8 text without control characters", what,
                     path);
    } else {
        copy = arena_text(arena, (struct text){bytes, length}).bytes;
    }
    explicit_bzero(bytes, length);
    mem_free(bytes);
    return copy;
}

/* True if showing it would hide something. */
static bool has_password(const char *url)
{
    char shown[URL_SHOWN_BYTES];

    url_shown(url, shown);
    return strncmp(url, shown, strlen(shown)) != 0;
}

const char *config_secret_add(struct arena *arena, const char *url, const char *password)
{
    struct buf whole;
    const char *copy = NULL;

    if (!strstr(url, "://")) {
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
    for (; *password; password++) {
        buf_printf(&whole, "%%%02X", (unsigned char)*password);
    }
    if (buf_status(&whole) == HF_OK) {
        copy = arena_text(arena, buf_text(&whole)).bytes;
    } else {
        out_complain("database.password_file: the url with the password is too long");
    }
    if (whole.bytes) {
        explicit_bzero(whole.bytes, whole.length);
    }
    buf_release(&whole);
    return copy;
}
