/*
 * declare.c - what a configuration file declares besides subscriptions: schedules, and the
 * retention of the namespace.
 *
 * The file is the whole truth about the schedules that it has, and says nothing about others: those
 * stay. One that is as the file says is not touched, so a restart neither loses nor repeats a
 * planned time; one that is not is changed, and waits for its next time from now on. Retention is
 * set only where the file says something else than what is stored.
 *
 * It is done when the subscriptions are there, so that none of them misses the first event. Several
 * workers may do it at once: each does the same. If it fails half way `work` ends, and the next
 * start goes on.
 */
#include "base/banned.h"
#include "cli/config/setting.h"
#include "cli/terminal/out.h"
#include "cli/work/work.h"

#define NAMESPACE_DEFAULT "default"
#define PAUSE_REASON "active: off in the configuration file"

/* ---- Schedules ------------------------------------------------------------------------------- */

static struct config_setting setting_of(struct work *work, const struct config_entry *entry,
                                        const char *path)
{
    return config_setting_of(&work->source->config, entry->values, &work->cli->args,
                             CONFIG_SCHEDULE, path);
}

static hf_schedule schedule_of(struct work *work, const struct config_entry *entry)
{
    hf_schedule schedule = HF_SCHEDULE_INIT;

    schedule.name = entry->name;
    schedule.expression = setting_of(work, entry, "cron").value.text;
    schedule.zone = setting_of(work, entry, "zone").value.text;
    schedule.type = setting_of(work, entry, "type").value.text;
    schedule.payload = setting_of(work, entry, "payload").value.text;
    schedule.key = setting_of(work, entry, "key").value.text;
    schedule.tenant = setting_of(work, entry, "tenant").value.text;
    schedule.metadata = setting_of(work, entry, "metadata").value.text;
    schedule.misfire = (hf_misfire)setting_of(work, entry, "misfire").value.number;
    schedule.misfire_cap = (int32_t)setting_of(work, entry, "misfire_cap").value.number;
    schedule.grace_ms = setting_of(work, entry, "grace").value.number;
    schedule.driver = (hf_driver)setting_of(work, entry, "driver").value.number;
    return schedule;
}

static int declare_schedule(struct work *work, const struct config_entry *entry)
{
    hf_bus *bus = work->cli->bus;
    hf_schedule schedule = schedule_of(work, entry);
    struct config_setting active = setting_of(work, entry, "active");
    int32_t created = 0;
    hf_status status;

    if (active.origin != CONFIG_BY_DEFAULT && active.value.number != HF_ON) {
        schedule.paused = PAUSE_REASON;
    }
    status = hf_schedule_put(bus, &schedule, &created);
    if (!status && active.origin != CONFIG_BY_DEFAULT) {
        status = active.value.number == HF_ON ? hf_schedule_resume(bus, entry->name)
                                              : hf_schedule_pause(bus, entry->name, PAUSE_REASON);
    }
    if (status) {
        out_complain("%s:%d: schedule %s: %s", work->file, entry->place.line, entry->name,
                     hf_errmsg());
    } else if (created) {
        out_say("Schedule %s added.", entry->name);
    }
    return cli_exit_code(status);
}

/* ---- Retention ------------------------------------------------------------------------------- */

static int note_retention(const hf_namespace_info *info, void *ctx)
{
    hf_namespace_options *stored = ctx;

    stored->retention_ms = info->retention_ms;
    stored->retention_bytes = info->retention_bytes;
    stored->lagging = info->lagging;
    return 0;
}

/* A number that the file gives; else what is stored. ret_line: that of the last one given. */
static int64_t retention_of(struct work *work, const char *path, int64_t stored, int *ret_line)
{
    struct config_setting setting =
        config_setting_of(&work->source->config, work->source->config.retention, &work->cli->args,
                          CONFIG_RETENTION, path);

    if (setting.origin == CONFIG_BY_DEFAULT) {
        return stored;
    }
    *ret_line = setting.line;
    return setting.value.number;
}

/* Only the owner of a database may set it, so what is so already is not set again. */
static int declare_retention(struct work *work)
{
    hf_bus *bus = work->cli->bus;
    const char *name = work->cli->namespace_name ? work->cli->namespace_name : NAMESPACE_DEFAULT;
    hf_namespace_options stored = HF_NAMESPACE_OPTIONS_INIT;
    hf_namespace_options wanted = HF_NAMESPACE_OPTIONS_INIT;
    int line = 0;
    hf_status status = hf_namespace_get(bus, name, note_retention, &stored);

    if (!status) {
        wanted.retention_ms = retention_of(work, "age", stored.retention_ms, &line);
        wanted.retention_bytes = retention_of(work, "bytes", stored.retention_bytes, &line);
        wanted.lagging = (hf_lagging)retention_of(work, "lagging", stored.lagging, &line);
    }
    if (!status &&
        (wanted.retention_ms != stored.retention_ms ||
         wanted.retention_bytes != stored.retention_bytes || wanted.lagging != stored.lagging)) {
        status = hf_namespace_set(bus, name, &wanted);
    }
    if (status) {
        out_complain("%s:%d: retention of namespace %s: %s", work->file, line, name, hf_errmsg());
    }
    return cli_exit_code(status);
}

static bool says_retention(const struct config *config)
{
    for (size_t i = 0; i < config_key_count(CONFIG_RETENTION); i++) {
        if (config->retention[i].place.line) {
            return true;
        }
    }
    return false;
}

int work_declare(struct work *work)
{
    const struct config *config = &work->source->config;
    int code = EXIT_OK;

    for (size_t i = 0; i < config->schedule_count && !code; i++) {
        code = declare_schedule(work, config->schedules[i]);
    }
    if (!code && says_retention(config)) {
        code = declare_retention(work);
    }
    return code;
}
