/*
 * schedule.h - schedules and delayed events on SQLite; called as verbs.h says.
 */
#ifndef HF_STORE_SQLITE_WRITE_SCHEDULE_H
#define HF_STORE_SQLITE_WRITE_SCHEDULE_H

#include "store/engine.h"
#include "store/timers.h"

struct sqlite_engine;
struct conn;

/* ---- Changes (schedule.c, delay.c) ----------------------------------------------------------- */

hf_status sqlite_schedule_put(struct sqlite_engine *engine, struct conn *conn,
                              struct schedule_put *put);
hf_status sqlite_schedule_remove(struct sqlite_engine *engine, struct conn *conn,
                                 struct schedule_remove *remove);
hf_status sqlite_schedule_pause(struct sqlite_engine *engine, struct conn *conn,
                                struct schedule_pause *pause);
hf_status sqlite_fire(struct sqlite_engine *engine, struct conn *conn, struct fire *fire);
hf_status sqlite_delay(struct sqlite_engine *engine, struct conn *conn, struct delay *delay);
hf_status sqlite_release(struct sqlite_engine *engine, struct conn *conn, struct release *release);

/* ---- Queries (schedule.c) -------------------------------------------------------------------- */

hf_status sqlite_schedule_get(struct engine *engine, struct text name, schedule_row_fn found,
                              void *ctx);
hf_status sqlite_schedule_list(struct engine *engine, struct text after, int32_t max,
                               bool *ret_more, schedule_row_fn found, void *ctx);
hf_status sqlite_schedules_due(struct engine *engine, const struct due_page *page, bool *ret_more,
                               schedule_row_fn found, void *ctx);
hf_status sqlite_schedule_runs(struct engine *engine, const uint8_t schedule_id[16],
                               int64_t before_us, int32_t max, schedule_run_fn found, void *ctx);
hf_status sqlite_timers_due(struct engine *engine, int64_t *ret_due_us);

#endif
