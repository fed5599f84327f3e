#!/usr/bin/env bash
# Schedules and retention that a configuration file declares.
. "$(dirname "$0")/lib.sh"
bus=$HOLDFAST_URL
unset HOLDFAST_URL
db=(--db "$bus")

# file SCHEDULES...: a file with these schedules, and a subscription to their events.
handler="handler: {exec: 'echo ran \$HOLDFAST_TYPE'}"
file() {
    {
        printf 'database:\n  url: "%s"\n' "$bus"
        echo "subscriptions: [{name: s, on: 'tick.*', from: start, $handler}]"
        [ $# -eq 0 ] || printf 'schedules:\n'
        [ $# -eq 0 ] || printf -- '- %s\n' "$@"
    } >holdfast.yaml
}
# told NAME PATH: what is stored about a schedule.
told() { hf schedule show "$1" "${db[@]}" --json && field out 1 "\$.$2"; }
next_of() { told "$1" next_at; }

file "{name: a, cron: '0 9 * * *', zone: Asia/Kathmandu, type: tick.a, payload: '{\"n\": 1.50}',
   key: k, tenant: t, metadata: '{\"m\": 1}', misfire: all, misfire_cap: 7, grace: 5s}" \
    "{name: b, cron: '@yearly', type: tick.b}"
exits 0 "the file is good" config check
has "and it says what is in it" err 'is good: 1 subscription, 2 schedules\.'
exits 0 "what would count can be seen" config show --origin
has "of schedules, too" out '^schedules\.a\.cron +0 9 \* \* \* +holdfast\.yaml:'
has "with their defaults" out '^schedules\.b\.zone +UTC +default'
exits 0 "in JSON, too" config show --json
json "as objects" out
has "that name it" out '"key":"schedules.a.cron","subscription":null,"schedule":"a","path":"cron"'
exits 0 "work makes them" work --until-empty
has "and says so" err 'Schedule a added\.'
is "as the file says" \
    "$(told a zone) $(told a type) $(told a key) $(told a tenant) $(told a misfire) $(told a \
        misfire_cap) $(told a grace_ms) $(told a driver)" \
    "Asia/Kathmandu tick.a k t all 7 5000 own"
hf schedule show a "${db[@]}" --json
has "byte for byte" out '"payload":\{"n": 1.50\}.*"metadata":\{"m": 1\}'

# --- Started again ---
id=$(told a id)
before=$(next_of a)
exits 0 "work again" work --until-empty
hasnt "adds nothing" err 'added'
is "nothing has changed" "$(told a id) $(next_of a)" "$id $before"

# A planned time that has come while no process worked is not forgotten by a restart.
file "{name: once, cron: '* * * * * *', type: tick.once, misfire: once, grace: 0}"
exits 0 "one that comes each second" work --until-empty
hf schedule pause once "${db[@]}"
hf schedule resume once "${db[@]}"
waiting=$(next_of once)
until [[ "$(date -u +%Y-%m-%dT%H:%M:%S)" > "${waiting%%.*}" ]]; do sleep 0.2; done
is "it waits for a time that has passed" "$(next_of once)" "$waiting"
file "{name: once, cron: '* * * * * *', type: tick.once, misfire: once, grace: 0, active: on}" \
    "{name: c, cron: '@yearly', type: tick.c}"
"$HOLDFAST" work >worked 2>err &
worker=$!
until_true 120 grep -q 'ran tick.once' worked
kill "$worker"
wait "$worker"
has "a worker fires it" worked '^ran tick\.once$'
hf schedule show once "${db[@]}" --json --runs 100
has "the time that it waited for is not forgotten" out "\"planned_at\":\"$waiting\""
hf event list "${db[@]}" --json --limit 1000
is "each planned time is published once" \
    "$(grep '"type":"tick.once"' out | grep -o '"emitted_at":"[^"]*"' | sort | uniq -d)" ''
exits 0 "those that are not in the file stay" schedule show a "${db[@]}"

# --- Changed ---
file "{name: a, cron: '30 9 * * *', type: tick.a}"
exits 0 "another expression" work --until-empty
is "changes it, and what is not said is at its default" \
    "$(told a expression) $(told a zone) $(told a misfire) $(told a misfire_cap) $(told a \
        grace_ms) $(told a key)" \
    "30 9 * * * UTC skip 100 60000 "
is "it is the same schedule" "$(told a id)" "$id"
file "{name: a, cron: '30 9 * * *', type: tick.a, active: off}"
exits 0 "active: off" work --until-empty
paused=$(told a paused_at)
is "pauses it" "$(told a paused_reason)" 'active: off in the configuration file'
exits 0 "again" work --until-empty
is "it is the same pause" "$(told a paused_at)" "$paused"
file "{name: new, cron: '* * * * * *', type: tick.new, active: off}"
exits 0 "a new one with active: off" work --until-empty
is "is paused from the beginning" "$(told new paused_at) $(told new paused_reason)" \
    "$(told new created_at) active: off in the configuration file"
file "{name: a, cron: '30 9 * * *', type: tick.a}"
exits 0 "if it is not said" work --until-empty
is "it stays paused" "$(told a paused_at)" "$paused"
file "{name: a, cron: '30 9 * * *', type: tick.a, active: on}"
exits 0 "active: on" work --until-empty
is "resumes it" "$(told a paused_at)" ''

# --- Retention ---
kept() {
    hf namespace show default "${db[@]}" --json && echo "$(field out 1 \
            '$.retention_ms') $(field out 1 '$.retention_bytes') $(field out 1 '$.lagging')"
}
default=$(kept)
file
echo 'retention: {bytes: 2GiB}' >>holdfast.yaml
exits 0 "retention" work --until-empty
is "is set, and the rest stays" "$(kept)" "${default%% *} 2147483648 keep"
file
echo 'retention: {age: 30d, lagging: drop}' >>holdfast.yaml
exits 0 "all of it" work --until-empty
is "as the file says" "$(kept)" "2592000000 2147483648 drop"
file
exits 0 "without it" work --until-empty
is "nothing changes" "$(kept)" "2592000000 2147483648 drop"

# --- What is refused ---
file "{name: d, cron: '@daily', type: t, driver: pg_cron}"
exits 1 "a driver that is not there is refused" work --until-empty
has "with file, line and name" err '^holdfast: holdfast\.yaml:5: schedule d: driver is pg_cron'
exits 3 "nothing is left of it" schedule show d "${db[@]}"
file "{name: d, cron: '0 25 * * *', type: t, zome: UTC}" \
    "{name: e, cron: '@daily', type: t, zone: Europe/Berlni}"
exits 2 "all mistakes are told" config check
has "an expression" err \
    '^holdfast: holdfast\.yaml:5:19: schedules\[0\]\.cron: .*hour "25" at byte 2'
has "a key" err \
    '^holdfast: holdfast\.yaml:5:.*schedules\[0\]\.zome: there is no such key; did you mean zone\?'
has "a zone" err \
    '^holdfast: holdfast\.yaml:6:.*schedules\[1\]\.zone: there is no time zone Europe/Berlni'
exits 2 "work does nothing with it" work --until-empty
exits 3 "nothing was made" schedule show e "${db[@]}"
mapfile -t many < <(for i in $(seq 257); do echo "{name: n$i, cron: '@daily', type: t}"; done)
file "${many[@]}"
exits 2 "so many are refused" config check
has "with the limit" err 'there are more than 256 members, which is the limit'
for garbage in 'schedules: *x' 'schedules: &a [b]' \
    'schedules: !!map {}' $'schedules:\n- ? [a]\n  : b' \
    $'schedules:\n\t- a' "schedules: [$(printf '[%.0s' $(seq 200))" $'schedules: [\x01]' \
    'retention: [age]' \
    'retention: {age: -1d}' 'retention: {age: 99999999999999999999d}' 'retention: {bytes: 1e9}'; do
    file
    printf '%s\n' "$garbage" >>holdfast.yaml
    claim=${garbage//[^ -~]/ }
    exits 2 "garbage is refused: ${claim:0:30}" config check
    has "with its place" err '^holdfast: holdfast\.yaml:[0-9]+:[0-9]+: '
done
finish
