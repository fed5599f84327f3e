/*
 * serve_options.h - options that `serve` shares with `config show` and with the section `serve` of
 * the configuration file.
 */
#ifndef HF_CLI_CONFIG_SERVE_OPTIONS_H
#define HF_CLI_CONFIG_SERVE_OPTIONS_H

#include "cli/core/cli.h"

#define SERVE_LISTEN "127.0.0.1:7070"
#define SERVE_HOSTS_MAX 32
#define SERVE_COUNT_MAX 1000000 /* of connections and of streams */

#define SERVE_OPTION_LISTEN                                                                        \
    {                                                                                              \
        "listen", 0, OPTION_TEXT, "ADDRESS", NULL, 0, 0,                                           \
            "HOST:PORT, [IPV6]:PORT or unix:PATH (" SERVE_LISTEN ")"                               \
    }

#define SERVE_OPTION_TOKENS                                                                        \
    {                                                                                              \
        "tokens", 0, OPTION_TEXT, "FILE", NULL, 0, 0,                                              \
            "who may do what; needed to listen to other machines"                                  \
    }

#define SERVE_OPTION_TLS_CERT                                                                      \
    {                                                                                              \
        "tls-cert", 0, OPTION_TEXT, "FILE", NULL, 0, 0, "certificate chain in PEM: HTTPS"          \
    }

#define SERVE_OPTION_TLS_KEY                                                                       \
    {                                                                                              \
        "tls-key", 0, OPTION_TEXT, "FILE", NULL, 0, 0, "its private key in PEM"                    \
    }

#define SERVE_OPTION_HOST                                                                          \
    {                                                                                              \
        "host", 0, OPTION_TEXT, "NAME", NULL, 0, 0,                                                \
            "a name that requests may have as their Host (may be repeated)"                        \
    }

#define SERVE_OPTION_THREADS                                                                       \
    {                                                                                              \
        "threads", 0, OPTION_NUMBER, "N", NULL, 2, 512, "requests that are worked on at once (32)" \
    }

#define SERVE_OPTION_BODY                                                                          \
    {                                                                                              \
        "max-body", 0, OPTION_SIZE, "BYTES", NULL, 1024, CLI_PAYLOAD_BYTES_MAX,                    \
            "the largest request (64MiB)"                                                          \
    }

#define SERVE_OPTION_CONNECTIONS                                                                   \
    {                                                                                              \
        "max-connections", 0, OPTION_NUMBER, "N", NULL, 1, SERVE_COUNT_MAX,                        \
            "connections at once (10000)"                                                          \
    }

#define SERVE_OPTION_PER_ADDRESS                                                                   \
    {                                                                                              \
        "max-per-address", 0, OPTION_NUMBER, "N", NULL, 0, SERVE_COUNT_MAX,                        \
            "connections of one address (2000); 0: as many as there are"                           \
    }

#define SERVE_OPTION_STREAMS                                                                       \
    {                                                                                              \
        "max-streams", 0, OPTION_NUMBER, "N", NULL, 0, SERVE_COUNT_MAX,                            \
            "open streams of events (4096)"                                                        \
    }

#define SERVE_OPTION_STREAMS_EACH                                                                  \
    {                                                                                              \
        "max-streams-per-address", 0, OPTION_NUMBER, "N", NULL, 0, SERVE_COUNT_MAX,                \
            "those of one address (0: as many as there are)"                                       \
    }

#define SERVE_OPTION_REQUEST                                                                       \
    {                                                                                              \
        "request-timeout", 0, OPTION_DURATION, "TIME", NULL, 1000, 3600000,                        \
            "from one answer to the next complete request of a connection (30s)"                   \
    }

#define SERVE_OPTION_LOG_FORMAT                                                                    \
    {                                                                                              \
        "log-format", 0, OPTION_CHOICE, "WHAT", "text|json", 0, 0,                                 \
            "lines of the log: text (the default), or JSON objects, as with --json"                \
    }

#define SERVE_OPTION_AUDIT                                                                         \
    {                                                                                              \
        "audit", 0, OPTION_TEXT, "WHERE", NULL, 0, 0,                                              \
            "where requests that change something are recorded: log, off, or a file (log)"         \
    }

#define SERVE_OPTIONS                                                                              \
    SERVE_OPTION_LISTEN, SERVE_OPTION_TOKENS, SERVE_OPTION_TLS_CERT, SERVE_OPTION_TLS_KEY,         \
        SERVE_OPTION_HOST, SERVE_OPTION_THREADS, SERVE_OPTION_BODY, SERVE_OPTION_CONNECTIONS,      \
        SERVE_OPTION_PER_ADDRESS, SERVE_OPTION_STREAMS, SERVE_OPTION_STREAMS_EACH,                 \
        SERVE_OPTION_REQUEST, SERVE_OPTION_LOG_FORMAT, SERVE_OPTION_AUDIT

#endif
