/*
 * sampler.h - the numbers of the dashboard: samples of namespaces, taken by one thread for all
 * pages.
 *
 * The server's own namespace is sampled always, so that a page that is opened has a history; others
 * while a page shows them. A sample is taken each SAMPLER_PERIOD_MS, and so seldom that taking them
 * is a small part of the time: a tenth while a page shows the namespace, else a five-hundredth.
 * What a page gets is made of the last sample, so the database is asked once however many pages
 * there are.
 *
 * A failure of the database is part of what pages are shown, with the last numbers and their time.
 */
#ifndef HF_SERVER_LIVE_SAMPLER_H
#define HF_SERVER_LIVE_SAMPLER_H

#include "server/buses/buses.h"
#include "server/http/exchange.h"
#include "server/live/view.h"

#define SAMPLER_PERIOD_MS 1000
#define SAMPLER_NAMESPACES_MAX 16 /* that are looked at at the same time */

struct sampler;

/* Starts the thread. NULL after a failure (err). The buses outlive it. */
struct sampler *sampler_open(struct buses *buses);
/* Ends the streams and the thread. NULL is allowed. */
void sampler_close(struct sampler *sampler);

/* Answers with a view of a namespace: one object, or, for a page that waits for events
 * (text/event-stream), a stream of them. */
void sampler_answer(struct sampler *sampler, struct exchange *exchange,
                    const struct live_view *view);

/* Writes what a view of the server's own namespace showed now, without waiting; null if there is no
 * sample yet. A page that shows it is about to be opened, so the next sample comes soon. */
void sampler_show_own(struct sampler *sampler, const struct live_view *view, struct json_out *json,
                      struct headline *ret_headline);

/* That of the exchange's server. */
struct sampler *sampler_of(struct exchange *exchange);

#endif
