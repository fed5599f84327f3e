/*
 * out.h - what people see: messages on stderr, text on stdout, colours, times and sizes in words.
 *
 * Data goes to stdout, messages go to stderr. Everything that comes from data goes through
 * utf8_sanitize on its way to either, so that an event can never send a control character to a
 * terminal. Lines on stderr are written whole and may come from any thread; a command whose stderr
 * is read by programs writes each of them as a JSON object (out_json_messages).
 */
#ifndef HF_CLI_TERMINAL_OUT_H
#define HF_CLI_TERMINAL_OUT_H

#include "base/text/buf.h"
#include "base/text/text.h"

#include <stdbool.h>
#include <stdint.h>

#define OUT_WORDS_BYTES 48 /* enough for every short text below */

enum out_style { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_RED, OUT_GREEN, OUT_YELLOW };

/* Once, before anything else: from now on it is known why writing to stdout failed. */
void out_begin(void);

/* Colours are for terminals, unless $NO_COLOR or TERM=dumb. */
void out_init(bool quiet, bool no_color);
bool out_is_quiet(void);

/* From now on each message on stderr is an object: at, level and message. */
void out_json_messages(void);
/* From now on each message on stderr begins with its time: it is a line of a log. */
void out_date_messages(void);
bool out_has_json_messages(void);

/* ---- stderr ---------------------------------------------------------------------------------- */

/* "holdfast: what went wrong". Always shown. */
void out_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define OUT_COMPLAINT_BYTES 1024

/* The first complaint of this process, cut off if it is longer; "": there was none. */
const char *out_complaint(char words[OUT_COMPLAINT_BYTES]);

/* A line of help that follows a complaint. Always shown. */
void out_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Talk: not with --quiet. */
void out_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes all bytes to a descriptor as one piece; other writers of this function wait. False on a
 * failure, which for stdout is remembered. */
bool out_write(int fd, const char *bytes, size_t length);

/* ---- stdout ---------------------------------------------------------------------------------- */

/* The escape sequences of a style for stdout; "" without colours. */
const char *out_on(enum out_style style);
const char *out_off(void);

/* Text from data, made safe. An absent one prints nothing. */
void out_text(const char *text);
void out_text_bytes(struct text text);
/* Byte for byte; on a terminal as out_text_bytes, with a newline. */
void out_payload(const char *bytes, size_t length);

/* As out_text, at most `bytes_max` bytes of it, with an ellipsis and the size if it is longer. */
void out_text_cut(struct text text, size_t bytes_max);

/* One line of JSON; if the buffer failed the output is lost (out_lose). Clears the buffer. */
void out_json_line(struct buf *buf);

/* Complains that a part of the output cannot be made, which counts as a failure to write it. */
void out_lose(const char *why);

/* True once writing to stdout has failed: listings should end. */
bool out_failed(void);

/* True once no program reads stdout any more: it is a pipe or a terminal whose other end is closed.
 * Asks the system, without writing anything. Any thread. */
bool out_is_closed(void);

/* Flushes. False, after one complaint, if any of the output could not be written. */
bool out_finish(void);

/* Columns of the terminal that stdout is; 0 if it is none, or if nothing is to be cut. */
int out_columns(void);

/* From now on nothing is cut, whatever stdout is. */
void out_be_wide(void);

/* ---- Words ----------------------------------------------------------------------------------- */

/* When something happened: "just now", "5s ago", "3h ago"; "-" for -1. What is later than now came
 * while the command ran, or is by another clock: it is "just now", too. */
const char *out_ago(int64_t us, int64_t now_us, char words[OUT_WORDS_BYTES]);

/* A time on either side of now: besides those, "in 20s". */
const char *out_when(int64_t us, int64_t now_us, char words[OUT_WORDS_BYTES]);

/* "250ms", "1.5s", "30s", "5m", "2h30m"; "-" for a negative one. */
const char *out_duration(int64_t ms, char words[OUT_WORDS_BYTES]);

/* "512 B", "1.2 KiB"; "-" for a negative one. */
const char *out_bytes(int64_t bytes, char words[OUT_WORDS_BYTES]);

/* "2026-11-15T03:54:38.123456Z"; "-" for -1. */
const char *out_time(int64_t us, char words[OUT_WORDS_BYTES]);

/* "12.5"; "-" for a negative one. */
const char *out_rate(double rate, char words[OUT_WORDS_BYTES]);

/* A number; "-" for -1. */
const char *out_number(int64_t number, char words[OUT_WORDS_BYTES]);

/* "17", or "17+": at least so many; "-" for -1. */
const char *out_at_least(int64_t number, bool more, char words[OUT_WORDS_BYTES]);

/* Adds a word for the shell: 'it'\''s'. */
void out_quote(struct buf *line, const char *word);

#endif
