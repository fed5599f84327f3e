#!/usr/bin/env bash
# Schedules and tick() as SQL functions: what they do, what they refuse, and that SQL and C fire
# each other's schedules.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
hf() { "$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast" "$@"; }
# late NAME MINUTES: it waits for a time so long ago.
late() {
    sql "UPDATE holdfast_private.schedules
        SET next_at = date_trunc('minute', now()) - $2 * interval '1 minute'
         WHERE name = '$1'" >/dev/null
}
planned="SELECT count(*) = count(DISTINCT emitted_at)
             AND count(*) = extract(epoch FROM max(emitted_at) - min(emitted_at)) / 60 + 1
         FROM holdfast.event_log WHERE type ="

# --- Making and dropping ---
is "create_schedule makes a schedule" \
    "SELECT holdfast.create_schedule('default', 'day', '0 9 * * MON-FRI', 'day.due',
    '{\"n\": 1.50}', zone => 'Europe/Berlin', misfire => 'once') IS NOT NULL" t
id=$(sql "SELECT id FROM holdfast_private.schedules")
is "a new schedule waits for its next time in its zone" \
    "SELECT next_at AT TIME ZONE 'Europe/Berlin' = date_trunc('day', next_at) + interval '9 h'
    AND next_at > now() FROM holdfast_private.schedules" t
late day 5
is "create_schedule with the same definition returns the same id" \
    "SELECT holdfast.create_schedule('default', 'day', '0 9 * * MON-FRI', 'day.due',
    '{\"n\": 1.50}', zone => 'Europe/Berlin', misfire => 'once') = '$id'" t
is "create_schedule with the same definition keeps the time that is due" \
    "SELECT next_at < now() FROM holdfast_private.schedules" t
is "create_schedule with another definition returns the same id" \
    "SELECT holdfast.create_schedule('default', 'day', '@yearly', 'day.due') = '$id'" t
is "a changed schedule waits for its next time" \
    "SELECT next_at > now() FROM holdfast_private.schedules" t
is "schedule show prints the expression that SQL set" \
    "SELECT '$(hf schedule show day --json | sed 's/.*"expression":"\([^"]*\)".*/\1/')'" @yearly
is "run_schedule publishes an event" \
    "SELECT position FROM holdfast.run_schedule('default', 'day')" 1
is "an event of run_schedule has the producer scheduler and the id of the schedule" \
    "SELECT producer, schedule_id = '$id' FROM holdfast.event_log" \
    'scheduler|t'
is "pause_schedule takes a reason" "SELECT holdfast.pause_schedule('default', 'day', 'why')" ''
is "pause_schedule stores role and reason" \
    "SELECT paused_by, paused_reason FROM holdfast_private.schedules" \
    'holdfast|why'
late day 5
is "tick does not fire a paused schedule" "SELECT fired FROM holdfast.tick()" 0
is "resume_schedule takes a paused schedule" "SELECT holdfast.resume_schedule('default', 'day')" ''
is "tick does not fire times that a paused schedule has missed" \
    "SELECT fired FROM holdfast.tick('default')" 0
late day 5
is "resume_schedule takes a schedule that is not paused" \
    "SELECT holdfast.resume_schedule('default', 'day')" ''
is "resume_schedule of a schedule that is not paused keeps the time that is due" \
    "SELECT next_at < now() FROM holdfast_private.schedules" t
is "drop_schedule takes a schedule" "SELECT holdfast.drop_schedule('default', 'day')" ''
is "drop_schedule leaves neither schedule nor firings" \
    "SELECT (SELECT count(*) FROM holdfast_private.schedules) + (SELECT count(*)
    FROM holdfast_private.schedule_runs)" 0
for name in "o''clock" '@daily' '"; DROP TABLE x; --' '%s%n' '📦'; do
    is "create_schedule takes the name $name" \
        "SELECT holdfast.create_schedule('default', '$name', '@daily', 't') IS NOT NULL" t
    is "run_schedule takes the name $name" \
        "SELECT position > 0 FROM holdfast.run_schedule('default', '$name')" t
    is "drop_schedule takes the name $name" "SELECT holdfast.drop_schedule('default', '$name')" ''
done

# --- What is refused ---
make() { echo "SELECT holdfast.create_schedule('default', $1)"; }
fails "create_schedule refuses an hour of 25" \
    "$(make "'x', '0 25 * * *', 't'")" 'HF001: cron expression: hour "25"*'
fails "create_schedule refuses an expression that never fires" \
    "$(make "'x', '0 0 30 2 *', 't'")" 'HF001: cron expression never*'
fails "create_schedule refuses an unknown zone" "$(make "'x', '@daily', 't', zone => 'CEST'")" \
    'HF001: there is no time zone CEST'
fails "create_schedule refuses a zone that is NULL" \
    "$(make "'x', '@daily', 't', zone => NULL")" 'HF001: there is no time zone *'
fails "create_schedule refuses an empty name" \
    "$(make "'', '@daily', 't'")" 'HF001: schedule name is empty'
fails "create_schedule refuses an expression that is NULL" "$(make "'x', NULL, 't'")" 'HF001: *'
fails "create_schedule refuses a type with a star" "$(make "'x', '@daily', '*'")" 'HF001: *'
fails "create_schedule refuses an unknown misfire rule" \
    "$(make "'x', '@daily', 't', misfire => 'never'")" 'HF001: misfire is never*'
fails "create_schedule refuses a misfire_cap of 1001" \
    "$(make "'x', '@daily', 't', misfire_cap => 1001")" 'HF001: misfire_cap is 1001*'
fails "create_schedule refuses an unknown driver" \
    "$(make "'x', '@daily', 't', driver => 'systemd'")" 'HF001: driver is systemd*'
fails "create_schedule refuses the driver pg_cron without the extension" \
    "$(make "'x', '@daily', 't', driver => 'pg_cron'")" \
    'HF002: driver is pg_cron, and that extension is not installed in this database*'
fails "create_schedule in an unknown namespace is not found" \
    "SELECT holdfast.create_schedule('no', 'x', '@daily', 't')" \
    'HF003: there is no namespace no'
fails "run_schedule of an unknown schedule is not found" \
    "SELECT holdfast.run_schedule('default', 'x')" \
    'HF003: there is no schedule x'
fails "tick of an unknown namespace is not found" \
    "SELECT holdfast.tick('no')" 'HF003: there is no namespace no'
is "create_schedule makes a paused schedule" \
    "SELECT holdfast.create_schedule('default', 'p', '* * * * * *', 't',
    paused => true) IS NOT NULL" t
is "a schedule that is made paused is paused since it was created" \
    "SELECT paused_at = created_at, paused_by = session_user FROM holdfast_private.schedules" "t|t"
is "create_schedule keeps the pause of a schedule that it changes" \
    "SELECT holdfast.create_schedule('default', 'p', '@daily',
    't') IS NOT NULL AND paused_at IS NOT NULL FROM holdfast_private.schedules" t
sql "SELECT holdfast.drop_schedule('default', 'p')" >/dev/null
is "refused and dropped schedules leave nothing" "SELECT count(*) FROM holdfast_private.schedules" 0

# --- Large ones ---
sql "SELECT holdfast.create_schedule('default', 'large', '@daily', 'large',
    to_json(repeat('x', 1000000)), misfire => 'all');
     UPDATE holdfast_private.schedules SET next_at = next_at - interval '11 days'
         WHERE name = 'large'" >/dev/null
is "tick fires four of many large events" "SELECT fired, more FROM holdfast.tick()" "4|t"
is "the next tick fires the next four large events" "SELECT fired, more FROM holdfast.tick()" "4|t"
is "the last tick fires the rest of many large events" \
    "SELECT fired > 1, more FROM holdfast.tick()" "t|f"
is "each planned time of a large schedule is published once" \
    "SELECT count(DISTINCT emitted_at) = count(*) AND count(*) > 9
    FROM holdfast.event_log WHERE type = 'large'" t
sql "SELECT holdfast.drop_schedule('default', 'large')" >/dev/null

# --- Ticking ---
sql "SELECT holdfast.create_schedule('default', 'all', '* * * * *', 'all', misfire => 'all',
    misfire_cap => 3),
            holdfast.create_schedule('default', 'once', '* * * * *', 'once', misfire => 'once'),
            holdfast.create_schedule('default', 'skip', '* * * * *', 'skip')" >/dev/null
late all 60
late once 60
late skip 60
open a
open b
is "setup: a tick is in the middle of its transaction" \
    "SELECT '$(ask a 'BEGIN; SELECT fired > 5 FROM holdfast.tick()')'" t
is "a second tick waits for no other" "SELECT '$(ask b 'SELECT fired FROM holdfast.tick()')'" 0
ask a 'ROLLBACK' >/dev/null
is "a tick that is rolled back has published nothing" \
    "SELECT count(*) FROM holdfast.event_log WHERE type = 'all'" 0
job="SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules WHERE name = 'job'"
sql "SELECT holdfast.create_schedule('default', 'job', '@daily', 'job', misfire => 'once')" \
    >/dev/null
sql "UPDATE holdfast_private.schedules SET next_at = next_at - interval '1 day'
    WHERE name = 'job'" >/dev/null
ask a "BEGIN; SELECT FROM holdfast_private.schedules WHERE name = 'job' FOR UPDATE" >/dev/null
tell b "BEGIN; $job"
ok "fire_schedule waits for the lock of the schedule" blocked b
ask a 'ROLLBACK' >/dev/null
hears "fire_schedule fires what is due after it has waited" b 1
tell a "$job"
ok "a second fire_schedule waits for the first" blocked a
ask b 'COMMIT' >/dev/null
hears "a second fire_schedule finds nothing due" a 0
sql "SELECT holdfast.drop_schedule('default', 'job')" >/dev/null
sql "SELECT FROM holdfast.tick()" >/dev/null
is "misfire all with cap 3 fires times in a row" "$planned 'all'" t
is "misfire all with cap 3 fires the latest three and what is on time" \
    "SELECT count(*) BETWEEN 4 AND 6 FROM holdfast.event_log WHERE type = 'all'" t
is "misfire once fires the latest time and what is on time" \
    "SELECT count(*) BETWEEN 2 AND 4 FROM holdfast.event_log WHERE type = 'once'" t
is "misfire skip fires only what is on time" \
    "SELECT count(*) BETWEEN 1 AND 3 FROM holdfast.event_log WHERE type = 'skip'" t
is "times that a misfire rule leaves out are recorded" \
    "SELECT count(*) FROM holdfast_private.schedule_runs WHERE kind = 3" 3
is "events of a schedule have the ids that C gives" "SELECT count(*) FROM holdfast.event_log
    WHERE type = 'all' AND id <> holdfast_private.planned_id(schedule_id::uuid, emitted_at)" 0
hf publish later.on '{"n": 1}' --delay 1ms >/dev/null
hf publish later.off '{"n": 2}' --delay 1h >/dev/null
is "setup: a delayed event is due" "SELECT pg_sleep(0.1)" ''
is "tick brings an event that is due" "SELECT released FROM holdfast.tick('default')" 1
is "tick does not bring an event that is not due" \
    "SELECT count(*) FROM holdfast.event_log WHERE type LIKE 'later.%'" 1
sql "DROP TABLE $(sql "SELECT max(inhrelid::regclass::text) FROM pg_inherits
        WHERE inhparent = 'holdfast_private.events_1'::regclass");
     UPDATE holdfast_private.namespaces SET months_to = months_to - interval '1 month'" >/dev/null
is "tick makes a month that is missing" "SELECT months FROM holdfast.tick('default')" 1

# --- Without grace ---
plan() { # NOW: how many times fire then, and what is skipped
    echo "SELECT cardinality(times), skipped_first IS NOT NULL FROM holdfast_private.misfire_plan(
        holdfast_private.cron_parse('0 * * * *'), 'UTC', 1, 1, interval '0', 100,
        '2026-01-01 10:00+00', '$1')"
}
is "a schedule without grace fires when its time comes" \
    "$(plan '2026-01-01 10:00:00.000001+00')" "1|f"
is "a schedule without grace fires until its second is over" \
    "$(plan '2026-01-01 10:00:00.999999+00')" "1|f"
is "a schedule without grace has missed its time after its second" \
    "$(plan '2026-01-01 10:00:01+00')" "0|t"
sql "SELECT holdfast.create_schedule('default', 'strict', '* * * * * *', 'strict', grace_ms => 0)" \
    >/dev/null
strict_fires() {
    [ "$(sql "SELECT FROM holdfast.tick(); SELECT count(*) > 0 FROM holdfast.event_log
            WHERE type = 'strict'")" = t ]
}
ok "tick fires a schedule without grace" until_true 60 strict_fires
sql "SELECT holdfast.drop_schedule('default', 'strict')" >/dev/null

# --- A schedule that cannot be read ---
sql "SELECT FROM holdfast.tick()" >/dev/null
sql "SELECT holdfast.create_schedule('default', 'lost', '@daily', 'lost'),
    holdfast.create_schedule('default', 'bad', '@daily', 'bad'),
            holdfast.create_schedule('default', 'good', '@daily', 'good', misfire => 'once');
     UPDATE holdfast_private.schedules SET zone = 'No/Where' WHERE name = 'lost';
     UPDATE holdfast_private.schedules SET expression = 'x' WHERE name = 'bad'" >/dev/null
late lost 90
late bad 80
late good 70
ok "tick warns of schedules that cannot be fired" like \
    "*WARNING: *2 of the schedules *; the first is *lost: *\"No/Where\" not recognized*" \
    "$(sql "SELECT FROM holdfast.tick(p_max => 1)")"
is "a schedule that cannot be fired keeps no other from being fired" \
    "SELECT type FROM holdfast.event_log WHERE type IN ('lost', 'bad', 'good')" good
fails "fire_schedule says why a schedule cannot be fired" \
    "SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules WHERE name = 'lost'" \
    '22023: time zone "No/Where" not recognized'

# --- Looking ---
sql "SELECT holdfast.create_schedule('default', 'seen', '@every 5m', 'seen.type', '{\"b\": 1}',
    zone => 'Europe/Berlin', key => 'k', tenant => 't', metadata => '{\"m\": 1}', misfire => 'all',
    misfire_cap => 7, grace_ms => 1500)" >/dev/null
sql "SELECT holdfast.pause_schedule('default', 'seen', 'for a test')" >/dev/null
shown=$(hf schedule show seen --json 2>/dev/null | sed "s/'/''/g; s/,\"runs\":.*/}/")
is "the view schedule_list has what schedule show --json has, by the same names" \
    "SELECT string_agg(j.key, ' ') FROM holdfast.schedule_list l,
        json_each_text('$shown'::json) j
    WHERE l.namespace = 'default' AND l.name = 'seen'
        AND CASE WHEN j.key LIKE '%\\_at'
            THEN (to_jsonb(l) ->> j.key)::timestamptz IS DISTINCT FROM j.value::timestamptz
            ELSE to_jsonb(l) -> j.key IS DISTINCT FROM
                (SELECT to_jsonb(x.value) FROM json_each('$shown'::json) x
                 WHERE x.key = j.key) END" ""
sql "DO \$\$ BEGIN CREATE ROLE pub_looks LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END \$\$;
     DO \$\$ BEGIN CREATE ROLE con_looks LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END \$\$;
     SELECT holdfast.namespace_grant('publisher', 'default', 'pub_looks');
     SELECT holdfast.namespace_grant('consumer', 'default', 'con_looks')" >/dev/null
is "a publisher sees the schedules of its namespace" "SET ROLE pub_looks;
    SELECT count(*) FROM holdfast.schedule_list WHERE name = 'seen'" 1
is "a consumer sees no schedules" "SET ROLE con_looks;
    SELECT count(*) FROM holdfast.schedule_list" 0

# --- C and SQL ---
sql "SELECT holdfast.drop_schedule('default', name) FROM holdfast_private.schedules" >/dev/null
sql "SELECT holdfast.create_schedule('default', 'beat', '* * * * * *', 'beat', '{\"b\": 1}',
    key => 'k',
                                     misfire => 'all', grace_ms => 86400000)" >/dev/null
"$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast" work s --on none \
    --from now --exec true >/dev/null 2>&1 & # not hf: the process itself is to be killed
worker=$!
trap 'kill "$worker" 2>/dev/null; cluster_stop' EXIT
beats() { sql "SELECT count(*) FROM holdfast.event_log WHERE type = 'beat'"; }
three_beats() { [ "$(beats)" -ge 3 ]; }
ok "a process fires a schedule that SQL made" until_true 60 three_beats
kill "$worker"
wait "$worker" 2>/dev/null
before=$(beats)
two_more() { sql "SELECT FROM holdfast.tick()" && [ "$(beats)" -ge "$((before + 2))" ]; }
until_true 60 two_more
is "each second fires once, whichever session fires" "SELECT count(*) = count(DISTINCT emitted_at)
    AND count(*) = extract(epoch FROM max(emitted_at) - min(emitted_at)) + 1
    FROM holdfast.event_log WHERE type = 'beat'" t
is "events that SQL and C fire have the same ids" "SELECT count(*) FROM holdfast.event_log
    WHERE type = 'beat' AND id <> holdfast_private.planned_id(schedule_id::uuid, emitted_at)" 0
is "verify finds nothing after SQL and C fired schedules" \
    "SELECT '$(hf verify 2>&1 | grep -c ' 0 findings')'" 1
shut a
shut b
done_testing
