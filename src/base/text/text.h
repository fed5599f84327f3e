/*
 * text.h - a view of bytes that another object owns.
 *
 * A text is a pointer and a length; it need not end in NUL and may hold any byte. A NULL pointer
 * means absent, which is not the same as empty: a tenant of "" is a tenant.
 */
#ifndef HF_BASE_TEXT_TEXT_H
#define HF_BASE_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
    const char *bytes; /* NULL: absent */
    size_t length;     /* in bytes; 0 when absent */
};

#define TEXT_ABSENT ((struct text){NULL, 0})

/* A text of a string literal, usable in static tables: { TEXT_LITERAL("ordered") }. */
#define TEXT_LITERAL(literal)                                                                      \
    {                                                                                              \
        "" literal "", sizeof literal - 1                                                          \
    }

/* printf("%" TEXT_PRI, TEXT_ARG(name)): prints an absent text as nothing. */
#define TEXT_PRI ".*s"
#define TEXT_ARG(text) (int)(text).length, ((text).bytes ? (text).bytes : "")

/* The text of a NUL-terminated string; absent for NULL. */
static inline struct text text_of(const char *string)
{
    return string ? (struct text){string, strlen(string)} : TEXT_ABSENT;
}

static inline bool text_is_absent(struct text text)
{
    return !text.bytes;
}

/* Takes the first byte off if it is this one. */
static inline bool text_take(struct text *rest, char c)
{
    if (rest->length == 0 || rest->bytes[0] != c) {
        return false;
    }
    rest->bytes++;
    rest->length--;
    return true;
}

/* Takes off what is before the next such byte, and that byte; or all of it, if there is none. */
static inline struct text text_cut(struct text *rest, char separator)
{
    const char *at = rest->length > 0 ? memchr(rest->bytes, separator, rest->length) : NULL;
    struct text part = {rest->bytes, at ? (size_t)(at - rest->bytes) : rest->length};
    rest->bytes += part.length + (at ? 1 : 0);
    rest->length -= part.length + (at ? 1 : 0);
    return part;
}

/* Absent equals only absent. */
bool text_equal(struct text a, struct text b);

#endif
