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
is "setup: six dead letters are there" "$open" "1,2,3,4,5,6"

# --- Groups ---
groups="FROM holdfast.dead_letter_groups('default'"
is "dead_letter_groups counts by error" "SELECT text, letters, newest_dead_id, more $groups)" \
    "disk full|6|6|f"
is "dead_letter_groups counts by type, the newer of two equal groups first" \
    "SELECT text, letters $groups, 'type')" "job.even|3 job.odd|3"
is "dead_letter_groups takes conditions for the letters" \
    "SELECT text, letters $groups, 'subscription', type => '*.odd', error => 'full')" "jobs|3"
is "dead_letter_groups takes times, for which it reads the letters" \
    "SELECT text, letters $groups, 'reason', failed_before => now())" "rejected|6"
is "dead_letter_groups has at most max rows" "SELECT text $groups, 'type', max => 1)" "job.even"
is "dead_letter_groups has the time of the oldest and of the newest" \
    "SELECT oldest_failed_at <= newest_failed_at, newest_failed_at = (
         SELECT failed_at FROM holdfast.dead_letters WHERE dead_id = 6) $groups)" "t|t"
fails "dead_letter_groups refuses another field" "SELECT $groups, 'key')" "HF001: by is key; *"
fails "dead_letter_groups refuses a max of 0" "SELECT $groups, max => 0)" "HF001: max is 0; *"
fails "dead_letter_groups refuses a type that is no pattern" "SELECT $groups, type => 'a..b')" \
    "HF001: pattern *"

# --- Retrying ---
is "retry_dead_letters takes a number" "$retry, ARRAY[2])" 1
is "a retried dead letter is handed out as attempt 1" \
    "SELECT payload, attempt FROM holdfast.claim('default', 'jobs')" "2|1"
is "retry_dead_letters takes another payload" "$retry, ARRAY[1], payload => '{\"n\": 1.50}')" 1
is "a dead letter that is retried with another payload is handed out with it" \
    "SELECT payload FROM holdfast.claim('default', 'jobs')" \
    '{"n": 1.50}'
is "retry_dead_letters takes a pattern of types and a max" "$retry, type => '*.even', max => 1)" 1
is "retry_dead_letters with a max retries the oldest first" "$open" "3,5,6"
is "retry_dead_letters returns 0 if none matches" "$retry, error => 'no such text')" 0
is "retry_dead_letters takes a number twice" "$retry, ARRAY[3, 3])" 1
fails "retry_dead_letters of an unknown number is not found" \
    "$retry, ARRAY[5, 99])" "HF003: there is no dead letter 99"
fails "retry_dead_letters refuses a payload for two dead letters" \
    "$retry, ARRAY[5, 6], payload => '1')" "HF002: a payload *"
fails "retry_dead_letters refuses a call without a condition" \
    "$retry)" "HF001: say which dead letters: ids, subscription, *"
fails "retry_dead_letters refuses a type that is no pattern" \
    "$retry, type => 'a..b')" "HF001: pattern *"
fails "retry_dead_letters refuses a max of 10001" "$retry, everything => true, max => 10001)" \
    "HF001: max is 10001; it must be 1 to 10000"
is "refused calls of retry_dead_letters have changed nothing" "$open" "5,6"
is "retry_dead_letters with everything retries all" "$retry, everything => true)" 2
is "no dead letter is left after everything was retried" "$numbers" ""

# --- Resolving ---
sql "SELECT FROM holdfast.drop_subscription('default', 'jobs');
     SELECT FROM holdfast.create_subscription('default', 'jobs', '{job.*}', 'now', 'shared')" \
    >/dev/null
letters 4
is "resolve_dead_letters takes a note" "$resolve, ARRAY[7], note => 'mailed by hand')" 1
is "resolved_by is the role, or the name that is given" \
    "$resolve, ARRAY[8], resolved_by => 'ada'); SELECT resolved_by, resolved_note
    FROM holdfast.dead_letters WHERE resolved_at IS NOT NULL ORDER BY dead_id" \
    "1 holdfast|mailed by hand ada|"
fails "resolve_dead_letters refuses a note of 2049 bytes, as the library does" \
    "$resolve, ARRAY[9], note => repeat('n', 2049))" "HF001: note is 2049 bytes; *"
fails "resolve_dead_letters refuses a resolved_by of 256 bytes, as the library does" \
    "$resolve, ARRAY[9], resolved_by => repeat('b', 256))" "HF001: resolved_by is 256 bytes; *"
fails "resolve_dead_letters of a resolved one is a conflict" \
    "$resolve, ARRAY[7])" "HF004: dead letter 7 is resolved already"
fails "retry_dead_letters of a resolved one is a conflict" \
    "$retry, ARRAY[7])" "HF004: dead letter 7 is resolved already"
is "resolve_dead_letters by a condition resolves only open ones" \
    "$resolve, reason => 'rejected', max => 1); $open" \
    "1 10"

# --- Purging ---
is "purge_dead_letters with everything purges only open ones" \
    "$purge, everything => true); $numbers" "1 7,8,9"
is "purge_dead_letters with resolved purges resolved ones, too" \
    "$purge, failed_before => now(), resolved => true, max => 2); $numbers" "2 9"
is "purge_dead_letters takes numbers and ignores unknown ones" \
    "$purge, ARRAY[9, 99]); $numbers" "1 "
fails "purge_dead_letters refuses a call without a condition" \
    "$purge, resolved => true)" "HF001: say which *"

# --- Conditions ---
sql "SELECT holdfast.create_subscription('default', 'others', '{other}', 'start', 'shared');
     SELECT FROM holdfast.publish('default', 'other');
     SELECT holdfast.bury('default', 'others', max(lease), error => 'broken')
         FROM holdfast.claim('default', 'others')" >/dev/null
letters 2
sql "UPDATE holdfast_private.letters SET failed_at = '2026-01-01 00:00:00Z' WHERE id = 12;
     UPDATE holdfast_private.letters SET reason = 'attempts' WHERE id = 13" >/dev/null
is "setup: three dead letters differ in subscription, time and reason" "$open" "11,12,13"
# picks CLAIM CONDITIONS NUMBERS: retrying, resolving and purging take these; each is rolled back.
picks() {
    local verb
    for verb in retry resolve purge; do
        is "${verb}_dead_letters takes $1" \
            "BEGIN; SELECT holdfast.${verb}_dead_letters('default', $2); $open; ROLLBACK" "$3"
    done
}
picks "those of a subscription" "subscription => 'others'" "1 12,13"
picks "those with a reason" "reason => 'attempts'" "1 11,12"
picks "those with a part of an error" "error => 'roke'" "1 12,13"
picks "those that failed before a time" "failed_before => '2026-01-02 00:00:00Z'" "1 11,13"
picks "those that failed at a time" "failed_before => '2026-01-01 00:00:00Z'" "1 11,13"
picks "those that failed after a time" "failed_after => '2026-01-02 00:00:00Z'" "2 12"
picks "those that failed at a time or after it" "failed_after => '2026-01-01 00:00:00Z'" "3 "
picks "those for which all conditions hold" \
    "failed_after => '2026-01-02 00:00:00Z', subscription => 'jobs'" "1 11,12"
is "no dead letter is left of those with conditions" "$purge, everything => true); $open" "3 "
sql "SELECT holdfast.drop_subscription('default', 'others')" >/dev/null

# --- A subscription that is gone ---
letters 1
sql "SELECT holdfast.drop_subscription('default', 'jobs')" >/dev/null
is "retry_dead_letters passes over dead letters of dropped subscriptions" \
    "$retry, everything => true); $open" "0 14"
sql "SELECT holdfast.create_subscription('default', 'kept', '{kept}', 'now', 'shared');
     SELECT FROM holdfast.publish('default', 'kept');
     SELECT holdfast.bury('default', 'kept', max(lease)) FROM holdfast.claim('default', 'kept')" \
    >/dev/null
is "retry_dead_letters does not count dead letters of dropped subscriptions in max" \
    "$retry, everything => true, max => 1); $open" "1 14"
sql "SELECT holdfast.drop_subscription('default', 'kept')" >/dev/null
fails "retry_dead_letters by number names the dropped subscription" "$retry, ARRAY[14])" \
    "HF003: dead letter 14 cannot be retried: there is no subscription jobs"

# --- Limits of a call, and other namespaces ---
sql "SELECT holdfast.create_namespace('before');
     SELECT holdfast.create_subscription('before', 'kept', '{kept}', 'start', 'shared');
     SELECT FROM holdfast.publish('before', 'kept');
     SELECT holdfast.bury('before', 'kept', max(lease)) FROM holdfast.claim('before', 'kept');
     SELECT holdfast.create_subscription('default', 'kept', '{kept}', 'now', 'shared');
     SELECT FROM holdfast.publish('default', 'kept');
     SELECT holdfast.bury('default', 'kept', max(lease)) FROM holdfast.claim('default', 'kept')" \
    >/dev/null
kept=$(sql "SELECT dead_id FROM holdfast.dead_letters
    WHERE namespace = 'default' AND subscription = 'kept'")
fails "retry_dead_letters refuses a payload that is too large" \
    "$retry, ARRAY[$kept], payload => to_json(repeat('x', 1048576)))" "HF001: payload is *"
fails "retry_dead_letters refuses 10001 numbers" \
    "$retry, ARRAY(SELECT generate_series(1, 10001)))" "HF001: there are 10001 ids; *"
is "retry_dead_letters does not count dead letters of other namespaces in max" \
    "$retry, subscription => 'kept', max => 1)" 1
sql "SELECT holdfast.drop_subscription('default', 'kept')" >/dev/null

# --- More of them than a page ---
sql "SELECT FROM holdfast.create_subscription('default', 'many', '{many}', 'now', 'shared');
     SELECT FROM generate_series(1, 1001) i, holdfast.publish('default', 'many', to_json(i));
     SELECT holdfast.bury('default', 'many', max(lease))
         FROM holdfast.claim('default', 'many', 1001)" >/dev/null
many="ARRAY(SELECT dead_id FROM holdfast.dead_letters WHERE subscription = 'many')"
is "retry_dead_letters retries all numbers that are given, above the default of max" \
    "$retry, $many)" 1001
sql "SELECT holdfast.bury('default', 'many', max(lease))
         FROM holdfast.claim('default', 'many', 1001)" >/dev/null
is "resolve_dead_letters resolves all numbers that are given" "$resolve, $many)" 1001
is "purge_dead_letters purges all numbers that are given" \
    "$purge, $many); SELECT count(*) FROM holdfast.dead_letters
    WHERE subscription = 'many'" "1001 0"
sql "SELECT holdfast.drop_subscription('default', 'many')" >/dev/null

# --- Two sessions ---
sql "SELECT holdfast.create_subscription('default', 'jobs', '{job.*}', 'start', 'shared')" \
    >/dev/null
open a
open b
ask a "BEGIN; $resolve, ARRAY[14])" >/dev/null
tell b "$retry, ARRAY[14])"
ok "retry_dead_letters waits for a transaction that resolves the dead letter" blocked b
ask a COMMIT >/dev/null
hears "retry_dead_letters gets a serialization failure after the dead letter was resolved" \
    b "ERROR:  40001"
fails "retry_dead_letters of a dead letter that was resolved meanwhile is a conflict" \
    "$retry, ARRAY[14])" "HF004: *resolved already"

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
    for call in "$retry, everything => true)" "$resolve, ARRAY[14])" "$purge, ARRAY[14])"; do
        ok "a $part cannot call $call" like "*42501*" "$(as $part "$call")"
    done
done
theirs=$(sql "SELECT dead_id FROM holdfast.dead_letters WHERE namespace = 'other'")
ok "a consumer does not find dead letters of another namespace" \
    like "*there is no dead letter $theirs*" \
    "$(as consumer "$retry, ARRAY[$theirs])")"
ok "a consumer does not purge dead letters of another namespace" \
    same 0 "$(as consumer "$purge, ARRAY[$theirs])")"
ok "a consumer does not find another namespace" like "*HF003*there is no namespace other*" \
    "$(as consumer "${purge/default/other}, ARRAY[$theirs])")"
is "the dead letter of another namespace is still there" \
    "SELECT count(*) FROM holdfast.dead_letters WHERE dead_id = $theirs" 1
ok "a consumer purges dead letters of its own namespace" \
    same 1 "$(as consumer "$purge, ARRAY[14])")"
done_testing
