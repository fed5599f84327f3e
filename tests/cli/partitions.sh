#!/usr/bin/env bash
# Partitions on the command line: fixed ones, what `sub show` says of them, another number of them
# while workers run, and keys that are blocked.
. "$(dirname "$0")/lib.sh"

pids=()
# shellcheck disable=SC2154  # lib.sh sets $work
trap 'kill "${pids[@]}" 2>/dev/null; wait; leave; rm -rf "$work"' EXIT

# worker NAME OPTIONS...: works for s in the background. Each event is a line of `handled`; what the
# worker says is in NAME.log.
worker() {
    local name=$1
    shift
    # shellcheck disable=SC2016  # the command's own variables
    "$HOLDFAST" work s --node "$name" "$@" \
        --exec 'echo "$HOLDFAST_KEY $HOLDFAST_POSITION" >>handled' >"$name.log" 2>&1 &
    pids+=($!)
}

# shows PATH VALUE: `sub show s --json` has the value there.
shows() { hf sub show s --json --limit 1000 && [ "$(field out 1 "$1")" = "$2" ]; }

publish_keys() {
    local k
    for k in $(seq 12); do
        echo "{\"type\":\"x\",\"payload\":null,\"key\":\"k$k\"}"
    done >keys.ndjson
    hf publish --file keys.ndjson
}

# --- Fixed partitions ---
publish_keys
exits 0 "a subscription with partitions" sub create s --on '*' --from start --partitions 4
exits 2 "a partition that there is not is refused" work s --exec true --partition 2-4
has "with the highest that there is" err 'above 3'
exits 4 "another number of partitions is refused" \
    work s --exec true --partition 1 --total-partitions 8
has "with the one that there is" err 's has 4 partitions, and the assignment is for 8'
exits 2 "the total alone says nothing" work s --exec true --total-partitions 4
exits 2 "what is no list is refused" work s --exec true --partition 1,x
has "with an example" err '3,5-7'

exits 2 "with a new subscription" work new --on '*' --from start --exec true --partition 9
exits 2 "that is shared" work new --on '*' --from start --exec true --mode shared --partition 0
exits 2 "or of which one process takes all" \
    work new --on '*' --from start --exec true --instance-mode single --partition 0
exits 4 "or for another number" \
    work new --on '*' --from start --exec true --partition 1 --total-partitions 4
exits 3 "nothing is stored then" sub show new

worker left --partition 0-1 --total-partitions 4
true_that "a fixed worker takes its partitions" until_true 60 shows '$.partitions[1].owner' left
true_that "all of them" until_true 60 shows '$.partitions[0].owner' left
is "they are assigned" "$(field out 1 '$.partitions[0].assigned')" 1
is "and no others" "$(field out 1 '$.partitions[2].state') $(field out 1 '$.partitions[2].owner')" \
    'unowned '
true_that "which is why it is not moving" until_true 60 shows '$.not_moving' \
    'partitions 2-3 have no owner, and no process that runs may take them'
exits 0 "show tells it as a table" sub show s --limit 3
has "with owner and state" out '^ +0 +owned +left +yes '
has "of so many" out '… and 1 more partitions'
has "and warns of those without one" out 'Warning: partitions 2-3 have no owner'
exits 0 "JSON is cut, too" sub show s --json --limit 1
is "and says so" "$(field out 1 '$.partitions_more')" 3

worker right
true_that "one that shares takes the rest" until_true 60 shows '$.partitions[2].owner' right
true_that "all of it" until_true 60 shows '$.partitions[3].owner' right
is "and leaves what is assigned" "$(field out 1 '$.partitions[0].owner')" left
true_that "together they do everything" until_true 60 shows '$.lag' 0

# --- Fixed partitions by a file ---
# fixed FILE LINES...: a file that fixes some partitions of the subscription f.
fixed() {
    printf 'subscriptions:\n  - name: f\n    on: x\n    from: start\n' >"$1"
    printf '    handler: {exec: "true"}\n' >>"$1"
    printf '    %s\n' "${@:2}" >>"$1"
}

fixed wrong.yaml 'partitions: 4' 'partition: 1,x'
exits 2 "a list that is none is refused" work --config wrong.yaml
has "with file and line" err 'wrong\.yaml:7:16: subscriptions\[0\]\.partition: .*3,5-7'
fixed wrong.yaml 'partitions: 4' 'partition: 0-1' 'total_partitions: 8'
exits 2 "so is one for another number" work --config wrong.yaml
has "in the words of the file" err \
    'wrong\.yaml:8:23: subscriptions\[0\]\.total_partitions: it is 8, and partitions is 4 \(line 6'
fixed fixed.yaml 'partitions: 4' 'partition: 0-1' 'total_partitions: 4'
exits 4 "a flag may spoil it" work --config fixed.yaml --partitions 3
has "which is told with file and line, too" err \
    'fixed\.yaml:2: subscription f: f has 3 partitions, and the assignment is for 4'
exits 3 "and nothing was stored so far" sub show f
"$HOLDFAST" work --config fixed.yaml --node file >file.log 2>&1 &
pids+=($!)
shows_f() { hf sub show f --json && [ "$(field out 1 "$1")" = "$2" ]; }
true_that "a worker by a file takes its partitions" until_true 60 shows_f \
    '$.partitions[0].owner' file
true_that "all of them" until_true 60 shows_f '$.partitions[1].owner' file
is "they are assigned" "$(field out 1 '$.partitions[0].assigned')" 1
is "and no others" "$(field out 1 '$.partitions[2].state') $(field out 1 '$.partitions[2].owner')" \
    'unowned '

# --- Another number of partitions while they work ---
publish_keys
exits 0 "another number of partitions is requested" sub create s --on '*' --partitions 6
publish_keys
true_that "and is had while workers run" until_true 60 shows '$.options.partitions' 6
true_that "a process that shares takes them" until_true 60 shows '$.partitions[5].owner' right
true_that "also what was assigned" until_true 60 shows '$.partitions[0].owner' right
true_that "the assignment was for another number, and says so" until_true 60 \
    grep -q 'takes no partition: 0-1 of 4 are assigned, but it has 6 partitions' left.log
worker third --partition 5 --total-partitions 6
true_that "one with the new number gets its own" until_true 60 shows '$.partitions[5].owner' third
exits 0 "fewer again" sub create s --on '*' --partitions 2
publish_keys
true_that "are had, too" until_true 60 shows '$.options.partitions' 2
true_that "everything is done" until_true 60 shows '$.lag' 0
kill "${pids[@]}"
wait "${pids[@]}"
pids=()
is "each event once" "$(sort handled | uniq -d | wc -l) $(sort -u handled | wc -l)" '0 48'
is "and each key in order" "$(awk '$2 <= last[$1] { print } { last[$1] = $2 }' handled)" ''

# --- Blocked keys ---
hf sub create b --on '*' --from now --partitions 2 --on-poison block_key --retries 0
hf publish bad '{}' --key acc-1 --tenant acme
hf publish good '{}' --key acc-1 --tenant acme
hf publish bad '{}' --key acc-2
# work_b COMMAND CONDITION...: works for b until the condition is true.
work_b() {
    "$HOLDFAST" work b --exec "$1" >worked 2>&1 &
    pids=($!)
    until_true 60 "${@:2}"
    kill "${pids[@]}"
    wait "${pids[@]}"
    pids=()
}
blocked() {
    hf sub show b --json && [ "$(field out 1 '$.blocked') $(field out 1 '$.held')" = '2 1' ]
}
# shellcheck disable=SC2016  # the command's own variables
work_b '[ "$HOLDFAST_TYPE" = good ]' blocked
exits 5 "a worker that waits for the end is not done" work b --exec true --until-empty --max-time 8s
has "and says what it waits for" err 'b  waits: 2 keys are blocked by dead letters'
exits 0 "show lists keys that wait for a dead letter" sub show b
has "and begins with that, whether processes work or not" out '^Not moving: 2 keys are blocked'
has "with tenant, type and what is held" out '^acc-1 +acme +[01] +49 +bad +.* ago +1 +[0-9]+$'
has "each" out '^acc-2 +- +'
has "and says what releases them" err 'dlq retry N'
exits 0 "and as JSON" sub show b --json --limit 1
is "with the event" \
    "$(field out 1 '$.blocked_keys[0].key') $(field out 1 '$.blocked_keys[0].position')" \
    'acc-1 49'
is "and how many more there are" "$(field out 1 '$.blocked_keys_more')" 1
dead=$(field out 1 '$.blocked_keys[0].dead_id')
has "its dead letter is named as everywhere, by a text" out "\"dead_id\":\"$dead\""
exits 0 "resolving the dead letter" dlq resolve "$dead"
exits 0 "releases the key" sub show b --json
is "of those that are left" "$(field out 1 '$.blocked_keys[0].key')" acc-2
# shellcheck disable=SC2016
work_b 'echo "came: $HOLDFAST_KEY"' grep -q came: worked
is "and what was held behind it comes" "$(grep came: worked)" 'came: acc-1'

finish
