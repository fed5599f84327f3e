#!/usr/bin/env bash
# sub create, list, show, pause, resume, seek, rm.
. "$(dirname "$0")/lib.sh"

for n in 1 2 3 4 5; do hf publish a.b "{\"n\":$n}"; done
exits 0 "sub list without subscriptions is empty" sub list
is "nothing on stdout" "$(cat out)" ''
exits 2 "a new one needs a place" sub create s --on 'a.*'
exits 2 "and a pattern" sub create s --from start
exits 2 "a bad pattern is refused" sub create s --on 'a..b' --from start
exits 2 "a time to come is no place to start" sub create s --on a --from 2999-01-01
has "which is said" err 'a time that has passed'
exits 0 "create" sub create s --on 'a.*' --on 'c.**' --from start --mode shared --retries 7 \
    --timeout 5s --retry-multiplier 1.5 --breaker on --on-poison halt
has "says what it did" err 'Subscription s created'
exits 0 "again is a change" sub create s --on 'a.*' --json
is "and says so" "$(field out 1 '$.created')" 0
exits 4 "the mode cannot change" sub create s --on 'a.*' --mode ordered
exits 0 "show --json is an object" sub show s --json
json "a valid one" out
is "patterns are those given last" "$(field out 1 '$.patterns')" '["a.*"]'
is "options are kept" "$(field out 1 '$.options.attempts_max')" 8
is "durations are milliseconds" "$(field out 1 '$.options.handler_timeout_ms')" 5000
is "fractions are kept" "$(field out 1 '$.options.retry_multiplier')" 1.5
is "toggles are words" "$(field out 1 '$.options.breaker')" on
is "choices are words" "$(field out 1 '$.options.on_poison')" halt
is "what was not given is the default" "$(field out 1 '$.options.lease_ms')" 30000
is "the lag is known" "$(field out 1 '$.lag')" 5
is "so is the rate" "$(field out 1 '$.rate')" 0
exits 3 "show of nothing is not found" sub show nothing

exits 0 "pause" sub pause s --reason 'the mail server moves'
exits 0 "show says why it is not moving" sub show s
true_that "in its first line" sh -c 'head -1 out | grep -q "^Not moving: .*paused"'
has "with the reason" out 'the mail server moves'
exits 0 "list shows the state" sub list
has "as a word" out '^s +shared +paused '
has "and the rate" out 'PER SECOND'
exits 0 "resume" sub resume s
exits 0 "twice" sub resume s
hf sub show s --json
is "it is no longer paused" "$(field out 1 '$.paused_at')" ''
exits 3 "pausing nothing is not found" sub pause nothing
exits 3 "resuming nothing is not found" sub resume nothing

# --- Seek ---
hf sub create t --on '*' --from start
exits 0 "seek --dry-run says how many would come" sub seek t --to 2 --dry-run
has "positions" out '^t would be at position 2; 3 positions would come$'
hf sub show t --json
is "and changes nothing" "$(field out 1 '$.checkpoint')" 0
exits 2 "without a terminal seek wants --yes" sub seek t --to end
has "and says so" err -- '--yes'
exits 0 "with --yes it moves" sub seek t --to end --yes --json
json "and prints an object" out
hf sub show t --json
is "to the end" "$(field out 1 '$.checkpoint') $(field out 1 '$.lag')" "5 0"
exits 2 "back wants --yes, too" sub seek t --to start
hf sub show t --json
is "else nothing happens" "$(field out 1 '$.checkpoint')" 5
exits 0 "back" sub seek t --to start --yes
has "all come again" out '5 positions will come'
exits 0 "a seek to where it is asks nothing" sub seek t --to start
exits 0 "to a time" sub seek t --to 1h --yes
exits 2 "where to is required" sub seek t
exits 3 "seeking nothing is not found" sub seek nothing --to start --yes

# --- Remove ---
exits 2 "rm wants --yes" sub rm t
exits 2 "attempts are counted in one way" sub create t --on '*' --retries 2 --attempts-max 9
has "as the message says" err '--retries is --attempts-max without the first attempt; give one'
exits 2 "by work, too" work t --exec true --retries 2 --attempts-max 9
exits 2 "and config show" config show --retries 2 --attempts-max 9
has "which says the same" err '--retries is --attempts-max without the first attempt; give one'
exits 0 "rm" sub rm t --yes
exits 3 "then it is gone" sub show t
exits 3 "removing nothing is not found" sub rm t --yes
exits 0 "list --json prints an object per subscription" sub list --json
json "valid ones" out
is "of those that are left" "$(wc -l <out)" 1

# --- A terminal that answers ---
if command -v script >/dev/null; then
    hf sub create u --on '*' --from start
    printf 'n\n' | script -qec "'$HOLDFAST' sub rm u" /dev/null >typescript 2>&1
    hf sub show u
    is "no at the prompt keeps it" "$rc" 0
    printf 'y\n' | script -qec "'$HOLDFAST' sub rm u" /dev/null >typescript 2>&1
    hf sub show u
    is "yes at the prompt removes it" "$rc" 3
    has "the prompt says what will be lost" typescript 'Remove subscription u with its progress'
fi

finish
