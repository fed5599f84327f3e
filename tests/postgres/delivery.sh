#!/usr/bin/env bash
# Ownership, settling, handlers' transactions and dead letters of ordered subscriptions, alone and
# beside others; and that progress leaves no dead rows.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

A=00000000-0000-4000-8000-00000000000a
B=00000000-0000-4000-8000-00000000000b
now="timestamptz '2026-01-01 00:00:00+00'"

# beat TOKEN NAME [LOCKED]: registers a process.
beat() {
    sql "SELECT FROM holdfast.process_beat(1, '$1', '$2', ${3:-false})" >/dev/null
}
# acquire TOKEN PARTITION [MORE]: the call. Partition 1 is that of the second subscription.
acquire() {
    echo "SELECT status, epoch, checkpoint, unclean
        FROM holdfast.change_acquire(1, $(($2 + 1)), $2, '$1', 'node', ${3:-false, NULL, NULL})"
}
# settle TOKEN EPOCH CHECKPOINT [OUTCOMES]: the call.
settle() {
    echo "SELECT status, message
        FROM holdfast.change_settle(1, 1, 0, '$1', $2, 0, $3, NULL, $now${4:+, $4})"
}
# done_ POSITION LANE WAITED, retry_ ..., held_ ..., dead_ ..., block_ ...: one outcome.
outcome() { # KIND POSITION LANE WAITED ATTEMPTS
    local n=${1//[^,]/}
    n=$((${#n} + 1))
    echo "'{$1}', '{$2}', '{$3}', '{${5:-0}}', array_fill(0, ARRAY[$n]),
        array_fill('[]'::text, ARRAY[$n]), array_fill($now, ARRAY[$n]),
        array_fill('gone'::text, ARRAY[$n]), array_fill('oh'::text, ARRAY[$n]),
        array_fill('handler'::text, ARRAY[$n]), NULL, NULL, '{${4:-f}}'"
}

beat $A a
beat $B b
sql "SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[20]), NULL);
     SELECT FROM holdfast.change_subscription_put(1, 'o', '[\"**\"]', '{}', 1, 1, 0, -1, $now);
     SELECT FROM holdfast.change_subscription_put(1, 'two', '[\"**\"]', '{}', 1, 2, 0, -1, $now)" \
         >/dev/null

# ---- Members ------------------------------------------------------------------------------------

D=00000000-0000-4000-8000-00000000000d # which is unknown
refresh() { # TOKEN: the call, where one member is enough
    echo "SELECT status, members_version, members
        FROM holdfast.change_members_refresh(1, 1, '$1', false, 1, NULL, NULL, NULL)"
}
sql "INSERT INTO holdfast_private.members (subscription_id, token) VALUES (1, '$A'),
    (1, '$D')" >/dev/null
is "joining is refused if there are as many members as allowed" "$(refresh $B)" "11|0|"
is "a member that was refused has changed nothing" \
    "SELECT token FROM holdfast_private.members ORDER BY id;
    SELECT members_version FROM holdfast_private.subscriptions WHERE id = 1" "$A $D 0"
is "a member that refreshes removes dead members" "$(refresh $A)" "0|1|{$A}"
sql "DELETE FROM holdfast_private.members" >/dev/null
open first
open second
ask first "BEGIN; $(refresh $A)" >/dev/null
tell second "$(refresh $B)"
ok "the second of two that join at once waits for the first" blocked second
ask first "COMMIT" >/dev/null
ok "the second of two that join at once is refused if there is room for one" \
    like "11|*|" "$(hear second | cut -d'{' -f1)"
is "there is one member after two have joined at once" \
    "SELECT token FROM holdfast_private.members" "$A"
shut first
shut second
sql "DELETE FROM holdfast_private.members" >/dev/null

# ---- Ownership ----------------------------------------------------------------------------------

# What names no process, or no epoch, owns nothing: SQL compares NULL with nothing.
none="1, 1, 0, NULL"
is "a settle without a token is refused on a partition that never had an owner" "SELECT status,
    message FROM holdfast.change_settle($none, 0, 0, 5, NULL, $now)" \
    "5|partition 0 now belongs to no process"
fails "a transaction without a token settles nothing on a partition without an owner" "SELECT FROM
    holdfast.tx_settle(1, 1, false, 0, NULL, 0, NULL, NULL, '{1}', '{f}', $now)" \
    "HF005: partition 0 now belongs to no process"
is "a handler without a token may not run on a partition without an owner" "SELECT status
    FROM holdfast.tx_enter(1, 1, false, 0, NULL, 0, NULL, 1)" 5
is "a partition is not acquired without a token" "SELECT status, message
    FROM holdfast.change_acquire($none, 'node', false, NULL, NULL)" \
    "1|a partition is acquired by a process, and no token was given"
is "calls that were refused for want of a token have stored nothing" "SELECT owner, epoch
    FROM holdfast_private.partitions WHERE subscription_id = 1; SELECT checkpoint
    FROM holdfast.journal_newest(1, 0); SELECT count(*) FROM holdfast_private.settled" \
    "|0 0 0"
is "a partition without an owner is acquired with epoch 1" "$(acquire $A 0)" "0|1|0|f"
is "an owner that acquires its partition again gets a new epoch" "$(acquire $A 0)" "0|2|0|f"
is "a settle without an epoch is refused" "$(settle $A NULL 5)" \
    "5|partition 0 was acquired again or sought: its epoch is 2, not "
is "a handler without an epoch may not run" "SELECT status
    FROM holdfast.tx_enter(1, 1, false, 0, '$A', NULL, NULL, 1)" 5
is "a partition is not taken from its owner without a token" "SELECT status
    FROM holdfast.change_acquire($none, 'node', true, NULL, NULL)" 1
is "a partition is not taken from an owner that is alive" \
    "SELECT status, message, owner, owner_renewals
    FROM holdfast.change_acquire(1, 1, 0, '$B', 'b', false, NULL, NULL)" \
    "11|partition 0 is owned by node, which is alive|$A|0"
is "a partition is taken from an owner whose renewals stand still" \
    "$(acquire $B 0 "false, '{$A}', '{0}'")" "0|3|0|t"
is "a partition is not taken from an owner whose renewals have another number" \
    "$(acquire $A 0 "false, '{$B}', '{7}'")" "11|||f"
is "a partition is taken from a living owner by force" \
    "$(acquire $A 0 'true, NULL, NULL')" "0|4|0|f"
is "a partition that does not exist cannot be acquired" \
    "SELECT status, message FROM holdfast.change_acquire(1, 2, 2, '$A', 'a',
    false, NULL, NULL)" "1|partition is 2; the subscription has 2"
is "a partition of an unknown subscription is not found" \
    "$(acquire $A 0 | sed 's/(1, 1, /(1, 9, /')" "3|||f"
is "a partition of another namespace is not found" \
    "$(acquire $A 0 | sed 's/(1, 1, /(9, 1, /')" "3|||f"

C=00000000-0000-4000-8000-00000000000c
open c
ask c "SELECT holdfast.process_lock(1, '$C');
    SELECT FROM holdfast.process_beat(1, '$C', 'c', true)" >/dev/null
is "a process that holds its lock is alive" \
    "$(acquire $C 1); $(acquire $A 1); SELECT holdfast.dead_of(1, '{$C}')" "0|1|0|f 11|||f {}"
is "process_beat shows the renewals of other processes" "SELECT node_name, renewals, dead
    FROM holdfast.process_beat(1, '$A', 'a', false) WHERE token = '$C'" "c|0|f"
open stranger
lock=$(sql "SELECT lock_key FROM holdfast_private.processes WHERE token = '$C'")
tell stranger "SELECT FROM pg_advisory_lock($lock)"
ok "setup: a stranger waits for the lock of a process" blocked stranger
shut c
hears "setup: the stranger gets the lock when the process is gone" stranger ""
ok "a process whose connection is gone is dead" becomes "SELECT holdfast.dead_of(1, '{$C}')" "{$C}"
open c
asks "a process that comes back takes another lock and is alive" \
    c "SELECT holdfast.process_lock(1, '$C');
    SELECT FROM holdfast.process_beat(1, '$C', 'c', true); SELECT holdfast.dead_of(1, '{$C}')" \
    "t {}"
shut c
shut stranger
ok "setup: the process that came back is dead again" \
    becomes "SELECT holdfast.dead_of(1, '{$C}')" "{$C}"
is "a partition of a dead process is acquired as unclean" "$(acquire $A 1)" "0|2|0|t"
is "a dead process that owns nothing is forgotten" \
    "SELECT holdfast.process_sweep(1); SELECT count(*) FROM holdfast_private.processes" "1 2"
is "a process that closes gives all its partitions back" \
    "SELECT holdfast.process_close(1, '$A', $now);
    SELECT count(owner) FROM holdfast_private.partitions" "t 0"
beat $A a
is "a partition is given back once" \
    "$(acquire $A 1); SELECT status FROM holdfast.change_give_back(2, 1, '$A', 3);
    SELECT status FROM holdfast.change_give_back(2, 1, '$A', 3)" "0|3|0|f 0 5"

# ---- Settling -----------------------------------------------------------------------------------

sql "$(acquire $A 0)" >/dev/null # epoch 5
is "a settle stores the checkpoint" "$(settle $A 5 3); SELECT checkpoint, checkpoint_at = $now
    FROM holdfast_private.checkpoints WHERE subscription_id = 1" "0| 3|t"
is "a settle below the stored checkpoint is refused" \
    "$(settle $A 5 2)" "2|checkpoint 2 is below the stored one, 3"
is "a settle without a last event keeps the stored one" "SELECT status
    FROM holdfast.change_settle(1, 1, 0, '$A', 5, 1, 3, '$B', $now); $(settle $A 5 3);
    SELECT last_event_id FROM holdfast_private.checkpoints WHERE subscription_id = 1" "0 0| $B"
is "a settle with an older epoch is stale" "$(settle $A 4 4)" \
    "5|partition 0 was acquired again or sought: its epoch is 5, not 4"
is "a settle of another owner is stale" "$(settle $B 5 4)" "5|partition 0 now belongs to node"
is "a settle with another generation is a conflict" \
    "SELECT status, message FROM holdfast.change_settle(1, 1, 0, '$A', 5, 2, 4, NULL, $now)" \
    "4|the subscription has been changed: its generation is 1, not 2"
is "a position that is done above the checkpoint is remembered" \
    "$(settle $A 5 3 "$(outcome 0,0 '3,5' '1,2' f,f)");
    SELECT position FROM holdfast_private.settled" "0| 5"
is "a position that was done above the checkpoint is forgotten below it" \
    "$(settle $A 5 5); SELECT count(*) FROM holdfast_private.settled" "0| 0"

kinds="SELECT string_agg(position || ':' || kind, ' ' ORDER BY position)
    FROM holdfast_private.retries WHERE subscription_id = 1"
is "a settle stores a retry and two deliveries held behind it" \
    "$(settle $A 5 8 "$(outcome 1,2,2 6,7,8 1,1,1 f,f,f 1,0,0)"); $kinds" "0| 6:1 7:2 8:2"
is "the next delivery of a lane goes on when the first is done" \
    "SELECT status, lane_busy FROM holdfast.change_settle(1, 1, 0, '$A',
    5, 0, -1, NULL, $now, $(outcome 0 6 1 t)); $kinds" "0|{t} 7:1 8:2"
is "the next delivery of a lane goes on when the first is dead" \
    "SELECT status, lane_busy FROM holdfast.change_settle(1, 1, 0, '$A',
    5, 0, -1, NULL, $now, $(outcome 3 7 1 t 4)); $kinds" "0|{t} 8:1"
is "the lane is free when its last delivery is done" \
    "SELECT status, lane_busy FROM holdfast.change_settle(1, 1,
    0, '$A', 5, 0, -1, NULL, $now, $(outcome 0 8 1 t)); $kinds" "0|{f} "
is "a dead letter has position, attempts, reason, error and attempts_json" \
    "SELECT dead_id, position, attempts, reason, error, attempts_json
    FROM holdfast.dead_letters" "1|7|4|gone|oh|[]"
is "a delivery that is held behind nothing goes on" \
    "$(settle $A 5 9 "$(outcome 2 9 1)"); $kinds" "0| 9:1"
is "a delivery that is held behind its own past keeps its attempts" \
    "$(settle $A 5 -1 "$(outcome 1 9 1 t 3)"); $(settle $A 5 -1 "$(outcome 2 9 1 t)");
    SELECT kind, attempts FROM holdfast_private.retries" "0| 0| 1|3"
is "a blocked delivery keeps its lane waiting" \
    "SELECT status, lane_busy FROM holdfast.change_settle(1, 1, 0, '$A', 5,
    0, 10, NULL, $now, $(outcome 4,2 9,10 1,1 t,f 4,0)); $kinds" "0|{t,f} 9:3 10:2"
is "a blocked delivery is a dead letter" \
    "SELECT dead_id, position FROM holdfast.dead_letters ORDER BY 1" "1|7 2|9"
is "resolving the dead letter frees the lane, once" \
    "SELECT status FROM holdfast.change_dead_resolve(1, 2, 'me', 'fixed', $now); $kinds;
    SELECT status FROM holdfast.change_dead_resolve(1, 2, 'me', 'fixed', $now)" "0 10:1 4"
lane="SELECT lane FROM holdfast_private.retries WHERE position = 7"
is "a newer dead letter of the same delivery replaces the older one" \
    "SELECT count FROM holdfast.change_dead_retry(1, '{1}', '\"new\"', $now);
    $(settle $A 5 -1 "$(outcome 3 7 LANE t 4 | sed "s/'{LANE}'/ARRAY($lane)/")");
    SELECT dead_id, position, payload FROM holdfast.dead_letters ORDER BY 1" \
    '1 0| 2|9|null 3|7|"new"'
is "the copy of a delivery that is dead again is gone" \
    "SELECT count(*) FROM holdfast_private.copies" 0
is "a settle with an unknown event as dead letter stores nothing" \
    "$(settle $A 5 -1 "$(outcome 1,3 11,999 1,2 f,f 1,1)");
    SELECT count(*) FROM holdfast_private.retries WHERE position = 11" \
    "14|the event at position 999 is not in the log, so it cannot become a dead letter 0"
is "a settle refuses an outcome that only leases have" "$(settle $A 5 -1 "$(outcome 5 11 1)")" \
    "2|only events of a lease can be released"
is "a dead letter that is retried is back in its lane with a copy" \
    "SELECT count FROM holdfast.change_dead_retry(1, '{3,77}', NULL, $now);
    SELECT r.kind, r.attempts, c.payload, r.lane = holdfast_private.lane_of(c.tenant, c.key, c.id)
        FROM holdfast_private.retries r JOIN holdfast_private.copies c
        USING (subscription_id, position) WHERE r.position = 7" '1 1|0|"new"|t'
is "change_dead_purge deletes dead letters that exist" \
    "SELECT count FROM holdfast.change_dead_purge(1, '{2,3,77}', $now);
    SELECT count(*) FROM holdfast.dead_letters" "1 0"

is "a seek back deletes retries and refuses settles of older epochs" \
    "SELECT status FROM holdfast.change_seek(1, 1, 2, $now);
    SELECT count(*) FROM holdfast_private.retries; SELECT checkpoint
        FROM holdfast_private.checkpoints WHERE subscription_id = 1; $(settle $A 5 12)" \
    "0 0 2 5|partition 0 was acquired again or sought: its epoch is 6, not 5"
is "a seek beyond the head is refused" \
    "SELECT status, message FROM holdfast.change_seek(1, 1, 21, $now)" \
    "1|position 21 is outside the log, which ends at 20"

# ---- At the same time ---------------------------------------------------------------------------

open a
open b
sql "$(acquire $A 0)" >/dev/null # epoch 7
ask a "BEGIN; $(settle $A 7 4)" >/dev/null
tell b "$(acquire $B 0 'true, NULL, NULL')"
ok "taking over waits for a settle that has begun" blocked b
ask a "COMMIT" >/dev/null
hears "taking over sees the checkpoint of the settle" b "0|8|4|f"
ask b "BEGIN; $(settle $B 8 5)" >/dev/null
asks "settles of a partition do not wait for each other" a "BEGIN; $(settle $B 8 5); COMMIT" "0|"
ask b "COMMIT" >/dev/null
ask b "BEGIN; $(acquire $A 0 'true, NULL, NULL')" >/dev/null
tell a "$(settle $B 8 6)"
ok "a settle waits for a takeover that has begun" blocked a
ask b "COMMIT" >/dev/null
hears "a settle after a takeover is stale" a "5|partition 0 now belongs to node"

# An operator frees a lane while the owner holds a row behind it.
sql "$(settle $A 9 12 "$(outcome 4 12 3 f 4)")" >/dev/null
letter=$(sql "SELECT dead_id FROM holdfast.dead_letters WHERE position = 12")
ask a "BEGIN; $(settle $A 9 13 "$(outcome 2 13 "3")")" >/dev/null
tell b "SELECT status FROM holdfast.change_dead_resolve(1, $letter, 'me', NULL, $now)"
ok "freeing a lane waits for a settle that holds a row there" blocked b
ask a "COMMIT" >/dev/null
hears "freeing a lane succeeds after the settle" b 0
is "the delivery behind a freed one goes on" "$kinds" "13:1"
is "the next delivery of the lane waits for the freed one" \
    "$(settle $A 9 14 "$(outcome 2 14 3)"); $kinds" "0| 13:1 14:2"

# ---- Handlers' transactions ---------------------------------------------------------------------

enter() { # TOKEN EPOCH POSITION
    echo "SELECT status FROM holdfast.tx_enter(1, 1, false, 0, '$1', $2, NULL, $3)"
}
leave() { # TOKEN EPOCH POSITION LANE WAITED
    echo "SELECT status, lane_busy[1] FROM holdfast_private.tx_leave(1, 1, false, 0, '$1', $2, NULL,
        ARRAY[$3], '{${5:-false}}', $now)"
}
is "a delivery in a transaction is settled once" \
    "$(enter $A 9 16); $(leave $A 9 16 5); $(enter $A 9 16); $(leave $A 9 16 5)" "0 0|f 4 4|f"
is "tx_enter takes below the checkpoint only deliveries that wait" \
    "$(enter $A 9 3); $(leave $A 9 3 5); $(enter $A 9 13); $(leave $A 9 13 3 true); $kinds" \
    "4 4|f 0 0|t 14:1"
is "a handler of a former owner is refused" "$(enter $B 8 17); $(leave $B 8 17 5)" "5 5|f"
is "tx_leave of several names the position that is settled already" \
    "SELECT status, position FROM holdfast_private.tx_leave(1, 1, false, 0, '$A', 9, NULL,
    '{18,16,19}', '{f,f,f}', $now)" "4|16"
sql "DELETE FROM holdfast_private.settled WHERE position IN (18, 19)" >/dev/null \
    # the caller would have undone it
ask a "BEGIN; $(enter $A 9 17)" >/dev/null
asks "a handler that runs does not delay a takeover" b "$(acquire $B 0 'true, NULL, NULL')" \
    "0|10|14|f"
asks "a handler whose partition was taken over cannot settle" a "$(leave $A 9 17 5)" "5|f"
ask a "ROLLBACK" >/dev/null
ask a "BEGIN; $(enter $B 10 17); $(leave $B 10 17 5)" >/dev/null
tell b "$(leave $B 10 17 5)"
ok "two transactions that settle the same delivery wait for each other" blocked b
ask a "COMMIT" >/dev/null
hears "the second settle of the same delivery is refused" b "4|f"
ask a "BEGIN; $(enter $B 10 18); $(leave $B 10 18 5)" >/dev/null
tell b "$(leave $B 10 18 5)"
blocked b >/dev/null
ask a "ROLLBACK" >/dev/null
hears "the second settle of the same delivery counts if the first is rolled back" b "0|f"
ask a "BEGIN; $(leave $B 10 19 5)" >/dev/null
asks "a settle does not wait for a handler's transaction" b "$(settle $B 10 15)" "0|"
ask a "COMMIT" >/dev/null

# ---- The journal --------------------------------------------------------------------------------

is "the journal is not rotated before it is large" "SELECT holdfast_private.rotate()" f
is "rotating the journal keeps the newest checkpoints" \
    "SELECT string_agg(checkpoint::text, ' ' ORDER BY subscription_id,
    partition) FROM holdfast_private.checkpoints; SELECT holdfast_private.rotate(0);
    SELECT string_agg(checkpoint::text, ' ' ORDER BY subscription_id, partition)
        FROM holdfast_private.checkpoints; SELECT count(*) FROM holdfast_private.checkpoints_0;
    SELECT count(*) FROM holdfast_private.checkpoints_1" "15 0 0 t 15 0 0 0 3"
is "the journal is rotated back to the first table" \
    "$(settle $B 10 16); SELECT holdfast_private.rotate(0);
    SELECT checkpoint FROM holdfast_private.checkpoints WHERE subscription_id = 1;
    $(settle $B 10 17); SELECT checkpoint FROM holdfast_private.checkpoints WHERE subscription_id
    = 1; SELECT count(*) FROM holdfast_private.checkpoints_1" "0| t 16 0| 17 0"
ask a "BEGIN; $(settle $B 10 17)" >/dev/null
asks "the journal is not rotated while a session writes" b "SELECT holdfast_private.rotate(0)" f
ask a "COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1" >/dev/null
asks "the journal is rotated in spite of an older snapshot" b "SELECT holdfast_private.rotate(0)" t
asks "a reader with an older snapshot gets a serialization failure after a rotation" \
    a "SELECT (holdfast.journal_newest(1, 0)).checkpoint" "ERROR:  40001"
ask a "ROLLBACK" >/dev/null
asks "a reader with a newer snapshot gets the right checkpoint" \
    a "SELECT (holdfast.journal_newest(1, 0)).checkpoint" 17
is "rotating the journal drops rows of removed subscriptions" \
    "SELECT FROM holdfast.change_subscription_put(1, 'x', NULL, NULL, 1, 3, 0, -1, $now);
    SELECT status FROM holdfast.change_subscription_remove(1, 'x');
    SELECT holdfast_private.rotate(0);
    SELECT (SELECT count(*) FROM holdfast_private.checkpoints_0) + (SELECT count(*)
        FROM holdfast_private.checkpoints_1)" "0 t 3"

# ---- Subscriptions ------------------------------------------------------------------------------

put() { # NAME PATTERNS OPTIONS MODE PARTITIONS GENERATION
    echo "SELECT status, message, created
        FROM holdfast.change_subscription_put(1, '$1', $2, $3, $4, $5, 0, ${6:--1}, $now)"
}
is "change_subscription_put makes, compares and changes a subscription" "$(put p "'[\"a\"]'" \
        "'{}'" 1 2); $(put p "'[\"a\"]'" NULL 1 2); $(put p "'[\"b\"]'" "'{\"x\":1}'" 1 2);
    SELECT generation, patterns, options FROM holdfast_private.subscriptions WHERE name = 'p'" \
        '0||t 0||f 0||f 2|["b"]|{"x":1}'
is "change_subscription_put changes options alone" \
    "$(put p NULL "'{}'" 1 2 2); SELECT generation, patterns, options
    FROM holdfast_private.subscriptions WHERE name = 'p'" '0||f 3|["b"]|{}'
is "change_subscription_put with another mode is a conflict" "$(put p NULL NULL 2 2)" \
    "4|subscription p has mode ordered, which cannot be changed|f"
is "change_subscription_put requests another number of partitions" \
    "$(put p NULL NULL 1 3); SELECT partitions, wanted
    FROM holdfast_private.subscriptions WHERE name = 'p'" "0||f 2|3"
is "change_subscription_put with an older generation is a conflict" "$(put p NULL NULL 1 2 2)" \
    "4|subscription p has been changed meanwhile: generation 4, expected 2|f"
is "change_subscription_put with a generation of a missing subscription is a conflict" \
    "$(put q NULL NULL 1 2 2)" "4|subscription q does not exist any more|f"
ask a "BEGIN; $(put r NULL NULL 1 1)" >/dev/null
tell b "$(put r NULL NULL 1 1)"
ok "two calls that create the same subscription wait for each other" blocked b
ask a "COMMIT" >/dev/null
hears "the second call only compares what the first has created" b "0||f"
is "a second change_pause keeps the first one" \
    "SELECT status FROM holdfast.change_pause(1, 1, true, 'a', 'b', $now);
    SELECT status FROM holdfast.change_pause(1, 1, true, 'c', 'd', $now);
    SELECT generation, paused_by FROM holdfast_private.subscriptions WHERE id = 1" "0 0 3|a"
is "change_pause resumes a subscription and clears its breaker" \
    "SELECT status FROM holdfast.change_breaker(1, 1, '{}');
    SELECT status FROM holdfast.change_breaker(1, 1, '{}');
    SELECT status FROM holdfast.change_pause(1, 1, false, NULL, NULL, $now);
    SELECT generation, paused_at IS NULL, breaker IS NULL FROM holdfast_private.subscriptions
        WHERE id = 1" "0 0 0 5|t|t"
is "changes of unknown subscriptions are not found" \
    "SELECT status FROM holdfast.change_pause(1, 99, true, 'a', 'b',
    $now); SELECT status FROM holdfast.change_breaker(2, 1, NULL);
    SELECT status FROM holdfast.change_seek(1, 99, 0, $now);
    SELECT status FROM holdfast.change_subscription_remove(1, 'nobody')" "3 3 3 3"

# ---- Dead rows ----------------------------------------------------------------------------------

# counted: tables with updates and deletes, once the statistics have seen 4000 inserts.
counted() {
    becomes "SELECT sum(n_tup_ins) >= 4000 FROM pg_stat_user_tables
        WHERE schemaname = 'holdfast_private'" t
    sql "SELECT string_agg(relname || ' ' || n_tup_upd + n_tup_del, ', ') FROM pg_stat_user_tables
        WHERE schemaname = 'holdfast_private' AND n_tup_upd + n_tup_del > 0"
}
schema
beat $B b
sql "SELECT FROM holdfast.change_subscription_put(1, 'o', NULL, NULL, 1, 1, 0, -1, $now);
    $(acquire $B 0)" >/dev/null
sql "DO \$\$ BEGIN FOR i IN 1 .. 2000 LOOP
    PERFORM holdfast.change_settle(1, 1, 0, '$B', 1, 0, i, NULL, now());
    PERFORM holdfast.publish('default', 'x'); END LOOP; END \$\$" >/dev/null
ok "2000 settles and publishes update and delete nothing but a partition" same \
    "partitions 1" "$(counted)"

done_testing
