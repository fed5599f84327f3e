#!/usr/bin/env bash
# publish --unique: one event per key within a time, also for later; and replacing one that waits.
. "$(dirname "$0")/lib.sh"

# --- A window ---
exits 0 "publish --unique --unique-for stores the first event of a key" \
    publish report.due '{"n":1}' --unique report --unique-for 10m --json
is "the first event of a unique key is no duplicate" "$(field out 1 '$.duplicate')" 0
first=$(field out 1 '$.id')
exits 0 "publish --unique succeeds for a key that is taken" \
    publish report.due '{"n":2}' --unique report --unique-for 10m --json
is "the second event of a unique key is a duplicate" "$(field out 1 '$.duplicate')" 1
is "a duplicate prints position and id of the first event" \
    "$(field out 1 '$.position') $(field out 1 '$.id')" "1 $first"
exits 0 "publish --unique without --json succeeds for a key that is taken" \
    publish report.due --unique report --unique-for 10m
is "publish --unique prints in one line that the event was in the log already" \
    "$(cat out)" "position 1  id $first  (was in the log already)"
exits 0 "publish --unique takes another key" \
    publish report.due --unique other --unique-for 10m --json
is "an event with another unique key is stored" "$(field out 1 '$.position')" 2
exits 0 "publish without --unique succeeds" publish report.due --json
is "an event without a unique key is stored" "$(field out 1 '$.position')" 3
exits 0 "publish --unique-for takes a window of 1 ms" \
    publish report.due --unique short --unique-for 1ms --json
sleep 0.05
exits 0 "publish --unique succeeds after the window has ended" \
    publish report.due --unique short --unique-for 10m --json
is "an event after the end of the window is stored" "$(field out 1 '$.duplicate')" 0

# --- Processes at once ---
for n in $(seq 32); do
    "$HOLDFAST" publish storm "$n" --unique storm --unique-for 10m --json >"storm.$n" &
done
wait
cat storm.* >out
is "each of 32 processes that publish one unique key gets an answer" "$(wc -l <out)" 32
is "32 processes that publish one unique key get the same event" \
    "$(grep -o '"id":"[^"]*"' out | sort -u | wc -l)" 1
is "31 of 32 processes that publish one unique key get a duplicate" \
    "$(grep -c '"duplicate":true' out)" 31
hf tail --from start --json
is "one event of 32 processes with one unique key is in the log" "$(grep -c '"type":"storm"' out)" 1

# --- For later ---
exits 0 "publish --unique --delay keeps an event for later" \
    publish page.changed '{"v":1}' --unique page-7 --delay 1h --json
waits=$(field out 1 '$.id')
due=$(field out 1 '$.deliver_at')
exits 0 "publish --unique --delay succeeds for a key that waits" \
    publish page.changed '{"v":2}' --unique page-7 --delay 2h
is "publish --unique --delay prints the event that waits already" \
    "$(cat out)" "waits  id $waits  (waited already)"
has "publish --unique --delay prints when the waiting event enters the log" \
    err '^It enters the log in (1h|59m)'
exits 0 "publish --unique without --delay succeeds for a key that waits" \
    publish page.changed '{"v":2}' --unique page-7 --unique-for 1m --json
is "publish --unique without --delay prints the id of the waiting event" \
    "$(field out 1 '$.position') $(field out 1 '$.id')" " $waits"
is "publish --unique without --delay prints when the waiting event is due" \
    "$(field out 1 '$.deliver_at')" "$due"
exits 0 "publish --unique --replace --delay succeeds for a key that waits" \
    publish page.changed '{"v":3}' --unique page-7 --replace \
    --delay 2h
has "publish --replace says that the event took the place of one that waited" \
    out '^waits  id [0-9a-f-]{36}  \(in place of one that waited\)$'
has "publish --replace prints the new time" err '^It enters the log in (2h|1h59m)'
exits 0 "publish --replace takes the option --json" \
    publish page.changed '{"v":4}' --unique page-7 --replace --at \
    2020-01-01T00:00:00Z --json
is "publish --replace --json says that it replaced an event, and that it is no duplicate" \
    "$(field out 1 '$.replaced') $(field out 1 '$.duplicate')" "1 0"
exits 3 "an event that was replaced is not found" later show "$waits"
exits 0 "setup: tick brings the event that replaced the others" tick
hf tail -n 1 --json
is "only the last of events that replaced each other enters the log" \
    "$(field out 1 '$.payload.v') $(grep -c page.changed out)" "4 1"
exits 0 "publish --replace succeeds if no event of the key waits" \
    publish page.changed --unique page-7 --replace --delay 1h --json
is "publish --replace without a waiting event stores a new one" \
    "$(field out 1 '$.replaced') $(field out 1 '$.duplicate')" "0 0"
exits 0 "setup: an event for later with a unique key is cancelled" \
    later cancel "$(field out 1 '$.id')"
exits 0 "publish --unique succeeds after the waiting event is cancelled" \
    publish page.changed --unique page-7 --unique-for 1m --json
is "a cancelled event leaves its unique key free" "$(field out 1 '$.duplicate')" 0

# --- Keys whose time is over go ---
rows() {
    if on sqlite; then
        patiently bus.db "SELECT count(*) FROM holdfast_uniques"
    else
        psql -qXAt "$HOLDFAST_URL" -c 'SELECT count(*) FROM holdfast_private.uniques'
    fi
}
for n in 1 2 3; do hf publish gone --unique "gone-$n" --unique-for 1ms; done
sleep 0.05
exits 0 "retention run succeeds with unique keys" retention run
is "retention deletes only unique keys whose time is over" "$(rows)" 5
exits 0 "publish --unique succeeds after retention" \
    publish report.due --unique report --unique-for 10m --json
is "a unique key whose time is not over still counts after retention" \
    "$(field out 1 '$.id')" "$first"

# --- In a file ---
payloads() { grep -o '"payload":[^,}]*' out | cut -d: -f2 | tr '\n' ' '; }
total() { grep -o "\"$1\":[0-9]*" out | awk -F: '{n += $2} END {print n}'; }
line() { echo "{\"type\":\"$1\",\"payload\":$2${3:+,$3}}"; }
unique() { echo "\"unique\":\"$1\",\"unique_for\":\"10m\""; }
fresh
hf publish before --unique taken --unique-for 10m
{
    line a 1 "$(unique one)"
    line b 2 "$(unique two)"
    line c 3 "$(unique one)"
    line d 4 "$(unique taken)"
    line e 5
} >lines
exits 0 "publish --file takes lines with unique keys" publish --file lines
is "publish --file stores one line per unique key" "$(cat out)" \
    "published 3, duplicates 1, repeated lines 1, positions 1 to 4"
exits 0 "publish --file takes the same lines with unique keys again" publish --file lines --json
is "publish --file stores of the same lines again only those without a unique key" \
    "$(field out 1 '$.published') $(field out 1 '$.duplicates') $(field out 1 '$.repeats')" "1 4 0"
hf tail --from start --json
is "publish --file stored the first line of each unique key" "$(payloads)" "null 1 2 5 5 "
at='"deliver_at":"2030-01-01T00:00:00Z"'
{
    line a 1
    line p 1 "\"unique\":\"page\",$at"
    line p 2 "\"unique\":\"page\",$at"
    line p 3 "\"unique\":\"page\",\"replace\":true,$at"
    line b 2
} >lines
exits 0 "publish --file takes lines for later" publish --file lines
is "publish --file counts lines for later, and those that replace one" "$(cat out)" \
    "published 2, duplicates 1, for later 2, positions 6 to 7"
hf later list --json
is "lines that replace each other leave one waiting event" "$(grep -c '"type":"p"' out)" 1
exits 0 "later show finds the event of lines that replaced each other" \
    later show "$(field out 1 '$.id')" --json
is "the last of lines that replaced each other waits" "$(field out 1 '$.payload')" 3
for bad in '"unique":"k"' '"unique_for":"10m"' '"unique":"k","unique_for":10' \
    '"unique":"k","unique_for":"soon"' '"unique":"k","unique_for":"1m","replace":true' \
    "\"replace\":1,$at" '"deliver_at":"soon"' '"uniqe":"k"'; do
    { line a 1 && line b 2 "$bad"; } >lines
    exits 1 "publish --file refuses a line with $bad" publish --file lines
    has "the refusal of $bad names the line and the field" \
        err '^holdfast: lines:2: .*(unique|replace|deliver_at)'
done
has "the refusal of an unknown field suggests unique" err 'did you mean "unique"'
for way in cat tac; do
    seq 500 | $way | while read -r i; do line y "$i" "$(unique "y$i")"; done >"lines.$way"
    "$HOLDFAST" publish --file "lines.$way" --json >"files.$way" 2>>files.err &
done
wait
cat files.cat files.tac >out
is "two files at once with the same unique keys in opposite order store each key once" \
    "$(total published) $(total duplicates)" "500 500"

# --- What is refused ---
exits 2 "publish --unique needs --unique-for or a time to come" publish a --unique k
has "the refusal of --unique alone names --unique-for" err '--unique needs --unique-for'
exits 2 "publish --unique-for needs --unique" publish a --unique-for 1m
has "the refusal of --unique-for alone names --unique" err '\(--unique\)'
exits 2 "publish --replace needs --delay or --at" publish a --unique k --unique-for 1m --replace
has "the refusal of --replace names --delay and --at" err 'give --delay or --at'
exits 2 "publish --unique-for refuses more than 366 days" publish a --unique k --unique-for 367d
exits 2 "publish --unique refuses a key of 256 bytes" \
    publish a --unique "$(printf 'k%.0s' {1..256})" --unique-for 1m
has "the refusal of a long unique key names the limit" err 'unique is 256 bytes; the limit is 255'
exits 2 "publish --file refuses the option --unique" publish --file x --unique k

finish
