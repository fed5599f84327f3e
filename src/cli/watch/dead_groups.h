/*
 * dead_groups.h - dead letters counted by error, type, subscription or reason, for the command
 * `dlq list --group-by` and the route GET dead-letters/groups.
 *
 * A text is a group as it stands, so that it can be given as a filter. Beyond DEAD_GROUPS_MAX
 * different texts the rest is counted as one group: memory stays bounded whatever the errors look
 * like.
 */
#ifndef HF_CLI_WATCH_DEAD_GROUPS_H
#define HF_CLI_WATCH_DEAD_GROUPS_H

#include "base/text/json_write.h"

#include <holdfast.h>
#include <stdbool.h>

#define DEAD_GROUPS_MAX 8192
#define DEAD_GROUP_FIELDS "error|type|subscription|reason"

struct dead_group {
    char *text; /* NULL: the slot is free; owned */
    int64_t count;
    int64_t newest_dead_id;
    int64_t newest_us;
    int64_t oldest_us;
};

struct dead_groups {
    const char *field;
    struct dead_group *slots;
    struct dead_group rest; /* of the texts beyond DEAD_GROUPS_MAX */
    size_t count;
    bool no_memory;
};

/* Calls back for all dead letters that match, newest first, page by page; the filter's limit is the
 * most (-1: no limit). */
hf_status dead_each(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found, void *ctx);

/* Counts; then the first `count` of the slots are the groups, the largest first. To be released
 * also after a failure. */
hf_status dead_groups_count(struct dead_groups *groups, hf_bus *bus, const hf_dead_filter *filter,
                            const char *field);
/* The fields of an object. */
void dead_group_show(struct json_out *json, const char *field, const struct dead_group *group);
void dead_groups_release(struct dead_groups *groups);

#endif
