/*
 * serve.c - the command `serve`: its options. What it does is in src/server.
 */
#include "cli/core/serve.h"

#include "base/banned.h"
#include "cli/config/serve_options.h"
#include "cli/config/work_options.h"
#include "cli/core/commands.h"

static const struct option_row serve_options[] = {
    {"config", 0, OPTION_TEXT, "FILE", NULL, 0, 0,
     "take the database and the subscriptions from this file (else holdfast.yaml, if it is there)"},
    SERVE_OPTIONS,
    WORK_OPTION_DRAIN,
    WORK_OPTIONS_NODE,
    OPTION_END,
};

const struct command command_serve = {
    .name = "serve",
    .usage = "[--config FILE] [--listen ADDRESS]",
    .summary = "HTTP API; works for schedules and declared subscriptions",
    .examples = "  holdfast serve\n"
                "  holdfast serve --config /etc/holdfast/shop.yaml\n"
                "  holdfast serve --listen 0.0.0.0:7070 --tokens /etc/holdfast/tokens \\\n"
                "      --tls-cert cert.pem --tls-key key.pem\n"
                "  curl -s localhost:7070/v1/subscriptions\n",
    .details = "Without tokens it listens to this machine only, and every user of it may do\n"
               "everything. A line of the file is NAME ROLE NAMESPACE SHA256: ROLE is viewer,\n"
               "operator or admin, NAMESPACE a name or *, SHA256 the hash of the token\n"
               "(printf %s TOKEN | sha256sum).\n"
               "With a file (--config, else holdfast.yaml if it is there) the process also does\n"
               "what `holdfast work` does with it: it works for all its subscriptions and makes\n"
               "its schedules and retention. The section `serve` has these options. Several such\n"
               "processes may run on one database. The output of commands goes to the log.\n",
    .json_messages = true,
    .options = serve_options,
    .run = serve_run,
};
