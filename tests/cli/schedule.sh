#!/usr/bin/env bash
# Schedules on the command line, and events for later.
. "$(dirname "$0")/lib.sh"

exits 0 "next needs no database" schedule next \
    '30 2 * * *' --zone Europe/Berlin --after 2026-03-28 -n 3
has "a time before the change" out '^2026-03-28T02:30:00\+01:00 +CET +2026-03-28T01:30:00Z '
has "a skipped time runs at the jump" out \
    '^2026-03-29T03:00:00\+02:00 +CEST +2026-03-29T01:00:00Z .*jump from 02:00 to 03:00'
has "a time after the change" out '^2026-03-30T02:30:00\+02:00 +CEST +2026-03-30T00:30:00Z '
is "it made no database" "$(find . -name "*.db")" ""
exits 0 "a zone may leave a day out" schedule next \
    '0 12 * * *' 2 --zone Pacific/Apia --after 2011-12-29
has "and the note names it" out 'jump from 2011-12-30 00:00 to 2011-12-31 00:00'
exits 0 "times after the year 9999 are left out" schedule next @yearly 3 --after 9998-01-01
has "the end of known times is printed" err '^No (other )?time is known after that\.$'
exits 0 "a time that comes twice runs once" schedule next \
    '30 2 * * *' --zone Europe/Berlin --after 2026-10-24T12:00:00Z -n 2
has "the first time, and it says so" out '^2026-10-25T02:30:00\+02:00 .*runs the first time'
has "the next one is the next day" out '^2026-10-26T02:30:00\+01:00 '
exits 0 "every hour is every real hour" schedule next \
    '@hourly' --zone Europe/Berlin --after 2026-10-24T23:30:00Z -n 3
has "the first" out '^2026-10-25T02:00:00\+02:00 .*twice; first time'
has "the second" out '^2026-10-25T02:00:00\+01:00 .*twice; second time'
exits 0 "--json gives a line each" schedule next \
    '0 9 * * 1' --zone Asia/Kathmandu --after 2026-11-15 -n 2 --json
json "valid ones" out
wanted='{"at":"2026-11-16T03:15:00.000000Z","local":"2026-11-16T09:00:00+05:45"'
wanted=$wanted',"zone":"Asia/Kathmandu","abbreviation":"+0545","note":null}'
is "with these fields" "$(head -1 out)" "$wanted"
is "as many as asked for" "$(wc -l <out)" 2
exits 0 "a period means its multiples" schedule next '@every 90m' 3 --zone Europe/Berlin \
    --after 2026-03-29T00:10:00Z
has "whatever the clocks do" out '^2026-03-29T03:30:00\+02:00 +CEST +2026-03-29T01:30:00Z '
exits 2 "one that is too short is refused" schedule next '@every 10ms'
has "with its limits" err 'takes whole seconds, from 1s to 365d'
exits 2 "and what is none" schedule next '@every noon'
has "with an example" err '"noon" is no period; .* 1h30m'
exits 0 "five times in UTC are the default" schedule next '*/5 * * * * *' --json
is "five" "$(grep -c '"zone":"UTC"' out)" 5
exits 2 "a wrong expression is a usage error" schedule next '0 25 * * *'
has "it names field, place and range" err \
    'hour "25" at byte 2 is out of range; the field takes 0 to 23'
exits 2 "an expression that never fires is refused" schedule next '0 0 30 2 *'
has "with that reason" err 'never fires'
exits 3 "an unknown zone is not found" schedule next @daily --zone Europe/Atlantis
has "it names the zone" err 'no time zone Europe/Atlantis'
exits 2 "a name that leads elsewhere is refused" schedule next @daily --zone ../../etc/passwd
mkdir zones && echo damaged >zones/Here
rc=0; TZDIR=$PWD/zones "$HOLDFAST" schedule next @daily --zone Here >out 2>err || rc=$?
is "TZDIR is where zones are looked for, and a damaged one is an error" "$rc" 1
has "that is explained" err 'the file of time zone Here cannot be used'

# --- Schedules that are kept ---
exits 3 "without a database there are none" schedule list
exits 0 "add makes one" schedule add report '0 9 * * MON-FRI' report.due \
    '{"n": 1.50}' --zone Europe/Berlin --misfire once
exits 0 "list shows it" schedule list
has "with its expression" out '^report +0 9 \* \* MON-FRI +Europe/Berlin +in .* report.due$'
exits 0 "show --json tells all" schedule show report --json
json "as an object" out
has "byte for byte" out '"payload":\{"n": 1.50\}.*"misfire":"once"'
exits 2 "a wrong expression is refused" schedule add bad '0 25 * * *' t
exits 3 "an unknown zone is refused" schedule add bad @daily t --zone Europe/Atlantis
exits 1 "a driver that is not there" schedule add bad @daily t --driver pg_cron
has "is named" err 'driver is pg_cron'
exits 3 "nothing is left of it" schedule show bad
exits 2 "a driver that is none" schedule add bad @daily t --driver systemd
exits 0 "a period" schedule add beat '@every 5m' beat
exits 0 "is listed" schedule list
has "as it was written" out '^beat +@every 5m +UTC +in '
exits 0 "and goes" schedule rm beat --yes
exits 0 "by itself it has none" schedule add report '0 9 * * MON-FRI' report.due \
    '{"n": 1.50}' --zone Europe/Berlin --misfire once --driver own
exits 0 "as is shown" schedule show report
has "by name" out '^driver: +own$'
exits 0 "one that is paused" schedule add later @hourly later.due --paused
exits 0 "as it was" schedule show later --json
is "from the beginning" "$(field out 1 '$.paused_at')" "$(field out 1 '$.created_at')"
exits 0 "and goes" schedule rm later --yes
exits 0 "pause" schedule pause report --reason holidays
exits 0 "is listed" schedule list
has "as such" out '^report .* paused '
exits 0 "run publishes now" schedule run report
has "and tells the position" out '^position 1  id [0-9a-f-]{36}$'
exits 0 "in JSON too" schedule run report --json
is "as publish does" "$(field out 1 '$.position')" 2
exits 0 "the event" event list --json
has "is the scheduler's" out '"producer":"scheduler","schedule_id":"[0-9a-f-]{36}"'
exits 0 "show tells what became of it" schedule show report
has "with titles" out '^PLANNED +WHAT +AT +POSITION +EVENT +NODE'
has "run by hand" out '^20[0-9T:.-]+Z +by hand +20[0-9T:.-]+Z +2 +- +[^ ]'
exits 0 "as many as wanted" schedule show report --runs 1
is "the newest" "$(grep -c 'by hand' out)" 1
is "the last one" "$(grep -c "by hand .* 2 " out)" 1
exits 0 "or nothing of it" schedule show report --runs 0
is "no line" "$(grep -c 'by hand\|PLANNED' out)" 0
exits 0 "in JSON" schedule show report --json --runs 5
json "it is a list" out
is "of what happened" "$(field out 1 \
        '$.runs[0].kind') $(field out 1 '$.runs[0].position') $(field out 1 '$.runs[1].position')" \
    "by_hand 2 1"
is "and nothing else" "$(field out 1 '$.runs[2].kind')" ''
exits 0 "none is an empty list" schedule show report --json --runs 0
has "as such" out '"runs":\[\]\}$'
exits 2 "so many are not kept" schedule show report --runs 1001
exits 0 "next of a schedule that is paused" schedule next report 3 --after 2026-03-27T12:00:00Z \
    --json
has "says that" err 'report is paused'
is "shows as many as asked for" "$(wc -l <out)" 3
is "in its zone" "$(field out 1 '$.local')" 2026-03-30T09:00:00+02:00
exits 0 "resume" schedule resume report
exits 0 "next of a schedule" schedule next report
has "needs only its name" out 'T09:00:00\+0[12]:00 '
is "and says nothing else" "$(cat err)" ''
exits 3 "next of nothing is not found" schedule next nothing
exits 2 "a schedule has its own zone" schedule next report --zone UTC
exits 2 "how many is a number" schedule next report many
exits 0 "the same again changes nothing" schedule add report '0 9 * * MON-FRI' report.due --json
is "and says so" "$(cat out)" '{"name":"report","created":false}'
exits 3 "rm does not ask for what is not there" schedule rm nothing
exits 2 "rm asks" schedule rm report
exits 0 "or not" schedule rm report --yes
exits 3 "then it is gone" schedule show report

# --- Names that are not what one expects ---
for name in '@daily' '* * * * *' "o'clock" '"; DROP TABLE holdfast_schedules; --' '%s%n' \
    'päckchen 📦' '../../etc/passwd' '--yes' '$(true)' "$(printf 'n%.0s' $(seq 255))"; do
    exits 0 "add ${name:0:40}" schedule add --json --key "$name" -- "$name" '@yearly' t.t
    is "it is made" "$(field out 1 '$.created')" 1
    exits 0 "show" schedule show --json -- "$name"
    is "by that name" "$(field out 1 '$.name')" "$name"
    exits 0 "next" schedule next --name -n 1 --json -- "$name"
    is "shows its time" "$(wc -l <out)" 1
    exits 0 "pause" schedule pause --reason "$name" -- "$name"
    exits 0 "list" schedule list
    exits 0 "run" schedule run -- "$name"
    exits 0 "resume" schedule resume -- "$name"
    exits 0 "rm" schedule rm --yes -- "$name"
    exits 3 "then it is gone" schedule show -- "$name"
done
exits 2 "a name of no bytes is refused" schedule add '' @daily t
exits 2 "one of too many, too" schedule add "$(printf 'n%.0s' $(seq 256))" @daily t
exits 2 "and one with a control character" schedule add $'a\nb' @daily t
exits 0 "nothing is left of them" schedule list --json
is "no line" "$(cat out)" ''

# --- Later ---
exits 0 "an event for later is kept" publish later '{}' --delay 1h --json
has "and has no position yet" out '"position":null,'
exits 0 "a time is fine, too" publish later '{}' --at 2100-01-01T00:00:00Z
has "it waits" out '^waits  id '
exits 2 "not both" publish later '{}' --at 2100-01-01T00:00:00Z --delay 1h
exits 2 "how long ago is no time to come" publish later '{}' --at 10m
has "and what is allowed is said" err \
    "--at takes a time \(18:00, .*2026-01-31T12:00:00Z\), not '10m'"
exits 2 "a place of the log is no time" schedule next @daily --after start
has "and here a duration is" err '--after takes a time .*, now, or how long ago'
exits 2 "how many times is said once" schedule next @daily 3 --count 7
has "by the word or the option" err 'the second word and --count'
exits 2 "nor with a version" publish later '{}' --key k --delay 1h --expect-version 0
finish
