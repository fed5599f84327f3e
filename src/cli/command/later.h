/*
 * later.h - how an event that waits for its time is shown; `event show` does so, too.
 */
#ifndef HF_CLI_COMMAND_LATER_H
#define HF_CLI_COMMAND_LATER_H

#include "base/text/json_write.h"

#include <holdfast.h>

/* Fields of the object that is open: when it is due, and all of the event. */
void later_json(struct json_out *json, const hf_later_info *info);
/* A block for a human. */
void later_print(const hf_later_info *info, int64_t now_us);

#endif
