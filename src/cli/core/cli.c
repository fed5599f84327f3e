/*
 * cli.c - opening the bus, exit codes, questions and input.
 *
 * The exit code of a failure is the function of its status alone (cli_exit_code), so a script can
 * tell "not there" from "another process has it" from "try again" whatever the command was.
 */
#include "cli/core/cli.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/text/buf.h"
#include "cli/terminal/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#define READ_STEP_BYTES 65536

int cli_exit_code(hf_status status)
{
    switch (status) {
    case HF_OK:
        return EXIT_OK;
    case HF_INVALID:
        return EXIT_USAGE;
    case HF_NOTFOUND:
        return EXIT_NOT_FOUND;
    case HF_CONFLICT:
    case HF_STALE:
        return EXIT_CONFLICT;
    case HF_TIMEOUT:
    case HF_BUSY:
        return EXIT_TIMEOUT;
    case HF_UNKNOWN:
        return EXIT_UNKNOWN;
    case HF_UNAVAILABLE:
        return EXIT_UNAVAILABLE;
    case HF_MISUSE:
    case HF_CLOSED:
    case HF_NOSPACE:
    case HF_NOMEM:
    case HF_DENIED:
    case HF_CORRUPT:
    case HF_SCHEMA:
    case HF_IO:
        return EXIT_ERROR;
    }
    return EXIT_ERROR;
}

int cli_fail(hf_status status)
{
    const char *message = hf_errmsg();

    if (!status) {
        return EXIT_OK;
    }
    out_complain("%s", message[0] ? message : hf_status_text(status));
    return cli_exit_code(status);
}

/* What the library says about the database file: a log that grows, a file that was missing. */
static void say_warning(const hf_log_record *record, void *ctx)
{
    (void)ctx;
    if (record->level >= HF_LOG_WARN && !record->subscription) {
        out_complain("%s", record->message);
    }
}

hf_options cli_options(const struct cli *cli, hf_open_mode mode)
{
    hf_options options = HF_OPTIONS_INIT;

    options.namespace_name = cli->namespace_name;
    options.open_mode = mode;
    options.timeout_ms = args_number(&cli->args, "db-timeout", -1);
    if (strncmp(cli->url, "postgres", 8) != 0) {
        options.log = say_warning;
    }
    return options;
}

int cli_open_with(struct cli *cli, const hf_options *options)
{
    hf_status status = hf_open(cli->url, options, &cli->bus);

    if (status == HF_NOTFOUND && !args_given(&cli->args, "db") && !getenv("HOLDFAST_URL") &&
        !cli->url_is_configured) {
        int code = cli_fail(status);
        out_hint("Name the database with --db or $HOLDFAST_URL; `holdfast publish` creates one.");
        return code;
    }
    return cli_fail(status);
}

int cli_open(struct cli *cli, hf_open_mode mode)
{
    hf_options options = cli_options(cli, mode);

    options.brief = 1;
    return cli_open_with(cli, &options);
}

hf_options cli_whole_options(const struct cli *cli, hf_open_mode mode)
{
    hf_options options = cli_options(cli, mode);

    options.namespace_name = NULL;
    options.no_namespace = 1;
    return options;
}

int cli_open_whole(struct cli *cli, hf_open_mode mode)
{
    hf_options options = cli_whole_options(cli, mode);
    return cli_open_with(cli, &options);
}

int cli_open_named(struct cli *cli, hf_open_mode mode)
{
    return cli->namespace_name ? cli_open(cli, mode) : cli_open_whole(cli, mode);
}

int cli_confirm(const struct cli *cli, const char *format, ...)
{
    char question[512];
    char answer[16];
    va_list list;

    if (args_given(&cli->args, "yes")) {
        return 0;
    }
    va_start(list, format);
    vsnprintf(question, sizeof question, format, list);
    va_end(list);
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        out_complain("%s? There is no terminal to ask: repeat with --yes", question);
        return EXIT_USAGE;
    }
    out_hint("%s? [y/N]", question);
    if (fgets(answer, sizeof answer, stdin) &&
        (strcmp(answer, "y\n") == 0 || strcmp(answer, "Y\n") == 0 ||
         strcmp(answer, "yes\n") == 0)) {
        return 0;
    }
    out_complain("nothing was changed");
    return EXIT_ERROR;
}

static char *read_all(int fd, const char *name, size_t bytes_max, size_t *ret_bytes)
{
    struct buf buf;
    char *bytes = NULL;

    buf_init(&buf, bytes_max);
    for (;;) {
        char step[READ_STEP_BYTES];
        ssize_t count = read(fd, step, sizeof step);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            out_complain("cannot read %s: %s", name, strerror(errno));
            goto out;
        }
        if (count == 0) {
            break;
        }
        buf_append(&buf, step, (size_t)count);
        if (buf_status(&buf) != HF_OK) {
            out_complain("cannot read %s: %s", name, hf_errmsg());
            goto out;
        }
    }
    bytes = buf_detach(&buf, ret_bytes);
    if (!bytes) {
        out_complain("cannot read %s: out of memory", name);
    }
out:
    buf_release(&buf);
    return bytes;
}

char *cli_read_file(const char *path, size_t bytes_max, size_t *ret_bytes)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *bytes;

    if (fd < 0) {
        out_complain("cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    bytes = read_all(fd, is_stdin ? "stdin" : path, bytes_max, ret_bytes);
    if (!is_stdin) {
        close(fd);
    }
    return bytes;
}

/* The newline that `echo` and editors leave is not part of the payload. */
static void trim_newline(char *bytes, size_t *length)
{
    while (*length > 0 && (bytes[*length - 1] == '\n' || bytes[*length - 1] == '\r')) {
        bytes[--*length] = '\0';
    }
}

bool cli_payload(const char *word, const char **ret_payload, size_t *ret_bytes, char **ret_owned)
{
    *ret_owned = NULL;
    if (strcmp(word, "-") == 0) {
        return cli_payload_file("-", ret_payload, ret_bytes, ret_owned);
    }
    *ret_payload = word;
    *ret_bytes = strlen(word);
    return true;
}

bool cli_payload_file(const char *path, const char **ret_payload, size_t *ret_bytes,
                      char **ret_owned)
{
    *ret_owned = cli_read_file(path, CLI_PAYLOAD_BYTES_MAX, ret_bytes);
    if (!*ret_owned) {
        return false;
    }
    trim_newline(*ret_owned, ret_bytes);
    *ret_payload = *ret_owned;
    return true;
}
