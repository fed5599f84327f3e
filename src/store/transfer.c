/*
 * transfer.c - the names of what is copied, for messages.
 */
#include "store/transfer.h"

const char *transfer_table_name(enum transfer_table table)
{
    static const char *const names[TRANSFER_TABLES] = {
        [TRANSFER_EVENTS] = "events",
        [TRANSFER_KEYS] = "keys",
        [TRANSFER_UNIQUES] = "unique keys",
        [TRANSFER_SUBSCRIPTIONS] = "subscriptions",
        [TRANSFER_PARTITIONS] = "partitions",
        [TRANSFER_RETRIES] = "retries",
        [TRANSFER_COPIES] = "copies",
        [TRANSFER_SETTLED] = "settled",
        [TRANSFER_OUTCOMES] = "outcomes",
        [TRANSFER_CANCELS] = "cancels",
        [TRANSFER_LEASES] = "leases",
        [TRANSFER_NUMBERS] = "numbers",
        [TRANSFER_DEAD_LETTERS] = "dead letters",
        [TRANSFER_SCHEDULES] = "schedules",
        [TRANSFER_RUNS] = "runs of schedules",
        [TRANSFER_DELAYED] = "delayed events",
        [TRANSFER_NAMESPACE] = "namespace",
    };
    return names[table];
}
