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
exits 0 "sub create takes the option --partitions" sub create s --on '*' --from start --partitions 4
exits 2 "work --partition refuses a partition that the subscription does not have" \
    work s --exec true --partition 2-4
has "the refusal of --partition names the highest partition" err 'above 3'
exits 4 "work --total-partitions with another number exits with a conflict" \
    work s --exec true --partition 1 --total-partitions 8
has "the conflict of --total-partitions names both numbers" \
    err 's has 4 partitions, and the assignment is for 8'
exits 2 "work refuses --total-partitions without --partition" \
    work s --exec true --total-partitions 4
exits 2 "work --partition refuses what is no list of numbers" work s --exec true --partition 1,x
has "the refusal of --partition gives an example of a list" err '3,5-7'

exits 2 "work --partition refuses a partition that a new subscription does not have" \
    work new --on '*' --from start --exec true --partition 9
exits 2 "work --partition refuses a new subscription that is shared" \
    work new --on '*' --from start --exec true --mode shared --partition 0
exits 2 "work --partition refuses a new subscription of instance mode single" \
    work new --on '*' --from start --exec true --instance-mode single --partition 0
exits 4 "work of a new subscription with another --total-partitions exits with a conflict" \
    work new --on '*' --from start --exec true --partition 1 --total-partitions 4
exits 3 "a refused work stores no subscription" sub show new

worker left --partition 0-1 --total-partitions 4
true_that "work --partition 0-1 takes partition 1" until_true 60 shows '$.partitions[1].owner' left
true_that "work --partition 0-1 takes partition 0" until_true 60 shows '$.partitions[0].owner' left
is "sub show says that a partition is assigned" "$(field out 1 '$.partitions[0].assigned')" 1
is "work --partition takes no other partition" \
    "$(field out 1 '$.partitions[2].state') $(field out 1 '$.partitions[2].owner')" \
    'unowned '
true_that "sub show says which partitions no process may take" until_true 60 shows '$.not_moving' \
    'partitions 2-3 have no owner, and no process that runs may take them'
exits 0 "sub show prints partitions as a table" sub show s --limit 3
has "sub show prints owner and state of a partition" out '^ +0 +owned +left +yes '
has "sub show --limit says how many more partitions there are" out '… and 1 more partitions'
has "sub show warns of partitions without an owner" out 'Warning: partitions 2-3 have no owner'
exits 0 "sub show --json takes the option --limit" sub show s --json --limit 1
is "sub show --json --limit says how many more partitions there are" \
    "$(field out 1 '$.partitions_more')" 3

worker right
true_that "a worker without --partition takes partition 2, which is not assigned" \
    until_true 60 shows '$.partitions[2].owner' right
true_that "a worker without --partition takes partition 3, which is not assigned" \
    until_true 60 shows '$.partitions[3].owner' right
is "a worker without --partition leaves assigned partitions to their owner" \
    "$(field out 1 '$.partitions[0].owner')" left
true_that "a worker with assigned partitions and one that shares do everything together" \
    until_true 60 shows '$.lag' 0

# --- Fixed partitions by a file ---
# fixed FILE LINES...: a file that fixes some partitions of the subscription f.
fixed() {
    printf 'subscriptions:\n  - name: f\n    on: x\n    from: start\n' >"$1"
    printf '    handler: {exec: "true"}\n' >>"$1"
    printf '    %s\n' "${@:2}" >>"$1"
}

fixed wrong.yaml 'partitions: 4' 'partition: 1,x'
exits 2 "work --config refuses a partition that is no list of numbers" work --config wrong.yaml
has "the refusal of partition in a file names file and line" \
    err 'wrong\.yaml:7:16: subscriptions\[0\]\.partition: .*3,5-7'
fixed wrong.yaml 'partitions: 4' 'partition: 0-1' 'total_partitions: 8'
exits 2 "work --config refuses a total_partitions that differs from partitions" \
    work --config wrong.yaml
has "the refusal of total_partitions names the keys and lines of the file" err \
    'wrong\.yaml:8:23: subscriptions\[0\]\.total_partitions: it is 8, and partitions is 4 \(line 6'
fixed fixed.yaml 'partitions: 4' 'partition: 0-1' 'total_partitions: 4'
exits 4 "work --partitions that contradicts the file exits with a conflict" \
    work --config fixed.yaml --partitions 3
has "the conflict of --partitions names file and line" err \
    'fixed\.yaml:2: subscription f: f has 3 partitions, and the assignment is for 4'
exits 3 "work with a refused file stores no subscription" sub show f
"$HOLDFAST" work --config fixed.yaml --node file >file.log 2>&1 &
pids+=($!)
shows_f() { hf sub show f --json && [ "$(field out 1 "$1")" = "$2" ]; }
true_that "a worker takes partition 0 of its file" until_true 60 shows_f \
    '$.partitions[0].owner' file
true_that "a worker takes partition 1 of its file" \
    until_true 60 shows_f '$.partitions[1].owner' file
is "sub show says that a partition of a file is assigned" \
    "$(field out 1 '$.partitions[0].assigned')" 1
is "a worker takes no partition that its file does not name" \
    "$(field out 1 '$.partitions[2].state') $(field out 1 '$.partitions[2].owner')" \
    'unowned '

# --- Another number of partitions while they work ---
publish_keys
exits 0 "sub create --partitions changes the number while workers run" \
    sub create s --on '*' --partitions 6
publish_keys
true_that "the new number of partitions comes into force while workers run" \
    until_true 60 shows '$.options.partitions' 6
true_that "a worker that shares takes a new partition" \
    until_true 60 shows '$.partitions[5].owner' right
true_that "a worker that shares takes a partition whose assignment was for another number" \
    until_true 60 shows '$.partitions[0].owner' right
true_that "a worker whose assignment is for another number says so and takes no partition" \
    until_true 60 \
    grep -q 'takes no partition: 0-1 of 4 are assigned, but it has 6 partitions' left.log
worker third --partition 5 --total-partitions 6
true_that "a worker with an assignment for the new number takes its partition" \
    until_true 60 shows '$.partitions[5].owner' third
exits 0 "sub create --partitions takes a smaller number while workers run" \
    sub create s --on '*' --partitions 2
publish_keys
true_that "the smaller number of partitions comes into force while workers run" \
    until_true 60 shows '$.options.partitions' 2
true_that "all events are done after the number of partitions has changed twice" \
    until_true 60 shows '$.lag' 0
kill "${pids[@]}"
wait "${pids[@]}"
pids=()
is "each event is handled once while the number of partitions changes" \
    "$(sort handled | uniq -d | wc -l) $(sort -u handled | wc -l)" '0 48'
is "the events of each key are handled in order while the number changes" \
    "$(awk '$2 <= last[$1] { print } { last[$1] = $2 }' handled)" ''

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
exits 5 "work --until-empty exits with 5 if keys are blocked" \
    work b --exec true --until-empty --max-time 8s
has "work --until-empty says how many keys are blocked by dead letters" \
    err 'b  waits: 2 keys are blocked by dead letters'
exits 0 "sub show succeeds with blocked keys" sub show b
has "sub show begins with the number of blocked keys" out '^Not moving: 2 keys are blocked'
has "sub show prints key, tenant, type and held events of a blocked key" \
    out '^acc-1 +acme +[01] +49 +bad +.* ago +1 +[0-9]+$'
has "sub show lists a blocked key without a tenant" out '^acc-2 +- +'
has "sub show says that dlq retry releases blocked keys" err 'dlq retry N'
exits 0 "sub show --json succeeds with blocked keys" sub show b --json --limit 1
is "sub show --json prints key and position of a blocked key" \
    "$(field out 1 '$.blocked_keys[0].key') $(field out 1 '$.blocked_keys[0].position')" \
    'acc-1 49'
is "sub show --json --limit says how many more blocked keys there are" \
    "$(field out 1 '$.blocked_keys_more')" 1
dead=$(field out 1 '$.blocked_keys[0].dead_id')
has "sub show --json prints dead_id of a blocked key as a string" out "\"dead_id\":\"$dead\""
exits 0 "dlq resolve takes the dead letter of a blocked key" dlq resolve "$dead"
exits 0 "sub show succeeds after dlq resolve" sub show b --json
is "dlq resolve releases the key that the dead letter blocked" \
    "$(field out 1 '$.blocked_keys[0].key')" acc-2
# shellcheck disable=SC2016
work_b 'echo "came: $HOLDFAST_KEY"' grep -q came: worked
is "an event that was held behind a resolved dead letter is delivered" \
    "$(grep came: worked)" 'came: acc-1'

finish
