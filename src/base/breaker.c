/*
 * breaker.c - the circuit breaker.
 *
 * The window is a ring of BREAKER_STEPS steps. A step is addressed by now / step length; the number
 * it was last used for is kept beside its counts, so a step left over from an earlier round is
 * recognised and does not count: nothing has to be swept when nothing happens. The window thus
 * covers between nine and ten tenths of window_ms.
 *
 * Time is wall time, because the state is stored and read by other processes. When it steps back,
 * steps from the future do not count, and a pause never lasts longer than pause_ms from now.
 *
 * The state changes in change_state and nowhere else.
 */
#include "base/breaker.h"
#include "base/err.h"
#include "base/text/json_read.h"

#include <assert.h>

void breaker_init(struct breaker *breaker)
{
    *breaker = (struct breaker){.state = BREAKER_CLOSED};
}

/* until_us is used by OPEN only. */
static void change_state(struct breaker *breaker, enum breaker_state state, int64_t until_us)
{
    switch (state) {
    case BREAKER_CLOSED:
        assert(breaker->state == BREAKER_HALF_OPEN);
        breaker_init(breaker);
        return;
    case BREAKER_OPEN:
        assert(breaker->state != BREAKER_OPEN);
        breaker_init(breaker);
        breaker->state = BREAKER_OPEN;
        breaker->until_us = until_us;
        return;
    case BREAKER_HALF_OPEN:
        assert(breaker->state == BREAKER_OPEN);
        breaker->state = BREAKER_HALF_OPEN;
        breaker->until_us = 0;
        return;
    }
}

enum breaker_answer breaker_ask(struct breaker *breaker, const struct breaker_policy *policy,
                                int64_t now_us)
{
    switch (breaker->state) {
    case BREAKER_CLOSED:
        return BREAKER_RUN;
    case BREAKER_HALF_OPEN:
        return BREAKER_WAIT;
    case BREAKER_OPEN:
        if (breaker->until_us > now_us + policy->pause_ms * 1000) {
            breaker->until_us = now_us + policy->pause_ms * 1000;
        }
        if (now_us < breaker->until_us) {
            return BREAKER_WAIT;
        }
        change_state(breaker, BREAKER_HALF_OPEN, 0);
        return BREAKER_PROBE;
    }
    return BREAKER_WAIT;
}

static void count_event(struct breaker *breaker, int64_t number, bool ok)
{
    struct breaker_step *step = &breaker->steps[number % BREAKER_STEPS];

    if (step->number != number) {
        *step = (struct breaker_step){.number = number};
    }
    step->events++;
    step->failed += !ok;
}

/* Whether the window that ends with this step says: open. */
static bool is_over_limit(const struct breaker *breaker, const struct breaker_policy *policy,
                          int64_t number)
{
    int64_t events = 0, failed = 0;

    for (int i = 0; i < BREAKER_STEPS; i++) {
        const struct breaker_step *step = &breaker->steps[i];

        if (step->number > number || step->number <= number - BREAKER_STEPS) {
            continue;
        }
        events += step->events;
        failed += step->failed;
    }
    return events >= policy->events_min && failed * 100 > events * policy->failed_percent;
}

bool breaker_report(struct breaker *breaker, const struct breaker_policy *policy, int32_t attempt,
                    bool ok, int64_t now_us)
{
    assert(now_us >= 0);
    if (breaker->state != BREAKER_CLOSED || attempt != 1) {
        return false;
    }

    int64_t number = now_us / (policy->window_ms * 1000 / BREAKER_STEPS);

    count_event(breaker, number, ok);
    if (!is_over_limit(breaker, policy, number)) {
        return false;
    }
    change_state(breaker, BREAKER_OPEN, now_us + policy->pause_ms * 1000);
    return true;
}

void breaker_report_probe(struct breaker *breaker, const struct breaker_policy *policy, bool ok,
                          int64_t now_us)
{
    /* The state may have been reset by an operator while the probe ran. */
    if (breaker->state != BREAKER_HALF_OPEN) {
        return;
    }
    if (ok) {
        change_state(breaker, BREAKER_CLOSED, 0);
    } else {
        change_state(breaker, BREAKER_OPEN, now_us + policy->pause_ms * 1000);
    }
}

void breaker_abandon_probe(struct breaker *breaker, int64_t now_us)
{
    if (breaker->state == BREAKER_HALF_OPEN) {
        change_state(breaker, BREAKER_OPEN, now_us);
    }
}

int64_t breaker_wait_ms(const struct breaker *breaker, int64_t now_us)
{
    switch (breaker->state) {
    case BREAKER_CLOSED:
        return 0;
    case BREAKER_OPEN:
        return now_us >= breaker->until_us ? 0 : (breaker->until_us - now_us + 999) / 1000;
    case BREAKER_HALF_OPEN:
        return -1;
    }
    return -1;
}

/* --- As JSON: {"state":"closed","until_us":0,"steps":[[number,events,failed],...]} --- */

const char *breaker_state_name(enum breaker_state state)
{
    switch (state) {
    case BREAKER_CLOSED:
        return "closed";
    case BREAKER_OPEN:
        return "open";
    case BREAKER_HALF_OPEN:
        return "half_open";
    }
    return "?";
}

void breaker_write(const struct breaker *breaker, struct json_out *out)
{
    json_object_begin(out);
    json_key(out, "state");
    json_string(out, text_of(breaker_state_name(breaker->state)));
    json_key(out, "until_us");
    json_int(out, breaker->until_us);
    json_key(out, "steps");
    json_array_begin(out);
    for (int i = 0; i < BREAKER_STEPS; i++) {
        const struct breaker_step *step = &breaker->steps[i];

        if (step->events == 0) {
            continue;
        }
        json_array_begin(out);
        json_int(out, step->number);
        json_int(out, step->events);
        json_int(out, step->failed);
        json_array_end(out);
    }
    json_array_end(out);
    json_object_end(out);
}

static bool read_state(struct text json, enum breaker_state *ret_state)
{
    struct text raw;

    if (!json_find(json, "state", &raw)) {
        return false;
    }
    if (text_equal(raw, text_of("\"closed\""))) {
        *ret_state = BREAKER_CLOSED;
    } else if (text_equal(raw, text_of("\"open\"")) || text_equal(raw, text_of("\"half_open\""))) {
        *ret_state = BREAKER_OPEN;
    } else {
        return false;
    }
    return true;
}

static bool read_step(struct text json, struct breaker *breaker)
{
    int64_t numbers[3];
    struct json_iter iter;
    struct text raw;
    int count = 0;

    if (!json_iter_init(&iter, json)) {
        return false;
    }
    while (json_iter_next(&iter, NULL, &raw)) {
        if (count == 3 || json_int_decode(raw, &numbers[count]) != HF_OK || numbers[count] < 0) {
            return false;
        }
        count++;
    }
    if (count != 3 || numbers[1] > INT32_MAX || numbers[2] > numbers[1]) {
        return false;
    }
    breaker->steps[numbers[0] % BREAKER_STEPS] =
        (struct breaker_step){numbers[0], (int32_t)numbers[1], (int32_t)numbers[2]};
    return true;
}

static bool read_steps(struct text json, struct breaker *breaker)
{
    struct json_iter iter;
    struct text steps, step;

    if (!json_find(json, "steps", &steps) || !json_iter_init(&iter, steps)) {
        return false;
    }
    while (json_iter_next(&iter, NULL, &step)) {
        if (!read_step(step, breaker)) {
            return false;
        }
    }
    return !iter.broken;
}

hf_status breaker_read(struct text json, struct breaker *ret_breaker)
{
    struct breaker breaker;

    breaker_init(&breaker);
    if (!read_state(json, &breaker.state) ||
        json_find_int(json, "until_us", &breaker.until_us) != HF_OK ||
        !read_steps(json, &breaker)) {
        return fail(HF_INVALID, "the stored state of the breaker is not readable");
    }
    *ret_breaker = breaker;
    return HF_OK;
}
