/*
 * json_scan.h - a walk over JSON that checks what it walks over.
 *
 * For text that comes from outside and is taken apart at once: one pass does what json_check and
 * json_read do in two. What is valid is what json_check.h says.
 *
 *     json_scan_begin(&scan, text, 0);
 *     if (json_scan_enter(&scan, JSON_OBJECT)) {
 *         while (json_scan_next(&scan, &key, &value)) {
 *             ...
 *         }
 *     }
 *     if (!json_scan_end(&scan)) {
 *         return json_scan_failure(&scan, "the line");
 *     }
 *
 * In place of json_scan_next, which takes a member with all that is in it, json_scan_more goes to a
 * member, and json_scan_enter goes into it. No call has to be checked: after the first byte that is
 * wrong each of them answers false.
 */
#ifndef HF_BASE_TEXT_JSON_SCAN_H
#define HF_BASE_TEXT_JSON_SCAN_H

#include "base/text/json_check.h"
#include "base/text/json_read.h"

/* What is expected next. */
enum json_step {
    JSON_STEP_VALUE,
    JSON_STEP_KEY,
    JSON_STEP_AFTER_VALUE,
    JSON_STEP_DONE,
    JSON_STEP_REFUSED,
};

struct json_scan {
    const char *start;
    const char *at;
    const char *end;
    const char *reason; /* why the text is not valid; set once, at `at` */
    enum json_step step;
    int32_t depth;
    int32_t depth_max;
    uint64_t is_object[JSON_DEPTH_MAX / 64]; /* bit i: level i is an object */
};

/* depth_max: as in json_limits. */
void json_scan_begin(struct json_scan *scan, struct text text, int32_t depth_max);

/* Goes into the value that comes next. False: it is of another kind than JSON_OBJECT or JSON_ARRAY,
 * whichever was asked for, and stays the one that comes next; or the text is not valid. */
bool json_scan_enter(struct json_scan *scan, enum json_kind kind);

/* Goes into the object that comes next. HF_INVALID with the sentence of json_check_object. */
hf_status json_scan_object(struct json_scan *scan, const char *what);

/* Goes to the next member of the level that was entered last, and takes its key (absent in an
 * array; may be NULL if not wanted), so that its value comes next. False: there is none, and the
 * level is left; or the text is not valid. */
bool json_scan_more(struct json_scan *scan, struct text *ret_key);

/* Takes the value that comes next. False: the text is not valid. */
bool json_scan_value(struct json_scan *scan, struct text *ret_value);

/* json_scan_more and json_scan_value in one step. */
bool json_scan_next(struct json_scan *scan, struct text *ret_key, struct text *ret_value);

/* Whether the text is valid and ends here. */
bool json_scan_end(struct json_scan *scan);

/* HF_INVALID with the sentence of json_check for text that is not valid. */
hf_status json_scan_failure(const struct json_scan *scan, const char *what);

#endif
