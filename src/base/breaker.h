/*
 * breaker.h - stop trying for a while when most new events fail.
 *
 *              enough first attempts failed            pause over: one probe
 *     CLOSED ------------------------------> OPEN ------------------------------> HALF_OPEN
 *        ^                                    ^                                    |    |
 *        |                                    +---------- the probe failed --------+    |
 *        +-------------------------------------- the probe succeeded ------------------+
 *
 * Pure: time is passed in (wall time, because the state is stored). The breaker counts first
 * attempts of distinct events in a sliding window, so one poison event that is retried cannot open
 * it. It pauses, it never skips.
 */
#ifndef HF_BASE_BREAKER_H
#define HF_BASE_BREAKER_H

#include "base/text/json_write.h"
#include "base/text/text.h"

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

/* The window slides in steps of a tenth. */
#define BREAKER_STEPS 10

struct breaker_policy {
    int32_t events_min;     /* first attempts in the window before it may open; >= 1 */
    int32_t failed_percent; /* opens above this share of failures; 0 .. 99 */
    int64_t window_ms;      /* length of the window; BREAKER_STEPS .. BREAKER_MS_MAX */
    int64_t pause_ms;       /* how long it stays open; 1 .. BREAKER_MS_MAX */
};

#define BREAKER_MS_MAX (INT64_C(24) * 3600 * 1000)

enum breaker_state {
    BREAKER_CLOSED,
    BREAKER_OPEN,
    BREAKER_HALF_OPEN,
};

enum breaker_answer {
    BREAKER_RUN,   /* run as always */
    BREAKER_PROBE, /* run exactly this one delivery, and report it as the probe */
    BREAKER_WAIT,  /* run nothing */
};

struct breaker {
    enum breaker_state state;
    int64_t until_us; /* OPEN: when the probe is due; else 0 */
    struct breaker_step {
        int64_t number; /* now / step length; tells a fresh step from one of the last round */
        int32_t events;
        int32_t failed;
    } steps[BREAKER_STEPS];
};

/* Closed, nothing counted. */
void breaker_init(struct breaker *breaker);

/* May a delivery run now? Moves OPEN to HALF_OPEN, with the answer BREAKER_PROBE, when the pause is
 * over; until the probe is reported or abandoned every other answer is BREAKER_WAIT. */
enum breaker_answer breaker_ask(struct breaker *breaker, const struct breaker_policy *policy,
                                int64_t now_us);

/* How an ordinary attempt ended. Only attempt 1 counts, and only while CLOSED. True if the breaker
 * opened: store it. */
bool breaker_report(struct breaker *breaker, const struct breaker_policy *policy, int32_t attempt,
                    bool ok, int64_t now_us);

/* How the probe ended. Closes the breaker and forgets the window, or opens it for another pause. */
void breaker_report_probe(struct breaker *breaker, const struct breaker_policy *policy, bool ok,
                          int64_t now_us);

/* The probe ended without an outcome (shutdown, lost lease): the next ask gives another. */
void breaker_abandon_probe(struct breaker *breaker, int64_t now_us);

/* Milliseconds until asking makes sense: 0 now, -1 not before the probe is reported. */
int64_t breaker_wait_ms(const struct breaker *breaker, int64_t now_us);

/* "closed", "open", "half_open". */
const char *breaker_state_name(enum breaker_state state);

/* As one JSON object. A HALF_OPEN breaker reads back as OPEN with its probe due, because the probe
 * died with the process that ran it. HF_INVALID if the text is not what breaker_write wrote. */
void breaker_write(const struct breaker *breaker, struct json_out *out);
hf_status breaker_read(struct text json, struct breaker *ret_breaker);

#endif
