#!/usr/bin/env bash
# copy: a whole bus into another database and back, refused cases, hostile names, Ctrl-C.
. "$(dirname "$0")/lib.sh"
odd="o'ne \"two\"; -- %s \\ 日本"

hf publish a.b '{"n": 1}' --key k --expect-version 0
hf publish a.b '{"n": 2}' --key k --expect-version 1
for n in 3 4 5 6; do hf publish a.c "{\"n\": $n}" --tenant t$((n % 2)); done
hf sub create "$odd" --on 'a.*' --from start --partitions 3 --retries 0
hf work "$odd" --exec '[ "$HOLDFAST_POSITION" -gt 2 ]' --until-empty
hf sub create jobs --on 'a.*' --from start --mode shared
hf claim jobs --max 3 --lease 1h
hf claim jobs --max 2 --json
hf nack jobs "$(field out 1 '$.lease')" --delay 1h
hf dlq list --json
hf dlq retry "$(field out 1 '$.dead_id')"
hf sub pause jobs --reason "it's \"so\""
hf publish --namespace "$odd" x '[]'
hf namespace set "$odd" --metadata '{"team": "é"}'
hf schedule add yearly @yearly a.later
hf schedule run yearly
hf publish a.later --delay 1d

exits 2 "copy needs two databases" copy "$HOLDFAST_URL"
exits 3 "a source that is not there is not found" copy sqlite:none.db sqlite:there.db
exits 2 "a database is not copied onto itself" copy "$HOLDFAST_URL" "$HOLDFAST_URL"
exits 3 "nor a namespace that is not there" copy "$HOLDFAST_URL" sqlite:there.db --namespace none
exits 0 "copy" copy "$HOLDFAST_URL" sqlite:there.db
has "says what it did" err '^2 namespaces copied and verified: 8 events, '
exits 4 "a target that is not empty is refused" copy "$HOLDFAST_URL" sqlite:there.db
has "by name" err 'of the target is not empty'

# dump FILE: everything in it but who it is.
dump() { sqlite3 "$1" .dump | grep -v "'identity'"; }
back=$(empty back)
exits 0 "to another one" copy sqlite:there.db "$back" --json
json "in JSON" out
is "says that it is complete" "$(field out "$(wc -l <out)" '$.complete') $(field out "$(wc -l <out)" '$.later')" '1 0'
exits 0 "and from there" copy "$back" sqlite:last.db
is "the file is the same, row by row" "$(cmp <(dump there.db) <(dump last.db) && echo same)" same
true_that "which has rows" test "$(dump last.db | grep -c INSERT)" -gt 20
for url in sqlite:there.db "$back"; do
    exits 0 "nothing is wrong with the copy" verify --db "$url"
done

# told URL NAME: what the commands say of a database.
told() {
    for words in "event list" "dlq list" "sub list" "schedule list" "namespace list"; do
        # shellcheck disable=SC2086
        "$HOLDFAST" $words --json --db "$1"
    done | sed -E 's/"(owner|owner_alive|oldest_waiting|lag|rate|not_moving|in_flight|gapless)":("([^"\\]|\\.)*"|[-+a-z0-9.]+),?//g'
}
told "$HOLDFAST_URL" >one
told "$back" >two
is "both tell the same" "$(diff one two && echo same)" same
true_that "and have something to tell" test "$(wc -l <one)" -gt 12

# --- One namespace, beside another ---
exits 0 "one namespace" copy "$HOLDFAST_URL" sqlite:one.db --namespace "$odd"
hf namespace list --db sqlite:one.db --json
is "and no other" "$(field out 1 '$.name') $(wc -l <out)" "$odd 1"
exits 0 "another one beside it" copy "$HOLDFAST_URL" sqlite:one.db --namespace default
is "the same as all at once" "$(told sqlite:one.db | diff - one && echo same)" same

# --- In use, and interrupted ---
"$HOLDFAST" work "$odd" --exec true >work.out 2>work.err &
pid=$!
until_true 60 heeds $pid
in_use() { ! "$HOLDFAST" copy "$HOLDFAST_URL" sqlite:used.db 2>err && grep -q 'open in 1 process' err; }
until_true 60 in_use
is "a source in use is refused" "$?" 0
exits 0 "but for a live copy" copy "$HOLDFAST_URL" sqlite:live.db --live
kill -TERM $pid
wait $pid
seq 60000 | sed 's/.*/{"type":"many","payload":&}/' >many
hf publish --file many
big=$(empty big)
"$HOLDFAST" copy "$HOLDFAST_URL" "$big" >out 2>err &
pid=$!
until_true 60 heeds $pid
kill -TERM $pid # the shell lets what runs in the background ignore Ctrl-C
wait $pid
code=$?
if [ "$code" -ne 0 ]; then # it may have been done already
    has "interrupted, it says how to go on" err 'To go on: holdfast copy '
    exits 0 "the same command goes on" copy "$HOLDFAST_URL" "$big"
fi
hf stats --db "$big" --json
is "all is there" "$(field out 1 '$.head')" "$("$HOLDFAST" stats --json | grep -oE '"head":[0-9]+' | head -1 | cut -d: -f2)"
finish
