/*
 * audit.c - see audit.h.
 *
 * A record is one write(2) of one line to a file that is open for appending, so several processes
 * may share a file. A record that cannot be written is complained about in the log, at most once a
 * minute: the request has been answered by the database already, so refusing it would be a lie.
 */
#include "server/audit.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "cli/terminal/out.h"
#include "cli/work/log.h"
#include "server/http/peer.h"
#include "server/http/router.h"
#include "server/page/page.h"
#include "json/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>

#define LINE_BYTES_MAX 262144 /* a path of 32 KiB, every byte of it escaped */
#define COMPLAIN_US INT64_C(60000000)

struct audit {
    char *path; /* NULL: the log */
    bool is_off;
    pthread_mutex_t mutex; /* protects what follows */
    int fd;                /* of the file */
    bool is_cut;           /* its last line was not written to the end */
    int64_t complained_us; /* monotonic; 0: never */
};

/* ---- What is recorded ------------------------------------------------------------------------ */

/* Requests of programs at work with events, which the log leaves out. */
static bool is_work(const struct route *route)
{
    static const char *const templates[] = {
        "events",
        "subscriptions/{name}/claim",
        "subscriptions/{name}/ack",
        "subscriptions/{name}/nack",
        "subscriptions/{name}/release",
        "subscriptions/{name}/bury",
        "subscriptions/{name}/touch",
    };

    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        if (strcmp(route->template_text, templates[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_recorded(const struct audit *audit, const struct exchange *exchange)
{
    if (audit->is_off || strcmp(exchange->method, "GET") == 0) {
        return false;
    }
    return audit->path || !exchange->route || !is_work(exchange->route);
}

static const char *action_of(const struct exchange *exchange)
{
    if (exchange->route) {
        return exchange->route->name;
    }
    if (strcmp(exchange->path, PAGE_SESSION) == 0) {
        return strcmp(exchange->method, "POST") == 0 ? "log_in" : "log_out";
    }
    return NULL;
}

static const char *via_of(const struct exchange *exchange)
{
    switch (exchange->actor[0] ? exchange->bearer.via : VIA_NONE) {
    case VIA_LOCAL:
        return "local";
    case VIA_TOKEN:
        return "token";
    case VIA_SESSION:
        return "session";
    case VIA_NONE:
        break;
    }
    return NULL;
}

static const char *result_of(int status)
{
    switch (status) {
    case MHD_HTTP_UNAUTHORIZED:
    case MHD_HTTP_FORBIDDEN:
    case MHD_HTTP_MISDIRECTED_REQUEST:
        return "refused";
    default:
        return status < MHD_HTTP_BAD_REQUEST ? "done" : "failed";
    }
}

static void write_json(struct buf *line, const struct exchange *exchange, bool to_log)
{
    bool has_namespace = exchange->route && exchange->route->scope == SCOPE_NAMESPACE;
    struct json_out json;
    char address[PEER_TEXT_BYTES];

    json_out_init(&json, line);
    json_object_begin(&json);
    show_time(&json, "at", clock_wall_us());
    if (to_log) {
        show_string(&json, "level", "info");
        show_string(&json, "message", "audit");
    }
    show_string(&json, "actor", exchange->actor[0] ? exchange->actor : NULL);
    show_string(&json, "via", via_of(exchange));
    show_string(&json, "address", peer_text(exchange->connection, address));
    show_string(&json, "action", action_of(exchange));
    show_string(&json, "namespace", has_namespace ? exchange->namespace_name : NULL);
    show_string(&json, "method", exchange->method);
    show_string(&json, "path", exchange->path);
    show_int(&json, "status", exchange->status);
    show_string(&json, "result", result_of(exchange->status));
    json_object_end(&json);
    buf_char(line, '\n');
}

/* ---- Where it goes --------------------------------------------------------------------------- */

static void write_log(const struct exchange *exchange)
{
    const char *via = via_of(exchange);
    char address[PEER_TEXT_BYTES];
    struct buf line;

    peer_text(exchange->connection, address);
    if (!out_has_json_messages()) {
        work_log_say(NULL, "audit: %s%s%s%s from %s: %s %s: %d %s",
                     exchange->actor[0] ? exchange->actor : "-", via ? " (" : "", via ? via : "",
                     via ? ")" : "", address, exchange->method, exchange->path, exchange->status,
                     result_of(exchange->status));
        return;
    }
    buf_init(&line, LINE_BYTES_MAX);
    write_json(&line, exchange, true);
    if (buf_status(&line) == HF_OK && !out_is_quiet()) {
        out_write(STDERR_FILENO, line.bytes, line.length);
    }
    buf_release(&line);
}

static void complain(struct audit *audit, const char *why)
{
    int64_t now_us = clock_mono_us();

    if (audit->complained_us == 0 || now_us - audit->complained_us >= COMPLAIN_US) {
        audit->complained_us = now_us;
        work_log_complain(NULL, "the audit file %s cannot be written: %s", audit->path, why);
    }
}

static void write_file(struct audit *audit, const struct exchange *exchange)
{
    struct buf line;

    buf_init(&line, LINE_BYTES_MAX);
    pthread_mutex_lock(&audit->mutex);
    if (audit->is_cut) {
        buf_char(&line, '\n');
    }
    write_json(&line, exchange, false);
    if (buf_status(&line) != HF_OK) {
        complain(audit, hf_errmsg());
    } else {
        ssize_t written = write(audit->fd, line.bytes, line.length);
        if (written != (ssize_t)line.length) {
            complain(audit, written < 0 ? strerror(errno) : "the disk is full");
        }
        audit->is_cut = written < 0 ? audit->is_cut : written != (ssize_t)line.length;
    }
    pthread_mutex_unlock(&audit->mutex);
    buf_release(&line);
}

void audit_record(struct audit *audit, const struct exchange *exchange)
{
    if (!is_recorded(audit, exchange)) {
        return;
    }
    if (audit->path) {
        write_file(audit, exchange);
    } else {
        write_log(exchange);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static hf_status open_file(const char *path, int *ret_fd)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

    if (fd < 0) {
        return fail(errno == EACCES || errno == EPERM ? HF_DENIED : HF_IO,
                    "the audit file %s cannot be opened: %s", path, strerror(errno));
    }
    *ret_fd = fd;
    return HF_OK;
}

hf_status audit_open(const char *where, struct audit **ret_audit)
{
    struct audit *audit = mem_calloc(1, sizeof *audit);
    hf_status status = audit ? mutex_init(&audit->mutex) : fail(HF_NOMEM, "out of memory");

    if (status) {
        mem_free(audit);
        return status;
    }
    audit->fd = -1;
    audit->is_off = strcmp(where, AUDIT_OFF) == 0;
    if (!audit->is_off && strcmp(where, AUDIT_LOG) != 0) {
        audit->path = mem_dup(where, strlen(where));
        status = audit->path ? open_file(where, &audit->fd) : fail(HF_NOMEM, "out of memory");
    }
    if (status) {
        audit_close(audit);
        return status;
    }
    *ret_audit = audit;
    return HF_OK;
}

hf_status audit_reopen(struct audit *audit)
{
    int fd = -1;
    hf_status status = audit->path ? open_file(audit->path, &fd) : HF_OK;

    if (fd >= 0) {
        pthread_mutex_lock(&audit->mutex);
        close(audit->fd);
        audit->fd = fd;
        pthread_mutex_unlock(&audit->mutex);
    }
    return status;
}

bool audit_has_file(const struct audit *audit)
{
    return audit->path != NULL;
}

void audit_close(struct audit *audit)
{
    if (!audit) {
        return;
    }
    if (audit->fd >= 0) {
        close(audit->fd);
    }
    pthread_mutex_destroy(&audit->mutex);
    mem_free(audit->path);
    mem_free(audit);
}
