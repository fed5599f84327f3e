/*
 * webhook_options.h - options of webhooks that `work` shares with `config show` and with the
 * configuration file.
 */
#ifndef HF_CLI_CONFIG_WEBHOOK_OPTIONS_H
#define HF_CLI_CONFIG_WEBHOOK_OPTIONS_H

#include "cli/core/args.h"

#define WEBHOOK_OPTION_URL                                                                         \
    {                                                                                              \
        "http", 0, OPTION_TEXT, "URL", NULL, 0, 0,                                                 \
            "post each event to this URL instead of running a command"                             \
    }

#define WEBHOOK_OPTION_FORMAT                                                                      \
    {                                                                                              \
        "http-format", 0, OPTION_CHOICE, "WHAT", "binary|structured", 0, 0,                        \
            "binary (the default): the payload as body; structured: one JSON object"               \
    }

#define WEBHOOK_OPTION_TIMEOUT                                                                     \
    {                                                                                              \
        "http-timeout", 0, OPTION_DURATION, "TIME", NULL, 10, 3600000,                             \
            "the longest that a request with its answer takes (30s)"                               \
    }

#define WEBHOOK_OPTION_CONNECT                                                                     \
    {                                                                                              \
        "connect-timeout", 0, OPTION_DURATION, "TIME", NULL, 10, 3600000,                          \
            "of it, for finding the host and connecting (5s)"                                      \
    }

#define WEBHOOK_OPTION_PER_HOST                                                                    \
    {                                                                                              \
        "max-per-host", 0, OPTION_NUMBER, "N", NULL, 1, 1024,                                      \
            "requests to one host at a time, of all subscriptions (16)"                            \
    }

#define WEBHOOK_OPTION_SECRET                                                                      \
    {                                                                                              \
        "secret-file", 0, OPTION_TEXT, "FILE", NULL, 0, 0,                                         \
            "sign requests with the secrets (whsec_...) of this file, one a line"                  \
    }

#define WEBHOOK_OPTION_CA                                                                          \
    {                                                                                              \
        "ca-file", 0, OPTION_TEXT, "FILE", NULL, 0, 0,                                             \
            "certificates in PEM to trust instead of the system's"                                 \
    }

#define WEBHOOK_PRIVATE_HELP "also reach loopback and private addresses"

#define WEBHOOK_OPTION_PRIVATE                                                                     \
    {                                                                                              \
        "allow-private", 0, OPTION_FLAG, NULL, NULL, 0, 0, WEBHOOK_PRIVATE_HELP                    \
    }

#define WEBHOOK_OPTION_NETWORK                                                                     \
    {                                                                                              \
        "allow-network", 0, OPTION_TEXT, "NETWORK", NULL, 0, 0,                                    \
            "also reach this network, as 10.1.0.0/16 (may be repeated)"                            \
    }

#define WEBHOOK_OPTIONS                                                                            \
    WEBHOOK_OPTION_URL, WEBHOOK_OPTION_FORMAT, WEBHOOK_OPTION_TIMEOUT, WEBHOOK_OPTION_CONNECT,     \
        WEBHOOK_OPTION_PER_HOST, WEBHOOK_OPTION_SECRET, WEBHOOK_OPTION_CA, WEBHOOK_OPTION_PRIVATE, \
        WEBHOOK_OPTION_NETWORK

#endif
