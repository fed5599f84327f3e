/*
 * json_write.h - JSON written piece by piece into a buf.
 *
 *     struct json_out out;
 *     json_out_init(&out, &buf);
 *     json_object_begin(&out);
 *     json_key(&out, "name");
 *     json_string(&out, name);
 *     json_object_end(&out);
 *     return buf_status(&buf);
 *
 * Commas come by themselves. Nothing here fails: what does not fit is remembered in the buf. The
 * output is valid JSON and valid UTF-8 whatever the strings hold.
 */
#ifndef HF_BASE_TEXT_JSON_WRITE_H
#define HF_BASE_TEXT_JSON_WRITE_H

#include "base/text/buf.h"
#include "base/text/text.h"

#include <stdbool.h>
#include <stdint.h>

struct json_out {
    struct buf *buf; /* the caller's */
    int32_t depth;   /* open arrays and objects */
    bool comma;      /* the next key or value follows another one */
};

void json_out_init(struct json_out *out, struct buf *buf);

void json_object_begin(struct json_out *out);
void json_object_end(struct json_out *out);
void json_array_begin(struct json_out *out);
void json_array_end(struct json_out *out);

void json_key(struct json_out *out, const char *key);
void json_key_text(struct json_out *out, struct text key);

/* Escapes quotes, backslashes, control characters (DEL and C1 included), U+2028 and U+2029; a byte
 * that is not UTF-8 becomes \ufffd, and so does NUL, which the engines refuse. An absent text is
 * written as null. */
void json_string(struct json_out *out, struct text text);

void json_int(struct json_out *out, int64_t value);

/* The shortest digits that read back as the same number; null if it is not finite. */
void json_double(struct json_out *out, double value);

void json_bool(struct json_out *out, bool value);
void json_null(struct json_out *out);

/* A value that is JSON already and passed json_check. An absent text is written as null. */
void json_raw(struct json_out *out, struct text json);

#endif
