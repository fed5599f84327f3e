#!/usr/bin/env bash
# publish --unique: one event per key within a time, also for later; and replacing one that waits.
. "$(dirname "$0")/lib.sh"

# --- A window ---
exits 0 "the first is stored" publish report.due '{"n":1}' --unique report --unique-for 10m --json
is "as a new one" "$(field out 1 '$.duplicate')" 0
first=$(field out 1 '$.id')
exits 0 "the second is not" publish report.due '{"n":2}' --unique report --unique-for 10m --json
is "which it says" "$(field out 1 '$.duplicate')" 1
is "with the position and id of the first" \
    "$(field out 1 '$.position') $(field out 1 '$.id')" "1 $first"
exits 0 "for people, too" publish report.due --unique report --unique-for 10m
is "in one line" "$(cat out)" "position 1  id $first  (was in the log already)"
exits 0 "another key is another event" publish report.due --unique other --unique-for 10m --json
is "the second" "$(field out 1 '$.position')" 2
exits 0 "without a key nothing is compared" publish report.due --json
is "the third" "$(field out 1 '$.position')" 3
exits 0 "a short window" publish report.due --unique short --unique-for 1ms --json
sleep 0.05
exits 0 "ends" publish report.due --unique short --unique-for 10m --json
is "so the next one is stored" "$(field out 1 '$.duplicate')" 0

# --- Processes at once ---
for n in $(seq 32); do
    "$HOLDFAST" publish storm "$n" --unique storm --unique-for 10m --json >"storm.$n" &
done
wait
cat storm.* >out
is "of 32 processes each is answered" "$(wc -l <out)" 32
is "with the same event" "$(grep -o '"id":"[^"]*"' out | sort -u | wc -l)" 1
is "31 as duplicates" "$(grep -c '"duplicate":true' out)" 31
hf tail --from start --json
is "and one is in the log" "$(grep -c '"type":"storm"' out)" 1

# --- For later ---
exits 0 "one waits" publish page.changed '{"v":1}' --unique page-7 --delay 1h --json
waits=$(field out 1 '$.id')
due=$(field out 1 '$.deliver_at')
exits 0 "with its key" publish page.changed '{"v":2}' --unique page-7 --delay 2h
is "so the next one does not" "$(cat out)" "waits  id $waits  (waited already)"
has "it says when the first one comes" err '^It enters the log in (1h|59m)'
exits 0 "not even now" publish page.changed '{"v":2}' --unique page-7 --unique-for 1m --json
is "it is told which one waits" "$(field out 1 '$.position') $(field out 1 '$.id')" " $waits"
is "and when that comes" "$(field out 1 '$.deliver_at')" "$due"
exits 0 "unless it takes its place" publish page.changed '{"v":3}' --unique page-7 --replace \
    --delay 2h
has "which it says" out '^waits  id [0-9a-f-]{36}  \(in place of one that waited\)$'
has "with the new time" err '^It enters the log in (2h|1h59m)'
exits 0 "in JSON" publish page.changed '{"v":4}' --unique page-7 --replace --at \
    2020-01-01T00:00:00Z --json
is "too" "$(field out 1 '$.replaced') $(field out 1 '$.duplicate')" "1 0"
exits 3 "the first one is gone" later show "$waits"
exits 0 "the last one comes" tick
hf tail -n 1 --json
is "and it alone" "$(field out 1 '$.payload.v') $(grep -c page.changed out)" "4 1"
exits 0 "then another may wait" publish page.changed --unique page-7 --replace --delay 1h --json
is "as a new one" "$(field out 1 '$.replaced') $(field out 1 '$.duplicate')" "0 0"
exits 0 "one that is cancelled" later cancel "$(field out 1 '$.id')"
exits 0 "leaves its key" publish page.changed --unique page-7 --unique-for 1m --json
is "free" "$(field out 1 '$.duplicate')" 0

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
exits 0 "retention runs" retention run
is "and leaves those that count" "$(rows)" 5
exits 0 "which do" publish report.due --unique report --unique-for 10m --json
is "as before" "$(field out 1 '$.id')" "$first"

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
exits 0 "lines have unique keys" publish --file lines
is "of one key one is stored" "$(cat out)" \
    "published 3, duplicates 1, repeated lines 1, positions 1 to 4"
exits 0 "the same file again" publish --file lines --json
is "stores only what has none" \
    "$(field out 1 '$.published') $(field out 1 '$.duplicates') $(field out 1 '$.repeats')" "1 4 0"
hf tail --from start --json
is "the first ones are in the log" "$(payloads)" "null 1 2 5 5 "
at='"deliver_at":"2030-01-01T00:00:00Z"'
{
    line a 1
    line p 1 "\"unique\":\"page\",$at"
    line p 2 "\"unique\":\"page\",$at"
    line p 3 "\"unique\":\"page\",\"replace\":true,$at"
    line b 2
} >lines
exits 0 "lines may be for later" publish --file lines
is "and replace one that waits" "$(cat out)" \
    "published 2, duplicates 1, for later 2, positions 6 to 7"
hf later list --json
is "of which one is left" "$(grep -c '"type":"p"' out)" 1
exits 0 "which is the last" later show "$(field out 1 '$.id')" --json
is "of them" "$(field out 1 '$.payload')" 3
for bad in '"unique":"k"' '"unique_for":"10m"' '"unique":"k","unique_for":10' \
    '"unique":"k","unique_for":"soon"' '"unique":"k","unique_for":"1m","replace":true' \
    "\"replace\":1,$at" '"deliver_at":"soon"' '"uniqe":"k"'; do
    { line a 1 && line b 2 "$bad"; } >lines
    exits 1 "a line with $bad is refused" publish --file lines
    has "by its number" err '^holdfast: lines:2: .*(unique|replace|deliver_at)'
done
has "with the right name" err 'did you mean "unique"'
for way in cat tac; do
    seq 500 | $way | while read -r i; do line y "$i" "$(unique "y$i")"; done >"lines.$way"
    "$HOLDFAST" publish --file "lines.$way" --json >"files.$way" 2>>files.err &
done
wait
cat files.cat files.tac >out
is "two files at once with the same keys in the opposite order are published once each" \
    "$(total published) $(total duplicates)" "500 500"

# --- What is refused ---
exits 2 "a key needs a time" publish a --unique k
has "which is named" err '--unique needs --unique-for'
exits 2 "a time needs a key" publish a --unique-for 1m
has "so does this" err '\(--unique\)'
exits 2 "only one that waits can be replaced" publish a --unique k --unique-for 1m --replace
has "which it says" err 'give --delay or --at'
exits 2 "a time has its limits" publish a --unique k --unique-for 367d
exits 2 "and so has a key" publish a --unique "$(printf 'k%.0s' {1..256})" --unique-for 1m
has "which are named" err 'unique is 256 bytes; the limit is 255'
exits 2 "a file has its own" publish --file x --unique k

finish
