#!/usr/bin/env bash
# event_states: where an event is in every subscription, the same as the command says.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
url="postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast"
hf() { "$HOLDFAST" --db "$url" "$@"; }
id() { echo "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c$1"; }
publish() { sql "SELECT FROM holdfast.publish('default', '$2', id => '$(id "$1")')" >/dev/null; }
states() { # NUMBER: "subscription state attempts cause deliveries node", as SQL says it
    rows "SELECT subscription, state, attempts, cause, deliveries, node,
              next_attempt_at IS NOT NULL, dead_id, json_array_length(attempts_json)
          FROM holdfast.event_states('default', '$(id "$1")')"
}
shown() { # NUMBER: the same from the command
    hf event show "$(id "$1")" --json | jq -r '.states[] | [.subscription, .state, .attempts,
        .cause, (if .deliveries == -1 then null else .deliveries end), .node,
        (if .next_attempt_at == null then "f" else "t" end), .dead_id,
        (.attempts_json // null | if . == null then null else length end)]
        | map(. // "" | tostring) | join("|")' | paste -sd' ' -
}
agree() { ok "event_states and event show agree on an event that is $1" \
    same "$(shown "$2")" "$(states "$2")"; }

sql "SELECT holdfast.create_subscription('default', 'jobs', '{job.*}', 'start', 'shared',
                                         options => '{\"attempts_max\": 2}');
     SELECT holdfast.create_subscription('default', 'line', '{**}', 'start', 'ordered');
     SELECT holdfast.create_subscription('default', 'strict', '{x}', 'start', 'ordered',
                                         options => '{\"on_unhandled\": \"dead_letter\"}')" \
    >/dev/null
publish 11 job.a
publish 12 other
is "event_states shows an event that waits as pending" \
    "SELECT subscription, state FROM holdfast.event_states('default',
    '$(id 11)')" "jobs|pending line|pending strict|pending"
is "event_states shows an event of another type as not_for_it" \
    "SELECT state FROM holdfast.event_states('default', '$(id 12)')" \
    "not_for_it pending pending"
fails "event_states of an unknown event is not found" \
    "SELECT FROM holdfast.event_states('default', '$(id 99)')" \
    "HF003: there is no event with id *"
fails "event_states of an unknown namespace is not found" \
    "SELECT FROM holdfast.event_states('no', '$(id 11)')" \
    "HF003: there is no namespace no"
if ! command -v jq >/dev/null; then
    skip "claims that event_states and event show agree" "jq is not installed"
    done_testing
    exit
fi
agree "pending" 11
agree "of another type" 12
lease=$(sql "SELECT max(lease) FROM holdfast.claim('default', 'jobs', node => 'me')")
is "event_states shows a claimed event as processing, with its node" \
    "SELECT state, node, since <= now() FROM holdfast.event_states('default', '$(id 11)')
    WHERE subscription = 'jobs'" "processing|me|t"
agree "processing" 11
sql "SELECT holdfast.nack('default', 'jobs', '$lease', error => 'no', delay_ms => 3600000)" \
    >/dev/null
agree "retrying" 11
is "event_states shows the error of an attempt" \
    "SELECT attempts_json -> 0 ->> 'error' FROM holdfast.event_states('default',
    '$(id 11)') WHERE subscription = 'jobs'" no
sql "UPDATE holdfast_private.retries SET next_attempt_at = now()" >/dev/null
lease=$(sql "SELECT max(lease) FROM holdfast.claim('default', 'jobs', lease_ms => 1)")
sleep 0.1
agree "pending after its lease has ended" 11
sql "UPDATE holdfast_private.retries SET next_attempt_at = now()" >/dev/null
lease=$(sql "SELECT max(lease) FROM holdfast.claim('default', 'jobs')")
sql "SELECT holdfast.bury('default', 'jobs', '$lease', error => 'never')" >/dev/null 2>&1
agree "dead" 11
publish 13 job.b
hf work line --exec true --until-empty >/dev/null 2>&1
agree "done" 13
agree "done in the ordered subscription" 11
publish 14 job.c
lease=$(sql "SELECT max(lease) FROM holdfast.claim('default', 'jobs', 100)")
sql "SELECT holdfast.nack('default', 'jobs', '$lease', error => 'first', delay_ms => 0)" >/dev/null
lease=$(sql "SELECT max(lease) FROM holdfast.claim('default', 'jobs', 100)")
sql "SELECT holdfast.ack('default', 'jobs', '$lease')" >/dev/null
agree "done at the second attempt" 14
is "event_states shows the attempts of an event that is done" \
    "SELECT state, attempts FROM holdfast.event_states('default', '$(id 14)')
    WHERE subscription = 'jobs'" "done|1"

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
for part in viewer publisher; do
    sql "CREATE ROLE $part LOGIN" >/dev/null
    sql "SELECT holdfast.namespace_grant('$part', 'default', '$part')" >/dev/null
done
sql "SELECT FROM holdfast.create_namespace('other')" >/dev/null
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
look="SELECT count(*) FROM holdfast.event_states('default', '$(id 11)')"
ok "a viewer may call event_states" same 3 "$(as viewer "$look")"
ok "a publisher cannot call event_states" like "*42501*" "$(as publisher "$look")"
ok "a viewer does not find another namespace" like "*HF003*" "$(as viewer "${look/default/other}")"
done_testing
