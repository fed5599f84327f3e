/*
 * probes.c - see probes.h.
 */
#include "server/monitor/probes.h"

#include "base/banned.h"
#include "base/thread.h"
#include "base/time/clock.h"

#include <microhttpd.h>

hf_status probes_init(struct probes *probes)
{
    hf_status status = mutex_init(&probes->mutex);

    if (!status) {
        status = cond_init(&probes->answered);
        if (status) {
            pthread_mutex_destroy(&probes->mutex);
        }
    }
    return status;
}

void probes_release(struct probes *probes)
{
    pthread_cond_destroy(&probes->answered);
    pthread_mutex_destroy(&probes->mutex);
}

/* Whether the request is for this path and may be answered. False after a refusal. */
static bool takes(struct exchange *exchange)
{
    if (!exchange_is_get(exchange)) {
        return false;
    }
    answer_header(exchange, "Cache-Control", "no-store");
    return true;
}

bool probes_answer_health(struct exchange *exchange)
{
    if (strcmp(exchange->path, "/healthz") != 0) {
        return false;
    }
    if (takes(exchange)) {
        answer_static(exchange, "text/plain", (struct text)TEXT_LITERAL("ok\n"));
    }
    return true;
}

static bool is_fresh(const struct probes *probes)
{
    return probes->answered_us > 0 &&
           clock_mono_us() - probes->answered_us < PROBE_FRESH_MS * INT64_C(1000);
}

/* Asks the database. The mutex is held, and let go of meanwhile. */
static void ask(struct probes *probes, hf_bus *bus)
{
    bool ready;

    probes->asking = true;
    pthread_mutex_unlock(&probes->mutex);
    ready = hf_ping(bus, PROBE_WAIT_MS) == HF_OK;
    pthread_mutex_lock(&probes->mutex);
    probes->asking = false;
    probes->answered_us = clock_mono_us();
    probes->ready = ready;
    pthread_cond_broadcast(&probes->answered);
}

bool probes_ready(struct probes *probes, hf_bus *bus)
{
    struct deadline deadline = deadline_after_ms(PROBE_WAIT_MS);
    bool ready;

    pthread_mutex_lock(&probes->mutex);
    while (!is_fresh(probes) && probes->asking &&
           cond_wait_until(&probes->answered, &probes->mutex, deadline)) {
    }
    if (!is_fresh(probes) && !probes->asking) {
        ask(probes, bus);
    }
    ready = is_fresh(probes) && probes->ready;
    pthread_mutex_unlock(&probes->mutex);
    return ready && !atomic_load(&probes->draining);
}

bool probes_answer_ready(struct probes *probes, hf_bus *bus, struct exchange *exchange)
{
    static const struct text words[] = {TEXT_LITERAL("not ready\n"), TEXT_LITERAL("ready\n")};
    bool ready;

    if (strcmp(exchange->path, "/readyz") != 0) {
        return false;
    }
    if (takes(exchange)) {
        ready = !atomic_load(&probes->draining) && probes_ready(probes, bus);
        answer_static(exchange, "text/plain", words[ready]);
        exchange->status = ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    return true;
}
