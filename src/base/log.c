/*
 * log.c - handing records to the application's callback. See log.h.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/time/clock.h"

#define LOG_MESSAGE_BYTES 1024

hf_log_record log_blank(hf_log_level level, const char *message)
{
    hf_log_record record = {
        .level = level,
        .at_us = -1,
        .message = message,
        .position = -1,
        .attempt = -1,
        .attempts_max = -1,
        .delay_ms = -1,
    };
    return record;
}

void log_record(const struct log *log, hf_log_record *record)
{
    if (!log->write || record->level < log->level) {
        return;
    }
    record->at_us = clock_wall_us();
    log->write(record, log->ctx);
}

void log_about(const struct log *log, hf_log_level level, const char *subscription,
               const char *format, ...)
{
    if (!log->write || level < log->level) {
        return;
    }
    char message[LOG_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    hf_log_record record = log_blank(level, message);
    record.subscription = subscription;
    log_record(log, &record);
}
