/*
 * args_value.c - turns the text of an option into what its row promises.
 *
 * Each parser is strict: a number is digits and nothing else, a duration has its unit ("30" of
 * what?), a choice is spelled out. What does not fit is answered with the form that would, so that
 * the message alone is enough to correct the line.
 */
#include "cli/core/args_value.h"

#include "base/banned.h"
#include "base/time/time.h"
#include "cli/core/cli.h"
#include "cli/core/moment.h"
#include "cli/terminal/out.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

int args_usage(const struct args *args, const char *format, ...)
{
    char text[1024];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (args->command) {
        out_complain("%s: %s", args->command->name, text);
    } else {
        out_complain("%s", text);
    }
    out_hint("Try 'holdfast%s%s --help'.", args->command || args->group ? " " : "",
             args->command ? args->command->name
             : args->group ? args->group
                           : "");
    return EXIT_USAGE;
}

bool args_value_number(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end;
    long long number;

    if (digits[0] < '0' || digits[0] > '9') {
        return false;
    }
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno || *end || number < min || number > max) {
        return false;
    }
    *ret_number = number;
    return true;
}

static bool value_decimal(const char *text, double min, double max, double *ret_decimal)
{
    char *end;
    double decimal;

    if (!text[0] || strspn(text, "0123456789.") != strlen(text)) {
        return false;
    }
    errno = 0;
    decimal = strtod(text, &end);
    if (errno || *end || !isfinite(decimal) || decimal < min || decimal > max) {
        return false;
    }
    *ret_decimal = decimal;
    return true;
}

static bool value_duration(const char *text, int64_t *ret_ms)
{
    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
        return true;
    }
    return duration_parse(text_of(text), ret_ms) == HF_OK;
}

static bool value_size(const char *text, int64_t min, int64_t max, int64_t *ret_bytes)
{
    char digits[32];
    size_t length = strspn(text, "0123456789");
    int64_t unit = 1;

    if (length == 0 || length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (strcmp(text + length, "K") == 0 || strcmp(text + length, "KiB") == 0) {
        unit = 1024;
    } else if (strcmp(text + length, "M") == 0 || strcmp(text + length, "MiB") == 0) {
        unit = INT64_C(1024) * 1024;
    } else if (strcmp(text + length, "G") == 0 || strcmp(text + length, "GiB") == 0) {
        unit = INT64_C(1024) * 1024 * 1024;
    } else if (text[length]) {
        return false;
    }
    if (!args_value_number(digits, 0, INT64_MAX / unit, ret_bytes)) {
        return false;
    }
    *ret_bytes *= unit;
    return *ret_bytes >= min && *ret_bytes <= max;
}

/* A date alone is a day of this place, like a date and a time without a zone. Only JSON, which
 * other places read, has RFC 3339 alone, and its days are those of UTC. */
static bool value_time(const char *text, int64_t now_us, enum moment_day day, hf_place *ret_place)
{
    int64_t time_us;

    if ((moment_is_date(text) || time_parse(text_of(text), &time_us) != HF_OK) &&
        !moment_parse(text, now_us, day, &time_us)) {
        return false;
    }
    *ret_place = (hf_place){HF_PLACE_TIME, time_us};
    return true;
}

static bool value_moment(const char *text, int64_t now_us, hf_place *ret_place)
{
    int64_t ago_ms;

    if (strcmp(text, "now") == 0) {
        *ret_place = (hf_place){HF_PLACE_NOW, -1};
        return true;
    }
    if (value_time(text, now_us, MOMENT_LAST, ret_place)) {
        return true;
    }
    if (duration_parse(text_of(text), &ago_ms) != HF_OK || ago_ms >= now_us / 1000) {
        return false;
    }
    *ret_place = (hf_place){HF_PLACE_TIME, now_us - ago_ms * 1000};
    return true;
}

bool args_value_place(const char *text, int64_t now_us, hf_place *ret_place)
{
    int64_t position;

    if (strcmp(text, "start") == 0) {
        *ret_place = (hf_place){HF_PLACE_START, -1};
    } else if (strcmp(text, "end") == 0) {
        *ret_place = (hf_place){HF_PLACE_NOW, -1};
    } else if (args_value_number(text, 0, INT64_MAX, &position)) {
        *ret_place = (hf_place){HF_PLACE_POSITION, position};
    } else { /* a time in the future has no place in the log yet */
        return value_moment(text, now_us, ret_place) &&
               (ret_place->kind != HF_PLACE_TIME || ret_place->value <= now_us);
    }
    return true;
}

/* ---- By the row ------------------------------------------------------------------------------ */

static bool read_choice(struct arg_value *value, struct value_form *ret_form)
{
    struct suggest suggest;
    char words[16][SUGGEST_WORD_BYTES_MAX];
    size_t count = 0;

    suggest_init(&suggest, value->text);
    for (const char *at = value->row->choices; *at && count < 16;) {
        size_t length = strcspn(at, "|");
        snprintf(words[count], sizeof words[count], "%.*s", (int)length, at);
        if (strcmp(words[count], value->text) == 0) {
            value->number = (int64_t)count + 1;
            return true;
        }
        suggest_offer(&suggest, words[count++]);
        at += length + (at[length] == '|');
    }
    if (suggest.best) {
        snprintf(ret_form->hint, sizeof ret_form->hint, "%s", suggest.best);
    }
    return false;
}

static void describe_limits(const struct option_row *row, char *ret_form, size_t bytes)
{
    char least[OUT_WORDS_BYTES];
    char most[OUT_WORDS_BYTES];

    if (row->kind == OPTION_SIZE) {
        snprintf(ret_form, bytes,
                 "takes a size (512, 64KiB, 16MiB) from %" PRId64 " to %" PRId64 " bytes", row->min,
                 row->max);
    } else if (row->kind == OPTION_DECIMAL) {
        snprintf(ret_form, bytes, "takes a number from %" PRId64 " to %" PRId64, row->min,
                 row->max);
    } else if (row->kind == OPTION_NUMBER && row->max == INT64_MAX) {
        snprintf(ret_form, bytes, "takes a whole number from %" PRId64, row->min);
    } else if (row->kind == OPTION_NUMBER) {
        snprintf(ret_form, bytes, "takes a whole number from %" PRId64 " to %" PRId64, row->min,
                 row->max);
    } else if (row->max > 0) {
        snprintf(ret_form, bytes,
                 "takes a time with its unit (250ms, 30s, 5m, 12h, 30d) from %s "
                 "to %s",
                 out_duration(row->min, least), out_duration(row->max, most));
    } else {
        snprintf(ret_form, bytes, "takes a time with its unit (250ms, 30s, 5m, 12h, 30d)");
    }
}

void args_value_describe(const struct option_row *row, char *ret_form, size_t bytes)
{
    switch (row->kind) {
    case OPTION_FLAG:
        snprintf(ret_form, bytes, "takes no value");
        return;
    case OPTION_TEXT:
        snprintf(ret_form, bytes, "takes a text");
        return;
    case OPTION_NUMBER:
    case OPTION_DECIMAL:
    case OPTION_DURATION:
    case OPTION_SIZE:
        describe_limits(row, ret_form, bytes);
        return;
    case OPTION_PLACE:
        snprintf(ret_form, bytes,
                 "takes start, now, a position, a time that has passed "
                 "(2026-01-31T12:00:00Z) or how long ago (2h)");
        return;
    case OPTION_TIME:
        snprintf(ret_form, bytes, "%s",
                 moment_has_zone()
                     ? "takes a time (18:00, '2026-01-31 12:00', 2026-01-31T12:00:00Z)"
                     : "takes a time with its zone (2026-01-31T12:00:00Z) as long as the zone of "
                       "this place ($TZ) is not known");
        return;
    case OPTION_MOMENT:
        snprintf(ret_form, bytes, "takes a time (2026-01-31T12:00:00Z), now, or how long ago (2h)");
        return;
    case OPTION_CHOICE:
        snprintf(ret_form, bytes, "is %s", row->choices);
        return;
    case OPTION_RATE:
        snprintf(ret_form, bytes, "takes a rate (50/s, 100/m)");
        return;
    }
}

static bool read_by_row(struct arg_value *value, int64_t now_us, struct value_form *ret_form)
{
    const struct option_row *row = value->row;

    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_TEXT:
        return true;
    case OPTION_NUMBER:
        return args_value_number(value->text, row->min, row->max, &value->number);
    case OPTION_DECIMAL:
        return value_decimal(value->text, (double)row->min, (double)row->max, &value->decimal);
    case OPTION_DURATION:
        return value_duration(value->text, &value->number) &&
               (row->max == 0 || (value->number >= row->min && value->number <= row->max));
    case OPTION_PLACE:
        return args_value_place(value->text, now_us, &value->place);
    case OPTION_TIME:
        return value_time(value->text, now_us, MOMENT_NEXT, &value->place);
    case OPTION_MOMENT:
        return value_moment(value->text, now_us, &value->place);
    case OPTION_CHOICE:
        return read_choice(value, ret_form);
    case OPTION_RATE:
        return rate_parse(value->text, &value->decimal) == HF_OK;
    case OPTION_SIZE:
        return value_size(value->text, row->min, row->max, &value->number);
    }
    return false;
}

bool args_value_check(struct arg_value *value, int64_t now_us, struct value_form *ret_form)
{
    ret_form->hint[0] = '\0';
    if (read_by_row(value, now_us, ret_form)) {
        return true;
    }
    args_value_describe(value->row, ret_form->form, sizeof ret_form->form);
    return false;
}

int args_value_read(const struct args *args, struct arg_value *value, int64_t now_us)
{
    struct value_form form;

    if (args_value_check(value, now_us, &form)) {
        return 0;
    }
    if (form.hint[0]) {
        return args_usage(args, "--%s %s, not '%s'; did you mean %s?", value->row->name, form.form,
                          value->text, form.hint);
    }
    return args_usage(args, "--%s %s, not '%s'", value->row->name, form.form, value->text);
}

/* The nth word of a usage text without its brackets: "TYPE [JSON|-]" 1 is "JSON|-". */
static void usage_word(const char *usage, size_t index, char *ret_word, size_t bytes)
{
    const char *at = usage;
    size_t length;

    for (; index > 0 && *at; index--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    at += strspn(at, "[");
    length = strcspn(at, " ].");
    snprintf(ret_word, bytes, "%.*s", (int)length, length ? at : "another word");
}

int args_check_words(const struct args *args)
{
    const struct command *command = args->command;
    char word[64];

    if (args->word_count < command->words_min) {
        usage_word(command->usage, args->word_count, word, sizeof word);
        return args_usage(args, "%s is missing: holdfast %s %s", word, command->name,
                          command->usage);
    }
    if (args->word_count > command->words_max) {
        return args_usage(args, "'%s' is one word too many: holdfast %s%s%s",
                          args->words[command->words_max], command->name,
                          command->usage[0] ? " " : "", command->usage);
    }
    return 0;
}
