/*
 * webhook.c - posts events: the client of webhooks (cli/webhook/webhook.h).
 *
 * A delivery waits until its host takes another request, makes the message, posts it, and turns the
 * answer into a verdict (cli/webhook/answer.h). What is kept of a failure names the host and never
 * the whole URL, whose path and query may be secret.
 */
#include "cli/webhook/webhook.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "cli/terminal/out.h"
#include "cli/webhook/answer.h"
#include "server/webhook/hosts.h"
#include "server/webhook/message.h"
#include "server/webhook/transfer.h"

struct webhook {
    struct webhook_options options;
    char host_name[WEBHOOK_HOST_BYTES];
    struct host *host;
    struct secrets *secrets; /* NULL: requests are not signed */
    struct transfers *transfers;
};

/* ---- What an answer means -------------------------------------------------------------------- */

/* Bytes of others as a part of a message: one line, without control characters. */
static const char *made_safe(const char *bytes, size_t length, struct buf *buf)
{
    while (length > 0 && (unsigned char)bytes[length - 1] <= ' ') {
        length--;
    }
    buf_clear(buf);
    utf8_sanitize(utf8_cut((struct text){bytes, length}, TRANSFER_EXCERPT_BYTES), buf);
    return buf_terminate(buf);
}

/* The receiver wants no more: the subscription is paused, and the event waits with it. */
static hf_verdict stop_for_good(const struct webhook *webhook, hf_delivery *delivery)
{
    const char *name = hf_delivery_subscription(delivery);
    char reason[WEBHOOK_HOST_BYTES + 160];

    snprintf(reason, sizeof reason,
             "%s answered 410 Gone: it wants no more events. To go on: holdfast sub resume",
             webhook->host_name);
    if (hf_pause(hf_delivery_bus(delivery), name, reason) != HF_OK) {
        hf_delivery_error(delivery, "HTTP 410 from %s, and the subscription cannot be paused: %s",
                          webhook->host_name, hf_errmsg());
    } else {
        hf_delivery_error(delivery, "HTTP 410 from %s: the subscription is paused",
                          webhook->host_name);
    }
    return HF_RETRY_UNCOUNTED;
}

static hf_verdict judge_answer(const struct webhook *webhook, hf_delivery *delivery,
                               const struct transfer_result *result)
{
    enum answer_meaning meaning = answer_meaning(result->status);
    int64_t wait_ms;
    struct buf words;

    if (meaning == ANSWER_DONE) {
        return HF_ACK;
    }
    if (meaning == ANSWER_GONE) {
        return stop_for_good(webhook, delivery);
    }
    buf_init(&words, sizeof result->excerpt * 3 + 1);
    if (result->status >= 300 && result->status < 400 && result->location[0]) {
        hf_delivery_error(delivery, "HTTP %d from %s: it redirects to %s, which is not followed",
                          result->status, webhook->host_name,
                          made_safe(result->location, strlen(result->location), &words));
    } else {
        made_safe(result->excerpt, result->excerpt_bytes, &words);
        hf_delivery_error(delivery, "HTTP %d from %s%s%s", result->status, webhook->host_name,
                          words.length ? ": " : "", buf_terminate(&words));
    }
    buf_release(&words);
    wait_ms = answer_wait_ms(result->status, text_of(result->retry_after), clock_wall_us());
    if (wait_ms > 0) {
        hf_delivery_retry_in(delivery, wait_ms);
    }
    return meaning == ANSWER_REJECTED ? HF_DEAD : HF_RETRY;
}

static hf_verdict judge(const struct webhook *webhook, const struct webhook_job *job,
                        int64_t timeout_ms, const struct transfer_result *result)
{
    hf_delivery *delivery = job->delivery;
    const char *host = webhook->host_name;
    char time[OUT_WORDS_BYTES];
    bool stopping;

    switch (result->end) {
    case TRANSFER_ANSWERED:
        return judge_answer(webhook, delivery, result);
    case TRANSFER_CANCELLED:
        stopping = job->stopping(job->ctx);
        hf_delivery_error(delivery, "the request to %s was given up: %s", host,
                          stopping ? "the worker stops" : "the attempt was taken away");
        return stopping ? HF_RETRY_UNCOUNTED : HF_RETRY;
    case TRANSFER_TIMED_OUT:
        hf_delivery_error(delivery, "%s did not answer completely within %s", host,
                          out_duration(timeout_ms, time));
        return HF_RETRY;
    case TRANSFER_REFUSED:
        hf_delivery_error(delivery,
                          "%s is %s, which webhooks do not reach unless it is allowed "
                          "(allow_networks, allow_private)",
                          host, result->why);
        return HF_RETRY;
    case TRANSFER_FAILED:
        hf_delivery_error(delivery, "the request to %s failed: %s", host, result->why);
        return HF_RETRY;
    case TRANSFER_NO_MEMORY:
        break;
    }
    hf_delivery_error(delivery, "no memory for the request");
    return HF_RETRY_UNCOUNTED;
}

/* ---- Posting --------------------------------------------------------------------------------- */

static hf_verdict post_message(struct webhook *webhook, const struct webhook_job *job,
                               int64_t timeout_ms)
{
    struct message message;
    struct transfer_result result;

    if (message_init(&message, job->events, job->count, job->batch, webhook->options.structured,
                     webhook->secrets, clock_wall_us())) {
        hf_delivery_error(job->delivery, "%s", err_message());
        return HF_RETRY_UNCOUNTED;
    }
    struct transfer_request request = {.headers = message.headers,
                                       .header_count = message.header_count,
                                       .body = message.body,
                                       .timeout_ms = timeout_ms,
                                       .cancelled = job->cancelled,
                                       .ctx = job->ctx};
    transfer_run(webhook->transfers, &request, &result);
    message_release(&message);
    return judge(webhook, job, timeout_ms, &result);
}

static hf_verdict post(struct webhook *webhook, const struct webhook_job *job)
{
    int64_t until_us = clock_mono_us() + job->limit_ms * 1000;
    int64_t left_ms;
    hf_verdict verdict = HF_RETRY_UNCOUNTED;

    if (!host_enter(webhook->host, webhook->options.per_host_max, until_us, job->cancelled,
                    job->ctx)) {
        hf_delivery_error(job->delivery, "not begun: %d requests to %s run already",
                          webhook->options.per_host_max, webhook->host_name);
        return verdict;
    }
    left_ms = (until_us - clock_mono_us()) / 1000;
    if (left_ms > 0) {
        verdict = post_message(webhook, job,
                               left_ms < webhook->options.timeout_ms ? left_ms
                                                                     : webhook->options.timeout_ms);
    } else {
        hf_delivery_error(job->delivery, "not begun: the time for it is over");
    }
    host_leave(webhook->host);
    return verdict;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void close_webhook(struct webhook *webhook)
{
    if (webhook) {
        transfers_close(webhook->transfers);
        secrets_close(webhook->secrets);
        host_put(webhook->host);
        mem_free(webhook);
    }
}

static hf_status open_webhook(const struct webhook_options *options, struct webhook **ret_webhook)
{
    struct webhook *webhook = mem_calloc(1, sizeof *webhook);
    hf_status status;

    if (!webhook) {
        return fail(HF_NOMEM, "out of memory");
    }
    webhook->options = *options;
    status = webhook_url_check(text_of(options->url), webhook->host_name);
    if (!status) {
        webhook->host = host_get(webhook->host_name);
        status = webhook->host ? HF_OK : fail(HF_NOMEM, "out of memory");
    }
    if (!status && options->secret_file) {
        status =
            secrets_open(options->secret_file, options->log, options->log_ctx, &webhook->secrets);
    }
    if (!status) {
        status = transfers_open(options, &webhook->transfers);
    }
    if (status) {
        close_webhook(webhook);
        return status;
    }
    *ret_webhook = webhook;
    return HF_OK;
}

const struct webhook_client *webhook_client(struct cli *cli)
{
    static const struct webhook_client client = {open_webhook, post, close_webhook};

    (void)cli;
    return &client;
}
