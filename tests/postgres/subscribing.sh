#!/usr/bin/env bash
# Subscriptions and namespaces as SQL functions: what they do, what they refuse, and what becomes of
# those who do it at the same time. test_subscribing.c compares them with the library.
. "$(dirname "$0")/lib.sh"
cluster max_prepared_transactions=2
keep
schema
hf() { "$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast" "$@"; }
create() { echo "SELECT holdfast.create_subscription('default', $1)"; }
alter() { echo "SELECT holdfast.alter_subscription('default', $1)"; }
publish() { sql "SELECT position FROM holdfast.publish('default', '$1')"; }
option() {
    echo "SELECT options::json ->> '$2' FROM holdfast_private.subscriptions WHERE name = '$1'"
}

# --- Making and changing ---
is "create_subscription makes a shared subscription" \
    "$(create "'jobs', ARRAY['user.*', 'order.**'], 'start', 'shared'")" t
publish user.made >/dev/null
publish other >/dev/null
publish order.a.b >/dev/null
is "claim hands out the events that match the patterns" \
    "SELECT position, attempt FROM holdfast.claim('default', 'jobs')" \
    "1|1 3|1"
is "create_subscription with the same definition returns false" \
    "$(create "'jobs', ARRAY['user.*', 'order.**']")" f
is "create_subscription with the same definition keeps the generation" \
    "SELECT generation FROM holdfast_private.subscriptions" 1
is "create_subscription with other patterns and options returns false" \
    "$(create "'jobs', ARRAY['x'], options => '{\"batch\": 5, \"on_poison\": \"halt\"}'")" f
is "create_subscription changes patterns and options that are given and keeps others" \
    "SELECT patterns, generation, o.batch, o.on_poison, o.lease_ms
    FROM holdfast_private.subscriptions,
    json_to_record(options::json) o (batch integer, on_poison text,
    lease_ms integer)" '["x"]|2|5|halt|30000'
is "alter_subscription takes one option" \
    "$(alter "'jobs', options => '{\"lease_ms\": 60000}'")" ''
is "alter_subscription keeps patterns and options that are not given" \
    "SELECT patterns, options::json ->> 'batch',
    options::json ->> 'lease_ms' FROM holdfast_private.subscriptions" '["x"]|5|60000'
is "alter_subscription takes patterns alone" "$(alter "'jobs', ARRAY['**']")" ''
is "alter_subscription with patterns alone keeps the options" \
    "SELECT patterns, options::json ->> 'lease_ms'
    FROM holdfast_private.subscriptions" '["**"]|60000'
is "alter_subscription without arguments keeps the generation" \
    "$(alter "'jobs'"); SELECT generation FROM holdfast_private.subscriptions" ' 4'
is "create_subscription makes an ordered subscription with partitions" \
    "$(create "'audit', ARRAY['**'], '2', 'ordered', 4")" t
is "a new subscription begins at the place that was given" \
    "SELECT start, partitions FROM holdfast_private.subscriptions WHERE name = 'audit'" '2|4'
is "alter_subscription changes the number of partitions at once if no process works" \
    "$(alter "'audit', partitions => 6"); SELECT partitions, wanted,
    (SELECT count(*) FROM holdfast_private.partitions WHERE subscription_id = id)
    FROM holdfast_private.subscriptions WHERE name = 'audit'" ' 6||6'
is "alter_subscription requests another number of partitions if checkpoints differ" \
    "SELECT FROM holdfast_private.subscriptions s,
    holdfast_private.journal_add(s.id, 0, 3, now(), NULL) WHERE s.name = 'audit';
    $(alter "'audit', partitions => 2");
    SELECT partitions, wanted FROM holdfast_private.subscriptions WHERE name = 'audit'" ' 6|2'
is "alter_subscription takes a whole number with an exponent" \
    "$(alter "'jobs', options => '{\"batch\": 1.2e1}'"); $(option jobs batch)" ' 12'

# --- Refusing ---
fails "create_subscription refuses a new subscription without a place" \
    "$(create "'new', ARRAY['**']")" \
    'HF001: subscription new is new: say where it starts (place: start, now, a position or a time)'
fails "create_subscription refuses a new subscription without a mode" \
    "$(create "'new', ARRAY['**'], 'start'")" \
    'HF001: subscription new is new: say its mode (shared: handed out by claim; ordered: *)'
fails "create_subscription refuses a place that is none" "$(create "'new', ARRAY['**'], 'soon'")" \
    'HF001: place is soon; it takes start, now, a position or a time'
fails "create_subscription refuses a place that is none for one that exists" \
    "$(create "'jobs', ARRAY['**'], 'soon'")" \
    'HF001: place is soon; it takes start, now, a position or a time'
fails "create_subscription refuses a negative position" "$(create "'jobs', ARRAY['**'], '-1'")" \
    'HF001: position is -1; it must be 0 or more'
fails "create_subscription refuses the time infinity" "$(create "'new', ARRAY['**'], 'infinity'")" \
    'HF001: place is the time infinity, which is outside the years 0001 to 9999'
fails "create_subscription refuses a position beyond the log" \
    "$(create "'new', ARRAY['**'], '99999999999999999999', 'ordered'")" \
    'HF001: position 99999999999999999999 is beyond the end of the log, which is 3'
fails "create_subscription refuses a mode that is none" \
    "$(create "'new', ARRAY['**'], 'start', 'fast'")" \
    'HF001: mode is fast; it must be one of ordered, shared'
fails "create_subscription refuses 1025 partitions" \
    "$(create "'new', ARRAY['**'], 'start', partitions => 1025")" \
    'HF001: partitions is 1025; it must be 1 to 1024'
fails "create_subscription refuses a subscription without patterns" \
    "$(create "'new', NULL, 'start'")" \
    'HF001: subscription new: 0 patterns; it takes 1 to 64'
fails "create_subscription refuses a pattern that is NULL" \
    "$(create "'new', ARRAY['a', NULL], 'start'")" \
    'HF001: subscription new: pattern is NULL'
fails "create_subscription refuses a name that is NULL" \
    "$(create "NULL, ARRAY['a'], 'start'")" 'HF001: subscription name is missing'
fails "alter_subscription refuses options that are no object" "$(alter "'jobs', options => '[]'")" \
    'HF001: options is JSON but not an object'
for value in '"5"' 5.5 null true '[]' '{}' 1e400; do
    fails "alter_subscription refuses $value for a number" \
        "$(alter "'jobs', options => '{\"batch\": $value}'")" \
        "HF001: batch is *; it must be 1 to 10000"
done
for value in 1 null true '"ON"' '[]'; do
    fails "alter_subscription refuses $value for a word" \
        "$(alter "'jobs', options => '{\"breaker\": $value}'")" \
        "HF001: breaker is *; it must be one of off, on"
done
while read -r wrong near; do
    fails "alter_subscription refuses the option $wrong and suggests $near" \
        "$(alter "'jobs', options => '{\"$wrong\": 1}'")" \
        "HF001: there is no option $wrong; did you mean $near[?]"
done <<'END'
lease lease_ms
max_attempts attempts_max
bach batch
Batch batch
checkpoint-events checkpoint_events
END
fails "alter_subscription suggests nothing for an option that is like none" \
    "$(alter "'jobs', options => '{\"zzz\": 1}'")" \
    'HF001: there is no option zzz'
fails "the refusal of a long option is cut" \
    "$(alter "'jobs', options => json_build_object(repeat('z', 1000000), 1)::jsonb")" \
    "HF001: there is no option $(printf 'z%.0s' {1..64})"
fails "create_subscription refuses a mode as argument and among the options" \
    "$(create "'jobs', ARRAY['**'], mode => 'shared', options => '{\"mode\": \"shared\"}'")" \
    'HF001: mode is given twice: as an argument, and among the options'
fails "create_subscription with another mode is a conflict" \
    "$(create "'jobs', ARRAY['**'], mode => 'ordered'")" \
    'HF004: subscription jobs exists with mode shared; the mode cannot be changed'
fails "alter_subscription with another order is a conflict" \
    "$(alter "'jobs', options => '{\"order\": \"strict\"}'")" \
    'HF004: subscription jobs exists with order relaxed; the order cannot be changed'
fails "alter_subscription of an unknown subscription is not found" "$(alter "'no', ARRAY['**']")" \
    'HF003: there is no subscription no'
fails "create_subscription in an unknown namespace is not found" \
    "SELECT holdfast.create_subscription('no', 's', ARRAY['**'],
    'start')" 'HF003: there is no namespace no'
fails "create_subscription refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ; $(create "'new', ARRAY['**'], 'start', 'ordered'")" \
    'HF002: subscriptions need a transaction that is READ COMMITTED, not REPEATABLE READ'
is "refused calls have changed no subscription" \
    "SELECT string_agg(name || generation, ' ' ORDER BY name)
    FROM holdfast_private.subscriptions" 'audit6 jobs5'
is "a subscription whose transaction is rolled back does not exist" "BEGIN;
    $(create "'new', ARRAY['**'], 'start', 'ordered'"); ROLLBACK;
    SELECT count(*) FROM holdfast_private.subscriptions" 't 2'

# --- Pausing, seeking, dropping ---
is "pause_subscription takes a reason" \
    "SELECT holdfast.pause_subscription('default', 'jobs', 'why')" ''
is "pause_subscription stores role and reason" \
    "SELECT paused_by, paused_reason FROM holdfast_private.subscriptions
    WHERE name = 'jobs'" 'holdfast|why'
is "seek_subscription with dry_run returns position and number of events" \
    "SELECT * FROM holdfast.seek_subscription('default', 'jobs', '1', dry_run => true)" '1|2'
is "seek_subscription with dry_run changes nothing" \
    "SELECT start FROM holdfast_private.subscriptions WHERE name = 'jobs'" 0
is "seek_subscription moves a subscription back to the start" \
    "SELECT * FROM holdfast.seek_subscription('default', 'jobs', 'start')" '0|3'
is "claim hands out nothing of a paused subscription" \
    "SELECT count(*) FROM holdfast.claim('default', 'jobs')" 0
is "resume_subscription takes a paused subscription" \
    "SELECT holdfast.resume_subscription('default', 'jobs')" ''
is "claim hands out all events again after a seek and a resume" \
    "SELECT count(*) FROM holdfast.claim('default', 'jobs')" 3
is "seek_subscription to now moves a subscription to the end" \
    "SELECT * FROM holdfast.seek_subscription('default', 'jobs', 'now')" '3|0'
fails "pause_subscription refuses a reason of 2049 bytes" \
    "SELECT holdfast.pause_subscription('default', 'jobs',
    repeat('x', 2049))" 'HF001: reason is 2049 bytes; the limit is 2048'
fails "seek_subscription refuses a place that is NULL" \
    "SELECT holdfast.seek_subscription('default', 'jobs', NULL)" \
    'HF001: no place is given: say start, now, a position or a time'
for call in "pause_subscription('default', 'no')" "resume_subscription('default', 'no')" \
    "seek_subscription('default', 'no', 'now')" "drop_subscription('default', 'no')"; do
    fails "a call for an unknown subscription is not found: $call" \
        "SELECT holdfast.$call" 'HF003: there is no subscription no'
done
fails "pause_subscription refuses an empty name" \
    "SELECT holdfast.pause_subscription('default', '')" \
    'HF001: subscription name is empty'
fails "drop_subscription refuses a name that is NULL" \
    "SELECT holdfast.drop_subscription('default', NULL)" \
    'HF001: subscription name is missing'
fails "drop_subscription refuses a name of 256 bytes" \
    "SELECT holdfast.drop_subscription('default', repeat('n', 256))" \
    'HF001: subscription name is 256 bytes; the limit is 255'
is "drop_subscription takes a shared subscription" \
    "SELECT holdfast.drop_subscription('default', 'jobs')" ''
is "drop_subscription leaves neither subscription nor leases" \
    "SELECT (SELECT count(*) FROM holdfast_private.subscriptions),
    (SELECT count(*) FROM holdfast_private.leases)" '1|0'

# --- At the same time ---
open a
open b
ask a "BEGIN; $(create "'same', ARRAY['a'], 'start', 'ordered', options => '{\"batch\": 7}'")" \
    >/dev/null
tell b "$(create "'same', ARRAY['b'], 'start', 'ordered', options => '{\"stuck_max\": 3}'")"
ok "a second create_subscription of the same name waits for the first" blocked b
ask a "COMMIT" >/dev/null
hears "the second create_subscription changes what the first has made" b f
is "the second create_subscription keeps what only the first one gave" \
    "SELECT patterns, options::json ->> 'batch', options::json ->> 'stuck_max'
    FROM holdfast_private.subscriptions WHERE name = 'same'" '["b"]|7|3'
ask a "BEGIN; $(create "'gone', ARRAY['a'], 'start', 'ordered'")" >/dev/null
tell b "$(create "'gone', ARRAY['b'], 'start', 'ordered'")"
ok "a second create_subscription waits for one that will be rolled back" blocked b
ask a "ROLLBACK" >/dev/null
hears "the second create_subscription makes it if the first is rolled back" b t
ask a "BEGIN; $(alter "'same', options => '{\"batch\": 8}'")" >/dev/null
tell b "$(alter "'same', options => '{\"stuck_max\": 4}'")"
ok "a second alter_subscription waits for the first" blocked b
ask a "COMMIT" >/dev/null
hears "the second alter_subscription succeeds after the first" b ''
is "options of both alter_subscription calls are stored" \
    "SELECT options::json ->> 'batch', options::json ->> 'stuck_max'
    FROM holdfast_private.subscriptions WHERE name = 'same'" '8|4'
ask a "BEGIN; SELECT holdfast.drop_subscription('default', 'same')" >/dev/null
tell b "$(alter "'same', options => '{\"stuck_max\": 5}'")"
ok "alter_subscription waits for a drop of the subscription" blocked b
ask a "COMMIT" >/dev/null
hears "alter_subscription of a dropped subscription is not found" b 'ERROR:  HF003'
sql "$(create "'claims', ARRAY['**'], 'start', 'shared'")" >/dev/null
claim="SELECT lease FROM holdfast.claim('default', 'claims', 1)"
lease=$(ask a "BEGIN; $claim")
tell b "SELECT holdfast.drop_subscription('default', 'claims')"
ok "drop_subscription waits for a claim under way" blocked b
ask a "COMMIT" >/dev/null
hears "drop_subscription succeeds after the claim" b ''
asks "ack for a subscription that was dropped is not found" a \
    "SELECT holdfast.ack('default', 'claims', '$lease')" 'ERROR:  HF003'
sql "$(create "'claims', ARRAY['**'], 'start', 'shared'")" >/dev/null
ask a "BEGIN; SELECT holdfast.drop_subscription('default', 'claims')" >/dev/null
tell b "$claim"
ok "claim waits for a drop of the subscription" blocked b
ask a "COMMIT" >/dev/null
hears "claim from a dropped subscription is not found" b 'ERROR:  HF003'
sql "$(create "'claims', ARRAY['**'], 'start', 'shared'")" >/dev/null
lease=$(ask a "BEGIN; $claim")
tell b "SELECT position FROM holdfast.seek_subscription('default', 'claims', 'start')"
ok "seek_subscription waits for a claim under way" blocked b
ask a "COMMIT" >/dev/null
hears "seek_subscription succeeds after the claim" b 0
asks "ack with a lease from before a seek is stale" \
    a "SELECT holdfast.ack('default', 'claims', '$lease')" \
    'ERROR:  HF005'

# Who locks several partitions does it by their numbers, however they lie in the table.
partition() {
    echo "SELECT FROM holdfast_private.partitions p JOIN holdfast_private.subscriptions s ON s.id
        = p.subscription_id WHERE s.name = 'moved' AND p.partition = $1 FOR SHARE OF p"
}
for call in "seek_subscription('default', 'moved', 'start')" \
    "drop_subscription('default', 'moved')"; do
    sql "$(create "'moved', ARRAY['**'], 'start', 'ordered', 2");
        UPDATE holdfast_private.partitions SET owner_name = NULL WHERE partition = 0" >/dev/null
    ask a "BEGIN; $(partition 0)" >/dev/null
    tell b "SELECT FROM holdfast.$call"
    ok "${call%%(*} waits for the transaction that has the first partition" blocked b
    asks "a transaction that has the first partition gets the second during ${call%%(*}" \
        a "$(partition 1); COMMIT" ''
    hears "${call%%(*} succeeds after the transaction with both partitions" b ''
done

# --- Now ---
# looks NAME: waits until the session is at its nap between two looks.
looks() {
    becomes "SELECT wait_event = 'PgSleep' FROM pg_stat_activity
        WHERE pid = ${session_backend[$1]}" t
}
open c
ask a "BEGIN; SELECT position FROM holdfast.publish('default', 'early')" >/dev/null
tell b "$(create "'now', ARRAY['**'], 'now', 'shared'")"
ok "create_subscription at now waits for a publisher that has not ended" looks b
asks "create_subscription at now does not wait for a publisher that begins later" c \
    "BEGIN; SELECT position FROM holdfast.publish('default', 'late')" 5
ask a "COMMIT" >/dev/null
hears "create_subscription at now succeeds after the publisher has ended" b t
ask c "COMMIT" >/dev/null
is "a subscription at now gets what was published later, and not what was before" \
    "SELECT position, type FROM holdfast.claim('default', 'now')" '5|late'
asks "seek_subscription to now does not wait for its own transaction" a \
    "BEGIN; SELECT position FROM holdfast.publish('default', 'own');
    SELECT position FROM holdfast.seek_subscription('default', 'now', 'now'); COMMIT" '6 6'
ask a "BEGIN; SET LOCAL holdfast.notify = off;
    SELECT position FROM holdfast.publish('default', 'prepared')" >/dev/null
tell b "SELECT position FROM holdfast.seek_subscription('default', 'now', 'now')"
ok "seek_subscription to now waits for a publisher" looks b
ask a "PREPARE TRANSACTION 'p'" >/dev/null
ok "seek_subscription to now waits for a publisher that is prepared meanwhile" looks b
sql "ROLLBACK PREPARED 'p'" >/dev/null
hears "seek_subscription to now succeeds after the prepared transaction has ended" b 7
ask a "BEGIN; SELECT position FROM holdfast.publish('default', 'never')" >/dev/null
fails "seek_subscription to end names a publisher that does not end" \
    "SELECT holdfast.seek_subscription('default', 'now', 'end')" \
    "HF007: a transaction of the server's process ${session_backend[a]} has published and does*"
ask a "ROLLBACK" >/dev/null
shut c

# --- With workers of the library ---
sql "$(create "'work', ARRAY['work.*'], 'now', 'ordered'")" >/dev/null
out=$(mktemp)
"$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast" work work \
    --exec "cat >>'$out'; echo >>'$out'" >/dev/null 2>&1 \
    & # not hf: the process itself is to be stopped
worker=$!
trap 'kill "$worker" 2>/dev/null; cluster_stop' EXIT
# runs POSITION: how often its command ran; more POSITION TIMES: more often than that. An event that
# is at work when the subscription changes may come again, so they are not counted exactly.
runs() { grep -c "\"position\":$1," "$out"; }
more() { [ "$(runs "$1")" -gt "$2" ]; }
first=$(publish work.a)
ok "a worker of the library handles events of a subscription that SQL made" \
    until_true 60 more "$first" 0
sql "$(alter "'work', ARRAY['work.a']")" >/dev/null
passes_over_b() ( # what it reads while it is told of the change may still come
    other=$(publish work.b)
    last=$(publish work.a)
    until_true 60 more "$last" 0 && [ "$(runs "$other")" -eq 0 ]
)
ok "a worker follows patterns that SQL changes" until_true 60 passes_over_b
before=$(runs "$first")
sql "SELECT FROM holdfast.seek_subscription('default', 'work', '0')" >/dev/null
ok "a worker follows a seek by SQL" until_true 60 more "$first" "$before"
sql "SELECT holdfast.pause_subscription('default', 'work', 'why')" >/dev/null
is "sub show has the reason of a pause by SQL" \
    "SELECT '$(hf sub show work --json | grep -c '"why"')'" 1
sql "SELECT holdfast.resume_subscription('default', 'work')" >/dev/null
ok "a worker goes on when SQL resumes the subscription" until_true 60 more "$(publish work.a)" 0
sql "SELECT holdfast.drop_subscription('default', 'work')" >/dev/null
is "a subscription that SQL drops under a worker is gone" \
    "SELECT count(*) FROM holdfast_private.subscriptions WHERE name = 'work'" 0
kill "$worker"
wait "$worker" 2>/dev/null
rm -f "$out"
is "verify finds nothing after changes by SQL beside a worker" \
    "SELECT '$(hf verify 2>&1 | grep -c ' 0 findings')'" 1

# --- Namespaces ---
is "create_namespace takes metadata, retention and lagging" \
    "SELECT holdfast.create_namespace('n', true, '{\"team\": 1}', 86400000, 1000000, 'drop')" t
is "create_namespace stores what was given" \
    "SELECT gapless, metadata, retention_ms, retention_bytes, lagging_drop
    FROM holdfast_private.namespaces WHERE name = 'n'" 't|{"team": 1}|86400000|1000000|t'
is "create_namespace of a namespace that exists returns false" \
    "SELECT holdfast.create_namespace('n', retention_ms => 0)" f
is "alter_namespace takes lagging alone" \
    "SELECT holdfast.alter_namespace('n', lagging => 'keep')" ''
is "create_namespace and alter_namespace keep what is not given" \
    "SELECT gapless, metadata, retention_ms, retention_bytes, lagging_drop
    FROM holdfast_private.namespaces WHERE name = 'n'" 't|{"team": 1}|0|1000000|f'
fails "create_namespace cannot change gapless" "SELECT holdfast.create_namespace('n', false)" \
    'HF004: namespace n is gapless, which cannot be changed'
fails "create_namespace refuses a name that begins with a blank" \
    "SELECT holdfast.create_namespace(' n')" \
    'HF001: namespace name begins with white space'
fails "create_namespace refuses a name of 129 bytes" \
    "SELECT holdfast.create_namespace(repeat('n', 129))" \
    'HF001: namespace name is 129 bytes; the limit is 128'
fails "alter_namespace refuses metadata that is no object" \
    "SELECT holdfast.alter_namespace('n', '[]')" \
    'HF001: metadata is JSON but not an object'
fails "alter_namespace refuses a negative retention_ms" \
    "SELECT holdfast.alter_namespace('n', retention_ms => -1)" \
    'HF001: retention_ms is -1; it takes 0 to 31622400000000'
fails "alter_namespace refuses a retention_ms above the limit" \
    "SELECT holdfast.alter_namespace('n', retention_ms => 31622400000001)" \
    'HF001: retention_ms is 31622400000001; it takes 0 to 31622400000000'
fails "alter_namespace refuses a negative retention_bytes" \
    "SELECT holdfast.alter_namespace('n', retention_bytes => -1)" \
    'HF001: retention_bytes is -1; it takes 0 and more'
fails "alter_namespace refuses a lagging that is neither keep nor drop" \
    "SELECT holdfast.alter_namespace('n', lagging => 'x')" \
    'HF001: lagging is x; it takes keep or drop'
fails "the refusal of a long lagging is cut" \
    "SELECT holdfast.alter_namespace('n', lagging => repeat('x', 1000000))" \
    "HF001: lagging is $(printf 'x%.0s' {1..64}); it takes keep or drop"
fails "alter_namespace of an unknown namespace is not found" \
    "SELECT holdfast.alter_namespace('no', lagging => 'keep')" \
    'HF003: there is no namespace no'
ask a "BEGIN; SELECT holdfast.create_namespace('twice')" >/dev/null
tell b "SELECT holdfast.create_namespace('twice', retention_ms => 5)"
ok "a second create_namespace of the same name waits for the first" blocked b
ask a "COMMIT" >/dev/null
hears "the second create_namespace changes what the first has made" b f
sql "SELECT holdfast.create_subscription('n', 's', ARRAY['**'], 'start', 'ordered'),
    holdfast.publish('n', 't'), holdfast.heartbeat('n', 'node')" >/dev/null
fails "drop_namespace refuses a namespace with a live node" "CALL holdfast.drop_namespace('n')" \
    'HF004: namespace n is open in 1 process: node'
fails "drop_namespace refuses a name that is NULL" "CALL holdfast.drop_namespace(NULL, true)" \
    'HF001: namespace name is missing'
PGOPTIONS="-c default_transaction_isolation=serializable" \
    fails "drop_namespace refuses a transaction that is SERIALIZABLE" \
    "CALL holdfast.drop_namespace('n', true)" \
    'HF002: namespaces need a transaction that is READ COMMITTED, not SERIALIZABLE'
fails "drop_namespace refuses to run inside of a transaction" \
    "BEGIN; CALL holdfast.drop_namespace('n', true)" \
    '2D000: invalid transaction termination'
is "a refused drop_namespace leaves the namespace" \
    "SELECT removing_at IS NULL FROM holdfast_private.namespaces WHERE name = 'n'" t
ask a "BEGIN; SELECT holdfast.create_subscription('n', 'new', ARRAY['**'], 'start', 'ordered')" \
    >/dev/null
fails "drop_namespace makes no step while a session subscribes" \
    "SELECT FROM holdfast.change_namespace_remove(0, 'n', true, 1000)" '55P03: *'
ask a "COMMIT; BEGIN; SELECT position FROM holdfast.publish('n', 't')" >/dev/null
tell b "CALL holdfast.drop_namespace('n', force => true)"
becomes "SELECT removing_at IS NOT NULL FROM holdfast_private.namespaces WHERE name = 'n'" \
    t >/dev/null
ok "drop_namespace gives way to a publisher" looks b
fails "create_subscription in a namespace that is being removed is not found" \
    "SELECT holdfast.create_subscription('n', 'late',
    ARRAY['**'], 'start', 'ordered')" 'HF003: there is no namespace n'
fails "create_namespace is refused while the namespace is being removed" \
    "SELECT holdfast.create_namespace('n')" \
    'HF011: namespace n is being removed'
ask a "COMMIT" >/dev/null
hears "drop_namespace succeeds after the publisher has ended" b ''
is "drop_namespace removes subscriptions and events of the namespace" \
    "SELECT (SELECT count(*) FROM holdfast_private.namespaces
    WHERE name = 'n'), (SELECT count(*) FROM holdfast_private.subscriptions
    WHERE name IN ('s', 'new')), to_regclass('holdfast_private.events_2') IS NULL" '0|0|t'
is "drop_namespace removes tables, sequences and functions of the namespace" \
    "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace IN ('holdfast'::regnamespace,
    'holdfast_private'::regnamespace) AND relname ~ '_2(_|\$)'),
    (SELECT count(*) FROM pg_proc WHERE pronamespace IN ('holdfast'::regnamespace,
    'holdfast_private'::regnamespace) AND proname ~ '_2(_|\$)'),
    (SELECT count(*) > 0 FROM pg_proc WHERE proname = 'claim_1')" '0|0|t'
fails "drop_namespace of an unknown namespace is not found" \
    "CALL holdfast.drop_namespace('n')" 'HF003: there is no namespace n'
is "create_namespace takes the name of a removed namespace" \
    "SELECT holdfast.create_namespace('n')" t
shut a
shut b
done_testing
