/*
 * json_read.h - pulling values out of JSON that passed json_check.
 *
 * Values are raw texts: slices of the input, a string with its quotes. Nothing is allocated until a
 * string is decoded. On input that did not pass json_check the functions stay inside their bounds
 * and answer something; that something is not defined.
 */
#ifndef HF_BASE_TEXT_JSON_READ_H
#define HF_BASE_TEXT_JSON_READ_H

#include "base/text/buf.h"
#include "base/text/text.h"

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

enum json_kind {
    JSON_NOTHING, /* no value: empty or not JSON */
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

/* Told by the first byte that is not white space. */
enum json_kind json_kind(struct text raw);

/* A walk over the members of an object or the elements of an array. */
struct json_iter {
    const char *at;  /* where the next member begins */
    const char *end; /* end of the input */
    bool object;
    bool broken; /* the input is not JSON; the walk ended early */
};

/* False if raw is neither an array nor an object. */
bool json_iter_init(struct json_iter *iter, struct text raw);

/* The next member: ret_key is the raw key (absent in an array; may be NULL if not wanted),
 * ret_value the raw value without white space around it. False at the end. */
bool json_iter_next(struct json_iter *iter, struct text *ret_key, struct text *ret_value);

/* Whether a raw key, once decoded, is this string. */
bool json_key_is(struct text raw, struct text key);

/* The raw value of the first member with this key, whichever way the key is escaped. False if there
 * is none or raw is not an object. */
bool json_find(struct text object, const char *key, struct text *ret_raw);

/* Appends the characters of a raw string. HF_INVALID if raw is not a string; the buf's failure if
 * it does not fit. */
hf_status json_string_decode(struct text raw, struct buf *buf);

/* HF_INVALID if raw is not a number of this kind: a fraction or an exponent is no int. */
hf_status json_int_decode(struct text raw, int64_t *ret_value);
hf_status json_double_decode(struct text raw, double *ret_value);

/* json_find and decode in one step: HF_NOTFOUND if the key is absent or null. */
hf_status json_find_string(struct text object, const char *key, struct buf *buf);
hf_status json_find_int(struct text object, const char *key, int64_t *ret_value);

#endif
