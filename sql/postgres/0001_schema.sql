-- The first schema: one append-only log, cursors, and rows only for exceptions.
--
-- Everything lives in the schema `holdfast`. Names of relations are built from the integer id of a
-- namespace only, never from its name. Ids and tokens are uuid, times timestamptz, payload and
-- metadata json (not jsonb: bytes come back as they were published). Text that only C reads
-- (patterns, options, stories) is text.
--
-- What is written often is never UPDATEd or DELETEd, because dead rows cannot go while any session
-- of the cluster holds an old snapshot, and whoever searches must step over them: events are
-- inserted, checkpoints and cursors are appended to a journal (below).

CREATE SCHEMA IF NOT EXISTS holdfast;

DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database has encoding %; Holdfast needs UTF8',
            current_setting('server_encoding') USING ERRCODE = 'HF012';
    END IF;
END
$$;

CREATE TABLE holdfast.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- ---- The log ------------------------------------------------------------------------------------

CREATE SEQUENCE holdfast.namespace_ids AS integer;

-- sequence gives the positions. sleep is a flag that needs no row: see holdfast.sleep. months_from,
-- months_to: the log has all months between them, so that publishing need not look for a month.
-- ids_until: the largest time inside an id that was about a day or more ahead of the clock when it was
-- published (see 0002_publish.sql).
CREATE TABLE holdfast.namespaces (
    id          integer PRIMARY KEY,
    gapless     boolean NOT NULL DEFAULT false,
    sequence    regclass NOT NULL,
    sleep       regclass NOT NULL,
    months_from timestamptz NOT NULL DEFAULT 'infinity',
    months_to   timestamptz NOT NULL DEFAULT '-infinity',
    ids_until   timestamptz NOT NULL DEFAULT '-infinity',
    created_at  timestamptz NOT NULL,
    name        text COLLATE "C" NOT NULL UNIQUE,
    metadata    json
) WITH (fillfactor = 50);

-- The newest position of gapless namespaces, which do not use their sequence: the row is locked from
-- the first publish of a transaction to its end.
CREATE TABLE holdfast.heads (
    namespace_id integer PRIMARY KEY,
    head         bigint NOT NULL
) WITH (fillfactor = 50);

-- The log: by namespace, then by month of entering it (entered_at, UTC). Each namespace has the
-- table events_<id>, each month of it events_<id>_<yyyymm> (holdfast.ensure_month). There is no
-- default partition. A month has two indexes, and nothing else is paid for: unique (id, entered_at)
-- and (position).
CREATE TABLE holdfast.events (
    position     bigint NOT NULL,
    hash         bigint NOT NULL,
    emitted_at   timestamptz NOT NULL,
    entered_at   timestamptz NOT NULL,
    id           uuid NOT NULL,
    namespace_id integer NOT NULL,
    type         text COLLATE "C" NOT NULL,
    key_version  bigint,
    schedule_id  text,
    producer     text,
    key          text COLLATE "C",
    tenant       text COLLATE "C",
    metadata     json,
    payload      json NOT NULL
) PARTITION BY LIST (namespace_id);

-- Ids that the unique index of one month cannot guard: those that are not version 7, or whose time
-- is a day (minus one hour) or more away from the clock.
CREATE TABLE holdfast.event_ids (
    namespace_id integer NOT NULL,
    id           uuid NOT NULL,
    position     bigint NOT NULL,
    entered_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, id)
);

-- Versions of keys, touched only by publishes that expect a version. A key may be longer than an
-- index entry, so the index has its digest.
CREATE TABLE holdfast.keys (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL,                -- sha256 of the key
    version      bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, digest)
) WITH (fillfactor = 80);

-- ---- Subscriptions ------------------------------------------------------------------------------

-- The id of a removed subscription is never given again, so whoever still holds it can do no harm.
CREATE TABLE holdfast.subscriptions (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id  integer NOT NULL,
    name          text COLLATE "C" NOT NULL,
    patterns      text NOT NULL,                -- JSON array
    options       text NOT NULL,                -- JSON object, the bus's business
    mode          smallint NOT NULL,            -- 1 ordered, 2 shared
    partitions    integer NOT NULL,
    generation    bigint NOT NULL DEFAULT 1,    -- rises with every change of this row
    start         bigint NOT NULL,              -- it began, or was last sought, after this position
    paused_at     timestamptz,
    paused_by     text,
    paused_reason text,
    breaker       text,
    created_at    timestamptz NOT NULL,
    UNIQUE (namespace_id, name)
);

-- Ownership. An ordered subscription has a row per partition; a shared one has a single row, which
-- nobody owns: claims lock it. Rows change only when the owner changes or somebody seeks; settles
-- lock them (which makes no dead rows).
CREATE TABLE holdfast.partitions (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    epoch           bigint NOT NULL DEFAULT 0,
    owner           uuid,                       -- token of the owning process, NULL: nobody
    owner_name      text,
    PRIMARY KEY (subscription_id, partition)
) WITH (fillfactor = 50);
CREATE INDEX partitions_by_owner ON holdfast.partitions (owner) WHERE owner IS NOT NULL;

-- A range of positions that were not visible when a claim passed them: an open transaction may still
-- fill them. witnesses: the virtual transactions that held the lock of the namespace's sequence at
-- probed_at, after the range was seen; NULL: nobody has looked yet. server_start: of the server that
-- they ran on. holdfast.change_claim says how such a range comes to its end.
CREATE TYPE holdfast.hole AS (
    low          bigint,
    high         bigint,
    since        timestamptz,
    probed_at    timestamptz,
    server_start timestamptz,
    witnesses    text[]
);

-- The journal: progress is appended, and for each partition the row with the highest seq in both
-- tables counts. holdfast.rotate moves the newest rows to the other side and truncates this one.
--   A shared subscription's checkpoint is its cursor: handed out up to here, but for the holes. turn:
-- its last claim handed out a retry of kind 5, so it is the others' turn. leases_from, kept_from: no
-- lease (that is not kept; that is kept) ends before, so that claims need not step over the remains
-- of those that did.
CREATE SEQUENCE holdfast.journal_seq AS bigint;
CREATE TABLE holdfast.checkpoints_0 (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    seq             bigint NOT NULL,
    checkpoint      bigint NOT NULL,
    checkpoint_at   timestamptz,
    last_event_id   uuid,
    turn            boolean NOT NULL DEFAULT false,
    leases_from     timestamptz,
    kept_from       timestamptz,
    holes           holdfast.hole[]
) WITH (autovacuum_enabled = false);
CREATE TABLE holdfast.checkpoints_1 (LIKE holdfast.checkpoints_0 INCLUDING ALL)
    WITH (autovacuum_enabled = false);
CREATE UNIQUE INDEX checkpoints_0_newest
    ON holdfast.checkpoints_0 (subscription_id, partition, seq);
CREATE UNIQUE INDEX checkpoints_1_newest
    ON holdfast.checkpoints_1 (subscription_id, partition, seq);

-- Which side is written to.
CREATE TABLE holdfast.turns (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    side smallint NOT NULL CHECK (side IN (0, 1))
);
INSERT INTO holdfast.turns (side) VALUES (0);

-- The newest row of each partition. To be read in a transaction that is READ COMMITTED: TRUNCATE
-- empties a side for older snapshots too, and a partition without a row means just that: read again.
CREATE VIEW holdfast.checkpoints AS
    SELECT p.subscription_id, p.partition, p.epoch, p.owner, p.owner_name,
           j.seq, j.checkpoint, j.checkpoint_at, j.last_event_id, j.turn, j.leases_from, j.kept_from,
           j.holes
    FROM holdfast.partitions p
    LEFT JOIN LATERAL (
        SELECT * FROM (
            (SELECT * FROM holdfast.checkpoints_0 c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1)
            UNION ALL
            (SELECT * FROM holdfast.checkpoints_1 c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1)) both_sides
        ORDER BY both_sides.seq DESC LIMIT 1) j ON true;

-- Leases of shared subscriptions, and what is left of those that ended without an answer or were
-- given back: then nobody knows the token, and `piece` says how the next claims get the rest.
CREATE TABLE holdfast.leases (
    token           uuid PRIMARY KEY,
    subscription_id bigint NOT NULL,
    expires_at      timestamptz NOT NULL,
    lease_ms        bigint NOT NULL,            -- as it was asked for: how long the owner may be still
    owner           uuid,                       -- process that claimed it; NULL: it does not matter
    bound           boolean NOT NULL,           -- it ends when the owner dies
    kept            boolean NOT NULL,           -- it does not expire while the owner is alive
    piece           integer,                    -- NULL: it is held; 0: free for any claim; n: suspect,
                                                -- handed out n at a time and apart from all others
    has_retries     boolean NOT NULL,           -- some of them have rows in retries
    count           integer NOT NULL,
    owner_name      text,                       -- node that claimed it
    positions       int8multirange NOT NULL     -- what is left
);
CREATE INDEX leases_by_expiry ON holdfast.leases (subscription_id, kept, expires_at);

-- Deliveries that wait. kind: 1 waiting for next_attempt_at, 2 held behind its lane, 3 blocked with
-- its lane until an operator decides, 4 leased (shared: handed out again), 5 waiting as 1 does, but
-- its last attempt was lost with its lease, so it is handed out alone (shared).
CREATE TABLE holdfast.retries (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    lane            bigint NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    last_retry_at   timestamptz,                -- when the last failed attempt was recorded
    partition       integer NOT NULL,           -- shared: 0
    attempts        integer NOT NULL,
    uncounted       integer NOT NULL DEFAULT 0,
    kind            smallint NOT NULL,
    story           text,                       -- JSON array of attempts
    PRIMARY KEY (subscription_id, position)
);
CREATE INDEX retries_by_kind
    ON holdfast.retries (subscription_id, partition, kind, next_attempt_at, position);
CREATE INDEX retries_by_lane
    ON holdfast.retries (subscription_id, partition, lane, position);

-- Events of retries that came from dead letters: the log may have lost them, and the payload may
-- have been edited. Such a row goes with its retry.
CREATE TABLE holdfast.copies (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    hash            bigint NOT NULL,
    emitted_at      timestamptz NOT NULL,
    entered_at      timestamptz NOT NULL,
    id              uuid NOT NULL,
    type            text COLLATE "C" NOT NULL,
    key_version     bigint,
    schedule_id     text,
    producer        text,
    key             text COLLATE "C",
    tenant          text COLLATE "C",
    metadata        json,
    payload         json NOT NULL,
    PRIMARY KEY (subscription_id, position)
);

-- Deliveries above a checkpoint that are done: transactional ones, and those that finished early.
CREATE TABLE holdfast.settled (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    position        bigint NOT NULL,
    PRIMARY KEY (subscription_id, partition, position)
);

-- Dead letters are complete copies and refer to nothing: the log may forget the event, and the
-- subscription may go.
CREATE TABLE holdfast.dead_letters (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position      bigint NOT NULL,
    hash          bigint NOT NULL,
    emitted_at    timestamptz NOT NULL,
    entered_at    timestamptz NOT NULL,
    failed_at     timestamptz NOT NULL,
    resolved_at   timestamptz,
    event_id      uuid NOT NULL,
    namespace_id  integer NOT NULL,
    attempts      integer NOT NULL,
    subscription  text COLLATE "C" NOT NULL,
    reason        text COLLATE "C" NOT NULL,
    type          text COLLATE "C" NOT NULL,
    key_version   bigint,
    schedule_id   text,
    producer      text,
    resolved_by   text,
    resolved_note text,
    error         text COLLATE "C",
    key           text COLLATE "C",
    tenant        text COLLATE "C",
    metadata      json,
    payload       json NOT NULL,
    story         text NOT NULL,
    UNIQUE (namespace_id, subscription, event_id)
);
-- Pages of a list are read in the order of ids: the open ones of a subscription, the open ones, all.
CREATE INDEX dead_letters_open_of
    ON holdfast.dead_letters (namespace_id, subscription, id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_open
    ON holdfast.dead_letters (namespace_id, id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_all
    ON holdfast.dead_letters (namespace_id, id);

-- Processes that have a namespace open. locked: it holds a session's advisory lock on
-- holdfast.process_key, so the lock's absence means death. renewals rises while the process runs;
-- whoever watches it stand still for a lease of its own clock calls the process frozen.
CREATE TABLE holdfast.processes (
    token        uuid PRIMARY KEY,
    renewals     bigint NOT NULL DEFAULT 0,
    started_at   timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    namespace_id integer NOT NULL,
    locked       boolean NOT NULL,
    node_name    text NOT NULL
) WITH (fillfactor = 50);

-- ---- Namespaces and months ----------------------------------------------------------------------

-- The name of the table of a month.
CREATE FUNCTION holdfast.month_table(p_namespace_id integer, p_at timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 'holdfast.events_' || $1::text || '_' || to_char($2 AT TIME ZONE 'UTC', 'YYYYMM') $$;

-- ensure_month: makes the month of p_at of a namespace's log, if it is not there. True: it was made
-- now.
--
-- A new table gets its indexes and is attached: ATTACH disturbs no publisher (CREATE ... PARTITION OF
-- would wait for every open transaction). Callers that come at the same moment wait for the first
-- one's transaction, by an advisory lock per namespace, then find the month.
-- It runs with the rights of the owner of the schema, since whoever publishes may need it; so only
-- months around the present can be made. HF001: p_at is more than 60 days away from the clock.
-- HF003: there is no such namespace. If the caller's transaction rolls back, the month is gone and
-- the next publisher makes it again.
CREATE FUNCTION holdfast.ensure_month(p_namespace_id integer, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = holdfast, pg_catalog, pg_temp
    SET datestyle = 'ISO, YMD' SET timezone = 'UTC'
AS $$
DECLARE
    v_table text := month_table(p_namespace_id, p_at);
    v_name  text := substr(v_table, 10);
    v_from  timestamptz := date_trunc('month', p_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    v_to    timestamptz := (date_trunc('month', p_at AT TIME ZONE 'UTC') + interval '1 month')
                           AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(v_table) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF p_at IS NULL OR abs(extract(epoch FROM p_at - clock_timestamp())) > 60 * 86400 THEN
        RAISE EXCEPTION 'months more than 60 days away are not made' USING ERRCODE = 'HF001';
    END IF;
    PERFORM pg_advisory_xact_lock(1215253604, p_namespace_id);
    -- Not to_regclass: this session may remember that there is none.
    PERFORM 1 FROM pg_class c
        WHERE c.relname = v_name AND c.relnamespace = 'holdfast'::regnamespace;
    IF FOUND THEN
        RETURN false;
    END IF;
    IF to_regclass('holdfast.events_' || p_namespace_id) IS NULL THEN
        RAISE EXCEPTION 'there is no namespace with id %', p_namespace_id USING ERRCODE = 'HF003';
    END IF;
    EXECUTE format('CREATE TABLE %I.%I (LIKE holdfast.events INCLUDING ALL)', 'holdfast', v_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON holdfast.%I (id, entered_at)', v_name || '_id', v_name);
    EXECUTE format('CREATE INDEX %I ON holdfast.%I (position)', v_name || '_position', v_name);
    EXECUTE format('ALTER TABLE holdfast.%I ATTACH PARTITION holdfast.%I FOR VALUES FROM (%L) TO (%L)',
                   'events_' || p_namespace_id, v_name, v_from, v_to);
    UPDATE namespaces n
        SET months_from = CASE WHEN v_to = n.months_from OR v_from > n.months_to THEN v_from
                               ELSE n.months_from END,
            months_to = greatest(n.months_to, v_to)
        WHERE n.id = p_namespace_id AND (v_to = n.months_from OR v_from >= n.months_to);
    RETURN true;
END
$$;

-- ensure_months: makes this month and the next of every namespace, or of one. Answers how many were
-- made. For every process that opens, once an hour, and at will.
CREATE FUNCTION holdfast.ensure_months(p_namespace_id integer DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_id   integer;
    v_made integer := 0;
    v_now  timestamptz := clock_timestamp();
    v_next timestamptz := (date_trunc('month', v_now AT TIME ZONE 'UTC') + interval '1 month')
                          AT TIME ZONE 'UTC';
BEGIN
    FOR v_id IN SELECT id FROM namespaces WHERE id = p_namespace_id OR p_namespace_id IS NULL
                ORDER BY id LOOP
        v_made := v_made + ensure_month(v_id, v_now)::integer + ensure_month(v_id, v_next)::integer;
    END LOOP;
    RETURN v_made;
END
$$;

-- Why a name of a namespace or subscription is refused; NULL if it is good. The rules are those of
-- glob_check_name: 1 to p_bytes_max bytes, no control characters, no white space at either end.
CREATE FUNCTION holdfast.name_fault(p_name text, p_what text, p_bytes_max integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN $1 IS NULL THEN $2 || ' is missing'
        WHEN $1 = '' THEN $2 || ' is empty'
        WHEN octet_length($1) > $3 THEN
            format('%s is %s bytes; the limit is %s', $2, octet_length($1), $3)
        WHEN $1 COLLATE "C" ~ '[\u0001-\u001f\u007f-\u009f]' THEN $2 || ' has a control character'
        WHEN $1 COLLATE "C" ~ '^[\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]' THEN
            $2 || ' begins with white space'
        WHEN $1 COLLATE "C" ~ '[\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$' THEN
            $2 || ' ends with white space'
    END
$$;

-- namespace_put: finds the namespace, or creates it with its sequence, its log and two months.
-- status 0; HF_INVALID (1) for a bad name; HF_NOTFOUND (3) if p_create is false and it does not
-- exist; HF_CONFLICT (4) if it exists and p_gapless (not NULL) is different. Locks: an advisory lock
-- for all creations, to the end of the transaction. If the client dies, nothing is left.
CREATE FUNCTION holdfast.namespace_put(p_name text, p_gapless boolean DEFAULT NULL,
                                       p_create boolean DEFAULT true,
                                       OUT status integer, OUT message text, OUT id integer,
                                       OUT gapless boolean, OUT created boolean)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    status := 0;
    created := false;
    SELECT n.id, n.gapless INTO namespace_put.id, namespace_put.gapless
        FROM namespaces n WHERE n.name = p_name;
    IF NOT FOUND THEN
        message := name_fault(p_name, 'namespace name', 128);
        IF message IS NOT NULL THEN
            status := 1;
            RETURN;
        END IF;
        IF NOT p_create THEN
            status := 3;
            message := format('there is no namespace %s', p_name);
            RETURN;
        END IF;
        PERFORM pg_advisory_xact_lock(1215253604, 0);
        SELECT n.id, n.gapless INTO namespace_put.id, namespace_put.gapless
            FROM namespaces n WHERE n.name = p_name;
        created := NOT FOUND;
    END IF;
    IF created THEN
        namespace_put.id := nextval('holdfast.namespace_ids');
        namespace_put.gapless := coalesce(p_gapless, false);
        EXECUTE format('CREATE SEQUENCE holdfast.%I AS bigint CACHE 1',
                       'events_' || namespace_put.id || '_position');
        EXECUTE format('CREATE SEQUENCE holdfast.%I AS bigint CACHE 1',
                       'events_' || namespace_put.id || '_sleep');
        EXECUTE format('CREATE TABLE holdfast.%I (LIKE holdfast.events INCLUDING ALL) '
                       'PARTITION BY RANGE (entered_at)', 'events_' || namespace_put.id);
        EXECUTE format('ALTER TABLE holdfast.events ATTACH PARTITION holdfast.%I FOR VALUES IN (%s)',
                       'events_' || namespace_put.id, namespace_put.id);
        INSERT INTO namespaces (id, name, gapless, sequence, sleep, created_at)
            VALUES (namespace_put.id, p_name, namespace_put.gapless,
                    ('holdfast.events_' || namespace_put.id || '_position')::regclass,
                    ('holdfast.events_' || namespace_put.id || '_sleep')::regclass,
                    clock_timestamp());
        IF namespace_put.gapless THEN
            INSERT INTO heads (namespace_id, head) VALUES (namespace_put.id, 0);
        END IF;
        PERFORM ensure_months(namespace_put.id);
    ELSIF p_gapless <> namespace_put.gapless THEN
        status := 4;
        message := format('namespace %s is %sgapless, which cannot be changed', p_name,
                          CASE WHEN namespace_put.gapless THEN '' ELSE 'not ' END);
    END IF;
END
$$;

-- head: the newest position ever given in a namespace; 0 if none. After a crash of the server it may
-- be up to 32 more. It reads the sequence like a table: that takes no lock that a publisher takes, so
-- nobody is mistaken for one.
CREATE FUNCTION holdfast.head(p_namespace_id integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_head bigint;
BEGIN
    SELECT h.head INTO v_head FROM heads h WHERE h.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        EXECUTE 'SELECT CASE WHEN is_called THEN last_value ELSE 0 END '
                'FROM holdfast.events_' || p_namespace_id || '_position' INTO v_head;
    END IF;
    RETURN v_head;
END
$$;

-- ---- Hashes -------------------------------------------------------------------------------------

-- Functions of one expression are not STRICT: then the planner puts the expression in their place.

-- hash_partition of C: the first 8 bytes of MD5 without the sign.
CREATE FUNCTION holdfast.hash_of(p_text text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ('x' || substr(md5($1), 1, 16))::bit(64)::bigint & 9223372036854775807 $$;

-- The product of two 64-bit numbers without what overflows.
CREATE FUNCTION holdfast.hash_times(p_a bigint, p_b numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (CASE WHEN low >= 9223372036854775808 THEN low - 18446744073709551616 ELSE low END)::bigint
    FROM (SELECT mod((CASE WHEN $1 < 0 THEN $1 + 18446744073709551616::numeric
                           ELSE $1::numeric END) * $2, 18446744073709551616) AS low) product
$$;

-- hash_mix of C.
CREATE FUNCTION holdfast.hash_mix(p_value bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    v bigint := p_value;
BEGIN
    v := v # ((v >> 30) & 17179869183);
    v := holdfast.hash_times(v, 13787848793156543929);
    v := v # ((v >> 27) & 137438953471);
    v := holdfast.hash_times(v, 10723151780598845931);
    RETURN v # ((v >> 31) & 8589934591);
END
$$;

-- hash_lane of C: the unit of order of an event.
CREATE FUNCTION holdfast.lane_of(p_tenant text, p_key text, p_id uuid) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    v_bytes bytea := '';
    v_part  text;
    v_hex   text;
    v_size  integer;
BEGIN
    IF p_tenant IS NULL AND p_key IS NULL THEN
        v_hex := replace(p_id::text, '-', '');
        RETURN holdfast.hash_mix(('x' || substr(v_hex, 1, 16))::bit(64)::bigint
                                 # holdfast.hash_mix(('x' || substr(v_hex, 17, 16))::bit(64)::bigint));
    END IF;
    FOREACH v_part IN ARRAY ARRAY[p_tenant, p_key] LOOP
        IF v_part IS NULL THEN
            v_bytes := v_bytes || '\x00'::bytea;
        ELSE
            v_size := octet_length(v_part);
            v_bytes := v_bytes || '\x01'::bytea
                || set_byte(set_byte(set_byte(set_byte('\x0000000000000000'::bytea, 0, v_size & 255),
                       1, v_size >> 8 & 255), 2, v_size >> 16 & 255), 3, v_size >> 24 & 255)
                || convert_to(v_part, 'UTF8');
        END IF;
    END LOOP;
    RETURN ('x' || substr(md5(v_bytes), 1, 16))::bit(64)::bigint;
END
$$;

-- A new UUID v7 for a time.
CREATE FUNCTION holdfast.new_id(p_at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT (lpad(to_hex(trunc(extract(epoch FROM $1) * 1000)::bigint), 12, '0')
            || '7' || substr(gen_random_uuid()::text, 16))::uuid
$$;

-- The time inside an id, to the millisecond; NULL if it is not version 7.
CREATE FUNCTION holdfast.id_time(p_id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN substr($1::text, 15, 1) = '7' AND substr($1::text, 20, 1) IN ('8', '9', 'a', 'b')
        THEN
        to_timestamp(('x' || substr($1::text, 1, 8) || substr($1::text, 10, 4))::bit(48)::bigint
                     / 1000.0) END
$$;
