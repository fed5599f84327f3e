#!/usr/bin/env bash
# namespace create, list, show, set, rm.
blank=yes # the tests are about making the schema, too
. "$(dirname "$0")/lib.sh"

exits 3 "namespace list without a database exits with not found" namespace list
on postgres || is "namespace list does not make a database" "$(ls -- *.db 2>/dev/null)" ''
exits 0 "namespace create makes the database and the namespace" \
    namespace create shop --metadata '{"team":"web"}' --gapless
has "namespace create says that it created the namespace" err 'Namespace shop created'
exits 0 "namespace create of a namespace that exists succeeds" namespace create shop --json
is "namespace create --json says that it created nothing" \
    "$(cat out)" '{"name":"shop","created":false}'
exits 0 "namespace create with options succeeds for a namespace that exists" namespace create shop \
    --metadata '{"team":"web"}'
has "namespace create with options says that it changed the namespace" \
    err '^Namespace shop changed\.$'
exits 0 "namespace create without options succeeds for a namespace that exists" \
    namespace create shop
has "namespace create without options says that the namespace exists" \
    err '^Namespace shop exists\.$'
exits 2 "an empty --namespace is refused" sub list --namespace ''
has "the refusal of an empty --namespace says that it is empty" err '--namespace is empty'
exits 2 "namespace create refuses metadata that is no object" namespace create other --metadata '[]'
exits 2 "namespace create refuses a name of 129 bytes" namespace create "$(printf 'x%.0s' {1..129})"
hf publish --namespace "o'ne \"two\"" a.b '{}'
hf sub create --namespace shop s --on 'a.*' --from start
exits 0 "namespace list takes the option --json" namespace list --json
json "namespace list --json prints a JSON object per namespace" out
is "namespace list prints namespaces in the order of their names" \
    "$(field out 1 '$.name') $(field out 2 '$.name') $(wc -l <out)" "o'ne \"two\" shop 2"
is "namespace list --json prints the newest position as head" "$(field out 1 '$.head')" 1
is "namespace list --json counts the subscriptions" "$(field out 2 '$.subscriptions')" 1
is "namespace list --json says that a namespace is gapless" "$(field out 2 '$.gapless')" 1
is "namespace list --json prints metadata as JSON" "$(field out 2 '$.metadata.team')" web
exits 0 "namespace list succeeds without --json" namespace list
has "namespace list prints a line per namespace" out '^shop +0 +1 '
exits 0 "namespace set takes metadata" namespace set shop --metadata '{"team":"ops"}'
exits 0 "namespace show takes a name" namespace show shop
has "namespace show prints the metadata that was set" out 'metadata: .*\{"team":"ops"\}'
copying() { # MARK
    if on sqlite; then
        patiently bus.db "UPDATE holdfast_namespaces SET copying = $1 WHERE name = 'shop'"
    else
        psql -qX "$HOLDFAST_URL" -c "UPDATE holdfast_private.namespaces SET copying = $1
            WHERE name = 'shop'"
    fi
}
copying "'source run'"
exits 0 "namespace list succeeds with the target of a copy" namespace list
has "namespace list says that a namespace is being copied" out '^shop +being copied +0 +1 '
exits 0 "namespace show succeeds for the target of a copy" namespace show shop
has "namespace show says that the copy is not complete" out '^being copied: .*not complete'
exits 0 "namespace show --json succeeds for the target of a copy" namespace show shop --json
is "namespace show --json says that a namespace is being copied" "$(field out 1 '$.copying')" 1
copying NULL
exits 2 "namespace set without an option is refused" namespace set shop
exits 3 "namespace set of an unknown namespace exits with not found" \
    namespace set nothing --metadata '{}'
exits 3 "namespace show of an unknown namespace exits with not found" namespace show nothing

exits 2 "namespace rm without --yes and without a terminal is refused" namespace rm shop
has "namespace rm prints what would be removed" \
    err 'Remove namespace shop for ever.*1 subscriptions'
exits 0 "namespace rm takes the option --yes" namespace rm "o'ne \"two\"" --yes
has "namespace rm says that the namespace is removed" err 'removed'
exits 3 "namespace show of a removed namespace exits with not found" namespace show "o'ne \"two\""
exits 0 "namespace rm leaves other namespaces" namespace show shop

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
true_that "setup: the tables have rows of every kind" test "$(rows)" -ge 16
"$HOLDFAST" tail --namespace shop --from start --follow >tailed 2>/dev/null &
reader=$!
until_true 60 test -s tailed
exits 4 "namespace rm exits with a conflict while a process has the namespace open" \
    namespace rm shop --yes
has "the conflict of namespace rm names the process" err 'open in 1 process: .*:'
has "the conflict of namespace rm names --force" err '--force'
exits 0 "namespace rm --force removes a namespace that a process has open" \
    namespace rm shop --yes --force
exits 0 "namespace list succeeds without namespaces" namespace list
is "namespace list without namespaces prints nothing" "$(cat out)" ''
kill "$reader" 2>/dev/null
wait "$reader" 2>/dev/null
is "namespace rm leaves no row in any table" "$(rows)" 0
# --- What is not known is not 0 ---
if on sqlite; then
    hf namespace create aged --retain-age 1ms
    hf publish a.b '{}' --namespace aged
    sleep 0.1
    exits 0 "retention run takes --dry-run and --json" \
        retention run --namespace aged --dry-run --json
    is "retention run --dry-run --json by age prints events, but no bytes" \
        "$(field out 1 '$.events') $(field out 1 '$.bytes')" '1 '
    exits 0 "retention run --dry-run succeeds without --json" \
        retention run --namespace aged --dry-run
    has "retention run --dry-run by age prints events, but no bytes in words" \
        err '^About 1 event would go, up to position 1\.$'
    exits 0 "retention run by age succeeds" retention run --namespace aged
    has "retention run prints how many events and bytes are gone" \
        err '^About 1 event \([0-9]+ B\) is gone, up to position 1\.$'
fi

finish
