/*
 * work.h - what `work` works for: some subscriptions, each with its command.
 *
 *     plan.c     command line or configuration file -> struct work
 *     assign.c   fixed partitions
 *     declare.c  makes schedules and retention what the file says
 *     work.c          subscribes, waits for the end, stops
 */
#ifndef HF_CLI_WORK_WORK_H
#define HF_CLI_WORK_WORK_H

#include "cli/config/config.h"
#include "cli/core/cli.h"
#include "cli/work/deliver.h"

/* What is stored about a subscription. */
struct work_stored {
    bool exists;
    hf_subscription_options options;
    size_t pattern_count;
    char patterns[HF_PATTERNS_MAX][HF_TYPE_BYTES_MAX + 1];
};

struct work_item {
    const char *name;
    const char *patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    hf_subscription_options options; /* what is not given stays as it is stored */
    int line;                        /* of the file that declares it; 0: the command line does */
    const char *assigned;            /* the only partitions to work for; NULL: a fair share */
    int32_t total;                   /* how many partitions `assigned` counts on; -1: not said */
    bool batches;                    /* batch_by is said: the command gets batches */
    struct work_stored stored;
    struct deliver deliver;
    char waits_for[512]; /* the last reason why it does not move that was told */
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

/* The file that the command line means: --config, or holdfast.yaml if it names no subscription.
 * NULL: none. */
const char *work_config_file(const struct args *args);

/* The subscriptions of the file that the command line names, or all: their count, at most
 * CONFIG_SUBSCRIPTIONS_MAX, or 0 after a complaint. */
size_t work_select(const struct args *args, const struct config *config, const char *file,
                   struct config_entry **ret_chosen);

#endif
