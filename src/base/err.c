/*
 * err.c - the sentence of the last failure, one per thread.
 *
 * A new sentence often quotes the old one ("subscription x: <old>"), so it is made in a buffer on
 * the stack and copied over only when it is complete. A sentence that is too long keeps its
 * beginning, which names the thing that failed, is cut between two characters, and ends in "…".
 * Nothing here allocates: reporting that memory has run out must not need memory.
 *
 * An engine that is a module has its own copy of this file, and is made to use the sentence of the
 * library that opened it: otherwise hf_errmsg would not see why the engine failed.
 */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char own_message[HF_ERR_BYTES_MAX];

char *err_slot(void)
{
    return own_message;
}

static char *(*_Atomic slot_of)(void) = err_slot;

void err_share(char *(*slot)(void))
{
    atomic_store(&slot_of, slot);
}

static char *last_message(void)
{
    return atomic_load_explicit(&slot_of, memory_order_relaxed)();
}

static const char ellipsis[] = "…";

/* made is full up to its final NUL: replace its last characters by the ellipsis. */
static void mark_cut(char made[HF_ERR_BYTES_MAX])
{
    size_t at = HF_ERR_BYTES_MAX - sizeof ellipsis;

    while (at > 0 && ((unsigned char)made[at] & 0xC0) == 0x80) {
        at--;
    }
    memcpy(made + at, ellipsis, sizeof ellipsis);
}

hf_status fail(hf_status status, const char *format, ...)
{
    int errno_before = errno;
    char made[HF_ERR_BYTES_MAX];
    va_list args;

    assert(status);
    va_start(args, format);
    int length = vsnprintf(made, sizeof made, format, args);
    va_end(args);
    if (length < 0) {
        snprintf(made, sizeof made, "%s", status_text(status));
    } else if ((size_t)length >= sizeof made) {
        mark_cut(made);
    }
    memcpy(last_message(), made, strlen(made) + 1);
    errno = errno_before;
    return status;
}

hf_status err_set(hf_status status, const char *message)
{
    return fail(status, "%s", message);
}

const char *err_message(void)
{
    return last_message();
}

const char *status_name(hf_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, retriable, text)                                                  \
    case name:                                                                                     \
        return #name;
        HF_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "HF_?";
}

const char *status_text(hf_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, retriable, text)                                                  \
    case name:                                                                                     \
        return text;
        HF_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "not a status of this version";
}

bool status_retriable(hf_status status)
{
    switch (status) {
#define STATUS_RETRIABLE(name, value, retriable, text)                                             \
    case name:                                                                                     \
        return retriable;
        HF_STATUS_MAP(STATUS_RETRIABLE)
#undef STATUS_RETRIABLE
    }
    return false;
}
