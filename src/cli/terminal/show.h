/*
 * show.h - events and answers of commands, as text for people and as lines of JSON.
 */
#ifndef HF_CLI_TERMINAL_SHOW_H
#define HF_CLI_TERMINAL_SHOW_H

#include "base/text/buf.h"
#include "base/text/json_write.h"
#include "json/objects.h"

#include <holdfast.h>

/* ---- A line of JSON on stdout ---------------------------------------------------------------- */

struct show_line {
    struct buf buf;
    struct json_out json;
};

/* Begins an object, which is a line by itself; the caller writes its fields (json/objects.h). */
struct json_out *show_line_begin(struct show_line *line);
/* Ends the object and prints it. One that cannot be made is lost, and said to be (out_lose). */
void show_line_end(struct show_line *line);
/* Forgets the object: nothing is printed. */
void show_line_drop(struct show_line *line);

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
/* due_us: when it enters the log, or -1 (receipt_due_us). */
void show_receipt_line(bool as_json, const hf_receipt *receipt, int64_t due_us);
/* {"name", "created"} */
void show_created(const char *name, bool created);
/* {"name", WHAT}: of a command that changes one thing, "paused" for example. */
void show_changed(const char *name, const char *what, bool is_so);
/* {"subscription", "lease", "outcome"}: of a command that answers for claimed events. */
void show_answered(const char *subscription, const char *lease, const char *outcome);
/* {"name", "role", "grantee", "granted", "changed"}: what a role may do in a namespace now. */
void show_granted(const char *const words[3], bool granted, bool changed);

#endif
