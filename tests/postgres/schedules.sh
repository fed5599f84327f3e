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
is "a schedule is made" \
    "SELECT holdfast.create_schedule('default', 'day', '0 9 * * MON-FRI', 'day.due',
    '{\"n\": 1.50}', zone => 'Europe/Berlin', misfire => 'once') IS NOT NULL" t
id=$(sql "SELECT id FROM holdfast_private.schedules")
is "it waits for its time" \
    "SELECT next_at AT TIME ZONE 'Europe/Berlin' = date_trunc('day', next_at) + interval '9 h'
    AND next_at > now() FROM holdfast_private.schedules" t
late day 5
is "the same again changes nothing" \
    "SELECT holdfast.create_schedule('default', 'day', '0 9 * * MON-FRI', 'day.due',
    '{\"n\": 1.50}', zone => 'Europe/Berlin', misfire => 'once') = '$id'" t
is "not what it waits for" "SELECT next_at < now() FROM holdfast_private.schedules" t
is "another one changes it" \
    "SELECT holdfast.create_schedule('default', 'day', '@yearly', 'day.due') = '$id'" t
is "and it waits anew" "SELECT next_at > now() FROM holdfast_private.schedules" t
is "the command sees it" \
    "SELECT '$(hf schedule show day --json | sed 's/.*"expression":"\([^"]*\)".*/\1/')'" @yearly
is "it is run by hand" "SELECT position FROM holdfast.run_schedule('default', 'day')" 1
is "as the scheduler's event" "SELECT producer, schedule_id = '$id' FROM holdfast.event_log" \
    'scheduler|t'
is "paused" "SELECT holdfast.pause_schedule('default', 'day', 'why')" ''
is "with the reason" "SELECT paused_by, paused_reason FROM holdfast_private.schedules" \
    'holdfast|why'
late day 5
is "it does not fire then" "SELECT fired FROM holdfast.tick()" 0
is "resumed" "SELECT holdfast.resume_schedule('default', 'day')" ''
is "it makes up for nothing" "SELECT fired FROM holdfast.tick('default')" 0
late day 5
is "what runs is not resumed" "SELECT holdfast.resume_schedule('default', 'day')" ''
is "so what is due stays due" "SELECT next_at < now() FROM holdfast_private.schedules" t
is "dropped" "SELECT holdfast.drop_schedule('default', 'day')" ''
is "with its ledger" "SELECT (SELECT count(*) FROM holdfast_private.schedules) + (SELECT count(*)
    FROM holdfast_private.schedule_runs)" 0
for name in "o''clock" '@daily' '"; DROP TABLE x; --' '%s%n' '📦'; do
    is "a schedule $name" \
        "SELECT holdfast.create_schedule('default', '$name', '@daily', 't') IS NOT NULL" t
    is "is run" "SELECT position > 0 FROM holdfast.run_schedule('default', '$name')" t
    is "and dropped" "SELECT holdfast.drop_schedule('default', '$name')" ''
done

# --- What is refused ---
make() { echo "SELECT holdfast.create_schedule('default', $1)"; }
fails "an hour that is none" "$(make "'x', '0 25 * * *', 't'")" 'HF001: cron expression: hour "25"*'
fails "what never fires" "$(make "'x', '0 0 30 2 *', 't'")" 'HF001: cron expression never*'
fails "a zone that is none" "$(make "'x', '@daily', 't', zone => 'CEST'")" \
    'HF001: there is no time zone CEST'
fails "no zone" "$(make "'x', '@daily', 't', zone => NULL")" 'HF001: there is no time zone *'
fails "no name" "$(make "'', '@daily', 't'")" 'HF001: schedule name is empty'
fails "no expression" "$(make "'x', NULL, 't'")" 'HF001: *'
fails "a type with a star" "$(make "'x', '@daily', '*'")" 'HF001: *'
fails "a policy" "$(make "'x', '@daily', 't', misfire => 'never'")" 'HF001: misfire is never*'
fails "a cap" "$(make "'x', '@daily', 't', misfire_cap => 1001")" 'HF001: misfire_cap is 1001*'
fails "a driver" "$(make "'x', '@daily', 't', driver => 'systemd'")" 'HF001: driver is systemd*'
fails "pg_cron without pg_cron" "$(make "'x', '@daily', 't', driver => 'pg_cron'")" \
    'HF002: driver is pg_cron, and that extension is not installed in this database*'
fails "a namespace that is none" "SELECT holdfast.create_schedule('no', 'x', '@daily', 't')" \
    'HF003: there is no namespace no'
fails "a schedule that is none" "SELECT holdfast.run_schedule('default', 'x')" \
    'HF003: there is no schedule x'
fails "to tick for nothing" "SELECT holdfast.tick('no')" 'HF003: there is no namespace no'
is "one is made paused" "SELECT holdfast.create_schedule('default', 'p', '* * * * * *', 't',
    paused => true) IS NOT NULL" t
is "from the beginning" \
    "SELECT paused_at = created_at, paused_by = session_user FROM holdfast_private.schedules" "t|t"
is "and stays so if it is changed" "SELECT holdfast.create_schedule('default', 'p', '@daily',
    't') IS NOT NULL AND paused_at IS NOT NULL FROM holdfast_private.schedules" t
sql "SELECT holdfast.drop_schedule('default', 'p')" >/dev/null
is "and nothing is left of it" "SELECT count(*) FROM holdfast_private.schedules" 0

# --- Large ones ---
sql "SELECT holdfast.create_schedule('default', 'large', '@daily', 'large',
    to_json(repeat('x', 1000000)), misfire => 'all');
     UPDATE holdfast_private.schedules SET next_at = next_at - interval '11 days'
         WHERE name = 'large'" >/dev/null
is "of many large events some come at once" "SELECT fired, more FROM holdfast.tick()" "4|t"
is "and then the next ones" "SELECT fired, more FROM holdfast.tick()" "4|t"
is "until all have come" "SELECT fired > 1, more FROM holdfast.tick()" "t|f"
is "each once" "SELECT count(DISTINCT emitted_at) = count(*) AND count(*) > 9
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
is "one that is at it" "SELECT '$(ask a 'BEGIN; SELECT fired > 5 FROM holdfast.tick()')'" t
is "keeps no session waiting" "SELECT '$(ask b 'SELECT fired FROM holdfast.tick()')'" 0
ask a 'ROLLBACK' >/dev/null
is "and dies without a trace" "SELECT count(*) FROM holdfast.event_log WHERE type = 'all'" 0
job="SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules WHERE name = 'job'"
sql "SELECT holdfast.create_schedule('default', 'job', '@daily', 'job', misfire => 'once')" \
    >/dev/null
sql "UPDATE holdfast_private.schedules SET next_at = next_at - interval '1 day'
    WHERE name = 'job'" >/dev/null
ask a "BEGIN; SELECT FROM holdfast_private.schedules WHERE name = 'job' FOR UPDATE" >/dev/null
tell b "BEGIN; $job"
ok "a job of pg_cron, which comes once, waits" blocked b
ask a 'ROLLBACK' >/dev/null
hears "and fires what is due" b 1
tell a "$job"
ok "another one waits for it" blocked a
ask b 'COMMIT' >/dev/null
hears "and finds it done" a 0
sql "SELECT holdfast.drop_schedule('default', 'job')" >/dev/null
sql "SELECT FROM holdfast.tick()" >/dev/null
is "the latest three, and what is on time" "$planned 'all'" t
is "of them" "SELECT count(*) BETWEEN 4 AND 6 FROM holdfast.event_log WHERE type = 'all'" t
is "the latest one, and what is on time" \
    "SELECT count(*) BETWEEN 2 AND 4 FROM holdfast.event_log WHERE type = 'once'" t
is "only what is on time" \
    "SELECT count(*) BETWEEN 1 AND 3 FROM holdfast.event_log WHERE type = 'skip'" t
is "what is left out is written down" \
    "SELECT count(*) FROM holdfast_private.schedule_runs WHERE kind = 3" 3
is "ids are those of C" "SELECT count(*) FROM holdfast.event_log
    WHERE type = 'all' AND id <> holdfast_private.planned_id(schedule_id::uuid, emitted_at)" 0
hf publish later.on '{"n": 1}' --delay 1ms >/dev/null
hf publish later.off '{"n": 2}' --delay 1h >/dev/null
is "what was delayed and is due" "SELECT pg_sleep(0.1)" ''
is "comes into the log" "SELECT released FROM holdfast.tick('default')" 1
is "and the other does not" "SELECT count(*) FROM holdfast.event_log WHERE type LIKE 'later.%'" 1
sql "DROP TABLE $(sql "SELECT max(inhrelid::regclass::text) FROM pg_inherits
        WHERE inhparent = 'holdfast_private.events_1'::regclass");
     UPDATE holdfast_private.namespaces SET months_to = months_to - interval '1 month'" >/dev/null
is "a month that is missing is made" "SELECT months FROM holdfast.tick('default')" 1

# --- Without grace ---
plan() { # NOW: how many times fire then, and what is skipped
    echo "SELECT cardinality(times), skipped_first IS NOT NULL FROM holdfast_private.misfire_plan(
        holdfast_private.cron_parse('0 * * * *'), 'UTC', 1, 1, interval '0', 100,
        '2026-01-01 10:00+00', '$1')"
}
is "without grace a time fires when it comes" "$(plan '2026-01-01 10:00:00.000001+00')" "1|f"
is "until its second is over" "$(plan '2026-01-01 10:00:00.999999+00')" "1|f"
is "and then it was missed" "$(plan '2026-01-01 10:00:01+00')" "0|t"
sql "SELECT holdfast.create_schedule('default', 'strict', '* * * * * *', 'strict', grace_ms => 0)" \
    >/dev/null
strict_fires() {
    [ "$(sql "SELECT FROM holdfast.tick(); SELECT count(*) > 0 FROM holdfast.event_log
            WHERE type = 'strict'")" = t ]
}
ok "tick fires it" until_true 60 strict_fires
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
ok "one that cannot be fired is told of" like \
    "*WARNING: *2 of the schedules *; the first is *lost: *\"No/Where\" not recognized*" \
    "$(sql "SELECT FROM holdfast.tick(p_max => 1)")"
is "and keeps no other from being fired" \
    "SELECT type FROM holdfast.event_log WHERE type IN ('lost', 'bad', 'good')" good
fails "a firing of that schedule alone says why it cannot be" \
    "SELECT holdfast.fire_schedule(id) FROM holdfast_private.schedules WHERE name = 'lost'" \
    '22023: time zone "No/Where" not recognized'

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
ok "a process fires what SQL has made" until_true 60 three_beats
kill "$worker"
wait "$worker" 2>/dev/null
before=$(beats)
two_more() { sql "SELECT FROM holdfast.tick()" && [ "$(beats)" -ge "$((before + 2))" ]; }
until_true 60 two_more
is "each second fires once, whichever session fires" "SELECT count(*) = count(DISTINCT emitted_at)
    AND count(*) = extract(epoch FROM max(emitted_at) - min(emitted_at)) + 1
    FROM holdfast.event_log WHERE type = 'beat'" t
is "by the same ids" "SELECT count(*) FROM holdfast.event_log
    WHERE type = 'beat' AND id <> holdfast_private.planned_id(schedule_id::uuid, emitted_at)" 0
is "and verify finds nothing" "SELECT '$(hf verify 2>&1 | grep -c ' 0 findings')'" 1
shut a
shut b
done_testing
