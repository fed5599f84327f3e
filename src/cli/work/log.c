/*
 * log.c - writes log records, which come from several threads, as whole lines.
 *
 *     2026-11-17T12:00:03Z  mailer  user.created at 17, attempt 2 of 4: exit status 3; again in 2s
 */
#include "cli/work/log.h"

#include "base/banned.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

#include <stdarg.h>

#define LINE_BYTES_MAX 65536

static const char *level_word(hf_log_level level)
{
    switch (level) {
    case HF_LOG_DEBUG:
        return "debug";
    case HF_LOG_WARN:
        return "warn";
    case HF_LOG_ERROR:
        return "error";
    case HF_LOG_DEFAULT:
    case HF_LOG_INFO:
        return "info";
    }
    return "info";
}

static void write_json(struct buf *line, const hf_log_record *record)
{
    struct json_out json;

    json_out_init(&json, line);
    json_object_begin(&json);
    show_time(&json, "at", record->at_us);
    show_string(&json, "level", level_word(record->level));
    show_string(&json, "message", record->message);
    show_string(&json, "subscription", record->subscription);
    show_string(&json, "event_id", record->event_id);
    show_string(&json, "event_type", record->event_type);
    show_int(&json, "position", record->position);
    show_int(&json, "attempt", record->attempt);
    show_int(&json, "attempts_max", record->attempts_max);
    show_int(&json, "delay_ms", record->delay_ms);
    show_string(&json, "error", record->error);
    json_object_end(&json);
}

/* The time, and what the line is about. */
static void text_begin(struct buf *line, int64_t at_us, const char *subscription)
{
    char time[TIME_TEXT_BYTES];

    time_format(at_us, time);
    buf_printf(line, "%.19sZ  ", time);
    if (subscription) {
        utf8_sanitize(text_of(subscription), line);
        buf_append(line, "  ", 2);
    }
}

static void write_text(struct buf *line, const hf_log_record *record)
{
    char words[OUT_WORDS_BYTES];

    text_begin(line, record->at_us, record->subscription);
    if (!record->event_type || record->attempt < 0) {
        utf8_sanitize(text_of(record->message), line);
        return;
    }
    utf8_sanitize(text_of(record->event_type), line);
    buf_printf(line, " at %" PRId64 ", attempt %" PRId32 " of %" PRId32 ": ", record->position,
               record->attempt, record->attempts_max);
    utf8_sanitize(text_of(record->error ? record->error : record->message), line);
    if (record->delay_ms >= 0) {
        buf_printf(line, "; again in %s", out_duration(record->delay_ms, words));
    } else {
        buf_printf(line, "; dead letter");
    }
}

static void write_record(const hf_log_record *record)
{
    struct buf line;

    buf_init(&line, LINE_BYTES_MAX);
    if (out_has_json_messages()) {
        write_json(&line, record);
    } else {
        write_text(&line, record);
    }
    buf_char(&line, '\n');
    if (buf_status(&line) == HF_OK) {
        out_write(STDERR_FILENO, line.bytes, line.length);
    }
    buf_release(&line);
}

/* The line of the library that a subscription is paused; its words are held by a test. */
static bool is_pause(const hf_log_record *record)
{
    return record->subscription && !record->event_type && record->level == HF_LOG_INFO &&
           strncmp(record->message, "paused by ", strlen("paused by ")) == 0;
}

static void on_record(const hf_log_record *record, void *ctx)
{
    struct work_log *log = ctx;

    if (record->event_type && record->attempt >= 0 && record->delay_ms < 0) {
        atomic_fetch_add(&log->dead, 1);
    } else if (record->subscription && !record->event_type && record->level >= HF_LOG_WARN) {
        atomic_store(&log->attention, true);
    }
    if ((record->level < HF_LOG_WARN && !record->error && out_is_quiet()) ||
        (log->says_pauses && is_pause(record))) {
        return;
    }
    write_record(record);
}

void work_log_record(const hf_log_record *record, void *ctx)
{
    on_record(record, ctx);
}

void work_log_options(hf_options *options, struct work_log *log)
{
    options->log = on_record;
    options->log_ctx = log;
}

static void say(hf_log_level level, const char *subscription, const char *format, va_list list)
{
    char message[2048];
    hf_log_record record = {.level = level,
                            .at_us = clock_wall_us(),
                            .message = message,
                            .subscription = subscription,
                            .position = -1,
                            .attempt = -1,
                            .attempts_max = -1,
                            .delay_ms = -1};

    vsnprintf(message, sizeof message, format, list);
    write_record(&record);
}

void work_log_say(const char *subscription, const char *format, ...)
{
    va_list list;

    if (out_is_quiet()) {
        return;
    }
    va_start(list, format);
    say(HF_LOG_INFO, subscription, format, list);
    va_end(list);
}

void work_log_complain(const char *subscription, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(HF_LOG_ERROR, subscription, format, list);
    va_end(list);
}

static void command_json(struct buf *object, const char *subscription, const char *event_id,
                         const char *stream, struct text line)
{
    struct json_out json;

    json_out_init(&json, object);
    json_object_begin(&json);
    show_time(&json, "at", clock_wall_us());
    show_string(&json, "level", "info");
    json_key(&json, "message");
    json_string(&json, line);
    show_string(&json, "subscription", subscription);
    show_string(&json, "event_id", event_id);
    show_string(&json, "stream", stream);
    json_object_end(&json);
}

void work_log_command(const char *subscription, const char *event_id, const char *stream,
                      struct text line)
{
    struct buf whole;

    buf_init(&whole, LINE_BYTES_MAX * (size_t)7);
    if (out_has_json_messages()) {
        command_json(&whole, subscription, event_id, stream, line);
    } else {
        text_begin(&whole, clock_wall_us(), subscription);
        buf_append(&whole, "| ", 2);
        utf8_sanitize(line, &whole);
    }
    buf_char(&whole, '\n');
    if (buf_status(&whole) == HF_OK) {
        out_write(STDERR_FILENO, whole.bytes, whole.length);
    }
    buf_release(&whole);
}
