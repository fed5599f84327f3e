/*
 * work.h - what `work` and `serve` work for: some subscriptions, each with its handler.
 *
 *     plan.c     command line or configuration file -> struct work
 *     join.c     opens what handlers need, stores subscriptions, registers handlers
 *     handlers.c what the bus has registered
 *     change.c   from one plan to another while it works
 *     assign.c   fixed partitions
 *     declare.c  makes schedules and retention what the file says
 *     wait.c     waits for the end, and makes the exit status of it
 *     work.c     the command `work`: starts and stops
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

/* A configuration that was read. It lives as long as something has texts of it. */
struct work_source {
    struct config config;
    size_t users;
};

struct work_item {
    struct work_item *next; /* of those that are retired */
    struct work_source *source;
    const char *name;
    const char *patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    hf_subscription_options options;  /* what is not given stays as it is stored */
    const struct config_entry *entry; /* of the file; NULL: the command line says it */
    int line;                         /* of the file */
    const char *assigned;             /* the only partitions to work for; NULL: a fair share */
    const char *output;               /* where what commands print is kept; NULL: nowhere */
    int32_t total;                    /* how many partitions `assigned` counts on; -1: not said */
    bool batches;                     /* batch_by is said: the command gets batches */
    struct work_stored stored;
    struct webhook_options webhook; /* url NULL: the handler is a command */
    struct deliver deliver;
    atomic_int running;  /* handlers that use it */
    char waits_for[512]; /* the last reason why it does not move that was told */
    enum work_fate fate;
    struct work_waiter waiter;
};

struct work {
    struct cli *cli;
    const char *file; /* the configuration; NULL: the command line says it all */
    struct work_source *source;
    struct work_item *items[CONFIG_SUBSCRIPTIONS_MAX]; /* owned */
    size_t count;
    struct work_entry *entries; /* what the bus has registered (handlers.c) */
    struct work_item *retired;  /* of plans before this one: a handler may still use them */
    struct work_source *first;  /* texts of the first plan that are used to the end */
    bool serves;                /* for `serve`: what commands print goes to the log */
    bool abandoned;             /* a thread still uses all this: leave it to the exit */
    int64_t drain_ms;
    int64_t margin_ms; /* between ending the commands and the end of the drain */
    struct work_log *log;
    int done_fd; /* readable when a subscription is settled; -1: without --until-empty */
};

/* Fills in the items, drain_ms, and whatever of the options and of the cli (url, namespace) the
 * command line and the file say. 0, or the exit code. End it with work_release, also then. */
int work_plan(struct work *work, hf_options *options);
/* The same for `serve`: all subscriptions of the file, if there is one and it has some. */
int work_plan_serve(struct work *work, hf_options *options);
void work_release(struct work *work);

/* NULL after a complaint. work_source_put takes NULL. */
struct work_source *work_source_new(void);
void work_source_put(struct work_source *source);
/* A new item behind the others. NULL after a complaint. */
struct work_item *work_item_new(struct work *work);

/* Opens what the handlers need besides the bus. 0, or the exit code after a complaint. */
int work_prepare(struct work *work);
/* Makes the database what the file says (or finds out whether the command line fits it), and
 * registers the handlers of all subscriptions on cli->bus. 0, or the exit code. */
int work_join(struct work *work);
/* Its parts, for one item: opens what its handler needs; finds out what is stored, and whether that
 * may become what the plan says; stores it; registers it. */
int work_prepare_item(struct work *work, struct work_item *item);
int work_check_item(struct work *work, struct work_item *item);
int work_store_item(struct work *work, struct work_item *item);
int work_register_item(struct work *work, struct work_item *item);
void work_item_free(struct work_item *item);

/* How a plan differs from the one before. */
struct work_changes {
    size_t added;
    size_t changed;
    size_t removed;
};

/* Carries out another plan of the same file in place of this one, which works: all of it or, after
 * complaints, nothing. `next` is used up. 0, or the exit code. One thread at a time. */
int work_change(struct work *work, struct work *next, struct work_changes *ret_changes);
/* Frees what plans before this one needed and no handler uses any more. */
void work_sweep(struct work *work);

/* From now on handlers that run may finish until then (monotonic), because the bus is about to
 * stop. */
void work_drain(struct work *work, int64_t until_us);

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

/* The subscriptions of the file that the command line names, or all: at most
 * CONFIG_SUBSCRIPTIONS_MAX. False after a complaint. */
bool work_select(const struct args *args, const struct config *config, const char *file,
                 struct config_entry **ret_chosen, size_t *ret_count);

#endif
