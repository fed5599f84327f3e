/*
 * serve.c - the command `serve`: its options. What it does is in src/server.
 */
#include "cli/core/serve.h"

#include "base/banned.h"
#include "cli/core/commands.h"

static const struct option_row serve_options[] = {
    {"listen", 0, OPTION_TEXT, "ADDRESS", NULL, 0, 0,
     "HOST:PORT, [IPV6]:PORT or unix:PATH (" SERVE_LISTEN ")"},
    {"tokens", 0, OPTION_TEXT, "FILE", NULL, 0, 0,
     "who may do what; needed to listen to other machines"},
    {"tls-cert", 0, OPTION_TEXT, "FILE", NULL, 0, 0, "certificate chain in PEM: HTTPS"},
    {"tls-key", 0, OPTION_TEXT, "FILE", NULL, 0, 0, "its private key in PEM"},
    {"threads", 0, OPTION_NUMBER, "N", NULL, 2, 512, "requests that are worked on at once (32)"},
    {"max-body", 0, OPTION_SIZE, "BYTES", NULL, 1024, CLI_PAYLOAD_BYTES_MAX,
     "the largest request (64MiB)"},
    {"max-per-address", 0, OPTION_NUMBER, "N", NULL, 0, 1000000,
     "connections of one address (0: as many as there are)"},
    {"max-streams", 0, OPTION_NUMBER, "N", NULL, 0, 1000000, "open streams of events (4096)"},
    {"max-streams-per-address", 0, OPTION_NUMBER, "N", NULL, 0, 1000000,
     "those of one address (0: as many as there are)"},
    OPTION_END,
};

const struct command command_serve = {
    .name = "serve",
    .usage = "[--listen ADDRESS] [--tokens FILE]",
    .summary = "HTTP API; fires schedules and brings what is for later",
    .examples = "  holdfast serve\n"
                "  holdfast serve --listen 0.0.0.0:7070 --tokens /etc/holdfast/tokens \\\n"
                "      --tls-cert cert.pem --tls-key key.pem\n"
                "  curl -s localhost:7070/v1/subscriptions\n",
    .details = "Without tokens it listens to this machine only, and every user of it may do\n"
               "everything. A line of the file is NAME ROLE NAMESPACE SHA256: ROLE is viewer,\n"
               "operator or admin, NAMESPACE a name or *, SHA256 the hash of the token\n"
               "(printf %s TOKEN | sha256sum).\n",
    .options = serve_options,
    .run = serve_run,
};
