#!/usr/bin/env bash
# What waits for its next attempt, in SQL: retry_list, its pages, what is held behind a retry, and
# what roles may see.
. "$(dirname "$0")/lib.sh"
cluster
schema

list="SELECT position, state, attempts, error, behind_position, held
    FROM holdfast.retry_list('default'"
sql "SELECT holdfast.create_subscription('default', 'line', '{**}', 'start', 'ordered');
     SELECT holdfast.create_subscription('default', 'jobs', '{job.*}', 'start', 'shared',
                                         options => '{\"retry_base_ms\": 3600000,
                                             \"retry_max_ms\": 3600000,
                                             \"retry_jitter_percent\": 0}'::json);
     SELECT holdfast.create_subscription('default', 'calm', '{**}', 'start', 'shared')" >/dev/null
for key in a a b a; do
    sql "SELECT FROM holdfast.publish('default', 'job.x', '{\"n\": 1}', key => '$key')" >/dev/null
done
# Of line: 1 waits and holds 2 and 4, 3 waits and is due before it.
sql "INSERT INTO holdfast_private.retries (subscription_id, position, lane, next_attempt_at,
         last_retry_at, partition, attempts, kind, cause, story)
     SELECT 1, v.position, v.lane, now() + v.wait, now(), 0, v.attempts, v.kind, v.cause, v.story
     FROM (VALUES (1, 7, interval '2h', 2, 1, 'handler',
                   '[{\"attempt\":1,\"error\":\"one\"},{\"attempt\":2,\"error\":\"two\"}]'),
                  (2, 7, '0', 0, 2, NULL, NULL), (3, 8, '1h', 1, 1, 'timeout', '[{\"attempt\":1}]'),
                  (4, 7, '0', 0, 2, NULL, NULL))
         v (position, lane, wait, attempts, kind, cause, story)" >/dev/null
lease=$(sql "SELECT DISTINCT lease FROM holdfast.claim('default', 'jobs', 2)")
sql "SELECT holdfast.nack('default', 'jobs', '$lease', error => 'too early')" >/dev/null

is "retry_list lists by the time of the next attempt, with the last error" \
    "$list, 'line')" \
    "3|retrying|1|||0 1|retrying|2|two||2"
is "retry_list names the event, why it failed and when" \
    "SELECT position, type, key, cause, event_id IS NOT NULL, failed_at <= now(),
              next_attempt_at > now() FROM holdfast.retry_list('default', 'line')" \
    "3|job.x|b|timeout|t|t|t 1|job.x|a|handler|t|t|t"
is "retry_list lists at most max" \
    "$list, 'line', max => 1)" \
    "3|retrying|1|||0"
is "retry_list goes on behind the last row of the page before" \
    "SELECT b.position FROM holdfast.retry_list('default', 'line', max => 1) a,
     LATERAL holdfast.retry_list('default', 'line', after_next => a.next_attempt_at,
                                 after_position => a.position) b" 1
is "retry_list with behind lists what is held behind a retry" \
    "$list, 'line', behind => 1)" \
    "2|held|0||1|1 4|held|0||1|0"
is "retry_list with behind goes on behind a position" \
    "$list, 'line', behind => 1, after_position => 2)" \
    "4|held|0||1|0"
is "a held event has no next time" \
    "SELECT count(next_attempt_at) FROM holdfast.retry_list('default', 'line', behind => 1)" 0
is "nothing is held behind a retry that is alone in its key" \
    "$list, 'line', behind => 3)" \
    ""
is "retry_list lists what was nacked of a shared subscription" \
    "$list, 'jobs')" \
    '1|retrying|1|too early||0 2|retrying|1|too early||0'
is "nothing is held in a shared subscription" \
    "$list, 'jobs', behind => 1)" \
    ""
is "retry_list has no row if nothing has failed" \
    "$list, 'calm')" \
    ""
is "a retry that waits for those before it is held, without a time" \
    "UPDATE holdfast_private.retries SET next_attempt_at = to_timestamp(0), lane = 7, kind = 1
         WHERE subscription_id = 1 AND position = 4;
     SELECT state, behind_position, next_attempt_at FROM holdfast.retry_list('default', 'line')
         WHERE position = 4" "held|1|"
is "a page goes on behind a retry without a time" \
    "SELECT string_agg(position::text, ' ') FROM holdfast.retry_list('default', 'line',
                                                                     after_position => 4)" "3 1"

# --- What it refuses ---
fails "a subscription that is not there is not found" "$list, 'none')" "*HF003*"
fails "a namespace that is not there is not found" \
    "SELECT FROM holdfast.retry_list('none', 'line')" "*HF003*"
fails "a page of no rows is refused" "$list, 'line', max => 0)" "*HF001*"
fails "a page of too many rows is refused" "$list, 'line', max => 1001)" "*HF001*"
fails "a page of NULL rows is refused" "$list, 'line', max => NULL)" "*HF001*"

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
for part in viewer publisher consumer; do
    sql "CREATE ROLE $part LOGIN" >/dev/null
    sql "SELECT holdfast.namespace_grant('$part', 'default', '$part')" >/dev/null
done
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
seen="SELECT count(*) FROM holdfast.retry_list('default', 'line')"
for part in viewer consumer; do
    ok "a $part sees what is retrying" same 3 "$(as $part "$seen")"
done
ok "a publisher does not see what is retrying" like "*42501*" "$(as publisher "$seen")"
done_testing
