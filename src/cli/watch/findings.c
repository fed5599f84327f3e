/*
 * findings.c - see findings.h.
 */
#include "cli/watch/findings.h"

#include "base/banned.h"
#include "base/err.h"
#include "cli/terminal/out.h"
#include "json/fields.h"

#include <stdarg.h>

#define LINE_BYTES_MAX ((size_t)1 << 30) /* some thousand subscriptions are some megabytes */
#define OVERDUE_US INT64_C(60000000)
#define SENTENCE_BYTES 4096

static const char *const level_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
static const char *const level_keys[] = {"ok", "warning", "critical", "unknown"};
/* What is not known must not hide what is known to be bad. */
static const int gravity[] = {0, 1, 3, 2};

const char *findings_level(int level)
{
    return level_names[level];
}

/* ---- Problems -------------------------------------------------------------------------------- */

static void add_object(struct findings *findings, int level, const char *check,
                       const char *subscription, const char *sentence)
{
    struct json_out json;

    if (findings->objects.length > 0) {
        buf_char(&findings->objects, ',');
    }
    json_out_init(&json, &findings->objects);
    json_object_begin(&json);
    show_string(&json, "level", level_keys[level]);
    show_string(&json, "check", check);
    show_string(&json, "subscription", subscription);
    show_string(&json, "message", sentence);
    json_object_end(&json);
}

__attribute__((format(printf, 5, 6))) static void report(struct findings *findings, int level,
                                                         const char *check,
                                                         const char *subscription,
                                                         const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    findings->problems++;
    add_object(findings, level, check, subscription, sentence);
    buf_printf(&findings->lines, "%s: %s%s%s%c", level_names[level],
               subscription ? subscription : "", subscription ? ": " : "", sentence, '\0');
    if (gravity[level] > gravity[findings->worst]) {
        findings->worst = level;
        buf_clear(&findings->first);
        buf_printf(&findings->first, "%s%s%s", subscription ? subscription : "",
                   subscription ? ": " : "", sentence);
    }
}

/* ---- What is looked at ----------------------------------------------------------------------- */

/* Why its events wait: the reason of the library, or what is done with them. */
static void say_cause(const hf_subscription_info *info, int64_t now_us, struct buf *out)
{
    char words[OUT_WORDS_BYTES];
    bool pending = info->pending > 0 || info->pending_more == 1;

    if (info->not_moving) {
        buf_printf(out, "%s", info->not_moving);
    } else if (pending) {
        buf_printf(out, "%s %s pending, and it moves",
                   out_at_least(info->pending, info->pending_more == 1, words),
                   info->pending == 1 && info->pending_more == 0 ? "event is" : "events are");
    } else if (info->in_flight > 0) {
        buf_printf(out, "%" PRId64 " event%s in flight", info->in_flight,
                   info->in_flight == 1 ? " is" : "s are");
    } else {
        buf_printf(out, "%" PRId64 " wait for a retry", info->retrying + info->held);
    }
    if (!info->not_moving && !pending && info->in_flight > 0 && info->claimed_at_us >= 0) {
        buf_printf(out, ", handed out %s (holdfast lease list %s says to whom)",
                   out_ago(info->claimed_at_us, now_us, words), info->name);
    }
}

static void check_wait(struct findings *findings, const hf_subscription_info *info)
{
    struct buf cause;
    char waited[OUT_WORDS_BYTES];
    char limit[OUT_WORDS_BYTES];
    int64_t now_us = findings->now_us;
    int64_t wait_ms = info->oldest_waiting_us < 0 ? -1 : (now_us - info->oldest_waiting_us) / 1000;

    if (wait_ms > findings->limits.max_wait_ms) {
        int64_t whole_ms = wait_ms - wait_ms % 1000;
        wait_ms = whole_ms > findings->limits.max_wait_ms ? whole_ms : wait_ms;
        buf_init(&cause, SENTENCE_BYTES);
        say_cause(info, now_us, &cause);
        report(findings, FINDING_CRITICAL, "wait", info->name,
               "the oldest event has waited for %s, the limit is %s; %s",
               out_duration(wait_ms, waited), out_duration(findings->limits.max_wait_ms, limit),
               buf_terminate(&cause));
        buf_release(&cause);
    } else if (wait_ms == -1 && info->pending_more == 1) {
        report(findings, FINDING_WARNING, "wait", info->name,
               "it is not known how long its events wait: none was found in the part of the log "
               "that was looked at, and it is %" PRId64 " positions behind",
               info->lag);
    }
}

/* Is it one of those that were asked for? */
static bool is_wanted(struct findings *findings, const char *name)
{
    bool wanted = findings->name_count == 0;

    for (size_t i = 0; i < findings->name_count; i++) {
        if (strcmp(findings->names[i], name) == 0) {
            findings->named[i] = true;
            wanted = true;
        }
    }
    return wanted;
}

static int check_subscription(const hf_subscription_info *info, void *ctx)
{
    struct findings *findings = ctx;
    const struct check_limits *limits = &findings->limits;

    if (!is_wanted(findings, info->name)) {
        return 0;
    }
    findings->checked++;
    if (findings->see) {
        findings->see(info, findings->ctx);
    }
    check_wait(findings, info);
    if (info->dead > limits->max_dead) {
        report(findings, FINDING_CRITICAL, "dead", info->name,
               "%" PRId64 " dead letter%s, the limit is %" PRId64, info->dead,
               info->dead == 1 ? "" : "s", limits->max_dead);
    }
    if (limits->max_lag >= 0 && info->lag > limits->max_lag) {
        report(findings, FINDING_CRITICAL, "lag", info->name,
               "it is %" PRId64 " positions behind, the limit is %" PRId64, info->lag,
               limits->max_lag);
    }
    if (info->breaker && strcmp(info->breaker, "open") == 0) {
        report(findings, FINDING_WARNING, "breaker", info->name,
               "its circuit breaker is open: too many first attempts failed");
    }
    return 0;
}

/* What should have entered the log and did not; and whether a process is there to bring it. */
static void check_overdue(struct findings *findings, const char *check, const char *what,
                          int64_t due, int64_t next_us)
{
    char ago[OUT_WORDS_BYTES];
    int64_t now_us = findings->now_us;
    int64_t nodes = findings->stats.nodes;

    if (due <= 0 || next_us < 0 || now_us - next_us <= OVERDUE_US) {
        return;
    }
    report(findings, FINDING_CRITICAL, check, NULL, "%" PRId64 " %s%s overdue, the first %s; %s",
           due, what, due == 1 ? " is" : "s are", out_ago(next_us, now_us, ago),
           nodes == 0 ? "no process has the namespace open that could bring what is due "
                        "(holdfast work, or holdfast tick from cron)"
                      : "processes have the namespace open, and none brings it "
                        "(holdfast tick brings what is due)");
}

static void check_namespace(struct findings *findings)
{
    const hf_stats *stats = &findings->stats;

    if (stats->nodes < findings->limits.nodes) {
        report(findings, FINDING_CRITICAL, "nodes", NULL,
               "%" PRId64 " live node%s, at least %" PRId64 " should be there", stats->nodes,
               stats->nodes == 1 ? "" : "s", findings->limits.nodes);
    }
    check_overdue(findings, "later", "event for later", stats->later_due, stats->later_next_us);
    check_overdue(findings, "schedules", "schedule", stats->schedules_due,
                  stats->schedules_next_us);
}

/* A name that is no subscription may be one that was removed by mistake. */
static void check_names(struct findings *findings)
{
    for (size_t i = 0; i < findings->name_count; i++) {
        if (!findings->named[i]) {
            report(findings, FINDING_UNKNOWN, "subscription", findings->names[i],
                   "there is no such subscription");
        }
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

void findings_init(struct findings *findings, int64_t now_us)
{
    *findings = (struct findings){
        .limits = {.max_wait_ms = FINDINGS_MAX_WAIT_MS, .max_lag = -1},
        .now_us = now_us,
        .stats = {.size = sizeof findings->stats},
    };
    buf_init(&findings->lines, LINE_BYTES_MAX);
    buf_init(&findings->first, LINE_BYTES_MAX);
    buf_init(&findings->objects, LINE_BYTES_MAX);
}

hf_status findings_look(struct findings *findings, hf_bus *bus)
{
    hf_status status = hf_stats_get(bus, &findings->stats);

    if (!status) {
        findings->stats.nodes += findings->own_nodes;
        status = hf_subscription_list(bus, check_subscription, findings);
    }
    if (status) {
        return status;
    }
    check_namespace(findings);
    check_names(findings);
    status = buf_status(&findings->lines);
    status = status ? status : buf_status(&findings->first);
    return status ? status : buf_status(&findings->objects);
}

void findings_fail(struct findings *findings, int level, const char *check, const char *message)
{
    buf_clear(&findings->lines);
    buf_clear(&findings->first);
    buf_clear(&findings->objects);
    findings->problems = 0;
    findings->worst = FINDING_OK;
    findings->checked = -1;
    findings->stats = (hf_stats){
        .size = sizeof findings->stats,
        .oldest_waiting_us = -1,
        .dead = -1,
        .nodes = -1,
        .later_due = -1,
        .schedules_due = -1,
    };
    report(findings, level, check, NULL, "%s", message);
}

void findings_show(struct json_out *json, const struct findings *findings)
{
    const hf_stats *stats = &findings->stats;

    show_string(json, "status", level_keys[findings->worst]);
    show_int(json, "subscriptions", findings->checked);
    show_time(json, "oldest_waiting", stats->oldest_waiting_us);
    show_int(json, "dead", stats->dead);
    show_int(json, "nodes", stats->nodes);
    show_int(json, "later_due", stats->later_due);
    show_int(json, "schedules_due", stats->schedules_due);
    json_key(json, "problems");
    json_array_begin(json);
    if (findings->objects.length > 0) {
        json_raw(json, buf_text(&findings->objects));
    }
    json_array_end(json);
}

void findings_release(struct findings *findings)
{
    buf_release(&findings->lines);
    buf_release(&findings->first);
    buf_release(&findings->objects);
}
