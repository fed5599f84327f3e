/*
 * answer.c - see answer.h.
 */
#include "cli/webhook/answer.h"

#include "base/banned.h"
#include "base/time/time.h"

#define DATE_BYTES 29 /* of "Sun, 06 Nov 1994 08:49:37 GMT" */

enum answer_meaning answer_meaning(int status)
{
    if (status >= 200 && status < 300) {
        return ANSWER_DONE;
    }
    switch (status) {
    case 410:
        return ANSWER_GONE;
    case 400:
    case 413:
    case 415:
    case 422:
        return ANSWER_REJECTED;
    default:
        return ANSWER_AGAIN;
    }
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", the one form that programs may send (RFC 9110, 5.6.7). The day
 * of the week is not looked at. */
static bool read_date(struct text text, int64_t *ret_us)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char month[4];
    char date[32];
    const char *at;

    if (text.length != DATE_BYTES || memcmp(text.bytes + 3, ", ", 2) != 0 || text.bytes[7] != ' ' ||
        text.bytes[11] != ' ' || text.bytes[16] != ' ' || memcmp(text.bytes + 25, " GMT", 4) != 0) {
        return false;
    }
    snprintf(month, sizeof month, "%.3s", text.bytes + 8);
    at = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (!at || (at - months) % 3 != 0) {
        return false;
    }
    snprintf(date, sizeof date, "%.4s-%02d-%.2sT%.8sZ", text.bytes + 12,
             (int)((at - months) / 3) + 1, text.bytes + 5, text.bytes + 17);
    return time_parse(text_of(date), ret_us) == HF_OK;
}

static bool read_seconds(struct text text, int64_t *ret_ms)
{
    int64_t seconds = 0;

    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') {
            return false;
        }
        seconds = seconds * 10 + (text.bytes[i] - '0');
        if (seconds > ANSWER_WAIT_MS_MAX) {
            seconds = ANSWER_WAIT_MS_MAX; /* so that it does not overflow; it is too much anyway */
        }
    }
    *ret_ms = seconds * 1000;
    return text.length > 0;
}

int64_t answer_wait_ms(int status, struct text retry_after, int64_t now_us)
{
    int64_t wait_ms = 0;
    int64_t at_us = 0;

    if (status != 429 && status != 503) {
        return -1;
    }
    if (!read_seconds(retry_after, &wait_ms)) {
        if (!read_date(retry_after, &at_us)) {
            return -1;
        }
        wait_ms = at_us > now_us ? (at_us - now_us + 999) / 1000 : 0;
    }
    return wait_ms < ANSWER_WAIT_MS_MAX ? wait_ms : ANSWER_WAIT_MS_MAX;
}
