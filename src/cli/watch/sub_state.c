/*
 * sub_state.c - what state a subscription is in, in one word or two. See sub_state.h.
 *
 * It is up to date when everything is settled. What a program has claimed and not answered for is
 * not: it is in flight, perhaps for as long as its lease lasts.
 */
#include "cli/watch/sub_state.h"

#include "base/banned.h"

static bool has_pending(const hf_subscription_info *info)
{
    return info->pending > 0 || info->pending_more == 1;
}

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
    if (has_pending(info)) {
        return "behind";
    }
    return info->in_flight > 0                    ? "in flight"
           : info->retrying > 0 || info->held > 0 ? "retrying"
                                                  : "up to date";
}

static void say_pending(const hf_subscription_info *info, struct buf *out)
{
    char words[OUT_WORDS_BYTES];

    out_at_least(info->pending, info->pending_more == 1, words);
    buf_printf(out, "Moving, %s event%s pending", words, strcmp(words, "1") == 0 ? "" : "s");
}

/* Since when an ordered one runs its handlers is not known here. */
static void say_in_flight(const hf_subscription_info *info, int64_t now_us, struct buf *out)
{
    char ago[OUT_WORDS_BYTES];

    buf_printf(out, "In flight: %" PRId64 " event%s", info->in_flight,
               info->in_flight == 1 ? "" : "s");
    if (info->claimed_at_us >= 0) {
        buf_printf(out, ", handed out %s", out_ago(info->claimed_at_us, now_us, ago));
    }
    if (info->oldest_waiting_us >= 0) {
        buf_printf(out, "; the oldest entered the log %s",
                   out_ago(info->oldest_waiting_us, now_us, ago));
    }
}

void sub_state_say(const hf_subscription_info *info, int64_t now_us, struct buf *out)
{
    if (has_pending(info)) {
        say_pending(info, out);
    } else if (info->in_flight > 0) {
        say_in_flight(info, now_us, out);
    } else if (info->retrying > 0 || info->held > 0) {
        buf_printf(out, "Retrying: %" PRId64 " event%s", info->retrying + info->held,
                   info->retrying + info->held == 1 ? "" : "s");
    } else {
        buf_printf(out, "Up to date");
    }
}

enum out_style sub_state_style(const hf_subscription_info *info)
{
    if (info->paused_at_us != -1) {
        return OUT_YELLOW;
    }
    return (info->breaker && strcmp(info->breaker, "closed") != 0) || info->not_moving ? OUT_RED
                                                                                       : OUT_PLAIN;
}
