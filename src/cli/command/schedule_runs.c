/*
 * schedule_runs.c - the ledger of a schedule: what fired, was run by hand, or was skipped.
 */
#include "cli/command/schedule_runs.h"

#include "base/banned.h"
#include "cli/core/cli.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

/* ---- JSON ------------------------------------------------------------------------------------ */

static int add_run(const hf_schedule_run_info *run, void *ctx)
{
    struct json_out *json = ctx;

    json_object_begin(json);
    show_schedule_run(json, run);
    json_object_end(json);
    return 0;
}

int schedule_runs_json(hf_bus *bus, const char *name, int32_t count, struct buf *ret_json)
{
    struct json_out json;
    hf_status status = HF_OK;

    json_out_init(&json, ret_json);
    json_array_begin(&json);
    if (count > 0) {
        status = hf_schedule_runs(bus, name, -1, count, add_run, &json);
    }
    json_array_end(&json);
    return cli_fail(status);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static int print_run(const hf_schedule_run_info *run, void *ctx)
{
    struct out_table *table = ctx;
    char words[OUT_WORDS_BYTES];

    out_table_cell(table, out_time(run->planned_at_us, words));
    switch (run->kind) {
    case HF_RUN_FIRED:
        out_table_cell(table, "fired");
        break;
    case HF_RUN_BY_HAND:
        out_table_cell(table, "by hand");
        break;
    case HF_RUN_SKIPPED:
        out_table_printf(table, "skipped until %s", out_time(run->until_at_us, words));
        break;
    }
    out_table_cell(table, out_time(run->fired_at_us, words));
    out_table_cell(table, out_number(run->position, words));
    out_table_cell(table, run->event_id);
    out_table_cell(table, run->node);
    return out_failed();
}

int schedule_runs_print(hf_bus *bus, const char *name, int32_t count)
{
    static const struct out_column columns[] = {
        {"PLANNED", false, 0, 0}, {"WHAT", false, 48, 0},  {"AT", false, 0, 0},
        {"POSITION", true, 0, 0}, {"EVENT", false, 36, 2}, {"NODE", false, 40, 1},
    };
    static struct out_table table;
    hf_status status;

    if (count == 0) {
        return EXIT_OK;
    }
    out_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    status = hf_schedule_runs(bus, name, -1, count, print_run, &table);
    out_table_end(&table);
    return cli_fail(status);
}
