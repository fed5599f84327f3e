#!/usr/bin/env bash
# holdfast.import_table: an existing table moves into the log, with positions in a stated order.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

# A table whose rows lie in another order than they are to be numbered: written backwards, then
# every third one updated, which moves it to the end.
sql "CREATE TABLE old (event_id uuid PRIMARY KEY, created timestamptz, nr integer, kind text,
    data jsonb, stream text, version bigint, who text);
     INSERT INTO old SELECT md5(i::text)::uuid, '2020-01-01 00:00:00+00'::timestamptz + i / 2 *
         interval '1 s', i, 'old.' || i % 3, json_build_object('i', i),
         's' || i % 10, i / 10 + 1, 'me' FROM generate_series(1000, 1, -1) i;
     UPDATE old SET who = 'you' WHERE nr % 3 = 0" >/dev/null
columns="'{\"id\": \"event_id\", \"type\": \"kind\", \"payload\": \"data\", \"key\": \"stream\",
    \"emitted_at\": \"created\"}'"
import="SELECT imported, skipped, first_position, last_position
    FROM holdfast.import_table('old', 'default', '{created,nr}', $columns)"
in_order="SELECT count(*), bool_and(position = rank) FROM (
    SELECT e.position, row_number() OVER (ORDER BY o.created, o.nr) AS rank
        FROM holdfast_private.events_1 e JOIN old o ON o.event_id = e.id) r"

is "setup: the rows of the table lie in another order than they are numbered" "SELECT count(*) > 500
    FROM (SELECT lag(nr) OVER (ORDER BY ctid) > nr AS down FROM old) o WHERE down" t

# ---- Refused ------------------------------------------------------------------------------------

fails "import_table refuses an order in which two rows are equal" \
    "SELECT holdfast.import_table('old', 'default', '{created}', $columns)" \
    "HF001: order_by does not tell the rows of public.old apart: row * (id *) has the same place*"
fails "import_table refuses an empty order" \
    "SELECT holdfast.import_table('old', 'default', '{}', $columns)" \
    "HF001: order_by names no column: say in which order the rows are to be numbered"
fails "import_table refuses an order by a column that does not exist" \
    "SELECT holdfast.import_table('old', 'default',
    '{nr,\"x\\\" desc\"}', $columns)" "HF001: order_by: public.old has no column x\" desc"
fails "import_table refuses a member that events do not have" \
    "SELECT holdfast.import_table('old', 'default', '{nr}',
    '{\"id\": \"event_id\", \"type\": \"kind\", \"colour\": \"who\"}')" \
    "HF001: columns has the unknown member colour"
fails "import_table refuses a mapping to a column that does not exist" \
    "SELECT holdfast.import_table('old', 'default', '{nr}',
    '{\"id\": \"event_id\", \"type\": \"none\"}')" "HF001: columns: public.old has no column none"
fails "import_table refuses a mapping without an id" \
    "SELECT holdfast.import_table('old', 'default', '{nr}', '{\"type\": \"kind\"}')" \
    "HF001: columns says nothing of id, which every event needs"
fails "import_table into an unknown namespace is not found" \
    "SELECT holdfast.import_table('old', 'nowhere', '{nr}', $columns)" \
    "HF003: there is no namespace nowhere"
fails "import_table refuses the target of a copy" \
    "BEGIN; UPDATE holdfast_private.namespaces SET copying
    = 'here now' WHERE id = 1; SELECT holdfast.import_table('old', 'default', '{nr}', $columns)" \
    "HF011: namespace default is a copy that is not complete"
fails "import_table refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT holdfast.import_table('old', 'default', '{nr}', $columns)" \
    "HF002: import_table needs a transaction that is READ COMMITTED, not REPEATABLE READ"
fails "import_table names the row that is no event" \
    "BEGIN; UPDATE old SET kind = 'a..b' WHERE nr = 7;
    SELECT holdfast.import_table('old', 'default', '{nr}', $columns)" \
    "HF001: row 7 (id 8f14e45f-ceea-167a-5a36-dedd4bea2543) of public.old: type has an empty seg*"
fails "import_table refuses NULL in the column of the order" \
    "BEGIN; UPDATE old SET nr = NULL WHERE nr = 7;
    SELECT holdfast.import_table('old', 'default', '{nr}', $columns)" \
    "HF001: order_by does not tell the rows of public.old apart: row 1000 (id 8f14e45f-*) has NULL*"
fails "import_table refuses an id that occurs twice" \
    "BEGIN; ALTER TABLE old DROP CONSTRAINT old_pkey; UPDATE old SET event_id = md5('7')::uuid
    WHERE nr = 8; SELECT holdfast.import_table('old', 'default', '{nr}', $columns)" \
    "HF001: id 8f14e45f-ceea-167a-5a36-dedd4bea2543 occurs 2 times in public.old"
is "refused imports have stored nothing" "SELECT count(*) FROM holdfast_private.events;
    SELECT count(*) FROM holdfast_private.event_ids" "0 0"

# ---- Imported -----------------------------------------------------------------------------------

is "an import that is rolled back has stored nothing" \
    "BEGIN; $import; ROLLBACK; SELECT count(*) FROM holdfast_private.events" \
    "1000|0|1|1000 0"
sql "SELECT setval('holdfast_private.events_1_position', 1, false)" >/dev/null \
    # what the rollback drew, so that positions are ranks
is "import_table gives positions in the order that was stated" \
    "$import; $in_order" "1000|0|1|1000 1000|t"
is "an imported event has type, payload, key, time and hash of its row" \
    "SELECT e.type = o.kind AND e.payload::jsonb = o.data AND
    e.key = o.stream AND e.emitted_at = o.created AND e.hash = holdfast_private.hash_of(o.stream)
    FROM holdfast_private.events_1 e JOIN old o ON o.event_id = e.id WHERE o.nr = 500" t
is "an imported event enters the log now, whenever it was emitted" \
    "SELECT bool_and(entered_at > now() - interval '1 hour') FROM holdfast_private.events_1" t
is "a second import skips all rows" \
    "$import; SELECT count(*) FROM holdfast_private.events" "0|1000|| 1000"
is "publishing an imported id is a duplicate" \
    "SELECT position, duplicate FROM holdfast.publish('default', 'x', id => md5('1')::uuid)" "1|t"
is "a second import takes rows that were added behind the others" \
    "INSERT INTO old SELECT md5(i::text)::uuid, now(), i, 'late', '1',
    's', 1 FROM generate_series(1001, 1003) i; $import" "3|1000|1001|1003"
fails "import_table refuses a new row that comes before an imported one" \
    "INSERT INTO old VALUES (gen_random_uuid(), '2019-01-01', 0, 'early', '1'); $import" \
    "HF004: row 1 of public.old is new but comes before row 1004, which is in the log already"
is "a subscription gets imported events in the order that was stated" \
    "SELECT FROM holdfast.change_subscription_put(1, 's', '[\"old.*\"]', '{}', 2, 1, 0, -1, now());
    SELECT count(*), bool_and((payload ->> 'i')::integer = position)
        FROM holdfast.claim('default', 's', 2000)" "1000|t"

schema
sql "CREATE TABLE \"Old Events\" (\"Id\" text, \"order by\" integer UNIQUE, t text, p text, k text,
    v bigint);
     INSERT INTO \"Old Events\" SELECT
         holdfast_private.new_id(now() - (i % 40) * interval '1 hour')::text, i, 'x', '{ \"i\":  '
         || i || '}', 'k' || i % 2, (i + 1) / 2 FROM generate_series(1, 100) i" >/dev/null
is "import_table takes names with quotes, a descending order and payloads as text" "SELECT imported,
    last_position FROM holdfast.import_table('\"Old Events\"', 'default', '{order by desc}',
    '{\"id\": \"Id\", \"type\": \"t\", \"payload\": \"p\", \"key\": \"k\",
      \"key_version\": \"v\"}');
    SELECT bool_and(payload::text = '{ \"i\":  ' || 101 - position || '}')
        FROM holdfast_private.events_1" "100|100 t"
is "all imported ids are duplicates, guarded by the log or by the list" \
    "SELECT count(*) FROM holdfast_private.event_ids;
    SELECT count(*), bool_and(p.duplicate) FROM \"Old Events\" o,
        holdfast.publish('default', 'y', id => o.\"Id\"::uuid) p" "34 100|t"
is "versions of keys go on after an import" "SELECT key_version
    FROM holdfast.publish('default', 'x', key => 'k0', expected_version => 50)" 51
sql "SELECT FROM holdfast_private.namespace_put('g', true);
    SELECT FROM holdfast.publish('g', 'x')" >/dev/null
is "import_table into a gapless namespace leaves no gap" \
    "SELECT imported, first_position, last_position FROM holdfast.import_table('\"Old Events\"',
    'g', '{order by}', '{\"id\": \"Id\", \"type\": \"t\"}');
    SELECT position FROM holdfast.publish('g', 'x')" "100|2|101 102"

# ---- At the same time ---------------------------------------------------------------------------

open a
open b
ask a "BEGIN; INSERT INTO \"Old Events\" VALUES ('$(sql "SELECT gen_random_uuid()")', 101, 'x',
    '1')" >/dev/null
tell b "SELECT imported, skipped FROM holdfast.import_table('\"Old Events\"', 'default',
    '{order by}', '{\"id\": \"Id\", \"type\": \"t\"}')"
ok "import_table waits for transactions that write to the table" blocked b
ask a "COMMIT" >/dev/null
hears "import_table takes what the other transaction wrote" b "1|100"
ask a "BEGIN; SELECT FROM holdfast.import_table('\"Old Events\"', 'default', '{order by}',
    '{\"id\": \"Id\", \"type\": \"t\"}')" >/dev/null
tell b "INSERT INTO \"Old Events\" VALUES ('x', 102)"
ok "no session writes to the table until the import has ended" blocked b
asks "setup: the import is committed" a "COMMIT" ""
hears "a session writes to the table after the import has ended" b ""

# ---- Many ---------------------------------------------------------------------------------------

rows=${IMPORT_ROWS:-50000}
schema
sql "CREATE TABLE big AS SELECT gen_random_uuid() AS id, i AS n, 'big' AS type,
    json_build_object('i', i, 'text', repeat('x', 60)) AS payload, 'k' || i % 1000 AS key
     FROM generate_series(1, $rows) i ORDER BY random()" >/dev/null
begin=${EPOCHREALTIME/./}
is "import_table imports $rows rows in order" \
    "SELECT imported, last_position FROM holdfast.import_table('big', 'default', '{n}',
    '{\"id\": \"id\", \"type\": \"type\", \"payload\": \"payload\", \"key\": \"key\"}');
    SELECT bool_and(b.n = e.position) FROM big b JOIN holdfast_private.events_1 e
        USING (id)" "$rows|$rows t"
echo "# $rows rows in $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
done_testing
