/*
 * sub_state.h - what state a subscription is in, in one word or two, for tables.
 */
#ifndef HF_CLI_WATCH_SUB_STATE_H
#define HF_CLI_WATCH_SUB_STATE_H

#include "cli/terminal/out.h"

#include <holdfast.h>

const char *sub_state_word(const hf_subscription_info *info);
/* What there is to do, in a sentence without its end, of one that the library has no reason for:
 * "In flight: 2 events, handed out 5m ago; the oldest entered the log 6m ago", "Up to date". */
void sub_state_say(const hf_subscription_info *info, int64_t now_us, struct buf *out);
/* Trouble is red; a pause is meant, but easily forgotten. */
enum out_style sub_state_style(const hf_subscription_info *info);

#endif
