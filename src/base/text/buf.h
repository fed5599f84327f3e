/*
 * buf.h - a growable byte buffer with a stated maximum.
 *
 * Appending never has to be checked: the first failure is remembered in `failed`, everything after
 * it does nothing, and the caller asks buf_status once at the end. The bytes are always followed by
 * a NUL that is not part of the length.
 */
#ifndef HF_BASE_TEXT_BUF_H
#define HF_BASE_TEXT_BUF_H

#include "base/text/text.h"

#include <holdfast.h>

struct buf {
    char *bytes;      /* NULL until the first append; else bytes[length] is NUL */
    size_t length;    /* never above bytes_max */
    size_t capacity;  /* allocated bytes, the NUL included */
    size_t bytes_max; /* largest length */
    hf_status failed; /* HF_OK, HF_NOMEM, or HF_INVALID: over the maximum */
};

/* Allocates nothing yet. */
void buf_init(struct buf *buf, size_t bytes_max);

void buf_append(struct buf *buf, const void *bytes, size_t length);

/* An absent text appends nothing. */
void buf_append_text(struct buf *buf, struct text text);

void buf_char(struct buf *buf, char c);

void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes room for `bytes` more and returns where to write them; buf_advance then counts what was
 * written. NULL on failure. */
char *buf_reserve(struct buf *buf, size_t bytes);
void buf_advance(struct buf *buf, size_t bytes);

/* The content as a NUL-terminated string; never NULL. Valid until the next append. */
const char *buf_terminate(struct buf *buf);

/* The content as a text; never absent. Valid until the next append. */
struct text buf_text(const struct buf *buf);

/* Gives the bytes, NUL-terminated, to the caller, who frees them by mem_free; the buffer is empty
 * again. NULL if the buffer failed or there is no memory. */
char *buf_detach(struct buf *buf, size_t *ret_length);

/* HF_OK, or the first failure since the last clear, with its message. */
hf_status buf_status(const struct buf *buf);

/* Empties it, keeps the memory, forgets a failure. */
void buf_clear(struct buf *buf);

/* Gives the memory back; the buffer may be used again. */
void buf_release(struct buf *buf);

#endif
