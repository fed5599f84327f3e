/*
 * work_options.h - options that `work` shares with `config show`, which shows what `work` would do.
 */
#ifndef HF_CLI_CONFIG_WORK_OPTIONS_H
#define HF_CLI_CONFIG_WORK_OPTIONS_H

#include "cli/core/args.h"

#define WORK_OPTION_EXEC                                                                           \
    {                                                                                              \
        "exec", 0, OPTION_TEXT, "COMMAND", NULL, 0, 0, "run by /bin/sh -c for each event"          \
    }

#define WORK_OPTION_OUTPUT                                                                         \
    {                                                                                              \
        "output", 0, OPTION_TEXT, "DIR", NULL, 0, 0,                                               \
            "keep what each run prints in files below this directory"                              \
    }

#define WORK_OPTION_CONFIG                                                                         \
    {                                                                                              \
        "config", 0, OPTION_TEXT, "FILE", NULL, 0, 0,                                              \
            "take the database and the subscriptions from this file (without SUB: holdfast.yaml)"  \
    }

#define WORK_OPTION_PARTITION                                                                      \
    {                                                                                              \
        "partition", 0, OPTION_TEXT, "LIST", NULL, 0, 0,                                           \
            "work for exactly these partitions, as 3 or 3,5-7 (else for a fair share)"             \
    }

#define WORK_OPTION_TOTAL                                                                          \
    {                                                                                              \
        "total-partitions", 0, OPTION_NUMBER, "N", NULL, 1, HF_PARTITIONS_MAX,                     \
            "total number of partitions; refuses to start if it differs"                           \
    }

#define WORK_OPTION_DRAIN                                                                          \
    {                                                                                              \
        "drain", 0, OPTION_DURATION, "TIME", NULL, 0, 86400000,                                    \
            "when stopping, let running commands finish for so long (30s)"                         \
    }

#define WORK_OPTION_NODE                                                                           \
    {                                                                                              \
        "node", 0, OPTION_TEXT, "NAME", NULL, 0, 0, "shown as the owner of the work (HOST:PID)"    \
    }

#define WORK_OPTION_NODE_ID                                                                        \
    {                                                                                              \
        "node-id", 0, OPTION_TEXT, "ID", NULL, 0, 0,                                               \
            "which node this is, also when it comes again (one that is generated)"                 \
    }

#define WORK_OPTION_NODE_DESCRIPTION                                                               \
    {                                                                                              \
        "node-description", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "what this node is, for people"    \
    }

#define WORK_OPTION_NODE_METADATA                                                                  \
    {                                                                                              \
        "node-metadata", 0, OPTION_TEXT, "JSON", NULL, 0, 0,                                       \
            "a JSON object about this node, for people and programs"                               \
    }

#define WORK_OPTION_HEARTBEAT                                                                      \
    {                                                                                              \
        "heartbeat", 0, OPTION_DURATION, "TIME", NULL, 1000, 86400000,                             \
            "between two signs that the node lives (30s)"                                          \
    }

/* What others see of the process. */
#define WORK_OPTIONS_NODE                                                                          \
    WORK_OPTION_NODE, WORK_OPTION_NODE_ID, WORK_OPTION_NODE_DESCRIPTION,                           \
        WORK_OPTION_NODE_METADATA, WORK_OPTION_HEARTBEAT

#endif
