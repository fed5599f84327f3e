/*
 * out.c - writing to people.
 *
 * stderr lines are formatted, made safe and written with one write(2) under a lock, because the
 * bus's threads report failures while the main thread talks. stdout goes through stdio for
 * listings; out_write is for `work`, whose commands' output must not be torn. A failure of stdout
 * (a full disk, a closed pipe) is remembered, ends listings early and becomes the exit code: a
 * listing that lost lines must not look like a complete one. stdio would remember that it failed
 * but not why, so its stream writes by out_write, too, which keeps the reason.
 */
#include "cli/terminal/out.h"

#include "base/banned.h"
#include "base/text/json_write.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "base/time/time.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#define OUT_LINE_BYTES_MAX 16384
#define OUT_COLUMNS_DEFAULT 80 /* of a terminal that does not say */

/* Messages are for a person, lines of a log with their time, or JSON objects. */
enum form { FORM_PLAIN, FORM_DATED, FORM_JSON };

static struct {
    bool quiet;
    bool color;
    enum form form;  /* of messages */
    bool wide;       /* nothing is cut */
    bool complained; /* about the failure */
    char first_complaint[OUT_COMPLAINT_BYTES];
    atomic_int failed; /* errno of the first failed write to stdout; 0: none */
    pthread_mutex_t lock;
} out = {.lock = PTHREAD_MUTEX_INITIALIZER};

static ssize_t write_stream(void *cookie, const char *bytes, size_t length)
{
    (void)cookie;
    return out_write(STDOUT_FILENO, bytes, length) ? (ssize_t)length : 0; /* 0: it failed */
}

void out_begin(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_stream});

    if (!stream) {
        return; /* then a failure has no reason */
    }
    setvbuf(stream, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = stream;
}

void out_init(bool quiet, bool no_color)
{
    const char *forbidden = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    out.quiet = quiet;
    out.color = !no_color && !(forbidden && forbidden[0]) && isatty(STDOUT_FILENO) &&
                !(terminal && strcmp(terminal, "dumb") == 0);
}

bool out_is_quiet(void)
{
    return out.quiet;
}

void out_json_messages(void)
{
    out.form = FORM_JSON;
}

void out_date_messages(void)
{
    if (out.form == FORM_PLAIN) {
        out.form = FORM_DATED;
    }
}

bool out_has_json_messages(void)
{
    return out.form == FORM_JSON;
}

/* ---- stderr ---------------------------------------------------------------------------------- */

/* The first failure is the one that is told. */
static void note_failure(int error)
{
    int none = 0;

    atomic_compare_exchange_strong(&out.failed, &none, error);
}

bool out_write(int fd, const char *bytes, size_t length)
{
    bool written = true;

    pthread_mutex_lock(&out.lock);
    while (length > 0) {
        ssize_t count = write(fd, bytes, length);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            if (fd == STDOUT_FILENO) {
                note_failure(errno);
            }
            written = false;
            break;
        }
        bytes += count;
        length -= (size_t)count;
    }
    pthread_mutex_unlock(&out.lock);
    return written;
}

static void message_json(struct buf *line, const char *level, const char *text)
{
    struct json_out json;
    char time[TIME_TEXT_BYTES];

    time_format(clock_wall_us(), time);
    json_out_init(&json, line);
    json_object_begin(&json);
    json_key(&json, "at");
    json_string(&json, text_of(time));
    json_key(&json, "level");
    json_string(&json, text_of(level));
    json_key(&json, "message");
    json_string(&json, text_of(text));
    json_object_end(&json);
}

static void stderr_line(const char *level, const char *prefix, const char *format, va_list list)
{
    char text[OUT_LINE_BYTES_MAX / 4];
    struct buf line;

    vsnprintf(text, sizeof text, format, list);
    buf_init(&line, OUT_LINE_BYTES_MAX * 2);
    if (out.form == FORM_JSON) {
        message_json(&line, level, text);
    } else {
        if (out.form == FORM_DATED) {
            char time[TIME_TEXT_BYTES];
            time_format(clock_wall_us(), time);
            buf_printf(&line, "%.19sZ  ", time);
        } else {
            buf_append(&line, prefix, strlen(prefix));
        }
        utf8_sanitize(text_of(text), &line);
    }
    buf_char(&line, '\n');
    out_write(STDERR_FILENO, buf_terminate(&line), line.length);
    buf_release(&line);
}

void out_complain(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    pthread_mutex_lock(&out.lock);
    if (!out.first_complaint[0]) {
        va_list copy;
        va_copy(copy, list);
        vsnprintf(out.first_complaint, sizeof out.first_complaint, format, copy);
        va_end(copy);
    }
    pthread_mutex_unlock(&out.lock);
    stderr_line("error", "holdfast: ", format, list);
    va_end(list);
}

const char *out_complaint(char words[OUT_COMPLAINT_BYTES])
{
    pthread_mutex_lock(&out.lock);
    snprintf(words, OUT_COMPLAINT_BYTES, "%s", out.first_complaint);
    pthread_mutex_unlock(&out.lock);
    return words;
}

void out_hint(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    stderr_line("info", "", format, list);
    va_end(list);
}

void out_say(const char *format, ...)
{
    va_list list;

    if (out.quiet) {
        return;
    }
    va_start(list, format);
    stderr_line("info", "", format, list);
    va_end(list);
}

/* ---- stdout ---------------------------------------------------------------------------------- */

const char *out_on(enum out_style style)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[31m", "\033[32m", "\033[33m"};
    return out.color ? codes[style] : "";
}

const char *out_off(void)
{
    return out.color ? "\033[0m" : "";
}

void out_text_bytes(struct text text)
{
    struct buf buf;

    buf_init(&buf, SIZE_MAX / 4);
    utf8_sanitize(text, &buf);
    fwrite(buf_terminate(&buf), 1, buf.length, stdout);
    buf_release(&buf);
}

void out_payload(const char *bytes, size_t length)
{
    if (isatty(STDOUT_FILENO)) {
        out_text_bytes((struct text){bytes, length});
        putchar('\n');
    } else {
        fwrite(bytes, 1, length, stdout);
    }
}

void out_text(const char *text)
{
    out_text_bytes(text_of(text));
}

void out_text_cut(struct text text, size_t bytes_max)
{
    char words[OUT_WORDS_BYTES];
    struct text shown = utf8_cut(text, bytes_max);

    out_text_bytes(shown);
    if (shown.length < text.length) {
        printf("… (%s)", out_bytes((int64_t)text.length, words));
    }
}

void out_json_line(struct buf *buf)
{
    buf_char(buf, '\n');
    if (buf_status(buf) != HF_OK) {
        out_lose(hf_errmsg());
    } else {
        fwrite(buf->bytes, 1, buf->length, stdout);
    }
    buf_clear(buf);
}

void out_lose(const char *why)
{
    out_complain("cannot make the output: %s", why);
    out.complained = true;
    note_failure(EIO);
}

bool out_failed(void)
{
    return atomic_load(&out.failed) || ferror(stdout);
}

bool out_is_closed(void)
{
    struct pollfd stdout_end = {.fd = STDOUT_FILENO};

    return poll(&stdout_end, 1, 0) > 0 && (stdout_end.revents & (POLLERR | POLLHUP)) != 0;
}

bool out_finish(void)
{
    fflush(stdout);
    if (!out_failed()) {
        return true;
    }
    note_failure(EIO);
    /* A reader that closed the pipe wants no more. */
    if (atomic_load(&out.failed) != EPIPE && !out.complained) {
        out_complain("cannot write the output: %s", strerror(atomic_load(&out.failed)));
    }
    out.complained = true;
    return false;
}

int out_columns(void)
{
    struct winsize size;

    if (out.wide || !isatty(STDOUT_FILENO)) {
        return 0;
    }
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return OUT_COLUMNS_DEFAULT;
    }
    return size.ws_col;
}

void out_be_wide(void)
{
    out.wide = true;
}

/* ---- Words ----------------------------------------------------------------------------------- */

const char *out_duration(int64_t ms, char words[OUT_WORDS_BYTES])
{
    int64_t seconds = ms / 1000;

    if (ms < 0) {
        snprintf(words, OUT_WORDS_BYTES, "-");
    } else if (ms < 1000) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "ms", ms);
    } else if (seconds < 60 && ms % 1000) {
        snprintf(words, OUT_WORDS_BYTES, "%.1fs", (double)(ms / 100) / 10);
    } else if (seconds < 60) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "s", seconds);
    } else if (seconds < 3600 && seconds % 60) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "m%" PRId64 "s", seconds / 60, seconds % 60);
    } else if (seconds < 3600) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "m", seconds / 60);
    } else if (seconds < 86400 && seconds / 60 % 60) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "h%" PRId64 "m", seconds / 3600,
                 seconds / 60 % 60);
    } else if (seconds < 86400) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "h", seconds / 3600);
    } else if (seconds / 3600 % 24) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "d%" PRId64 "h", seconds / 86400,
                 seconds / 3600 % 24);
    } else {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "d", seconds / 86400);
    }
    return words;
}

const char *out_ago(int64_t us, int64_t now_us, char words[OUT_WORDS_BYTES])
{
    return out_when(us, us > now_us ? us : now_us, words);
}

const char *out_when(int64_t us, int64_t now_us, char words[OUT_WORDS_BYTES])
{
    char duration[OUT_WORDS_BYTES];
    int64_t ms = (now_us - us) / 1000;
    int64_t whole = ms < 0 ? -ms : ms;

    whole -= whole >= 1000 ? whole % 1000 : 0;
    out_duration(whole, duration);
    if (us == -1) {
        snprintf(words, OUT_WORDS_BYTES, "-");
    } else if (ms >= 0 && ms < 1000) {
        snprintf(words, OUT_WORDS_BYTES, "just now");
    } else if (ms < 0) {
        snprintf(words, OUT_WORDS_BYTES, "in %.40s", duration);
    } else {
        snprintf(words, OUT_WORDS_BYTES, "%.40s ago", duration);
    }
    return words;
}

const char *out_bytes(int64_t bytes, char words[OUT_WORDS_BYTES])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 0) {
        snprintf(words, OUT_WORDS_BYTES, "-");
    } else if (bytes < 1024) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 " B", bytes);
    } else {
        for (; value >= 1024 && unit < 3; unit++) {
            value /= 1024;
        }
        snprintf(words, OUT_WORDS_BYTES, "%.1f %s", value, units[unit]);
    }
    return words;
}

const char *out_time(int64_t us, char words[OUT_WORDS_BYTES])
{
    if (us == -1) {
        snprintf(words, OUT_WORDS_BYTES, "-");
    } else {
        time_format(us, words);
    }
    return words;
}

const char *out_rate(double rate, char words[OUT_WORDS_BYTES])
{
    if (rate < 0) {
        snprintf(words, OUT_WORDS_BYTES, "-");
    } else {
        snprintf(words, OUT_WORDS_BYTES, "%.1f", rate);
    }
    return words;
}

const char *out_number(int64_t number, char words[OUT_WORDS_BYTES])
{
    if (number == -1) {
        snprintf(words, OUT_WORDS_BYTES, "-");
    } else {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64, number);
    }
    return words;
}

const char *out_at_least(int64_t number, bool more, char words[OUT_WORDS_BYTES])
{
    snprintf(words, OUT_WORDS_BYTES, number == -1 ? "-" : "%" PRId64 "%s", number, more ? "+" : "");
    return words;
}

/* Between single quotes the shell changes nothing. */
void out_quote(struct buf *line, const char *word)
{
    buf_char(line, '\'');
    for (; *word; word++) {
        if (*word == '\'') {
            buf_append(line, "'\\''", 4);
        } else {
            buf_char(line, *word);
        }
    }
    buf_char(line, '\'');
}
