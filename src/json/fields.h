/*
 * fields.h - single fields of a JSON object, for all that Holdfast says in JSON.
 *
 * Times are RFC 3339 strings; what is absent or not known is null.
 */
#ifndef HF_JSON_FIELDS_H
#define HF_JSON_FIELDS_H

#include "base/text/json_write.h"

#include <stdbool.h>
#include <stdint.h>

void show_string(struct json_out *json, const char *key, const char *value); /* NULL: null */
void show_int(struct json_out *json, const char *key, int64_t value);        /* -1: null */
void show_bool(struct json_out *json, const char *key, bool value);
void show_double(struct json_out *json, const char *key, double value); /* negative: null */
void show_time(struct json_out *json, const char *key, int64_t us);     /* -1: null */
/* The number of a dead letter, as a string: it has more digits than a float keeps. -1: null. */
void show_id(struct json_out *json, const char *key, int64_t id);

/* JSON that was published, on one line: white space between tokens becomes a space and control
 * characters inside strings are escaped, which changes no value. NULL: null. */
void show_raw(struct json_out *json, const char *key, const char *bytes, size_t length);
/* The same of a text that ends with its NUL. */
void show_json(struct json_out *json, const char *key, const char *text);

/* The word of a choice "ordered|shared" by its number from 1. Below that: null, and "-". */
void show_choice(struct json_out *json, const char *key, const char *choices, int value);
const char *show_choice_word(const char *choices, int value, char *ret_word, size_t bytes);

#endif
