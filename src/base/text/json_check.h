/*
 * json_check.h - is this JSON that both engines will take?
 *
 * RFC 8259 with strict UTF-8, minus what either engine refuses: \u0000 and unpaired surrogate
 * escapes. Payloads come back byte for byte, so nothing is parsed into a tree: one pass, no
 * allocation, no recursion.
 */
#ifndef HF_BASE_TEXT_JSON_CHECK_H
#define HF_BASE_TEXT_JSON_CHECK_H

#include <holdfast.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_DEFAULT HF_JSON_DEPTH_MAX
#define JSON_DEPTH_MAX 1024 /* the largest depth_max */

struct json_limits {
    size_t bytes_max;  /* 0: no limit */
    int32_t depth_max; /* arrays and objects inside each other; 0: JSON_DEPTH_DEFAULT */
};

/* HF_INVALID with a sentence that begins with `what` and names the byte offset and the reason:
 * "payload is not valid JSON at byte 17: a comma or '}' was expected". limits may be NULL. */
hf_status json_check(const char *bytes, size_t length, const struct json_limits *limits,
                     const char *what);

/* The same, and the value must be an object. */
hf_status json_check_object(const char *bytes, size_t length, const struct json_limits *limits,
                            const char *what);

#endif
