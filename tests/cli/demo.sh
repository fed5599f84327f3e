#!/usr/bin/env bash
# demo and bench: they run, their numbers are there, and they leave nothing behind.
. "$(dirname "$0")/lib.sh"
unset HOLDFAST_URL
mkdir temp
export TMPDIR=$PWD/temp

# On a server each of them gets an empty database; a file they make themselves.
count=0
place=()
elsewhere() {
    on postgres || return 0
    count=$((count + 1))
    place=(--db "$(empty "$count")")
}

elsewhere
exits 0 "the demo succeeds" demo --quick "${place[@]}"
has "it publishes" out '^Published 120 events of 5 customers'
has "it fails and retries" out '^  attempt 1 of 3: 550 no such mailbox .*; again in'
has "it gives up" out '^  attempt 3 of 3: .*; given up$'
has "it shows the dead letter" out 'dead letter 1 of mailer: order.placed at position 17'
has "it retries it with success" out \
    '^mailer has sent it at attempt 1\. Dead letters: 0, letters sent: 40\.$'
has "it ends with a table" out '^ledger +ordered +order\.\* +120 +0 +0 +0$'
has "and the sum" out \
    '^120 events in the log, 160 deliveries done, 3 attempts failed, nothing lost\.$'
is "it leaves nothing behind" "$(ls temp)" ''
elsewhere
exits 0 "the demo --json is an object" demo --quick --json "${place[@]}"
json "a valid one" out
is "with real numbers" \
    "$(field out 1 '$.booked') $(field out 1 '$.mailed') $(field out 1 '$.out_of_order')" "120 40 0"
if on sqlite; then
    exits 0 "--keep keeps the database" demo --quick --keep
    has "and says how to look at it" err '^Look around: holdfast --db '
    true_that "in its directory" sh -c 'ls temp/*/holdfast.db'
    rm -rf temp/*
fi
mine=$(empty mine)
exits 0 "--db names it" demo --quick --db "$mine"
exits 2 "which must be empty" demo --quick --db "$mine"
exits 0 "and can be looked at" tail --db "$mine" --limit 1

has_fields() { # FILE FIELDS...
    local file=$1 name
    shift
    for name in "$@"; do
        grep -q "\"$name\":" "$file" || { echo "$name is missing: $(cat "$file")"; return 1; }
    done
}
elsewhere
exits 0 "bench publish" bench publish --events 300 --threads 2 "${place[@]}"
has "says the durability" out 'durability power'
if on sqlite; then
    exits 0 "bench publish --raw --json" bench publish --events 200 --batch 20 --raw --rounds 2 \
        --json
    json "is an object" out
    true_that "with all fields" has_fields out rate p50_ms p99_ms p999_ms max_ms events threads \
        batch durability engine raw_rate ratio
fi
elsewhere
exits 0 "bench consume" bench consume --events 2000 --json "${place[@]}"
true_that "has all fields" has_fields out rate p50_ms p99_ms p999_ms max_ms events threads batch \
    durability engine
is "of the engine" "$(field out 1 '$.engine')" "$engine"
elsewhere
exits 0 "bench consume --mode shared" bench consume --events 2000 --mode shared --concurrency 2 \
    --batch 50 --json "${place[@]}"
is "says the mode" "$(field out 1 '$.mode')" shared
elsewhere
exits 0 "bench e2e" bench e2e --rate 200/s --seconds 1 --json "${place[@]}"
true_that "has all fields" has_fields out rate p50_ms p99_ms p999_ms max_ms events threads batch \
    durability engine
is "and measures every event" "$(field out 1 '$.events')" 200
elsewhere
exits 0 "bench e2e with two processes" bench e2e --rate 200/s --seconds 1 --processes 2 \
    --json --durability process "${place[@]}"
json "prints one object" out
is "one only" "$(wc -l <out)" 1
is "which measures every event, too" "$(field out 1 '$.events') $(field out 1 '$.processes')" \
    "200 2"
is "and says the durability" "$(field out 1 '$.durability')" process
bench=$(empty bench)
exits 0 "a benchmark takes an empty database" bench publish --events 10 --db "$bench"
exits 2 "and refuses one that is used" bench publish --events 10 --db "$bench"
exits 2 "--raw needs files of its own" bench publish --events 10 --db "$(empty bench2)" --raw
is "benchmarks leave nothing behind" "$(ls temp)" ''

finish
