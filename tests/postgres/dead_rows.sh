#!/usr/bin/env bash
# Dead rows: consuming leaves few, however much was consumed, also while a session holds an old
# snapshot, and does not become slower by it. (Autovacuum is off here.)
. "$(dirname "$0")/lib.sh"
cluster
schema

A=00000000-0000-4000-8000-00000000000a
# dead: dead rows of all tables of the schema, when the statistics have been told. A session that
# ends tells before it has gone; the others soon: the number comes to rest.
dead() {
    local before= now i
    becomes "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
        AND pid <> pg_backend_pid()" "${#session_pid[@]}" >/dev/null
    for ((i = 0; i < 50; i++)); do
        now=$(sql "SELECT pg_stat_clear_snapshot(); SELECT sum(n_dead_tup) FROM pg_stat_user_tables
                WHERE schemaname = 'holdfast_private'" | tail -1)
        [ "$now" = "$before" ] && break
        before=$now
        sleep 1.1
    done
    echo "$now"
}
few() { # LIMIT
    local found
    found=$(dead)
    [ "$found" -le "$1" ] || {
        echo "$found dead rows; wanted at most $1:"
        sql "SELECT relname, n_dead_tup FROM pg_stat_user_tables
            WHERE schemaname = 'holdfast_private' AND n_dead_tup > 0"
        return 1
    }
}
publish() { # COUNT
    sql "SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[$1]), NULL)" \
        >/dev/null
}
# consume SUBSCRIPTION BATCH: claims and acknowledges until there is nothing, a transaction each,
# with upkeep as often as a process does it. Prints how many, and microseconds.
sql "CREATE PROCEDURE consume(p_subscription text, p_batch integer, INOUT p_count integer,
    INOUT p_us bigint) LANGUAGE plpgsql AS \$\$
     DECLARE v_lease text; v_rows integer; v_begin timestamptz := clock_timestamp();
         v_round integer := 0;
     BEGIN
         p_count := 0;
         LOOP
             SELECT max(lease), count(*) INTO v_lease, v_rows
                 FROM holdfast.claim('default', p_subscription, p_batch);
             EXIT WHEN v_rows = 0;
             COMMIT;
             PERFORM holdfast.ack('default', p_subscription, v_lease);
             COMMIT;
             p_count := p_count + v_rows;
             v_round := v_round + 1;
             IF v_round % 100 = 0 THEN
                 PERFORM holdfast.upkeep();
                 COMMIT;
             END IF;
         END LOOP;
         p_us := extract(epoch FROM clock_timestamp() - v_begin) * 1000000;
     END \$\$" >/dev/null
subscribe() { # NAME
    sql "SELECT FROM holdfast.change_subscription_put(1, '$1', '[\"**\"]', '{}', 2, 1,
        holdfast.head(1), -1, now())" >/dev/null
}

subscribe s
publish 50000
found=$(sql "CALL consume('s', 100, NULL, NULL)")
ok "50,000 events are consumed, shared, a hundred at a time" same 50000 "${found%|*}"
dead >/dev/null # a process hears of it a second later
sql "SELECT holdfast.upkeep()" >/dev/null
ok "50,000 consumed events leave few dead rows" few 400

open old
ask old "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT count(*) FROM holdfast_private.namespaces" >/dev/null
subscribe t
publish 20000
first=$(sql "CALL consume('t', 10, NULL, NULL)")
publish 20000
second=$(sql "CALL consume('t', 10, NULL, NULL)")
# What is slow stays slow; if the machine had something else to do it is seen at another time.
slow() { [ "${second#*|}" -ge $((${first#*|} * 5)) ]; }
for _ in 1 2 3 4; do
    ! slow || { publish 20000 && second=$(sql "CALL consume('t', 10, NULL, NULL)"); }
done
echo "# 20000 by tens: ${first#*|} us; again beside an old snapshot: ${second#*|} us"
ok "40,000 events are consumed ten at a time beside an old snapshot" \
    same "20000 20000" "${first%|*} ${second%|*}"
dead >/dev/null
sql "SELECT holdfast.upkeep()" >/dev/null
ok "events that are consumed beside an old snapshot leave few dead rows" few 400
not_slow() { ! slow; }
ok "consuming does not become slower beside an old snapshot" not_slow
ask old "COMMIT" >/dev/null

# ---- Compacting ---------------------------------------------------------------------------------

subscribe u
publish 1000
sql "SELECT count(*) FROM holdfast.claim('default', 'u', 500);
    SELECT count(*) FROM holdfast.claim('default', 'u', 100, 60000)" >/dev/null
kept="SELECT string_agg(l::text, ' ' ORDER BY token) FROM holdfast_private.leases l"
before=$(sql "$kept")
is "compacting leases keeps those that are alive" \
    "SELECT holdfast_private.compact('holdfast_private.leases', -1);
    SELECT ($kept) = '$before'" "t t"
l=$(sql "SELECT replace(token::text, '-', '') FROM holdfast_private.leases WHERE count = 500")
ask old "BEGIN; SELECT holdfast.ack('default', 'u', '$l')" >/dev/null
is "leases are not compacted while a session settles" \
    "SELECT holdfast_private.compact('holdfast_private.leases', -1)" f
ask old "ROLLBACK" >/dev/null
open other
ask old "BEGIN; SELECT holdfast_private.compact('holdfast_private.leases', -1)" >/dev/null
tell other "SELECT holdfast.ack('default', 'u', '$l')"
ok "a settle waits for the compaction" blocked other
ask old "COMMIT" >/dev/null
hears "a settle finds its lease after the compaction" other ""
is "upkeep does nothing without need" "SELECT holdfast.upkeep()" f
fails "compact refuses a table whose rows do not come and go" \
    "SELECT holdfast_private.compact('holdfast_private.retries')" \
    "HF001: retries is not a table whose rows come and go"

# Who has one snapshot for all would put back what it sees, and what was claimed since would be
# lost.
ask old "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1" >/dev/null
is "setup: a session claims beside an older snapshot" \
    "SELECT count(*) FROM holdfast.claim('default', 'u', 10, 60000)" 10
before=$(sql "$kept")
asks "a session with an older snapshot does not compact" \
    old "SELECT holdfast_private.compact('holdfast_private.leases', -1)" f
ask old "COMMIT" >/dev/null
is "a lease that was claimed since an older snapshot is kept" "SELECT ($kept) = '$before'" t

# ---- Rotating -----------------------------------------------------------------------------------

# One attempt of several must be quick, on a slow machine too: who waits takes 200 ms each time.
sql "CREATE FUNCTION rotates_in() RETURNS interval LANGUAGE plpgsql AS \$\$
     DECLARE v_begin timestamptz := clock_timestamp();
     BEGIN
         ASSERT NOT holdfast_private.rotate(0);
         RETURN clock_timestamp() - v_begin;
     END \$\$" >/dev/null
is "setup: the journal is not empty" "SELECT sum(pg_relation_size(t)) > 0
    FROM unnest('{holdfast_private.checkpoints_0,holdfast_private.checkpoints_1}'::regclass[]) t" t
ask old "BEGIN; SELECT count(*) FROM holdfast_private.checkpoints_0;
    SELECT count(*) FROM holdfast_private.checkpoints_1" >/dev/null
ok "setup: a session has been reading the journal for more than a second" \
    becomes "SELECT xact_start < clock_timestamp() - interval '1 s' FROM pg_stat_activity
    WHERE pid = ${session_backend[old]}" t
is "a rotation that is blocked does not wait, nor make others wait" \
    "SELECT min(rotates_in()) < '150 ms' FROM generate_series(1, 20)" t
ask old "COMMIT" >/dev/null
ok "the journal is rotated after the reader has ended" becomes "SELECT holdfast_private.rotate(0)" t
for level in "REPEATABLE READ" SERIALIZABLE; do
    ask old "BEGIN ISOLATION LEVEL $level; SELECT 1" >/dev/null
    subscribe "beside $level"
    asks "a $level transaction does not rotate the journal" old \
        "SELECT holdfast_private.rotate(-1); SELECT holdfast.upkeep(1000000); COMMIT" "f f"
    is "a subscription that was made beside a $level transaction goes on" \
        "SELECT count(*) FROM holdfast.claim('default', 'beside $level')" 0
done

# The owner of the schema may be a role that is not told how old the transactions of others are.
sql "CREATE ROLE plain; GRANT USAGE ON SCHEMA holdfast, holdfast_private TO plain" >/dev/null
held="SET ROLE plain; SELECT
    holdfast_private.is_held('{holdfast_private.leases,holdfast_private.settled}'::regclass[], "
is "a table that is not used is not held" "$held '1 hour')" f
ask old "BEGIN; SELECT count(*) FROM holdfast_private.leases" >/dev/null
is "a transaction that does not end within a moment holds a table" "$held '0.1 s')" t
tell other "$held '1 hour')"
ok "is_held waits for a transaction that may end" becomes \
    "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = ${session_backend[other]}" t
ask old "COMMIT" >/dev/null
hears "a transaction that has ended does not hold a table" other f

done_testing
