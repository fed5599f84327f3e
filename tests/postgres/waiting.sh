#!/usr/bin/env bash
# Waiting for events in SQL without polling: LISTEN, prepare_wait, and one more look.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
sql "SELECT holdfast.create_subscription('default', 'jobs', '{**}', 'start', 'shared')" >/dev/null
publish="SELECT FROM holdfast.publish('default', 'job')"
wait="SELECT wait_ms, channel FROM holdfast.prepare_wait('default')"
claimed="SELECT count(*) FROM holdfast.claim('default', 'jobs')"
open client
open a
ask client "LISTEN holdfast_1" >/dev/null
# notified: whether the client has got a notification since it was last asked.
notified() {
    case $(ask client "SELECT 'asked'") in
        *notification*asked* | *asked*notification*) echo yes ;;
        *) echo no ;;
    esac
}

sql "$publish" >/dev/null
is "publish sends no notification without prepare_wait" "SELECT '$(notified)'" no
is "setup: the event of a publish without a notification is claimed" "$claimed" 1
asks "prepare_wait returns channel and time" client "$wait" \
    "10000|holdfast_1"
asks "setup: a claim after prepare_wait finds nothing" client "$claimed" 0
sql "$publish" >/dev/null
is "publish sends a notification after prepare_wait" "SELECT '$(notified)'" yes
asks "a claim after the notification gets the event" client "$claimed" 1

# --- A transaction that was publishing before the declaration ---
sql "SELECT holdfast.awake(1, pg_sequence_last_value((SELECT sleep FROM holdfast_private.namespaces
    WHERE id = 1)))" >/dev/null
ask a "BEGIN; $publish" >/dev/null
asks "prepare_wait returns a short time while a transaction publishes" \
    client "$wait" "100|holdfast_1"
asks "setup: a claim while a transaction publishes finds nothing" client "$claimed" 0
ask a COMMIT >/dev/null
is "a publisher that began before prepare_wait sends no notification" "SELECT '$(notified)'" no
asks "a claim after the short wait gets the event" client "$claimed" 1
asks "prepare_wait returns the long time after the transaction has ended" \
    client "$wait" "10000|holdfast_1"

# --- One that begins after it ---
ask a "BEGIN; $publish" >/dev/null
is "a publisher sends no notification before it commits" "SELECT '$(notified)'" no
ask a COMMIT >/dev/null
is "a publisher that begins after prepare_wait sends a notification when it commits" \
    "SELECT '$(notified)'" yes
ask client "$claimed" >/dev/null
asks "prepare_wait takes a shorter time" client \
    "SELECT wait_ms FROM holdfast.prepare_wait('default', 50)" 50
"$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast" publish job >/dev/null
is "publish of the library sends a notification after prepare_wait" "SELECT '$(notified)'" yes

# --- Limits and roles ---
for ms in NULL 0 3600001; do
    fails "prepare_wait refuses a wait_ms of $ms" \
        "SELECT FROM holdfast.prepare_wait('default', $ms)" \
        "HF001: wait_ms is *; it must be 1 to 3600000"
done
fails "prepare_wait in an unknown namespace is not found" \
    "SELECT FROM holdfast.prepare_wait('no')" "HF003: there is no namespace no"
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
sql "CREATE ROLE seer LOGIN; SELECT holdfast.namespace_grant('viewer', 'default', 'seer')" \
    >/dev/null
sql "SELECT FROM holdfast.create_namespace('other')" >/dev/null
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
ok "a viewer may call prepare_wait" same "10000|holdfast_1" "$(as seer "$wait")"
ok "a viewer does not find another namespace to wait for" \
    like "*HF003*there is no namespace other*" \
    "$(as seer "${wait/default/other}")"
done_testing
