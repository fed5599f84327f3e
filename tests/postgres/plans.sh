#!/usr/bin/env bash
# What a call costs when there are many namespaces and months: the locks it takes tell which tables
# it looked at. And which plans it makes of tables that were not analyzed.
. "$(dirname "$0")/lib.sh"
cluster
schema

# A table that may not be read as a whole, and has no index that fits, costs so much by the account
# of the planner that the server compiles the statement: half a second for a session's first call.
is "no function that forbids sequential scans lets the server compile its statements" \
    "SELECT p.oid::regprocedure FROM pg_proc p
     WHERE 'enable_seqscan=off' = ANY (p.proconfig) AND NOT 'jit=off' = ANY (p.proconfig)" ""

A=00000000-0000-4000-8000-00000000000a
# 300 namespaces with four months each, in a few transactions.
for first in 2 102 202; do
    sql "SELECT count(*) FROM generate_series($first, least($first + 99, 300)) i,
        LATERAL holdfast_private.namespace_put('n' || i);
         SELECT count(holdfast_private.make_month(i, now() - interval '31 days')),
             count(holdfast_private.make_month(i, now() - interval '58 days'))
         FROM generate_series($first, least($first + 99, 300)) i" >/dev/null
done
sql "SELECT holdfast_private.make_month(1, now() - interval '31 days');
     SELECT FROM holdfast.publish_many('n30', array_fill('t'::text, ARRAY[3000]), NULL);
     SELECT FROM holdfast.process_beat(30, '$A', 'a', false);
     SELECT FROM holdfast.change_subscription_put(30, 's', '[\"**\"]', '{}', 2, 1, 0, -1, now());
     SELECT FROM holdfast.change_subscription_put(30, 'o', '[\"**\"]', '{}', 1, 1, 0, -1, now());
     SELECT FROM holdfast.change_acquire(30, 2, 0, '$A', 'a', false, NULL, NULL)" >/dev/null

# touches WHAT SQL: no table of another namespace is locked, the tenth time as the first, and not
# more than 80 relations in all (a namespace has five tables with two indexes each, and two
# sequences).
touches() {
    is "$1 touches no table of another namespace" \
        "BEGIN; $(for _ in 1 2 3 4 5 6 7 8 9 10; do echo "SELECT FROM $2;"; done)
        SELECT count(*) FILTER (WHERE relation::regclass::text ~ 'events_\d+'
            AND relation::regclass::text !~ 'events_30(_|\$)'),
            count(*) <= 80 FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation';
            COMMIT" "0|t"
}
# query NAME: a named query of the engine, for namespace 30, with the values of its constants.
constants=$(awk -f "$ROOT/scripts/enum-names.awk" "$ROOT"/include/holdfast/*.h \
        "$ROOT"/src/store/{store,retry}.h |
    sed 's/\(.*\) \(.*\)/s,\\<\1\\>,\2,g/')
query() {
    awk -v name="$1" '/^-- name: / { on = $3 == name; next } on && !/^--/' \
        "$ROOT"/sql/postgres/queries/*.sql | sed "$constants" | sed 's/{namespace}/30/g; s/;$//'
}
# runs WHAT NAME TYPES ARGUMENTS: the same for a statement of the library, as its sessions run it,
# and it neither scans nor sorts the log.
runs() {
    ok "$1 touches no table of another namespace" \
        same "0|t" "$(psql -qXAt -v ON_ERROR_STOP=1 2>&1 <<END
PREPARE q ($3) AS $(query "$2");
BEGIN;
\o /dev/null
$(query read_settings);
$(for _ in 1 2 3 4 5 6 7 8 9 10; do echo "EXECUTE q ($4);"; done)
\o
SELECT count(*) FILTER (WHERE relation::regclass::text ~ 'events_\d+'
    AND relation::regclass::text !~ 'events_30(_|\$)'),
       count(*) <= 80 FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation';
END
    )"
    ok "$1 uses indexes of the log" same "" \
        "$(psql -qXAt 2>&1 <<END | grep -E 'Seq Scan on (holdfast\.)?events|Sort  \(|ERROR'
PREPARE q ($3) AS $(query "$2");
BEGIN;
\o /dev/null
$(query read_settings);
\o
EXPLAIN EXECUTE q ($4);
END
    )"
}
claim="holdfast.change_claim(30, 1, 0, NULL, '$A', 'a', NULL, false, 10, 1000, false, false, NULL,
    NULL, NULL, true, now())"
touches "holdfast.publish" "holdfast.publish('n30', 'x')"
touches "holdfast.publish of an id of version 4" \
    "holdfast.publish('n30', 'x', id => gen_random_uuid())"
touches "holdfast.publish_many" "holdfast.publish_many('n30', '{x,y}', NULL)"
touches "change_claim" "$claim"
touches "events_at" "holdfast.events_at(30, NULL, '{1,2,3}')"
touches "find_id" "holdfast.find_id(30, gen_random_uuid())"
touches "change_settle with a dead letter" \
    "holdfast.change_settle(30, 2, 0, '$A', 1, 0, 1, NULL, now(), '{3}', '{1}', '{1}', '{1}', '{0}',
    '{[]}', ARRAY[now()], '{x}', '{x}', '{handler}', NULL, NULL, '{f}')"
touches "change_settle" "holdfast.change_settle(30, 2, 0, '$A', 1, 0, 1, NULL, now())"
touches "holdfast.head" "holdfast.head(30)"
touches "holdfast.claim" "holdfast.claim('n30', 's', 1)"
touches "holdfast.stats" "holdfast.stats('n30')"


# reads: the library's reads.
reads() { # WHEN
    runs "reading the tail $1" read_tail "bigint, bigint, text, integer, bigint[]" \
        "100, 50, NULL, NULL, '{}'"
    runs "reading the tail as a whole $1" read_tail_whole "bigint, bigint" "100, 50"
    runs "reading holes $1" read_holes "bigint[], bigint[], text, integer, bigint[], bigint" \
        "'{10,200}', '{20,300}', 'x.*', 16, '{5}', 100"
    runs "reading large events $1" read_large "bigint[]" "'{1,2,3}'"
}
reads "of tables without statistics"
sql "ANALYZE" >/dev/null
reads "of tables with statistics"
sql "SELECT FROM holdfast.publish_many('n30', array_fill('t'::text, ARRAY[20000]), NULL)" >/dev/null
reads "after a bulk load"

# scans WHAT SQL: the statements inside neither scan nor sort the log, the journal, leases or
# retries.
scans() {
    ok "$1 uses indexes and does not sort the log" \
        same "" "$(psql -qXAt -c "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
        SET auto_explain.log_nested_statements = on; SET client_min_messages = log" \
        -c "SELECT FROM $2" 2>&1 |
        awk -v tables='events|checkpoints|leases|retries|settled|copies|letters|event_ids|keys' '
             $0 ~ "Seq Scan on (holdfast[.])?(" tables ")" && !/_position /
             sorts && /Sort Key: (e\.|o\.|events_)/
             { sorts = /Sort  \(cost/ }' |
        sort -u)"
}
scans "change_claim" "$claim"
scans "change_settle" "holdfast.change_settle(30, 2, 0, '$A', 1, 0, 1, NULL, now())"
scans "holdfast.publish" "holdfast.publish('n30', 'x', key => 'k', expected_version => 0)"
scans "events_at" "holdfast.events_at(30, 1, '{1,2,3}')"
scans "position_before" "holdfast.position_before(30, now() - interval '1 min')"
scans "holdfast.stats" "holdfast.stats('n30')"

sql "INSERT INTO holdfast_private.letters (position, hash, checksum, emitted_at, entered_at,
    failed_at, event_id, namespace_id, attempts, subscription, reason, type, payload, story)
     SELECT i, 1, 0, now(), now(), now(), gen_random_uuid(), 30, 1, 's' || i % 5, 'attempts', 't',
         '1', '[]' FROM generate_series(1, 5000) i" >/dev/null
ok "a page of dead letters is read by an index" same "" \
    "$(psql -qXAt 2>&1 <<END | grep -E 'Seq Scan|Sort  \(|ERROR'
SET plan_cache_mode = force_custom_plan;
PREPARE q (integer, bigint, bigint, text, boolean, text, text, text, timestamptz, timestamptz,
    bigint, bigint) AS $(query dead_newest);
EXPLAIN EXECUTE q (30, 0, 9223372036854775807, 's1', false, NULL, NULL, NULL, NULL, NULL, 100, 0);
EXPLAIN EXECUTE q (30, 0, 9223372036854775807, NULL, true, NULL, NULL, NULL, NULL, NULL, 100, 0);
END
)"

done_testing
