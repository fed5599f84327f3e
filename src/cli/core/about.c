/*
 * about.c - version and doctor: what the program and the database say of themselves.
 */
#include "base/banned.h"
#include "base/text/utf8.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define ADVICE_BYTES_MAX 65536

/* ---- version --------------------------------------------------------------------------------- */

static int run_version(struct cli *cli)
{
    if (!cli->json) {
        printf("holdfast %s\n", hf_version());
        return EXIT_OK;
    }
    struct show_line line;
    struct json_out *json = show_line_begin(&line);
    show_string(json, "version", hf_version());
    show_string(json, "header_version", HF_VERSION);
    show_line_end(&line);
    return EXIT_OK;
}

const struct command command_version = {
    .name = "version",
    .usage = "",
    .summary = "prints the version",
    .examples = "  holdfast version\n"
                "  holdfast version --json\n",
    .places_itself = true,
    .run = run_version,
};

/* ---- doctor ---------------------------------------------------------------------------------- */

struct doctor {
    bool json;
    int64_t troubles; /* findings of level WARN and above */
    struct out_table table;
    struct buf advice; /* for a terminal, whose table cuts it: whole lines, made safe */
};

static const char *level_word(hf_log_level level)
{
    switch (level) {
    case HF_LOG_ERROR:
        return "error";
    case HF_LOG_WARN:
        return "warn";
    case HF_LOG_DEFAULT:
    case HF_LOG_DEBUG:
    case HF_LOG_INFO:
        return "ok";
    }
    return "ok";
}

static int show_finding(const char *name, const char *value, hf_log_level level, const char *advice,
                        void *ctx)
{
    struct doctor *doctor = ctx;

    if (level >= HF_LOG_WARN) {
        doctor->troubles++;
    }
    if (doctor->json) {
        struct show_line line;
        struct json_out *json = show_line_begin(&line);

        show_string(json, "name", name);
        show_string(json, "value", value);
        show_string(json, "level", level_word(level));
        show_string(json, "advice", advice);
        show_line_end(&line);
    } else {
        out_table_cell(&doctor->table, level_word(level));
        out_table_mark(&doctor->table, level >= HF_LOG_ERROR  ? OUT_RED
                                       : level == HF_LOG_WARN ? OUT_YELLOW
                                                              : OUT_PLAIN);
        out_table_cell(&doctor->table, name);
        out_table_cell(&doctor->table, value);
        out_table_cell(&doctor->table, advice ? advice : "");
        if (level >= HF_LOG_WARN && advice && out_columns() > 0) {
            utf8_sanitize(text_of(name), &doctor->advice);
            buf_append_text(&doctor->advice, text_of(": "));
            utf8_sanitize(text_of(advice), &doctor->advice);
            buf_char(&doctor->advice, '\n');
        }
    }
    return out_failed();
}

/* What doctor says of a namespace it says of the one that is named, or of `default`; a database
 * that has no such namespace, or not now, is examined without. */
static int open_doctor(struct cli *cli)
{
    hf_options options = cli_options(cli, HF_OPEN_NOMIGRATE);
    hf_status status;

    options.brief = 1;
    if (cli->namespace_name) {
        return cli_open_with(cli, &options);
    }
    status = hf_open(cli->url, &options, &cli->bus);
    if (status == HF_NOTFOUND || status == HF_BUSY) {
        return cli_open_whole(cli, HF_OPEN_NOMIGRATE);
    }
    return cli_fail(status);
}

static int run_doctor(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"", false, 0, 0}, {"WHAT", false, 0, 0}, {"VALUE", false, 48, 0}, {"ADVICE", false, 0, 0}};
    struct doctor doctor = {.json = cli->json};
    int code = open_doctor(cli);

    if (code) {
        return code;
    }
    out_table_init(&doctor.table, columns, 4);
    buf_init(&doctor.advice, ADVICE_BYTES_MAX);
    code = cli_fail(hf_doctor(cli->bus, show_finding, &doctor));
    out_table_end(&doctor.table);
    if (doctor.advice.length > 0) {
        printf("\n%s", buf_terminate(&doctor.advice));
    }
    buf_release(&doctor.advice);
    if (code) {
        return code;
    }
    fflush(stdout);
    if (doctor.troubles == 0) {
        out_say("No trouble found.");
        return EXIT_OK;
    }
    out_say("%" PRId64 " finding%s to look at.", doctor.troubles, doctor.troubles == 1 ? "" : "s");
    return EXIT_FINDINGS;
}

const struct command command_doctor = {
    .name = "doctor",
    .usage = "",
    .summary = "examines the database and says what to change",
    .examples = "  holdfast doctor\n"
                "  holdfast doctor --json\n",
    .details = "Exits with 7 if there is a finding of level warn or error.\n",
    .run = run_doctor,
};
