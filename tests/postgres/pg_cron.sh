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
sql "CREATE SCHEMA cron; CREATE FUNCTION cron.schedule(text, text, text) RETURNS bigint
    LANGUAGE sql AS 'SELECT 1::bigint'" >/dev/null
fails "a schema cron that is not pg_cron's is not believed" \
    "SELECT holdfast.create_schedule('default', 's', '0 9 * * *', 't', driver => 'pg_cron')" \
    "HF002: driver is pg_cron, and that extension is not installed*"
sql "DROP SCHEMA cron CASCADE; CREATE EXTENSION pg_cron" >/dev/null
make() { echo "SELECT holdfast.create_schedule('default', $1, driver => 'pg_cron') IS NOT NULL"; }
jobs="SELECT coalesce(string_agg(schedule, ',' ORDER BY schedule), '-') FROM cron.job"

fails "any zone but UTC is refused" "$(make "'s', '0 9 * * *', 't', zone => 'Europe/Berlin'")" \
    'HF001: zone is Europe/Berlin; pg_cron knows none but UTC'
fails "seconds are refused" "$(make "'s', '*/10 * * * * *', 't'")" \
    'HF001: expression "*/10 * * * * *" has seconds*'
fails "a period is refused" "$(make "'s', '@every 5m', 't'")" \
    'HF001: expression "@every 5m" is a period, which pg_cron does not have: write it with five *'
is "and nothing is left of it" \
    "SELECT (SELECT count(*) FROM holdfast_private.schedules) + (SELECT count(*) FROM cron.job)" 0
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
is "so is the job" "$jobs" '30 9 * * 1'
fails "changed to another zone by a caller that gives none" \
    "UPDATE holdfast_private.schedules
    SET zone = 'Asia/Kathmandu'" 'HF001: zone is Asia/Kathmandu; pg_cron knows none but UTC'
is "without the driver" \
    "SELECT holdfast.create_schedule('default', 's', '30 9 * * MON', 't') IS NOT NULL" t
is "there is no job" "$jobs" -
is "with it" "$(make "'s', '@hourly', 't'")" t
is "there is one" "$jobs" '0 * * * *'
is "dropped in a transaction" \
    "SELECT '$(ask a "BEGIN; SELECT holdfast.drop_schedule('default', 's')")'" ''
ask a 'ROLLBACK' >/dev/null
is "that is rolled back, it stays" "$jobs" '0 * * * *'
is "dropped" "SELECT holdfast.drop_schedule('default', 's')" ''
is "the job goes" "$jobs" -

# What is written in another way there, or cannot be.
understood() { is "$1" "SELECT holdfast_private.cron_for_job('$1')" "$2"; }
understood '* * * * *' '* * * * *'
understood '5/20 0-23 * JAN,mar FRI-SUN' '5,25,45 * * 1,3 0,5,6'
understood '0 0 13 * FRI' '0 0 13 * 5'
understood '0 0 1-30 * FRI' "0 0 $(seq -s, 30) * 5"
understood '0 0 1-31 * 7' "0 0 $(seq -s, 31) * 0"
understood '0 0 */10 * ?' '0 0 1,11,21,31 * *'
understood '0 0 */10 * MON' '0 0 */10 * 1'
understood '0 0 1 * */2' '0 0 1 * */2'
understood ' @Midnight ' '0 0 * * *'
fails "days that must both match" "SELECT holdfast_private.cron_for_job('0 0 */2,5 * MON')" \
    'HF001: expression "0 0 */2,5 * MON": pg_cron cannot have these two fields of days'

# ---- The command --------------------------------------------------------------------------------
url="postgresql:///$PGDATABASE?host=$cluster_dir&user=holdfast"
hf() { env -u PGOPTIONS "$HOLDFAST" "$@" --db "$url" 2>&1; }
says() { # CLAIM PATTERN ARGS...
    local claim=$1 pattern=$2
    shift 2
    ok "$claim" like "$pattern" "$(hf "$@" | paste -sd' ' -)"
}
says "seconds are refused" 'holdfast: expression "0 * * * * *" has seconds*' \
    schedule add c '0 * * * * *' t --driver pg_cron
says "so is a period" 'holdfast: expression "@every 5m" is a period, which pg_cron does not have*' \
    schedule add c '@every 5m' t --driver pg_cron
says "so is a zone" 'holdfast: zone is Europe/Berlin; pg_cron knows none but UTC' \
    schedule add c '0 9 * * *' t --zone Europe/Berlin --driver pg_cron
is "nothing is left of them" "SELECT count(*) FROM holdfast_private.schedules" 0
says "add makes one" 'Schedule c added.' schedule add c '0 9 * * FRI-SUN' t --driver pg_cron
is "with its job" "$jobs" '0 9 * * 0,5,6'
says "list shows it" '* pg_cron *' schedule list
says "show, too" '* driver:*pg_cron *' schedule show c
says "and in JSON" '*"driver":"pg_cron"*' schedule show c --json
job="SELECT job FROM holdfast_private.schedules WHERE name = 'c'"
before=$(sql "$job")
says "the same again" 'Schedule c changed.' schedule add c '0 9 * * FRI-SUN' t --driver pg_cron
is "keeps its job" "$job" "$before"
says "another expression" 'Schedule c changed.' schedule add c '30 9 * * *' t --driver pg_cron
is "changes it" "$jobs" '30 9 * * *'
says "one that cannot be" 'holdfast: expression "0 30 9 * * *" has seconds*' \
    schedule add c '0 30 9 * * *' t --driver pg_cron
is "changes nothing" "SELECT expression FROM holdfast_private.schedules WHERE name = 'c'" \
    '30 9 * * *'
is "nor the job" "$jobs" '30 9 * * *'
sql "UPDATE holdfast_private.schedules SET next_at = '2026-01-01 09:30Z'" >/dev/null
says "without the driver" 'Schedule c changed.' schedule add c '30 9 * * *' t
is "the job goes" "$jobs" -
is "it waits for the same time" \
    "SELECT next_at = '2026-01-01 09:30Z' FROM holdfast_private.schedules" t
says "show says so" '* driver:*own *' schedule show c
says "with it" 'Schedule c changed.' schedule add c '30 9 * * *' t --driver pg_cron
is "the job comes" "$jobs" '30 9 * * *'
is "and it still waits" "SELECT next_at = '2026-01-01 09:30Z' FROM holdfast_private.schedules" t
says "paused" '' schedule pause c
is "it fires nothing" "SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules" 0
says "resumed" '' schedule resume c
sql "UPDATE holdfast_private.schedules SET next_at = date_trunc('second', now())" >/dev/null
is "it does" "SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules" 1
is "and has kept its job" "$jobs" '30 9 * * *'
copy=$(mktemp -d)
ok "a copy has none" like '*1 schedule lost its job of pg_cron: only processes*' \
    "$(env -u PGOPTIONS "$HOLDFAST" copy "$url" "sqlite:$copy/a.db" --live 2>&1 | paste -sd' ' -)"
ok "and says so in JSON" like '*"undriven":1}' \
    "$(env -u PGOPTIONS "$HOLDFAST" copy "$url" "sqlite:$copy/b.db" --live --json 2>&1 | tail -1)"
ok "its schedule is one of processes" like '*"driver":"own"*' \
    "$("$HOLDFAST" schedule show c --json --db "sqlite:$copy/a.db")"
rm -rf "$copy"
says "another zone, and no driver" 'Schedule c changed.' schedule add c \
    '30 9 * * *' t --zone Europe/Berlin
is "takes the job away" "$jobs" -
says "back again" 'Schedule c changed.' schedule add c '30 9 * * *' t --driver pg_cron
says "rm" '*removed*' schedule rm c --yes
is "removes the job" "$jobs" -

# ---- Jobs of others, and jobs that are gone
# --------------------------------------------------------
job="SELECT coalesce(job::text, '-') FROM holdfast_private.schedules"
is "with a job" "$(make "'s', '0 9 * * *', 't'")" t
sql "SELECT cron.unschedule(job) FROM holdfast_private.schedules" >/dev/null
is "that was removed" "$(make "'s', '30 9 * * *', 't'")" t
is "it gets a new one" "$jobs" '30 9 * * *'
sql "SELECT cron.unschedule(job), cron.schedule('mine', '1 1 1 1 *', 'SELECT 1')
    FROM holdfast_private.schedules" >/dev/null
sql "UPDATE holdfast_private.schedules SET job = (SELECT jobid FROM cron.job)" >/dev/null
is "a number that is another job's" "SELECT holdfast.drop_schedule('default', 's')" ''
is "leaves that job alone" "$jobs" '1 1 1 1 *'
sql "SELECT cron.unschedule('mine')" >/dev/null
if [ "$(sql "SHOW server_version_num")" -ge 150000 ]; then
    sql "CREATE ROLE mate; SELECT holdfast.namespace_grant('owner', 'default', 'mate')" >/dev/null
    ask a "SET ROLE mate" >/dev/null
    is "with a job of one role" "$(make "'s', '0 9 * * *', 't'")" t
    asks "another one, who may not use pg_cron" a \
        "SELECT holdfast.create_schedule('default', 's', '0 9 * * *', 't') IS NOT NULL" t
    is "takes the schedule from it" "$job" -
    is "with its job" "$jobs" -
    is "with it again" "$(make "'s', '0 9 * * *', 't'")" t
    asks "or gives it another time" a "$(make "'s', '30 9 * * *', 't'")" t
    is "the job is the schema's owner's" "SELECT string_agg(username || ' ' || schedule, ','
        ORDER BY username) FROM cron.job" 'holdfast 30 9 * * *'
    asks "and is removed" a "SELECT holdfast.drop_schedule('default', 's')" ''
    is "(it is)" "$jobs" -
    ask a "RESET ROLE" >/dev/null
fi

# Every minute; the job wakes us, and what is due is fired once.
is "every minute" "$(make "'m', '* * * * *', 'minute'")" t
fired="SELECT count(*) FROM holdfast.event_log WHERE type = 'minute'"
has_fired() { [ "$(sql "$fired")" -ge 1 ]; }
ok "the job fires it" until_true 180 has_fired
is "for the planned time" "SELECT count(*) FROM holdfast.event_log WHERE type = 'minute'
    AND (extract(second FROM emitted_at) <> 0
        OR id <> holdfast_private.planned_id(schedule_id::uuid, emitted_at))" 0
sql "SELECT FROM holdfast_private.namespace_put('other')" >/dev/null
is "in another namespace" "SELECT holdfast.create_schedule('other', 'm', '@daily', 't',
    driver => 'pg_cron') IS NOT NULL" t
for _ in $(seq 100); do
    [ "$(sql "SELECT more FROM holdfast.change_namespace_remove(1, 'other', true, 1000)")" = t ] ||
        break
done
is "whose removal takes the job along" "$jobs" '* * * * *'
shut a
done_testing
