/*
 * options.h - the options of a subscription: defaults, limits, and how they are stored.
 *
 * options.def is the one list of them; documents and the command are made from it, or checked
 * against it.
 */
#ifndef HF_BUS_OPTIONS_H
#define HF_BUS_OPTIONS_H

#include <holdfast.h>

#include "base/breaker.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "base/time/retry.h"

/* Every option at its default; `from` is HF_PLACE_NONE. */
void options_default(hf_subscription_options *ret_options);
/* Takes over into `options` what is given in `given` ("not given" fields leave it alone). */
void options_merge(hf_subscription_options *options, const hf_subscription_options *given);
/* Whether all that is stored of them is the same; `from` and size are not. */
bool options_equal(const hf_subscription_options *a, const hf_subscription_options *b);
/* HF_INVALID with a sentence that names the option, its value and its limits. */
hf_status options_check(const hf_subscription_options *options);
/* As one JSON object, complete (without `from` and size), and back: unknown members are ignored,
 * missing ones get their default. Enums are written as words ("ordered", "block_key", ...). */
hf_status options_write(const hf_subscription_options *options, struct buf *out);
hf_status options_read(struct text json, hf_subscription_options *ret_options);

struct retry_policy options_retry(const hf_subscription_options *options);
struct breaker_policy options_breaker(const hf_subscription_options *options);

/* Patterns as a JSON array of strings, and back (texts in the arena). */
hf_status patterns_write(const struct text *patterns, size_t count, struct buf *out);
struct arena;
hf_status patterns_read(struct text json, struct arena *arena, struct text *ret_patterns,
                        size_t max, size_t *ret_count);
/* 1..HF_PATTERNS_MAX patterns, each valid. */
hf_status patterns_check(const struct text *patterns, size_t count);

#endif
