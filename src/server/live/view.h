/*
 * view.h - what a page wants to see of a namespace, and the JSON that shows it.
 */
#ifndef HF_SERVER_LIVE_VIEW_H
#define HF_SERVER_LIVE_VIEW_H

#include "base/text/json_write.h"
#include "server/live/sample.h"

#define VIEW_ROWS_MAX 200
#define VIEW_QUERY_BYTES 128
#define VIEW_POINTS 300 /* of a chart */

enum view_only { VIEW_ALL, VIEW_ATTENTION, VIEW_PAUSED, VIEW_DEAD };

struct live_view {
    int64_t range_ms;                         /* of the charts; 0: none */
    int64_t rows;                             /* of the table, at most */
    int64_t from;                             /* the first of them */
    enum view_only only;                      /* which subscriptions the table has */
    char query[VIEW_QUERY_BYTES];             /* only those whose name has this; "": all */
    char subscription[HF_NAME_BYTES_MAX + 1]; /* this one besides, with its history; "": none */
    bool by_name;                             /* the table; else what needs attention first */
    bool flow;
};

/* A failure to take samples. */
struct live_failure {
    char message[HF_ERROR_BYTES_MAX]; /* "": there is none */
    int64_t since_us;
};

/* What is shown. */
struct live_source {
    const struct sample *sample; /* NULL: there is none yet */
    const struct points *points;
    const struct flow *flow;
    const struct live_failure *failure;
    int64_t period_ms; /* between two samples */
    int64_t now_us;    /* by the clock that the sample's time is of */
};

#define HEADLINE_BYTES 80

/* Whether all is well. */
struct headline {
    char sentence[HEADLINE_BYTES]; /* without a text of others; "": that is not known yet */
    int64_t age_ms;                /* of what it is made of */
};

void live_headline(const struct live_source *source, struct headline *ret_headline);

/* Writes one object. `whole`: with what does not change with every sample, the history. */
void live_write(const struct live_source *source, const struct live_view *view, bool whole,
                struct json_out *json);

#endif
