/*
 * migrate.c - `holdfast migrate`: makes the schema or brings it up to date, says what that would
 * be, or writes it as a script.
 *
 * What is said is the plan (hf_schema_plan), made before anything is done. Another process may be
 * faster; then what is there in the end is the same.
 */
#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

struct migrate {
    struct cli *cli;
    bool is_dry;
    int code; /* what the command exits with, if there is a plan */
};

static bool plan_changes(const hf_migration *plan)
{
    return plan->step_count > 0 || plan->functions_applied;
}

static const char *functions_word(hf_functions functions)
{
    switch (functions) {
    case HF_FUNCTIONS_NONE:
        return NULL;
    case HF_FUNCTIONS_SAME:
        return "same";
    case HF_FUNCTIONS_OTHER:
        return "other";
    case HF_FUNCTIONS_OLDER:
        return "older";
    case HF_FUNCTIONS_NEWER:
        return "newer";
    }
    return NULL;
}

static const char *was_word(const hf_migration *plan)
{
    return plan->version == 0 ? "created" : plan_changes(plan) ? "migrated" : "as it was";
}

static const char *would_word(const hf_migration *plan)
{
    return plan->version == 0 ? "create" : plan_changes(plan) ? "migrate" : "nothing";
}

/* ---- As text --------------------------------------------------------------------------------- */

static void print_dry(const hf_migration *plan)
{
    if (plan->version == 0) {
        printf("no schema: would create version %" PRId64 "\n", plan->version_after);
        return;
    }
    if (!plan_changes(plan)) {
        printf("schema version %" PRId64 ": nothing to do\n", plan->version);
        return;
    }
    if (plan->step_count > 0) {
        printf("schema version %" PRId64 ": would migrate to version %" PRId64 "\n", plan->version,
               plan->version_after);
    } else {
        printf("schema version %" PRId64 ": would stay\n", plan->version);
    }
    for (size_t i = 0; i < plan->step_count; i++) {
        const hf_migration_step *step = plan->steps[i];
        printf("step %" PRId64 ", %s: programs of version %" PRId64 " %s\n", step->number,
               step->name, step->number - 1,
               step->older_programs ? "can work on beside it" : "are refused after it");
    }
    if (plan->functions_applied) {
        printf("functions of Holdfast %s: would be applied, those that are there are %s\n",
               hf_version(),
               plan->functions == HF_FUNCTIONS_SAME    ? "the same"
               : plan->functions == HF_FUNCTIONS_OTHER ? "of another build"
                                                       : "older");
    }
}

static void print_done(const hf_migration *plan)
{
    printf("schema version %" PRId64 ", %s\n", plan->version_after, was_word(plan));
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void show_version(struct json_out *json, const char *key, int64_t version)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, version);
    show_string(json, key, version > 0 ? digits : NULL);
}

static void show_steps(struct json_out *json, const hf_migration *plan)
{
    json_key(json, "steps");
    json_array_begin(json);
    for (size_t i = 0; i < plan->step_count; i++) {
        json_object_begin(json);
        show_int(json, "number", plan->steps[i]->number);
        show_string(json, "name", plan->steps[i]->name);
        show_string(json, "older_programs", plan->steps[i]->older_programs ? "work" : "refused");
        json_object_end(json);
    }
    json_array_end(json);
}

static void print_json(const struct migrate *migrate, const hf_migration *plan)
{
    char shown[URL_SHOWN_BYTES];
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "url", url_shown(migrate->cli->url, shown));
    show_string(json, "engine", plan->engine);
    show_version(json, "schema_version", migrate->is_dry ? plan->version : plan->version_after);
    if (migrate->is_dry) {
        show_version(json, "schema_after", plan->version_after);
        show_string(json, "would", would_word(plan));
    } else {
        show_string(json, "schema_was", was_word(plan));
    }
    show_steps(json, plan);
    show_string(json, "functions", functions_word(plan->functions));
    show_bool(json, "functions_applied", plan->functions_applied);
    show_int(json, "programs_from",
             migrate->is_dry && plan->version > 0 ? plan->programs_from
                                                  : plan->programs_from_after);
    if (migrate->is_dry) {
        show_int(json, "programs_from_after", plan->programs_from_after);
    }
    show_line_end(&line);
}

/* ---- The command ----------------------------------------------------------------------------- */

static void tell_dry(const hf_migration *plan, void *ctx)
{
    struct migrate *migrate = ctx;
    migrate->code = plan_changes(plan) ? EXIT_FINDINGS : EXIT_OK;
    if (migrate->cli->json) {
        print_json(migrate, plan);
    } else {
        print_dry(plan);
    }
}

/* Does what the plan says, then tells it. */
static void carry_out(const hf_migration *plan, void *ctx)
{
    struct migrate *migrate = ctx;
    migrate->code = cli_open_named(migrate->cli, HF_OPEN_MIGRATE);
    if (migrate->code) {
        return; /* it was said why not */
    }
    if (migrate->cli->json) {
        print_json(migrate, plan);
    } else {
        print_done(plan);
    }
}

static void print_script(const char *text, size_t length, void *ctx)
{
    (void)ctx;
    fwrite(text, 1, length, stdout);
}

static int run_migrate(struct cli *cli)
{
    struct migrate migrate = {.cli = cli, .is_dry = args_given(&cli->args, "dry-run")};
    hf_options options = cli_whole_options(cli, HF_OPEN_NOMIGRATE);
    hf_status status;

    if (args_given(&cli->args, "print") && cli->json) {
        return args_usage(&cli->args, "a script is no JSON: --print goes without --json");
    }
    if (args_given(&cli->args, "print") && migrate.is_dry) {
        return args_usage(&cli->args, "--print does nothing either: it goes without --dry-run");
    }
    if (args_given(&cli->args, "print")) {
        return cli_fail(hf_schema_script("postgres:", print_script, NULL));
    }
    status = hf_schema_plan(cli->url, &options, migrate.is_dry ? tell_dry : carry_out, &migrate);
    return status ? cli_fail(status) : migrate.code;
}

static const struct option_row migrate_options[] = {
    {"dry-run", 0, OPTION_FLAG, NULL, NULL, 0, 0, "say what would be done, and change nothing"},
    {"print", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "write the SQL for PostgreSQL instead of running it"},
    OPTION_END,
};

const struct command command_migrate = {
    .name = "migrate",
    .usage = "",
    .summary = "creates the database or brings its schema up to date",
    .examples = "  holdfast migrate\n"
                "  holdfast migrate --dry-run\n"
                "  holdfast migrate --db sqlite:/var/lib/app/app.db\n"
                "  holdfast migrate --db postgres://admin@db/shop\n"
                "  holdfast migrate --print >holdfast.sql\n",
    .details = "On PostgreSQL nothing else changes a schema that is there. An SQLite file is\n"
               "also migrated by every program that opens it for work. It says whether the\n"
               "schema was created, migrated or left as it was, and makes a namespace only\n"
               "if --namespace names one. A schema that is newer is left as it is, or refused\n"
               "if it does not take this program. On PostgreSQL the database itself must\n"
               "exist; the schema is named holdfast.\n"
               "With --dry-run it names the steps that would be run, which programs can work on\n"
               "beside them, and whether the functions differ. It exits with 0 if there is\n"
               "nothing to do, with 7 if there is, and with 1 if it would be refused.\n"
               "With --print nothing is opened: all of it is written as one script, for\n"
               "`psql -X -v ON_ERROR_STOP=1 -f holdfast.sql`, which does the same.\n",
    .options = migrate_options,
    .run = run_migrate,
};
