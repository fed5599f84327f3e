/*
 * work.h - what `work` works for: some subscriptions, each with its command.
 *
 *     plan.c     command line or configuration file -> struct work
 *     assign.c   fixed partitions
 *     declare.c  makes schedules and retention what the file says
 *     wait.c     waits for the end, and makes the exit status of it
 *     work.c     subscribes, starts and stops
 */
#ifndef HF_CLI_WORK_WORK_H
#define HF_CLI_WORK_WORK_H

#include "cli/config/config.h"
#include "cli/core/cli.h"
#include "cli/work/deliver.h"
#include "cli/work/log.h"

#include <pthread.h>

/* What is stored about a subscription. */
struct work_stored {
    bool exists;
    int64_t created_at_us; /* one that is removed and created again has another */
    hf_subscription_options options;
    size_t pattern_count;
    char patterns[HF_PATTERNS_MAX][HF_TYPE_BYTES_MAX + 1];
};

/* What became of a subscription that is worked for. */
enum work_fate {
    WORK_GOES_ON = 0,
    WORK_SETTLED, /* --until-empty: everything published before the start */
    WORK_PAUSED,  /* --until-empty: and not everything is settled */
    WORK_REMOVED,
    WORK_FAILED /* --until-empty: the store cannot say how far it is */
};

/* hf_wait on a thread of its own, so that the main thread can answer signals. */
struct work_waiter {
    hf_bus *bus;
    const char *name;
    pthread_t thread;
    bool started;
    atomic_bool answered; /* `status` and `message` are there */
    int done_fd;          /* becomes readable then */
    hf_status status;
    char message[1024]; /* hf_errmsg belongs to its thread */
};

struct work_item {
    const char *name;
    const char *patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    hf_subscription_options options; /* what is not given stays as it is stored */
    int line;                        /* of the file that declares it; 0: the command line does */
    const char *assigned;            /* the only partitions to work for; NULL: a fair share */
    const char *output;              /* where what commands print is kept; NULL: nowhere */
    int32_t total;                   /* how many partitions `assigned` counts on; -1: not said */
    bool batches;                    /* batch_by is said: the command gets batches */
    struct work_stored stored;
    struct webhook_options webhook; /* url NULL: the handler is a command */
    struct deliver deliver;
    char waits_for[512]; /* the last reason why it does not move that was told */
    enum work_fate fate;
    struct work_waiter waiter;
};

struct work {
    struct cli *cli;
    const char *file; /* the configuration; NULL: the command line says it all */
    struct config config;
    struct work_item items[CONFIG_SUBSCRIPTIONS_MAX];
    size_t count;
    bool abandoned; /* a thread still uses all this: leave it to the exit */
    int64_t drain_ms;
    int64_t margin_ms; /* between ending the commands and the end of the drain */
    struct work_log log;
    int done_fd; /* readable when a subscription is settled; -1: without --until-empty */
};

/* Fills in the items, drain_ms, and whatever of the options and of the cli (url, namespace) the
 * command line and the file say. 0, or the exit code. End it with work_plan_release, also then. */
int work_plan(struct work *work, hf_options *options);
void work_plan_release(struct work *work);

/* Whether the partitions that one is fixed to, if it is, are some of those that the subscription
 * has or will have. Called when `stored` is known and before anything is stored. 0, or the exit
 * code after a complaint. */
int work_assign_check(const struct work *work, const struct work_item *item);
/* Fixes them, when the subscription is stored and before anything is started. */
int work_assign(const struct work *work, const struct work_item *item);

/* Makes the schedules that the file declares, and the retention of the namespace, what it says.
 * What it does not mention is left alone. 0, or the exit code after a complaint. */
int work_declare(struct work *work);

/* Why the waiting ended. */
enum work_end {
    WORK_END_NOTHING_LEFT, /* no subscription goes on: see their fates */
    WORK_END_SIGNAL,
    WORK_END_TIME,   /* --max-time */
    WORK_END_OUTPUT, /* no program reads our stdout */
    WORK_END_STORE   /* the bus cannot go on: hf_check says why */
};

/* Starts the threads of --until-empty, on a started bus. 0, or the exit code. */
int work_wait_begin(struct work *work);
enum work_end work_wait(struct work *work);
/* Joins the threads, when the bus is shut down. */
void work_wait_end(struct work *work);
/* The exit code, if stopping went well, with the messages that belong to it. */
int work_exit_code(const struct work *work, enum work_end end);

/* The file that the command line means: --config, or holdfast.yaml if it names no subscription.
 * NULL: none. */
const char *work_config_file(const struct args *args);

/* The subscriptions of the file that the command line names, or all: their count, at most
 * CONFIG_SUBSCRIPTIONS_MAX, or 0 after a complaint. */
size_t work_select(const struct args *args, const struct config *config, const char *file,
                   struct config_entry **ret_chosen);

#endif
