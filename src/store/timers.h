/*
 * timers.h - what the store keeps for later: schedules, the ledger of their firings, and events
 * that enter the log when they are due. Part of the contract of store.h, and under its rules.
 *
 * No process leads. Any process may fire what is due; the change that does so is conditional on
 * what was read, and the second process gets HF_STALE and has changed nothing (docs/adr/0016). The
 * bus computes planned times; the engine only stores them in `next_us`.
 */
#ifndef HF_STORE_TIMERS_H
#define HF_STORE_TIMERS_H

#include "store/store.h"

#define STORE_FIRE_MAX 100       /* events of one firing */
#define STORE_RELEASE_MAX 1000   /* delayed events that enter the log in one change */
#define STORE_RUNS_KEPT 100      /* newest rows of a schedule's ledger; older ones go soon */
#define STORE_SCHEDULES_MAX 1000 /* schedules of one page */
#define STORE_NEVER INT64_C(-1)

/* Who fires besides processes: a job in the database, where the engine knows such. */
enum schedule_driver { DRIVER_OWN = 1, DRIVER_PG_CRON };

/* What a schedule publishes, and by which rule. The engine reads none of it but the driver. */
struct schedule_definition {
    struct text expression;
    struct text zone;
    struct text type;
    struct text payload;
    struct text key; /* these three may be absent */
    struct text tenant;
    struct text metadata;
    int32_t policy; /* enum misfire_policy */
    int32_t cap;
    int64_t grace_us;
    enum schedule_driver driver;
};

/*
 * Creates a schedule, or replaces what it says. Either way it waits for next_us (STORE_NEVER:
 * nothing) from now on. `id` is a new one's; one that exists keeps its own. The generation rises
 * with each change of definition or pause, so that a firing that was worked out by the old
 * definition is stale. A pause stays; `paused` is for one that is created. The job of a driver
 * comes, changes and goes with it, and with struct schedule_remove. HF_MISUSE: there is no such
 * driver here; HF_INVALID: it cannot have this expression or zone. Rings.
 */
struct schedule_put {
    struct change change;
    uint8_t id[16];
    struct text name;
    struct schedule_definition definition;
    int64_t next_us;
    bool paused; /* from the beginning */
    struct text paused_by;
    struct text paused_reason;
    bool ret_created;
};

/* Removes a schedule and its ledger. HF_NOTFOUND. Rings. */
struct schedule_remove {
    struct change change;
    struct text name;
};

/* Pauses or resumes. Pausing what is paused keeps the first pause. Resuming makes it wait for
 * next_us; resuming what is not paused changes nothing, or what is due would be lost. HF_NOTFOUND.
 * Rings. */
struct schedule_pause {
    struct change change;
    struct text name;
    bool paused;
    struct text by;
    struct text reason;
    int64_t next_us;
};

/*
 * Fires planned times: appends their events in order, writes the ledger, and lets the schedule wait
 * for next_us, all or nothing. HF_STALE unless the schedule exists, is not paused, has this
 * generation and waits for waited_us: another process has fired it or is about to, or it was
 * changed. Planned times that are left out are one row of the ledger. by_hand: an operator fires it
 * now. It happens whatever the schedule waits for, paused or not, and neither that nor next_us
 * changes; the time is planned_us[0]. An event whose id is in the log already answers so, as in
 * struct append. Rings.
 */
struct fire {
    struct change change;
    uint8_t schedule_id[16];
    int64_t generation;
    int64_t waited_us;
    int64_t next_us;
    struct new_event *events;
    const int64_t *planned_us; /* one per event, rising */
    size_t count;              /* 0 .. STORE_FIRE_MAX, together about STORE_BATCH_BYTES_MAX */
    int64_t skipped_first_us;  /* STORE_NEVER: none */
    int64_t skipped_last_us;
    bool by_hand;
    struct text node;
};

/*
 * Keeps events until due_us, when struct release brings them into the log. All or none, and durable
 * as an append is. An id that is in the log, or is kept already, is a duplicate: it answers the
 * position in the log, or 0, and the first one's time stands. No expected versions. Rings.
 *
 * Unique keys as in struct append. `replace`: an event that waits and has the same key goes, and
 * this one is kept in its place (`replaced`). Whichever process brings that one at the same moment,
 * it is brought or replaced, never both.
 */
struct delay {
    struct change change;
    struct new_event *events;
    size_t count;
    int64_t due_us;
    bool replace;
};

/*
 * Brings kept events that are due at now_us into the log, in the order of their times, then of
 * their arrival: at most `max`, and STORE_BATCH_BYTES_MAX of them. One whose id has entered the log
 * meanwhile goes. ret_next_us: when the next one is due (STORE_NEVER: none is kept). Rings.
 */
struct release {
    struct change change;
    int32_t max; /* 0 .. STORE_RELEASE_MAX; 0 only finds out whether the store takes changes */
    int64_t ret_count;
    int64_t ret_next_us;
};

/*
 * The database itself does what is due by its own clock, as struct release and struct fire would:
 * for a role of the server that may only consume, which can see neither events for later nor
 * schedules, and may not append. At most `max` schedules and STORE_RELEASE_MAX events. HF_DENIED: a
 * role that may only look; HF_MISUSE: the engine has no roles. ret_next_us: as store_timers_due.
 */
struct bring {
    struct change change;
    int32_t max;
    int64_t ret_fired;
    int64_t ret_released;
    int64_t ret_next_us;
};

/*
 * Takes an event that waits for its time (struct delay) away. HF_OK, with ret_position 0: it is
 * gone, and never enters the log. HF_OK, with another one: it is in the log already, there, and
 * nothing was changed. HF_NOTFOUND: neither. Whichever process brings it at the same moment, one of
 * the two happens, and the answer says which. The same id can be published again then.
 */
struct later_cancel {
    struct change change;
    uint8_t id[16];
    int64_t ret_position;
};

/* Gives it another time. The answer is as that of struct later_cancel. Rings. */
struct later_move {
    struct change change;
    uint8_t id[16];
    int64_t due_us;
    int64_t ret_position;
};

/* As store_run for each of them, but one commit may carry several. The answers are in the changes,
 * status and message. */
void store_run_together(struct store *store, struct change *const *changes, size_t count,
                        struct deadline deadline);

/* A schedule as stored. */
struct schedule_row {
    uint8_t id[16];
    struct text name;
    struct schedule_definition definition;
    int64_t generation;
    int64_t created_at_us;
    int64_t next_us;      /* STORE_NEVER */
    int64_t paused_at_us; /* -1: not paused */
    struct text paused_by;
    struct text paused_reason;
};

typedef int (*schedule_row_fn)(const struct schedule_row *row, void *ctx);

/* By name; calls back once. HF_NOTFOUND. */
hf_status store_schedule_get(struct store *store, struct text name, schedule_row_fn found,
                             void *ctx);

/*
 * Schedules come in pages, because each may carry a large payload: at most `max` of them (up to
 * STORE_SCHEDULES_MAX), and about STORE_BATCH_BYTES_MAX, but one. An engine holds no more in memory
 * than the page. A caller that goes on names the last row that it got. Pages are read one after the
 * other: what stays in its place meanwhile is in exactly one of them, whatever becomes of
 * the others and of the row that was named; what is made or moved meanwhile may be in none, or be
 * seen in both of its places. ret_more: the page was full, there may be another. Once the callback
 * has had enough it says nothing.
 */

/* All of the namespace, by name: those behind `after` (empty, not absent: from the first). */
hf_status store_schedule_list(struct store *store, struct text after, int32_t max, bool *ret_more,
                              schedule_row_fn found, void *ctx);

/* What is asked of store_schedules_due. */
struct due_page {
    int64_t now_us;
    int32_t max;
    int64_t after_us; /* next_us and id of the last one; STORE_NEVER: from the first */
    uint8_t after_id[16];
};

/* Those that are due and not paused, by (next_us, id). */
hf_status store_schedules_due(struct store *store, const struct due_page *page, bool *ret_more,
                              schedule_row_fn found, void *ctx);

enum run_kind { RUN_FIRED = 1, RUN_BY_HAND, RUN_SKIPPED };

/* A row of the ledger. */
struct schedule_run {
    enum run_kind kind;
    int64_t planned_us;
    int64_t until_us; /* RUN_SKIPPED: the last time that was left out */
    int64_t fired_us;
    int64_t position; /* -1 for RUN_SKIPPED */
    struct text node;
};

typedef int (*schedule_run_fn)(const struct schedule_run *run, void *ctx);

/* The ledger of a schedule, the newest first: at most `max` rows that were planned before before_us
 * (STORE_NEVER: all). */
hf_status store_schedule_runs(struct store *store, const uint8_t schedule_id[16], int64_t before_us,
                              int32_t max, schedule_run_fn found, void *ctx);

/* An event that waits for its time. */
struct later_row {
    uint8_t id[16];
    int64_t due_us;
    int64_t number; /* rises in the order in which they were kept */
    int64_t emitted_at_us;
    struct text type;
    struct text payload; /* absent in a list: payloads may be large */
    int64_t payload_bytes;
    struct text key; /* these may be absent */
    struct text tenant;
    struct text metadata;
    struct text producer;
};

typedef int (*later_row_fn)(const struct later_row *row, void *ctx);

/* What is asked of store_later_list. */
struct later_query {
    struct text type;      /* a pattern; absent: all */
    struct text key;       /* absent: all */
    int64_t due_before_us; /* STORE_NEVER: all */
    int64_t after_us;      /* due_us and number of the last one; STORE_NEVER: from the first */
    int64_t after_number;
    int32_t max;
};

/* In the order in which they are due, then kept. */
hf_status store_later_list(struct store *store, const struct later_query *query, later_row_fn found,
                           void *ctx);
/* By id; calls back once. HF_NOTFOUND. */
hf_status store_later_get(struct store *store, const uint8_t id[16], later_row_fn found, void *ctx);

/* How much waits for its time. Counts rows: as long as there are many of them it takes long. */
struct timers_count {
    int64_t later;             /* delayed events */
    int64_t later_due;         /* those of them whose time has come */
    int64_t later_next_us;     /* when the first one is due; STORE_NEVER: there is none */
    int64_t schedules_due;     /* not paused ones whose time has come */
    int64_t schedules_next_us; /* the earliest planned time; STORE_NEVER: there is none */
};

/* HF_DENIED: hidden from the role of the server. */
hf_status store_timers_count(struct store *store, int64_t now_us, struct timers_count *ret_count);

/* When the earliest schedule or delayed event is due (STORE_NEVER: nothing is, or the role of the
 * server may do nothing about it). One look at the ends of two indexes. */
hf_status store_timers_due(struct store *store, int64_t *ret_due_us);
/* A number that changes when what store_timers_due answers may have changed. It does so before
 * store_news does, so a thread that waits for news can leave out those that are not about
 * timers. */
uint64_t store_timers_news(struct store *store);

/* What the store's clock shows when ours shows now_us. Planned times and due times are by that
 * clock and are handed over as they are; only now_us of a change or query is by ours. */
int64_t store_time(struct store *store, int64_t now_us);

#endif
