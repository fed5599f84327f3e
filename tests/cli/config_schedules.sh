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
exits 0 "config check accepts a file with schedules" config check
has "config check says how many subscriptions and schedules a file has" \
    err 'is good: 1 subscription, 2 schedules\.'
exits 0 "config show --origin succeeds for a file with schedules" config show --origin
has "config show --origin prints the expression of a schedule with its line" \
    out '^schedules\.a\.cron +0 9 \* \* \* +holdfast\.yaml:'
has "config show --origin prints the default zone of a schedule" \
    out '^schedules\.b\.zone +UTC +default'
exits 0 "config show --json succeeds for a file with schedules" config show --json
json "config show --json prints JSON objects" out
has "config show --json names schedule and path of a key" \
    out '"key":"schedules.a.cron","subscription":null,"schedule":"a","path":"cron"'
exits 0 "work adds the schedules of a file" work --until-empty
has "work says that it added a schedule" err 'Schedule a added\.'
is "a schedule of a file has the options that the file gives it" \
    "$(told a zone) $(told a type) $(told a key) $(told a tenant) $(told a misfire) $(told a \
        misfire_cap) $(told a grace_ms) $(told a driver)" \
    "Asia/Kathmandu tick.a k t all 7 5000 own"
hf schedule show a "${db[@]}" --json
has "a schedule of a file has payload and metadata byte for byte" \
    out '"payload":\{"n": 1.50\}.*"metadata":\{"m": 1\}'

# --- Started again ---
id=$(told a id)
before=$(next_of a)
exits 0 "work succeeds with schedules that exist" work --until-empty
hasnt "work adds no schedule that exists" err 'added'
is "work leaves id and next time of a schedule that exists" \
    "$(told a id) $(next_of a)" "$id $before"

# A planned time that has come while no process worked is not forgotten by a restart.
file "{name: once, cron: '* * * * * *', type: tick.once, misfire: once, grace: 0}"
exits 0 "work adds a schedule that fires each second" work --until-empty
hf schedule pause once "${db[@]}"
hf schedule resume once "${db[@]}"
waiting=$(next_of once)
until [[ "$(date -u +%Y-%m-%dT%H:%M:%S)" > "${waiting%%.*}" ]]; do sleep 0.2; done
is "setup: the schedule waits for a time that has passed" "$(next_of once)" "$waiting"
file "{name: once, cron: '* * * * * *', type: tick.once, misfire: once, grace: 0, active: on}" \
    "{name: c, cron: '@yearly', type: tick.c}"
"$HOLDFAST" work >worked 2>err &
worker=$!
until_true 120 grep -q 'ran tick.once' worked
kill "$worker"
wait "$worker"
has "a worker fires a schedule whose time has passed" worked '^ran tick\.once$'
hf schedule show once "${db[@]}" --json --runs 100
has "the time that a schedule waited for is fired after a restart" out "\"planned_at\":\"$waiting\""
hf event list "${db[@]}" --json --limit 1000
is "each planned time of a schedule is published once" \
    "$(grep '"type":"tick.once"' out | grep -o '"emitted_at":"[^"]*"' | sort | uniq -d)" ''
exits 0 "work keeps schedules that are not in the file any more" schedule show a "${db[@]}"

# --- Changed ---
file "{name: a, cron: '30 9 * * *', type: tick.a}"
exits 0 "work succeeds with another expression of a schedule" work --until-empty
is "a changed schedule has its new expression, and defaults for what the file leaves out" \
    "$(told a expression) $(told a zone) $(told a misfire) $(told a misfire_cap) $(told a \
        grace_ms) $(told a key)" \
    "30 9 * * * UTC skip 100 60000 "
is "a changed schedule keeps its id" "$(told a id)" "$id"
file "{name: a, cron: '30 9 * * *', type: tick.a, active: off}"
exits 0 "work succeeds with active: off of a schedule" work --until-empty
paused=$(told a paused_at)
is "active: off pauses a schedule" "$(told a paused_reason)" 'active: off in the configuration file'
exits 0 "work succeeds with active: off of a paused schedule" work --until-empty
is "active: off leaves the pause of a paused schedule as it was" "$(told a paused_at)" "$paused"
file "{name: new, cron: '* * * * * *', type: tick.new, active: off}"
exits 0 "work succeeds with active: off of a new schedule" work --until-empty
is "a new schedule with active: off is paused since it was created" \
    "$(told new paused_at) $(told new paused_reason)" \
    "$(told new created_at) active: off in the configuration file"
file "{name: a, cron: '30 9 * * *', type: tick.a}"
exits 0 "work succeeds without active of a paused schedule" work --until-empty
is "a paused schedule stays paused if the file says nothing of active" \
    "$(told a paused_at)" "$paused"
file "{name: a, cron: '30 9 * * *', type: tick.a, active: on}"
exits 0 "work succeeds with active: on of a paused schedule" work --until-empty
is "active: on resumes a schedule" "$(told a paused_at)" ''

# --- Retention ---
kept() {
    hf namespace show default "${db[@]}" --json && echo "$(field out 1 \
            '$.retention_ms') $(field out 1 '$.retention_bytes') $(field out 1 '$.lagging')"
}
default=$(kept)
file
echo 'retention: {bytes: 2GiB}' >>holdfast.yaml
exits 0 "work succeeds with retention.bytes in the file" work --until-empty
is "work sets retention.bytes and leaves other retention as it was" \
    "$(kept)" "${default%% *} 2147483648 keep"
file
echo 'retention: {age: 30d, lagging: drop}' >>holdfast.yaml
exits 0 "work succeeds with retention.age and retention.lagging in the file" work --until-empty
is "work sets retention.age and retention.lagging" "$(kept)" "2592000000 2147483648 drop"
file
exits 0 "work succeeds without retention in the file" work --until-empty
is "work leaves retention that the file does not have" "$(kept)" "2592000000 2147483648 drop"

# --- What is refused ---
file "{name: d, cron: '@daily', type: t, driver: pg_cron}"
exits 1 "work fails if the database does not have the driver of a schedule" work --until-empty
has "the error of a missing driver names file, line and schedule" \
    err '^holdfast: holdfast\.yaml:5: schedule d: driver is pg_cron'
exits 3 "a schedule whose driver is missing is not stored" schedule show d "${db[@]}"
file "{name: d, cron: '0 25 * * *', type: t, zome: UTC}" \
    "{name: e, cron: '@daily', type: t, zone: Europe/Berlni}"
exits 2 "config check refuses a file with three mistakes of schedules" config check
has "config check names place and fault of a wrong expression" err \
    '^holdfast: holdfast\.yaml:5:19: schedules\[0\]\.cron: .*hour "25" at byte 2'
has "config check suggests a name for an unknown key of a schedule" err \
    '^holdfast: holdfast\.yaml:5:.*schedules\[0\]\.zome: there is no such key; did you mean zone\?'
has "config check names an unknown zone" err \
    '^holdfast: holdfast\.yaml:6:.*schedules\[1\]\.zone: there is no time zone Europe/Berlni'
exits 2 "work refuses a file with mistakes of schedules" work --until-empty
exits 3 "work with a refused file stores no schedule" schedule show e "${db[@]}"
mapfile -t many < <(for i in $(seq 257); do echo "{name: n$i, cron: '@daily', type: t}"; done)
file "${many[@]}"
exits 2 "config check refuses 257 schedules" config check
has "the refusal of 257 schedules names the limit" \
    err 'there are more than 256 members, which is the limit'
for garbage in 'schedules: *x' 'schedules: &a [b]' \
    'schedules: !!map {}' $'schedules:\n- ? [a]\n  : b' \
    $'schedules:\n\t- a' "schedules: [$(printf '[%.0s' $(seq 200))" $'schedules: [\x01]' \
    'retention: [age]' \
    'retention: {age: -1d}' 'retention: {age: 99999999999999999999d}' 'retention: {bytes: 1e9}'; do
    file
    printf '%s\n' "$garbage" >>holdfast.yaml
    claim=${garbage//[^ -~]/ }
    exits 2 "config check refuses ${claim:0:30}" config check
    has "config check names the place of ${claim:0:30}" \
        err '^holdfast: holdfast\.yaml:[0-9]+:[0-9]+: '
done
finish
