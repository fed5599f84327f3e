/*
 * url.c - the URL of a webhook: what it must be, and how it may be shown. See webhook.h.
 *
 * This is less than the parser of the client does, and needs no client: `config check` says what is
 * wrong with a file without one.
 */
#include "cli/webhook/webhook.h"

#include "base/banned.h"
#include "base/err.h"

/* Where the authority begins; 0: the scheme is another. */
static size_t authority_at(struct text url)
{
    static const struct text schemes[] = {TEXT_LITERAL("https://"), TEXT_LITERAL("http://")};

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (url.length > schemes[i].length &&
            strncasecmp(url.bytes, schemes[i].bytes, schemes[i].length) == 0) {
            return schemes[i].length;
        }
    }
    return 0;
}

hf_status webhook_url_check(struct text url, char ret_host[WEBHOOK_HOST_BYTES])
{
    size_t begin = authority_at(url);
    size_t end = begin;

    if (url.length > WEBHOOK_URL_BYTES_MAX) {
        return fail(HF_INVALID, "a URL has at most %d bytes", WEBHOOK_URL_BYTES_MAX);
    }
    for (size_t i = 0; i < url.length; i++) {
        if ((unsigned char)url.bytes[i] <= ' ' || (unsigned char)url.bytes[i] >= 0x7f) {
            return fail(HF_INVALID,
                        "a URL has neither spaces nor control characters nor bytes beyond ASCII; "
                        "write them as %%20");
        }
    }
    if (begin == 0) {
        return fail(HF_INVALID, "the URL of a webhook begins with https:// or http://");
    }
    while (end < url.length && !strchr("/?#\\", url.bytes[end])) {
        end++;
    }
    if (end == begin || url.bytes[begin] == ':') {
        return fail(HF_INVALID, "the URL has no host");
    }
    if (memchr(url.bytes + begin, '@', end - begin)) {
        return fail(HF_INVALID,
                    "the URL has a user or a password before its host, which would end up in logs; "
                    "sign requests with a secret instead");
    }
    if (memchr(url.bytes, '\\', url.length) || memchr(url.bytes, '#', url.length)) {
        return fail(HF_INVALID, "a URL of a webhook has neither a backslash nor a fragment (#)");
    }
    if (end - begin >= WEBHOOK_HOST_BYTES) {
        return fail(HF_INVALID, "the host of the URL has more than %d bytes",
                    WEBHOOK_HOST_BYTES - 1);
    }
    if (ret_host) {
        snprintf(ret_host, WEBHOOK_HOST_BYTES, "%.*s", (int)(end - begin), url.bytes + begin);
    }
    return HF_OK;
}

const char *webhook_url_shown(const char *url, char *ret_shown, size_t bytes)
{
    size_t length = strcspn(url, "?");

    snprintf(ret_shown, bytes, "%.*s%s", (int)length, url, url[length] ? "?***" : "");
    return ret_shown;
}
