/*
 * sub_parts.h - the partitions of a subscription, what runs for it, and its blocked keys, for
 * `sub show`.
 */
#ifndef HF_CLI_COMMAND_SUB_PARTS_H
#define HF_CLI_COMMAND_SUB_PARTS_H

#include "base/text/json_write.h"

#include <holdfast.h>

#define SUB_PARTS_LIMIT 20 /* shown of each, unless --limit says otherwise */

/* Prints them as tables, each up to the limit and with the number of those that are left out. */
hf_status sub_parts_print(hf_bus *bus, const hf_subscription_info *info, int64_t limit,
                          int64_t now_us);

/* Adds them to the open object: "partitions", "partitions_more", "running", "running_more",
 * "blocked_keys", "blocked_keys_more". */
hf_status sub_parts_json(struct json_out *json, hf_bus *bus, const hf_subscription_info *info,
                         int64_t limit);

#endif
