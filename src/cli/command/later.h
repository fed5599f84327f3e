/*
 * later.h - how an event that waits for its time is shown; `event show` does so, too.
 */
#ifndef HF_CLI_COMMAND_LATER_H
#define HF_CLI_COMMAND_LATER_H

#include <holdfast.h>

/* A block for a human. */
void later_print(const hf_later_info *info, int64_t now_us);

#endif
