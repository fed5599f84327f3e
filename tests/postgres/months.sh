#!/usr/bin/env bash
# Months are made ahead and on demand: publishing never stops for want of one, whichever role
# publishes, however many do, and whatever transactions are open elsewhere. A server whose clock
# jumps to a later month finds itself without one: that is what taking the months away stands for.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
: "${HOLDFAST:=$ROOT/build/release/holdfast}"

month=$(date -u +%Y%m)
next=$(date -u -d "$(date -u +%Y-%m-15) +1 month" +%Y%m)
lose="DROP TABLE IF EXISTS holdfast_private.events_1_$month, holdfast_private.events_1_$next;
      UPDATE holdfast_private.namespaces SET months_from = 'infinity', months_to = '-infinity'
          WHERE id = 1"
months="SELECT string_agg(relid::regclass::text, ' ' ORDER BY relid::regclass::text)
    FROM pg_partition_tree('holdfast_private.events_1') WHERE isleaf"
publish="SELECT duplicate FROM holdfast.publish('default', 'x')"

is "a namespace begins with this month and the next" "$months" \
    "holdfast_private.events_1_$month holdfast_private.events_1_$next"
sql "$lose" >/dev/null
is "publish makes the month that it needs" "$publish; $months" "f holdfast_private.events_1_$month"
is "publish_many makes the month that it needs" \
    "$lose; SELECT count(*) FROM holdfast.publish_many('default', '{a,b}', NULL);
    $months" "2 holdfast_private.events_1_$month"
is "publish of an id of version 4 makes the month that it needs" \
    "$lose; SELECT duplicate FROM holdfast.publish('default', 'x',
    id => gen_random_uuid()); $months" "f holdfast_private.events_1_$month"
is "ensure_months makes the missing month, once" \
    "SELECT holdfast.ensure_months(); SELECT holdfast.ensure_months()" "1 0"
if [ -x "$HOLDFAST" ]; then
    url="postgresql:///$PGDATABASE?host=$PGHOST&user=$PGUSER"
    sql "$lose" >/dev/null
    ok "publish of the library succeeds without a month" "$HOLDFAST" --db "$url" publish x 1
    sql "$lose" >/dev/null
    "$HOLDFAST" --db "$url" tail --follow >/dev/null 2>&1 &
    reader=$!
    ok "the library makes both months soon after it was opened" \
        becomes "$months" "holdfast_private.events_1_$month holdfast_private.events_1_$next"
    kill "$reader"
    wait "$reader" 2>/dev/null
fi

# ---- No others ----------------------------------------------------------------------------------

# A role that may call ensure_month makes nothing that publishing does not need.
begins="date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
later="(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months') AT TIME ZONE 'UTC'"
for at in "$later" "'infinity'" "'-infinity'" "NULL" \
    "(now() - interval '1 day') - interval '31 days'" "now() - interval '60 days'"; do
    fails "ensure_month refuses the month of $at" "SELECT holdfast_private.ensure_month(1, $at)" \
        "HF001: month of *"
done
is "ensure_month takes this month and the next" \
    "SELECT holdfast_private.ensure_month(1, $begins),
    holdfast_private.ensure_month(1, $later - interval '1 us')" "f|f"

# ---- A month that exists in all caches ---------------------------------------------------------

# The namespace's row says that the month is there, and the log has none: so it is for a session
# that has not been told yet of one that was just made, and after it was dropped by hand.
append="SELECT status, positions IS NULL
    FROM holdfast.append(1, ARRAY[holdfast_private.new_id(clock_timestamp())],
    '{x}', '{1}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', ARRAY[now()], '{-1}', '{1}')"
vanish="DROP TABLE holdfast_private.events_1_$month"
sql "SELECT holdfast.ensure_months(1); $vanish" >/dev/null
is "an append that finds no month where one should be makes it" "$append" "0|f"
sql "$vanish" >/dev/null
is "two appends in one transaction make a month that vanished" \
    "BEGIN; $append; $append; COMMIT" "0|f 0|f"
if [ -x "$HOLDFAST" ]; then
    sql "$vanish" >/dev/null
    ok "publish of the library succeeds if a month has vanished" "$HOLDFAST" --db "$url" publish x 1
fi
sql "ALTER TABLE holdfast_private.events_1 DETACH PARTITION holdfast_private.events_1_$month" \
    >/dev/null
fails "an append that cannot make its month fails" "$append" "23514: no partition*"
if [ -x "$HOLDFAST" ]; then
    ok "the library names holdfast verify if a month cannot be made" \
        like "*23514*holdfast verify*" "$("$HOLDFAST" --db "$url" publish x 1 2>&1)"
fi
sql "$vanish" >/dev/null

# ---- Beside open transactions -------------------------------------------------------------------

# Each of these holds what it can while the months are made.
open reader
open writer
open a
open b
sql "SELECT FROM holdfast_private.namespace_put('other')" >/dev/null
ask reader "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT count(*) FROM holdfast_private.events_1" >/dev/null
ask writer "BEGIN; SELECT FROM holdfast.publish('other', 'x')" >/dev/null
ask a "BEGIN; $publish" >/dev/null
ask a "COMMIT" >/dev/null
ask reader "COMMIT" >/dev/null
sql "$lose" >/dev/null
ask reader "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT count(*) FROM holdfast_private.events_1" >/dev/null
asks "a month is made beside readers and writers with open transactions" a "$publish" f
ask a "BEGIN; $publish" >/dev/null
asks "the next month is made beside an open publisher of this one" b \
    "SELECT holdfast.ensure_months(1)" 1
asks "an open publisher goes on after the next month was made" a "$publish; COMMIT" f
ask reader "COMMIT" >/dev/null
ask writer "COMMIT" >/dev/null
sql "$lose" >/dev/null
ask a "BEGIN; $publish" >/dev/null
asks "try_months returns NULL while a month is being made" b \
    "SELECT holdfast.try_months(1) IS NULL" t
ask a "ROLLBACK" >/dev/null
asks "try_months makes the months after the other transaction was rolled back" \
    b "SELECT holdfast.try_months(1)" 2
sql "$lose" >/dev/null
ask a "BEGIN; $publish" >/dev/null
ask b "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1" >/dev/null
tell b "$publish; COMMIT"
blocked b
ask a "COMMIT" >/dev/null
hears "a transaction whose snapshot is older than the month finds it" b f

# ---- Many at once -------------------------------------------------------------------------------

for session in reader writer a b; do shut $session; done
for round in 1 2 3; do
    before=$(sql "SELECT holdfast.head(1)")
    sql "$lose" >/dev/null
    pids=()
    for i in 1 2 3 4 5 6 7 8; do
        sql "$publish; $publish" >"$cluster_dir.$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    ok "eight sessions that find no month all publish (round $round)" same \
        "$(printf 'f\nf\n%.0s' 1 2 3 4 5 6 7 8)" "$(cat "$cluster_dir".?)"
    rm -f "$cluster_dir".?
    is "eight sessions that find no month lose nothing (round $round)" \
        "SELECT count(*), count(DISTINCT position)
        FROM holdfast_private.events_1 WHERE position > $before;
        SELECT count(*) FROM pg_partition_tree('holdfast_private.events_1') WHERE isleaf" "16|16 1"
done

done_testing
