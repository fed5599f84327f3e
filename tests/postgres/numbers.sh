#!/usr/bin/env bash
# "It was there already" is said only of what is there. A number that a sequence gives and that is
# taken, as after a restore of rows without their sequences, is an error that says what to do, and
# nothing that was acknowledged is missing.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
url="postgresql:///$PGDATABASE?host=$PGHOST&user=$PGUSER"

# Every statement says which index it means. The log is the exception: a table that is partitioned
# by more than the index has cannot have it; what the log refuses is looked for before it counts as
# there.
is_text() { is "$1" "SELECT \$text\$$2\$text\$" "$3"; }
is_text "ON CONFLICT names an index, but for the log" \
    "$(cd "$ROOT/sql" && grep -c 'ON CONFLICT DO NOTHING' -r postgres sqlite | grep -v ':0' | sort |
        sed 's|^postgres/functions/||' | tr '\n' ' ')" \
    "append.sql:1 publish.sql:1 timers.sql:1 "

# ---- Delayed events -----------------------------------------------------------------------------

ok "a delayed event waits" "$HOLDFAST" --db "$url" publish a 1 --delay 1h
behind="SELECT setval(pg_get_serial_sequence('holdfast_private.delayed', 'number'), 1, false)"
sql "$behind" >/dev/null
"$HOLDFAST" --db "$url" publish b 2 --delay 1h >"$cluster_dir/out" 2>&1
is_text "with its number taken, another one is refused" "$?" "1"
ok "and the message says what to do" like "*delayed_pkey*mend_sequences*" \
    "$(cat "$cluster_dir/out")"
sql "$behind" >/dev/null
fails "in SQL, too" "SELECT holdfast.publish_later('default', 'b', '2', now() + interval '1 h')" \
    "23505: *delayed_pkey*"
is "nothing else waits" "SELECT string_agg(type, ' ') FROM holdfast_private.delayed" "a"
sql "$behind" >/dev/null
is "mend_sequences names the sequence" "SELECT holdfast.mend_sequences()" \
    "holdfast_private.delayed_number_seq"
ok "then it waits" "$HOLDFAST" --db "$url" publish b 2 --delay 1h
is "as it should" "SELECT string_agg(type, ' ' ORDER BY number) FROM holdfast_private.delayed" "a b"
id=$(sql "SELECT id FROM holdfast_private.delayed WHERE type = 'a'")
ok "the same id twice is once" "$HOLDFAST" --db "$url" publish a 1 --delay 1h --id "$id"
is "still" "SELECT count(*) FROM holdfast_private.delayed" "2"

# ---- Everything else that has numbers of its own ------------------------------------------------

sql "SELECT count(holdfast.publish('default', 'x')) FROM generate_series(1, 5);
     SELECT holdfast.create_subscription('default', 's1', '{**}', 'start', 'ordered');
     SELECT holdfast.create_subscription('default', 's2', '{**}', 'start', 'ordered');
     SELECT setval('holdfast_private.namespace_ids', 1, false);
     SELECT setval(pg_get_serial_sequence('holdfast_private.subscriptions', 'id'), 1, false);
     SELECT setval('holdfast_private.events_1_position', 1, false);
     SELECT setval('holdfast_private.journal_seq', 1, false)" >/dev/null
"$HOLDFAST" --db "$url" sub create s3 --on '**' --from start >"$cluster_dir/out" 2>&1
ok "a subscription whose number is taken is refused" like "*subscriptions_pkey*mend_sequences*" \
    "$(cat "$cluster_dir/out")"
is "mend_sequences finds them all" \
    "SELECT string_agg(replace(s, 'holdfast_private.', ''), ' ' ORDER BY s)
    FROM holdfast.mend_sequences() s" \
    "events_1_position journal_seq namespace_ids subscriptions_id_seq"
is "and then finds nothing" "SELECT count(*) FROM holdfast.mend_sequences()" "0"
is "positions go on" "SELECT position FROM holdfast.publish('default', 'x')" "6"
ok "subscriptions are made" "$HOLDFAST" --db "$url" sub create s3 --on '**' --from start
is "and namespaces" "SELECT status, id FROM holdfast_private.namespace_put('other')" "0|2"

# ---- A unique index that is not ours ------------------------------------------------------------

month=$(date -u +%Y%m)
sql "CREATE UNIQUE INDEX foreign_index ON holdfast_private.events_1_$month (key)" >/dev/null
is "an event that an index of others refuses" \
    "SELECT duplicate FROM holdfast.publish('default', 'x', key => 'k')" "f"
fails "is not taken for one that is there" "SELECT holdfast.publish('default', 'x', key => 'k')" \
    "HF014: the log refuses*"
is "nor was it stored" "SELECT count(*) FROM holdfast_private.events WHERE key = 'k'" "1"

done_testing
