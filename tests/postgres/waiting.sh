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
is "without a declaration no notification is sent" "SELECT '$(notified)'" no
is "(the event is there)" "$claimed" 1
asks "a client that wants to wait learns the channel, and for how long" client "$wait" \
    "10000|holdfast_1"
asks "its last look finds nothing" client "$claimed" 0
sql "$publish" >/dev/null
is "a publisher notifies after the declaration" "SELECT '$(notified)'" yes
asks "and the event is there" client "$claimed" 1

# --- A transaction that was publishing before the declaration ---
sql "SELECT holdfast.awake(1, pg_sequence_last_value((SELECT sleep FROM holdfast_private.namespaces
    WHERE id = 1)))" >/dev/null
ask a "BEGIN; $publish" >/dev/null
asks "while a transaction publishes, the wait is short" client "$wait" "100|holdfast_1"
asks "for it may not have seen the declaration" client "$claimed" 0
ask a COMMIT >/dev/null
is "(it had not)" "SELECT '$(notified)'" no
asks "the look after the short wait finds the event" client "$claimed" 1
asks "then the wait is long again" client "$wait" "10000|holdfast_1"

# --- One that begins after it ---
ask a "BEGIN; $publish" >/dev/null
is "(it is not committed)" "SELECT '$(notified)'" no
ask a COMMIT >/dev/null
is "a publisher that begins after the declaration notifies when it commits" \
    "SELECT '$(notified)'" yes
ask client "$claimed" >/dev/null
asks "a wait may be shorter" client \
    "SELECT wait_ms FROM holdfast.prepare_wait('default', 50)" 50
"$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast" publish job >/dev/null
is "a publisher of the library notifies, too" "SELECT '$(notified)'" yes

# --- Limits and roles ---
for ms in NULL 0 3600001; do
    fails "wait_ms $ms" "SELECT FROM holdfast.prepare_wait('default', $ms)" \
        "HF001: wait_ms is *; it must be 1 to 3600000"
done
fails "of no namespace" "SELECT FROM holdfast.prepare_wait('no')" "HF003: there is no namespace no"
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
sql "CREATE ROLE seer LOGIN; SELECT holdfast.namespace_grant('viewer', 'default', 'seer')" \
    >/dev/null
sql "SELECT FROM holdfast.create_namespace('other')" >/dev/null
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
ok "every part of a namespace may wait" same "10000|holdfast_1" "$(as seer "$wait")"
ok "but not for another one" like "*HF003*there is no namespace other*" \
    "$(as seer "${wait/default/other}")"
done_testing
