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
exits 0 "demo --quick exits with 0" demo --quick "${place[@]}"
has "demo prints how many events it published" out '^Published 120 events of 5 customers'
has "demo prints failed attempts and when it tries again" \
    out '^  attempt 1 of 3: 550 no such mailbox .*; again in'
has "demo prints that an event is given up after its last attempt" \
    out '^  attempt 3 of 3: .*; given up$'
has "demo prints the dead letter" out 'dead letter 1 of mailer: order.placed at position 17'
has "demo prints that the retried dead letter succeeded" out \
    '^mailer has sent it at attempt 1\. Dead letters: 0, letters sent: 40\.$'
has "demo prints a table of subscriptions at its end" \
    out '^ledger +ordered +order\.\* +120 +0 +0 +0$'
has "demo prints that nothing is lost" out \
    '^120 events in the log, 160 deliveries done, 3 attempts failed, nothing lost\.$'
is "demo leaves no file behind" "$(ls temp)" ''
elsewhere
exits 0 "demo takes the option --json" demo --quick --json "${place[@]}"
json "demo --json prints a JSON object" out
is "demo --json prints how many events were booked, mailed and out of order" \
    "$(field out 1 '$.booked') $(field out 1 '$.mailed') $(field out 1 '$.out_of_order')" "120 40 0"
if on sqlite; then
    exits 0 "demo takes the option --keep" demo --quick --keep
    has "demo --keep says how to look at the database" err '^Look around: holdfast --db '
    true_that "demo --keep keeps the database in its directory" sh -c 'ls temp/*/holdfast.db'
    rm -rf temp/*
fi
mine=$(empty mine)
exits 0 "demo takes an empty database of --db" demo --quick --db "$mine"
exits 2 "demo refuses a database that is not empty" demo --quick --db "$mine"
exits 0 "tail reads the database of demo --db" tail --db "$mine" --limit 1

has_fields() { # FILE FIELDS...
    local file=$1 name
    shift
    for name in "$@"; do
        grep -q "\"$name\":" "$file" || { echo "$name is missing: $(cat "$file")"; return 1; }
    done
}
elsewhere
exits 0 "bench publish takes --events and --threads" \
    bench publish --events 300 --threads 2 "${place[@]}"
has "bench publish prints the durability" out 'durability power'
if on sqlite; then
    exits 0 "bench publish takes --raw and --rounds" \
        bench publish --events 200 --batch 20 --raw --rounds 2 \
        --json
    json "bench publish --json prints a JSON object" out
    true_that "bench publish --json has rate, latencies, sizes, durability, engine and ratio" \
        has_fields out rate p50_ms p99_ms p999_ms max_ms events threads \
        batch durability engine raw_rate ratio
fi
elsewhere
exits 0 "bench consume takes --events" bench consume --events 2000 --json "${place[@]}"
true_that "bench consume --json has rate, latencies, sizes, durability and engine" \
    has_fields out rate p50_ms p99_ms p999_ms max_ms events threads batch \
    durability engine
is "bench consume --json names the engine" "$(field out 1 '$.engine')" "$engine"
elsewhere
exits 0 "bench consume takes --mode shared" \
    bench consume --events 2000 --mode shared --concurrency 2 \
    --batch 50 --json "${place[@]}"
is "bench consume --json names the mode" "$(field out 1 '$.mode')" shared
elsewhere
exits 0 "bench e2e takes --rate and --seconds" \
    bench e2e --rate 200/s --seconds 1 --json "${place[@]}"
true_that "bench e2e --json has rate, latencies, sizes, durability and engine" \
    has_fields out rate p50_ms p99_ms p999_ms max_ms events threads batch \
    durability engine
is "bench e2e measures every event" "$(field out 1 '$.events')" 200
elsewhere
exits 0 "bench e2e takes --processes 2" bench e2e --rate 200/s --seconds 1 --processes 2 \
    --json --durability process "${place[@]}"
json "bench e2e with two processes prints a JSON object" out
is "bench e2e with two processes prints one line" "$(wc -l <out)" 1
is "bench e2e with two processes measures every event" \
    "$(field out 1 '$.events') $(field out 1 '$.processes')" \
    "200 2"
is "bench e2e --json names the durability" "$(field out 1 '$.durability')" process
bench=$(empty bench)
exits 0 "bench publish takes an empty database of --db" bench publish --events 10 --db "$bench"
exits 2 "bench publish refuses a database that is not empty" bench publish --events 10 --db "$bench"
exits 2 "bench publish --raw refuses --db" bench publish --events 10 --db "$(empty bench2)" --raw
is "bench leaves no file behind" "$(ls temp)" ''

finish
