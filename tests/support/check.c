/*
 * check.c - says which claim does not hold, then leaves by the thread's own way out.
 */
#include "support/check.h"

static const char *claim_name = "(no claim)";
static __thread void (*escape_of_thread)(void);

void check_claim(const char *name)
{
    claim_name = name;
}

const char *check_claim_name(void)
{
    return claim_name;
}

void check_escape(void (*escape)(void))
{
    escape_of_thread = escape;
}

void check_fail(const char *file, int line, const char *format, ...)
{
    char what[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);

    const char *slash = strrchr(file, '/');
    fprintf(stderr, "# %s: %s:%d: %s\n", claim_name, slash ? slash + 1 : file, line, what);
    fflush(stderr);
    if (escape_of_thread) {
        escape_of_thread();
    } else {
        _fail(file, line);
    }
    abort();
}

void check_answer(hf_status wanted, hf_status actual, const char *call, const char *file, int line)
{
    if (wanted == actual) {
        return;
    }
    check_fail(file, line, "%s answered %s (\"%s\"), wanted %s", call, status_name(actual),
               actual == HF_OK ? "" : err_message(), status_name(wanted));
}

void check_equal(int64_t wanted, int64_t actual, const char *what, const char *file, int line)
{
    if (wanted != actual) {
        check_fail(file, line, "%s is %" PRId64 ", wanted %" PRId64, what, actual, wanted);
    }
}

void check_read(const char *wanted, const char *actual, const char *what, const char *file,
                int line)
{
    if (wanted == actual || (wanted && actual && strcmp(wanted, actual) == 0)) {
        return;
    }
    check_fail(file, line, "%s is \"%.700s\", wanted \"%.700s\"", what, actual ? actual : "(NULL)",
               wanted ? wanted : "(NULL)");
}

void check_match(struct text wanted, struct text actual, const char *what, const char *file,
                 int line)
{
    if (!wanted.bytes || !actual.bytes) {
        if (wanted.bytes || actual.bytes) {
            check_fail(file, line, "%s is %s, wanted %s", what, actual.bytes ? "there" : "absent",
                       wanted.bytes ? "there" : "absent");
        }
        return;
    }
    size_t shorter = wanted.length < actual.length ? wanted.length : actual.length;
    for (size_t i = 0; i < shorter; i++) {
        if (wanted.bytes[i] != actual.bytes[i]) {
            check_fail(file, line, "%s differs at byte %zu: 0x%02x, wanted 0x%02x", what, i,
                       (unsigned char)actual.bytes[i], (unsigned char)wanted.bytes[i]);
        }
    }
    if (wanted.length != actual.length) {
        check_fail(file, line, "%s has %zu bytes, wanted %zu", what, actual.length, wanted.length);
    }
}

void check_contain(const char *part, const char *actual, const char *what, const char *file,
                   int line)
{
    if (!actual || !strstr(actual, part)) {
        check_fail(file, line, "%s is \"%.700s\", wanted \"%s\" in it", what,
                   actual ? actual : "(NULL)", part);
    }
}
