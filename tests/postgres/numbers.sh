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
        sed 's|^postgres/functions/[a-z]*/||' | tr '\n' ' ')" \
    "append.sql:1 publish.sql:1 timers.sql:1 "

# ---- Delayed events -----------------------------------------------------------------------------

ok "setup: a delayed event waits" "$HOLDFAST" --db "$url" publish a 1 --delay 1h
behind="SELECT setval(pg_get_serial_sequence('holdfast_private.delayed', 'number'), 1, false)"
sql "$behind" >/dev/null
"$HOLDFAST" --db "$url" publish b 2 --delay 1h >"$cluster_dir/out" 2>&1
is_text "publish --delay is refused if the number of its sequence is taken" "$?" "1"
ok "the refusal of publish --delay names mend_sequences" like "*delayed_pkey*mend_sequences*" \
    "$(cat "$cluster_dir/out")"
sql "$behind" >/dev/null
fails "publish_later is refused if the number of its sequence is taken" \
    "SELECT holdfast.publish_later('default', 'b', '2', now() + interval '1 h')" \
    "23505: *delayed_pkey*"
is "refused delayed events are not stored" \
    "SELECT string_agg(type, ' ') FROM holdfast_private.delayed" "a"
sql "$behind" >/dev/null
is "mend_sequences names the sequence of delayed events" "SELECT holdfast.mend_sequences()" \
    "holdfast_private.delayed_number_seq"
ok "publish --delay succeeds after mend_sequences" "$HOLDFAST" --db "$url" publish b 2 --delay 1h
is "the delayed event is stored after mend_sequences" \
    "SELECT string_agg(type, ' ' ORDER BY number) FROM holdfast_private.delayed" "a b"
id=$(sql "SELECT id FROM holdfast_private.delayed WHERE type = 'a'")
ok "publish --delay takes the id of an event that waits" \
    "$HOLDFAST" --db "$url" publish a 1 --delay 1h --id "$id"
is "an id that waits is stored once" "SELECT count(*) FROM holdfast_private.delayed" "2"

# ---- Everything else that has numbers of its own ------------------------------------------------

sql "SELECT count(holdfast.publish('default', 'x')) FROM generate_series(1, 5);
     SELECT holdfast.create_subscription('default', 's1', '{**}', 'start', 'ordered');
     SELECT holdfast.create_subscription('default', 's2', '{**}', 'start', 'ordered');
     SELECT setval('holdfast_private.namespace_ids', 1, false);
     SELECT setval(pg_get_serial_sequence('holdfast_private.subscriptions', 'id'), 1, false);
     SELECT setval('holdfast_private.events_1_position', 1, false);
     SELECT setval('holdfast_private.journal_seq', 1, false)" >/dev/null
"$HOLDFAST" --db "$url" sub create s3 --on '**' --from start >"$cluster_dir/out" 2>&1
ok "sub create is refused if the number of its sequence is taken" \
    like "*subscriptions_pkey*mend_sequences*" \
    "$(cat "$cluster_dir/out")"
is "mend_sequences finds all sequences that are behind" \
    "SELECT string_agg(replace(s, 'holdfast_private.', ''), ' ' ORDER BY s)
    FROM holdfast.mend_sequences() s" \
    "events_1_position journal_seq namespace_ids subscriptions_id_seq"
is "mend_sequences finds nothing the second time" \
    "SELECT count(*) FROM holdfast.mend_sequences()" "0"
is "positions go on after mend_sequences" \
    "SELECT position FROM holdfast.publish('default', 'x')" "6"
ok "sub create succeeds after mend_sequences" \
    "$HOLDFAST" --db "$url" sub create s3 --on '**' --from start
is "namespace_put succeeds after mend_sequences" \
    "SELECT status, id FROM holdfast_private.namespace_put('other')" "0|2"

# ---- A unique index that is not ours ------------------------------------------------------------

month=$(date -u +%Y%m)
sql "CREATE UNIQUE INDEX foreign_index ON holdfast_private.events_1_$month (key)" >/dev/null
is "setup: an event with a key is stored beside a foreign unique index" \
    "SELECT duplicate FROM holdfast.publish('default', 'x', key => 'k')" "f"
fails "an event whose id is given and that a foreign index refuses is not taken for a duplicate" \
    "SELECT holdfast.publish('default', 'x', id => holdfast_private.new_id(now()), key => 'k')" \
    "HF014: the log refuses*"
fails "the index that refuses an event whose id publish has made is named" \
    "SELECT holdfast.publish('default', 'x', key => 'k')" \
    "23505:*foreign_index*"
is "an event that a foreign index refuses is not stored" \
    "SELECT count(*) FROM holdfast_private.events WHERE key = 'k'" "1"

done_testing
