/*
 * sub_state.h - what state a subscription is in, in one word or two, for tables.
 */
#ifndef HF_CLI_WATCH_SUB_STATE_H
#define HF_CLI_WATCH_SUB_STATE_H

#include "cli/core/out.h"

#include <holdfast.h>

const char *sub_state_word(const hf_subscription_info *info);
/* Trouble is red; a pause is meant, but easily forgotten. */
enum out_style sub_state_style(const hf_subscription_info *info);

#endif
