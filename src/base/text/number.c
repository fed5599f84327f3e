/*
 * number.c - doubles as text, in the C locale.
 *
 * uselocale changes the locale of the calling thread only, so the host's other threads never see
 * it. glibc's "C" locale is static: making it costs nothing and cannot fail; if another library's
 * could, we would fall back to the locale that is set.
 */
#include "base/text/number.h"
#include "base/banned.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void c_locale_make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Returns what to give to uselocale afterwards. */
static locale_t c_locale_enter(void)
{
    pthread_once(&c_locale_once, c_locale_make);
    return uselocale(c_locale);
}

void number_format(double value, char out[NUMBER_TEXT_BYTES])
{
    locale_t before = c_locale_enter();

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, NUMBER_TEXT_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value) {
            break;
        }
    }
    uselocale(before);
}

bool number_parse(struct text text, double *ret_value)
{
    char digits[64];

    if (text.length == 0 || text.length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text.bytes, text.length);
    digits[text.length] = '\0';
    /* strtod would take white space, "inf" and "0x10" too. */
    if (strspn(digits, "0123456789+-.eE") != text.length) {
        return false;
    }

    char *end;
    locale_t before = c_locale_enter();
    double value = strtod(digits, &end);

    uselocale(before);
    if (end != digits + text.length || !isfinite(value)) {
        return false;
    }
    *ret_value = value;
    return true;
}
