#!/usr/bin/env bash
# namespace create, list, show, set, rm.
blank=yes # the tests are about making the schema, too
. "$(dirname "$0")/lib.sh"

exits 3 "there is no database to list" namespace list
on postgres || is "and none was made" "$(ls -- *.db 2>/dev/null)" ''
exits 0 "create makes the database, too" namespace create shop --metadata '{"team":"web"}' --gapless
has "says what it did" err 'Namespace shop created'
exits 0 "again is no error" namespace create shop --json
is "and says so" "$(cat out)" '{"name":"shop","created":false}'
exits 0 "of one that exists it changes what is given" namespace create shop \
    --metadata '{"team":"web"}'
has "and says so" err '^Namespace shop changed\.$'
exits 0 "if nothing is given it changes nothing" namespace create shop
has "and says that, too" err '^Namespace shop exists\.$'
exits 2 "an empty name is not the default one" sub list --namespace ''
has "but a mistake" err '--namespace is empty'
exits 2 "metadata is an object" namespace create other --metadata '[]'
exits 2 "a name has limits" namespace create "$(printf 'x%.0s' {1..129})"
hf publish --namespace "o'ne \"two\"" a.b '{}'
hf sub create --namespace shop s --on 'a.*' --from start
exits 0 "list --json is an object each" namespace list --json
json "valid ones" out
is "by name, and no other was made" \
    "$(field out 1 '$.name') $(field out 2 '$.name') $(wc -l <out)" "o'ne \"two\" shop 2"
is "the head" "$(field out 1 '$.head')" 1
is "subscriptions" "$(field out 2 '$.subscriptions')" 1
is "gapless" "$(field out 2 '$.gapless')" 1
is "metadata is JSON" "$(field out 2 '$.metadata.team')" web
exits 0 "list for people" namespace list
has "a line each" out '^shop +0 +1 '
exits 0 "set" namespace set shop --metadata '{"team":"ops"}'
exits 0 "show" namespace show shop
has "shows what was set" out 'metadata: .*\{"team":"ops"\}'
copying() { # MARK
    if on sqlite; then
        patiently bus.db "UPDATE holdfast_namespaces SET copying = $1 WHERE name = 'shop'"
    else
        psql -qX "$HOLDFAST_URL" -c "UPDATE holdfast_private.namespaces SET copying = $1
            WHERE name = 'shop'"
    fi
}
copying "'source run'"
exits 0 "list while it is the target of a copy" namespace list
has "says so" out '^shop +being copied +0 +1 '
exits 0 "show, too" namespace show shop
has "says so, too" out '^being copied: .*not complete'
exits 0 "and as JSON" namespace show shop --json
is "it is a field" "$(field out 1 '$.copying')" 1
copying NULL
exits 2 "set needs something" namespace set shop
exits 3 "set of nothing is not found" namespace set nothing --metadata '{}'
exits 3 "show of nothing is not found" namespace show nothing

exits 2 "rm asks, and there is no terminal" namespace rm shop
has "says what would go" err 'Remove namespace shop for ever.*1 subscriptions'
exits 0 "rm --yes" namespace rm "o'ne \"two\"" --yes
has "says so" err 'removed'
exits 3 "then it is gone" namespace show "o'ne \"two\""
exits 0 "the other is not" namespace show shop

for n in 1 2 3; do
    hf publish --namespace shop a.b "{\"n\":$n}" --key k --expect-version $((n - 1))
done
hf sub create --namespace shop jobs --on 'a.*' --from start --mode shared
hf claim --namespace shop jobs --max 1 --json
hf bury --namespace shop jobs "$(field out 1 '$.lease')"
hf claim --namespace shop jobs --max 1 --json
hf nack --namespace shop jobs "$(field out 1 '$.lease')" --delay 1h
hf claim --namespace shop jobs --max 1 --lease 1h
hf schedule add --namespace shop yearly @yearly a.b
hf schedule run --namespace shop yearly
hf publish --namespace shop a.b --delay 1d
# rows: how many rows all tables have of namespaces; nothing but the tables' own settings stays.
rows() {
    local table sum=0
    if on sqlite; then
        for table in $(patiently bus.db "SELECT name FROM sqlite_schema WHERE type = 'table'
                AND name LIKE 'holdfast_%' AND name <> 'holdfast_meta'"); do
            sum=$((sum + $(patiently bus.db "SELECT count(*) FROM $table")))
        done
    else
        for table in $(psql -qXAt "$HOLDFAST_URL" -c "SELECT c.oid::regclass FROM pg_class c
                WHERE c.relnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
                    AND c.relkind = 'r'
                AND c.relname !~ '^(meta|secret|turns|gates|checkpoints_.)\$'"); do
            sum=$((sum + $(psql -qXAt "$HOLDFAST_URL" -c "SELECT count(*) FROM $table")))
        done
        # The gates of namespace 0 are the schema's own.
        sum=$((sum + $(psql -qXAt "$HOLDFAST_URL" \
            -c "SELECT count(*) FROM holdfast_private.gates WHERE namespace_id <> 0")))
    fi
    echo "$sum"
}
true_that "there are rows of every kind" test "$(rows)" -ge 16
"$HOLDFAST" tail --namespace shop --from start --follow >tailed 2>/dev/null &
reader=$!
until_true 60 test -s tailed
exits 4 "a process that has it open keeps it" namespace rm shop --yes
has "and is named" err 'open in 1 process: .*:'
has "with advice" err '--force'
exits 0 "unless forced" namespace rm shop --yes --force
exits 0 "nothing is left" namespace list
is "of any" "$(cat out)" ''
kill "$reader" 2>/dev/null
wait "$reader" 2>/dev/null
is "no table has a row left" "$(rows)" 0
# --- What is not known is not 0 ---
if on sqlite; then
    hf namespace create aged --retain-age 1ms
    hf publish a.b '{}' --namespace aged
    sleep 0.1
    exits 0 "a dry run by age" retention run --namespace aged --dry-run --json
    is "does not know the bytes" "$(field out 1 '$.events') $(field out 1 '$.bytes')" '1 '
    exits 0 "and says nothing of them" retention run --namespace aged --dry-run
    has "in words" err '^About 1 event would go, up to position 1\.$'
    exits 0 "a run" retention run --namespace aged
    has "does" err '^About 1 event \([0-9]+ B\) is gone, up to position 1\.$'
fi

finish
