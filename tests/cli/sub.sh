#!/usr/bin/env bash
# sub create, list, show, pause, resume, seek, rm.
. "$(dirname "$0")/lib.sh"

for n in 1 2 3 4 5; do hf publish a.b "{\"n\":$n}"; done
exits 0 "sub list succeeds without subscriptions" sub list
is "sub list without subscriptions prints nothing on stdout" "$(cat out)" ''
exits 2 "sub create of a new subscription needs --from" sub create s --on 'a.*'
exits 2 "sub create of a new subscription needs --on" sub create s --from start
exits 2 "sub create refuses a bad pattern" sub create s --on 'a..b' --from start
exits 2 "sub create --from refuses a time to come" sub create s --on a --from 2999-01-01
has "the refusal of --from says that the time must have passed" err 'a time that has passed'
exits 0 "sub create takes patterns, a mode and options" \
    sub create s --on 'a.*' --on 'c.**' --from start --mode shared --retries 7 \
    --timeout 5s --retry-multiplier 1.5 --breaker on --on-poison halt
has "sub create says that it created the subscription" err 'Subscription s created'
exits 0 "sub create changes a subscription that exists" sub create s --on 'a.*' --json
is "sub create --json says that it created nothing" "$(field out 1 '$.created')" 0
exits 4 "sub create that changes the mode exits with a conflict" \
    sub create s --on 'a.*' --mode ordered
exits 0 "sub show takes the option --json" sub show s --json
json "sub show --json prints a JSON object" out
is "sub create replaces the patterns" "$(field out 1 '$.patterns')" '["a.*"]'
is "sub create keeps options that are not given again" "$(field out 1 '$.options.attempts_max')" 8
is "sub show --json prints durations in milliseconds" \
    "$(field out 1 '$.options.handler_timeout_ms')" 5000
is "sub show --json prints fractions as they were given" \
    "$(field out 1 '$.options.retry_multiplier')" 1.5
is "sub show --json prints toggles as words" "$(field out 1 '$.options.breaker')" on
is "sub show --json prints choices as words" "$(field out 1 '$.options.on_poison')" halt
is "sub show --json prints the default of an option that was not given" \
    "$(field out 1 '$.options.lease_ms')" 30000
is "sub show --json prints the lag of a subscription" "$(field out 1 '$.lag')" 5
is "sub show --json prints the rate of a subscription" "$(field out 1 '$.rate')" 0
exits 3 "sub show of an unknown subscription exits with not found" sub show nothing

exits 0 "sub pause takes a reason" sub pause s --reason 'the mail server moves'
exits 0 "sub show succeeds for a paused subscription" sub show s
true_that "sub show says in its first line that a paused subscription does not move" \
    sh -c 'head -1 out | grep -q "^Not moving: .*paused"'
has "sub show prints the reason of the pause" out 'the mail server moves'
exits 0 "sub list succeeds with a paused subscription" sub list
has "sub list shows that a subscription is paused" out '^s +shared +paused '
has "sub list has a column for the rate" out 'PER SECOND'
exits 0 "sub resume resumes a subscription" sub resume s
exits 0 "sub resume of a running subscription succeeds" sub resume s
hf sub show s --json
is "sub resume ends the pause" "$(field out 1 '$.paused_at')" ''
exits 3 "sub pause of an unknown subscription exits with not found" sub pause nothing
exits 3 "sub resume of an unknown subscription exits with not found" sub resume nothing

# --- Seek ---
hf sub create t --on '*' --from start
exits 0 "sub seek takes the option --dry-run" sub seek t --to 2 --dry-run
has "sub seek --dry-run prints how many positions would come" \
    out '^t would be at position 2; 3 positions would come$'
hf sub show t --json
is "sub seek --dry-run changes nothing" "$(field out 1 '$.checkpoint')" 0
exits 2 "sub seek without --yes and without a terminal is refused" sub seek t --to end
has "the refusal of sub seek names --yes" err '--yes'
exits 0 "sub seek takes the options --yes and --json" sub seek t --to end --yes --json
json "sub seek --json prints a JSON object" out
hf sub show t --json
is "sub seek --to end moves the checkpoint to the newest position" \
    "$(field out 1 '$.checkpoint') $(field out 1 '$.lag')" "5 0"
exits 2 "sub seek back without --yes and without a terminal is refused" sub seek t --to start
hf sub show t --json
is "a refused sub seek changes nothing" "$(field out 1 '$.checkpoint')" 5
exits 0 "sub seek --to start --yes succeeds" sub seek t --to start --yes
has "sub seek --to start prints how many positions will come again" out '5 positions will come'
exits 0 "sub seek to the present position needs no --yes" sub seek t --to start
exits 0 "sub seek --to takes a time" sub seek t --to 1h --yes
exits 2 "sub seek without --to is refused" sub seek t
exits 3 "sub seek of an unknown subscription exits with not found" sub seek nothing --to start --yes

# --- Remove ---
exits 2 "sub rm without --yes and without a terminal is refused" sub rm t
exits 2 "sub create refuses --retries together with --attempts-max" \
    sub create t --on '*' --retries 2 --attempts-max 9
has "the refusal of sub create says how --retries and --attempts-max differ" \
    err '--retries is --attempts-max without the first attempt; give one'
exits 2 "work refuses --retries together with --attempts-max" \
    work t --exec true --retries 2 --attempts-max 9
exits 2 "config show refuses --retries together with --attempts-max" \
    config show --retries 2 --attempts-max 9
has "the refusal of config show says how --retries and --attempts-max differ" \
    err '--retries is --attempts-max without the first attempt; give one'
exits 0 "sub rm --yes removes a subscription" sub rm t --yes
exits 3 "sub show of a removed subscription exits with not found" sub show t
exits 3 "sub rm of a removed subscription exits with not found" sub rm t --yes
exits 0 "sub list takes the option --json" sub list --json
json "sub list --json prints a JSON object per subscription" out
is "sub list --json leaves out a removed subscription" "$(wc -l <out)" 1

# --- A terminal that answers ---
if command -v script >/dev/null; then
    hf sub create u --on '*' --from start
    printf 'n\n' | script -qec "'$HOLDFAST' sub rm u" /dev/null >typescript 2>&1
    hf sub show u
    is "an answer n at the prompt of sub rm keeps the subscription" "$rc" 0
    printf 'y\n' | script -qec "'$HOLDFAST' sub rm u" /dev/null >typescript 2>&1
    hf sub show u
    is "an answer y at the prompt of sub rm removes the subscription" "$rc" 3
    has "the prompt of sub rm says what will be lost" \
        typescript 'Remove subscription u with its progress'
fi

finish
