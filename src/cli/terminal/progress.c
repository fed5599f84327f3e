/*
 * progress.c - draws the progress line: a bar if the whole is known, the count, and the rate.
 */
#include "cli/terminal/progress.h"

#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/terminal/out.h"

#define DRAW_PERIOD_US 100000
#define BAR_WIDTH 30

void progress_begin(struct progress *progress, const char *what)
{
    progress->shown = isatty(STDERR_FILENO) && !out_is_quiet();
    progress->what = what;
    progress->started_us = clock_mono_us();
    progress->drawn_us = progress->started_us;
}

void progress_update(struct progress *progress, int64_t count, int64_t part, int64_t whole)
{
    char line[256];
    int length = 0;
    int64_t now_us = clock_mono_us();
    double seconds = (double)(now_us - progress->started_us) / 1e6;

    if (!progress->shown || now_us - progress->drawn_us < DRAW_PERIOD_US) {
        return;
    }
    progress->drawn_us = now_us;
    if (whole > 0) {
        int filled = part >= whole ? BAR_WIDTH : (int)((double)part / (double)whole * BAR_WIDTH);
        length = snprintf(line, sizeof line, "\r\033[K[%.*s%*s] %3d %%  ", filled,
                          "##############################", BAR_WIDTH - filled, "",
                          part >= whole ? 100 : (int)((double)part / (double)whole * 100));
    } else {
        length = snprintf(line, sizeof line, "\r\033[K");
    }
    length += snprintf(line + length, sizeof line - (size_t)length, "%" PRId64 " %s, %.0f/s", count,
                       progress->what, seconds > 0 ? (double)count / seconds : 0.0);
    out_write(STDERR_FILENO, line, (size_t)length);
}

void progress_end(struct progress *progress)
{
    if (progress->shown) {
        out_write(STDERR_FILENO, "\r\033[K", 4);
    }
    progress->shown = false;
}
