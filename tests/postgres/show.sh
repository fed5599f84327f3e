#!/usr/bin/env bash
# sub show and what waits for the end of the log: holes, their holders, numbers without events.
. "$(dirname "$0")/../cli/lib.sh"

# A session of an application, told what to do line by line: `say SQL` returns when it is done.
session() {
    coproc SIDE { PGAPPNAME=billing psql -qXAt "$HOLDFAST_URL" 2>&1; }
}
say() {
    printf '%s\n\\echo done\n' "$1" >&"${SIDE[1]}"
    local line
    while read -r -t 20 line <&"${SIDE[0]}"; do
        [ "$line" != "done" ] || return 0
        printf '%s\n' "$line"
    done
    return 1
}
publish="SELECT position FROM holdfast.publish('default', 'a.b', '{}');"

hf publish a.b
hf sub create o --on '*' --from start
hf sub create s --on '*' --from start --mode shared
hf sub create t --on '*' --from start --order strict
session
pid=$(say 'SELECT pg_backend_pid();')

# --- Numbers without events ---
say 'BEGIN;'
is "setup: a transaction draws a position" "$(say "$publish")" 2
say 'ROLLBACK;'
hf stats --json
is "a position that was rolled back is not given again" "$(field out 1 '$.head')" 2
for sub in o s t; do
    exits 0 "work $sub --until-empty ends although the last position was never published" \
        work $sub --exec true --until-empty --max-time 60s
    hf sub show $sub --json
    is "sub show $sub has no lag although the last position was never published" \
        "$(field out 1 '$.lag') $(field out 1 '$.not_moving')" "0 "
done
exits 0 "setup: an event with an id is published" \
    publish a.b --id 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 0 "setup: the event with the same id is published again" \
    publish a.b --id 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 0 "work --until-empty ends although a duplicate has drawn a position" \
    work o --exec true --until-empty --max-time 60s
hf sub show o --json
is "sub show has no lag although a duplicate has drawn a position" "$(field out 1 '$.lag')" 0

# --- A transaction that does not end ---
for sub in s t; do
    hf work $sub --exec true --until-empty --max-time 60s
done
say 'BEGIN;'
drawn=$(say "$publish")
hf publish a.b
workers=()
for sub in o s t; do
    "$HOLDFAST" work $sub --exec true >work_$sub.out 2>&1 &
    workers+=($!)
done
told() {
    "$HOLDFAST" sub show "$1" --json >told_$1 && grep -q "position $drawn may still come" told_$1
}
for sub in o s t; do
    until_true 60 told $sub
    is "sub show $sub says which position its checkpoint waits for" "$?" 0
    has "sub show $sub names the session that holds the position" \
        told_$sub "pid $pid \(billing\), idle in transaction for [0-9]+ s"
done
has "sub show says that later events are delivered in relaxed order" told_o \
    'later events are delivered, the checkpoint waits'
has "sub show says that later events wait in strict order" \
    told_t 'order is strict, so later events wait for it'
# It may come while the numbers are being read.
told_owner() { told o && grep -qE '"owner":"[^"]+","owner_alive":true' told_o; }
true_that "sub show names the owner of the partition" until_true 60 told_owner
say 'COMMIT;'
settled() { "$HOLDFAST" sub show "$1" --json | grep -q '"not_moving":null.*"lag":0'; }
for sub in o s t; do
    until_true 60 settled $sub
    is "subscription $sub moves on when the transaction has ended" "$?" 0
done
kill -TERM "${workers[@]}"
wait "${workers[@]}"

# --- A prepared transaction ---
say 'BEGIN;'
drawn=$(say "SELECT holdfast_private.draw(1);")
hf publish a.b
say "PREPARE TRANSACTION 'forgotten $base';"
"$HOLDFAST" work o --exec true >/dev/null 2>&1 &
worker=$!
told_prepared() {
    told o && grep -q "prepared transaction 'forgotten $base' of role holdfast" told_o
}
until_true 60 told_prepared
is "sub show names a prepared transaction and its role" "$?" 0
say "ROLLBACK PREPARED 'forgotten $base';"
until_true 60 settled o
is "a subscription moves on when the prepared transaction has ended" "$?" 0
kill -TERM $worker
wait $worker

# --- An owner that died ---
hf publish a.b
"$HOLDFAST" work o --exec 'sleep 60' >/dev/null 2>&1 &
worker=$!
owned() { "$HOLDFAST" sub show o --json | grep -q '"owner_alive":true'; }
until_true 60 owned
kill -9 $worker
{ wait $worker; } 2>/dev/null
dead() {
    "$HOLDFAST" sub show o | grep -q '^Not moving: its owner .* is dead and no other process'
}
until_true 60 dead
is "sub show says at once that the owner is dead" "$?" 0

finish
