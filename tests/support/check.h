/*
 * check.h - assertions that name the claim they break.
 *
 * A test's name is a sentence of the contract. When an assertion fails, one line on stderr says
 * which sentence, where, and what was found instead:
 *
 *     # stale_settles_are_refused: test_settle.c:80: settle(...) answered HF_OK, wanted HF_STALE
 *
 * The same assertions work in a test, in a thread of a crowd and in a child process: what a failure
 * does there (leave the test, end the thread, exit) is set by check_escape.
 */
#ifndef HF_TESTS_SUPPORT_CHECK_H
#define HF_TESTS_SUPPORT_CHECK_H

#include "base/err.h"
#include "base/text/text.h"

#include <holdfast.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* How long anything that must happen may take, on the slowest machine under the slowest checker. */
#define DEADLINE_MS 60000

/* The call answers this status. */
#define must_answer(wanted, call) check_answer((wanted), (call), #call, __FILE__, __LINE__)
/* Two integers are equal. */
#define must_equal(wanted, actual)                                                                 \
    check_equal((int64_t)(wanted), (int64_t)(actual), #actual, __FILE__, __LINE__)
/* Something is true. */
#define must_hold(condition)                                                                       \
    ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, "%s does not hold", #condition))
/* Two strings are equal; NULL equals only NULL. */
#define must_read(wanted, actual) check_read((wanted), (actual), #actual, __FILE__, __LINE__)
/* Two texts are equal, byte by byte; absent equals only absent. */
#define must_match(wanted, actual) check_match((wanted), (actual), #actual, __FILE__, __LINE__)
/* A string contains a part. */
#define must_contain(part, actual) check_contain((part), (actual), #actual, __FILE__, __LINE__)
/* The thread's last error message contains a part. */
#define must_say(part) check_contain((part), err_message(), "the message", __FILE__, __LINE__)

/* The claim that is being tested, for messages. The string must live on. */
void check_claim(const char *name);
const char *check_claim_name(void);

/* What a failed assertion of the calling thread does after it has spoken; NULL: leaves the test. */
void check_escape(void (*escape)(void));

_Noreturn void check_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void check_answer(hf_status wanted, hf_status actual, const char *call, const char *file, int line);
void check_equal(int64_t wanted, int64_t actual, const char *what, const char *file, int line);
void check_read(const char *wanted, const char *actual, const char *what, const char *file,
                int line);
void check_match(struct text wanted, struct text actual, const char *what, const char *file,
                 int line);
void check_contain(const char *part, const char *actual, const char *what, const char *file,
                   int line);

#endif
