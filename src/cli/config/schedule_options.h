/*
 * schedule_options.h - options of a schedule and of retention that commands share with the
 * configuration file.
 */
#ifndef HF_CLI_CONFIG_SCHEDULE_OPTIONS_H
#define HF_CLI_CONFIG_SCHEDULE_OPTIONS_H

#include "cli/core/args.h"
#include "json/objects.h"

#define SCHEDULE_OPTION_ZONE                                                                       \
    {                                                                                              \
        "zone", 0, OPTION_TEXT, "ZONE", NULL, 0, 0,                                                \
            "the time zone, such as Europe/Berlin (default: UTC)"                                  \
    }

#define SCHEDULE_OPTION_KEY                                                                        \
    {                                                                                              \
        "key", 0, OPTION_TEXT, "KEY", NULL, 0, 0, "ordering key of the events"                     \
    }

#define SCHEDULE_OPTION_TENANT                                                                     \
    {                                                                                              \
        "tenant", 0, OPTION_TEXT, "TENANT", NULL, 0, 0, "tenant of the events"                     \
    }

#define SCHEDULE_OPTION_METADATA                                                                   \
    {                                                                                              \
        "metadata", 0, OPTION_TEXT, "JSON", NULL, 0, 0, "metadata of the events, a JSON object"    \
    }

#define SCHEDULE_OPTION_MISFIRE                                                                    \
    {                                                                                              \
        "misfire", 0, OPTION_CHOICE, SHOW_MISFIRES, SHOW_MISFIRES, 0, 0,                           \
            "what becomes of times that were missed (default: skip)"                               \
    }

#define SCHEDULE_OPTION_CAP                                                                        \
    {                                                                                              \
        "misfire-cap", 0, OPTION_NUMBER, "N", NULL, 1, HF_MISFIRE_CAP_MAX,                         \
            "of --misfire all: the latest so many (100)"                                           \
    }

#define SCHEDULE_OPTION_GRACE                                                                      \
    {                                                                                              \
        "grace", 0, OPTION_DURATION, "TIME", NULL, 0, 86400000,                                    \
            "a time that is at most so late still fires (60s); 0: in its second"                   \
    }

#define SCHEDULE_OPTION_DRIVER                                                                     \
    {                                                                                              \
        "driver", 0, OPTION_CHOICE, SHOW_DRIVERS, SHOW_DRIVERS, 0, 0,                              \
            "pg_cron: a job of that extension fires it, too (default: own)"                        \
    }

#define RETENTION_AGE_MAX_MS (INT64_C(86400000) * 366 * 1000)

#define RETENTION_OPTION_AGE                                                                       \
    {                                                                                              \
        "retain-age", 0, OPTION_DURATION, "TIME", NULL, 0, RETENTION_AGE_MAX_MS,                   \
            "how long events stay (184d); 0: for ever"                                             \
    }

#define RETENTION_OPTION_BYTES                                                                     \
    {                                                                                              \
        "retain-bytes", 0, OPTION_SIZE, "BYTES", NULL, 0, INT64_MAX,                               \
            "how large the log may become; 0: no limit"                                            \
    }

#define RETENTION_OPTION_LAGGING                                                                   \
    {                                                                                              \
        "lagging", 0, OPTION_CHOICE, "WHAT", SHOW_LAGGING, 0, 0,                                   \
            "what becomes of old events that a subscription has not finished (keep)"               \
    }

#endif
