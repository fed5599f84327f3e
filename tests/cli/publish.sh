#!/usr/bin/env bash
# publish: one event, files of events, and what is refused.
. "$(dirname "$0")/lib.sh"

exits 0 "an event is published" publish user.created '{"id": 1}' --key user-1 --tenant acme \
    --metadata '{"trace":"x"}' --producer shop
has "position and id are printed" out '^position 1  id [0-9a-f-]{36}$'
exits 0 "options may come first and with an equals sign" --json publish --key=user-2 user.created \
    '{}'
json "--json prints an object" out
is "its position is a number" "$(field out 1 '$.position')" 2
is "a new event is no duplicate" "$(field out 1 '$.duplicate')" 0
exits 0 "without JSON the payload is null" publish user.left
exits 2 "a payload without a type is refused" publish '{"id": 1}'
has "and is named" err "'\\{\"id\": 1\\}' looks like a payload, and the TYPE is missing"
exits 2 "so is a list" publish '[1]'
exits 0 "two dashes end the options" publish --key k -- user.created '"--json"'

"$HOLDFAST" publish order.placed - >out 2>err <<<'{"total": 12.50}'
is "a dash reads the payload from stdin" "$?" 0
hf tail order.placed --json
has "the newline of echo is no part of the payload" out '"payload":\{"total": 12\.50\},'

hf publish a.b '{"n":12345678901234567890.000000000000000001}'
hf tail a.b --json
has "a number does not go through a float" out '12345678901234567890\.000000000000000001'

# --- Idempotence and versions ---
id=0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 0 "an id of one's own is taken" publish a.c '{"n":1}' --id $id
exits 0 "publishing it again is no error" publish a.c '{"n":2}' --id $id
has "the second says that it was there" out 'in the log already'
hf tail a.c --json
is "and is stored once" "$(wc -l <out)" 1
exits 0 "a new key has version 0" publish acc.opened '{}' --key acc --expect-version 0
has "the new version is printed" out 'version 1$'
exits 4 "a wrong expected version is a conflict" publish acc.opened \
    '{}' --key acc --expect-version 0
has "the conflict says the version" err 'has version 1'
exits 0 "a time of its own is kept" publish a.d --emitted-at 2020-02-03T04:05:06Z
hf tail a.d --json
is "emitted_at is RFC 3339" "$(field out 1 '$.emitted_at')" 2020-02-03T04:05:06.000000Z

# --- What is refused ---
exits 2 "invalid JSON is refused" publish a.b '{bad'
has "the message says where" err 'not valid JSON at byte 1'
exits 2 "an empty segment is refused" publish a..b '{}'
exits 2 "a type is required" publish
exits 2 "a third word is refused" publish a.b '{}' more
exits 2 "a mistyped option is refused" publish a.b --kye x
has "and the right one suggested" err 'did you mean --key'
exits 2 "--file does not go with a type" publish a.b --file x
exits 2 "--file does not go with --key" publish --file x --key k
exits 1 "a missing file is an error" publish --file nothing.ndjson
has "the message names the file" err 'nothing.ndjson'
exits 1 "a directory is an error" publish --file .
head -c 1100000 /dev/zero | tr '\0' ' ' >big
printf '1' >>big
"$HOLDFAST" publish a.big - <big >out 2>err
is "a payload above 1 MiB is refused" "$?" 2
has "the limit is named" err 'limit is 1048576'
"$HOLDFAST" publish a.big - --payload-max 2M <big >out 2>err
is "--payload-max raises the limit" "$?" 0
exits 2 "a size has a unit that exists" publish a.b --payload-max 2G

# --- Texts and files as payloads ---
exits 2 "a plain text is no JSON" publish a.b hello
has "and the way to say it is told" err -- '--text TEXT'
exits 0 "--text makes a JSON string of it" publish text.one --text 'say "hello"'
hf tail text.one --json
is "with the same characters" "$(field out 1 '$.payload')" 'say "hello"'
printf 'two\nlines\n' | "$HOLDFAST" publish text.two --text - >out 2>err
is "--text - reads stdin" "$?" 0
hf tail text.two
has "without the last newline" out '"two\\nlines"$'
exits 1 "--text is UTF-8" publish text.bad --text "$(printf 'ab\377')"
has "or the byte is named" err 'byte 2'
hf tail text.bad
is "and nothing is published" "$(cat out)" ''
printf '{"n": 1.10}\n' >payload.json
exits 0 "--payload-file reads a file" publish text.file --payload-file payload.json
hf tail text.file
has "byte for byte" out '\{"n": 1\.10\}$'
exits 1 "a file that is not there is named" publish text.file --payload-file nowhere.json
has "by its name" err 'nowhere.json'
exits 2 "one payload is enough" publish a.b '{}' --text x
exits 2 "and goes not with --file" publish --file payload.json --text x

# --- A database that another process has locked ---
lock &
until_true 60 test -e locked
# Opening has the same limit, and must not need it on a slow machine.
exits 5 "a locked database is a timeout" publish a.b '{}' --db-timeout 4s
touch unlock
wait
exits 0 "and can be written afterwards" publish a.b '{}'

# --- Files ---
fresh
id=0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c56
cat >good.ndjson <<END
{"type":"x.one","payload":{"n":1.10},"key":"k","tenant":"t","metadata":{"m":1}}

{"type":"x.two","payload":[1,2],"id":"$id","emitted_at":"2020-01-01T00:00:00Z"}
{ "type" : "x.thr\u0065e", "payload" : "text", "producer" : "other" }
{"type":"x.four"}
END
exits 0 "a file is imported" publish --file good.ndjson
has "the summary names the positions" out '^published 4, duplicates 0, positions 1 to 4$'
hf tail --json
is "every event is there" "$(wc -l <out)" 4
has "raw numbers are kept" out '"payload":\{"n":1\.10\}'
is "escaped types are decoded" "$(field out 3 '$.type')" x.three
is "the producer is taken" "$(field out 3 '$.producer')" other
is "the key is taken" "$(field out 1 '$.key')" k
is "metadata is taken" "$(field out 1 '$.metadata.m')" 1
is "a missing payload is null" "$(field out 4 '$.payload')" ''
cp out all.ndjson
exits 0 "what tail prints can be imported" publish --file all.ndjson --json
json "the summary is an object" out
is "the same ids are duplicates" "$(field out 1 '$.duplicates')" 4
is "and nothing is published" "$(field out 1 '$.published')" 0

# Two new events, one of them three times, between two that are in the log, the later one first.
old_id() { sed -n "$1p" all.ndjson | grep -oE '"id":"[^"]*"'; }
new='{"type":"x.new","id":"0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c57"}'
printf '%s\n' "{\"type\":\"x.four\",\"payload\":null,$(old_id 4)}" "$new" '{"type":"x.other"}' \
    "$new" "$new" "$(sed -n 2p all.ndjson)" >mixed.ndjson
exits 0 "old and new ones, and lines that come again" publish --file mixed.ndjson --json
is "duplicates are what was in the log" "$(field out 1 '$.duplicates')" 2
is "lines of the file that come again are counted apart" \
    "$(field out 1 '$.published') $(field out 1 '$.repeats')" '2 2'
positions="$(field out 1 '$.first_position') $(field out 1 '$.last_position')"
newest() { "$HOLDFAST" tail --json | tail -n 1 >newest && field newest 1 \
    '$.position'; } # a server leaves some out
is "the positions are in order" "$positions" "2 $(newest)"
exits 0 "the next time" publish --file mixed.ndjson
has "all but one without an id are duplicates" out \
    "^published 1, duplicates 5, positions 2 to $(newest)$"
fresh
printf '%s\n' "$new" "$new" >twice.ndjson
exits 0 "a file that has a line twice" publish --file twice.ndjson
has "says so" out '^published 1, duplicates 0, repeated lines 1, positions 1 to 1$'

fresh
printf '%s\n' '{"type":"x.one","payload":1}' '{"type":"x.two","payload":2}' '{"typ":"x"}' \
    '{"type":"x.four","payload":4}' >bad.ndjson
exits 1 "a bad line ends the import" publish --file bad.ndjson
has "its number is named" err 'bad.ndjson:3: there is no field "typ"; did you mean "type"'
has "and where to go on" err -- '--from-line 3'
hf tail --json
is "the lines before it are published" "$(wc -l <out)" 2
exits 0 "--from-line goes on" publish --file bad.ndjson --from-line 4
lines=$(wc -l <bad.ndjson)
exits 0 "also when nothing is left" publish --file bad.ndjson --from-line $((lines + 1))
exits 2 "but a line that the file does not have is a mistake" publish --file bad.ndjson \
    --from-line $((lines + 2))
has "and it says so" err "bad.ndjson has $lines lines"
for line in '{"type":"a..b"}' '{"type":"a","type":"b"}' '{"payload":1}' '[1]' \
    '{"type":"a","payload":}' \
    '{"type":"a","emitted_at":"yesterday"}' '{"type":"a","id":"7"}' '{"type":"a","metadata":[1]}' \
    '{"type":null}' '{"type":"a","payload":"\u0000"}'; do
    printf '{"type":"fine"}\n%s\n' "$line" >one.ndjson
    exits 1 "refused with its line number: $line" publish --file one.ndjson
    has "line 2 is named: $line" err 'one.ndjson:2: '
done

fresh
seq 1 2500 | sed 's/.*/{"type":"many.x","payload":{"n":&},"key":"k"}/' >many.ndjson
sed -i '2100s/many.x/many..x/' many.ndjson
exits 1 "a line that only the bus refuses is named, too" publish --file many.ndjson
has "exactly it" err 'many.ndjson:2100: '
hf tail --from start --json
is "exactly the lines before it are published" "$(wc -l <out)" 2099
is "in their order" "$(sed 's/.*"n":\([0-9]*\).*/\1/' out | sort -nc 2>&1)" ''

# --- Interrupted ---
fresh
mkfifo huge.ndjson # so that it has no end, however long it takes until it is interrupted
seq 1 100000000 | sed 's/.*/{"type":"many.x","payload":{"n":&}}/' >huge.ndjson 2>/dev/null &
"$HOLDFAST" publish --file huge.ndjson >out 2>err &
pid=$!
until_true 60 sh -c "'$HOLDFAST' stats --json | grep -q '\"head\":[1-9]'"
kill -TERM $pid
wait $pid
is "an import that is interrupted is an error" "$?" 1
next=$(sed -n 's/.*--from-line \([0-9]*\)\.$/\1/p' err)
hf stats --json
is "it has published exactly what it says" "$(field out 1 '$.head')" "$((next - 1))"

# --- A pipe that pauses ---
fresh
(echo '{"type":"live.a"}'; until_true 60 test -s seen; echo '{"type":"live.b"}') |
    "$HOLDFAST" publish --file - >out 2>err &
until_true 60 sh -c "'$HOLDFAST' tail --json 2>/dev/null | grep -q live.a"
is "a line of a pipe that pauses is published at once" "$?" 0
echo yes >seen
wait
has "and the rest when it comes" out '^published 2,'

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
is "new and old ones make all" \
    "$(($(field out 1 '$.published') + $(field out 1 '$.duplicates')))" 20000
hf tail --from start --json
is "every id is in the log once" \
    "$(sed 's/.*"id":"\([^"]*\)".*/\1/' out | sort -u | wc -l) $(wc -l <out)" \
    "20000 20000"

# --- Variables that are not set ---
exits 2 "an empty --db is not the default one" publish a.b --db ''
has "but a mistake" err '--db is empty'
exits 2 "a version without a key is refused" publish a.b --expect-version 0
has "in the words of the command line" err '--expect-version .*--key'

# --- A mistake leaves no database behind ---
exits 2 "a version without a key" publish a.b --expect-version 0 --db sqlite:none.db
exits 2 "two times to enter the log" publish a.b --delay 1h --at 2100-01-01T00:00:00Z \
    --db sqlite:none.db
exits 1 "a file that is not there" publish --file nothing.ndjson --db sqlite:none.db
exits 2 "a delay of thousands of years" publish a.b --delay 106751991167d --db sqlite:none.db
has "names the limit" err '--delay takes a time .* from 0ms to 366000d, not .106751991167d.'
true_that "create nothing" test ! -e none.db

# --- Times as people write them ---
export TZ=Europe/Berlin
exits 0 "a time of the local zone" publish at.x --at '2090-11-20 18:00'
has "the answer says when it is" err 'at 2090-11-20 18:00:00 CET\.$'
exits 0 "in summer, with seconds" publish at.x --at '2090-07-20 18:00:30'
has "by the clocks of summer" err 'at 2090-07-20 18:00:30 CEST\.$'
exits 0 "a time of the day is the next one" publish at.x --at 18:00
has "today or tomorrow" err '^It enters the log in [0-9hms]+, at 20[0-9-]{8} 18:00:00 CES?T\.$'
exits 0 "an hour may have one digit" publish at.x --at 9:05
has "and is the same" err ', at 20[0-9-]{8} 09:05:00 CES?T\.$'
exits 0 "also behind a date" publish at.x --at '2090-11-20 9:05:30'
has "of the local zone" err 'at 2090-11-20 09:05:30 CET\.$'
exits 0 "a date alone is local, too" publish at.x --at 2090-11-20
has "and begins at midnight" err 'at 2090-11-20 00:00:00 CET\.$'
exits 0 "in summer" publish at.x --at 2090-07-20
has "by the clocks of summer" err 'at 2090-07-20 00:00:00 CEST\.$'
exits 2 "a day that no month has" publish at.x --at 2090-02-30
exits 2 "a date is no other word of ten letters" publish at.x --at 2090/11/20
TZ=nowhere exits 2 "a zone that cannot be read is not taken for UTC" publish at.x --at 2090-11-20
TZ=UTC exits 0 "in UTC it is midnight there" publish at.x --at 2090-11-20
has "with its zone" err 'at 2090-11-20 00:00:00 UTC\.$'
exits 2 "but not without its minutes" publish at.x --at 9:5
exits 0 "a delay of several units" publish at.x --delay 1h30m
has "which is as long" err '^It enters the log in 1h30m, at '
exits 0 "weeks" publish at.x --delay 2w
has "of seven days" err '^It enters the log in 14d, at '
exits 2 "no time" publish at.x --at 25:00
has "says what would be one" err "takes a time \\(18:00, '2026-01-31 12:00', 2026"
exits 2 "units in another order" publish at.x --delay 30m1h
TZ=nowhere exits 2 "a zone that cannot be read is not guessed" publish at.x --at 18:00
exits 0 "the past is meant by a place" tail --from 00:00 --json
unset TZ

finish
