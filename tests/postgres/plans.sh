#!/usr/bin/env bash
# What a call costs when there are many namespaces and months: the locks it takes tell which tables it
# looked at. And which plans it makes of tables that nobody has analyzed.
. "$(dirname "$0")/lib.sh"
cluster
schema

A=00000000-0000-4000-8000-00000000000a
sql "SELECT count(*) FROM generate_series(2, 60) i, LATERAL holdfast.namespace_put('n' || i);
     SELECT FROM holdfast.publish_many('n30', array_fill('t'::text, ARRAY[3000]), NULL);
     SELECT FROM holdfast.process_beat(30, '$A', 'a', false);
     SELECT FROM holdfast.change_subscription_put(30, 's', '[\"**\"]', '{}', 2, 1, 0, -1, now());
     SELECT FROM holdfast.change_subscription_put(30, 'o', '[\"**\"]', '{}', 1, 1, 0, -1, now());
     SELECT FROM holdfast.change_acquire(30, 2, 0, '$A', 'a', false, NULL, NULL)" >/dev/null

# touches CLAIM SQL: no table of another namespace is locked, the tenth time as the first.
touches() {
    is "$1" "BEGIN; $(for _ in 1 2 3 4 5 6 7 8 9 10; do echo "SELECT FROM $2;"; done)
        SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text ~ 'events_\d+'
            AND relation::regclass::text !~ 'events_30(_|\$)'; COMMIT" 0
}
claim="holdfast.change_claim(30, 1, 0, NULL, '$A', 'a', NULL, false, 10, 1000, false, false, NULL, NULL, NULL, true, now())"
touches "publish" "holdfast.publish('n30', 'x')"
touches "publish, listed" "holdfast.publish('n30', 'x', id => gen_random_uuid())"
touches "publish_many" "holdfast.publish_many('n30', '{x,y}', NULL)"
touches "claim" "$claim"
touches "events by position" "holdfast.events_at(30, NULL, '{1,2,3}')"
touches "an event by id" "holdfast.find_id(30, gen_random_uuid())"
touches "settle with a dead letter" "holdfast.change_settle(30, 2, 0, '$A', 1, 0, 1, NULL, now(), '{3}', '{1}', '{1}', '{1}', '{0}', '{[]}', ARRAY[now()], '{x}', '{x}', '{f}')"
touches "settle" "holdfast.change_settle(30, 2, 0, '$A', 1, 0, 1, NULL, now())"
touches "the head" "holdfast.head(30)"

# scans CLAIM SQL: the statements inside neither scan nor sort the log, the journal, leases or retries.
scans() {
    ok "$1" same "" "$(psql -qXAt -c "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
        SET auto_explain.log_nested_statements = on; SET client_min_messages = log" -c "SELECT FROM $2" 2>&1 |
        awk '/Seq Scan on (holdfast\.)?(events|checkpoints|leases|retries|settled|copies|dead_letters|event_ids|keys)/
             sorts && /Sort Key: (e\.|o\.|events_)/
             { sorts = /Sort  \(cost/ }' |
        sort -u)"
}
scans "a claim uses indexes" "$claim"
scans "so does a settle" "holdfast.change_settle(30, 2, 0, '$A', 1, 0, 1, NULL, now())"
scans "and a publish" "holdfast.publish('n30', 'x', key => 'k', expected_version => 0)"
scans "and finding events" "holdfast.events_at(30, 1, '{1,2,3}')"

done_testing
