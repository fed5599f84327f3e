/*
 * support_retention.c - see support_retention.h.
 */
#include "support_retention.h"

#include "support_tables.h"

#define AGE_DAYS 400

/* All that was published to a namespace so far entered the log AGE_DAYS ago. The checksum goes with
 * the time, or the events would count as damaged. */
void grow_old_of(struct scene *scene, int namespace_id)
{
    static const char server_sql[] =
        "SET timezone = 'UTC';"
        "DO $$ DECLARE"
        "    v_log text := 'events_%1$d';"
        "    v_from timestamp := date_trunc('month', now() - interval '%2$d days');"
        "    v_name text := v_log || '_' || to_char(v_from, 'YYYYMM');"
        "BEGIN"
        "    EXECUTE format('CREATE TABLE holdfast_private.%%I (LIKE "
        "holdfast_private.events)', v_name);"
        "    EXECUTE format('CREATE INDEX ON holdfast_private.%%I (position)', v_name);"
        "    EXECUTE format('INSERT INTO holdfast_private.%%I SELECT * FROM "
        "holdfast_private.%%I', v_name, v_log);"
        "    EXECUTE format('UPDATE holdfast_private.%%1$I SET entered_at = %%2$L, "
        "guard_at = %%2$L, "
        "        checksum = checksum # (extract(epoch FROM entered_at) * 1000000)::bigint "
        "                   # (extract(epoch FROM timestamptz %%2$L) * 1000000)::bigint', "
        "        v_name, v_from);"
        "    EXECUTE format('DELETE FROM holdfast_private.%%I', v_log);"
        "    EXECUTE format('ALTER TABLE holdfast_private.%%I ATTACH PARTITION "
        "holdfast_private.%%I "
        "                    FOR VALUES FROM (%%L) TO (%%L)', v_log, v_name, v_from, "
        "                   v_from + interval '1 month');"
        "END $$";
    char sql[sizeof server_sql + 64];

    if (scene->path) {
        snprintf(sql, sizeof sql,
                 "UPDATE holdfast_events SET entered_at = entered_at - %1$d * 86400000000, "
                 "checksum = (SELECT (checksum | x) & ~(checksum & x) FROM (SELECT "
                 "(entered_at | old) & ~(entered_at & old) AS x FROM (SELECT "
                 "entered_at - %1$d * 86400000000 AS old))) WHERE place >> 44 = %2$d",
                 AGE_DAYS, namespace_id);
    } else {
        snprintf(sql, sizeof sql, server_sql, namespace_id, AGE_DAYS);
    }
    tables_run(scene, sql);
}

void grow_old(struct scene *scene)
{
    grow_old_of(scene, 1);
}

void publish_bulk(hf_bus *bus, const char *type, int count)
{
    enum { PART = 500 };
    static hf_new_event items[PART];

    for (int done = 0; done < count; done += PART) {
        int part = count - done < PART ? count - done : PART;
        for (int i = 0; i < part; i++) {
            items[i] = (hf_new_event)HF_NEW_EVENT_INIT;
            items[i].type = type;
            items[i].payload = "{\"some\": \"text that takes a little room in the log\"}";
        }
        assert_ok(hf_publish_many(bus, items, (size_t)part, NULL));
    }
}

int note_run(const hf_retention_info *info, void *ctx)
{
    struct told *told = ctx;

    told->calls++;
    told->drops += info->dropped_name != NULL;
    told->last = *info;
    snprintf(told->kept_by, sizeof told->kept_by, "%s", info->kept_by ? info->kept_by : "");
    return 0;
}

struct told retain(hf_bus *bus, hf_toggle dry_run)
{
    struct told told = {.calls = 0};

    assert_ok(hf_retention_run(bus, NULL, dry_run, note_run, &told));
    assert_true(told.calls > 0);
    return told;
}

int64_t first_position(hf_bus *bus)
{
    hf_stats stats = {.size = sizeof stats};

    assert_ok(hf_stats_get(bus, &stats));
    return stats.first;
}

int note_dropped(const hf_subscription_info *info, void *ctx)
{
    int64_t *dropped = ctx;

    dropped[0] = info->dropped_through;
    dropped[1] = info->dropped;
    return 0;
}

void set_retention(hf_bus *bus, int64_t retention_ms, int64_t retention_bytes, hf_lagging lagging)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;

    options.retention_ms = retention_ms;
    options.retention_bytes = retention_bytes;
    options.lagging = lagging;
    assert_ok(hf_namespace_set(bus, "default", &options));
}

hf_verdict fail_first(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return event->position == 1 ? HF_RETRY : HF_ACK;
}

/* What fails is not tried again within this test. */
hf_subscription_options patient_options(void)
{
    hf_subscription_options options = quick_options();

    options.retry_base_ms = 3600000;
    options.retry_max_ms = 3600000;
    return options;
}
