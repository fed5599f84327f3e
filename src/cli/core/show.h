/*
 * show.h - events, leases and options as JSON fields and as text.
 *
 * The names of the fields are those of the structs in holdfast.h: one vocabulary for C and for
 * `--json`. Times lose their "_us" and are RFC 3339 strings; what is absent or unknown is null.
 */
#ifndef HF_CLI_CORE_SHOW_H
#define HF_CLI_CORE_SHOW_H

#include "base/text/buf.h"
#include "base/text/json_write.h"

#include <holdfast.h>

/* ---- Fields of the object that is open in `json` --------------------------------------------- */

void show_string(struct json_out *json, const char *key, const char *value); /* NULL: null */
void show_int(struct json_out *json, const char *key, int64_t value);        /* -1: null */
void show_bool(struct json_out *json, const char *key, bool value);
void show_double(struct json_out *json, const char *key, double value);
void show_time(struct json_out *json, const char *key, int64_t us); /* -1: null */

/* JSON that was published, on one line: white space between tokens becomes a space and control
 * characters inside strings are escaped, which changes no value. NULL: null. */
void show_raw(struct json_out *json, const char *key, const char *bytes, size_t length);

/* All fields of an event. */
void show_event(struct json_out *json, const hf_event *event);
/* How far a subscription is, and what waits or is at work for it. */
void show_numbers(struct json_out *json, const hf_subscription_info *info);

/* The word of a choice "ordered|shared" by its number from 1. Below that: null, and "-". */
void show_choice(struct json_out *json, const char *key, const char *choices, int value);
const char *show_choice_word(const char *choices, int value, char *ret_word, size_t bytes);

/* ---- Text on stdout -------------------------------------------------------------------------- */

/* One line for a human: position, time, id, type, key, and the beginning of the payload. */
void show_event_line(const hf_event *event);

/* A block for a human: every field on its own line, the payload last. */
void show_event_block(const hf_event *event, int64_t now_us);

/* "name:   value" with the names in one column; nothing if the value is absent. */
void show_field(const char *name, const char *value);
/* The time, and how long ago that is; -1: nothing. */
void show_field_time(const char *name, int64_t us, int64_t now_us);
/* The same for a time that may be to come. */
void show_field_when(const char *name, int64_t us, int64_t now_us);

/* The attempts of a delivery ([{"attempt","at","error","node"}, ...]) as lines. */
void show_attempts(const char *attempts_json);

/* ---- Answers of commands that change something ----------------------------------------------- */

/* What became of a publish: a line for a human, or an object. */
void show_receipt(bool as_json, const hf_receipt *receipt);
/* {"name", "created"} */
void show_created(const char *name, bool created);

#endif
