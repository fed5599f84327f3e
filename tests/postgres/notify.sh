#!/usr/bin/env bash
# Notifications are one queue for the whole server, and need no right. A role that sends anything on
# any channel, or keeps the queue from being emptied, keeps no namespace from publishing and none
# from consuming.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/neighbours.sh"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ ! -x "$HOLDFAST" ]; then
    skip "all claims about notifications" "there is no $HOLDFAST"
    done_testing
    exit
fi
neighbours max_prepared_transactions=5
house noisy
work=$(mktemp -d)
url="postgresql:///$PGDATABASE?host=$cluster_dir&user=$b_role"
channel=holdfast_$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'b'")
# shellcheck disable=SC2016
"$HOLDFAST" --db "$url" --namespace b work reader --on '**' --from start \
    --exec 'echo "$HOLDFAST_PAYLOAD"' >"$work/got" 2>"$work/said" </dev/null &
worker=$!
got() { same "$1" "$(paste -sd' ' "$work/got")"; }
publish() { PGUSER=$b_role sql "SELECT duplicate FROM holdfast.publish('b', 'x', '$1')"; }

# --- Garbage ---
PGUSER=stranger psql -qX -c "DO \$\$ BEGIN
    FOR i IN 1 .. 4000 LOOP
        PERFORM pg_notify('$channel', repeat(chr(33 + i % 90), 7900) || i);
        IF i % 10 = 0 THEN COMMIT; END IF;
    END LOOP; END \$\$" &
flood=$!
publish 1 >/dev/null
ok "a consumer that is woken in vain gets the events that are there" until_true 60 got "1"
wait "$flood"
publish 2 >/dev/null
ok "a consumer gets what comes after it was woken in vain" until_true 60 got "1 2"

# --- A queue that nothing leaves ---
export PGDATABASE=postgres
PGUSER=stranger open listener
ask listener "LISTEN x; BEGIN; SELECT" >/dev/null
PGUSER=stranger psql -qX -c "DO \$\$ BEGIN FOR i IN 1 .. 11000 LOOP PERFORM pg_notify('y',
    repeat('y', 7980) || i); END LOOP; END \$\$"
export PGDATABASE=noisy
"$HOLDFAST" --db "$url" --namespace b doctor --json >"$work/doctor"
ok "doctor says that notifications of a session in another database pile up" sh -c \
    'grep "notify_queue_percent" "$1" | grep "\"warn\"" | grep -q "listens inside of a trans"' \
    sh "$work/doctor"
# 8 GB are not filled here. With a full queue a transaction that has notified cannot commit, so none
# notifies from the half on; what they ask is answered here as if it were so.
PGUSER=boss sql "CREATE OR REPLACE FUNCTION holdfast.bell_works() RETURNS boolean
    LANGUAGE sql VOLATILE RETURN false" >/dev/null
# Any NOTIFY in a transaction keeps it from being prepared: so it can be told whether there was one.
quiet() { # ROLE SQL
    PGUSER=$1 psql -qXAt -v VERBOSITY=terse -c "BEGIN; $2; PREPARE TRANSACTION 'p'" 2>&1 |
        grep -v '^[0-9tf|]*$'
    PGUSER=$1 sql "ROLLBACK PREPARED 'p'" >/dev/null
}
sleeps() {
    sql "SELECT coalesce(pg_sequence_last_value(n.sleep), 0) > extract(epoch FROM clock_timestamp())
        * 1000000 FROM holdfast_private.namespaces n WHERE n.name = 'b'"
}
asleep() { [ "$(sleeps)" = t ]; }
until_true 60 asleep
ok "setup: a process sleeps until it is notified" asleep
for call in "publish('b', 'quiet')" "publish_many('b', '{quiet}', NULL)" \
    "publish('b', 'quiet', id => gen_random_uuid())"; do
    ok "holdfast.${call%%(*} does not notify when the queue is half full" same "" \
        "$(quiet "$b_role" "SELECT FROM holdfast.$call")"
done
ok "setup: holdfast.publish notifies when the queue is not half full" \
    like "*PREPARE*NOTIFY*" "$(PGUSER=boss sql \
        "CREATE OR REPLACE FUNCTION holdfast.bell_works() RETURNS boolean LANGUAGE sql VOLATILE
        RETURN true" >/dev/null; quiet "$b_role" "SELECT FROM holdfast.publish('b', 'quiet')")"
PGUSER=boss sql "CREATE OR REPLACE FUNCTION holdfast.bell_works() RETURNS boolean
    LANGUAGE sql VOLATILE RETURN false" >/dev/null
publish 3 >/dev/null
ok "a consumer finds an event by looking when the queue is half full" until_true 60 got "1 2 3"
ask listener "ROLLBACK" >/dev/null
shut listener
kill -TERM "$worker"
wait "$worker"
ok "a worker says nothing unusual when the queue is half full" \
    sh -c '! grep -iE "error|cannot|notif" "$1"' sh \
    "$work/said"
rm -rf "$work"
done_testing
