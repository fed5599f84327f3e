/*
 * verdict.c - what the end of an attempt means for the delivery. See verdict.h.
 *
 *   answer               counts   then
 *   HF_ACK               -        done
 *   HF_RETRY             yes      waits for its next attempt; after the last one it is dead:
 *                                 "attempts"
 *   HF_RETRY_UNCOUNTED   no       waits; after UNCOUNTED_MAX of them it counts like HF_RETRY
 *   HF_DEAD              yes      dead: "rejected"
 *   HF_UNDECODABLE       yes      dead: "decode"
 *   anything else        yes      as HF_RETRY
 *
 * `attempts` is the number of recorded attempts that counted, so it never passes attempts_max;
 * `uncounted` is kept beside it. Every failed attempt, counted or not, the last one included, is
 * added to the story. One that does not count carries the number of the attempt that it was to be.
 *
 * The wait before an attempt follows its number. Uncounted answers do not raise the number, so they
 * wait by the number of runs there have been: a lock that stays taken is asked for less and less
 * often, not a hundred times in a row.
 *
 * A delivery can run out of attempts without an answer: its process died, or its lease expired, and
 * the store recorded that as an attempt. The process that gets such an entry sees that it is spent,
 * and settles it without running it. Its reason is "lease" if the last that happened to it was an
 * expired lease, else "attempts".
 *
 * Pure: the time and the random number are passed in; the same values give the same outcome.
 */
#include <stdio.h>

#include "bus/deliver/work/verdict.h"

#include "base/err.h"
#include "base/text/json_read.h"
#include "base/text/utf8.h"
#include "base/time/retry.h"
#include "bus/options.h"
#include "store/common/story.h"

static struct text general_error(hf_verdict verdict)
{
    switch (verdict) {
    case HF_ACK:
    case HF_RETRY:
        return (struct text)TEXT_LITERAL("the handler answered HF_RETRY without an error text");
    case HF_RETRY_UNCOUNTED:
        return (struct text)TEXT_LITERAL(
            "the handler answered HF_RETRY_UNCOUNTED without an error text");
    case HF_DEAD:
        return (struct text)TEXT_LITERAL("the handler answered HF_DEAD without an error text");
    case HF_UNDECODABLE:
        return (struct text)TEXT_LITERAL(
            "the handler answered HF_UNDECODABLE without an error text");
    }
    return (struct text)TEXT_LITERAL("the handler answered a number that is no hf_verdict");
}

/* Appends the error with U+FFFD for every byte that is not UTF-8, which an engine may refuse; at
 * most HF_ERROR_BYTES_MAX bytes, and no more than there is room for. */
static void append_repaired(struct text error, struct buf *out)
{
    static const struct text mark = TEXT_LITERAL("\xEF\xBF\xBD");
    size_t room = out->bytes_max - out->length;
    size_t limit = out->length + (room < HF_ERROR_BYTES_MAX ? room : HF_ERROR_BYTES_MAX);
    for (size_t at = 0; at < error.length;) {
        uint32_t code;
        size_t bytes = utf8_decode(error.bytes + at, error.length - at, &code);
        struct text piece = bytes > 0 ? (struct text){error.bytes + at, bytes} : mark;
        if (out->length + piece.length > limit) {
            break;
        }
        buf_append_text(out, piece);
        at += bytes > 0 ? bytes : 1;
    }
}

static enum cause cause_of_ending(const struct ending *ending)
{
    if (ending->cause != CAUSE_NONE) {
        return ending->cause;
    }
    return ending->verdict == HF_UNDECODABLE ? CAUSE_UNDECODABLE : CAUSE_HANDLER;
}

/* The reason to give up now; absent: try again. `attempts` includes the present one. */
static struct text reason_to_die(hf_verdict verdict, bool counts, int32_t attempts,
                                 int32_t attempts_max)
{
    if (verdict == HF_DEAD) {
        return (struct text)TEXT_LITERAL(REASON_REJECTED);
    }
    if (verdict == HF_UNDECODABLE) {
        return (struct text)TEXT_LITERAL(REASON_DECODE);
    }
    if (counts && attempts >= attempts_max) {
        return (struct text)TEXT_LITERAL(REASON_ATTEMPTS);
    }
    return TEXT_ABSENT;
}

static enum outcome_kind kind_of_death(const hf_subscription_options *options)
{
    bool blocks = options->mode == HF_MODE_ORDERED && options->on_poison == HF_POISON_BLOCK_KEY;
    return blocks ? OUTCOME_BLOCK : OUTCOME_DEAD;
}

static struct outcome outcome_begin(const struct entry *entry, enum outcome_kind kind)
{
    return (struct outcome){
        .kind = kind,
        .position = entry->event.position,
        .lane = entry->lane,
        .waited = entry->waited,
        .attempts = entry->attempts,
        .uncounted = entry->uncounted,
        .cause = entry->cause,
        .unit = entry->unit,
    };
}

static int64_t delay_ms(const hf_subscription_options *options, const struct ending *ending,
                        const struct outcome *outcome, bool counts, uint64_t random)
{
    if (ending->delay_ms >= 0) {
        return ending->delay_ms;
    }
    struct retry_policy policy = options_retry(options);
    int32_t runs = counts ? outcome->attempts : outcome->attempts + outcome->uncounted;
    int64_t wait_ms = retry_delay_ms(&policy, runs + 1, random);
    return wait_ms > ending->wait_ms ? wait_ms : ending->wait_ms;
}

hf_status verdict_outcome(const hf_subscription_options *options, const struct entry *entry,
                          const struct ending *ending, struct text node, int64_t now_us,
                          uint64_t random, struct buf *story, struct outcome *ret_outcome)
{
    struct outcome outcome = outcome_begin(entry, OUTCOME_DONE);
    if (ending->verdict == HF_ACK) {
        *ret_outcome = outcome;
        return HF_OK;
    }
    bool counts = ending->verdict != HF_RETRY_UNCOUNTED || entry->uncounted >= UNCOUNTED_MAX;
    if (counts) {
        outcome.attempts++;
    } else {
        outcome.uncounted++;
    }
    struct text error = ending->error.length == 0 ? general_error(ending->verdict)
                                                  : utf8_cut(ending->error, HF_ERROR_BYTES_MAX);
    hf_status status = story_add_unit(story, entry->attempts_json, entry->attempts + 1, now_us,
                                      error, node, counts, ending->unit);
    size_t story_bytes = story->length;
    bool valid = utf8_is_valid(error);
    if (!status && !valid) {
        append_repaired(error, story);
        status = buf_status(story);
    }
    if (status) {
        return status;
    }
    outcome.attempts_json = (struct text){story->bytes, story_bytes};
    outcome.cause = cause_of_ending(ending);
    outcome.unit = ending->unit;
    outcome.reason = reason_to_die(ending->verdict, counts, outcome.attempts,
                                   ending->last ? 0 : options->attempts_max);
    if (!text_is_absent(outcome.reason)) {
        outcome.kind = kind_of_death(options);
        outcome.error =
            valid ? error : (struct text){story->bytes + story_bytes, story->length - story_bytes};
    } else {
        outcome.kind = OUTCOME_RETRY;
        outcome.next_attempt_us =
            now_us + delay_ms(options, ending, &outcome, counts, random) * 1000;
    }
    *ret_outcome = outcome;
    return HF_OK;
}

bool verdict_is_spent(const hf_subscription_options *options, const struct entry *entry)
{
    return entry->attempts >= options->attempts_max;
}

/* Appends the decoded error of the story's last attempt; nothing if there is none. */
static void append_last_error(struct text attempts_json, struct buf *out)
{
    struct json_iter iter;
    struct text last = TEXT_ABSENT;
    struct text raw;
    if (!json_iter_init(&iter, attempts_json)) {
        return;
    }
    while (json_iter_next(&iter, NULL, &raw)) {
        last = raw;
    }
    /* A story without a readable error, or with no room behind it, is no reason to keep the
     * delivery alive. */
    if (!text_is_absent(last) && last.length <= out->bytes_max - out->length) {
        (void)json_find_string(last, "error", out);
    }
}

hf_status verdict_spent(const hf_subscription_options *options, const struct entry *entry,
                        struct buf *story, struct outcome *ret_outcome)
{
    struct outcome outcome = outcome_begin(entry, kind_of_death(options));
    struct text old = story_whole(entry->attempts_json);
    buf_append_text(story, old);
    append_last_error(old, story);
    hf_status status = buf_status(story);
    if (status) {
        return status;
    }
    outcome.attempts_json = (struct text){story->bytes, old.length};
    struct text error = {story->bytes + old.length, story->length - old.length};
    outcome.error = error.length > 0 ? utf8_cut(error, HF_ERROR_BYTES_MAX) : TEXT_ABSENT;
    outcome.reason = entry->cause == CAUSE_EXPIRED ? (struct text)TEXT_LITERAL(REASON_LEASE)
                                                   : (struct text)TEXT_LITERAL(REASON_ATTEMPTS);
    *ret_outcome = outcome;
    return HF_OK;
}

struct outcome verdict_damaged(const hf_subscription_options *options, const struct entry *entry)
{
    struct outcome outcome = outcome_begin(entry, kind_of_death(options));
    outcome.attempts_json = story_whole(entry->attempts_json);
    outcome.reason = (struct text)TEXT_LITERAL(REASON_CORRUPT);
    outcome.error = (struct text)TEXT_LITERAL(ERROR_CORRUPT);
    return outcome;
}

struct outcome verdict_unhandled(const struct entry *entry)
{
    struct outcome outcome = outcome_begin(entry, OUTCOME_DEAD);
    outcome.attempts_json = story_whole(entry->attempts_json);
    outcome.reason = (struct text)TEXT_LITERAL(REASON_NO_HANDLER);
    outcome.error = (struct text)TEXT_LITERAL(ERROR_NO_HANDLER);
    return outcome;
}

void verdict_log(const struct log *log, const char *subscription,
                 const hf_subscription_options *options, const struct entry *entry,
                 const struct outcome *outcome, const char *error, int64_t now_us)
{
    bool retry = outcome->kind == OUTCOME_RETRY;
    hf_log_record record = log_blank(retry ? HF_LOG_WARN : HF_LOG_ERROR,
                                     retry ? "attempt failed" : "attempt failed: dead letter");
    record.subscription = subscription;
    record.event_id = entry->event.id;
    record.event_type = entry->event.type;
    record.position = entry->event.position;
    record.attempt = entry->attempts + 1;
    record.attempts_max = options->attempts_max;
    record.delay_ms = retry ? (outcome->next_attempt_us - now_us) / 1000 : -1;
    record.error = error ? error : "";
    log_record(log, &record);
}

struct pause_request verdict_halt(const hf_subscription_options *options,
                                  const struct outcome *outcomes, size_t count, const char *by,
                                  struct halt *halt)
{
    struct pause_request pause = {.by = text_of(by), .reason = TEXT_ABSENT};
    for (size_t i = 0; i < count && options->on_poison == HF_POISON_HALT; i++) {
        if (outcomes[i].kind == OUTCOME_DEAD) {
            snprintf(halt->reason, sizeof halt->reason,
                     "the event at position %lld died (on_poison=halt)",
                     (long long)outcomes[i].position);
            pause.reason = text_of(halt->reason);
            break;
        }
    }
    return pause;
}
