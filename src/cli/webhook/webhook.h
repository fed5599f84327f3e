/*
 * webhook.h - posting events to a URL, for `work` and `serve`.
 *
 * The client of HTTP and what it needs for TLS are in the program holdfast-serve
 * (cli/core/serve.h). A command that is to post events asks for the client: the plain command
 * becomes that program then, and starts again with the same arguments.
 */
#ifndef HF_CLI_WEBHOOK_WEBHOOK_H
#define HF_CLI_WEBHOOK_WEBHOOK_H

#include "cli/core/cli.h"
#include "cli/webhook/network.h"

#define WEBHOOK_URL_BYTES_MAX 2048
#define WEBHOOK_HOST_BYTES 264 /* of "name:port", with its NUL */

/* How requests are made. All texts outlive the webhook. */
struct webhook_options {
    const char *url;
    const char *secret_file; /* NULL: requests are not signed */
    const char *ca_file;     /* NULL: the certificates that the system trusts */
    bool structured;         /* CloudEvents in structured mode; else in binary mode */
    int per_host_max;        /* requests to one host at a time, of all webhooks of the process */
    int64_t timeout_ms;      /* of a request with its answer */
    int64_t connect_ms;      /* of it, for the connection with TLS */
    struct network_rules networks;
    hf_log_fn log; /* what is wrong with a file that has changed; may be NULL */
    void *log_ctx;
};

/* One delivery: an event, or (batch) all of a batch as one request. */
struct webhook_job {
    const hf_event *const *events;
    size_t count;
    bool batch;
    hf_delivery *delivery;        /* gets the error */
    int64_t limit_ms;             /* until the handler must have returned */
    bool (*cancelled)(void *ctx); /* asked ten times a second: end it now? */
    bool (*stopping)(void *ctx);  /* if it was cancelled: because the worker stops? */
    void *ctx;
};

struct webhook;

struct webhook_client {
    /* HF_INVALID, HF_DENIED, HF_NOTFOUND: the URL or one of the files, with the reason. */
    hf_status (*open)(const struct webhook_options *options, struct webhook **ret_webhook);
    /* Any thread. Returns within the job's limit. */
    hf_verdict (*post)(struct webhook *webhook, const struct webhook_job *job);
    /* No post runs. NULL is allowed. */
    void (*close)(struct webhook *webhook);
};

/* The client. A program without one becomes the program that has it, and does not return, unless
 * that fails: NULL after a complaint. */
const struct webhook_client *webhook_client(struct cli *cli);

/* What a URL must be before it is tried: http or https, with a host, without user and password,
 * without spaces and control characters. HF_INVALID says what is wrong, without quoting the URL,
 * which may hold secrets. *ret_host, if not NULL, is the host with its port, if one is given. */
hf_status webhook_url_check(struct text url, char ret_host[WEBHOOK_HOST_BYTES]);

/* The URL as it may be shown: without its query. */
const char *webhook_url_shown(const char *url, char *ret_shown, size_t bytes);

#endif
