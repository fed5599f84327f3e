/*
 * sub_state.c - what state a subscription is in, in one word or two. See sub_state.h.
 */
#include "cli/watch/sub_state.h"

#include "base/banned.h"

const char *sub_state_word(const hf_subscription_info *info)
{
    if (info->paused_at_us != -1) {
        return "paused";
    }
    if (info->breaker && strcmp(info->breaker, "closed") != 0) {
        return "breaker open";
    }
    if (info->not_moving) {
        return "not moving";
    }
    return info->pending > 0 || info->pending_more == 1 ? "behind" : "up to date";
}

enum out_style sub_state_style(const hf_subscription_info *info)
{
    if (info->paused_at_us != -1) {
        return OUT_YELLOW;
    }
    return (info->breaker && strcmp(info->breaker, "closed") != 0) || info->not_moving ? OUT_RED
                                                                                       : OUT_PLAIN;
}
