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
is "a transaction draws a position" "$(say "$publish")" 2
say 'ROLLBACK;'
hf stats --json
is "which is given only once" "$(field out 1 '$.head')" 2
for sub in o s t; do
    exits 0 "$sub is empty although the last position was never published" \
        work $sub --exec true --until-empty --max-time 60s
    hf sub show $sub --json
    is "$sub has no lag then" "$(field out 1 '$.lag') $(field out 1 '$.not_moving')" "0 "
done
exits 0 "nor has a repeated publish" publish a.b --id 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 0 "that draws a position and leaves it" publish a.b --id 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 0 "to wait for" work o --exec true --until-empty --max-time 60s
hf sub show o --json
is "none at all" "$(field out 1 '$.lag')" 0

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
    is "$sub says which position its checkpoint waits for" "$?" 0
    has "and who holds it" told_$sub "pid $pid \(billing\), idle in transaction for [0-9]+ s"
done
has "in relaxed order later events are delivered" told_o \
    'later events are delivered, the checkpoint waits'
has "in strict order they wait" told_t 'order is strict, so later events wait for it'
# It may come while the numbers are being read.
told_owner() { told o && grep -qE '"owner":"[^"]+","owner_alive":true' told_o; }
true_that "the owner is named" until_true 60 told_owner
say 'COMMIT;'
settled() { "$HOLDFAST" sub show "$1" --json | grep -q '"not_moving":null.*"lag":0'; }
for sub in o s t; do
    until_true 60 settled $sub
    is "when it ends $sub moves on" "$?" 0
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
is "a prepared transaction is told by its name and role" "$?" 0
say "ROLLBACK PREPARED 'forgotten $base';"
until_true 60 settled o
is "and waited for until it ends" "$?" 0
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
is "a dead owner is told at once" "$?" 0

finish
