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
is "a shared one is made" "$(create "'jobs', ARRAY['user.*', 'order.**'], 'start', 'shared'")" t
publish user.made >/dev/null
publish other >/dev/null
publish order.a.b >/dev/null
is "it hands out what it is for" "SELECT position, attempt FROM holdfast.claim('default', 'jobs')" \
    "1|1 3|1"
is "making it again changes nothing" "$(create "'jobs', ARRAY['user.*', 'order.**']")" f
is "not even its generation" "SELECT generation FROM holdfast_private.subscriptions" 1
is "other patterns and options change it" \
    "$(create "'jobs', ARRAY['x'], options => '{\"batch\": 5, \"on_poison\": \"halt\"}'")" f
is "in what is given" "SELECT patterns, generation, o.batch, o.on_poison, o.lease_ms
    FROM holdfast_private.subscriptions,
    json_to_record(options::json) o (batch integer, on_poison text,
    lease_ms integer)" '["x"]|2|5|halt|30000'
is "altering leaves alone what is not given" \
    "$(alter "'jobs', options => '{\"lease_ms\": 60000}'")" ''
is "so patterns and batch stay" "SELECT patterns, options::json ->> 'batch',
    options::json ->> 'lease_ms' FROM holdfast_private.subscriptions" '["x"]|5|60000'
is "patterns alone" "$(alter "'jobs', ARRAY['**']")" ''
is "are changed, too" "SELECT patterns, options::json ->> 'lease_ms'
    FROM holdfast_private.subscriptions" '["**"]|60000'
is "nothing given changes nothing" \
    "$(alter "'jobs'"); SELECT generation FROM holdfast_private.subscriptions" ' 4'
is "an ordered one with partitions" "$(create "'audit', ARRAY['**'], '2', 'ordered', 4")" t
is "begins where it was told to" \
    "SELECT start, partitions FROM holdfast_private.subscriptions WHERE name = 'audit'" '2|4'
is "no process works for it, so it has more at once" \
    "$(alter "'audit', partitions => 6"); SELECT partitions, wanted,
    (SELECT count(*) FROM holdfast_private.partitions WHERE subscription_id = id)
    FROM holdfast_private.subscriptions WHERE name = 'audit'" ' 6||6'
is "one whose partitions are not equally far" "SELECT FROM holdfast_private.subscriptions s,
    holdfast_private.journal_add(s.id, 0, 3, now(), NULL) WHERE s.name = 'audit';
    $(alter "'audit', partitions => 2");
    SELECT partitions, wanted FROM holdfast_private.subscriptions WHERE name = 'audit'" ' 6|2'
is "a whole number may be written as one likes" \
    "$(alter "'jobs', options => '{\"batch\": 1.2e1}'"); $(option jobs batch)" ' 12'

# --- Refusing ---
fails "a new one without a place" "$(create "'new', ARRAY['**']")" \
    'HF001: subscription new is new: say where it starts (place: start, now, a position or a time)'
fails "a new one without a mode" "$(create "'new', ARRAY['**'], 'start'")" \
    'HF001: subscription new is new: say its mode (shared: handed out by claim; ordered: *)'
fails "a place that is none" "$(create "'new', ARRAY['**'], 'soon'")" \
    'HF001: place is soon; it takes start, now, a position or a time'
fails "nor is it for one that exists" "$(create "'jobs', ARRAY['**'], 'soon'")" \
    'HF001: place is soon; it takes start, now, a position or a time'
fails "a position below all" "$(create "'jobs', ARRAY['**'], '-1'")" \
    'HF001: position is -1; it must be 0 or more'
fails "a time out of reach" "$(create "'new', ARRAY['**'], 'infinity'")" \
    'HF001: place is the time infinity, which is outside the years 0001 to 9999'
fails "a position beyond the log" \
    "$(create "'new', ARRAY['**'], '99999999999999999999', 'ordered'")" \
    'HF001: position 99999999999999999999 is beyond the end of the log, which is 3'
fails "a mode" "$(create "'new', ARRAY['**'], 'start', 'fast'")" \
    'HF001: mode is fast; it must be one of ordered, shared'
fails "partitions" "$(create "'new', ARRAY['**'], 'start', partitions => 1025")" \
    'HF001: partitions is 1025; it must be 1 to 1024'
fails "no patterns" "$(create "'new', NULL, 'start'")" \
    'HF001: subscription new: 0 patterns; it takes 1 to 64'
fails "a pattern that is NULL" "$(create "'new', ARRAY['a', NULL], 'start'")" \
    'HF001: subscription new: pattern is NULL'
fails "no name" "$(create "NULL, ARRAY['a'], 'start'")" 'HF001: subscription name is missing'
fails "options that are none" "$(alter "'jobs', options => '[]'")" \
    'HF001: options is JSON but not an object'
for value in '"5"' 5.5 null true '[]' '{}' 1e400; do
    fails "an option of the wrong type: $value" \
        "$(alter "'jobs', options => '{\"batch\": $value}'")" \
        "HF001: batch is *; it must be 1 to 10000"
done
for value in 1 null true '"ON"' '[]'; do
    fails "a word of the wrong type: $value" \
        "$(alter "'jobs', options => '{\"breaker\": $value}'")" \
        "HF001: breaker is *; it must be one of off, on"
done
while read -r wrong near; do
    fails "an unknown option: $wrong" "$(alter "'jobs', options => '{\"$wrong\": 1}'")" \
        "HF001: there is no option $wrong; did you mean $near[?]"
done <<'END'
lease lease_ms
max_attempts attempts_max
bach batch
Batch batch
checkpoint-events checkpoint_events
END
fails "one that is like none" "$(alter "'jobs', options => '{\"zzz\": 1}'")" \
    'HF001: there is no option zzz'
fails "one that is long is cut" \
    "$(alter "'jobs', options => json_build_object(repeat('z', 1000000), 1)::jsonb")" \
    "HF001: there is no option $(printf 'z%.0s' {1..64})"
fails "one that is given twice" \
    "$(create "'jobs', ARRAY['**'], mode => 'shared', options => '{\"mode\": \"shared\"}'")" \
    'HF001: mode is given twice: as an argument, and among the options'
fails "another mode" "$(create "'jobs', ARRAY['**'], mode => 'ordered'")" \
    'HF004: subscription jobs exists with mode shared; the mode cannot be changed'
fails "another order" "$(alter "'jobs', options => '{\"order\": \"strict\"}'")" \
    'HF004: subscription jobs exists with order relaxed; the order cannot be changed'
fails "to alter one that is none" "$(alter "'no', ARRAY['**']")" \
    'HF003: there is no subscription no'
fails "a namespace that is none" "SELECT holdfast.create_subscription('no', 's', ARRAY['**'],
    'start')" 'HF003: there is no namespace no'
fails "an older snapshot" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ; $(create "'new', ARRAY['**'], 'start', 'ordered'")" \
    'HF002: subscriptions need a transaction that is READ COMMITTED, not REPEATABLE READ'
is "nothing of all this was changed" "SELECT string_agg(name || generation, ' ' ORDER BY name)
    FROM holdfast_private.subscriptions" 'audit6 jobs5'
is "what is rolled back does not exist" "BEGIN;
    $(create "'new', ARRAY['**'], 'start', 'ordered'"); ROLLBACK;
    SELECT count(*) FROM holdfast_private.subscriptions" 't 2'

# --- Pausing, seeking, dropping ---
is "it is paused" "SELECT holdfast.pause_subscription('default', 'jobs', 'why')" ''
is "by a role, for a reason" "SELECT paused_by, paused_reason FROM holdfast_private.subscriptions
    WHERE name = 'jobs'" 'holdfast|why'
is "a seek is tried" \
    "SELECT * FROM holdfast.seek_subscription('default', 'jobs', '1', dry_run => true)" '1|2'
is "and changes nothing" "SELECT start FROM holdfast_private.subscriptions WHERE name = 'jobs'" 0
is "it is moved back" "SELECT * FROM holdfast.seek_subscription('default', 'jobs', 'start')" '0|3'
is "nothing comes in a pause" "SELECT count(*) FROM holdfast.claim('default', 'jobs')" 0
is "it is resumed" "SELECT holdfast.resume_subscription('default', 'jobs')" ''
is "and all comes again" "SELECT count(*) FROM holdfast.claim('default', 'jobs')" 3
is "to the end" "SELECT * FROM holdfast.seek_subscription('default', 'jobs', 'now')" '3|0'
fails "a reason that is too long" "SELECT holdfast.pause_subscription('default', 'jobs',
    repeat('x', 2049))" 'HF001: reason is 2049 bytes; the limit is 2048'
fails "no place to seek to" "SELECT holdfast.seek_subscription('default', 'jobs', NULL)" \
    'HF001: no place is given: say start, now, a position or a time'
for call in "pause_subscription('default', 'no')" "resume_subscription('default', 'no')" \
    "seek_subscription('default', 'no', 'now')" "drop_subscription('default', 'no')"; do
    fails "none of this name: $call" "SELECT holdfast.$call" 'HF003: there is no subscription no'
done
fails "a name that cannot be" "SELECT holdfast.pause_subscription('default', '')" \
    'HF001: subscription name is empty'
fails "no name to drop" "SELECT holdfast.drop_subscription('default', NULL)" \
    'HF001: subscription name is missing'
fails "a name that is too long" "SELECT holdfast.drop_subscription('default', repeat('n', 256))" \
    'HF001: subscription name is 256 bytes; the limit is 255'
is "it is dropped" "SELECT holdfast.drop_subscription('default', 'jobs')" ''
is "and nothing is left of it" "SELECT (SELECT count(*) FROM holdfast_private.subscriptions),
    (SELECT count(*) FROM holdfast_private.leases)" '1|0'

# --- At the same time ---
open a
open b
ask a "BEGIN; $(create "'same', ARRAY['a'], 'start', 'ordered', options => '{\"batch\": 7}'")" \
    >/dev/null
tell b "$(create "'same', ARRAY['b'], 'start', 'ordered', options => '{\"stuck_max\": 3}'")"
ok "a second create of the same name waits" blocked b
ask a "COMMIT" >/dev/null
hears "and then changes it" b f
is "as if it had come later: what only the first one gave stays" \
    "SELECT patterns, options::json ->> 'batch', options::json ->> 'stuck_max'
    FROM holdfast_private.subscriptions WHERE name = 'same'" '["b"]|7|3'
ask a "BEGIN; $(create "'gone', ARRAY['a'], 'start', 'ordered'")" >/dev/null
tell b "$(create "'gone', ARRAY['b'], 'start', 'ordered'")"
ok "a second create of the subscription waits again" blocked b
ask a "ROLLBACK" >/dev/null
hears "and makes it if the first one did not" b t
ask a "BEGIN; $(alter "'same', options => '{\"batch\": 8}'")" >/dev/null
tell b "$(alter "'same', options => '{\"stuck_max\": 4}'")"
ok "a second change of the subscription waits" blocked b
ask a "COMMIT" >/dev/null
hears "for the other" b ''
is "and both changes count" "SELECT options::json ->> 'batch', options::json ->> 'stuck_max'
    FROM holdfast_private.subscriptions WHERE name = 'same'" '8|4'
ask a "BEGIN; SELECT holdfast.drop_subscription('default', 'same')" >/dev/null
tell b "$(alter "'same', options => '{\"stuck_max\": 5}'")"
ok "a change of a subscription that is being dropped waits" blocked b
ask a "COMMIT" >/dev/null
hears "and finds nothing" b 'ERROR:  HF003'
sql "$(create "'claims', ARRAY['**'], 'start', 'shared'")" >/dev/null
claim="SELECT lease FROM holdfast.claim('default', 'claims', 1)"
lease=$(ask a "BEGIN; $claim")
tell b "SELECT holdfast.drop_subscription('default', 'claims')"
ok "a drop of a subscription waits for a claim under way" blocked b
ask a "COMMIT" >/dev/null
hears "and drops it" b ''
asks "a lease of what was claimed is no longer valid" a \
    "SELECT holdfast.ack('default', 'claims', '$lease')" 'ERROR:  HF003'
sql "$(create "'claims', ARRAY['**'], 'start', 'shared'")" >/dev/null
ask a "BEGIN; SELECT holdfast.drop_subscription('default', 'claims')" >/dev/null
tell b "$claim"
ok "a claim of a subscription that is being dropped waits" blocked b
ask a "COMMIT" >/dev/null
hears "and finds nothing" b 'ERROR:  HF003'
sql "$(create "'claims', ARRAY['**'], 'start', 'shared'")" >/dev/null
lease=$(ask a "BEGIN; $claim")
tell b "SELECT position FROM holdfast.seek_subscription('default', 'claims', 'start')"
ok "a seek waits for a claim under way" blocked b
ask a "COMMIT" >/dev/null
hears "and moves it" b 0
asks "and what was claimed is lost" a "SELECT holdfast.ack('default', 'claims', '$lease')" \
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
    asks "that transaction gets the second partition, too" a "$(partition 1); COMMIT" ''
    hears "and then does it" b ''
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
ok "a beginning waits for who has published and not ended" looks b
asks "a publisher that begins later is not waited for" c \
    "BEGIN; SELECT position FROM holdfast.publish('default', 'late')" 5
ask a "COMMIT" >/dev/null
hears "and is made then" b t
ask c "COMMIT" >/dev/null
is "with what came later, and not with what was there" \
    "SELECT position, type FROM holdfast.claim('default', 'now')" '5|late'
asks "what this transaction has published is not waited for" a \
    "BEGIN; SELECT position FROM holdfast.publish('default', 'own');
    SELECT position FROM holdfast.seek_subscription('default', 'now', 'now'); COMMIT" '6 6'
ask a "BEGIN; SET LOCAL holdfast.notify = off;
    SELECT position FROM holdfast.publish('default', 'prepared')" >/dev/null
tell b "SELECT position FROM holdfast.seek_subscription('default', 'now', 'now')"
ok "one that is prepared meanwhile" looks b
ask a "PREPARE TRANSACTION 'p'" >/dev/null
ok "is waited for" looks b
sql "ROLLBACK PREPARED 'p'" >/dev/null
hears "to its end" b 7
ask a "BEGIN; SELECT position FROM holdfast.publish('default', 'never')" >/dev/null
fails "one that does not end is told of" \
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
ok "the library works for what SQL has made" until_true 60 more "$first" 0
sql "$(alter "'work', ARRAY['work.a']")" >/dev/null
passes_over_b() ( # what it reads while it is told of the change may still come
    other=$(publish work.b)
    last=$(publish work.a)
    until_true 60 more "$last" 0 && [ "$(runs "$other")" -eq 0 ]
)
ok "and follows when SQL changes it to other patterns" until_true 60 passes_over_b
before=$(runs "$first")
sql "SELECT FROM holdfast.seek_subscription('default', 'work', '0')" >/dev/null
ok "or moves it" until_true 60 more "$first" "$before"
sql "SELECT holdfast.pause_subscription('default', 'work', 'why')" >/dev/null
is "the command sees it paused" "SELECT '$(hf sub show work --json | grep -c '"why"')'" 1
sql "SELECT holdfast.resume_subscription('default', 'work')" >/dev/null
ok "and goes on when SQL resumes it" until_true 60 more "$(publish work.a)" 0
sql "SELECT holdfast.drop_subscription('default', 'work')" >/dev/null
is "one that is dropped under it is gone" \
    "SELECT count(*) FROM holdfast_private.subscriptions WHERE name = 'work'" 0
kill "$worker"
wait "$worker" 2>/dev/null
rm -f "$out"
is "and verify finds nothing" "SELECT '$(hf verify 2>&1 | grep -c ' 0 findings')'" 1

# --- Namespaces ---
is "a namespace is made" \
    "SELECT holdfast.create_namespace('n', true, '{\"team\": 1}', 86400000, 1000000, 'drop')" t
is "as it was wanted" "SELECT gapless, metadata, retention_ms, retention_bytes, lagging_drop
    FROM holdfast_private.namespaces WHERE name = 'n'" 't|{"team": 1}|86400000|1000000|t'
is "making it again changes what is given" \
    "SELECT holdfast.create_namespace('n', retention_ms => 0)" f
is "and altering" "SELECT holdfast.alter_namespace('n', lagging => 'keep')" ''
is "and nothing else" "SELECT gapless, metadata, retention_ms, retention_bytes, lagging_drop
    FROM holdfast_private.namespaces WHERE name = 'n'" 't|{"team": 1}|0|1000000|f'
fails "gapless stays" "SELECT holdfast.create_namespace('n', false)" \
    'HF004: namespace n is gapless, which cannot be changed'
fails "a name" "SELECT holdfast.create_namespace(' n')" \
    'HF001: namespace name begins with white space'
fails "a long name" "SELECT holdfast.create_namespace(repeat('n', 129))" \
    'HF001: namespace name is 129 bytes; the limit is 128'
fails "metadata" "SELECT holdfast.alter_namespace('n', '[]')" \
    'HF001: metadata is JSON but not an object'
fails "a time" "SELECT holdfast.alter_namespace('n', retention_ms => -1)" \
    'HF001: retention_ms is -1; it takes 0 to 31622400000000'
fails "a longer time" "SELECT holdfast.alter_namespace('n', retention_ms => 31622400000001)" \
    'HF001: retention_ms is 31622400000001; it takes 0 to 31622400000000'
fails "a size" "SELECT holdfast.alter_namespace('n', retention_bytes => -1)" \
    'HF001: retention_bytes is -1; it takes 0 and more'
fails "what to do with laggards" "SELECT holdfast.alter_namespace('n', lagging => 'x')" \
    'HF001: lagging is x; it takes keep or drop'
fails "and names a little of it" \
    "SELECT holdfast.alter_namespace('n', lagging => repeat('x', 1000000))" \
    "HF001: lagging is $(printf 'x%.0s' {1..64}); it takes keep or drop"
fails "to alter one that is none" "SELECT holdfast.alter_namespace('no', lagging => 'keep')" \
    'HF003: there is no namespace no'
ask a "BEGIN; SELECT holdfast.create_namespace('twice')" >/dev/null
tell b "SELECT holdfast.create_namespace('twice', retention_ms => 5)"
ok "a second create of the same name waits" blocked b
ask a "COMMIT" >/dev/null
hears "and changes it" b f
sql "SELECT holdfast.create_subscription('n', 's', ARRAY['**'], 'start', 'ordered'),
    holdfast.publish('n', 't'), holdfast.heartbeat('n', 'node')" >/dev/null
fails "one that is in use stays" "CALL holdfast.drop_namespace('n')" \
    'HF004: namespace n is open in 1 process: node'
fails "none without a name" "CALL holdfast.drop_namespace(NULL, true)" \
    'HF001: namespace name is missing'
PGOPTIONS="-c default_transaction_isolation=serializable" \
    fails "nor with an older snapshot, which might not see who opens it" \
    "CALL holdfast.drop_namespace('n', true)" \
    'HF002: namespaces need a transaction that is READ COMMITTED, not SERIALIZABLE'
fails "not in a transaction" "BEGIN; CALL holdfast.drop_namespace('n', true)" \
    '2D000: invalid transaction termination'
is "(it is there)" "SELECT removing_at IS NULL FROM holdfast_private.namespaces WHERE name = 'n'" t
ask a "BEGIN; SELECT holdfast.create_subscription('n', 'new', ARRAY['**'], 'start', 'ordered')" \
    >/dev/null
fails "no step is made while a session subscribes" \
    "SELECT FROM holdfast.change_namespace_remove(0, 'n', true, 1000)" '55P03: *'
ask a "COMMIT; BEGIN; SELECT position FROM holdfast.publish('n', 't')" >/dev/null
tell b "CALL holdfast.drop_namespace('n', force => true)"
becomes "SELECT removing_at IS NOT NULL FROM holdfast_private.namespaces WHERE name = 'n'" \
    t >/dev/null
ok "a drop of a namespace gives way to a publisher" looks b
fails "and no session begins to use it" "SELECT holdfast.create_subscription('n', 'late',
    ARRAY['**'], 'start', 'ordered')" 'HF003: there is no namespace n'
fails "or makes it anew" "SELECT holdfast.create_namespace('n')" \
    'HF011: namespace n is being removed'
ask a "COMMIT" >/dev/null
hears "and drops it" b ''
is "with everything in it" "SELECT (SELECT count(*) FROM holdfast_private.namespaces
    WHERE name = 'n'), (SELECT count(*) FROM holdfast_private.subscriptions
    WHERE name IN ('s', 'new')), to_regclass('holdfast_private.events_2') IS NULL" '0|0|t'
is "and every table, sequence and function of its own" \
    "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace IN ('holdfast'::regnamespace,
    'holdfast_private'::regnamespace) AND relname ~ '_2(_|\$)'),
    (SELECT count(*) FROM pg_proc WHERE pronamespace IN ('holdfast'::regnamespace,
    'holdfast_private'::regnamespace) AND proname ~ '_2(_|\$)'),
    (SELECT count(*) > 0 FROM pg_proc WHERE proname = 'claim_1')" '0|0|t'
fails "one that is none" "CALL holdfast.drop_namespace('n')" 'HF003: there is no namespace n'
is "another of the name may come" "SELECT holdfast.create_namespace('n')" t
shut a
shut b
done_testing
