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
exits 0 "namespace show succeeds for a new namespace" namespace show default --json
is "a new namespace has no index on types" "$(field type_index)" off
is "a namespace without an index on types writes nothing for one" "$(index_rows) $(indexes)" "0 0"
hf event list --type 'rare.*' --json
cp out before

# ---- On -----------------------------------------------------------------------------------------

exits 0 "namespace set takes --type-index on" namespace set default --type-index on
exits 0 "namespace show --json succeeds for a namespace with an index on types" \
    namespace show default --json
is "namespace set --type-index on switches the index on types on" "$(field type_index)" on
exits 0 "namespace show succeeds for a namespace with an index on types" namespace show default
has "namespace show says that the index on types is on" out '^type index: +on$'
exits 0 "namespace list succeeds for a namespace with an index on types" namespace list
has "namespace list says that the index on types is on" out '^default .* on '
if on sqlite; then
    is "every event has a row in the index on types" "$(index_rows)" 20000
else
    true_that "every month has an index on types" [ "$(indexes)" -ge 2 ]
fi
exits 0 "event list --type takes a pattern with the index on types" \
    event list --type 'rare.*' --json
true_that "event list by a pattern is the same with and without the index on types" \
    cmp -s out before
exits 0 "event list --type takes a type with the index on types" event list --type rare.one --json
is "event list by a type prints its events in the order of the log" \
    "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" \
    "5000 19999 "
exits 0 "event list --type takes --from with the index on types" \
    event list --type 'rare.**' --from 5000 --json
is "event list --type --from begins behind the position" \
    "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "15000 19999 "
exits 0 "event list --type takes --limit with the index on types" \
    event list --type 'rare.*' --limit 2 --json
is "event list --type --limit ends after so many events" \
    "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "5000 15000 "
exits 0 "event list --type takes a type without events" event list --type rare.three --json
is "event list of a type without events prints nothing" "$(wc -l <out)" 0
exits 0 "tail takes a type with the index on types" tail rare.one --json
is "tail of a rare type prints its newest events" \
    "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "5000 19999 "
exits 0 "event list --type takes a pattern that matches most events" \
    event list --type 'common.*' --limit 100000 --json
is "event list of a pattern that matches most events leaves none out" "$(wc -l <out)" 19997
exits 0 "event list --type takes a pattern that begins with a star" event list --type '*.two' --json
is "event list of a pattern that begins with a star finds the event" "$(field position)" 15000

# New events are in it.
hf publish rare.three '{}'
hf publish common.1 '{}'
exits 0 "event list takes a type that is new since the index on types is on" \
    event list --type rare.three --json
is "an event of a new type is in the index on types" "$(field position)" 20001
exits 0 "verify finds nothing wrong with the index on types" verify
exits 0 "namespace set --type-index on succeeds if it is on" namespace set default --type-index on
exits 0 "event list --type succeeds after switching the index on again" \
    event list --type rare.three --json
is "switching on an index on types that is on changes nothing" "$(field position)" 20001

# What retention takes away is gone from it.
if on sqlite; then
    hf namespace set default --retain-bytes 1
    exits 0 "retention run succeeds with an index on types" retention run
    is "retention leaves no row of the index on types without an event" \
        "$(sqlite3 bus.db 'SELECT count(*) FROM holdfast_types t
               WHERE (t.namespace_id << 44) + t.position NOT IN (
                   SELECT e.place FROM holdfast_events e)')" 0
    hf namespace set default --retain-bytes 0
    hf publish rare.four '{}'
fi

# ---- Another namespace --------------------------------------------------------------------------

exits 0 "namespace create takes --type-index on" namespace create other --type-index on
hf publish a.b '{}' --namespace other
exits 0 "event list --type succeeds in another namespace" \
    event list --type a.b --namespace other --json
is "event list --type in another namespace finds its events" \
    "$(field namespace) $(field position)" "other 1"
exits 0 "namespace rm removes a namespace with an index on types" namespace rm other --yes
if on sqlite; then
    is "namespace rm removes the index on types of the namespace" "$(sqlite3 bus.db \
        'SELECT count(*) FROM holdfast_types WHERE namespace_id <> 1')" 0
fi

# ---- Off ----------------------------------------------------------------------------------------

exits 0 "namespace set takes --type-index off" namespace set default --type-index off
exits 0 "namespace show succeeds after switching the index on types off" \
    namespace show default --json
is "namespace set --type-index off switches the index on types off" "$(field type_index)" off
is "switching the index on types off leaves nothing of it" "$(index_rows) $(indexes)" "0 0"
exits 0 "event list --type succeeds after switching the index on types off" \
    event list --type rare.one --json
exits 0 "verify finds nothing wrong after switching the index on types off" verify
exits 2 "namespace set --type-index refuses an unknown word" \
    namespace set default --type-index maybe
if on postgres; then
    true_that "holdfast.alter_namespace switches the index on types on" psql -qX "$HOLDFAST_URL" \
        -c "SELECT holdfast.alter_namespace('default', type_index => true)" -o /dev/null
    exits 0 "namespace show succeeds after holdfast.alter_namespace" namespace show default --json
    is "an index on types that SQL switched on waits for a client that builds it" \
        "$(field type_index)" building
    exits 0 "verify finds nothing wrong with an index on types that is being built" verify
    exits 0 "namespace set --type-index on builds what SQL switched on" \
        namespace set default --type-index on
    exits 0 "namespace show succeeds after the index on types was built" \
        namespace show default --json
    is "an index on types that SQL switched on is on after a client built it" \
        "$(field type_index)" on
    # An index that a build has left broken.
    psql -qX "$HOLDFAST_URL" -c "UPDATE pg_index SET indisvalid = false WHERE indexrelid = (
        SELECT c.oid FROM pg_class c WHERE c.relname LIKE 'events\\_1\\_%\\_type'
        ORDER BY 1 LIMIT 1)"
    exits 0 "namespace set --type-index on succeeds with an index that is not valid" \
        namespace set default --type-index on
    true_that "an index that is not valid is built again" [ "$(indexes)" -ge 2 ]
fi
finish
