/*
 * metrics.h - /metrics, in the text format of Prometheus.
 *
 * An answer is about one namespace, that of the server or that of ?namespace=NAME, and takes the
 * role of a viewer in it, so a token sees nothing of other namespaces. What the database says is
 * left out while it does not answer (holdfast_store_up is 0 then), and never said to be 0.
 */
#ifndef HF_SERVER_MONITOR_METRICS_H
#define HF_SERVER_MONITOR_METRICS_H

#include "server/http/exchange.h"
#include "server/monitor/probes.h"

#define METRICS_SUBSCRIPTIONS_MAX 1000 /* of which there are samples; the others are counted */
#define METRICS_DIGITS 6               /* of statuses of HTTP: 1 to 5 */

/* What is known besides the bus. */
struct metrics_source {
    struct probes *probes;
    const char *url; /* of the database */
    int64_t started_at_us;
    const _Atomic int64_t *requests; /* by the first digit of their status */
};

/* Is it a request for /metrics? */
bool metrics_wanted(const struct exchange *exchange);
/* Which namespace it asks for; *name is left alone if it names none. False after a refusal. */
bool metrics_namespace(struct exchange *exchange, const char **name);
/* Answers with what exchange->bus says of exchange->namespace_name. */
void metrics_answer(struct exchange *exchange, const struct metrics_source *source);

#endif
