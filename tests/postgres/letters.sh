#!/usr/bin/env bash
# Dead letters in SQL: retried, resolved and purged by their numbers or by conditions.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

# letters COUNT: so many events of alternating types become dead letters of the subscription jobs.
letters() {
    sql "SELECT FROM generate_series(1, $1) i,
             holdfast.publish('default', CASE i % 2 WHEN 1 THEN 'job.odd' ELSE 'job.even' END,
                              to_json(i));
         SELECT holdfast.bury('default', 'jobs', max(lease), error => 'disk full')
             FROM holdfast.claim('default', 'jobs', $1)" >/dev/null
}
numbers="SELECT string_agg(dead_id::text, ',' ORDER BY dead_id) FROM holdfast.dead_letters"
open="$numbers WHERE resolved_at IS NULL"
retry="SELECT holdfast.retry_dead_letters('default'"
resolve="SELECT holdfast.resolve_dead_letters('default'"
purge="SELECT holdfast.purge_dead_letters('default'"
sql "SELECT holdfast.create_subscription('default', 'jobs', '{job.*}', 'start', 'shared')" \
    >/dev/null
letters 6
is "(six dead letters)" "$open" "1,2,3,4,5,6"

# --- Retrying ---
is "one is retried by its number" "$retry, ARRAY[2])" 1
is "and is handed out again, with a clean record" \
    "SELECT payload, attempt FROM holdfast.claim('default', 'jobs')" "2|1"
is "another one with another payload" "$retry, ARRAY[1], payload => '{\"n\": 1.50}')" 1
is "which it is handed out with" "SELECT payload FROM holdfast.claim('default', 'jobs')" \
    '{"n": 1.50}'
is "those of a type" "$retry, type => '*.even', max => 1)" 1
is "are the oldest first" "$open" "3,5,6"
is "none matches" "$retry, error => 'no such text')" 0
is "one that was retried may be named twice" "$retry, ARRAY[3, 3])" 1
fails "one that is none" "$retry, ARRAY[5, 99])" "HF003: there is no dead letter 99"
fails "two payloads at once" "$retry, ARRAY[5, 6], payload => '1')" "HF002: a payload *"
fails "which ones must be said" "$retry)" "HF001: say which dead letters: ids, subscription, *"
fails "a type that is no pattern" "$retry, type => 'a..b')" "HF001: pattern *"
fails "too many" "$retry, everything => true, max => 10001)" \
    "HF001: max is 10001; it must be 1 to 10000"
is "what failed has changed nothing" "$open" "5,6"
is "all that are left" "$retry, everything => true)" 2
is "there is none left" "$numbers" ""

# --- Resolving ---
sql "SELECT FROM holdfast.drop_subscription('default', 'jobs');
     SELECT FROM holdfast.create_subscription('default', 'jobs', '{job.*}', 'now', 'shared')" \
    >/dev/null
letters 4
is "resolved with a note" "$resolve, ARRAY[7], note => 'mailed by hand')" 1
is "by the role that did it, unless it says another name" \
    "$resolve, ARRAY[8], resolved_by => 'ada'); SELECT resolved_by, resolved_note
    FROM holdfast.dead_letters WHERE resolved_at IS NOT NULL ORDER BY dead_id" \
    "1 holdfast|mailed by hand ada|"
fails "not twice" "$resolve, ARRAY[7])" "HF004: dead letter 7 is resolved already"
fails "nor retried then" "$retry, ARRAY[7])" "HF004: dead letter 7 is resolved already"
is "by a condition only open ones are meant" "$resolve, reason => 'rejected', max => 1); $open" \
    "1 10"

# --- Purging ---
is "purged are open ones" "$purge, everything => true); $numbers" "1 7,8,9"
is "and resolved ones, if it says so" \
    "$purge, failed_before => now(), resolved => true, max => 2); $numbers" "2 9"
is "or by their numbers" "$purge, ARRAY[9, 99]); $numbers" "1 "
fails "which ones must be said here, too" "$purge, resolved => true)" "HF001: say which *"

# --- A subscription that is gone ---
letters 1
sql "SELECT holdfast.drop_subscription('default', 'jobs')" >/dev/null
is "those of one that is gone are passed over" "$retry, everything => true); $open" "0 11"
fails "and named if they are asked for" "$retry, ARRAY[11])" \
    "HF003: dead letter 11 cannot be retried: there is no subscription jobs"

# --- More of them than a page ---
sql "SELECT FROM holdfast.create_subscription('default', 'many', '{many}', 'now', 'shared');
     SELECT FROM generate_series(1, 1001) i, holdfast.publish('default', 'many', to_json(i));
     SELECT holdfast.bury('default', 'many', max(lease))
         FROM holdfast.claim('default', 'many', 1001)" >/dev/null
many="ARRAY(SELECT dead_id FROM holdfast.dead_letters WHERE subscription = 'many')"
is "of those that are named all are meant, whatever the default of max is" "$retry, $many)" 1001
sql "SELECT holdfast.bury('default', 'many', max(lease))
         FROM holdfast.claim('default', 'many', 1001)" >/dev/null
is "also to be resolved" "$resolve, $many)" 1001
is "and purged" "$purge, $many); SELECT count(*) FROM holdfast.dead_letters
    WHERE subscription = 'many'" "1001 0"
sql "SELECT holdfast.drop_subscription('default', 'many')" >/dev/null

# --- Two sessions ---
sql "SELECT holdfast.create_subscription('default', 'jobs', '{job.*}', 'start', 'shared')" \
    >/dev/null
open a
open b
ask a "BEGIN; $resolve, ARRAY[11])" >/dev/null
tell b "$retry, ARRAY[11])"
ok "(a retry waits for who resolves it)" blocked b
ask a COMMIT >/dev/null
hears "and is told to try again" b "ERROR:  40001"
fails "then it learns what happened" "$retry, ARRAY[11])" "HF004: *resolved already"

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
for part in viewer publisher consumer; do
    sql "CREATE ROLE $part LOGIN;
         SELECT holdfast.namespace_grant('$part', 'default', '$part')" >/dev/null
done
sql "SELECT FROM holdfast.create_namespace('other');
     SELECT holdfast.create_subscription('other', 'jobs', '{**}', 'start', 'shared');
     SELECT FROM holdfast.publish('other', 'job.theirs');
     SELECT holdfast.bury('other', 'jobs', max(lease)) FROM holdfast.claim('other', 'jobs')" \
    >/dev/null
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
for part in viewer publisher; do
    for call in "$retry, everything => true)" "$resolve, ARRAY[11])" "$purge, ARRAY[11])"; do
        ok "a $part may not: $call" like "*42501*" "$(as $part "$call")"
    done
done
theirs=$(sql "SELECT dead_id FROM holdfast.dead_letters WHERE namespace = 'other'")
ok "a consumer finds none of another namespace" like "*there is no dead letter $theirs*" \
    "$(as consumer "$retry, ARRAY[$theirs])")"
ok "nor purges them" same 0 "$(as consumer "$purge, ARRAY[$theirs])")"
ok "nor is there another namespace for it" like "*HF003*there is no namespace other*" \
    "$(as consumer "${purge/default/other}, ARRAY[$theirs])")"
is "(it is still there)" "SELECT count(*) FROM holdfast.dead_letters WHERE dead_id = $theirs" 1
ok "its own ones it purges" same 1 "$(as consumer "$purge, ARRAY[11])")"
done_testing
