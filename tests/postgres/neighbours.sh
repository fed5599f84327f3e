# shellcheck shell=bash
# Two namespaces in one database, a and b, a role for every part of a, an owner of b, and what b
# does. Source it after lib.sh, in a test that says what others do meanwhile.
#
#   neighbours                      starts a cluster (settings of the server are its arguments)
#                                   with the roles
#   house NAME                      a database with the schema and the two namespaces
#   speak ROLE                      what the server answers to the statements on standard input
#   scenario ROUND NAMESPACE ROLE   all that a namespace is for, once, and what the tables hold then
#
# $grants: t if the server can grant; $hostile_roles: the roles of a, and stranger, who may only
# connect; $b_role: who b belongs to.
parts="viewer publisher consumer owner"

neighbours() {
    cluster "$@"
    # Nothing here is a superuser's: functions with their owner's rights must not need that.
    psql -qX -c "CREATE ROLE boss LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE b_owner LOGIN" ||
        exit 1
    for part in $parts; do
        psql -qX -c "CREATE ROLE a_$part LOGIN" || exit 1
    done
    grants=$(sql "SELECT current_setting('server_version_num')::integer >= 150000")
    b_role=$([ "$grants" = t ] && echo b_owner || echo boss)
    hostile_roles="stranger $([ "$grants" = t ] && for part in $parts; do echo "a_$part"; done)"
}

# house NAME: a database with the schema and the two namespaces.
house() {
    psql -qX -d postgres -c "CREATE DATABASE $1" -c "GRANT CREATE ON DATABASE $1 TO boss" || exit 1
    export PGDATABASE=$1
    PGUSER=boss install_schema || exit 1
    PGUSER=boss sql \
        "SELECT holdfast.create_namespace('a'); SELECT holdfast.create_namespace('b')" >/dev/null
    if [ "$grants" = t ]; then
        for part in $parts; do
            PGUSER=boss sql "SELECT holdfast.namespace_grant('$part', 'a', 'a_$part')" >/dev/null
        done
        PGUSER=boss sql "SELECT holdfast.namespace_grant('owner', 'b', 'b_owner')" >/dev/null
    fi
    scenario 0 a boss >/dev/null
}

# speak ROLE: what the server answers to the statements on standard input.
speak() {
    PGUSER=$1 PGOPTIONS="$PGOPTIONS -c statement_timeout=20s" psql -qXAt -v ON_ERROR_STOP=0 \
        -v VERBOSITY=terse 2>&1
}

# scenario ROUND NAMESPACE ROLE: publishes, subscribes from the start, claims, fails, dead-letters,
# delays, owns a partition; prints every answer, without what differs from run to run, and then what
# the tables hold, which only the owner of the schema can see.
scenario() {
    local round=$1 name=$2 role=$3 token=00000000-0000-4000-8000-0000000000$1$1 number audit
    number=$(PGUSER=boss sql "SELECT id FROM holdfast_private.namespaces WHERE name = '$name'")
    speak "$role" <<SQL
SELECT position, duplicate
    FROM holdfast.publish('$name', 'order.placed', '{"round": $round}', key => 'k1');
SELECT index, position, duplicate FROM holdfast.publish_many('$name',
    '{order.paid,order.sent,order.lost,order.paid}', '{1,2,3,4}', keys => '{k1,k2,NULL,k3}');
SELECT position, duplicate
    FROM holdfast.publish('$name', 'x', id => '00000000-0000-4000-8000-0000000001$round$round');
SELECT position, duplicate
    FROM holdfast.publish('$name', 'x', id => '00000000-0000-4000-8000-0000000001$round$round');
SELECT key_version
    FROM holdfast.publish('$name', 'v', key => 'version$round', expected_version => 0);
SELECT position, duplicate
    FROM holdfast.publish_later('$name', 'late', '{"late": $round}', now() - interval '1 s');
SELECT position, duplicate
    FROM holdfast.publish_later('$name', 'later', '{"later": $round}', now() + interval '1 day');
SELECT fired, released, more FROM holdfast.tick('$name');
SELECT holdfast.create_subscription('$name', 'jobs$round', '{**}', 'start', mode => 'shared',
    options => '{"attempts_max": 3, "retry_base_ms": 0}');
SELECT holdfast.create_subscription('$name', 'audit$round', '{order.*}', 'start', 'ordered',
    partitions => 2);
CREATE TEMP TABLE had AS SELECT * FROM holdfast.claim('$name', 'jobs$round', 4);
SELECT position, type, payload, key, attempt FROM had ORDER BY 1;
SELECT holdfast.nack('$name', 'jobs$round', max(lease), ARRAY[min(position)], delay_ms => 0),
    holdfast.bury('$name', 'jobs$round', max(lease), ARRAY[min(position) + 1], error => 'bad')
    FROM had;
SELECT holdfast.ack('$name', 'jobs$round', max(lease)) FROM had;
CREATE TEMP TABLE again AS SELECT * FROM holdfast.claim('$name', 'jobs$round', 100);
SELECT position, type, payload, attempt FROM again ORDER BY 1;
SELECT holdfast.ack('$name', 'jobs$round', max(lease)) FROM again;
SELECT subscription, position, type, payload, reason, error, attempts FROM holdfast.dead_letters
    WHERE namespace = '$name' AND subscription = 'jobs$round';
SELECT r.status, r.count FROM holdfast.dead_letters d,
    holdfast.change_dead_retry($number, ARRAY[d.dead_id], '{"edited": $round}', clock_timestamp()) r
    WHERE d.namespace = '$name' AND d.subscription = 'jobs$round';
SELECT position, payload, attempt FROM holdfast.claim('$name', 'jobs$round', 100);
SELECT p.node_name, p.dead FROM holdfast.process_beat($number, '$token', 'node', false) p
    ORDER BY 1;
SQL
    audit=$(PGUSER=boss sql "SELECT id FROM holdfast_private.subscriptions
            WHERE namespace_id = $number AND name = 'audit$round'")
    speak "$role" <<SQL
SELECT a.status, a.epoch, a.checkpoint, t.status, t.message
    FROM holdfast.change_acquire($number, $audit, 0, '$token', 'node', false, NULL, NULL) a,
    LATERAL holdfast.change_settle($number, $audit, 0, '$token', a.epoch, 0, 2, NULL,
        clock_timestamp()) t WHERE a.status = 0;
SELECT holdfast.create_schedule('$name', 'clock$round', '@hourly', 'tock') IS NOT NULL;
SELECT position > 0 FROM holdfast.run_schedule('$name', 'clock$round');
SELECT holdfast.heartbeat('$name', 'node$round') IS NOT NULL;
SELECT subscription, head, checkpoint, retrying, held, dead FROM holdfast.stats('$name');
SELECT position, type, payload, key, key_version FROM holdfast.event_log WHERE namespace = '$name'
    ORDER BY position;
SQL
    speak boss <<SQL
SELECT s.name, s.start, s.generation, s.members_version, c.partition, c.epoch, c.checkpoint, c.holes
    FROM holdfast_private.namespaces n JOIN holdfast_private.subscriptions s ON s.namespace_id
    = n.id JOIN holdfast_private.checkpoints c ON c.subscription_id = s.id WHERE n.name = '$name'
    ORDER BY 1, 5;
SELECT s.name, r.position, r.kind, r.attempts FROM holdfast_private.namespaces n
    JOIN holdfast_private.subscriptions s ON s.namespace_id = n.id JOIN holdfast_private.retries r
    ON r.subscription_id = s.id WHERE n.name = '$name' ORDER BY 1, 2;
SELECT s.name, c.position, c.payload FROM holdfast_private.namespaces n
    JOIN holdfast_private.subscriptions s ON s.namespace_id = n.id
    JOIN holdfast_private.copies c ON c.subscription_id = s.id WHERE n.name = '$name' ORDER BY 1, 2;
SELECT s.name, l.count, l.positions FROM holdfast_private.namespaces n
    JOIN holdfast_private.subscriptions s ON s.namespace_id = n.id JOIN holdfast_private.leases l ON
    l.subscription_id = s.id WHERE n.name = '$name' ORDER BY 1, 3::text;
SELECT s.name, x.position FROM holdfast_private.namespaces n JOIN holdfast_private.subscriptions s
    ON s.namespace_id = n.id JOIN holdfast_private.settled x ON x.subscription_id = s.id
    WHERE n.name = '$name' ORDER BY 1, 2;
SELECT k.key, k.version FROM holdfast_private.namespaces n
    JOIN holdfast_private.keys k ON k.namespace_id = n.id WHERE n.name = '$name' ORDER BY 1;
SELECT d.type, d.payload FROM holdfast_private.namespaces n JOIN holdfast_private.delayed d ON
    d.namespace_id = n.id WHERE n.name = '$name' ORDER BY d.number;
SELECT s.name, s.expression FROM holdfast_private.namespaces n
    JOIN holdfast_private.schedules s ON s.namespace_id = n.id WHERE n.name = '$name' ORDER BY 1;
SELECT n.gapless, n.ids_until, n.retained_through, n.removing_at, n.copying
    FROM holdfast_private.namespaces n WHERE n.name = '$name';
SQL
}
