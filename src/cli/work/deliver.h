/*
 * deliver.h - one delivery becomes one run of a command: the handler of `work`.
 */
#ifndef HF_CLI_WORK_DELIVER_H
#define HF_CLI_WORK_DELIVER_H

#include "cli/webhook/webhook.h"
#include "cli/work/output.h"

#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct deliver {
    const char *command; /* for /bin/sh -c; NULL: events are posted */
    const struct webhook_client *client;
    struct webhook *webhook;    /* where they are posted to; owned */
    const char *url;            /* for $HOLDFAST_URL of the command */
    char *open_url;             /* the same without passwords, for the command */
    int64_t handler_timeout_ms; /* of the subscription */
    const char *timeout_option; /* what sets it, for the message of a timeout */
    int64_t stop_grace_ms;      /* SIGTERM to SIGKILL when the drain is over */
    bool inherit_stdout;        /* only one command runs at a time, and its output is not kept */
    bool logs_output;           /* what commands print goes to the log, and nothing to our stdout */
    struct output_dir output;   /* where it is kept */
    char **environment;         /* ours without what the delivery sets; owned */
    size_t environment_count;
    _Atomic int64_t drain_until_us; /* monotonic: until then running commands may finish although
                                       the bus is stopping; 0: it is not stopping */
    _Atomic int64_t uncounted;      /* attempts that ended without counting */
};

/* Takes the process's environment. False: no memory. */
bool deliver_init(struct deliver *deliver);
void deliver_release(struct deliver *deliver);

/* How long a command may run and how long after SIGTERM it may live, so that both end before the
 * subscription's timeout. */
void deliver_times(int64_t handler_timeout_ms, int64_t *ret_timeout_ms, int64_t *ret_grace_ms);

/* An hf_handler_fn; ctx is a struct deliver. */
hf_verdict deliver_event(const hf_event *event, hf_delivery *delivery, void *ctx);
/* An hf_batch_handler_fn: one run of the command for all of the events, a line each on stdin. */
hf_verdict deliver_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                         void *ctx);

#endif
