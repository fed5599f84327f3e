/*
 * schema.c - the schema apart from a bus: the script that makes it, and what a migration would do.
 */
#include "base/err.h"
#include "base/text/buf.h"
#include "bus/bus.h"
#include "store/store.h"

#define SCHEMA_SCRIPT_BYTES_MAX (4 << 20)

hf_status hf_schema_script(const char *url, hf_text_fn found, void *ctx)
{
    struct buf script;
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    buf_init(&script, SCHEMA_SCRIPT_BYTES_MAX);
    hf_status status = store_schema_script(url, &script);
    if (!status) {
        struct text text = buf_text(&script);
        found(text.bytes, text.length, ctx);
    }
    buf_release(&script);
    return status;
}

hf_status hf_schema_plan(const char *url, const hf_options *options, hf_migration_fn found,
                         void *ctx)
{
    hf_options own;
    hf_status status = found ? HF_OK : fail(HF_INVALID, "found is NULL");
    if (!status) {
        status = bus_take_options(options, &own);
    }
    if (status) {
        return status;
    }
    struct log log = {.write = own.log, .ctx = own.log_ctx, .level = own.log_level};
    struct store_options store_options = {
        .namespace_name = TEXT_ABSENT,
        .node_name = text_of(own.node_name ? own.node_name : "plan"),
        .open_mode = HF_OPEN_NOMIGRATE,
        .durability = HF_DURABILITY_POWER,
        .timeout_ms = own.timeout_ms,
        .queue_events_max = own.queue_events_max,
        .queue_bytes_max = own.queue_bytes_max,
        .log = &log,
    };
    return store_schema_plan(url, &store_options, found, ctx);
}
