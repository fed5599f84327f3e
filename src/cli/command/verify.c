/*
 * verify.c - verify: is everything that is stored as it should be?
 *
 * A finding is one line as soon as it is known, so that a user who ends the command early (it only
 * reads, so it may be ended at any time) has what was found until then. With --json the last line
 * is an object with the numbers, which is missing if not everything was looked at.
 */
#include "base/text/json_write.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/show.h"

#include "base/banned.h"

#include <inttypes.h>

struct verify {
    bool json;
    int64_t findings;
    int64_t rows; /* examined */
    struct progress progress;
};

static int show_damage(const char *name, const char *value, hf_log_level level, const char *advice,
                       void *ctx)
{
    struct verify *verify = ctx;
    (void)level;

    verify->findings++;
    if (verify->json) {
        struct show_line line;
        struct json_out *json = show_line_begin(&line);

        show_string(json, "name", name);
        show_string(json, "value", value);
        show_string(json, "advice", advice);
        show_line_end(&line);
    } else {
        printf("%s%s%s: ", out_on(OUT_RED), name, out_off());
        out_text(value);
        printf(" (%s)\n", advice);
    }
    fflush(stdout);
    return out_failed();
}

static int show_progress(int64_t rows, void *ctx)
{
    struct verify *verify = ctx;

    verify->rows = rows;
    progress_update(&verify->progress, rows, 0, 0);
    return out_failed();
}

static void show_end(const struct verify *verify)
{
    struct show_line line;

    if (verify->json) {
        struct json_out *json = show_line_begin(&line);
        show_int(json, "rows", verify->rows);
        show_int(json, "findings", verify->findings);
        show_line_end(&line);
    }
    out_say("%" PRId64 " row%s examined, %" PRId64 " finding%s.", verify->rows,
            verify->rows == 1 ? "" : "s", verify->findings, verify->findings == 1 ? "" : "s");
}

static int run_verify(struct cli *cli)
{
    struct verify verify = {.json = cli->json};
    int code = cli_open_named(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    progress_begin(&verify.progress, "rows");
    code = cli_fail(hf_verify(cli->bus, show_damage, show_progress, &verify));
    progress_end(&verify.progress);
    if (code) {
        return code;
    }
    show_end(&verify);
    return verify.findings == 0 ? EXIT_OK : EXIT_FINDINGS;
}

const struct command command_verify = {
    .name = "verify",
    .usage = "",
    .summary = "looks for damage in everything that is stored",
    .examples = "  holdfast verify\n"
                "  holdfast verify --json\n",
    .details = "Reads the whole log and all that belongs to subscriptions, in all namespaces,\n"
               "and prints a line per finding with what to do. It writes nothing, other\n"
               "processes go on meanwhile, and it may be ended at any time. Exits with 7 if\n"
               "there is a finding. With --json the last line says how many rows and findings\n"
               "there are; it is missing if verify did not get to the end.\n",
    .run = run_verify,
};
