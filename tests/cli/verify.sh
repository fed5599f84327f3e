#!/usr/bin/env bash
# verify: a bus with a bit of everything is clean; what is damaged with SQL is named, and nothing
# else.
blank=yes # the tests are about making the schema, too
. "$(dirname "$0")/lib.sh"

# The same statements for both engines; position OF EVENTS is an expression of the log's rows.
if on sqlite; then
    sql() { sqlite3 -bail bus.db "${1//holdfast./holdfast_}"; }
    position='place & 17592186044415'
    keep() { sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null && cp bus.db good; }
    restore() { rm -f bus.db-wal bus.db-shm && cp good bus.db; }
else
    # There, dead_letters is a view for people.
    sql() {
        local text=${1//holdfast.dead_letters/holdfast.letters}
        psql -qXAt -v ON_ERROR_STOP=1 "$HOLDFAST_URL" -c "${text//holdfast./holdfast_private.}"
    }
    position=position
    keep() {
        echo "${base}_good" >>databases
        make_database "${base}_good" TEMPLATE "$base"
    }
    restore() {
        drop_database "$base" && make_database "$base" TEMPLATE "${base}_good"
    }
fi

damage() { # SQL: one statement, which must succeed
    sql "$1" >said 2>&1 || true_that "setup: the damage is done by $1" sh -c 'cat said; false'
}
names() { # WHAT KIND PATTERN: the last verify has such a finding
    has "verify names $1" out "\"name\":\"$2\",\"value\":\"[^}]*$3"
}
findings() { # WHAT COUNT [ALL]: and so many in all; ALL, if lines were taken out of `out`
    is "verify finds nothing else than $1" "$(grep -c '^{"name":' out)" "$2"
    is "verify --json ends with the number of findings after $1" \
        "$(tail -n 1 out | grep -o '"findings":.*')" "\"findings\":${3:-$2}}"
}
examine() { # WHAT
    exits 7 "verify finds $1" verify --json
    json "verify --json prints $1 as JSON objects" out
}

# --- A bus with a bit of everything ---
exits 3 "verify without a database exits with not found" verify
hf sub create orders --on 'order.*' --from start --partitions 4 --retries 9
hf sub create mailer --on 'mail.*' --from start --mode shared --retries 0
hf sub create jobs --on 'job.*' --from start --mode shared
hf sub create idle --on 'nothing' --from start
for n in 1 2 3; do hf publish order.new "{\"n\":$n}" --key k1; done
for n in 4 5; do hf publish mail.new "{\"n\":$n}" --tenant t --metadata '{"a":"b"}'; done
for n in 6 7; do hf publish job.new "{\"n\":$n}"; done
hf publish a.b '{}' --namespace 'oth"er'
hf sub create leaving --on '*' --from start --namespace 'oth"er'
"$HOLDFAST" work orders --exec false --retry-base 1h --retry-max 1h >/dev/null 2>&1 &
worker=$!
two_held() { hf sub show orders --json; [ "$(field out 1 '$.held')" = 2 ]; }
until_true 120 two_held
kill "$worker"
wait "$worker"
hf work mailer --exec 'exit 65' --until-empty --max-time 120s
exits 0 "setup: a dead letter waits again" dlq retry 1
hf claim jobs --max 2 --lease 1h --json
hf schedule add nightly '0 0 1 1 *' night.comes '{"n":8}' --metadata '{"a":"b"}'
hf publish later.on '{"n":9}' --delay 1000d --key k1
exits 0 "verify finds nothing wrong with a bus that has a bit of everything" verify
is "verify without findings prints nothing on stdout" "$(cat out)" ''
# 8 events, a copy, a dead letter, 4 waiting deliveries, 5 subscriptions, a schedule, one for later
has "verify prints how many rows it examined and 0 findings" err '^21 rows examined, 0 findings\.$'
exits 0 "verify --json finds nothing wrong with such a bus" verify --json
is "verify --json without findings prints how many rows it examined" \
    "$(cat out)" '{"rows":21,"findings":0}'
exits 0 "verify takes the option --namespace" verify --namespace 'oth"er'
has "verify --namespace examines the rows of all namespaces" err '^21 rows examined'
keep

# --- Inside of rows ---
if on postgres; then # so that damage can be written
    sql 'CREATE CAST (text AS json) WITHOUT FUNCTION; CREATE CAST (bytea AS text) WITHOUT FUNCTION'
    broken="'{\"n\":'::text::json"
    not_text="'\\xff41'::bytea::text"
else
    broken="'{\"n\":'"
    not_text="cast(x'ff41' AS text)"
fi
damage "UPDATE holdfast.events SET payload = $broken WHERE $position = 2"
damage "UPDATE holdfast.events SET key = 'k2' WHERE $position = 3"
damage "UPDATE holdfast.events SET type = $not_text WHERE $position = 5"
damage "UPDATE holdfast.events SET metadata = '[1]' WHERE $position = 4"
damage "UPDATE holdfast.copies SET payload = $broken"
damage "UPDATE holdfast.dead_letters SET story = '{}' WHERE resolved_at IS NULL AND position = 5"
damage "UPDATE holdfast.retries SET story = 'none' WHERE position = 1"
damage "UPDATE holdfast.subscriptions SET options = '{' WHERE name = 'idle'"
damage "UPDATE holdfast.subscriptions SET patterns = '{}' WHERE name = 'jobs'"
damage "UPDATE holdfast.schedules SET payload = $broken"
damage "UPDATE holdfast.delayed SET key = 'k2'"
examine "damage inside of rows"
names "a payload that is no JSON" json 'event at position 2: its payload is not valid JSON at byte'
names "a key that is not the one that was published" hash 'event at position 3: its hash is [0-9]+'
names "a type that is not UTF-8" text 'event at position 5: its type is not UTF-8 at byte 0'
names "metadata that is no object" json 'event at position 4: its metadata is not an object'
names "the payload of a copy that is no JSON" json \
    'copy of the event at position [45] for .*mailer.*payload is not valid'
names "the attempts of a dead letter that are no array" \
    json 'dead letter [12] of .*mailer.*: its story is not an array'
names "the attempts of a waiting delivery that are no JSON" \
    json 'delivery of position 1 .*orders.*: its story is not valid'
names "the options of a subscription that are no JSON" \
    json 'subscription .*idle.*: its options is not valid JSON'
names "the patterns of a subscription that are no array" \
    json 'subscription .*jobs.*: its patterns is not an array'
names "the payload of a schedule that is no JSON" \
    json 'schedule .*nightly.*: its payload is not valid'
names "another key of an event for later" hash 'event for later, number [0-9]+: its hash is'
for row in 'event at position [2345]:' 'copy of the event at position' 'event for later, number'; do
    names "a checksum that does not match: $row" checksum \
        "$row.*its checksum does not match"
done
findings "damage inside of rows" 17
exits 7 "verify without --json exits with 7 after findings" verify
has "verify prints a finding with what to do in a line" out \
    '^json: .*event at position 2: .* \(.*restore it from a backup\)$'
has "verify prints how many findings there are" err 'rows examined, 17 findings\.$'

# --- An event that looks whole and is another ---
restore
if on sqlite; then minute=60000000; else minute="interval '1 minute'"; fi
damage "UPDATE holdfast.events SET payload = '{\"n\":7}' WHERE $position = 1"
damage "UPDATE holdfast.events SET entered_at = entered_at + $minute WHERE $position = 2"
damage "UPDATE holdfast.events SET emitted_at = emitted_at + $minute WHERE $position = 3"
damage "UPDATE holdfast.events SET producer = 'me' WHERE $position = 4"
damage "UPDATE holdfast.events SET key_version = 1 WHERE $position = 5"
damage "UPDATE holdfast.events SET schedule_id = 'x' WHERE $position = 6"
damage "UPDATE holdfast.dead_letters SET payload = '{\"n\":7}'"
damage "UPDATE holdfast.copies SET metadata = '{}'"
damage "UPDATE holdfast.delayed SET payload = '1'"
examine "events that were changed and are still valid"
for n in 1 2 3 4 5 6; do
    names "the checksum of changed event $n" \
        checksum "event at position $n: its checksum does not match"
done
names "the checksum of a changed dead letter" \
    checksum 'dead letter [12] of .*mailer.*: its checksum'
names "the checksum of a changed copy" checksum 'copy of the event at position'
names "the checksum of a changed event for later" \
    checksum 'event for later, number [0-9]+: its checksum'
findings "events that were changed and are still valid" 10
exits 1 "tail of a damaged event is an error" tail --from start --limit 1
has "the error of tail names the damaged event" \
    err 'event at position 1 is damaged: its checksum does not match'
hf sub create late --on '*.new' --from start
exits 7 "work goes on past damaged events and exits with 7" work late --exec 'cat >>ran' \
    --until-empty --max-time 120s
is "work gets the events that are whole" "$(wc -l <ran)" 1
hf dlq list --reason corrupt --subscription late --json
is "damaged events become dead letters with reason corrupt" "$(wc -l <out)" 6
exits 0 "dlq retry takes dead letters of damaged events" dlq retry --subscription late --all
hf work late --exec 'cat >>ran' --until-empty --max-time 120s
is "damaged events that are retried are not delivered" "$(wc -l <ran)" 1
hf dlq list --reason corrupt --subscription late --json
is "damaged events that are retried are dead letters again" "$(wc -l <out)" 6

# --- Between rows ---
restore
of() { echo "(SELECT id FROM holdfast.subscriptions WHERE name = '$1')"; }
if on sqlite; then
    damage "UPDATE holdfast.partitions SET checkpoint = 1000 WHERE subscription_id = $(of mailer)"
else
    for side in 0 1; do
        damage "UPDATE holdfast.checkpoints_$side SET checkpoint = 1000
                WHERE subscription_id = $(of mailer)"
    done
fi
damage "UPDATE holdfast.subscriptions SET start = 5, partitions = 2 WHERE name = 'idle'"
damage "DELETE FROM holdfast.retries WHERE subscription_id = $(of orders) AND position = 1"
damage "UPDATE holdfast.retries SET kind = 9 WHERE subscription_id = $(of mailer)"
damage "UPDATE holdfast.retries SET unit_first = 1 WHERE subscription_id = $(of orders)
    AND position = 2"
damage "UPDATE holdfast.retries SET cause = 'boredom' WHERE subscription_id = $(of orders)
    AND position = 3"
damage "INSERT INTO holdfast.settled (subscription_id, partition, position)
        VALUES ($(of orders), 0, 1000)"
damage "INSERT INTO holdfast.settled (subscription_id, partition, position)
        SELECT subscription_id, (partition + 1) % 4, 3 FROM holdfast.retries
        WHERE subscription_id = $(of orders) AND position = 3"
damage "UPDATE holdfast.leases SET count = count + 1"
examine "damage between rows"
names "a checkpoint beyond the log" checkpoint \
    'mailer.*checkpoint is 1000, but the newest position is 7'
names "a checkpoint before the start of its subscription" \
    checkpoint 'idle.*checkpoint is 0, but it began after position 5'
names "a partition that is missing" partitions 'idle.*has 2 partitions, and rows for 1'
names "a held delivery that nothing releases" held 'orders.*position 2 is held'
names "a retry of a kind that means nothing" retry 'mailer.*is of kind 9'
names "a retry whose unit cannot be" retry \
    'orders.*position 2 failed in a unit that cannot be: . events from position 1 on'
names "a retry whose cause means nothing" \
    retry 'orders.*position 3 has the cause .*boredom.*means nothing'
names "a position that is settled before it is published" settled 'orders.*position 1000 is settled'
names "a settled position in a partition that is not the event's" \
    slice 'orders.*settled delivery of position 3 is in'
names "a lease whose positions cannot be read" lease 'jobs.*list of its positions is damaged'
findings "damage between rows" 10

# --- Unique keys and rates ---
restore
for n in 1 2 3 4; do hf publish job.new "$n" --unique "u$n" --unique-for 1h; done
hf publish later.on 1 --unique u5 --delay 1h
hf sub create limited --on 'job.*' --from start --mode shared --rate 100/s
hf claim limited --max 1
exits 0 "verify finds nothing wrong with unique keys and rates" verify
damage "UPDATE holdfast.uniques SET position = position + 1 WHERE key = 'u1'"
damage "UPDATE holdfast.uniques SET position = 1000 WHERE key = 'u2'"
damage "UPDATE holdfast.uniques SET sweep_at = until - $minute WHERE key = 'u3'"
damage "UPDATE holdfast.rates SET empty_at = empty_at + 60 * $minute"
examine "damage of unique keys and rates"
names "a unique key with the position of another event" \
    unique 'default.*u1.*the event at position 9 is another one'
names "a unique key with a position beyond the log" \
    unique 'u2.*position 1000, but the newest position is 11'
names "a unique key that is removed too early" unique 'u3.*it is removed before its time is over'
names "a rate that was taken in the future" \
    rate 'limited.*its rate was taken at 20[0-9TZ:-]+, which has not come'
findings "damage of unique keys and rates" 4
can_claim() { hf claim limited --max 1; [ "$rc" -eq 0 ]; }
until_true 60 can_claim
is "a rate of the future does not stop the subscription" $? 0
exits 7 "verify runs after a claim with a rate of the future" verify
hasnt "the next claim corrects a rate of the future" out '^rate: '

# --- What has lost its event ---
restore
damage "DELETE FROM holdfast.events WHERE $position IN (2, 6)"
damage "DELETE FROM holdfast.retries WHERE subscription_id = $(of mailer)"
if on sqlite; then
    damage "UPDATE holdfast.events SET id = x'00' WHERE $position = 7"
    damage "UPDATE holdfast.events SET place = 1 << 44 WHERE $position = 3" # whose delivery waits
else
    damage "UPDATE holdfast.events SET position = 5 WHERE position = 4"
    damage "SELECT setval(sequence, 3) FROM holdfast.namespaces WHERE name = 'default'"
    damage "UPDATE holdfast.namespaces SET months_to = months_to + interval '2 months'
            WHERE name = 'default'"
    for side in 0 1; do
        damage "DELETE FROM holdfast.checkpoints_$side WHERE subscription_id = $(of jobs)"
    done
    damage "UPDATE holdfast.leases SET positions = '{[7,9)}'"
fi
examine "rows that have lost their event"
names "a waiting delivery whose event is gone" \
    retry 'orders.*position 2 waits, but the event is neither'
names "a leased position whose event is gone" lease 'jobs.*the event at position [68] is neither'
names "a copy that belongs to no delivery" copy 'mailer.*belongs to no delivery'
if on sqlite; then
    names "an event whose id is not 16 bytes" id 'event at position 7: its id is not 16 bytes'
    names "an event at position 0" position 'event at position 0: positions begin at 1'
else
    names "two events at one position" position 'event at position 5: another event has the same'
    names "a sequence that would give positions again" tip \
        'has position 7, but the newest one .* is 3'
    names "a month whose table is missing" month \
        'table holdfast_private\.events_[0-9]+_[0-9]{6} of the log is missing'
    names "a partition without a checkpoint" checkpoint 'jobs.*partition 0: it has no checkpoint'
    # Two months, and all checkpoints are beyond such a sequence.
    all=$(grep -c '^{"name":' out)
    grep -vE '"name":"(checkpoint","value":"[^}]*newest|month)' out >rest
    mv rest out
fi
names "an event at another position" checksum "event at position [05]: its checksum"
if on sqlite; then
    names "two missing positions in a row" lost 'default.*events at positions 2 to 3 are missing'
    names "one missing position by itself" lost 'default.*events at positions 6 to 6 are missing'
    findings "rows that have lost their event" 9
else
    findings "rows that have lost their event" 7 "$all"
fi

# --- An id that is there twice ---
restore
if on sqlite; then
    damage "DROP INDEX holdfast_events_by_id"
    damage "INSERT INTO holdfast.events SELECT place + 7, id, type, hash, checksum, emitted_at,
        entered_at, key_version,
                schedule_id, producer, key, tenant, metadata, payload FROM holdfast.events
                WHERE place = (1 << 44) + 1"
else
    damage "INSERT INTO holdfast.events SELECT position + 7, hash, checksum, emitted_at, entered_at,
        guard_at + interval '1 ms',
                id, namespace_id, type, key_version, schedule_id, producer, key, tenant, metadata,
                payload
            FROM holdfast.events WHERE namespace_id = 1 AND position = 1"
fi
examine "an id that is stored twice"
names "the id that is stored twice" doubled 'default.*id [0-9a-f-]+ is stored 2 times'

# --- The schema ---
if on sqlite; then
    restore
    damage "CREATE TABLE mine (a); CREATE INDEX mine_a ON mine (a);
            CREATE VIEW holdfast AS SELECT count(*) FROM holdfast_events;
            CREATE TRIGGER mine_too AFTER INSERT ON mine BEGIN SELECT 1; END"
    exits 0 "verify ignores what the application has in the same file" verify
    damage "DROP INDEX holdfast_events_by_id;
        CREATE INDEX holdfast_events_by_id ON holdfast_events (id)"
    damage "DROP INDEX holdfast_retries_by_lane"
    damage "CREATE INDEX fast ON holdfast_events (type); CREATE VIEW HOLDFAST_more AS SELECT 1"
    damage "CREATE TRIGGER audit AFTER INSERT ON holdfast_events BEGIN SELECT 1; END"
    damage "DROP TRIGGER holdfast_events_forgotten"
    damage "ALTER TABLE holdfast_keys ADD COLUMN mine TEXT"
    damage "ALTER TABLE holdfast_copies RENAME TO away; CREATE VIEW holdfast_copies AS SELECT *
        FROM away"
    damage "ALTER TABLE holdfast_settled RENAME COLUMN position TO place"
    damage "DROP TABLE holdfast_past_nodes"
    examine "a schema that is not ours"
    names "an index that is not unique any more" schema \
        "index holdfast_events_by_id on .* is not as .* it has 'index.*' where 'unique index"
    names "an index that is missing" schema \
        'index holdfast_retries_by_lane on holdfast_retries is missing'
    names "an index of another program" schema 'index fast on holdfast_events does not belong'
    names "a view of another program" schema 'view HOLDFAST_more does not belong'
    names "a trigger of another program" schema 'trigger audit on holdfast_events does not belong'
    names "a trigger that is missing" schema 'trigger holdfast_events_forgotten on .* is missing'
    names "a table with a column too many" schema "table holdfast_keys is not .* it has 'mine text"
    names "a view in the place of a table" \
        schema 'view holdfast_copies is in the place of the table'
    names "a column that was renamed" schema 'table holdfast_settled is not .*place'
    names "a table that is missing" schema 'table holdfast_past_nodes is missing'
    names "the index of a missing table" schema 'index holdfast_past_nodes_ended .*is missing'
    names "a table that cannot be read without its column" unreadable 'settled: .*no such column'
    names "a second check that cannot read the renamed column" unreadable 'slice: .*no such column'
    findings "a schema that is not ours" 13
    exits 7 "verify without --json exits with 7 for a foreign schema" verify
    has "verify prints a finding of the schema with what to do in a line" out \
        '^schema: index fast on .* \(.*remove what does not belong'

    restore # a table that a person has made again is as good
    sql ".schema holdfast_keys" |
        sed 's/holdfast_keys/"HOLDFAST_Keys" -- mine\n/; s/TEXT/text  /' >again.sql
    damage "DROP TABLE holdfast_keys" && damage "$(cat again.sql)"
    exits 0 "verify accepts a table whose statement is written in another way" verify

    # Migrating ends with the same comparison.
    version=$(sql "SELECT value FROM holdfast_meta WHERE name = 'schema_version'")
    fresh
    damage "CREATE TABLE holdfast_mine (a)"
    exits 1 "publish is refused while a foreign table has a name of ours" publish a.b '{}'
    has "the refusal of publish names the foreign table" \
        err 'table holdfast_mine does not belong to Holdfast\. .*remove'
    damage "ALTER TABLE holdfast_mine RENAME TO mine"
    exits 0 "publish succeeds after the foreign table is renamed" publish a.b '{}'
    is "publish made the schema of this version beside a foreign table" \
        "$(sql "SELECT value FROM holdfast_meta WHERE name = 'schema_version'")" "$version"
    exits 0 "verify finds nothing wrong beside a foreign table" verify
else
    restore
    month=$(sql "SELECT min(relid::regclass::text) FROM pg_partition_tree('holdfast.events')
            WHERE isleaf")
    damage "CREATE TABLE public.mine (a integer); CREATE VIEW public.look AS SELECT count(*)
        FROM holdfast.events"
    exits 0 "verify ignores what the application has in other schemas" verify
    damage "DROP INDEX holdfast.retries_by_lane"
    damage "DROP INDEX ${month}_id; CREATE INDEX fast ON $month (type)"
    damage "CREATE TABLE holdfast.mine (a integer); CREATE VIEW holdfast.look AS SELECT 1 AS a"
    damage "CREATE FUNCTION public.audit() RETURNS trigger
        LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    damage "CREATE TRIGGER audit BEFORE INSERT ON $month FOR EACH ROW
        EXECUTE FUNCTION public.audit()"
    damage "CREATE RULE off AS ON DELETE TO holdfast.keys DO INSTEAD NOTHING"
    damage "ALTER TABLE holdfast.schedules DISABLE TRIGGER schedule_changed"
    damage "DROP TRIGGER subscription_check ON holdfast.subscriptions"
    damage "ALTER TABLE holdfast.settled ALTER position SET DEFAULT 7"
    damage "ALTER TABLE holdfast.partitions DROP CONSTRAINT partitions_subscription_id_fkey"
    damage "DROP POLICY see ON holdfast.copies;
        ALTER TABLE holdfast.keys DISABLE ROW LEVEL SECURITY"
    damage "CREATE OR REPLACE FUNCTION holdfast.metadata_fault(p_metadata json, p_bytes_max integer)
        RETURNS text
            LANGUAGE sql AS 'SELECT NULL::text'"
    damage "DROP FUNCTION \"holdfast\".claim_1"
    damage "DO \$\$ BEGIN EXECUTE replace(replace(\"holdfast\".append_source(), '{namespace}', '1'),
        '23 hours', '9 hours'); END \$\$"
    damage "ALTER TABLE holdfast.past_nodes RENAME TO away;
        CREATE VIEW holdfast.past_nodes AS SELECT * FROM holdfast.away"
    examine "a schema that is not ours"
    names "an index that is missing" schema 'index retries_by_lane on retries is missing'
    names "an index of a month that is missing" schema \
        'the index \(unique id, guard_at\) of table events_1_[0-9]+ is missing'
    names "an index of another program" schema 'index fast on events_1_[0-9]+ does not belong'
    names "a table of another program" schema 'table mine does not belong to Holdfast'
    names "a view of another program" schema 'view look does not belong'
    names "a trigger of another program" schema 'trigger audit on events_1_[0-9]+ does not belong'
    names "a rule of another program" schema 'rule off on keys does not belong'
    names "a trigger that is disabled" schema 'trigger schedule_changed on schedules is not as'
    names "a trigger that is missing" schema \
        'trigger subscription_check on subscriptions is missing'
    names "a table with another default" schema 'table settled is not as'
    names "a constraint that is missing" schema \
        'constraint partitions_subscription_id_fkey on partitions is missing'
    names "a policy that is missing" schema 'policy see on copies is missing'
    names "a table whose policies are off" schema 'table keys is not as'
    names "a function that was changed" schema \
        'function metadata_fault\(.*\) is not as this program made it'
    names "a function of a namespace that is missing" schema 'function claim_1 is missing'
    names "a function of a namespace that was changed" \
        schema 'function append_1 is not as this program made it'
    names "a view in the place of a table" schema 'view past_nodes does not belong'
    names "the table that a view replaces" schema 'table past_nodes is missing'
    exits 7 "verify without --json exits with 7 for a foreign schema" verify
    has "verify prints a finding of the schema with what to do in a line" \
        out '^schema: table mine .* \(.*remove what does not belong'

    # A schema that is not what was recorded is not migrated.
    restore
    damage "DROP INDEX holdfast.retries_by_lane; UPDATE holdfast.meta SET value = '1'
        WHERE name = 'schema_version'"
    exits 1 "migrate refuses a schema that is not as recorded" migrate
    has "the refusal of migrate names the missing index" \
        err 'index retries_by_lane on retries is missing\. Make it'
fi

# --- Gapless ---
restore
hf namespace create exact --gapless
for n in 1 2 3 4; do hf publish a.b "$n" --namespace exact; done
damage "DELETE FROM holdfast.events WHERE $position = 2
    AND payload$(on postgres && echo ::text) = '2'"
damage "DELETE FROM holdfast.events WHERE $position = 4
    AND payload$(on postgres && echo ::text) = '4'"
examine "a lost event of a gapless namespace"
names "a lost position in the middle" lost 'exact.*events at positions 2 to 2 are missing'
names "a lost position at the end" lost 'exact.*events at positions 4 to 4 are missing'
damage "DELETE FROM holdfast.events WHERE $position = 1
    AND payload$(on postgres && echo ::text) = '1'"
examine "a lost first event of a gapless namespace"
names "lost positions at the beginning" lost 'exact.*events at positions 1 to 2 are missing'
damage "DELETE FROM holdfast.events WHERE $position = 3
    AND payload$(on postgres && echo ::text) = '3'"
examine "a gapless namespace without any event"
names "all lost positions of a gapless namespace" \
    lost 'exact.*events at positions 1 to 4 are missing'
if on sqlite; then # on PostgreSQL retention takes months, with other tests
    hf namespace create small --retain-bytes 1
    for n in 1 2 3; do hf publish a.b "$n" --namespace small; done
    hf retention run --namespace small
    exits 0 "tail succeeds after retention has deleted all events" tail --namespace small --json
    is "setup: retention has deleted all events" "$(wc -l <out)" 0
    hf verify --json
    hasnt "verify does not take what retention deleted for lost" out 'small'
    hf publish a.b 4 --namespace small
    hf verify --json
    hasnt "verify does not take what retention deleted for lost before a newer event" out 'small'
fi

# --- What is being removed ---
restore
if on sqlite; then since=1; else since='now()'; fi
damage "DELETE FROM holdfast.partitions WHERE subscription_id = $(of leaving)"
exits 7 "verify finds partitions that are gone" verify
damage "UPDATE holdfast.namespaces SET removing_at = $since WHERE name = 'oth\"er'"
exits 0 "verify ignores missing partitions of a namespace that is being removed" verify

# --- What belongs to nothing ---
restore
on sqlite ||
    damage 'ALTER TABLE holdfast.partitions DROP CONSTRAINT partitions_subscription_id_fkey'
for table in partitions leases retries copies; do
    damage "UPDATE holdfast.$table SET subscription_id = subscription_id + 1000"
done
damage "INSERT INTO holdfast.settled (subscription_id, partition, position) VALUES (1000, 0, 1)"
damage "UPDATE holdfast.subscriptions SET namespace_id = 99 WHERE name = 'idle'"
damage "UPDATE holdfast.dead_letters SET namespace_id = 99 WHERE position = 5"
damage "UPDATE holdfast.delayed SET namespace_id = 99"
damage "UPDATE holdfast.schedules SET namespace_id = 99"
if on sqlite; then at=1; else at='now()'; fi
damage "INSERT INTO holdfast.schedule_runs (schedule_id, planned_at, fired_at, kind)
        SELECT id, $at, $at, 1 FROM holdfast.delayed"
if on sqlite; then
    damage "UPDATE holdfast.events SET place = place + (98 << 44) WHERE $position = 7"
    damage "INSERT INTO holdfast.members (subscription_id, joined, token) VALUES (1000, 1, x'00')"
    damage "INSERT INTO holdfast.keys (namespace_id, key, version) VALUES (99, 'k', 1)"
else
    damage "INSERT INTO holdfast.keys (namespace_id, digest, version, key)
            VALUES (99, 'k', 1, 'k')"
fi
examine "rows that belong to nothing"
for table in partitions leases retries copies settled; do
    names "$table without their subscription" orphan \
        "rows of $table belong to subscription 100[0-9], which does not exist"
done
names "firings without their schedule" orphan \
    '1 rows of schedule_runs belong to a schedule that does not exist'
for table in subscriptions dead_letters keys schedules delayed; do
    names "$table without their namespace" orphan \
        "1 rows of $table belong to namespace 99, which does not exist"
done
if on sqlite; then
    names "members without their subscription" orphan 'rows of members belong to subscription 1000'
    names "events without their namespace" orphan 'events in the log belong to namespace 99'
fi

# --- Many ---
restore
damage "INSERT INTO holdfast.settled (subscription_id, partition, position)
        WITH RECURSIVE n (i) AS (SELECT 1001 UNION ALL SELECT i + 1 FROM n WHERE i < 1250)
        SELECT $(of orders), 0, i FROM n"
examine "damage in 250 rows"
findings "the first hundred of 250 damaged rows" 101
names "the limit of 100 findings" settled 'more than 100 findings'

# --- The file ---
if on sqlite; then
    restore
    bytes=$(sql 'PRAGMA page_size')
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name = 'holdfast_events_by_id'")
    dd if=/dev/zero of=bus.db bs="$bytes" seek=$((page - 1)) count=1 conv=notrunc 2>/dev/null
    examine "a page of the file that was lost"
    names "a lost page as damage of the file" file .
    restore
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name = 'holdfast_dead_letters'")
    dd if=/dev/zero of=bus.db bs="$bytes" seek=$((page - 1)) count=1 conv=notrunc 2>/dev/null
    examine "a table that cannot be read"
    names "dead letters that cannot be read" unreadable 'dead letters: '
fi

# --- Nothing is left of it ---
restore
exits 0 "verify finds nothing wrong after the damage is undone" verify
has "verify prints 0 findings after the damage is undone" err 'rows examined, 0 findings\.$'
# --- What is kept of deliveries that failed first, and the index on types ---
fresh
hf sub create s --on '**' --mode shared --from start --retry-base 0ms
for n in 1 2 3; do hf publish "t.$n" "$n"; done
hf claim s --max 1 --json
hf nack s "$(field out 1 '$.lease')" --error 'no stock'
hf claim s --max 1 --json
hf ack s "$(field out 1 '$.lease')"
hf namespace set default --type-index on
exits 0 "verify finds nothing wrong with an outcome and an index on types" verify
has "verify examines the rows of outcomes" err '^5 rows examined, 0 findings\.$'
damage "UPDATE holdfast.outcomes SET story = '{['"
if on sqlite; then
    damage "DELETE FROM holdfast.types WHERE position = 2"
    damage "INSERT INTO holdfast.types VALUES (1, 't.9', 3)"
fi
examine "damage to outcomes and the index on types"
names "the attempts of an outcome that are no JSON" json \
    'delivery of position 1 that failed before .*: its story is not valid'
if on sqlite; then
    names "an event that the index on types lacks" \
        types 'default.*: the index on types lacks .* position 2'
    names "an event that the index on types has and the log has not" \
        types 'index on types has .*t\.9.* at position 3, '
fi
findings "damage to outcomes and the index on types" "$(on sqlite && echo 3 || echo 1)"
if on sqlite; then
    hf namespace set default --type-index off
    hf namespace set default --type-index on
    hf verify --json
    hasnt "switching the index on types off and on repairs it as advised" out '"name":"types"'
fi
finish
