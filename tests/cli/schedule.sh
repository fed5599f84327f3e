#!/usr/bin/env bash
# Schedules on the command line: `schedule next`.
. "$(dirname "$0")/lib.sh"

exits 0 "next needs no database" schedule next '30 2 * * *' --zone Europe/Berlin --after 2026-03-28 -n 3
has "a time before the change" out '^2026-03-28T02:30:00\+01:00 +CET +2026-03-28T01:30:00Z '
has "a skipped time runs at the jump" out '^2026-03-29T03:00:00\+02:00 +CEST +2026-03-29T01:00:00Z .*jump from 02:00 to 03:00'
has "a time after the change" out '^2026-03-30T02:30:00\+02:00 +CEST +2026-03-30T00:30:00Z '
is "it made no database" "$(ls -- *.db 2>/dev/null)" ''
exits 0 "a time that comes twice runs once" schedule next '30 2 * * *' --zone Europe/Berlin --after 2026-10-24T12:00:00Z -n 2
has "the first time, and it says so" out '^2026-10-25T02:30:00\+02:00 .*runs the first time'
has "the next one is the next day" out '^2026-10-26T02:30:00\+01:00 '
exits 0 "every hour is every real hour" schedule next '@hourly' --zone Europe/Berlin --after 2026-10-24T23:30:00Z -n 3
has "the first" out '^2026-10-25T02:00:00\+02:00 .*twice; first time'
has "the second" out '^2026-10-25T02:00:00\+01:00 .*twice; second time'
exits 0 "--json gives a line each" schedule next '0 9 * * 1' --zone Asia/Kathmandu --after 2026-11-15 -n 2 --json
json "valid ones" out
is "with these fields" "$(head -1 out)" '{"at":"2026-11-16T03:15:00.000000Z","local":"2026-11-16T09:00:00+05:45","zone":"Asia/Kathmandu","abbreviation":"+0545","note":null}'
is "as many as asked for" "$(wc -l <out)" 2
exits 0 "five times in UTC are the default" schedule next '*/5 * * * * *' --json
is "five" "$(grep -c '"zone":"UTC"' out)" 5
exits 2 "a wrong expression is a usage error" schedule next '0 25 * * *'
has "it names field, place and range" err 'hour "25" at byte 2 is out of range; the field takes 0 to 23'
exits 2 "an expression that never comes true is refused" schedule next '0 0 30 2 *'
has "with that reason" err 'never comes true'
exits 3 "an unknown zone is not found" schedule next @daily --zone Europe/Atlantis
has "it names the zone" err 'no time zone Europe/Atlantis'
exits 2 "a name that leads elsewhere is refused" schedule next @daily --zone ../../etc/passwd
mkdir zones && echo damaged >zones/Here
rc=0; TZDIR=$PWD/zones "$HOLDFAST" schedule next @daily --zone Here >out 2>err || rc=$?
is "TZDIR is where zones are looked for, and a damaged one is an error" "$rc" 1
has "that is explained" err 'the file of time zone Here cannot be used'
finish
