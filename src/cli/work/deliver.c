/*
 * deliver.c - gives an event to a command and reads the verdict from its exit status.
 *
 *     0     done                             75 (EX_TEMPFAIL)  failed, try again
 *     65    (EX_DATAERR) dead letter now     anything else     failed, try again
 *
 * The command gets the event as one JSON object on stdin and its fields in the environment; of a
 * batch it gets one object per line, and in the environment their number and what they have in
 * common. The end of its stderr is the attempt's error. When the bus stops, a running command may
 * finish until the drain's deadline; then it is killed, and that attempt does not count. Neither
 * does one that failed when no program reads our stdout any more, which was also the command's:
 * SIGPIPE, or what the command made of it, is not the event's fault.
 */
#include "cli/work/deliver.h"
#include "cli/core/url.h"

#include "base/banned.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"
#include "cli/webhook/trace.h"
#include "cli/work/exec.h"
#include "cli/work/log.h"

#include <signal.h>
#include <sysexits.h>

#define VARIABLES_MAX 20 /* that a delivery sets */
#define VARIABLES_BYTES_MAX 524288
#define PAYLOAD_BYTES_MAX 32768 /* of HOLDFAST_PAYLOAD; the kernel refuses variables of 128 KiB */
#define INPUT_BYTES_MAX SIZE_MAX / 4
#define GRACE_MS_MAX 1000
#define TAIL_TEXT_BYTES_MAX (HF_ERROR_BYTES_MAX * 3) /* each byte may become U+FFFD */

/* What a delivery sets, or removes if the event has no such field. */
static const char *const variables[] = {
    "HOLDFAST_ID",
    "HOLDFAST_TYPE",
    "HOLDFAST_POSITION",
    "HOLDFAST_KEY",
    "HOLDFAST_TENANT",
    "HOLDFAST_KEY_VERSION",
    "HOLDFAST_EMITTED_AT",
    "HOLDFAST_ENTERED_AT",
    "HOLDFAST_ATTEMPT",
    "HOLDFAST_ATTEMPTS_MAX",
    "HOLDFAST_SUBSCRIPTION",
    "HOLDFAST_URL",
    "HOLDFAST_EVENT_PRODUCER",
    "HOLDFAST_NAMESPACE",
    "HOLDFAST_EVENTS",
    "HOLDFAST_PAYLOAD",
    "HOLDFAST_DELIVERIES",
    "TRACEPARENT",
    "TRACESTATE",
};

/* ---- Environment ----------------------------------------------------------------------------- */

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        size_t length = strlen(variables[i]);
        if (strncmp(variable, variables[i], length) == 0 && variable[length] == '=') {
            return true;
        }
    }
    return false;
}

bool deliver_init(struct deliver *deliver)
{
    size_t count = 0;

    while (environ[count]) {
        count++;
    }
    deliver->environment = calloc(count + 1, sizeof(char *));
    deliver->environment_count = 0;
    if (!deliver->environment) {
        return false;
    }
    deliver->open_url = deliver->url ? url_without_secrets(deliver->url) : NULL;
    if (deliver->url && !deliver->open_url) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(environ[i]) && strncmp(environ[i], "PGPASSWORD=", 11) != 0) {
            deliver->environment[deliver->environment_count++] = environ[i];
        }
    }
    return true;
}

void deliver_release(struct deliver *deliver)
{
    output_close(&deliver->output);
    if (deliver->webhook) {
        deliver->client->close(deliver->webhook);
        deliver->webhook = NULL;
    }
    free(deliver->environment);
    free(deliver->open_url);
    deliver->environment = NULL;
    deliver->open_url = NULL;
}

/* NAME=value strings of one delivery. */
struct environment {
    struct buf bytes; /* all of them, each with its NUL */
    size_t starts[VARIABLES_MAX];
    size_t count;
};

static void set_bytes(struct environment *set, const char *name, struct text value)
{
    set->starts[set->count++] = set->bytes.length;
    buf_append(&set->bytes, name, strlen(name));
    buf_char(&set->bytes, '=');
    buf_append(&set->bytes, value.bytes, value.length);
    buf_char(&set->bytes, '\0');
}

static void set_text(struct environment *set, const char *name, const char *value)
{
    if (value) {
        set_bytes(set, name, text_of(value));
    }
}

static void set_number(struct environment *set, const char *name, int64_t number)
{
    char text[OUT_WORDS_BYTES];
    if (number != -1) {
        set_text(set, name, out_number(number, text));
    }
}

static void set_time(struct environment *set, const char *name, int64_t us)
{
    char text[TIME_TEXT_BYTES];

    if (us == -1) {
        return;
    }
    time_format(us, text);
    set_text(set, name, text);
}

static void set_event(struct environment *set, const hf_event *event)
{
    set_text(set, "HOLDFAST_ID", event->id);
    set_text(set, "HOLDFAST_TYPE", event->type);
    set_number(set, "HOLDFAST_POSITION", event->position);
    set_text(set, "HOLDFAST_KEY", event->key);
    set_text(set, "HOLDFAST_TENANT", event->tenant);
    set_number(set, "HOLDFAST_KEY_VERSION", event->key_version);
    set_time(set, "HOLDFAST_EMITTED_AT", event->emitted_at_us);
    set_time(set, "HOLDFAST_ENTERED_AT", event->entered_at_us);
    set_text(set, "HOLDFAST_EVENT_PRODUCER", event->producer);
    set_number(set, "HOLDFAST_DELIVERIES", event->deliveries);
    if (event->payload_bytes <= PAYLOAD_BYTES_MAX) {
        set_bytes(set, "HOLDFAST_PAYLOAD", (struct text){event->payload, event->payload_bytes});
    }
}

/* So that what the command does is seen as a part of what led to the event. */
static void set_trace(struct environment *set, const hf_event *event)
{
    struct event_trace trace;

    if (event_trace(event, &trace)) {
        set_text(set, "TRACEPARENT", trace.parent);
        set_text(set, "TRACESTATE", trace.state[0] ? trace.state : NULL);
    }
}

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* What the events of a batch have in common. */
static void set_batch(struct environment *set, const hf_event *const *events, size_t count)
{
    bool key = true;
    bool tenant = true;

    for (size_t i = 1; i < count; i++) {
        key = key && is_same(events[i]->key, events[0]->key);
        tenant = tenant && is_same(events[i]->tenant, events[0]->tenant);
    }
    set_text(set, "HOLDFAST_KEY", key ? events[0]->key : NULL);
    set_text(set, "HOLDFAST_TENANT", tenant ? events[0]->tenant : NULL);
    set_number(set, "HOLDFAST_EVENTS", (int64_t)count);
}

static void set_delivery(struct environment *set, const struct deliver *deliver,
                         const hf_delivery *delivery, const char *namespace_name)
{
    set_text(set, "HOLDFAST_SUBSCRIPTION", hf_delivery_subscription(delivery));
    set_number(set, "HOLDFAST_ATTEMPT", hf_delivery_attempt(delivery));
    set_number(set, "HOLDFAST_ATTEMPTS_MAX", hf_delivery_attempts_max(delivery));
    set_text(set, "HOLDFAST_URL", deliver->open_url);
    set_text(set, "HOLDFAST_NAMESPACE", namespace_name);
}

/* The complete array for exec; NULL: no memory. Freed by free. */
static char **join_environment(const struct deliver *deliver, struct environment *set)
{
    size_t common = deliver->environment_count;
    char **all = calloc(common + set->count + 1, sizeof(char *));

    if (!all || buf_status(&set->bytes) != HF_OK) {
        free(all);
        return NULL;
    }
    if (common > 0) {
        memcpy(all, deliver->environment, common * sizeof(char *));
    }
    for (size_t i = 0; i < set->count; i++) {
        all[common + i] = set->bytes.bytes + set->starts[i];
    }
    return all;
}

/* ---- Input ----------------------------------------------------------------------------------- */

static void write_input(struct buf *input, const hf_event *event, const hf_delivery *delivery)
{
    struct json_out json;

    json_out_init(&json, input);
    json_object_begin(&json);
    show_event(&json, event);
    show_string(&json, "subscription", hf_delivery_subscription(delivery));
    show_int(&json, "attempt", hf_delivery_attempt(delivery));
    show_int(&json, "attempts_max", hf_delivery_attempts_max(delivery));
    json_object_end(&json);
    buf_char(input, '\n');
}

/* ---- Verdict --------------------------------------------------------------------------------- */

/* The end of stderr, made one safe line, at most what is left of an error beside `used` bytes. */
static void tail_text(const struct exec_result *result, size_t used, struct buf *text)
{
    const char *tail = result->tail;
    size_t length = result->tail_bytes;
    size_t max = HF_ERROR_BYTES_MAX - used;

    while (length > 0 && (tail[length - 1] == '\n' || tail[length - 1] == ' ')) {
        length--;
    }
    while (length > 0 && ((unsigned char)*tail & 0xC0) == 0x80) { /* half a character */
        tail++;
        length--;
    }
    utf8_sanitize((struct text){tail, length}, text);
    if (text->length > max) {
        size_t drop = text->length - max;
        while (drop < text->length && ((unsigned char)text->bytes[drop] & 0xC0) == 0x80) {
            drop++;
        }
        memmove(text->bytes, text->bytes + drop, text->length - drop + 1);
        text->length -= drop;
    }
}

static void set_error(hf_delivery *delivery, const struct exec_result *result, const char *what)
{
    struct buf text;

    buf_init(&text, TAIL_TEXT_BYTES_MAX);
    tail_text(result, strlen(what) + 2, &text);
    if (text.length > 0) {
        hf_delivery_error(delivery, "%s: %s", what, buf_terminate(&text));
    } else {
        hf_delivery_error(delivery, "%s", what);
    }
    buf_release(&text);
}

static hf_verdict judge(const struct deliver *deliver, hf_delivery *delivery,
                        const struct exec_result *result)
{
    bool stopping = atomic_load(&deliver->drain_until_us) != 0;
    const char *name;
    char what[128];
    char time[OUT_WORDS_BYTES];

    switch (result->end) {
    case EXEC_EXITED:
        if (result->code == 0) {
            return HF_ACK;
        }
        snprintf(what, sizeof what, "exit status %d", result->code);
        set_error(delivery, result, what);
        return result->code == EX_DATAERR ? HF_DEAD : HF_RETRY;
    case EXEC_SIGNALLED:
        name = sigabbrev_np(result->code);
        snprintf(what, sizeof what, "killed by SIG%s", name ? name : "?");
        set_error(delivery, result, what);
        return HF_RETRY;
    case EXEC_TIMED_OUT:
        /* The limit and not the time that it took, so that equal errors are equal texts: dead
         * letters are counted by them. */
        snprintf(what, sizeof what, "timed out after %s (%s): ended by %s",
                 out_duration(deliver->handler_timeout_ms, time), deliver->timeout_option,
                 result->killed_hard ? "SIGKILL" : "SIGTERM");
        set_error(delivery, result, what);
        return HF_RETRY;
    case EXEC_CANCELLED:
        snprintf(what, sizeof what, "%s: ended by %s after %s",
                 stopping ? "the worker stops" : "the attempt was taken away",
                 result->killed_hard ? "SIGKILL" : "SIGTERM", out_duration(result->ran_ms, time));
        set_error(delivery, result, what);
        return stopping ? HF_RETRY_UNCOUNTED : HF_RETRY;
    case EXEC_FAILED:
        /* Not the event's fault: this process has no memory, no descriptors, no shell. */
        hf_delivery_error(delivery, "the command cannot be started: %s", strerror(result->code));
        return HF_RETRY_UNCOUNTED;
    }
    return HF_RETRY;
}

void deliver_times(int64_t handler_timeout_ms, int64_t *ret_timeout_ms, int64_t *ret_grace_ms)
{
    int64_t grace_ms = handler_timeout_ms / 10;
    int64_t margin_ms;

    if (grace_ms > GRACE_MS_MAX) {
        grace_ms = GRACE_MS_MAX;
    }
    margin_ms = grace_ms + grace_ms / 2 + 20; /* a busy machine is late */
    if (margin_ms > handler_timeout_ms / 2) {
        margin_ms = handler_timeout_ms / 2;
    }
    *ret_timeout_ms = handler_timeout_ms - margin_ms;
    *ret_grace_ms = grace_ms;
}

/* Whether the command failed only because its stdout, which is ours, is closed. */
static bool lost_its_reader(const struct deliver *deliver, const struct exec_result *result)
{
    bool failed = result->end == EXEC_SIGNALLED || (result->end == EXEC_EXITED && result->code);

    return failed && deliver->inherit_stdout && out_is_closed();
}

static hf_verdict verdict_of(struct deliver *deliver, hf_delivery *delivery,
                             const struct exec_result *result)
{
    hf_verdict verdict = HF_RETRY_UNCOUNTED;

    if (lost_its_reader(deliver, result)) {
        set_error(delivery, result, "the output of the worker is closed");
    } else {
        verdict = judge(deliver, delivery, result);
    }
    if (verdict == HF_RETRY_UNCOUNTED) {
        atomic_fetch_add(&deliver->uncounted, 1);
    }
    return verdict;
}

/* What the running command is asked about. */
struct run {
    struct deliver *deliver;
    hf_delivery *delivery;
    const char *event_id; /* NULL: of a batch */
};

static void log_stdout(struct text line, void *ctx)
{
    const struct run *run = ctx;

    work_log_command(hf_delivery_subscription(run->delivery), run->event_id, "stdout", line);
}

static void log_stderr(struct text line, void *ctx)
{
    const struct run *run = ctx;

    work_log_command(hf_delivery_subscription(run->delivery), run->event_id, "stderr", line);
}

static bool is_cancelled(void *ctx)
{
    struct run *run = ctx;
    int64_t drain_until_us = atomic_load(&run->deliver->drain_until_us);

    if (drain_until_us != 0) {
        return clock_mono_us() >= drain_until_us;
    }
    return hf_delivery_cancelled(run->delivery) != 0;
}

/* Runs the command for one event, or (batch) for all of them. */
static hf_verdict run_command(const hf_event *const *events, size_t count, bool batch,
                              hf_delivery *delivery, struct deliver *deliver)
{
    struct run run = {deliver, delivery, batch ? NULL : events[0]->id};
    struct exec_job job = {.command = deliver->command,
                           .inherit_stdout = deliver->inherit_stdout,
                           .cancelled = is_cancelled,
                           .stdout_line = deliver->logs_output ? log_stdout : NULL,
                           .ctx = &run};
    struct output_file out;
    struct output_file err;
    struct exec_result result;
    struct environment set = {.count = 0};
    struct buf input;
    char **environment = NULL;
    hf_verdict verdict = HF_RETRY_UNCOUNTED;

    job.stderr_line = deliver->logs_output || out_has_json_messages() ? log_stderr : NULL;
    buf_init(&set.bytes, VARIABLES_BYTES_MAX);
    buf_init(&input, INPUT_BYTES_MAX);
    if (batch) {
        set_batch(&set, events, count);
    } else {
        set_event(&set, events[0]);
        set_trace(&set, events[0]);
    }
    set_delivery(&set, deliver, delivery, events[0]->namespace_name);
    environment = join_environment(deliver, &set);
    for (size_t i = 0; i < count; i++) {
        write_input(&input, events[i], delivery);
    }
    if (environment && buf_status(&input) == HF_OK) {
        job.environment = environment;
        job.input = input.bytes;
        job.input_bytes = input.length;
        deliver_times(deliver->handler_timeout_ms, &job.timeout_ms, &job.grace_ms);
        job.cancel_grace_ms =
            job.grace_ms < deliver->stop_grace_ms ? job.grace_ms : deliver->stop_grace_ms;
        output_begin(&out, &err, &deliver->output, events, count, delivery);
        job.out_copy = &out;
        job.err_copy = &err;
        exec_run(&job, &result);
        output_end(&out);
        output_end(&err);
        verdict = verdict_of(deliver, delivery, &result);
    } else {
        hf_delivery_error(delivery, "no memory to start the command");
    }
    free(environment);
    buf_release(&input);
    buf_release(&set.bytes);
    return verdict;
}

/* Nothing begins once no program reads our output: the main thread is about to stop the bus. */
static bool is_refused(hf_delivery *delivery, struct deliver *deliver)
{
    if (deliver->logs_output || !out_is_closed()) {
        return false;
    }
    stop_request();
    hf_delivery_error(delivery, "not begun: the output of the worker is closed");
    atomic_fetch_add(&deliver->uncounted, 1);
    return true;
}

static bool is_stopping(void *ctx)
{
    const struct run *run = ctx;

    return atomic_load(&run->deliver->drain_until_us) != 0;
}

/* Posts one event, or (batch) all of them. */
static hf_verdict post(const hf_event *const *events, size_t count, bool batch,
                       hf_delivery *delivery, struct deliver *deliver)
{
    struct run run = {deliver, delivery, NULL};
    struct webhook_job job = {.events = events,
                              .count = count,
                              .batch = batch,
                              .delivery = delivery,
                              .cancelled = is_cancelled,
                              .stopping = is_stopping,
                              .ctx = &run};
    int64_t grace_ms;
    hf_verdict verdict;

    deliver_times(deliver->handler_timeout_ms, &job.limit_ms, &grace_ms);
    verdict = deliver->client->post(deliver->webhook, &job);
    if (verdict == HF_RETRY_UNCOUNTED) {
        atomic_fetch_add(&deliver->uncounted, 1);
    }
    return verdict;
}

hf_verdict deliver_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct deliver *deliver = ctx;

    if (deliver->webhook) {
        return post(&event, 1, false, delivery, deliver);
    }
    return is_refused(delivery, ctx) ? HF_RETRY_UNCOUNTED
                                     : run_command(&event, 1, false, delivery, ctx);
}

hf_verdict deliver_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                         void *ctx)
{
    struct deliver *deliver = ctx;

    if (deliver->webhook) {
        return post(events, count, true, delivery, deliver);
    }
    return is_refused(delivery, ctx) ? HF_RETRY_UNCOUNTED
                                     : run_command(events, count, true, delivery, ctx);
}
