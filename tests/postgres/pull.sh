#!/usr/bin/env bash
# claim, ack, nack, release, bury, touch as SQL functions: what they hand out, what becomes of it,
# what they refuse, and that C and SQL settle each other's leases.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

# fresh COUNT [OPTIONS] [PATTERNS]: a new shared subscription s<n> that begins before COUNT new
# events.
number=0
fresh() {
    number=$((number + 1))
    S="'default', 's$number'"
    sql "SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[$1]), NULL);
         SELECT FROM holdfast.change_subscription_put(1, 's$number', '${3:-[\"**\"]}', '${2:-{\}}',
             2, 1,
             holdfast.head(1) - $1, -1, now())" >/dev/null
}
# claimed [ARGUMENTS]: positions relative to where the subscription began, with attempts from the
# second on.
claimed() {
    echo "SELECT string_agg(c.position - s.start || CASE WHEN attempt > 1 THEN '(' || attempt || ')'
        ELSE '' END, ' ' ORDER BY c.position)
        FROM holdfast.claim($S${1:+, $1}) c, holdfast_private.subscriptions s
            WHERE s.name = 's$number'"
}
lease() { # the lease of the subscription's latest claim
    sql "SELECT replace(token::text, '-', '') FROM holdfast_private.leases WHERE piece IS NULL
        AND subscription_id =
        (SELECT id FROM holdfast_private.subscriptions WHERE name = 's$number')
        ORDER BY expires_at DESC LIMIT 1"
}
at() { # positions counted from the subscription's beginning, as an array
    sql "SELECT array_agg(start + p) FROM holdfast_private.subscriptions, unnest('{$1}'::bigint[]) p
        WHERE name = 's$number'"
}
left="SELECT coalesce(sum(count), 0) FROM holdfast_private.leases"
# passed: what waits is due, and leases are over. (The tests do not wait.)
passed() {
    sql "UPDATE holdfast_private.retries SET next_attempt_at = now() - interval '1 s'
        WHERE kind = 1;
         UPDATE holdfast_private.leases SET expires_at = now() - interval '1 s';
         UPDATE holdfast_private.checkpoints_0 SET leases_from = '-infinity'" >/dev/null
}

# ---- Claiming and settling ----------------------------------------------------------------------

fresh 5
is "claim hands out what there is, up to max" "$(claimed 3); $(claimed)" "1 2 3 4 5"
is "claim returns no rows when nothing is left" "SELECT count(*) FROM holdfast.claim($S)" 0
is "claim returns type, payload, key, tenant, metadata, producer, attempt and lease" \
    "SELECT FROM holdfast.publish('default', 'a.b', '{\"x\":  1}',
    key => 'k', tenant => 'n', metadata => '{\"m\": 2}', producer => 'p');
    SELECT type, payload, key, tenant, metadata, producer, attempt, length(lease),
        expires_at > now() + interval '29 s' FROM holdfast.claim($S)" \
    'a.b|{"x":  1}|k|n|{"m": 2}|p|1|32|t'
is "ack takes a whole lease" "SELECT holdfast.ack($S, '$(lease)')" ""
fails "ack of a lease that has ended is stale" \
    "SELECT holdfast.ack($S, '$(printf '0%.0s' {1..32})')" \
    "HF005: the lease has ended: its events were handed out again or are settled"

fresh 5
sql "$(claimed)" >/dev/null
l=$(lease)
is "ack takes positions that are named twice, and none" \
    "SELECT holdfast.ack($S, '$l', '$(at 1,2,2)'); SELECT holdfast.ack($S, '$l', '{}');
    SELECT count FROM holdfast_private.leases WHERE subscription_id = $number" "  3"
fails "ack of a position that is done is stale and changes nothing" \
    "SELECT holdfast.ack($S, '$l', '$(at 2,3)')" \
    "HF005: position $(at 2 | tr -d '{}') is not in the lease"
is "release hands an event out again at once and counts no attempt" \
    "SELECT holdfast.release($S, '$l', '$(at 3)'); $(claimed)" " 3"
is "setup: a released event is acknowledged and a new one claimed" \
    "SELECT holdfast.ack($S, '$(lease)');
    SELECT FROM holdfast.publish('default', 't'); $(claimed)" " 6"
is "release with delay_ms delays an event and counts no attempt" \
    "SELECT holdfast.release($S, '$(lease)', delay_ms => 60000);
    SELECT kind, attempts, story, next_attempt_at > now() + interval '59 s',
        next_attempt_at <= clock_timestamp() + interval '60 s'
    FROM holdfast_private.retries WHERE subscription_id = $number;
    DELETE FROM holdfast_private.retries WHERE subscription_id = $number" " 1|0||t|t"
fails "release refuses a delay_ms above a year" \
    "SELECT holdfast.release($S, '$l', delay_ms => 31622400001)" \
    "HF001: delay_ms is 31622400001; it must be NULL (at once) or 0 to 31622400000"
fails "release with a delay of a position that is not in the lease is stale" \
    "SELECT holdfast.release($S, '$l', '$(at 3)', 1)" \
    "HF005: position $(at 3 | tr -d '{}') is not in the lease (any more)"
is "nack delays an event by the retry policy and records the error" \
    "SELECT holdfast.nack($S, '$l', '$(at 4)', 'no luck');
    SELECT kind, attempts, next_attempt_at > now() + interval '800 ms',
    next_attempt_at < clock_timestamp() + interval '1200 ms', story::json -> 0 ->> 'error',
    story::json -> 0 ->> 'node' LIKE 'sql:%' FROM holdfast_private.retries
    WHERE subscription_id = $number" " 1|1|t|t|no luck|t"
is "nack delays an event by delay_ms and records the node" \
    "SELECT holdfast.nack($S, '$l', '$(at 5)', 'later', 60000, 'me');
    SELECT next_attempt_at > now() + interval '59 s', story::json -> 0 ->> 'node'
    FROM holdfast_private.retries WHERE position = ('$(at 5)'::bigint[])[1]
        AND subscription_id = $number" " t|me"
is "a lease of which nothing is left is gone" \
    "SELECT count(*) FROM holdfast_private.leases WHERE replace(token::text, '-', '') = '$l'" 0
sql "SELECT holdfast.ack($S, '$(lease)')" >/dev/null
passed
is "claim hands out failed events as attempt 2" "$(claimed)" "4(2) 5(2)"

fresh 2 '{"attempts_max": 2, "lease_ms": 5000, "batch": 1}'
is "claim takes batch and lease_ms of the subscription by default" "SELECT count(*),
    max(expires_at) <= clock_timestamp() + interval '5 s' FROM holdfast.claim($S)" "1|t"
is "nack takes a delay_ms of 0" \
    "SELECT holdfast.nack($S, '$(lease)', NULL, 'first', 0)" ""
is "claim hands out a failed event with delay_ms 0 at once" "$(claimed)" "1(2)"
sql "SELECT holdfast.nack($S, '$(lease)', NULL, 'second')" >/dev/null
is "an event whose last attempt fails is a dead letter with every error" \
    "SELECT reason, cause, attempts, error, attempts_json -> 0 ->> 'error',
    attempts_json -> 1 ->> 'error' FROM holdfast.dead_letters WHERE subscription = 's$number'" \
    "attempts|handler|2|second|first|second"
is "setup: the second event is claimed" "$(claimed)" "2"
sql "SELECT holdfast.bury($S, '$(lease)', error => 'no good')" >/dev/null
is "bury makes a dead letter with reason rejected" \
    "SELECT reason, attempts, error FROM holdfast.dead_letters
    WHERE subscription = 's$number' AND reason <> 'attempts'" "rejected|1|no good"

fresh 1 '{"attempts_max": 2}'
is "setup: an event is claimed and fails with an error that reads like ours" "$(claimed)" "1"
sql "SELECT holdfast.nack($S, '$(lease)', NULL, 'the lease expired without an answer', 0);
     UPDATE holdfast_private.subscriptions SET options = '{\"attempts_max\": 1}'
         WHERE name = 's$number'" >/dev/null
is "an error that reads like an expired lease has the cause handler" \
    "$(claimed); SELECT reason, cause, error
    FROM holdfast.dead_letters WHERE subscription = 's$number'" \
    " attempts|handler|the lease expired without an answer"

fresh 1 '{"on_poison": "halt"}'
sql "$(claimed)" >/dev/null
is "a dead letter pauses the subscription with on_poison halt" \
    "SELECT holdfast.bury($S, '$(lease)');
    SELECT paused_reason LIKE 'the event at position % died (on_poison=halt)'
    FROM holdfast_private.subscriptions WHERE name = 's$number'" " t"
is "claim hands out nothing of a paused subscription" \
    "SELECT FROM holdfast.publish('default', 't'); SELECT count(*) FROM holdfast.claim($S)" "0"

fresh 2 '{"attempts_max": 1}'
is "setup: one event is claimed that has one attempt" "$(claimed 1)" "1"
passed
is "an event without attempts left is not handed out after its lease has ended" "$(claimed)" "2"
is "an event whose last lease has ended is a dead letter with reason lease" \
    "SELECT reason, attempts, error FROM holdfast.dead_letters
    WHERE subscription = 's$number'" "lease|1|the lease expired without an answer"

fresh 3 '{"on_unhandled": "dead_letter"}' '["a"]'
sql "SELECT FROM holdfast.publish('default', 'a')" >/dev/null
is "types outside the patterns are dead letters with on_unhandled dead_letter" \
    "$(claimed); SELECT count(*),
    max(reason) FROM holdfast.dead_letters WHERE subscription = 's$number'" "4 3|no_handler"

fresh 1
sql "$(claimed 'NULL, 1000')" >/dev/null
is "extend prolongs a lease" \
    "SELECT holdfast.extend($S, '$(lease)', 60000) > now() + interval '59 s'; SELECT expires_at
    > now() + interval '59 s' FROM holdfast_private.leases WHERE subscription_id = $number" "t t"
is "extend takes lease_ms of the subscription by default" \
    "SELECT holdfast.extend($S, '$(lease)') <= clock_timestamp() + interval '30 s'" "t"
is "a long error is cut between characters" \
    "SELECT holdfast.nack($S, '$(lease)', NULL, 'x' || repeat('ä', 2000));
    SELECT octet_length(story::json -> 0 ->> 'error'), right(story::json -> 0 ->> 'error', 1)
    FROM holdfast_private.retries WHERE subscription_id = $number" " 2047|ä"

# ---- Work and ack in one transaction ------------------------------------------------------------

fresh 1
sql "CREATE TABLE effects (position bigint); $(claimed)" >/dev/null
l=$(lease)
sql "BEGIN; INSERT INTO effects VALUES (1); SELECT holdfast.ack($S, '$l'); ROLLBACK" >/dev/null
is "effects and ack in one transaction are rolled back together" \
    "SELECT count(*) FROM effects; SELECT count FROM holdfast_private.leases
    WHERE subscription_id = $number" "0 1"
sql "BEGIN; INSERT INTO effects VALUES (1); SELECT holdfast.ack($S, '$l'); COMMIT" >/dev/null
is "effects and ack in one transaction are committed together" \
    "SELECT count(*) FROM effects; SELECT count(*) FROM holdfast_private.leases
    WHERE subscription_id = $number" "1 0"
fresh 2
is "a claim that is rolled back has not happened" "BEGIN; $(claimed); ROLLBACK; $(claimed)" \
    "1 2 1 2"

# ---- Refused ------------------------------------------------------------------------------------

fresh 1
sql "$(claimed)" >/dev/null
l=$(lease)
number=$((number + 1)) # ids are counted, too
sql "SELECT FROM holdfast.change_subscription_put(1, 'ordered', NULL, NULL, 1, 1, 0, -1, now())" \
    >/dev/null
fails "claim in an unknown namespace is not found" "SELECT FROM holdfast.claim('nowhere', 's')" \
    "HF003: there is no namespace nowhere"
fails "claim in a namespace that is being removed is not found" \
    "BEGIN; UPDATE holdfast_private.namespaces
    SET removing_at = now() WHERE id = 1; SELECT FROM holdfast.claim('default', 's')" \
    "HF003: there is no namespace default"
fails "ack for an unknown subscription is not found" \
    "SELECT FROM holdfast.ack('default', 'nobody', '$l')" \
    "HF003: there is no subscription nobody"
fails "claim from an ordered subscription is refused" \
    "SELECT FROM holdfast.claim('default', 'ordered')" \
    "HF002: subscription ordered is ordered; only shared ones hand out leases"
fails "claim refuses a max of 0" \
    "SELECT FROM holdfast.claim($S, 0)" "HF001: max is 0; it must be 1 to 10000"
fails "claim refuses a max of 10001" "SELECT FROM holdfast.claim($S, 10001)" \
    "HF001: max is 10001; it must be 1 to 10000"
fails "claim refuses a lease_ms of 0" "SELECT FROM holdfast.claim($S, 1, 0)" \
    "HF001: lease_ms is 0; it must be 1 to 604800000"
fails "extend refuses a lease_ms of more than a week" \
    "SELECT FROM holdfast.extend($S, '$l', 604800001)" \
    "HF001: lease_ms is 604800001; it must be NULL (as stored) or 1 to 604800000"
fails "ack refuses a lease of 3 characters" "SELECT holdfast.ack($S, 'abc')" \
    "HF001: lease is 3 characters; it has 32 hexadecimal digits"
fails "ack refuses a lease in upper case" "SELECT holdfast.ack($S, repeat('A', 32))" \
    "HF001: lease has a character that is no lower-case hexadecimal digit"
fails "ack refuses a lease that is NULL" "SELECT holdfast.ack($S, NULL)" "HF001: lease is NULL"
fails "nack refuses a negative delay_ms" "SELECT holdfast.nack($S, '$l', NULL, 'x', -1)" \
    "HF001: delay_ms is -1; it must be NULL (by the retry policy) or 0 to 31622400000"
fails "ack refuses 10001 positions" \
    "SELECT holdfast.ack($S, '$l', array_fill(1::bigint, ARRAY[10001]))" \
    "HF001: there are 10001 positions; the limit is 10000"
fails "nack of a position that is not in the lease is stale" \
    "SELECT holdfast.nack($S, '$l', '{999999}')" \
    "HF005: position 999999 is not in the lease (any more)"
as_it_is="SELECT count, positions, subscription_id FROM holdfast_private.leases WHERE token = '$l'"
before=$(sql "$as_it_is")
for call in "ack($S, '$l', '{NULL}')" "ack($S, '$l', '{1,NULL}')" "release($S, '$l', '{NULL}')" \
    "nack($S, '$l', '{NULL}')" "bury($S, '$l', '{NULL}')"; do
    fails "${call%%(*} refuses a position that is NULL" "SELECT holdfast.$call" \
        "HF005: position * is not in the lease*"
done
fails "tx_settle refuses a position that is NULL" "SELECT FROM holdfast.tx_settle(1, ${before##*|},
    true, 0, gen_random_uuid(), 1, '$l', NULL, '{NULL}', '{f}', now())" "HF004: *"
is "calls with a position that is NULL leave the lease as it was" "$as_it_is" "$before"
fails "ack with the lease of another subscription is stale" \
    "SELECT holdfast.ack('default', 's1', '$l')" \
    "HF005: the lease has ended: its events were handed out again or are settled"
fails "claim refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM holdfast.claim($S)" \
    "HF002: leases need a transaction that is READ COMMITTED, not REPEATABLE READ"
fails "claim refuses a node of 256 bytes" \
    "SELECT FROM holdfast.claim($S, node => repeat('n', 256))" \
    "HF001: node is 256 bytes; the limit is 255"
is "refused calls leave the lease as it was" \
    "SELECT count FROM holdfast_private.leases WHERE replace(token::text, '-', '') = '$l'" 1

# ---- At the same time ---------------------------------------------------------------------------

fresh 4
open a
open b
ask a "BEGIN; $(claimed 2)" >/dev/null
tell b "$(claimed 2)"
ok "a claim waits for a claim of another session" blocked b
ask a "COMMIT" >/dev/null
hears "a claim that has waited gets the next events" b "3 4"
fresh 4
ask a "BEGIN; $(claimed 2)" >/dev/null
tell b "$(claimed 2)"
blocked b >/dev/null
ask a "ROLLBACK" >/dev/null
hears "a claim that has waited gets the same events if the first is rolled back" b "1 2"
sql "SELECT FROM holdfast.change_seek(1, $number,
    (SELECT start FROM holdfast_private.subscriptions WHERE id = $number), now())" >/dev/null
is "a seek ends the leases of the subscription" "$(claimed 1)" "1"

# ---- C and SQL ----------------------------------------------------------------------------------

if [ -x "${HOLDFAST:=$ROOT/build/release/holdfast}" ]; then
    url="postgresql:///$PGDATABASE?host=$PGHOST&user=$PGUSER"
    fresh 4
    l=$("$HOLDFAST" --db "$url" claim "s$number" --max 2 --json |
            sed -n 's,.*"lease": *"\([0-9a-f]*\)".*,\1,p' | head -1)
    is "holdfast.ack settles a lease of the command claim" "SELECT holdfast.ack($S, '$l')" ""
    sql "$(claimed)" >/dev/null
    ok "the command ack settles a lease of holdfast.claim" \
        "$HOLDFAST" --db "$url" ack "s$number" "$(lease)"
    is "no lease is left after C and SQL have settled" \
        "SELECT count(*) FROM holdfast_private.leases WHERE subscription_id = $number" 0
else
    skip "claims about leases of C and SQL" "the command is not built"
fi

done_testing
