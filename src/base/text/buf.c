/*
 * buf.c - a growable byte buffer.
 *
 * Invariant: if bytes is not NULL then length < capacity and bytes[length] is NUL; so terminating
 * needs no memory and cannot fail. Capacity doubles, from CAPACITY_MIN up to the maximum, so
 * appending n bytes one by one costs O(n). After a failure the content is what was appended before
 * it, whole appends only.
 */
#include "base/text/buf.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define CAPACITY_MIN 64

void buf_init(struct buf *buf, size_t bytes_max)
{
    assert(bytes_max <= SIZE_MAX / 2 - 1); /* so that no sum or doubling below overflows */
    *buf = (struct buf){.bytes_max = bytes_max};
}

/* bytes more were found to be within the maximum: make room for them and the NUL. */
static bool grow(struct buf *buf, size_t bytes)
{
    size_t needed = buf->length + bytes + 1;
    size_t capacity = buf->capacity ? buf->capacity : CAPACITY_MIN;

    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity > buf->bytes_max + 1) {
        capacity = buf->bytes_max + 1;
    }

    char *moved = mem_realloc(buf->bytes, capacity);

    if (!moved) {
        buf->failed = HF_NOMEM;
        return false;
    }
    buf->bytes = moved;
    buf->capacity = capacity;
    buf->bytes[buf->length] = '\0';
    return true;
}

char *buf_reserve(struct buf *buf, size_t bytes)
{
    if (buf->failed) {
        return NULL;
    }
    if (bytes > buf->bytes_max - buf->length) {
        buf->failed = HF_INVALID;
        return NULL;
    }
    if (buf->capacity - buf->length <= bytes && !grow(buf, bytes)) {
        return NULL;
    }
    return buf->bytes + buf->length;
}

void buf_advance(struct buf *buf, size_t bytes)
{
    assert(bytes < buf->capacity - buf->length);
    buf->length += bytes;
    buf->bytes[buf->length] = '\0';
}

void buf_append(struct buf *buf, const void *bytes, size_t length)
{
    if (length == 0) {
        return;
    }

    char *room = buf_reserve(buf, length);

    if (!room) {
        return;
    }
    memcpy(room, bytes, length);
    buf_advance(buf, length);
}

void buf_append_text(struct buf *buf, struct text text)
{
    buf_append(buf, text.bytes, text.length);
}

void buf_char(struct buf *buf, char c)
{
    buf_append(buf, &c, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);

    /* Most pieces fit into what is there; else the first call tells how much is needed. */
    size_t room = buf->failed ? 0 : buf->capacity - buf->length;
    int length = vsnprintf(room > 0 ? buf->bytes + buf->length : NULL, room, format, args);

    if (length < 0) {
        if (!buf->failed) {
            buf->failed = HF_INVALID;
        }
    } else if (buf_reserve(buf, (size_t)length)) {
        if ((size_t)length >= room) {
            vsnprintf(buf->bytes + buf->length, (size_t)length + 1, format, again);
        }
        buf_advance(buf, (size_t)length);
    } else if (buf->bytes) {
        buf->bytes[buf->length] = '\0'; /* the first call may have left a part behind it */
    }
    va_end(again);
    va_end(args);
}

const char *buf_terminate(struct buf *buf)
{
    return buf->bytes ? buf->bytes : "";
}

struct text buf_text(const struct buf *buf)
{
    return buf->bytes ? (struct text){buf->bytes, buf->length} : (struct text){"", 0};
}

char *buf_detach(struct buf *buf, size_t *ret_length)
{
    if (!buf_reserve(buf, 0)) {
        return NULL;
    }

    char *bytes = buf->bytes;

    if (ret_length) {
        *ret_length = buf->length;
    }
    buf_init(buf, buf->bytes_max);
    return bytes;
}

hf_status buf_status(const struct buf *buf)
{
    if (!buf->failed) {
        return HF_OK;
    }
    if (buf->failed == HF_NOMEM) {
        return fail(HF_NOMEM, "out of memory for a text of more than %zu bytes", buf->length);
    }
    return fail(buf->failed, "the text is longer than its limit of %zu bytes", buf->bytes_max);
}

void buf_clear(struct buf *buf)
{
    buf->length = 0;
    buf->failed = HF_OK;
    if (buf->bytes) {
        buf->bytes[0] = '\0';
    }
}

void buf_release(struct buf *buf)
{
    mem_free(buf->bytes);
    buf_init(buf, buf->bytes_max);
}
