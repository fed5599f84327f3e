#!/bin/bash
# types.sh - the index on types of a namespace: switching it on and off, and reading by it.
. "$(dirname "$0")/lib.sh"

field() { sed -nE 's/.*"'"$1"'":("[^"]*"|[^,}]*).*/\1/p' "${2:-out}" | head -n 1 | tr -d '"'; }
ask() {
    if on sqlite; then
        sqlite3 bus.db "$1"
    else
        psql -qXAt "$HOLDFAST_URL" -c "$2"
    fi
}
index_rows() { ask "SELECT count(*) FROM holdfast_types" "SELECT 0"; }
# indexes: how many months have a valid index on types.
indexes() {
    ask "SELECT 0" "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                    WHERE c.relname LIKE 'events\\_%\\_type' AND i.indisvalid"
}
publish() { awk "$1" | "$HOLDFAST" publish --file - >/dev/null 2>&1; }

# ---- Off by default -----------------------------------------------------------------------------

# Two rare types among 20000 events: at 5000, 15000 and 19999.
publish 'BEGIN {
    rare[5000] = "rare.one"; rare[15000] = "rare.two"; rare[19999] = "rare.one"
    for (i = 1; i <= 20000; i++)
        printf "{\"type\":\"%s\",\"payload\":%d}\n", i in rare ? rare[i] : "common." i % 7, i }'
exits 0 "the namespace" namespace show default --json
is "has no index on types" "$(field type_index)" off
is "nothing is written for one" "$(index_rows) $(indexes)" "0 0"
hf event list --type 'rare.*' --json
cp out before

# ---- On -----------------------------------------------------------------------------------------

exits 0 "switching it on" namespace set default --type-index on
exits 0 "the namespace" namespace show default --json
is "has an index" "$(field type_index)" on
exits 0 "as text" namespace show default
has "says so, too" out '^type index: +on$'
exits 0 "the list" namespace list
has "shows it" out '^default .* on '
if on sqlite; then
    is "every event has its row" "$(index_rows)" 20000
else
    true_that "every month has its index" [ "$(indexes)" -ge 2 ]
fi
exits 0 "a list by a pattern" event list --type 'rare.*' --json
true_that "is as it was" cmp -s out before
exits 0 "a list by a type" event list --type rare.one --json
is "has its events in order" "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" \
    "5000 19999 "
exits 0 "a list from a position" event list --type 'rare.**' --from 5000 --json
is "begins behind it" "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "15000 19999 "
exits 0 "a list with a limit" event list --type 'rare.*' --limit 2 --json
is "ends there" "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "5000 15000 "
exits 0 "a list of a type that is not there" event list --type rare.three --json
is "is empty" "$(wc -l <out)" 0
exits 0 "the end of the log by a pattern" tail rare.one --json
is "has the last ones" "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "5000 19999 "
exits 0 "a pattern that matches most" event list --type 'common.*' --limit 100000 --json
is "misses none" "$(wc -l <out)" 19997
exits 0 "a star in front" event list --type '*.two' --json
is "is found" "$(field position)" 15000

# New events are in it.
hf publish rare.three '{}'
hf publish common.1 '{}'
exits 0 "a new event of a new type" event list --type rare.three --json
is "is found" "$(field position)" 20001
exits 0 "verify" verify
exits 0 "switching it on again" namespace set default --type-index on
exits 0 "the list" event list --type rare.three --json
is "changes nothing" "$(field position)" 20001

# What retention takes away is gone from it.
if on sqlite; then
    hf namespace set default --retain-bytes 1
    exits 0 "retention" retention run
    is "the index has no row without an event" \
        "$(sqlite3 bus.db 'SELECT count(*) FROM holdfast_types t
               WHERE (t.namespace_id << 44) + t.position NOT IN (
                   SELECT e.place FROM holdfast_events e)')" 0
    hf namespace set default --retain-bytes 0
    hf publish rare.four '{}'
fi

# ---- Another namespace --------------------------------------------------------------------------

exits 0 "a namespace with an index" namespace create other --type-index on
hf publish a.b '{}' --namespace other
exits 0 "its events" event list --type a.b --namespace other --json
is "are found" "$(field namespace) $(field position)" "other 1"
exits 0 "it goes" namespace rm other --yes
if on sqlite; then
    is "with its index" "$(sqlite3 bus.db \
        'SELECT count(*) FROM holdfast_types WHERE namespace_id <> 1')" 0
fi

# ---- Off ----------------------------------------------------------------------------------------

exits 0 "switching it off" namespace set default --type-index off
exits 0 "the namespace" namespace show default --json
is "has none" "$(field type_index)" off
is "nothing is left of it" "$(index_rows) $(indexes)" "0 0"
exits 0 "a list by a type" event list --type rare.one --json
exits 0 "verify" verify
exits 2 "a word that is none" namespace set default --type-index maybe
if on postgres; then
    true_that "SQL switches it on" psql -qX "$HOLDFAST_URL" \
        -c "SELECT holdfast.alter_namespace('default', type_index => true)" -o /dev/null
    exits 0 "the namespace" namespace show default --json
    is "waits for a client that builds it" "$(field type_index)" building
    exits 0 "verify" verify
    exits 0 "which the command does" namespace set default --type-index on
    exits 0 "the namespace" namespace show default --json
    is "has it" "$(field type_index)" on
    # An index that a build has left broken.
    psql -qX "$HOLDFAST_URL" -c "UPDATE pg_index SET indisvalid = false WHERE indexrelid = (
        SELECT c.oid FROM pg_class c WHERE c.relname LIKE 'events\\_1\\_%\\_type'
        ORDER BY 1 LIMIT 1)"
    exits 0 "a build that was cut off" namespace set default --type-index on
    true_that "is mended" [ "$(indexes)" -ge 2 ]
fi
finish
