#!/usr/bin/env bash
# Schedules that a job of pg_cron fires: the job is made, changed and removed with the schedule.
. "$(dirname "$0")/lib.sh"
if [ -z "$(find /usr/lib/postgresql /usr/pgsql-* -name pg_cron.so 2>/dev/null)" ]; then
    skip "everything" "pg_cron is not installed; run: scripts/deps postgres"
    done_testing
    exit
fi
cluster shared_preload_libraries=pg_cron cron.database_name=test1 cron.use_background_workers=on
schema
sql "CREATE EXTENSION pg_cron" >/dev/null
make() { echo "SELECT holdfast.create_schedule('default', $1, driver => 'pg_cron') IS NOT NULL"; }
jobs="SELECT coalesce(string_agg(schedule, ',' ORDER BY schedule), '-') FROM cron.job"

fails "any zone but UTC is refused" "$(make "'s', '0 9 * * *', 't', zone => 'Europe/Berlin'")" \
    'HF001: pg_cron knows no time zone but UTC, and schedule s is in Europe/Berlin'
fails "seconds are refused" "$(make "'s', '*/10 * * * * *', 't'")" 'HF001: pg_cron knows no seconds*'
is "and nothing is left of it" "SELECT (SELECT count(*) FROM holdfast.schedules) + (SELECT count(*) FROM cron.job)" 0
open a
is "made in a transaction" "SELECT '$(ask a "BEGIN; $(make "'s', '0 9 * * *', 't'")")'" t
is "the job is not there before the commit" "$jobs" -
ask a 'ROLLBACK' >/dev/null
is "nor after a rollback" "$jobs" -
is "made" "$(make "'s', '0 9 * * *', 't'")" t
is "the job has the expression" "$jobs" '0 9 * * *'
is "made again" "$(make "'s', '0 9 * * *', 't'")" t
is "there is one job" "$jobs" '0 9 * * *'
is "changed" "$(make "'s', '30 9 ? * MON', 't'")" t
is "so is the job" "$jobs" '30 9 * * MON'
fails "changed to another zone by whoever does not know" \
    "UPDATE holdfast.schedules SET zone = 'Asia/Kathmandu'" 'HF001: pg_cron knows no time zone but UTC*'
is "without the driver" "SELECT holdfast.create_schedule('default', 's', '30 9 * * MON', 't') IS NOT NULL" t
is "there is no job" "$jobs" -
is "with it" "$(make "'s', '@hourly', 't'")" t
is "there is one" "$jobs" @hourly
is "dropped in a transaction" "SELECT '$(ask a "BEGIN; SELECT holdfast.drop_schedule('default', 's')")'" ''
ask a 'ROLLBACK' >/dev/null
is "that is rolled back, it stays" "$jobs" @hourly
is "dropped" "SELECT holdfast.drop_schedule('default', 's')" ''
is "the job goes" "$jobs" -

# Every minute; the job wakes us, and what is due is fired once.
is "every minute" "$(make "'m', '* * * * *', 'minute'")" t
fired="SELECT count(*) FROM holdfast.event_log WHERE type = 'minute'"
for _ in $(seq 1800); do
    [ "$(sql "$fired")" = 0 ] || break
    sleep 0.1
done
ok "the job fires it" test "$(sql "$fired")" -ge 1
is "for the planned time" "SELECT count(*) FROM holdfast.event_log WHERE type = 'minute'
    AND (extract(second FROM emitted_at) <> 0 OR id <> holdfast.planned_id(schedule_id::uuid, emitted_at))" 0
sql "SELECT FROM holdfast.namespace_put('other')" >/dev/null
is "in another namespace" "SELECT holdfast.create_schedule('other', 'm', '@daily', 't', driver => 'pg_cron') IS NOT NULL" t
for _ in $(seq 100); do
    [ "$(sql "SELECT more FROM holdfast.change_namespace_remove(1, 'other', true, 1000)")" = t ] || break
done
is "whose removal takes the job along" "$jobs" '* * * * *'
shut a
done_testing
