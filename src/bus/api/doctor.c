/*
 * doctor.c - hf_doctor: what the engine says about its database, and whether what waits for its
 * time is brought when it is due.
 *
 * Something that is due for longer than OVERDUE_US was not brought by any process. Which other
 * processes have the namespace open is known from their signs of life; whether their buses are
 * started is not, so the advice says only the former.
 */
#include "store/common/doctor.h"
#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "bus/bus.h"
#include "store/node.h"
#include "store/timers.h"

#define OVERDUE_US INT64_C(60000000)
#define VALUE_BYTES 160
#define ADVICE_BYTES 320

/* What was found out before the callback runs. */
struct timers_found {
    struct timers_count count;
    int64_t at_us;  /* now by the store's clock */
    int64_t others; /* other processes that have the namespace open and show signs of life */
};

static int count_other(const struct node_row *row, void *ctx)
{
    struct timers_found *found = ctx;
    found->others += !row->self && row->state == HF_NODE_LIVE;
    return 0;
}

/* Why nothing brings it, as far as that was looked at, and what to do. */
static const char *advise(const struct timers_found *found, char advice[ADVICE_BYTES])
{
    if (found->others == 0) {
        snprintf(advice, ADVICE_BYTES,
                 "no other process has this namespace open; run one that works (holdfast work), or "
                 "holdfast tick from cron");
    } else {
        snprintf(advice, ADVICE_BYTES,
                 "%" PRId64 " other process%s this namespace open; whether one of them works was "
                 "not looked at. holdfast tick brings what is due now",
                 found->others, found->others == 1 ? " has" : "es have");
    }
    return advice;
}

static bool is_overdue(const struct timers_found *found, int64_t next_us)
{
    return next_us != STORE_NEVER && next_us < found->at_us - OVERDUE_US;
}

static void say_later(struct doctor *doctor, const struct timers_found *found)
{
    const struct timers_count *count = &found->count;
    char value[VALUE_BYTES];
    char advice[ADVICE_BYTES];
    char when[TIME_TEXT_BYTES] = "";
    if (count->later > 0) {
        time_format(count->later_next_us, when);
    }
    if (count->later == 0) {
        snprintf(value, sizeof value, "no event waits for its time");
    } else if (is_overdue(found, count->later_next_us)) {
        snprintf(value, sizeof value, "%" PRId64 " of %" PRId64 " due since %s", count->later_due,
                 count->later, when);
        doctor_say(doctor, "later", value, advise(found, advice));
        return;
    } else {
        snprintf(value, sizeof value, "%" PRId64 " wait, the first is due at %s", count->later,
                 when);
    }
    doctor_say(doctor, "later", value, NULL);
}

static void say_schedules(struct doctor *doctor, const struct timers_found *found)
{
    const struct timers_count *count = &found->count;
    char value[VALUE_BYTES];
    char advice[ADVICE_BYTES];
    char when[TIME_TEXT_BYTES] = "";
    if (count->schedules_next_us != STORE_NEVER) {
        time_format(count->schedules_next_us, when);
    }
    if (count->schedules_next_us == STORE_NEVER) {
        snprintf(value, sizeof value, "none is waiting to fire");
    } else if (is_overdue(found, count->schedules_next_us)) {
        snprintf(value, sizeof value, "%" PRId64 " due since %s", count->schedules_due, when);
        doctor_say(doctor, "schedules", value, advise(found, advice));
        return;
    } else {
        snprintf(value, sizeof value, "the next fires at %s", when);
    }
    doctor_say(doctor, "schedules", value, NULL);
}

/* Nothing is said to a role of the server from which it is hidden. */
static hf_status examine_timers(hf_bus *bus, struct doctor *doctor)
{
    struct timers_found found = {0};
    int64_t now_us = clock_wall_us();
    hf_status status = store_timers_count(bus->store, now_us, &found.count);
    if (!status) {
        status = store_node_list(bus->store, TEXT_ABSENT, count_other, &found);
    }
    if (status) {
        return status == HF_DENIED ? HF_OK : status;
    }
    found.at_us = store_time(bus->store, now_us);
    say_later(doctor, &found);
    say_schedules(doctor, &found);
    return HF_OK;
}

struct relay {
    hf_finding_fn found;
    void *ctx;
    bool stopped;
};

static int relay(const char *name, const char *value, hf_log_level level, const char *advice,
                 void *ctx)
{
    struct relay *relay = ctx;
    relay->stopped = relay->found(name, value, level, advice, relay->ctx) != 0;
    return relay->stopped;
}

hf_status hf_doctor(hf_bus *bus, hf_finding_fn found, void *ctx)
{
    hf_status status = bus_check_handle(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    struct relay engine = {.found = found, .ctx = ctx};
    status = store_doctor(bus->store, relay, &engine);
    if (status || engine.stopped || bus->no_namespace) {
        return status;
    }
    struct doctor doctor = {.found = found, .ctx = ctx};
    return examine_timers(bus, &doctor);
}
