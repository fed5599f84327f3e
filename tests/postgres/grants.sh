#!/usr/bin/env bash
# Roles of a namespace: each may do what it is for, in its namespace, and nothing in another.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    sql "CREATE ROLE some" >/dev/null
    fails "namespace_grant is refused on a server before PostgreSQL 15" \
        "SELECT holdfast.namespace_grant('viewer', 'default', 'some')" \
        "HF002: granting needs PostgreSQL 15 or newer*"
    done_testing
    exit
fi
roles="viewer publisher consumer owner"

# Two namespaces with the same things in them; every role has the first one, `other` has the second.
for role in $roles; do
    sql "CREATE ROLE \"$role's\" LOGIN"
done >/dev/null
sql "CREATE ROLE other LOGIN; CREATE ROLE guest LOGIN" >/dev/null
for namespace in 'it"s ours' theirs; do
    sql "SELECT FROM holdfast_private.namespace_put('$namespace');
         SELECT FROM holdfast.publish_many('$namespace',
             '[{\"type\": \"t\", \"payload\": \"secret\", \"key\": \"k\", \"expected_version\": 0,
                \"id\": \"00000000-0000-4000-8000-000000000001\"},
               {\"type\": \"t\"}, {\"type\": \"t\"}, {\"type\": \"t\"}]');
         SELECT holdfast.change_subscription_put(id, 'jobs', '[\"**\"]', '{}', 2, 1, 0, -1, now()),
             holdfast.change_subscription_put(id, 'audit', '[\"**\"]', '{}', 1, 2, 0, -1, now()),
             holdfast.process_beat(id, ('00000000-0000-4000-8000-00000000000' || id)::uuid, 'node',
             false)
         FROM holdfast.read_namespaces() WHERE name = '$namespace'" >/dev/null
    lease=$(sql "SELECT DISTINCT lease FROM holdfast.claim('$namespace', 'jobs', 3, 604800000)")
    sql "SELECT holdfast.bury('$namespace', 'jobs', '$lease', '{1}');
        SELECT holdfast.nack('$namespace', 'jobs', '$lease', '{2}', delay_ms => 3600000)" >/dev/null
    case $namespace in theirs) their_lease=$lease ;; *) our_lease=$lease ;; esac
done
ours=$(sql "SELECT id FROM holdfast.read_namespaces() WHERE name = 'it\"s ours'")
theirs=$(sql "SELECT id FROM holdfast.read_namespaces() WHERE name = 'theirs'")
our_jobs=$(sql "SELECT id FROM holdfast.read_subscriptions() WHERE namespace_id = $ours
        AND name = 'jobs'")
our_letter=$(sql "SELECT id FROM holdfast.read_letters() WHERE namespace_id = $ours")
their_jobs=$(sql "SELECT id FROM holdfast.read_subscriptions() WHERE namespace_id = $theirs
        AND name = 'jobs'")
their_audit=$(sql "SELECT id FROM holdfast.read_subscriptions() WHERE namespace_id = $theirs
        AND name = 'audit'")

# --- Granting ---
for role in $roles; do
    is "namespace_grant gives the part of $role to a role" \
        "SELECT holdfast.namespace_grant('$role', 'it\"s ours', '$role''s')" t
done
is "namespace_grant of a part that a role has returns false" \
    "SELECT holdfast.namespace_grant('viewer', 'it\"s ours', 'viewer''s')" f
fails "namespace_grant refuses an unknown part" \
    "SELECT holdfast.namespace_grant('admin', 'theirs', 'other')" \
    "HF001: role is admin; it must be viewer, publisher, consumer or owner"
fails "namespace_grant in an unknown namespace is not found" \
    "SELECT holdfast.namespace_grant('viewer', 'nowhere', 'other')" \
    "HF003: there is no namespace nowhere"
fails "namespace_grant refuses the owner of the schema, who would lose rights" \
    "SELECT holdfast.namespace_grant('owner', 'theirs', current_user)" \
    "HF002: * owns the schema holdfast and has every right in all namespaces; a part in one would *"
fails "namespace_grant to an unknown role of the server is not found" \
    "SELECT holdfast.namespace_grant('viewer', 'theirs',
    'no\"one')" "HF003: the server has no role no\"one"
sql "SELECT holdfast.namespace_grant('viewer', 'theirs', 'other')" >/dev/null

# Each writes what the server keeps of the same tables, which it does not let two do at once.
open first
open second
asks "setup: a grant is not committed yet" first \
    "BEGIN; SELECT holdfast.namespace_grant('viewer', 'default', 'guest')" t
tell second "SELECT holdfast.namespace_grant('viewer', 'it\"s ours', 'other')"
ok "a second grant waits for the first" blocked second
ask first "COMMIT" >/dev/null
hears "a second grant is made after the first" second t
asks "setup: a revoke is not committed yet" first \
    "BEGIN; SELECT holdfast.namespace_revoke('viewer', 'default', 'guest')" t
tell second "SELECT holdfast.namespace_revoke('viewer', 'it\"s ours', 'other')"
ok "a second revoke waits for the first" blocked second
ask first "COMMIT" >/dev/null
hears "a second revoke is made after the first" second t
asks "setup: the journal is being truncated" \
    first "BEGIN; SELECT FROM holdfast_private.rotate(-1)" ""
tell second "SELECT holdfast.namespace_grant('viewer', 'default', 'guest'),
    holdfast.namespace_revoke('viewer', 'default', 'guest')"
ok "a grant waits while the journal is truncated" blocked second
ask first "COMMIT" >/dev/null
hears "a grant is made after the journal was truncated" second "t|t"
sql "SELECT FROM holdfast_private.namespace_put('short')" >/dev/null
sql "SELECT holdfast.namespace_grant('viewer', 'short', 'guest')" >/dev/null
for _ in 1 2 3 4 5; do
    sql "SELECT status, more FROM holdfast.change_namespace_remove(0, 'short', true, 0)" >/dev/null
done
asks "setup: another grant is not committed yet" first \
    "BEGIN; SELECT holdfast.namespace_grant('viewer', 'default', 'guest')" t
fails "a namespace is not removed in the middle of a grant" \
    "SELECT FROM holdfast.change_namespace_remove(0, 'short', true, 1000)" "55P03: *"
ask first "ROLLBACK" >/dev/null
is "a namespace and its grants are removed after a grant has ended" \
    "SELECT status, more FROM holdfast.change_namespace_remove(0, 'short', true,
    1000); SELECT count(*) FROM holdfast.read_grants() WHERE grantee = 'guest'::regrole" "0|f 0"
shut first
shut second

for subscription in "$their_audit" 1000000; do
    fails "a role does not learn to which namespace subscription $subscription belongs" \
        "SET ROLE \"consumer's\"; SELECT FROM holdfast.change_give_back($subscription, 0,
        gen_random_uuid(), 1)" \
        "42501: consumer's may not change the subscriptions of namespace with id "
done

# as ROLE SQL: rows, or SQLSTATE alone.
as() {
    PGUSER=$1 psql -qXAt -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -c "$2" 2>&1 | paste -sd' ' -
}
# tries ROLE: the statements on standard input, each by itself, in one session: rows and SQLSTATEs.
tries() {
    PGUSER=$1 psql -qXAt -v VERBOSITY=sqlstate 2>&1
}
may() { ok "the role $1 $2" same "$4" "$(as "$1's" "$3")"; } # ROLE WHAT SQL WANTED
denied="ERROR:  42501"

# --- Each in its own namespace ---
everything() { # SQL that touches one namespace: rows of a kind of everything
    echo "(SELECT count(*) FROM holdfast.event_log WHERE namespace = '$1') || ' '
       || (SELECT count(*) FROM holdfast.dead_letters WHERE namespace = '$1') || ' '
       || (SELECT count(*) FROM holdfast.read_subscriptions() WHERE namespace_id = $2)"
}
for role in viewer consumer owner; do
    may $role "reads the log, dead letters and subscriptions" \
        "SELECT $(everything 'it"s ours' "$ours")" "4 1 2"
    may $role "reads payloads of the log" \
        "SELECT payload FROM holdfast.event_log WHERE position = 1" \
        '"secret"'
    may $role "reads the numbers of holdfast.stats" \
        "SELECT subscription, head, retrying, dead FROM holdfast.stats()" \
        "|4|1|1 audit|4|0|0 jobs|4|1|1"
done
for role in viewer consumer owner; do
    may $role "counts dead letters in groups" "SELECT text, letters
        FROM holdfast.dead_letter_groups('it\"s ours', 'subscription')" "jobs|1"
done
for role in viewer publisher consumer owner; do
    may $role "counts no dead letters of another namespace" \
        "SELECT FROM holdfast.dead_letter_groups('theirs')" "ERROR:  HF003"
    may $role "sees no number of another namespace's dead letters" \
        "SELECT count(*) FROM holdfast.read_dead_kinds() WHERE namespace_id = $theirs" "0"
    may $role "cannot ask for groups by the number of another namespace" \
        "SELECT letters FROM holdfast.dead_groups($theirs, 'type', 0, 99, NULL, true, NULL, NULL,
             NULL, NULL, NULL, false, 9, 0)" "$denied"
done
may publisher "may not count dead letters in groups" \
    "SELECT FROM holdfast.dead_letter_groups('it\"s ours')" "$denied"
may publisher "reads neither the log nor dead letters nor subscriptions" \
    "SELECT $(everything 'it"s ours' "$ours")" "0 0 0"
may publisher "gets NULL, not 0, from holdfast.stats for what it does not see" \
    "SELECT subscription, head,
    oldest_waiting, in_flight, retrying, held, blocked, dead, rate IS NULL FROM holdfast.stats()" \
    "|4|||||||f"
may publisher "cannot read payloads of the table of the log" \
    "SELECT payload FROM holdfast_private.events_$ours" \
    "$denied"
may publisher "may read what waits for its time" "SELECT count(*) FROM holdfast.read_delayed();
    SELECT count(*) FROM holdfast.read_schedules()" "0 0"
for role in publisher owner; do
    may $role "publishes with holdfast.publish" \
        "SELECT duplicate FROM holdfast.publish('it\"s ours', 't', key => 'a')" f
    may $role "publishes with holdfast.publish_many" \
        "SELECT count(*), max(index) FROM holdfast.publish_many('it\"s ours', '{x,y}', NULL)" "2|1"
    may $role "gets the position of an id that is in the log" "SELECT position, duplicate
        FROM holdfast.publish('it\"s ours', 't', id => '00000000-0000-4000-8000-000000000001')" \
        "1|t"
    may $role "publishes an id of version 4" \
        "SELECT duplicate FROM holdfast.publish('it\"s ours', 't', id => gen_random_uuid())" f
    may $role "publishes with holdfast.publish_later" "SELECT position, duplicate
        FROM holdfast.publish_later('it\"s ours', 't', '1', now() + interval '1 d')" "|f"
    may $role "publishes with an expected version" "SELECT key_version
        FROM holdfast.publish('it\"s ours', 't', key => '$role', expected_version => 0)" 1
done
may publisher "does not raise the limit of payloads" \
    "SELECT holdfast.limit_payload('it\"s ours', 2000000)" "$denied"
claim_with() { # PATTERNS FROZEN: a claim with these
    echo "SELECT status
        FROM holdfast.change_claim($ours, (SELECT min(id) FROM holdfast.read_subscriptions()), 0,
        NULL, NULL, 'n', $1, false, 1, 1000, false, false, $2, NULL, NULL, true, now())"
}
may consumer "cannot claim with 65 patterns" \
    "$(claim_with "array_fill('a'::text, ARRAY[65])" NULL)" "ERROR:  HF001"
may consumer "cannot claim with a pattern that is not valid" \
    "$(claim_with "'{a.**.b}'" NULL)" "ERROR:  HF001"
may consumer "cannot claim with 10001 frozen processes" \
    "$(claim_with NULL "array_fill(gen_random_uuid(), ARRAY[10001])")" "ERROR:  HF001"
may publisher "does not raise the limit of payloads by a setting of the session" \
    "SET holdfast.payload_bytes_max = 2000000;
    SELECT FROM holdfast.publish('it\"s ours', 't', to_json(repeat('p', 1500000)))" "ERROR:  HF001"
fails "the role publisher does not raise the limit of payloads as the library publishes" \
    "SET ROLE \"publisher's\"; SET holdfast.payload_bytes_max = 2000000;
    WITH n AS MATERIALIZED (SELECT '$(sql "SELECT holdfast_private.new_id(now())")'::uuid AS id)
    SELECT p.* FROM n, holdfast.append_$ours(ARRAY[n.id], '{t}',
        ARRAY[to_json(repeat('p', 1500000))], '{k}', NULL, NULL, NULL, ARRAY[now()],
        ARRAY[holdfast.id_time(n.id)], '{$(sql "SELECT holdfast_private.hash_of('k')")}',
        NULL) p" "HF001: event 0: payload is 1500002 bytes; the limit is 1048576 *"
# Who is a member without inheriting has the part while it has the role, and its ticket as long.
sql "CREATE ROLE apart LOGIN NOINHERIT IN ROLE \"publisher's\"" >/dev/null
ok "a member of a role that does not inherit cannot publish" same "$denied" \
    "$(as apart "SELECT FROM holdfast.publish('it\"s ours', 't')")"
ok "a member that does not inherit publishes after SET ROLE" \
    same f "$(as apart "SET ROLE \"publisher's\"; SELECT duplicate
        FROM holdfast.publish('it\"s ours', 't')")"
ok "a ticket of SET ROLE is of no use after RESET ROLE" same "$denied" \
    "$(as apart "BEGIN; SET ROLE \"publisher's\"; CREATE TEMP TABLE kept AS SELECT holdfast.ticket()
        AS ticket; GRANT SELECT ON kept TO PUBLIC; RESET ROLE;
        SELECT FROM holdfast.publish_as('it\"s ours', 't', 'null', NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, p_ticket => (SELECT ticket FROM kept))")"
# What was prepared, or a snapshot of before, does not outlive the grant.
sql "CREATE ROLE passing LOGIN;
    SELECT holdfast.namespace_grant('publisher', 'it\"s ours', 'passing')" >/dev/null
PGUSER=passing open passing
ask passing "PREPARE p AS SELECT duplicate FROM holdfast.publish('it\"s ours', 't')" >/dev/null
asks "setup: a prepared statement publishes" \
    passing "BEGIN ISOLATION LEVEL REPEATABLE READ; EXECUTE p" f
is "setup: the grant is revoked meanwhile" \
    "SELECT holdfast.namespace_revoke('publisher', 'it\"s ours', 'passing')" t
asks "a revoked grant is gone for an old snapshot" passing "SAVEPOINT s; EXECUTE p" "$denied"
asks "a revoked grant is gone for a prepared statement" passing "ROLLBACK; EXECUTE p" "$denied"
shut passing
for role in viewer consumer; do
    may $role "cannot publish with holdfast.publish" \
        "SELECT FROM holdfast.publish('it\"s ours', 't')" "$denied"
    may $role "cannot publish with holdfast.publish_later" \
        "SELECT FROM holdfast.publish_later('it\"s ours', 't', '1', now())" \
        "$denied"
    may $role "cannot publish with holdfast.publish_many" \
        "SELECT FROM holdfast.publish_many('it\"s ours', '{x}', NULL)" "$denied"
    may $role "cannot insert into the table of the log" \
        "INSERT INTO holdfast_private.events_$ours (position, hash,
        checksum, emitted_at, entered_at, id, namespace_id, type, payload)
        VALUES (99, 0, 0, now(), now(), gen_random_uuid(), $ours, 't', '1')" "$denied"
done
for role in consumer owner; do
    ok "the role $role claims and settles" \
        same "" "$(as "$role's" "SELECT holdfast.ack('it\"s ours',
            'jobs', lease, ARRAY[position]) FROM holdfast.claim('it\"s ours', 'jobs', 1)")"
    for facts in "'{no}'" "'{handler}', '{1}'" "'{handler}', '{1}', '{1}'" \
        "'{handler}', '{999}', '{2}'"; do
        may $role "cannot settle with a cause or a unit that cannot be: $facts" "SELECT s.status
            FROM holdfast.claim('it\"s ours', 'jobs', 1) c, holdfast.read_subscriptions() n,
            holdfast.change_settle_lease($ours, n.id, c.lease::uuid, false, false, NULL, now(),
            '{1}', ARRAY[c.position], '{1}', '{1}', '{0}', '{[]}', ARRAY[now()], NULL, NULL,
            $facts) s WHERE n.name = 'jobs'" "ERROR:  HF001"
    done
    may $role "subscribes, seeks and unsubscribes as the library does" "SELECT status
        FROM holdfast.change_subscription_put($ours, 'new', '[\"**\"]', '{}', 2, 1, 0, -1, now());
        SELECT s.status FROM holdfast.read_subscriptions() n,
            holdfast.change_seek($ours, n.id, 1, now()) s WHERE n.name = 'new';
        SELECT status FROM holdfast.change_subscription_remove($ours, 'new')" "0 0 0"
    may $role "subscribes, pauses, seeks and unsubscribes with the functions for people" \
        "SELECT holdfast.create_subscription('it\"s ours', 'new', '{**}', 'now', 'ordered', 2);
        SELECT FROM holdfast.alter_subscription('it\"s ours', 'new', '{a}', 3, '{\"batch\": 7}');
        SELECT FROM holdfast.pause_subscription('it\"s ours', 'new', 'why');
        SELECT paused_by, patterns, partitions FROM holdfast.read_subscriptions()
            WHERE name = 'new'; SELECT FROM holdfast.resume_subscription('it\"s ours', 'new');
        SELECT position FROM holdfast.seek_subscription('it\"s ours', 'new', '2000-01-01');
        SELECT FROM holdfast.drop_subscription('it\"s ours', 'new')" "t $role's|[\"a\"]|3 0"
    may $role "owns partitions and settles" "SELECT FROM holdfast.process_beat($ours,
        '00000000-0000-4000-8000-0000000000aa', 'n', false);
        SELECT a.status, t.status FROM holdfast.read_subscriptions() s,
            holdfast.change_acquire($ours, s.id, 0, '00000000-0000-4000-8000-0000000000aa', 'n',
            false, NULL, NULL) a,
            LATERAL holdfast.change_settle($ours, s.id, 0, '00000000-0000-4000-8000-0000000000aa',
            a.epoch, 0, 1, NULL, now()) t WHERE s.name = 'audit' AND a.status = 0;
        SELECT FROM holdfast.process_close($ours, '00000000-0000-4000-8000-0000000000aa',
            now())" "0|0"
done
for role in viewer publisher; do
    may $role "cannot claim from a subscription" \
        "SELECT FROM holdfast.claim('it\"s ours', 'jobs', 1)" "$denied"
    may $role "cannot subscribe as the library does" \
        "SELECT FROM holdfast.change_subscription_put($ours, 'new',
        '[\"**\"]', '{}', 2, 1, 0, -1, now())" "$denied"
    for call in "create_subscription('it\"s ours', 'new', '{**}', 'now', 'ordered')" \
        "alter_subscription('it\"s ours', 'jobs', '{a}')" \
        "drop_subscription('it\"s ours', 'jobs')" \
        "pause_subscription('it\"s ours', 'jobs')" "resume_subscription('it\"s ours', 'jobs')" \
        "seek_subscription('it\"s ours', 'jobs', 'start')"; do
        may $role "cannot call ${call%%(*}" "SELECT FROM holdfast.$call" "$denied"
    done
done
for role in $roles; do
    may $role "cannot create a namespace" "SELECT holdfast.create_namespace('mine')" "$denied"
    may $role "cannot alter its own namespace" \
        "SELECT holdfast.alter_namespace('it\"s ours', retention_ms => 1)" "$denied"
    may $role "cannot drop its own namespace" \
        "CALL holdfast.drop_namespace('it\"s ours', true)" "$denied"
    may $role "may be a node with heartbeat and goodbye" \
        "SELECT holdfast.heartbeat('it\"s ours', '$role', '00000000-0000-4000-8000-0000000000bb');
        SELECT holdfast.heartbeat('it\"s ours', '$role', '00000000-0000-4000-8000-0000000000bb');
        SELECT holdfast.goodbye('it\"s ours', '$role', '00000000-0000-4000-8000-0000000000bb')" \
            "00000000-0000-4000-8000-0000000000bb 00000000-0000-4000-8000-0000000000bb t"
done

# When the last process left tells whether the clock was set back since; a viewer could pretend
# that.
for role in viewer publisher consumer; do
    sql "SELECT holdfast.namespace_grant('$role', 'default', 'guest');
        UPDATE holdfast_private.namespaces SET closed_at = NULL WHERE id = 1" >/dev/null
    as guest "SELECT FROM holdfast.process_beat(1, '00000000-0000-4000-8000-0000000000ee', 'n',
        false); SELECT FROM holdfast.process_close(1, '00000000-0000-4000-8000-0000000000ee',
        now())" >/dev/null
    sign=$(case $role in viewer) echo "no sign" ;; *) echo "a sign" ;; esac)
    is "the role $role leaves $sign of when it left" \
        "SELECT closed_at IS NOT NULL, (SELECT count(*) FROM holdfast.read_processes()
        WHERE namespace_id = 1), holdfast.namespace_revoke('$role', 'default', 'guest')
        FROM holdfast.read_namespaces() WHERE id = 1" \
        "$(case $role in viewer) echo f ;; *) echo t ;; esac)|0|t"
done

# --- Nodes of others, and locks ---
our_node=00000000-0000-4000-8000-00000000000$ours
processes="SELECT md5(string_agg(p::text, ' ' ORDER BY p.token)) FROM holdfast.read_processes() p
    WHERE namespace_id = $ours"
sql "SELECT FROM holdfast.process_beat($ours, '00000000-0000-4000-8000-0000000000dd', 'dead',
    true)" >/dev/null
before=$(sql "$processes")
for role in viewer publisher; do
    for call in "holdfast.process_close($ours, '$our_node', now())" \
        "holdfast.process_beat($ours, '$our_node', 'n', true)" "holdfast.process_sweep($ours)" \
        "holdfast_private.process_give($ours, '$our_node', now())" \
        "holdfast.heartbeat('it\"s ours', 'node', '$our_node')" \
        "holdfast.goodbye('it\"s ours', 'node', '$our_node')" \
        "holdfast.node_register($ours, '$our_node', true, true, 'n', true, 'n', NULL, NULL, NULL,
            NULL, NULL, 30000)"; do
        echo "SELECT $call;"
    done | tries "$role's" >/dev/null
    echo "UPDATE holdfast_private.processes SET renewals = 0, seen_at = '-infinity';
        DELETE FROM holdfast_private.processes;
          INSERT INTO holdfast_private.processes (token, started_at, seen_at, namespace_id, locked,
              node_name, role_id) VALUES (gen_random_uuid(), now(), now(), $ours, false, 'n',
              'holdfast'::regrole)" | tries "$role's" >/dev/null
    is "the role $role cannot change, remove or speak for a node of others" "$processes" \
        "$before"
done
sql "ALTER ROLE \"viewer's\" RENAME TO \"Viewer's.new\"" >/dev/null
ok "a role that was renamed may go on as a node" same "" \
    "$(as "Viewer's.new" "SELECT FROM holdfast.process_beat($ours,
        '00000000-0000-4000-8000-0000000000cc', 'n', false)")"
sql "ALTER ROLE \"Viewer's.new\" RENAME TO \"viewer's\"" >/dev/null
may viewer "shows signs of life for a node that it registered under another name" \
    "SELECT count(*) > 0
    FROM holdfast.process_beat($ours, '00000000-0000-4000-8000-0000000000cc', 'n', false);
    SELECT renewals FROM holdfast.read_processes()
    WHERE token = '00000000-0000-4000-8000-0000000000cc'" "t 1"
may viewer "says goodbye for a node that it registered under another name" \
    "SELECT FROM holdfast.process_close($ours,
    '00000000-0000-4000-8000-0000000000cc', now()); SELECT count(*) FROM holdfast.read_processes()
    WHERE token = '00000000-0000-4000-8000-0000000000cc'" 0
may viewer "cannot change which ids are known" \
    "UPDATE holdfast_private.namespaces SET ids_until = 'infinity'" "$denied"
may viewer "cannot change when the last process left" \
    "UPDATE holdfast_private.namespaces SET closed_at = now()" "$denied"
may consumer "clears up after dead processes" "SELECT holdfast.process_sweep($ours)" 1
is "process_sweep leaves processes that are alive" \
    "SELECT count(*) FROM holdfast.read_processes() WHERE token = '$our_node'" 1
# lockable ROLE: the tables of the schema that it can lock for all others.
lockable() {
    for table in $tables; do
        echo "BEGIN; LOCK TABLE ONLY $table; SELECT '${table#*.}'; ROLLBACK;"
    done | tries "$1's" | grep -v ERROR | sort | paste -sd' ' -
}
tables=$(sql "SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c WHERE c.relnamespace IN
        ('holdfast'::regnamespace, 'holdfast_private'::regnamespace) AND c.relkind IN ('r', 'p')")
for role in $roles; do
    ok "the role $role cannot lock a table against others" same "" "$(lockable "$role")"
done
for role in $roles; do
    may $role "cannot rotate the journal" \
        "SELECT holdfast.upkeep(1000000); SELECT holdfast_private.rotate(0)" "f $denied"
    may $role "cannot compact the leases" \
        "SELECT holdfast_private.compact('holdfast_private.leases', -1)" \
        "$denied"
done
lease_ends="SELECT expires_at > now() + interval '30 d' FROM holdfast.read_leases()
    WHERE subscription_id = (SELECT id FROM holdfast.read_subscriptions() WHERE namespace_id = $ours
    AND name = 'jobs') ORDER BY 1 DESC LIMIT 1"
sql "UPDATE holdfast_private.processes SET seen_at = now() + interval '60 d' WHERE token
    = '$our_node'; UPDATE holdfast_private.leases SET expires_at = now() + interval '60 d'
     WHERE subscription_id = (SELECT id FROM holdfast.read_subscriptions()
         WHERE namespace_id = $ours AND name = 'jobs')" >/dev/null
for role in viewer publisher; do
    may $role "goes on as a node when the clock is set back" \
        "SELECT holdfast.heartbeat('it\"s ours',
        '$role', '00000000-0000-4000-8000-0000000000bb') IS NOT NULL; SELECT
        holdfast.goodbye('it\"s ours', '$role', '00000000-0000-4000-8000-0000000000bb')" "t t"
done
is "a viewer and a publisher do not shorten leases after the clock was set back" "$lease_ends" t
may consumer "closes as a node after the clock was set back" \
    "SELECT FROM holdfast.process_beat($ours, '00000000-0000-4000-8000-0000000000aa', 'n', false);
    SELECT FROM holdfast.process_close($ours, '00000000-0000-4000-8000-0000000000aa', now())" ""
is "a consumer shortens leases after the clock was set back" "$lease_ends" f

# --- Schedules, events for later and months that are to go, in both ---
# due NAMESPACE ID: makes the schedule `clock` due, and has an event that is.
due() {
    sql "SELECT holdfast.create_schedule('$1', 'clock', '@yearly', 'tock', '\"secret\"',
        misfire => 'once');
         SELECT FROM holdfast.publish_later('$1', 'later', '\"secret\"', now() - interval '1 s');
         UPDATE holdfast_private.schedules SET next_at = now() - interval '1 hour'
             WHERE namespace_id = $2 AND name = 'clock'" >/dev/null
}
for id in "$ours" "$theirs"; do
    past 2 3 "$id"
    past 1 0 "$id"
done
sql "UPDATE holdfast_private.namespaces SET retention_ms = 3600000" >/dev/null
old_months="SELECT count(*) FROM pg_inherits i WHERE i.inhparent
    IN ('holdfast_private.events_$ours'::regclass, 'holdfast_private.events_$theirs'::regclass)
    AND right(i.inhrelid::regclass::text, 6) < to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')"
due theirs "$theirs"
sql "SELECT FROM holdfast.run_schedule('theirs', 'clock')" >/dev/null
for role in publisher consumer owner; do
    due 'it"s ours' "$ours"
    may $role "ticks for its own namespace and drops no month" \
        "SELECT fired, released, months FROM holdfast.tick()" "1|1|0"
    due 'it"s ours' "$ours"
    may $role "ticks for its own namespace by name" \
        "SELECT fired, released FROM holdfast.tick('it\"s ours')" "1|1"
done
for role in publisher owner; do
    may $role "makes, pauses, runs, resumes and drops a schedule" \
        "SELECT holdfast.create_schedule('it\"s ours', '$role', '@hourly', 't') IS NOT NULL;
        SELECT FROM holdfast.pause_schedule('it\"s ours', '$role');
        SELECT position > 0 FROM holdfast.run_schedule('it\"s ours', '$role');
        SELECT FROM holdfast.resume_schedule('it\"s ours', '$role');
        SELECT count(*) FROM holdfast.read_schedule_runs() r
            JOIN holdfast.read_schedules() s ON s.id = r.schedule_id WHERE s.name = '$role';
        SELECT FROM holdfast.drop_schedule('it\"s ours', '$role')" "t t 1"
done
due 'it"s ours' "$ours"
may viewer "ticks, and fires nothing" "SELECT fired, released FROM holdfast.tick()" "0|0"
for role in viewer consumer; do
    ok "the role $role cannot make a schedule" like "ERROR:*" \
        "$(as "$role's" "SELECT holdfast.create_schedule('it\"s ours', 'new', '@hourly', 't')")"
    for call in "run_schedule('it\"s ours', 'clock')" "pause_schedule('it\"s ours', 'clock')" \
        "drop_schedule('it\"s ours', 'clock')" "resume_schedule('it\"s ours', 'clock')" \
        "change_schedule_remove($ours, 'clock')" \
        "change_schedule_pause($ours, 'clock', true, 'x', 'y', now(), now())"; do
        may $role "is refused to call $call" "SELECT FROM holdfast.$call" "$denied"
    done
done
for role in $roles; do
    may $role "cannot remove a month with holdfast.retain" \
        "SELECT holdfast.retain('it\"s ours', 0)" 0
done
is "months stay that no role may drop" "$old_months" 4

# --- Nothing in the other one ---
their_clock=$(sql "SELECT id FROM holdfast.read_schedules() WHERE namespace_id = $theirs
        AND name = 'clock'")
their_node=00000000-0000-4000-8000-00000000000$theirs
# Every row of every table that is of the other one, but for which side of the journal a checkpoint
# is on.
tables=$(sql "SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c
        WHERE c.relnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
        AND c.relkind IN ('r', 'p', 'v') AND c.relname !~ '^events_|^secret\$|^tickets\$|^gates\$'")
rest="'null', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL" # of publish_as
for secret in 'SELECT FROM holdfast_private.secret' 'SELECT FROM holdfast_private.tickets' \
    "SELECT FROM holdfast.publish_as('it\"s ours', 't', $rest, p_ticket => '\\x0000000a')" \
    "SELECT FROM holdfast.publish_as('it\"s ours', 't', $rest, p_ticket => NULL)" \
    "SELECT FROM holdfast.tick(p_ticket => NULL)" \
    "SELECT FROM holdfast.claim_$ours($ours, 0, 0, NULL, gen_random_uuid(), 'n', NULL, false, 1,
        1000, false, false, NULL, NULL, NULL, false, now(), NULL, p_ticket => NULL)" \
    "SELECT FROM holdfast.change_settle_lease($theirs, $their_jobs, gen_random_uuid(), true, false,
        NULL, now(), p_ticket => NULL)" \
    "SELECT FROM holdfast.publish_as('theirs', 't', $rest, p_ticket => '')"; do
    may owner "cannot forge a ticket: $secret" "$secret" "$denied"
done
# Every role can have the plans shown that are made for it. Each byte of a constant is a number, and
# long lines are broken, so spaces do not count.
shows() { # ROLE TEXT: whether the plans of its publishing have this
    [[ $(PGUSER=$1 psql -qXAt -c "SET client_min_messages = log" -c "SET debug_print_plan = on" \
        -c "SELECT FROM holdfast.publish('it\"s ours', 't')" \
        -c "SELECT FROM holdfast.publish('it\"s ours', 't', id => gen_random_uuid())" 2>&1 |
        tr -d ' \n') == *"$2"* ]]
}
bytes=$(sql "SELECT string_agg((get_byte(s.secret, i) - CASE WHEN get_byte(s.secret, i) > 127
        THEN 256 ELSE 0 END)::text, '' ORDER BY i)
    FROM holdfast_private.secret s, generate_series(0, length(s.secret) - 1) i")
ok "setup: the plans of the owner's publishing show the secret" shows holdfast "$bytes"
ok "setup: the plans of a publisher's publishing are shown" shows "publisher's" PLANNEDSTMT
fails_to_show() { ! shows "$@"; }
ok "the plans of a publisher's publishing do not show the secret" \
    fails_to_show "publisher's" "$bytes"
# A role that may read every table can put a view of its own above that of tickets.
sql "GRANT pg_read_all_data TO \"owner's\"" >/dev/null
may owner "gets only its own tickets from a view above holdfast_private.tickets" \
    "CREATE TEMP VIEW mine
    AS SELECT ticket FROM holdfast_private.tickets; SELECT ticket = holdfast.ticket(),
    substr(ticket, 1, 4) = oidsend('\"owner''s\"'::regrole::oid) FROM mine" "t|t"
sql "GRANT pg_write_all_data TO \"owner's\"" >/dev/null
may owner "cannot change a ticket with the right to write every table" \
    "UPDATE holdfast_private.tickets SET ticket = ''" "ERROR:  55000"
sql "REVOKE pg_read_all_data, pg_write_all_data FROM \"owner's\"" >/dev/null
of_theirs="to_jsonb(t) @> '{\"namespace_id\": $theirs}'
    OR to_jsonb(t) @> '{\"namespace\": \"theirs\"}'
    OR to_jsonb(t) @> '{\"schedule_id\": \"$their_clock\"}'
    OR to_jsonb(t) @> '{\"subscription_id\": $their_jobs}'
    OR to_jsonb(t) @> '{\"subscription_id\": $their_audit}'"
snapshot="SELECT md5(string_agg(t, E'\n' ORDER BY t))
    FROM (SELECT t::text FROM holdfast.read_namespaces() t WHERE id = $theirs
    UNION ALL SELECT q.last_value::text FROM holdfast_private.events_${theirs}_position q
    UNION ALL SELECT i.inhrelid::regclass::text FROM pg_inherits i
    WHERE i.inhparent = 'holdfast_private.events_$theirs'::regclass
    $(for table in $tables; do
        case $table in *.checkpoints_[01]) ;; *) echo \
            "UNION ALL SELECT '$table' || t::text FROM $table t WHERE $of_theirs" ;; esac
    done)) x"
before=$(sql "$snapshot")
ok "setup: the contents of the other namespace are known" \
    like "????????????????????????????????" "$before"
said=$(mktemp)
# any_call ROLE NAME: a call of every function there is, with what is the other one's wherever an
# argument could name it. What is called name is that of a namespace, a subscription or a schedule.
any_call() {
    sql "SELECT format('%s %s.%I(%s);', CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END,
        p.pronamespace::regnamespace, p.proname,
        string_agg(CASE WHEN a.mode = 'v' THEN 'VARIADIC ' ELSE '' END || CASE
            WHEN a.name = 'p_ticket' THEN 'holdfast.ticket()'
            WHEN a.type = 'integer' AND a.name ~ 'namespace_id|^p_id\$|^p_own\$' THEN '$theirs'
            WHEN a.type = 'holdfast_private.namespaces' THEN (SELECT quote_literal(n)
                FROM holdfast.read_namespaces() n WHERE n.id = $theirs)
            WHEN a.type = 'holdfast_private.schedules' THEN (SELECT quote_literal(c)
                FROM holdfast.read_schedules() c WHERE c.id = '$their_clock')
            WHEN a.type = 'holdfast_private.processes' THEN (SELECT quote_literal(c)
                FROM holdfast.read_processes() c WHERE c.token = '$their_node')
            WHEN a.type = 'holdfast_private.pull'
                THEN quote_literal(holdfast_private.pull_find(holdfast.ticket(), 'theirs', 'jobs'))
            WHEN a.name ~ 'subscription_id' THEN '$their_jobs'
            WHEN a.type IN ('integer', 'bigint') THEN '1'
            WHEN a.type = 'boolean' THEN 'true'
            WHEN a.type = 'timestamp with time zone' THEN 'now()'
            WHEN a.type = 'timestamp with time zone[]' THEN 'ARRAY[now()]'
            ELSE quote_nullable(CASE
                WHEN a.type = 'uuid' AND a.name ~ 'schedule|^p_id\$' THEN '$their_clock'
                WHEN a.type IN ('text', 'uuid') AND a.name ~ 'lease' THEN '$their_lease'
                WHEN a.type = 'uuid' THEN '$their_node'
                WHEN a.type = 'uuid[]' THEN CASE WHEN a.name ~ 'schedule' THEN '{$their_clock}' WHEN
                    a.name ~ 'token' THEN '{$their_node}' ELSE '{' || gen_random_uuid() || '}' END
                WHEN a.type = 'text' THEN CASE WHEN a.name ~ 'namespace' THEN 'theirs'
                    WHEN a.name ~ '^(p_)?name\$' THEN '$2' WHEN a.name ~ 'subscription' THEN 'jobs'
                    WHEN a.name ~ 'role' THEN 'owner' WHEN a.name ~ 'grantee' THEN '$1''s'
                        WHEN a.name ~ 'expression' THEN '@hourly' WHEN a.name ~ 'zone' THEN 'UTC'
                        ELSE 'x' END
                WHEN a.type = 'text[]' THEN '{x}' WHEN a.type = 'boolean[]' THEN '{t}'
                    WHEN a.type ~ '^(int|json).*]\$' THEN '{1}' WHEN a.type ~ '^json' THEN '1'
                WHEN a.type = 'regclass' THEN 'holdfast_private.leases' WHEN a.type = 'regrole'
                    THEN '\"$1''s\"' WHEN a.type = 'interval' THEN '1 s' END) END
            || '::' || a.type, ', ' ORDER BY a.n))
        FROM pg_proc p LEFT JOIN LATERAL (
            SELECT i.n, p.proargmodes[i.n] AS mode, coalesce(p.proargnames[i.n], '') AS name,
                format_type(i.t, NULL) AS type
            FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY i (t, n)
            WHERE coalesce(p.proargmodes[i.n], 'i') IN ('i', 'b', 'v')) a ON true
        WHERE p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
            AND p.prorettype <> 'trigger'::regtype
        GROUP BY p.oid ORDER BY p.proname"
}
for role in $roles; do
    may $role "sees only the name of its own namespace" \
        "SELECT name FROM holdfast.read_namespaces()" 'it"s ours'
    may $role "sees neither log nor dead letters nor subscriptions of another namespace" \
        "SELECT $(everything theirs "$theirs")" "0 0 0"
    may $role "sees no grants of another namespace" \
        "SELECT count(*) FROM holdfast.read_grants() WHERE namespace_id = $theirs" 0
    may $role "cannot read the table of the log of another namespace" \
        "SELECT FROM holdfast_private.events_$theirs" "$denied"
    may $role "cannot read the head of another namespace" "SELECT holdfast.head($theirs)" "$denied"
    may $role "cannot read the numbers of another namespace" \
        "SELECT FROM holdfast.stats('theirs')" "ERROR:  HF003"
    ok "the role $role sees no row of another namespace in any table" \
        same 0 "$(for table in $tables; do
        case $table in
        holdfast_private.*) echo \
            "SELECT count(*) FROM holdfast.read_${table#*.}() t WHERE $of_theirs;" ;;
        *) echo "SELECT count(*) FROM $table t WHERE $of_theirs;" ;;
        esac
    done | tries "$role's" | sort -u | paste -sd' ' -)"
    for call in \
        "holdfast.publish_later('theirs', 't', '1', now())" "holdfast.heartbeat('theirs', 'n')" \
        "holdfast.heartbeat('it\"s ours', 'n', '00000000-0000-4000-8000-00000000000$theirs')" \
        "holdfast.goodbye('theirs', 'n', '00000000-0000-4000-8000-00000000000$theirs')" \
        "holdfast.goodbye('it\"s ours', 'n', '00000000-0000-4000-8000-00000000000$theirs')" \
        "holdfast.publish('theirs', 't')" "holdfast.publish_many('theirs', '{x}', NULL)" \
        "holdfast.publish('theirs', 't', id => '00000000-0000-4000-8000-000000000001')" \
        "holdfast.append($theirs, ARRAY[gen_random_uuid()], '{t}', '{1}', '{k}', NULL, NULL, NULL,
            ARRAY[now()], NULL, '{1}')" \
        "nextval('holdfast_private.events_${theirs}_position')" \
        "setval('holdfast_private.events_${theirs}_sleep', 1)" \
        "holdfast.claim('theirs', 'jobs', 1)" \
        "holdfast.change_claim($theirs, $their_jobs, 0, NULL,
            '00000000-0000-4000-8000-0000000000aa', 'a', NULL, false, 10, 1000, false, false, NULL,
            NULL, NULL, true, now())" \
        "holdfast.ack('theirs', 'jobs', '$their_lease')" \
        "holdfast.nack('theirs', 'jobs', '$their_lease')" \
        "holdfast.bury('theirs', 'jobs', '$their_lease')" \
        "holdfast.release('theirs', 'jobs', '$their_lease')" \
        "holdfast.extend('theirs', 'jobs', '$their_lease')" \
        "holdfast.change_settle_lease($ours, $their_jobs, '$their_lease', true, false, NULL,
            now())" \
        "holdfast.lease_events($theirs, $their_jobs, '$their_lease')" \
        "holdfast.change_seek($theirs, $their_jobs, 0, now())" \
        "holdfast.change_pause($theirs, $their_jobs, true, 'x', 'y', now())" \
        "holdfast.change_acquire($theirs, $their_audit, 0, '00000000-0000-4000-8000-0000000000aa',
            'n', true, NULL, NULL)" \
        "holdfast.change_subscription_put($theirs, 'new', '[\"**\"]', '{}', 2, 1, 0, -1, now())" \
        "holdfast.change_subscription_remove($theirs, 'jobs')" \
        "holdfast.create_subscription('theirs', 'new', '{**}', 'start', 'ordered')" \
        "holdfast.create_subscription('theirs', 'jobs', '{a}')" \
        "holdfast.alter_subscription('theirs', 'jobs', '{a}')" \
        "holdfast.pause_subscription('theirs', 'jobs')" \
        "holdfast.resume_subscription('theirs', 'jobs')" \
        "holdfast.seek_subscription('theirs', 'jobs', 'now')" \
        "holdfast.drop_subscription('theirs', 'jobs')" \
        "holdfast.create_namespace('theirs', retention_ms => 1)" \
        "holdfast.alter_namespace('theirs', retention_ms => 1)" \
        "holdfast.change_dead_purge($theirs, '{1,2,3}', now())" \
        "holdfast.change_dead_retry($theirs, '{1,2,3}', NULL, now())" \
        "holdfast.change_dead_resolve($theirs, 2, 'x', 'y', now())" \
        "holdfast.process_beat($theirs, gen_random_uuid(), 'n', false)" \
        "holdfast.process_beat($ours, '00000000-0000-4000-8000-00000000000$theirs', 'n', false)" \
        "holdfast.process_close($theirs, '00000000-0000-4000-8000-00000000000$theirs', now())" \
        "holdfast.process_sweep($theirs)" \
        "holdfast_private.journal_add($their_audit, 0, 4, now(), NULL)" \
        "holdfast_private.subscription_clear($their_jobs, 0)" \
        "holdfast.events_at($theirs, NULL, '{1}')" \
        "holdfast.create_schedule('theirs', 'new', '@hourly', 't')" \
        "holdfast.create_schedule('theirs', 'clock', '@hourly', 't')" \
        "holdfast.run_schedule('theirs', 'clock')" \
        "holdfast.pause_schedule('theirs', 'clock')" "holdfast.resume_schedule('theirs', 'clock')" \
        "holdfast.drop_schedule('theirs', 'clock')" "holdfast.fire_schedule('$their_clock')" \
        "holdfast.change_schedule_pause($theirs, 'clock', true, 'x', 'y', now(), now())" \
        "holdfast.change_schedule_remove($theirs, 'clock')" \
        "holdfast.change_delay($theirs, now(), ARRAY[gen_random_uuid()], '{t}', '{1}', '{k}',
            '{NULL}', '{NULL}', '{NULL}', ARRAY[now()], '{1}')" \
        "holdfast.change_release($theirs, 10, 1000000, now())" "holdfast.tick('theirs')" \
        "holdfast.tick()" \
        "holdfast.retain('theirs', 0)" "holdfast.retain(NULL, 0)" \
        "holdfast.change_retain($theirs, 100, NULL, 1000, true)" \
        "holdfast_private.retention_ids($theirs, 1000)" \
        "holdfast.import_table('holdfast.event_log', 'theirs', '{position}',
            '{\"type\": \"type\", \"payload\": \"payload\"}')" \
        "holdfast.node_register($theirs, gen_random_uuid(), false, false, 'n', true, 'n', NULL,
            NULL, NULL, NULL, NULL, 30000)" \
        "holdfast.node_register($ours, '$their_node', false, true, 'n', true, 'n', NULL, NULL,
            NULL, NULL, NULL, 30000)" \
        "holdfast_private.copy_check('theirs', 'x', false)" \
        "holdfast_private.copy_begin('theirs', 'x', 'y', false)" \
        "holdfast_private.copy_clear('theirs', 'x y', 0, 1000)" \
        "holdfast_private.copy_end(NULL, 'x y')" "holdfast_private.copy_head($theirs, 1)" \
        "holdfast.change_namespace_remove(0, 'theirs', true, 1000)" \
        "holdfast.namespace_grant('owner', 'theirs', '$role''s')" \
        "holdfast_private.namespace_put('a new one')"; do
        echo "SELECT $call;"
    done | tries "$role's" >"$said"
    ok "setup: all functions that the role $role called exist" same "" \
        "$(grep -E 'ERROR:  (42883|42601|42725)' "$said")"
    ok "the role $role changes nothing of another namespace by chosen calls" \
        same "$before" "$(sql "$snapshot")"
    for name in theirs jobs clock; do
        any_call $role $name
    done | tries "$role's" >"$said"
    ok "setup: the role $role called every function with fitting arguments" same "" \
        "$(grep -E 'ERROR:  (42883|42601|42725)' "$said")"
    ok "the role $role changes nothing of another namespace by any function" \
        same "$before" "$(sql "$snapshot")"
    {
        for table in $tables; do
            for column in "namespace_id = $theirs" "subscription_id = $their_jobs" \
                "schedule_id = '$their_clock'"; do
                echo "DELETE FROM $table WHERE $column;
                    UPDATE $table SET ${column%% *} = ${column%% *} WHERE $column;"
            done
        done
        echo "UPDATE holdfast_private.namespaces SET ids_until = 'infinity' WHERE id = $theirs;
            TRUNCATE holdfast_private.leases;
              INSERT INTO holdfast_private.grants
                  VALUES ($theirs, '\"$role''s\"'::regrole, 'owner');"
    } | tries "$role's" >"$said"
    ok "the role $role changes nothing of another namespace by any statement" \
        same "$before" "$(sql "$snapshot")"
done
is "no role has made a namespace" "SELECT count(*) FROM holdfast.read_namespaces()" 3
is "a role without grants may not use the schema" \
    "SELECT has_schema_privilege('guest', 'holdfast', 'USAGE')" f

# --- The library, as each role ---
if [ -x "${HOLDFAST:=$ROOT/build/release/holdfast}" ]; then
# run ROLE ARGUMENTS: the command as this role, in our namespace; its exit status.
run() {
    local role=$1
    shift
    "$HOLDFAST" "$@" --namespace 'it"s ours' \
        --db "postgresql:///$PGDATABASE?host=$cluster_dir&user=$role%27s" </dev/null >"$said" 2>&1
    echo $?
}
for role in publisher owner; do
    ok "the role $role publishes by the command" same 0 "$(run $role publish a.b '{}')"
    ok "the role $role publishes for later by the command" \
        same 0 "$(run $role publish a.b '{}' --delay 1h)"
    ok "the role $role adds a schedule by the command" \
        same 0 "$(run $role schedule add "$role" @hourly a.b)"
done
for role in viewer consumer; do
    ok "the role $role cannot publish by the command" same 1 "$(run $role publish a.b '{}')"
    ok "the refusal of $role names namespace grant" grep -q "namespace grant ROLE NAMESPACE" "$said"
    ok "the refusal of $role does not name GRANT CREATE" \
        sh -c '! grep -q "GRANT CREATE" "$1"' sh "$said"
done
for role in consumer owner; do
    ok "the role $role works by the command" same 0 \
        "$(run $role work "work-$role" --on '**' --from start --until-empty --exec true)"
done
for role in viewer publisher; do
    ok "the role $role cannot work by the command" same 1 \
        "$(run $role work "work-$role" --on '**' --from start --until-empty --exec true)"
done
for role in $roles; do
    ok "the role $role may run stats" same 0 "$(run $role stats)"
    ok "verify by the role $role says that it does not see all" same 7 "$(run $role verify)"
    ok "verify by the role $role has one finding, which is about its rights" same \
        "rights: 1, all: 1" "rights: $(grep -c "^rights: $role's sees only" "$said"), all: $(
            sed -n 's/.*rows\{0,1\} examined, \([0-9]*\) findings\{0,1\}\.$/\1/p' "$said")"
done
for numbers in subscriptions in_flight retrying held dead; do
    run publisher stats --json >/dev/null
    ok "the role publisher gets null, not 0, for $numbers of stats" \
        grep -q "\"$numbers\": *null" "$said"
done
run publisher top >/dev/null
ok "top of the role publisher says that it may not see the subscriptions" \
    grep -qx 'This role may not see the subscriptions.' "$said"
run publisher namespace list --json >/dev/null
ok "the role publisher gets null, not 0, for the subscriptions of namespace list" \
    grep -q '"subscriptions": *null' "$said"
run publisher stats >/dev/null
ok "the role publisher gets no age of the oldest waiting event" \
    grep -qx 'oldest waiting: *-' "$said"
for list in 'dlq list' 'dlq show 1' 'sub list' 'sub show jobs' 'sub pause jobs'; do
    # shellcheck disable=SC2086
    ok "the role publisher is refused $list" same 1 "$(run publisher $list)"
    ok "the refusal of $list says what publisher may not see" \
        grep -q "may not see the .* of namespace it\"s ours" "$said"
done
for role in viewer consumer; do
    for list in 'schedule list' 'schedule show clock'; do
        # shellcheck disable=SC2086
        ok "the role $role is refused $list" same 1 "$(run $role $list)"
        ok "the refusal of $list says what $role may not see" \
            grep -q "may not see the schedules of namespace it\"s ours" \
            "$said"
    done
done
# What is hidden from the reader would be missing in the copy, and the proof would not see it
# either.
for role in viewer owner; do
    "$HOLDFAST" copy "postgresql:///$PGDATABASE?host=$cluster_dir&user=$role%27s" \
        "$said-$role.db" --namespace 'it"s ours' --live </dev/null >"$said" 2>&1
    ok "the role $role copies nothing rather than a part" grep \
        -q 'schema holdfast_private .42501.*the rest is for the owner of the schema' "$said"
    rm -f "$said-$role.db"*
done
run viewer tail >/dev/null
ok "the role viewer reads the log by the command" grep -q secret "$said"
admin() {
    "$HOLDFAST" namespace \
        "$@" --db "postgresql:///$PGDATABASE?host=$cluster_dir&user=holdfast" </dev/null 2>&1
}
ok "namespace grant says that a role is now consumer" \
    same "other is now consumer of namespace theirs." \
    "$(admin grant consumer theirs other)"
ok "namespace grants lists the roles of a namespace" \
    same '{"role":"consumer","to":"other"} {"role":"viewer","to":"other"}' \
    "$(admin grants theirs --json | tr -d ' ' | paste -sd' ' -)"
ok "namespace revoke says that a role is no longer consumer" \
    same "other is no longer consumer of namespace theirs." \
    "$(admin revoke consumer theirs other)"
ok "namespace grant refuses an unknown part" like \
    "*role is admin; it must be viewer, publisher, consumer or owner" \
    "$(admin grant admin theirs other)"
ok "the role owner cannot grant to itself" \
    same 1 "$(run owner namespace grant publisher 'it"s ours' "owner's")"
ok "the role owner cannot grant in another namespace" same 1 \
    "$(run owner namespace grant owner theirs "owner's")"
fi
rm -f "$said"

# --- Several, members, and taking it back ---
sql "SELECT holdfast.namespace_grant('publisher', 'theirs', 'viewer''s')" >/dev/null
may viewer "publishes in another namespace where it is publisher" \
    "SELECT duplicate FROM holdfast.publish('theirs', 't')" f
may viewer "reads nothing in another namespace where it is publisher" \
    "SELECT count(*) FROM holdfast.event_log WHERE namespace
    = 'theirs'; SELECT count(*) FROM holdfast.read_events() WHERE namespace_id = $theirs" "0 0"
may viewer "cannot publish where it is viewer" \
    "SELECT FROM holdfast.publish('it\"s ours', 't')" "$denied"
for call in "publish_later('it\"s ours', 't', '1', now())" \
    "create_schedule('it\"s ours', 'new', '@hourly', 't')" "drop_schedule('it\"s ours', 'clock')" \
    "run_schedule('it\"s ours', 'clock')" \
    "change_schedule_remove($ours, 'clock')" \
    "change_schedule_pause($ours, 'clock', true, 'x', 'y', now(), now())"; do
    may viewer "cannot call ${call%%(*} where it is viewer" "SELECT FROM holdfast.$call" "$denied"
done
sql "SELECT holdfast.namespace_grant('consumer', 'theirs', 'viewer''s')" >/dev/null
may viewer "pauses and resumes in another namespace where it is consumer" \
    "SELECT FROM holdfast.pause_subscription('theirs', 'jobs', 'why'); SELECT paused_by
    FROM holdfast.read_subscriptions() WHERE namespace_id = $theirs AND name = 'jobs';
    SELECT FROM holdfast.resume_subscription('theirs', 'jobs')" "viewer's"
for call in "claim('it\"s ours', 'jobs', 1)" "alter_subscription('it\"s ours', 'jobs', '{a}')" \
    "drop_subscription('it\"s ours', 'jobs')" "pause_subscription('it\"s ours', 'jobs')" \
    "resume_subscription('it\"s ours', 'jobs')" "seek_subscription('it\"s ours', 'jobs', 'start')" \
    "change_subscription_remove($ours, 'jobs')" "change_seek($ours, $our_jobs, 0, now())" \
    "change_pause($ours, $our_jobs, true, 'x', 'y', now())" \
    "change_breaker($ours, $our_jobs, 'open')" \
    "ack('it\"s ours', 'jobs', '$our_lease')" "nack('it\"s ours', 'jobs', '$our_lease')" \
    "release('it\"s ours', 'jobs', '$our_lease')" "bury('it\"s ours', 'jobs', '$our_lease')" \
    "extend('it\"s ours', 'jobs', '$our_lease')" \
    "change_dead_retry($ours, '{$our_letter}', NULL, now())" \
    "change_dead_resolve($ours, $our_letter, 'x', 'y', now())" \
    "change_dead_purge($ours, '{$our_letter}', now())"; do
    may viewer "cannot call ${call%%(*} where it is only viewer" "SELECT FROM holdfast.$call" \
        "$denied"
done
may viewer "may call seek_subscription with dry_run" "SELECT position
    FROM holdfast.seek_subscription('it\"s ours', 'jobs', 'start', dry_run => true)" 0
sql "SELECT holdfast.namespace_revoke('consumer', 'theirs', 'viewer''s')" >/dev/null
sql "GRANT \"publisher's\" TO guest" >/dev/null
ok "members of a role may do what the role may" same f \
    "$(as guest "SELECT duplicate FROM holdfast.publish('it\"s ours', 't')")"
is "namespace_revoke returns true once" \
    "SELECT holdfast.namespace_revoke('publisher', 'theirs', 'viewer''s'),
    holdfast.namespace_revoke('publisher', 'theirs', 'viewer''s')" "t|f"
may viewer "cannot publish after the grant is revoked" \
    "SELECT FROM holdfast.publish('theirs', 't')" "$denied"
may viewer "sees its own namespace after another grant is revoked" \
    "SELECT name FROM holdfast.read_namespaces()" 'it"s ours'
is "a role that has lost all grants can be dropped" \
    "SELECT holdfast.namespace_revoke('viewer', 'theirs', 'other'); DROP ROLE other" t
sql "CREATE ROLE gone LOGIN; SELECT holdfast.namespace_grant('owner', 'it\"s ours', 'gone');
    DROP OWNED BY gone; DROP ROLE gone" >/dev/null
is "setup: a role that was dropped leaves a grant" \
    "SELECT count(*) FROM holdfast.read_grants() WHERE grantee::text ~ '^[0-9]+\$'" 1
may viewer "does not get the grant of a role that was dropped" \
    "SELECT name FROM holdfast.read_namespaces();
    SELECT count(*) FROM holdfast.read_grants()" 'it"s ours 1'
is "namespace_revoke removes grants of dropped roles" \
    "BEGIN; SELECT holdfast.namespace_revoke('consumer', 'theirs', 'guest');
    SELECT count(*) FROM holdfast.read_grants() WHERE grantee::text ~ '^[0-9]+\$'; ROLLBACK" "f 0"
is "namespace_grant removes grants of dropped roles" \
    "SELECT holdfast.namespace_grant('viewer', 'it\"s ours',
    'guest'); SELECT count(*) FROM holdfast.read_grants() WHERE grantee::text ~ '^[0-9]+\$'" "t 0"
sql "CREATE ROLE gone LOGIN; SELECT holdfast.namespace_grant('owner', 'it\"s ours', 'gone');
    DROP OWNED BY gone; DROP ROLE gone" >/dev/null
for _ in 1 2 3 4 5 6 7 8 9; do
    removed=$(sql "SELECT message
            FROM holdfast.change_namespace_remove(0, 'it\"s ours', true, 1000)")
done
ok "a namespace is removed with the grants of dropped roles" same \
    'there is no namespace it"s ours' "$removed"
is "no grant is left after the namespace is removed" \
    "SELECT count(*) FROM holdfast.read_grants(); DROP ROLE \"owner's\",
    \"consumer's\", \"viewer's\"" 0

done_testing
