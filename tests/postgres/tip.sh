#!/usr/bin/env bash
# Claims at the tip of the log, where positions are drawn, committed and rolled back while claimers
# look: never past what can be seen, never what another one has, nothing lost, nothing twice. And
# gapless namespaces, whose publishers come one after another.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

sql "SELECT FROM holdfast.change_subscription_put(1, 's', '[\"**\"]', '{}', 2, 1, 0, -1, now())" \
    >/dev/null
claim="SELECT string_agg(position::text, ' ' ORDER BY position) FROM holdfast.claim('default', 's')"
cursor="SELECT checkpoint FROM holdfast_private.checkpoints WHERE subscription_id = 1"
publish="SELECT FROM holdfast.publish('default', 'x')"

# ---- Forced -------------------------------------------------------------------------------------

open a
open b
open c
ask a "BEGIN; $publish" >/dev/null                       # 1, not committed
asks "a claim does not pass a position that cannot be seen" c "$claim; $cursor" " 0"
ask b "BEGIN; $publish; ROLLBACK; $publish" >/dev/null   # 2 is gone, 3 is there
asks "a position below a visible one becomes a hole" c "$claim; $cursor" "3 3"
asks "a second claimer gets neither the event nor the hole" b "$claim" ""
ask a "SAVEPOINT s; $publish; ROLLBACK TO s; $publish" >/dev/null # 4 is gone, 5 is not committed
asks "a claim does not move if nothing new can be seen" c "$claim; $cursor" " 3"
ask a "COMMIT" >/dev/null
both() { # two claimers at once: what they got together
    ask b "BEGIN; $claim"
    tell c "$claim"
    blocked c >/dev/null
    ask b "COMMIT"
    hear c
}
ok "each event goes to one of two that claim at once" same "1 5" "$(both | tr '\n' ' ' | xargs)"
no_holes="SELECT holes IS NULL FROM holdfast_private.checkpoints WHERE subscription_id = 1"
gives_up() { rows_are "$no_holes" t || { sql "$claim" &&
    false; }; } # by claiming, until there is no hole
until_true 60 gives_up
is "positions that were rolled back are given up" "$cursor; $no_holes" "5 t"
ask a "BEGIN; SELECT holdfast_private.draw(1)" >/dev/null # 6 is drawn long before it is used
ask b "$publish" >/dev/null
asks "a claim goes on behind a position that was drawn early" c "$claim" "7"
asks "a position that was drawn early is still a hole" \
    c "$claim; SELECT h.low FROM holdfast_private.checkpoints,
    unnest(holes) h WHERE subscription_id = 1" " 6"
ask a "INSERT INTO holdfast_private.events SELECT 6, hash,
    holdfast_private.checksum_of(holdfast_private.content_of(i, emitted_at, type, key, tenant,
    metadata, producer, schedule_id, payload), hash, 6, entered_at, key_version),
              emitted_at, entered_at, guard_at, i, namespace_id, type, key_version, schedule_id,
              producer, key, tenant, metadata, payload
       FROM holdfast_private.events, (SELECT gen_random_uuid() AS i OFFSET 0) new
           WHERE position = 7; COMMIT" >/dev/null
asks "an event at a position that was drawn early is handed out, however late" c "$claim" "6"
ask a "BEGIN; $publish; PREPARE TRANSACTION 'p'" >/dev/null # 8
ask b "$publish" >/dev/null
asks "a claim waits for the event of a prepared transaction" c "$claim; $claim" "9 "
ask a "COMMIT PREPARED 'p'" >/dev/null
asks "an event of a prepared transaction is handed out after its commit" c "$claim" "8"
for session in a b c; do shut $session; done

# ---- A storm ------------------------------------------------------------------------------------

sql "CREATE TABLE acknowledged (id uuid); CREATE TABLE delivered (id uuid, lease text);
    CREATE TABLE finished (seed double precision)" >/dev/null
sql "CREATE PROCEDURE publisher(p_seed double precision, p_count integer) LANGUAGE plpgsql AS \$\$
     DECLARE v_id uuid;
     BEGIN
         PERFORM setseed(p_seed);
         FOR i IN 1 .. p_count LOOP
             v_id := gen_random_uuid();
             IF random() < 0.5 THEN v_id := holdfast_private.new_id(clock_timestamp()); END IF;
             PERFORM holdfast.publish('default', 'storm', id => v_id);
             IF random() < 0.2 THEN PERFORM pg_sleep(random() * 0.003); END IF;
             IF random() < 0.3 THEN ROLLBACK;
             ELSE INSERT INTO acknowledged VALUES (v_id); COMMIT; END IF;
         END LOOP;
         INSERT INTO finished VALUES (p_seed);
     END \$\$;
     CREATE PROCEDURE claimer(p_until timestamptz) LANGUAGE plpgsql AS \$\$
     DECLARE v_count integer; v_lease text; v_idle integer := 0;
     BEGIN
         WHILE v_idle < 20 AND clock_timestamp() < p_until LOOP
             WITH got AS (SELECT id, lease FROM holdfast.claim('default', 's', 7)),
                  kept AS (INSERT INTO delivered SELECT id, lease FROM got RETURNING lease)
             SELECT count(*), max(lease) INTO v_count, v_lease FROM kept;
             COMMIT;
             IF v_count > 0 THEN
                 PERFORM holdfast.ack('default', 's', v_lease);
                 v_idle := 0;
             ELSE
                 v_idle := v_idle +
                     (NOT EXISTS (SELECT id FROM acknowledged EXCEPT SELECT id FROM delivered)
                                     AND (SELECT count(*) FROM finished) = 4)::integer;
                 PERFORM pg_sleep(0.01);
             END IF;
             COMMIT;
         END LOOP;
     END \$\$" >/dev/null
pids=()
for i in 1 2 3 4; do
    sql "CALL publisher(0.1$i, 400)" >/dev/null &
    pids+=($!)
done
for i in 1 2 3; do
    sql "CALL claimer(clock_timestamp() + interval '400 s')" >"$cluster_dir.claimer.$i" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
ok "no claimer fails in a storm of publishers" same "" "$(cat "$cluster_dir".claimer.?)"
rm -f "$cluster_dir".claimer.?
is "every acknowledged event of the storm is delivered once, and nothing else" \
    "SELECT count(*) FROM (SELECT id FROM acknowledged EXCEPT SELECT id FROM delivered) lost;
    SELECT count(*) - count(DISTINCT id) FROM delivered;
     SELECT count(*) FROM (SELECT id FROM delivered EXCEPT SELECT id FROM acknowledged) invented;
     SELECT count(*) > 900 FROM acknowledged" "0 0 0 t"
is "the cursor is not past the tip after the storm" "SELECT checkpoint <= holdfast.head(1)
    FROM holdfast_private.checkpoints WHERE subscription_id = 1" t

# ---- Gapless ------------------------------------------------------------------------------------

sql "SELECT FROM holdfast_private.namespace_put('gapless', true)" >/dev/null
put="SELECT position FROM holdfast.publish('gapless', 'x')"
open a
open b
ask a "BEGIN; $put; SAVEPOINT s; $put; ROLLBACK TO s" >/dev/null
tell b "$put"
ok "a publisher of a gapless namespace waits for the one before" blocked b
asks "a savepoint that was rolled back leaves no gap" a "$put; COMMIT" "2"
hears "a publisher that has waited gets the next position" b 3
ask a "BEGIN; $put; $put" >/dev/null
tell b "$put"
blocked b >/dev/null
ask a "ROLLBACK" >/dev/null
hears "a transaction that was rolled back leaves no gap" b 4
is "publish_many into a gapless namespace leaves no gap" "SELECT min(position), max(position)
    FROM holdfast.publish_many('gapless', array_fill('t'::text, ARRAY[10]), NULL)" "5|14"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ -x "$HOLDFAST" ]; then
    url="postgresql:///$PGDATABASE?host=$PGHOST&user=$PGUSER"
    ask a "BEGIN; $put" >/dev/null
    "$HOLDFAST" --db "$url" --namespace gapless publish x 1 >/dev/null &
    pid=$!
    a_session_waits
    ask a "ROLLBACK" >/dev/null
    wait "$pid"
    ok "the library waits for a publisher of a gapless namespace" same 0 $?
    is "a gapless namespace has no gap, nor one at its head" "SELECT count(*) = max(position)
        FROM holdfast_private.events WHERE namespace_id = 2; SELECT max(position) - holdfast.head(2)
        FROM holdfast_private.events WHERE namespace_id = 2" "t 0"
fi

done_testing
