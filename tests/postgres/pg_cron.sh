#!/usr/bin/env bash
# Schedules that a job of pg_cron fires: the job is made, changed and removed with the schedule.
. "$(dirname "$0")/lib.sh"
if [ -z "$(find /usr/lib/postgresql /usr/pgsql-* -name pg_cron.so 2>/dev/null)" ]; then
    skip "all claims about pg_cron" "pg_cron is not installed; run: scripts/deps postgres"
    done_testing
    exit
fi
cluster shared_preload_libraries=pg_cron cron.database_name=test1 cron.use_background_workers=on
schema
sql "CREATE SCHEMA cron; CREATE FUNCTION cron.schedule(text, text, text) RETURNS bigint
    LANGUAGE sql AS 'SELECT 1::bigint'" >/dev/null
fails "create_schedule does not take a schema named cron for pg_cron" \
    "SELECT holdfast.create_schedule('default', 's', '0 9 * * *', 't', driver => 'pg_cron')" \
    "HF002: driver is pg_cron, and that extension is not installed*"
sql "DROP SCHEMA cron CASCADE; CREATE EXTENSION pg_cron" >/dev/null
make() { echo "SELECT holdfast.create_schedule('default', $1, driver => 'pg_cron') IS NOT NULL"; }
jobs="SELECT coalesce(string_agg(schedule, ',' ORDER BY schedule), '-') FROM cron.job"

fails "create_schedule with pg_cron refuses any zone but UTC" \
    "$(make "'s', '0 9 * * *', 't', zone => 'Europe/Berlin'")" \
    'HF001: zone is Europe/Berlin; pg_cron knows none but UTC'
fails "create_schedule with pg_cron refuses seconds" "$(make "'s', '*/10 * * * * *', 't'")" \
    'HF001: expression "*/10 * * * * *" has seconds*'
fails "create_schedule with pg_cron refuses @every" "$(make "'s', '@every 5m', 't'")" \
    'HF001: expression "@every 5m" is a period, which pg_cron does not have: write it with five *'
is "refused schedules leave neither schedule nor job" \
    "SELECT (SELECT count(*) FROM holdfast_private.schedules) + (SELECT count(*) FROM cron.job)" 0
open a
is "setup: create_schedule with pg_cron in a transaction" \
    "SELECT '$(ask a "BEGIN; $(make "'s', '0 9 * * *', 't'")")'" t
is "the job is not there before the commit" "$jobs" -
ask a 'ROLLBACK' >/dev/null
is "the job is not there after a rollback" "$jobs" -
is "create_schedule with pg_cron makes a schedule" "$(make "'s', '0 9 * * *', 't'")" t
is "a schedule with pg_cron has a job with its expression" "$jobs" '0 9 * * *'
is "create_schedule with pg_cron succeeds a second time" "$(make "'s', '0 9 * * *', 't'")" t
is "a schedule that is made twice has one job" "$jobs" '0 9 * * *'
is "create_schedule with pg_cron takes another expression" "$(make "'s', '30 9 ? * MON', 't'")" t
is "the job gets the other expression" "$jobs" '30 9 * * 1'
fails "a schedule with pg_cron cannot get another zone" \
    "UPDATE holdfast_private.schedules
    SET zone = 'Asia/Kathmandu'" 'HF001: zone is Asia/Kathmandu; pg_cron knows none but UTC'
is "create_schedule without a driver succeeds for a schedule with a job" \
    "SELECT holdfast.create_schedule('default', 's', '30 9 * * MON', 't') IS NOT NULL" t
is "a schedule without the driver pg_cron has no job" "$jobs" -
is "create_schedule gives a schedule the driver pg_cron" "$(make "'s', '@hourly', 't'")" t
is "a schedule that gets the driver pg_cron gets a job" "$jobs" '0 * * * *'
is "setup: drop_schedule in a transaction" \
    "SELECT '$(ask a "BEGIN; SELECT holdfast.drop_schedule('default', 's')")'" ''
ask a 'ROLLBACK' >/dev/null
is "the job stays if drop_schedule is rolled back" "$jobs" '0 * * * *'
is "drop_schedule takes a schedule with pg_cron" "SELECT holdfast.drop_schedule('default', 's')" ''
is "drop_schedule removes the job" "$jobs" -

# What is written in another way there, or cannot be.
understood() { # EXPRESSION WANTED
    is "cron_for_job writes '$1' as pg_cron has it" "SELECT holdfast_private.cron_for_job('$1')" \
        "$2"
}
understood '* * * * *' '* * * * *'
understood '5/20 0-23 * JAN,mar FRI-SUN' '5,25,45 * * 1,3 0,5,6'
understood '0 0 13 * FRI' '0 0 13 * 5'
understood '0 0 1-30 * FRI' "0 0 $(seq -s, 30) * 5"
understood '0 0 1-31 * 7' "0 0 $(seq -s, 31) * 0"
understood '0 0 */10 * ?' '0 0 1,11,21,31 * *'
understood '0 0 */10 * MON' '0 0 */10 * 1'
understood '0 0 1 * */2' '0 0 1 * */2'
understood ' @Midnight ' '0 0 * * *'
fails "cron_for_job refuses fields of days that must both match" \
    "SELECT holdfast_private.cron_for_job('0 0 */2,5 * MON')" \
    'HF001: expression "0 0 */2,5 * MON": pg_cron cannot have these two fields of days'

# ---- The command --------------------------------------------------------------------------------
url="postgresql:///$PGDATABASE?host=$cluster_dir&user=holdfast"
hf() { env -u PGOPTIONS "$HOLDFAST" "$@" --db "$url" 2>&1; }
says() { # CLAIM PATTERN ARGS...
    local claim=$1 pattern=$2
    shift 2
    ok "$claim" like "$pattern" "$(hf "$@" | paste -sd' ' -)"
}
says "schedule add --driver pg_cron refuses seconds" \
    'holdfast: expression "0 * * * * *" has seconds*' \
    schedule add c '0 * * * * *' t --driver pg_cron
says "schedule add --driver pg_cron refuses @every" \
    'holdfast: expression "@every 5m" is a period, which pg_cron does not have*' \
    schedule add c '@every 5m' t --driver pg_cron
says "schedule add --driver pg_cron refuses a zone" \
    'holdfast: zone is Europe/Berlin; pg_cron knows none but UTC' \
    schedule add c '0 9 * * *' t --zone Europe/Berlin --driver pg_cron
is "refused schedules of the command leave nothing" \
    "SELECT count(*) FROM holdfast_private.schedules" 0
says "schedule add --driver pg_cron adds a schedule" \
    'Schedule c added.' schedule add c '0 9 * * FRI-SUN' t --driver pg_cron
is "schedule add --driver pg_cron makes a job" "$jobs" '0 9 * * 0,5,6'
says "schedule list shows the driver pg_cron" '* pg_cron *' schedule list
says "schedule show prints the driver pg_cron" '* driver:*pg_cron *' schedule show c
says "schedule show --json prints the driver pg_cron" '*"driver":"pg_cron"*' schedule show c --json
job="SELECT job FROM holdfast_private.schedules WHERE name = 'c'"
before=$(sql "$job")
says "schedule add --driver pg_cron takes the same schedule again" \
    'Schedule c changed.' schedule add c '0 9 * * FRI-SUN' t --driver pg_cron
is "a schedule that is added again keeps its job" "$job" "$before"
says "schedule add --driver pg_cron takes another expression" \
    'Schedule c changed.' schedule add c '30 9 * * *' t --driver pg_cron
is "schedule add with another expression changes the job" "$jobs" '30 9 * * *'
says "schedule add --driver pg_cron refuses seconds of a schedule that exists" \
    'holdfast: expression "0 30 9 * * *" has seconds*' \
    schedule add c '0 30 9 * * *' t --driver pg_cron
is "a refused schedule add keeps the expression" \
    "SELECT expression FROM holdfast_private.schedules WHERE name = 'c'" \
    '30 9 * * *'
is "a refused schedule add keeps the job" "$jobs" '30 9 * * *'
sql "UPDATE holdfast_private.schedules SET next_at = '2026-01-01 09:30Z'" >/dev/null
says "schedule add without --driver changes a schedule with a job" \
    'Schedule c changed.' schedule add c '30 9 * * *' t
is "schedule add without --driver removes the job" "$jobs" -
is "schedule add without --driver keeps the time that is due" \
    "SELECT next_at = '2026-01-01 09:30Z' FROM holdfast_private.schedules" t
says "schedule show prints the driver own" '* driver:*own *' schedule show c
says "schedule add --driver pg_cron changes a schedule without a job" \
    'Schedule c changed.' schedule add c '30 9 * * *' t --driver pg_cron
is "schedule add --driver pg_cron makes a job again" "$jobs" '30 9 * * *'
is "schedule add --driver pg_cron keeps the time that is due" \
    "SELECT next_at = '2026-01-01 09:30Z' FROM holdfast_private.schedules" t
says "schedule pause takes a schedule with a job" '' schedule pause c
is "fire_schedule does not fire a paused schedule" \
    "SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules" 0
says "schedule resume takes a schedule with a job" '' schedule resume c
sql "UPDATE holdfast_private.schedules SET next_at = date_trunc('second', now())" >/dev/null
is "fire_schedule fires a resumed schedule" \
    "SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules" 1
is "pausing and resuming keep the job" "$jobs" '30 9 * * *'
copy=$(mktemp -d)
ok "copy says that a schedule has lost its job" \
    like '*1 schedule lost its job of pg_cron: only processes*' \
    "$(env -u PGOPTIONS "$HOLDFAST" copy "$url" "sqlite:$copy/a.db" --live 2>&1 | paste -sd' ' -)"
ok "copy --json counts schedules that have lost their jobs" like '*"undriven":1}' \
    "$(env -u PGOPTIONS "$HOLDFAST" copy "$url" "sqlite:$copy/b.db" --live --json 2>&1 | tail -1)"
ok "a copied schedule has the driver own" like '*"driver":"own"*' \
    "$("$HOLDFAST" schedule show c --json --db "sqlite:$copy/a.db")"
rm -rf "$copy"
says "schedule add takes another zone without the driver" 'Schedule c changed.' schedule add c \
    '30 9 * * *' t --zone Europe/Berlin
is "schedule add with another zone and no driver removes the job" "$jobs" -
says "schedule add gives the driver pg_cron back" \
    'Schedule c changed.' schedule add c '30 9 * * *' t --driver pg_cron
says "schedule rm takes a schedule with a job" '*removed*' schedule rm c --yes
is "schedule rm removes the job" "$jobs" -

# ---- Jobs of others, and jobs that are gone
# --------------------------------------------------------
job="SELECT coalesce(job::text, '-') FROM holdfast_private.schedules"
is "setup: a schedule has a job" "$(make "'s', '0 9 * * *', 't'")" t
sql "SELECT cron.unschedule(job) FROM holdfast_private.schedules" >/dev/null
is "create_schedule succeeds if the job was removed" "$(make "'s', '30 9 * * *', 't'")" t
is "a schedule whose job was removed gets a new one" "$jobs" '30 9 * * *'
sql "SELECT cron.unschedule(job), cron.schedule('mine', '1 1 1 1 *', 'SELECT 1')
    FROM holdfast_private.schedules" >/dev/null
sql "UPDATE holdfast_private.schedules SET job = (SELECT jobid FROM cron.job)" >/dev/null
is "drop_schedule succeeds if the job's number is that of another job" \
    "SELECT holdfast.drop_schedule('default', 's')" ''
is "drop_schedule leaves another job with that number alone" "$jobs" '1 1 1 1 *'
sql "SELECT cron.unschedule('mine')" >/dev/null
if [ "$(sql "SHOW server_version_num")" -ge 150000 ]; then
    sql "CREATE ROLE mate; SELECT holdfast.namespace_grant('owner', 'default', 'mate')" >/dev/null
    ask a "SET ROLE mate" >/dev/null
    is "setup: a role makes a schedule with a job" "$(make "'s', '0 9 * * *', 't'")" t
    asks "a role that may not use pg_cron changes a schedule to its own driver" a \
        "SELECT holdfast.create_schedule('default', 's', '0 9 * * *', 't') IS NOT NULL" t
    is "a schedule that another role changed has no job" "$job" -
    is "the job is removed when another role changes the schedule" "$jobs" -
    is "setup: the role makes the job again" "$(make "'s', '0 9 * * *', 't'")" t
    asks "a role that may not use pg_cron changes the expression of a schedule with a job" \
        a "$(make "'s', '30 9 * * *', 't'")" t
    is "the job belongs to the owner of the schema" \
        "SELECT string_agg(username || ' ' || schedule, ','
        ORDER BY username) FROM cron.job" 'holdfast 30 9 * * *'
    asks "a role that may not use pg_cron drops a schedule with a job" \
        a "SELECT holdfast.drop_schedule('default', 's')" ''
    is "the job is removed when another role drops the schedule" "$jobs" -
    ask a "RESET ROLE" >/dev/null
fi

# Every minute; the job wakes us, and what is due is fired once.
is "create_schedule with pg_cron takes every minute" "$(make "'m', '* * * * *', 'minute'")" t
fired="SELECT count(*) FROM holdfast.event_log WHERE type = 'minute'"
has_fired() { [ "$(sql "$fired")" -ge 1 ]; }
ok "the job of pg_cron fires the schedule" until_true 180 has_fired
is "an event of a job has the planned time and its id" \
    "SELECT count(*) FROM holdfast.event_log WHERE type = 'minute'
    AND (extract(second FROM emitted_at) <> 0
        OR id <> holdfast_private.planned_id(schedule_id::uuid, emitted_at))" 0
sql "SELECT FROM holdfast_private.namespace_put('other')" >/dev/null
is "setup: a schedule with a job is made in another namespace" \
    "SELECT holdfast.create_schedule('other', 'm', '@daily', 't',
    driver => 'pg_cron') IS NOT NULL" t
for _ in $(seq 100); do
    [ "$(sql "SELECT more FROM holdfast.change_namespace_remove(1, 'other', true, 1000)")" = t ] ||
        break
done
is "removing a namespace removes the jobs of its schedules" "$jobs" '* * * * *'
shut a
done_testing
