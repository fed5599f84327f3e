/*
 * holdfast/schedule.h - schedules: a cron expression with a time zone that publishes an event.
 */
#ifndef HOLDFAST_SCHEDULE_H
#define HOLDFAST_SCHEDULE_H

#include <holdfast/bus.h>
#include <holdfast/event.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_SCHEDULE_NAME_BYTES_MAX 255
#define HF_MISFIRE_CAP_MAX 1000
#define HF_SCHEDULE_RUNS_MAX 1000 /* at once */

/* What becomes of planned times that were missed by more than grace_ms, because no process was
 * running or a clock was set. */
typedef enum hf_misfire {
    HF_MISFIRE_DEFAULT = 0, /* skip */
    HF_MISFIRE_SKIP = 1,    /* none of them fires */
    HF_MISFIRE_ONCE = 2,    /* the latest of them fires, for all of them */
    HF_MISFIRE_ALL = 3      /* the latest misfire_cap of them fire, in order */
} hf_misfire;

/* Who fires a schedule besides the processes whose bus is started. */
typedef enum hf_driver {
    HF_DRIVER_DEFAULT = 0, /* own */
    HF_DRIVER_OWN = 1,     /* only processes fire it */
    HF_DRIVER_PG_CRON = 2  /* a job of the extension pg_cron, on PostgreSQL where it is installed:
                              UTC only, no seconds, no @every. It comes and goes with the
                              schedule, in the same transaction; each planned time is
                              published once all the same */
} hf_driver;

/* Expressions have five fields (minute, hour, day of month, month, day of week) or six with the
 * seconds first, or are one of @hourly, @daily, @weekly, @monthly, @yearly. With fixed hours a time
 * that the clocks jump over fires when they jump, and one that they show twice fires once, the
 * first time; with * or a step for the hour every real hour counts. "@every 5m" fires at the
 * multiples of a period since 1970-01-01T00:00:00Z, in any zone: whole seconds, from 1s to 365d. */
typedef struct hf_schedule {
    size_t size;
    const char *name;
    const char *expression;
    const char *zone; /* of the tz database; NULL: UTC */
    const char *type; /* of the event, as are the next ones */
    const char *payload;
    size_t payload_bytes;
    const char *key;
    const char *tenant;
    const char *metadata;
    hf_misfire misfire;
    int32_t misfire_cap; /* -1: 100 */
    int64_t grace_ms;    /* -1: 60000; below 1000, also 0: until the planned second is over */
    hf_driver driver;
    const char *paused; /* not NULL: a new schedule is paused from the beginning, for this reason or
                           none (""); one that exists stays as it is */
} hf_schedule;

#define HF_SCHEDULE_INIT                                                                           \
    {                                                                                              \
        sizeof(hf_schedule), NULL, NULL, NULL, NULL, NULL, HF_AUTO_LENGTH, NULL, NULL, NULL,       \
            HF_MISFIRE_DEFAULT, -1, -1, HF_DRIVER_DEFAULT, NULL                                    \
    }

typedef struct hf_schedule_info {
    size_t size;
    const char *id; /* the schedule_id of its events */
    hf_schedule schedule;
    int64_t next_at_us;   /* -1: it never fires again */
    int64_t paused_at_us; /* -1: it is not paused */
    const char *paused_by;
    const char *paused_reason;
    int64_t created_at_us;
} hf_schedule_info;

typedef int (*hf_schedule_fn)(const hf_schedule_info *info, void *ctx);

typedef enum hf_run_kind {
    HF_RUN_FIRED = 1,   /* a planned time came */
    HF_RUN_BY_HAND = 2, /* hf_schedule_run asked for it */
    HF_RUN_SKIPPED = 3  /* planned times were missed and skipped */
} hf_run_kind;

/* A row of the ledger of a schedule. */
typedef struct hf_schedule_run_info {
    size_t size;
    hf_run_kind kind;
    int64_t planned_at_us;
    int64_t until_at_us;  /* skipped: the last planned time that was, planned_at_us is the first */
    int64_t fired_at_us;  /* skipped: when that was decided */
    int64_t position;     /* of the event; -1 if skipped */
    const char *event_id; /* NULL if skipped or by hand */
    const char *node;     /* who did it; "sql:ROLE" if it was done in SQL */
} hf_schedule_run_info;

typedef int (*hf_schedule_run_fn)(const hf_schedule_run_info *run, void *ctx);

/*
 * Creates a schedule or changes the one of this name; putting the same again changes nothing. Every
 * process whose bus is started fires what is due, without a leader, and each planned time once. The
 * event has the producer "scheduler", the schedule's id, and the planned time as emitted_at.
 * ret_created may be NULL. HF_INVALID: the message names the field, and in an expression the place.
 * HF_NOTFOUND: there is no such zone. HF_MISUSE: there is no such driver in this database.
 */
HF_API hf_status hf_schedule_put(hf_bus *bus, const hf_schedule *schedule, int32_t *ret_created);
/* HF_NOTFOUND. Its events stay. */
HF_API hf_status hf_schedule_remove(hf_bus *bus, const char *name);
/* Nothing fires until hf_schedule_resume; times missed during a pause are skipped. Pausing what is
 * paused and resuming what is not changes nothing. */
HF_API hf_status hf_schedule_pause(hf_bus *bus, const char *name, const char *reason);
HF_API hf_status hf_schedule_resume(hf_bus *bus, const char *name);
/* Publishes its event now, also if it is paused. What it waits for stays. HF_UNKNOWN: it may have
 * been; ret_receipt has the id, by which it can be looked for, and position -1. */
HF_API hf_status hf_schedule_run(hf_bus *bus, const char *name, hf_receipt *ret_receipt);
/* Calls back once. HF_NOTFOUND. */
HF_API hf_status hf_schedule_get(hf_bus *bus, const char *name, hf_schedule_fn found, void *ctx);
/* All of the namespace, by name; the callback may change them. Memory does not grow with their
 * number. One that is made, changed or removed meanwhile is shown as it was or as it is. */
HF_API hf_status hf_schedule_list(hf_bus *bus, hf_schedule_fn found, void *ctx);
/* What became of the planned times of a schedule, the newest first: the last 100 are kept. At most
 * `limit` (-1: 100) that were planned before before_us (-1: all), which is the planned_at_us of the
 * last one to go on after it. HF_NOTFOUND. */
HF_API hf_status hf_schedule_runs(hf_bus *bus, const char *name, int64_t before_us, int32_t limit,
                                  hf_schedule_run_fn found, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_SCHEDULE_H */
