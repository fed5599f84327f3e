#!/usr/bin/env bash
# Schedules on the command line, and events for later.
. "$(dirname "$0")/lib.sh"

exits 0 "schedule next with an expression needs no database" schedule next \
    '30 2 * * *' --zone Europe/Berlin --after 2026-03-28 -n 3
has "schedule next prints local time, zone and UTC before a change of the clocks" \
    out '^2026-03-28T02:30:00\+01:00 +CET +2026-03-28T01:30:00Z '
has "schedule next moves a time that the clocks skip to the end of the jump, and says so" out \
    '^2026-03-29T03:00:00\+02:00 +CEST +2026-03-29T01:00:00Z .*jump from 02:00 to 03:00'
has "schedule next prints local time, zone and UTC after a change of the clocks" \
    out '^2026-03-30T02:30:00\+02:00 +CEST +2026-03-30T00:30:00Z '
is "schedule next with an expression makes no database" "$(find . -name "*.db")" ""
exits 0 "schedule next takes a zone that left a day out" schedule next \
    '0 12 * * *' 2 --zone Pacific/Apia --after 2011-12-29
has "schedule next names the day that the zone left out" \
    out 'jump from 2011-12-30 00:00 to 2011-12-31 00:00'
exits 0 "schedule next leaves out times after the year 9999" \
    schedule next @yearly 3 --after 9998-01-01
has "schedule next says that no time is known after 9999" \
    err '^No (other )?time is known after that\.$'
exits 0 "schedule next lists a time that comes twice once" schedule next \
    '30 2 * * *' --zone Europe/Berlin --after 2026-10-24T12:00:00Z -n 2
has "schedule next takes the first of two equal local times, and says so" \
    out '^2026-10-25T02:30:00\+02:00 .*runs the first time'
has "schedule next goes on with the next day after a time that comes twice" \
    out '^2026-10-26T02:30:00\+01:00 '
exits 0 "schedule next takes @hourly across a change of the clocks" schedule next \
    '@hourly' --zone Europe/Berlin --after 2026-10-24T23:30:00Z -n 3
has "@hourly fires in the first of two equal local hours" \
    out '^2026-10-25T02:00:00\+02:00 .*twice; first time'
has "@hourly fires in the second of two equal local hours" \
    out '^2026-10-25T02:00:00\+01:00 .*twice; second time'
exits 0 "schedule next --json takes an expression" schedule next \
    '0 9 * * 1' --zone Asia/Kathmandu --after 2026-11-15 -n 2 --json
json "schedule next --json prints JSON objects" out
wanted='{"at":"2026-11-16T03:15:00.000000Z","local":"2026-11-16T09:00:00+05:45"'
wanted=$wanted',"zone":"Asia/Kathmandu","abbreviation":"+0545","note":null}'
is "schedule next --json prints at, local, zone, abbreviation and note" "$(head -1 out)" "$wanted"
is "schedule next -n 2 prints two times" "$(wc -l <out)" 2
exits 0 "schedule next takes @every" schedule next '@every 90m' 3 --zone Europe/Berlin \
    --after 2026-03-29T00:10:00Z
has "@every fires at multiples of its period whatever the clocks do" \
    out '^2026-03-29T03:30:00\+02:00 +CEST +2026-03-29T01:30:00Z '
exits 2 "schedule next refuses an @every of less than a second" schedule next '@every 10ms'
has "the refusal of a short @every names its limits" err 'takes whole seconds, from 1s to 365d'
exits 2 "schedule next refuses an @every without a period" schedule next '@every noon'
has "the refusal of an @every without a period gives an example" err '"noon" is no period; .* 1h30m'
exits 0 "schedule next needs neither a number nor a zone" schedule next '*/5 * * * * *' --json
is "schedule next prints five times in UTC by default" "$(grep -c '"zone":"UTC"' out)" 5
exits 2 "schedule next refuses an hour of 25" schedule next '0 25 * * *'
has "the refusal of an expression names field, byte and range" err \
    'hour "25" at byte 2 is out of range; the field takes 0 to 23'
exits 2 "schedule next refuses an expression that never fires" schedule next '0 0 30 2 *'
has "the refusal says that the expression never fires" err 'never fires'
exits 3 "schedule next with an unknown zone exits with not found" \
    schedule next @daily --zone Europe/Atlantis
has "the error of an unknown zone names the zone" err 'no time zone Europe/Atlantis'
exits 2 "schedule next refuses a zone that leads out of the directory of zones" \
    schedule next @daily --zone ../../etc/passwd
mkdir zones && echo damaged >zones/Here
rc=0; TZDIR=$PWD/zones "$HOLDFAST" schedule next @daily --zone Here >out 2>err || rc=$?
is "schedule next looks for zones in TZDIR and refuses a damaged one" "$rc" 1
has "the error of a damaged zone says that its file cannot be used" \
    err 'the file of time zone Here cannot be used'

# --- Schedules that are kept ---
exits 3 "schedule list without a database exits with not found" schedule list
exits 0 "schedule add makes a schedule" schedule add report '0 9 * * MON-FRI' report.due \
    '{"n": 1.50}' --zone Europe/Berlin --misfire once
exits 0 "schedule list succeeds with a schedule" schedule list
has "schedule list shows expression, zone, next time and type" \
    out '^report +0 9 \* \* MON-FRI +Europe/Berlin +in .* report.due$'
exits 0 "schedule show --json succeeds" schedule show report --json
json "schedule show --json prints a JSON object" out
has "schedule show --json prints the payload byte for byte and the misfire rule" \
    out '"payload":\{"n": 1.50\}.*"misfire":"once"'
exits 2 "schedule add refuses a wrong expression" schedule add bad '0 25 * * *' t
exits 3 "schedule add with an unknown zone exits with not found" \
    schedule add bad @daily t --zone Europe/Atlantis
exits 1 "schedule add fails if the database does not have the driver" \
    schedule add bad @daily t --driver pg_cron
has "the error of a missing driver names it" err 'driver is pg_cron'
exits 3 "a schedule whose driver is missing is not stored" schedule show bad
exits 2 "schedule add refuses a driver that does not exist" \
    schedule add bad @daily t --driver systemd
exits 0 "schedule add takes @every as expression" schedule add beat '@every 5m' beat
exits 0 "schedule list succeeds with an @every schedule" schedule list
has "schedule list shows @every as it was written" out '^beat +@every 5m +UTC +in '
exits 0 "schedule rm --yes removes an @every schedule" schedule rm beat --yes
exits 0 "schedule add --driver own replaces a schedule" \
    schedule add report '0 9 * * MON-FRI' report.due \
    '{"n": 1.50}' --zone Europe/Berlin --misfire once --driver own
exits 0 "schedule show succeeds for a schedule with a driver" schedule show report
has "schedule show prints the driver own" out '^driver: +own$'
exits 0 "schedule add --paused makes a paused schedule" \
    schedule add later @hourly later.due --paused
exits 0 "schedule show --json shows a paused schedule" schedule show later --json
is "a schedule that was added paused is paused since it was created" \
    "$(field out 1 '$.paused_at')" "$(field out 1 '$.created_at')"
exits 0 "schedule rm --yes removes a paused schedule" schedule rm later --yes
exits 0 "schedule pause --reason pauses a schedule" schedule pause report --reason holidays
exits 0 "schedule list succeeds with a paused schedule" schedule list
has "schedule list shows that a schedule is paused" out '^report .* paused '
exits 0 "schedule run publishes the event of a schedule now" schedule run report
has "schedule run prints position and id of the event" out '^position 1  id [0-9a-f-]{36}$'
exits 0 "schedule run --json publishes the event of a schedule" schedule run report --json
is "schedule run --json prints the position as publish does" "$(field out 1 '$.position')" 2
exits 0 "event list --json shows the events of schedule run" event list --json
has "an event of schedule run has the producer scheduler and the id of the schedule" \
    out '"producer":"scheduler","schedule_id":"[0-9a-f-]{36}"'
exits 0 "schedule show succeeds after firings" schedule show report
has "schedule show prints titles above the firings" out '^PLANNED +WHAT +AT +POSITION +EVENT +NODE'
has "schedule show lists a firing by hand with its position and node" \
    out '^20[0-9T:.-]+Z +by hand +20[0-9T:.-]+Z +2 +- +[^ ]'
exits 0 "schedule show --runs takes a number" schedule show report --runs 1
is "schedule show --runs 1 prints one firing" "$(grep -c 'by hand' out)" 1
is "schedule show --runs 1 prints the newest firing" "$(grep -c "by hand .* 2 " out)" 1
exits 0 "schedule show --runs takes 0" schedule show report --runs 0
is "schedule show --runs 0 prints no firings and no titles" "$(grep -c 'by hand\|PLANNED' out)" 0
exits 0 "schedule show --json takes --runs" schedule show report --json --runs 5
json "schedule show --json --runs prints a JSON object" out
is "schedule show --json lists firings with the newest first" "$(field out 1 \
        '$.runs[0].kind') $(field out 1 '$.runs[0].position') $(field out 1 '$.runs[1].position')" \
    "by_hand 2 1"
is "schedule show --json lists no more firings than there were" "$(field out 1 '$.runs[2].kind')" ''
exits 0 "schedule show --json takes --runs 0" schedule show report --json --runs 0
has "schedule show --json --runs 0 has an empty list of runs" out '"runs":\[\]\}$'
exits 2 "schedule show --runs refuses more than are kept" schedule show report --runs 1001
exits 0 "schedule next takes the name of a paused schedule" \
    schedule next report 3 --after 2026-03-27T12:00:00Z \
    --json
has "schedule next says that the schedule is paused" err 'report is paused'
is "schedule next prints as many times of a paused schedule as asked for" "$(wc -l <out)" 3
is "schedule next prints times in the zone of the schedule" \
    "$(field out 1 '$.local')" 2026-03-30T09:00:00+02:00
exits 0 "schedule resume resumes a schedule" schedule resume report
exits 0 "schedule next takes the name of a schedule" schedule next report
has "schedule next with a name uses expression and zone of the schedule" out 'T09:00:00\+0[12]:00 '
is "schedule next of a schedule that is not paused prints nothing on stderr" "$(cat err)" ''
exits 3 "schedule next of an unknown name exits with not found" schedule next nothing
exits 2 "schedule next refuses --zone together with the name of a schedule" \
    schedule next report --zone UTC
exits 2 "schedule next refuses a count that is no number" schedule next report many
exits 0 "schedule add with the same definition succeeds" \
    schedule add report '0 9 * * MON-FRI' report.due --json
is "schedule add --json says that the same definition created nothing" \
    "$(cat out)" '{"name":"report","created":false}'
exits 3 "schedule rm of an unknown name exits with not found and does not ask" schedule rm nothing
exits 2 "schedule rm without --yes and without a terminal is refused" schedule rm report
exits 0 "schedule rm --yes removes a schedule" schedule rm report --yes
exits 3 "a removed schedule is not found" schedule show report

# --- Names that are not what one expects ---
for name in '@daily' '* * * * *' "o'clock" '"; DROP TABLE holdfast_schedules; --' '%s%n' \
    'päckchen 📦' '../../etc/passwd' '--yes' '$(true)' "$(printf 'n%.0s' $(seq 255))"; do
    exits 0 "schedule add takes the name ${name:0:40}" \
        schedule add --json --key "$name" -- "$name" '@yearly' t.t
    is "schedule add says that it created ${name:0:40}" "$(field out 1 '$.created')" 1
    exits 0 "schedule show finds ${name:0:40}" schedule show --json -- "$name"
    is "schedule show prints the whole name ${name:0:40}" "$(field out 1 '$.name')" "$name"
    exits 0 "schedule next --name finds ${name:0:40}" schedule next --name -n 1 --json -- "$name"
    is "schedule next -n 1 prints one time of ${name:0:40}" "$(wc -l <out)" 1
    exits 0 "schedule pause takes the name ${name:0:40}" schedule pause --reason "$name" -- "$name"
    exits 0 "schedule list succeeds with the name ${name:0:40}" schedule list
    exits 0 "schedule run takes the name ${name:0:40}" schedule run -- "$name"
    exits 0 "schedule resume takes the name ${name:0:40}" schedule resume -- "$name"
    exits 0 "schedule rm takes the name ${name:0:40}" schedule rm --yes -- "$name"
    exits 3 "schedule show does not find ${name:0:40} after its removal" schedule show -- "$name"
done
exits 2 "schedule add refuses an empty name" schedule add '' @daily t
exits 2 "schedule add refuses a name of 256 bytes" \
    schedule add "$(printf 'n%.0s' $(seq 256))" @daily t
exits 2 "schedule add refuses a name with a control character" schedule add $'a\nb' @daily t
exits 0 "schedule list --json succeeds without schedules" schedule list --json
is "no refused or removed schedule is left" "$(cat out)" ''

# --- Later ---
exits 0 "publish --delay keeps an event for later" publish later '{}' --delay 1h --json
has "an event for later has no position yet" out '"position":null,'
exits 0 "publish --at keeps an event for a time" publish later '{}' --at 2100-01-01T00:00:00Z
has "publish --at prints that the event waits" out '^waits  id '
exits 2 "publish refuses --at together with --delay" \
    publish later '{}' --at 2100-01-01T00:00:00Z --delay 1h
exits 2 "publish --at refuses a duration" publish later '{}' --at 10m
has "the refusal of --at says which times are allowed" err \
    "--at takes a time \(18:00, .*2026-01-31T12:00:00Z\), not '10m'"
exits 2 "schedule next --after refuses a place of the log" schedule next @daily --after start
has "the refusal of --after says that a duration ago is allowed" \
    err '--after takes a time .*, now, or how long ago'
exits 2 "schedule next refuses a number together with --count" schedule next @daily 3 --count 7
has "the refusal of two numbers names the word and --count" err 'the second word and --count'
exits 2 "publish refuses --delay together with --expect-version" \
    publish later '{}' --key k --delay 1h --expect-version 0
finish
