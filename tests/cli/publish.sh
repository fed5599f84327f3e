#!/usr/bin/env bash
# publish: one event, files of events, and what is refused.
. "$(dirname "$0")/lib.sh"

exits 0 "publish takes a type, a payload, a key, a tenant, metadata and a producer" \
    publish user.created '{"id": 1}' --key user-1 --tenant acme \
    --metadata '{"trace":"x"}' --producer shop
has "publish prints the position and the id of the event" out '^position 1  id [0-9a-f-]{36}$'
exits 0 "options of publish may come first and with an equals sign" \
    --json publish --key=user-2 user.created \
    '{}'
json "publish --json prints a JSON object" out
is "publish --json prints the position as a number" "$(field out 1 '$.position')" 2
is "publish --json says that a new event is no duplicate" "$(field out 1 '$.duplicate')" 0
exits 0 "publish takes an event without a payload" publish user.left
exits 2 "publish refuses a JSON object in the place of the type" publish '{"id": 1}'
has "the refusal says that the JSON looks like a payload and the type is missing" \
    err "'\\{\"id\": 1\\}' looks like a payload, and the TYPE is missing"
exits 2 "publish refuses a JSON list in the place of the type" publish '[1]'
exits 0 "two dashes end the options of publish" publish --key k -- user.created '"--json"'

"$HOLDFAST" publish order.placed - >out 2>err <<<'{"total": 12.50}'
is "publish TYPE - reads the payload from stdin" "$?" 0
hf tail order.placed --json
has "the newline at the end of stdin is no part of the payload" out '"payload":\{"total": 12\.50\},'

hf publish a.b '{"n":12345678901234567890.000000000000000001}'
hf tail a.b --json
has "a large number in a payload keeps all its digits" \
    out '12345678901234567890\.000000000000000001'

# --- Idempotence and versions ---
id=0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 0 "publish --id takes an id that the caller chose" publish a.c '{"n":1}' --id $id
exits 0 "publishing an id again is no error" publish a.c '{"n":2}' --id $id
has "publishing an id again says that the event is in the log already" out 'in the log already'
hf tail a.c --json
is "an event that is published twice with one id is stored once" "$(wc -l <out)" 1
exits 0 "publish --expect-version 0 accepts a key without events" \
    publish acc.opened '{}' --key acc --expect-version 0
has "publish --expect-version prints the new version of the key" out 'version 1$'
exits 4 "publish with a wrong expected version exits with a conflict" publish acc.opened \
    '{}' --key acc --expect-version 0
has "a conflict of versions names the version that the key has" err 'has version 1'
exits 0 "publish --emitted-at takes a time" publish a.d --emitted-at 2020-02-03T04:05:06Z
hf tail a.d --json
is "publish --emitted-at stores the time that was given" \
    "$(field out 1 '$.emitted_at')" 2020-02-03T04:05:06.000000Z

# --- What is refused ---
exits 2 "publish refuses a payload that is no valid JSON" publish a.b '{bad'
has "the refusal of invalid JSON names the byte" err 'not valid JSON at byte 1'
exits 2 "publish refuses a type with an empty segment" publish a..b '{}'
exits 2 "publish without a type is refused" publish
exits 2 "publish refuses a third word" publish a.b '{}' more
exits 2 "publish refuses an option that does not exist" publish a.b --kye x
has "the refusal of a mistyped option suggests the right one" err 'did you mean --key'
exits 2 "publish --file does not go with a type" publish a.b --file x
exits 2 "publish --file does not go with --key" publish --file x --key k
exits 1 "publish --file with a file that does not exist is an error" publish --file nothing.ndjson
has "the error of publish --file names the missing file" err 'nothing.ndjson'
exits 1 "publish --file with a directory is an error" publish --file .
head -c 1100000 /dev/zero | tr '\0' ' ' >big
printf '1' >>big
"$HOLDFAST" publish a.big - <big >out 2>err
is "publish refuses a payload above 1 MiB" "$?" 2
has "the refusal of a large payload names the limit" err 'limit is 1048576'
"$HOLDFAST" publish a.big - --payload-max 2M <big >out 2>err
is "publish --payload-max raises the limit of the payload" "$?" 0
exits 2 "publish --payload-max refuses a unit that does not exist" publish a.b --payload-max 2G

# --- Texts and files as payloads ---
exits 2 "publish refuses a plain text as payload" publish a.b hello
has "the refusal of a plain text suggests --text" err '--text TEXT'
exits 2 "publish refuses a type with an empty segment" publish a..b 1
hasnt "the refusal of a type does not explain how JSON is quoted" err 'JSON|--text'
exits 2 "publish refuses metadata that is no JSON" publish a.b 1 --metadata '{x'
hasnt "the refusal of metadata does not suggest --text, which is for payloads" err '--text'
exits 0 "publish --text takes a plain text" publish text.one --text 'say "hello"'
hf tail text.one --json
is "publish --text stores the text as a JSON string with the same characters" \
    "$(field out 1 '$.payload')" 'say "hello"'
printf 'two\nlines\n' | "$HOLDFAST" publish text.two --text - >out 2>err
is "publish --text - reads the text from stdin" "$?" 0
hf tail text.two
has "publish --text - leaves out the last newline of stdin" out '"two\\nlines"$'
exits 1 "publish --text refuses bytes that are not UTF-8" \
    publish text.bad --text "$(printf 'ab\377')"
has "the refusal of a text that is not UTF-8 names the byte" err 'byte 2'
hf tail text.bad
is "publish --text with bytes that are not UTF-8 publishes nothing" "$(cat out)" ''
printf '{"n": 1.10}\n' >payload.json
exits 0 "publish --payload-file takes a file with the payload" \
    publish text.file --payload-file payload.json
hf tail text.file
has "publish --payload-file stores the bytes of the file unchanged" out '\{"n": 1\.10\}$'
exits 1 "publish --payload-file with a file that does not exist is an error" \
    publish text.file --payload-file nowhere.json
has "the error of publish --payload-file names the missing file" err 'nowhere.json'
exits 2 "publish refuses a payload together with --text" publish a.b '{}' --text x
exits 2 "publish --file does not go with --text" publish --file payload.json --text x

# --- A database that another process has locked ---
lock &
until_true 60 test -e locked
# Opening has the same limit, and must not need it on a slow machine.
exits 5 "publish exits with a timeout while another process has locked the database" \
    publish a.b '{}' --db-timeout 4s
touch unlock
wait
exits 0 "publish succeeds after the lock of the database is released" publish a.b '{}'

# --- Files ---
fresh
id=0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c56
cat >good.ndjson <<END
{"type":"x.one","payload":{"n":1.10},"key":"k","tenant":"t","metadata":{"m":1}}

{"type":"x.two","payload":[1,2],"id":"$id","emitted_at":"2020-01-01T00:00:00Z"}
{ "type" : "x.thr\u0065e", "payload" : "text", "producer" : "other" }
{"type":"x.four"}
END
exits 0 "publish --file imports a file of events" publish --file good.ndjson
has "publish --file prints how many events it published and their positions" \
    out '^published 4, duplicates 0, positions 1 to 4$'
hf tail --json
is "publish --file stores every event of the file" "$(wc -l <out)" 4
has "publish --file keeps the digits of numbers" out '"payload":\{"n":1\.10\}'
is "publish --file decodes an escaped type" "$(field out 3 '$.type')" x.three
is "publish --file stores the producer of a line" "$(field out 3 '$.producer')" other
is "publish --file stores the key of a line" "$(field out 1 '$.key')" k
is "publish --file stores the metadata of a line" "$(field out 1 '$.metadata.m')" 1
is "publish --file stores a missing payload as null" "$(field out 4 '$.payload')" ''
cp out all.ndjson
exits 0 "publish --file imports what tail --json prints" publish --file all.ndjson --json
json "publish --file --json prints its summary as a JSON object" out
is "publish --file counts events whose ids are in the log as duplicates" \
    "$(field out 1 '$.duplicates')" 4
is "publish --file publishes no event whose id is in the log" "$(field out 1 '$.published')" 0

# Two new events, one of them three times, between two that are in the log, the later one first.
old_id() { sed -n "$1p" all.ndjson | grep -oE '"id":"[^"]*"'; }
new='{"type":"x.new","id":"0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c57"}'
printf '%s\n' "{\"type\":\"x.four\",\"payload\":null,$(old_id 4)}" "$new" '{"type":"x.other"}' \
    "$new" "$new" "$(sed -n 2p all.ndjson)" >mixed.ndjson
exits 0 "publish --file takes old events, new events and repeated lines in one file" \
    publish --file mixed.ndjson --json
is "publish --file counts as duplicates only what was in the log before" \
    "$(field out 1 '$.duplicates')" 2
is "publish --file counts repeated lines of the file apart from duplicates" \
    "$(field out 1 '$.published') $(field out 1 '$.repeats')" '2 2'
positions="$(field out 1 '$.first_position') $(field out 1 '$.last_position')"
newest() { "$HOLDFAST" tail --json | tail -n 1 >newest && field newest 1 \
    '$.position'; } # a server leaves some out
is "publish --file prints the lowest and the highest position of the file" \
    "$positions" "2 $(newest)"
exits 0 "publish --file imports a file with repeated lines a second time" \
    publish --file mixed.ndjson
has "a second import publishes only the line without an id" out \
    "^published 1, duplicates 5, positions 2 to $(newest)$"
fresh
printf '%s\n' "$new" "$new" >twice.ndjson
exits 0 "publish --file takes a file that has a line twice" publish --file twice.ndjson
has "publish --file prints how many lines of the file were repeated" \
    out '^published 1, duplicates 0, repeated lines 1, positions 1 to 1$'

fresh
printf '%s\n' '{"type":"x.one","payload":1}' '{"type":"x.two","payload":2}' '{"typ":"x"}' \
    '{"type":"x.four","payload":4}' >bad.ndjson
exits 1 "publish --file ends at a bad line with an error" publish --file bad.ndjson
has "the error of publish --file names the number and the fault of the bad line" \
    err 'bad.ndjson:3: there is no field "typ"; did you mean "type"'
has "the error of publish --file says with which --from-line to go on" err '--from-line 3'
hf tail --json
is "publish --file has published the lines before a bad one" "$(wc -l <out)" 2
exits 0 "publish --file --from-line begins at that line" publish --file bad.ndjson --from-line 4
lines=$(wc -l <bad.ndjson)
exits 0 "publish --from-line takes the line behind the last one" \
    publish --file bad.ndjson --from-line $((lines + 1))
exits 2 "publish --from-line refuses a line that the file does not have" publish --file bad.ndjson \
    --from-line $((lines + 2))
has "the refusal of --from-line says how many lines the file has" err "bad.ndjson has $lines lines"
for line in '{"type":"a..b"}' '{"type":"a","type":"b"}' '{"payload":1}' '[1]' \
    '{"type":"a","payload":}' \
    '{"type":"a","emitted_at":"yesterday"}' '{"type":"a","id":"7"}' '{"type":"a","metadata":[1]}' \
    '{"type":null}' '{"type":"a","payload":"\u0000"}'; do
    printf '{"type":"fine"}\n%s\n' "$line" >one.ndjson
    exits 1 "publish --file refuses the line $line" publish --file one.ndjson
    has "the refusal names the line number of $line" err 'one.ndjson:2: '
done

fresh
seq 1 2500 | sed 's/.*/{"type":"many.x","payload":{"n":&},"key":"k"}/' >many.ndjson
sed -i '2100s/many.x/many..x/' many.ndjson
exits 1 "publish --file fails at a line whose type is not valid" publish --file many.ndjson
has "publish --file names the line with the invalid type among 2500 lines" err 'many.ndjson:2100: '
hf tail --from start --json
is "publish --file published exactly the lines before the one with the invalid type" \
    "$(wc -l <out)" 2099
is "publish --file keeps the order of the lines" \
    "$(sed 's/.*"n":\([0-9]*\).*/\1/' out | sort -nc 2>&1)" ''

# --- Interrupted ---
fresh
mkfifo huge.ndjson # so that it has no end, however long it takes until it is interrupted
seq 1 100000000 | sed 's/.*/{"type":"many.x","payload":{"n":&}}/' >huge.ndjson 2>/dev/null &
"$HOLDFAST" publish --file huge.ndjson >out 2>err &
pid=$!
until_true 60 sh -c "'$HOLDFAST' stats --json | grep -q '\"head\":[1-9]'"
kill -TERM $pid
wait $pid
is "publish --file that is interrupted exits with an error" "$?" 1
next=$(sed -n 's/.*--from-line \([0-9]*\)\.$/\1/p' err)
hf stats --json
is "an interrupted import has published exactly the lines before its --from-line" \
    "$(field out 1 '$.head')" "$((next - 1))"

# --- A pipe that pauses ---
fresh
(echo '{"type":"live.a"}'; until_true 60 test -s seen; echo '{"type":"live.b"}') |
    "$HOLDFAST" publish --file - >out 2>err &
until_true 60 sh -c "'$HOLDFAST' tail --json 2>/dev/null | grep -q live.a"
is "publish --file publishes a line of a pipe that pauses at once" "$?" 0
echo yes >seen
wait
has "publish --file publishes the rest of a pipe when it comes" out '^published 2,'

# --- Killed midway ---
fresh
seq -f '%012.0f' 1 20000 |
    sed 's/.*/{"type":"k.x","id":"00000000-0000-4000-8000-&","payload":"&"}/' >kill.ndjson
"$HOLDFAST" publish --file kill.ndjson >out 2>err &
pid=$!
until_true 60 sh -c "'$HOLDFAST' stats --json | grep -q '\"head\":[1-9]'"
kill -9 $pid
wait $pid 2>/dev/null
exits 0 "an import that was killed can be repeated" publish --file kill.ndjson --json
is "the repeated import counts each line as published or as a duplicate" \
    "$(($(field out 1 '$.published') + $(field out 1 '$.duplicates')))" 20000
hf tail --from start --json
is "every id of a repeated import is in the log once" \
    "$(sed 's/.*"id":"\([^"]*\)".*/\1/' out | sort -u | wc -l) $(wc -l <out)" \
    "20000 20000"

# --- Variables that are not set ---
exits 2 "publish refuses an empty --db" publish a.b --db ''
has "the refusal of an empty --db says that it is empty" err '--db is empty'
exits 2 "publish refuses --expect-version without a key" publish a.b --expect-version 0
has "the refusal of a version without a key names --expect-version and --key" \
    err '--expect-version .*--key'

# --- A mistake leaves no database behind ---
exits 2 "publish refuses --expect-version without a key before it opens a database" \
    publish a.b --expect-version 0 --db sqlite:none.db
exits 2 "publish refuses --delay together with --at" \
    publish a.b --delay 1h --at 2100-01-01T00:00:00Z \
    --db sqlite:none.db
exits 1 "publish refuses a missing file before it opens a database" \
    publish --file nothing.ndjson --db sqlite:none.db
exits 2 "publish refuses a delay of thousands of years" \
    publish a.b --delay 106751991167d --db sqlite:none.db
has "the refusal of a long delay names the limit" \
    err '--delay takes a time .* from 0ms to 366000d, not .106751991167d.'
true_that "publish calls that are refused create no database" test ! -e none.db

# --- Times as people write them ---
export TZ=Europe/Berlin
exits 0 "publish --at takes a time of the local zone" publish at.x --at '2090-11-20 18:00'
has "publish --at prints the local time at which the event enters the log" \
    err 'at 2090-11-20 18:00:00 CET\.$'
exits 0 "publish --at takes a local time in summer with seconds" \
    publish at.x --at '2090-07-20 18:00:30'
has "publish --at takes the offset of summer time for a time in summer" \
    err 'at 2090-07-20 18:00:30 CEST\.$'
exits 0 "publish --at takes a time of the day" publish at.x --at 18:00
has "a time of the day means its next occurrence" \
    err '^It enters the log in [0-9hms]+, at 20[0-9-]{8} 18:00:00 CES?T\.$'
exits 0 "publish --at takes an hour of one digit" publish at.x --at 9:05
has "an hour of one digit means the same as with a zero" err ', at 20[0-9-]{8} 09:05:00 CES?T\.$'
exits 0 "publish --at takes a date and an hour of one digit" publish at.x --at '2090-11-20 9:05:30'
has "a date with an hour of one digit is of the local zone" err 'at 2090-11-20 09:05:30 CET\.$'
exits 0 "publish --at takes a date alone" publish at.x --at 2090-11-20
has "a date alone means midnight of the local zone" err 'at 2090-11-20 00:00:00 CET\.$'
exits 0 "publish --at takes a date in summer alone" publish at.x --at 2090-07-20
has "a date in summer alone means midnight in summer time" err 'at 2090-07-20 00:00:00 CEST\.$'
exits 2 "publish --at refuses the 30th of February" publish at.x --at 2090-02-30
exits 2 "publish --at refuses a date with slashes" publish at.x --at 2090/11/20
TZ=nowhere exits 2 "publish --at with a date does not take an unknown TZ for UTC" \
    publish at.x --at 2090-11-20
TZ=UTC exits 0 "publish --at takes a date in TZ=UTC" publish at.x --at 2090-11-20
has "a date alone in TZ=UTC means midnight in UTC" err 'at 2090-11-20 00:00:00 UTC\.$'
exits 2 "publish --at refuses minutes of one digit" publish at.x --at 9:5
exits 0 "publish --delay takes several units" publish at.x --delay 1h30m
has "publish --delay adds up its units" err '^It enters the log in 1h30m, at '
exits 0 "publish --delay takes weeks" publish at.x --delay 2w
has "a week of publish --delay has seven days" err '^It enters the log in 14d, at '
exits 2 "publish --at refuses the hour 25" publish at.x --at 25:00
has "the refusal of --at gives examples of times" \
    err "takes a time \\(18:00, '2026-01-31 12:00', 2026"
exits 2 "publish --delay refuses units in the wrong order" publish at.x --delay 30m1h
TZ=nowhere exits 2 "publish --at with a time of the day does not guess an unknown TZ" \
    publish at.x --at 18:00
has "the refusal of a time of the day says that TZ is not known" \
    err '--at takes a time with its zone .* as long as the zone of this place \(\$TZ\) is not known'
exits 0 "tail --from takes a time of the day in the past" tail --from 00:00 --json
unset TZ

finish
