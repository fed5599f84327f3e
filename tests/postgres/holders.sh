#!/usr/bin/env bash
# Only a session that can publish counts as a publisher: consumers wait for no other, whatever locks
# others hold.
. "$(dirname "$0")/lib.sh"
cluster max_prepared_transactions=5
schema
sql "CREATE ROLE stranger LOGIN; CREATE ROLE neighbour LOGIN; CREATE ROLE seller LOGIN;
     SELECT FROM holdfast_private.namespace_put('other');
     SELECT FROM holdfast_private.namespace_put('exact', true);
     SELECT holdfast.create_subscription('default', 'jobs', '{**}', 'start', 'shared');
     SELECT holdfast.namespace_grant('publisher', 'other', 'neighbour');
     SELECT holdfast.namespace_grant('publisher', 'default', 'seller')" >/dev/null
holders="SELECT count(*), count(pid) FROM holdfast.publishing_now(1)"
claim="SELECT string_agg(position::text, ' ') FROM holdfast.claim('default', 'jobs', 10)"
no_holes="SELECT holes IS NULL FROM holdfast_private.checkpoints"
asks() { is_text "$1" "$(ask "$2" "$3")" "$4"; } # CLAIM SESSION SQL WANTED
is_text() { ok "$1" same "$3" "$2"; }
open_as() { # NAME ROLE
    PGUSER=$2 open "$1"
}

# ---- Who counts ---------------------------------------------------------------------------------

open a
open_as s seller
asks "publishing_now returns no row while no session publishes" a "$holders" "0|0"
ask s "BEGIN; SELECT position FROM holdfast.publish('default', 'x')" >/dev/null
asks "publishing_now returns a transaction that has published and has not ended" a "$holders" "1|1"
asks "publishing_now returns no publisher of another namespace" \
    a "SELECT count(*) FROM holdfast.publishing_now(2)" "0"
ask s "COMMIT" >/dev/null
asks "publishing_now does not return a transaction that has ended" a "$holders" "0|0"
ask s "BEGIN; SAVEPOINT p; SELECT position FROM holdfast.publish('default', 'x');
    RELEASE SAVEPOINT p" >/dev/null
asks "publishing_now returns a transaction that has published below a savepoint" a "$holders" "1|1"
ask s "ROLLBACK; BEGIN; SAVEPOINT p; SELECT position FROM holdfast.publish('default', 'x');
    ROLLBACK TO SAVEPOINT p" >/dev/null
asks "publishing_now does not return a transaction that has rolled its savepoint back" \
    a "$holders" "0|0"
ask s "SELECT position FROM holdfast.publish('default', 'x')" >/dev/null
asks "publishing_now returns a transaction that publishes after its rollback" a "$holders" "1|1"
ask s "ROLLBACK; BEGIN; SET LOCAL holdfast.notify = off;
    SELECT position FROM holdfast.publish('default', 'x'); PREPARE TRANSACTION 'p'" >/dev/null
asks "publishing_now returns a prepared transaction" a "$holders" "1|0"
sql "COMMIT PREPARED 'p'" >/dev/null
asks "publishing_now does not return a prepared transaction that has ended" a "$holders" "0|0"
open b
ask b "BEGIN; SELECT holdfast_private.publishing(1)" >/dev/null
asks "publishing_now returns a transaction before it draws a position" a "$holders" "1|1"
ask b "ROLLBACK" >/dev/null
for call in "holdfast.publish_many('default', '{a,b}', NULL)" \
    "holdfast.publish('default', 'x', expected_version => 0, key => 'new')" \
    "holdfast.publish('default', 'x', id => gen_random_uuid())" \
    "holdfast.append_1(ARRAY[holdfast_private.new_id(now())], '{x}', '{1}', NULL, NULL, NULL,
        NULL, ARRAY[now()], ARRAY[date_trunc('ms', now())], '{1}', '{1}')"; do
    ask b "BEGIN; SELECT count(*) FROM $call" >/dev/null
    asks "publishing_now returns a transaction that publishes by ${call%%(*}" a "$holders" "1|1"
    ask b "ROLLBACK" >/dev/null
done
ask b "BEGIN; SELECT FROM holdfast.publish('exact', 'x')" >/dev/null
asks "publishing_now returns a publisher of a gapless namespace" a \
    "SELECT count(*) FROM holdfast.publishing_now(3)" "1"
asks "publishing_now does not return a publisher of a gapless namespace for another one" \
    a "$holders" "0|0"
ask b "ROLLBACK" >/dev/null

# ---- Who does not -------------------------------------------------------------------------------

sequence=$(sql "SELECT 'holdfast_private.events_1_position'::regclass::oid")
table=$(sql "SELECT 'holdfast_private.events_1'::regclass::oid")
heads=$(sql "SELECT 'holdfast_private.heads'::regclass::oid")
held="SELECT count(*) FROM pg_locks WHERE relation IN ($sequence, $table, $heads)
    AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()"
open_as c stranger
open_as n neighbour
ask c "BEGIN" >/dev/null
ask n "BEGIN; SELECT FROM holdfast.publish('other', 'x')" >/dev/null
for name in c n; do
    for relation in "$sequence" "$table" "$heads"; do
        ask "$name" "SAVEPOINT p" >/dev/null
        ask "$name" "SELECT nextval($relation::regclass)" >/dev/null
        ask "$name" "ROLLBACK TO SAVEPOINT p" >/dev/null
    done
done
ask n "PREPARE mine AS SELECT FROM holdfast_private.events_1 FOR UPDATE" >/dev/null
asks "setup: refused calls of nextval keep locks" a "$held" "6"
asks "publishing_now does not return a transaction whose publish was refused" a "$holders" "0|0"
ask s "BEGIN; SELECT FROM holdfast.publish('default', 'x')" >/dev/null
key=$(ask a "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype
        = 'advisory' AND mode = 'ShareLock' AND pid = (SELECT pid FROM holdfast.publishing_now(1))")
ask c "SELECT pg_advisory_xact_lock_shared($key), pg_current_xact_id()" >/dev/null
asks "publishing_now does not return a session that has locked what a publisher locked" \
    a "$holders" "1|1"
tell n "SELECT pg_advisory_xact_lock($key)"
blocked n
ask s "ROLLBACK; BEGIN; SAVEPOINT p; SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "a publisher publishes although others want its lock" s \
    "SELECT duplicate FROM holdfast.publish('default', 'x')" "f"
ask s "ROLLBACK" >/dev/null
# A stranger takes every key that a rolled back savepoint frees: there is always another one.
open_as g stranger
ask s "BEGIN; SELECT pg_current_xact_id()" >/dev/null
mine="SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory'
    AND mode = 'ShareLock' AND pid = ${session_backend[s]}"
taken=
for _ in $(seq 12); do
    ask s "SAVEPOINT p; SELECT FROM holdfast.publish('default', 'x')" >/dev/null
    tell g "SELECT pg_advisory_lock($(ask a "$mine"))"
    blocked g
    ask s "ROLLBACK TO SAVEPOINT p" >/dev/null
    taken="$taken$(hear g)"
done
asks "setup: a stranger has taken 12 keys of a transaction" a "SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND pid = ${session_backend[g]}" 12
asks "a publish after its keys were taken takes another lock" s "SELECT duplicate
    FROM holdfast.publish('default', 'x'); SELECT duplicate FROM holdfast.publish('default', 'x')" \
    "f f"
asks "a transaction has one lock for all that it publishes" a "SELECT count(*) FROM ($mine) m" 1
asks "publishing_now returns a publisher whose keys were taken" a "$holders" "1|1"
ask s "ROLLBACK" >/dev/null
asks "publishing_now does not return a publisher whose keys were taken after its end" \
    a "$holders" "0|0"
ask g "SELECT pg_advisory_unlock_all()" >/dev/null
shut g

fails "no role declares itself a publisher" \
    "SET ROLE neighbour; SELECT holdfast_private.publishing(1)" "42501: *holdfast_private*"
fails "no role computes the key of publishers" \
    "SET ROLE neighbour; SELECT holdfast_private.draw(1)" "42501: *"
fails "no role learns which sessions publish into a namespace of others" \
    "SET ROLE neighbour; SELECT FROM holdfast.publishing_now(1)" \
    "42501: neighbour may not see who publishes into namespace with id 1"
is "a publisher learns which sessions publish into its namespace" \
    "SET ROLE neighbour; SELECT count(*) FROM holdfast.publishing_now(2)" 1

# A gap, while they hold all this: it ends.
ask s "BEGIN; SELECT FROM holdfast.publish('default', 'x'); ROLLBACK" >/dev/null
ask s "SELECT FROM holdfast.publish('default', 'last')" >/dev/null
gives_up() { ask a "$claim" >/dev/null; [ "$(ask a "$no_holes")" = t ]; }
ok "a gap ends although others hold the sequence's lock" until_true 60 gives_up

for session in a s b c n; do shut $session; done

# ---- While it is being prepared -----------------------------------------------------------------

# PREPARE TRANSACTION hands locks over in several steps, and a look may come between two of them.
# Many locks make that likelier. The first of them is taken after the event was published.
for _ in $(seq 20000); do
    echo "BEGIN; SET LOCAL holdfast.notify = off; SELECT FROM holdfast.publish('default', 'x');
        SELECT count(pg_advisory_xact_lock_shared(i)) FROM generate_series(1, 600) i;
        PREPARE TRANSACTION 'q'; ROLLBACK PREPARED 'q';"
done | psql -qXAt >/dev/null 2>&1 &
preparer=$!
missed=$(sql "CREATE PROCEDURE look(INOUT looks integer, INOUT missed integer)
        LANGUAGE plpgsql AS \$\$
    DECLARE
        v_until timestamptz := clock_timestamp() + interval '5 s';
        v_id    xid8;
        v_seen  bigint;
    BEGIN
        WHILE clock_timestamp() < v_until LOOP
            SELECT x.transactionid::text::xid8 INTO v_id FROM pg_locks l JOIN pg_locks x
                USING (virtualtransaction)
                WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = 1
                    AND x.locktype = 'transactionid' LIMIT 1;
            CONTINUE WHEN v_id IS NULL;
            v_seen := (SELECT count(*) FROM holdfast.publishing_now(1));
            IF pg_xact_status(v_id) = 'in progress' THEN
                looks := looks + 1;
                missed := missed + (v_seen = 0)::integer;
            END IF;
        END LOOP;
    END \$\$;
    CALL look(0, 0)")
kill "$preparer" 2>/dev/null
wait "$preparer" 2>/dev/null
echo "# looks and missed: $missed"
ok "a transaction that is being prepared is seen by every look" like "*|0" "$missed"
done_testing
