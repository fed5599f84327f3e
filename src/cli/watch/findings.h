/*
 * findings.h - is everything as it should be? What the command `check` and the route GET check say.
 *
 * The numbers of a namespace are compared with limits. That something waits is no problem as long
 * as it does not wait for long; so a subscription that does not move is reported when its oldest
 * event is older than the limit, with the reason why it does not. What waits for its time is
 * overdue when no process has brought it for a minute.
 */
#ifndef HF_CLI_WATCH_FINDINGS_H
#define HF_CLI_WATCH_FINDINGS_H

#include "base/text/buf.h"
#include "base/text/json_write.h"

#include <holdfast.h>
#include <stdbool.h>

#define FINDINGS_NAMES_MAX 4096 /* subscriptions that are asked for by name */
#define FINDINGS_MAX_WAIT_MS INT64_C(300000)

/* The numbers are the exit codes of plugins of Nagios. */
enum { FINDING_OK, FINDING_WARNING, FINDING_CRITICAL, FINDING_UNKNOWN };

struct check_limits {
    int64_t max_wait_ms;
    int64_t max_dead;
    int64_t max_lag; /* -1: none */
    int64_t nodes;
};

struct findings {
    struct check_limits limits;
    int64_t now_us;
    const char *const *names; /* of the subscriptions that are looked at; none: all */
    size_t name_count;
    int64_t own_nodes; /* 1: this process works for the namespace, too */
    int (*see)(const hf_subscription_info *info, void *ctx); /* called for each; may be NULL */
    void *ctx;

    /* What was found. */
    hf_stats stats;
    int worst;
    int64_t problems;               /* how many */
    int64_t checked;                /* subscriptions; -1: not known */
    struct buf lines;               /* for people, each with its NUL */
    struct buf first;               /* the first of the worst ones */
    struct buf objects;             /* for programs, separated by commas */
    bool named[FINDINGS_NAMES_MAX]; /* names that are subscriptions */
};

/* With the limits that hold if none are given. */
void findings_init(struct findings *findings, int64_t now_us);
hf_status findings_look(struct findings *findings, hf_bus *bus);
/* It could not be looked at, and this is the only problem: no number is known. */
void findings_fail(struct findings *findings, int level, const char *check, const char *message);
/* The fields of an object. */
void findings_show(struct json_out *json, const struct findings *findings);
/* "WARNING" */
const char *findings_level(int level);
void findings_release(struct findings *findings);

#endif
