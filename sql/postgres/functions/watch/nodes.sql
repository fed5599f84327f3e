-- Nodes: what the processes that have a namespace open say about themselves, and those that ended
-- lately.
--
-- Present nodes are in processes, with their signs of life. A row goes when its process ends,
-- because every process that looks for the living reads them all; what it said about itself goes on
-- for a day in past_nodes, which only requests for nodes read.

-- Whether it was silent for so long that no process waits for it any more.
CREATE OR REPLACE FUNCTION holdfast_private.process_is_silent(p_process holdfast_private.processes)
    RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN $1.seen_at
        < clock_timestamp() - greatest(interval '1 day', $1.heartbeat_ms * interval '3 ms');

-- Who has a namespace open, so that it is neither removed nor copied: those whose lock is held.
-- Those whose lock cannot be seen, or that have none, count as live for three heartbeats.
CREATE OR REPLACE FUNCTION holdfast_private.nodes_present(p_namespace_id integer, OUT count bigint,
                                                          OUT names text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_seen boolean := has_table_privilege('pg_catalog.pg_locks', 'SELECT');
    v_dead uuid[];
BEGIN
    SELECT dead_of(p_namespace_id, array_agg(p.token)) INTO v_dead
        FROM processes p WHERE p.namespace_id = p_namespace_id;
    SELECT count(*), left(string_agg(p.node_name, ', ' ORDER BY p.node_name), 200)
        INTO nodes_present.count, nodes_present.names
        FROM processes p
        WHERE p.namespace_id = p_namespace_id AND p.token <> ALL (v_dead)
            AND (p.locked AND v_seen
                 OR p.seen_at >= clock_timestamp() - p.heartbeat_ms * interval '3 ms');
END
$$;

-- Which live node but the one with this token, started later than p_since, has the id, in words;
-- NULL: none.
CREATE OR REPLACE FUNCTION holdfast_private.node_rival(p_namespace_id integer, p_node_id text,
                                                       p_token uuid, p_since timestamptz)
    RETURNS text
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT format('node %s is live already: %s, since %s', p_node_id,
                  CASE WHEN p.pid IS NULL THEN 'by holdfast.heartbeat'
                       ELSE format('process %s on %s', p.pid,
                                   coalesce(p.host, 'a host that is not known')) END,
                  to_char(p.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
        FROM processes p
        WHERE p.namespace_id = p_namespace_id AND p.node_id = p_node_id AND p.token <> p_token
            AND p.started_at > p_since
            AND p.seen_at >= clock_timestamp() - p.heartbeat_ms * interval '3 ms'
            AND dead_of(p_namespace_id, ARRAY[p.token]) = '{}'
        ORDER BY p.started_at LIMIT 1
$$;

-- Those who register with an id that was given, and those who register and the one who removes the
-- namespace or copies into it, come one after the other: they would not see each other's rows.
-- p_node_id NULL: none was given. A node that comes again does not wait: heartbeat holds both locks
-- to the end of a transaction that is the application's, and a process that is silent for so long
-- is taken for dead.
--   Every part may register, and could keep its transaction open for ever, so no session waits for
-- the id longer than 2 seconds (or lock_timeout): ids are for people, and work is not. Answers then
-- which session was in the way. HF011: the one who removes the namespace was.
CREATE OR REPLACE FUNCTION holdfast_private.node_lock(p_namespace_id integer, p_again boolean,
                                                      p_node_id text)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_gate   integer := 2 + (hashtext(p_node_id) & 63);
    v_before text := current_setting('lock_timeout');
BEGIN
    IF p_again THEN
        PERFORM FROM namespaces n WHERE n.id = p_namespace_id FOR KEY SHARE SKIP LOCKED;
        PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = v_gate
            FOR UPDATE SKIP LOCKED;
        RETURN NULL;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', coalesce(nullif(v_before, '0'), '2s'), true);
        PERFORM FROM namespaces n WHERE n.id = p_namespace_id FOR KEY SHARE;
        PERFORM set_config('lock_timeout', v_before, true);
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'the namespace is being removed, or copied into, by a transaction that has '
                        'not ended; waited % for it', coalesce(nullif(v_before, '0'), '2s')
                        USING ERRCODE = 'HF011';
    END;
    RETURN gate_wait(p_namespace_id, v_gate, '2s', 'registering a node') || format(
        ': another node may get the id %s, too', p_node_id);
END
$$;

-- node_register: makes the process known with what it says about itself; again when it has a new
-- connection. HF_CONFLICT if the id was given and a node that is live has it, HF_BUSY if the
-- namespace is being removed or gone, or is copied into; with p_again it is registered all the
-- same, with a message that there is another one. 0 with a message: registered, but see node_lock.
CREATE OR REPLACE FUNCTION holdfast.node_register(p_namespace_id integer, p_token uuid,
                                                  p_locked boolean, p_again boolean, p_node_id text,
                                                  p_given boolean, p_node_name text,
                                                  p_description text, p_metadata json, p_host text,
                                                  p_pid bigint, p_version text,
                                                  p_heartbeat_ms bigint, OUT status integer,
                                                  OUT message text,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller    oid := admit(p_ticket, p_namespace_id, 'be a node of', 'viewer', 'publisher',
                             'consumer', 'owner');
    v_now       timestamptz := clock_timestamp();
    v_namespace record;
    v_warning   text;
BEGIN
    status := HF_OK;
    IF v_caller IS NOT NULL THEN
        PERFORM process_check(p_namespace_id, p_token, v_caller);
        PERFORM fault_check(node_fault(p_node_id, p_description, p_metadata, p_heartbeat_ms));
        PERFORM text_check(v_caller, 'node name, host or version',
                           concat(p_node_name, p_host, p_version), 1024);
    END IF;
    IF p_given THEN
        v_warning := node_lock(p_namespace_id, p_again, p_node_id);
    END IF;
    FOR try IN 1 .. 2 LOOP
        SELECT n.id, n.removing_at, n.copying, n.closed_at INTO v_namespace FROM namespaces n
            WHERE n.id = p_namespace_id FOR KEY SHARE SKIP LOCKED;
        EXIT WHEN FOUND OR p_again OR try = 2;
        PERFORM node_lock(p_namespace_id, false, NULL); -- waits for the one who has it locked
    END LOOP;
    IF (v_namespace.id IS NULL OR v_namespace.removing_at IS NOT NULL
        OR v_namespace.copying IS NOT NULL) AND NOT p_again THEN
        status := HF_BUSY;
        message := CASE WHEN v_namespace.copying IS NOT NULL AND v_namespace.removing_at IS NULL
                        THEN 'the namespace is a copy that is not complete'
                        ELSE 'the namespace is being removed' END;
        RETURN;
    END IF;
    IF v_namespace.closed_at > v_now + interval '1 s'
       OR EXISTS (SELECT FROM processes p WHERE p.namespace_id = p_namespace_id
                      AND p.seen_at > v_now + interval '1 s') THEN
        PERFORM clock_mind(p_namespace_id, v_caller);
    END IF;
    IF p_given THEN
        message := node_rival(p_namespace_id, p_node_id, p_token, '-infinity');
        IF message IS NOT NULL THEN
            status := HF_CONFLICT;
            IF NOT p_again THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    IF v_caller IS NOT NULL AND NOT EXISTS (SELECT FROM processes p WHERE p.token = p_token) THEN
        PERFORM process_room(p_namespace_id, v_caller);
    END IF;
    INSERT INTO processes AS p (token, started_at, seen_at, namespace_id, locked, backend, lock_key,
                                node_name, heartbeat_ms, pid, given, node_id, host, version,
                                description, metadata, role_id)
        VALUES (p_token, v_now, v_now, p_namespace_id, p_locked, pg_backend_pid(),
                CASE WHEN p_locked THEN process_held() END, p_node_name, p_heartbeat_ms, p_pid,
                p_given, p_node_id, p_host, p_version, p_description, p_metadata,
                coalesce(v_caller, role_id()))
        ON CONFLICT (token) DO UPDATE
        SET renewals = p.renewals + 1, seen_at = excluded.seen_at, locked = excluded.locked,
            backend = excluded.backend, lock_key = excluded.lock_key;
    message := coalesce(message, v_warning);
END
$$;

-- node_forget: nodes that ended a day ago, and all but the last thousand. Those that another
-- session is forgetting are passed over: a goodbye may be part of a transaction that goes on.
CREATE OR REPLACE FUNCTION holdfast_private.node_forget(p_namespace_id integer) RETURNS void
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    WITH old AS (
        SELECT n.node_id FROM past_nodes n
        WHERE n.namespace_id = p_namespace_id
            AND (n.ended_at < clock_timestamp() - interval '1 day'
                 OR n.ended_at < (SELECT o.ended_at FROM past_nodes o
                                  WHERE o.namespace_id = p_namespace_id
                                  ORDER BY o.ended_at DESC OFFSET 999 LIMIT 1))
        FOR UPDATE SKIP LOCKED)
    DELETE FROM past_nodes n USING old
        WHERE n.namespace_id = p_namespace_id AND n.node_id = old.node_id
$$;

-- node_is_kept: whether a node is remembered when its process stops (p_stopped), or was found dead.
-- Of those that stop within their first heartbeat only nodes that were given an id are: programs
-- that publish one event and go are not worth a row.
CREATE OR REPLACE FUNCTION holdfast_private.node_is_kept(p_process holdfast_private.processes,
                                                         p_stopped boolean, p_now timestamptz)
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN p_process.node_id IS NOT NULL
           AND (p_process.given OR NOT p_stopped
                OR p_process.started_at <= p_now - p_process.heartbeat_ms * interval '1 ms');

-- node_past: remembers processes that are about to be forgotten (node_is_kept). Forgets old ones.
CREATE OR REPLACE FUNCTION holdfast_private.node_past(p_namespace_id integer, p_tokens uuid[],
                                                      p_stopped boolean)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM processes p
                   WHERE p.token = ANY (p_tokens) AND node_is_kept(p, p_stopped, v_now)) THEN
        RETURN;
    END IF;
    INSERT INTO past_nodes AS n (namespace_id, started_at, seen_at, stopped_at, ended_at,
                                 heartbeat_ms, pid, node_id, node_name, host, version, description,
                                 metadata)
        SELECT DISTINCT ON (p.node_id) p.namespace_id, p.started_at,
               CASE WHEN p_stopped THEN v_now ELSE p.seen_at END,
               CASE WHEN p_stopped THEN v_now END, v_now, p.heartbeat_ms,
               p.pid, p.node_id, p.node_name, p.host, p.version, p.description, p.metadata
        FROM processes p
        WHERE p.namespace_id = p_namespace_id AND p.token = ANY (p_tokens)
            AND node_is_kept(p, p_stopped, v_now)
            AND EXISTS (SELECT FROM namespaces s WHERE s.id = p_namespace_id)
        ORDER BY p.node_id, p.started_at DESC
        ON CONFLICT (namespace_id, node_id) DO UPDATE
        SET started_at = excluded.started_at, seen_at = excluded.seen_at,
            stopped_at = excluded.stopped_at, ended_at = excluded.ended_at,
            heartbeat_ms = excluded.heartbeat_ms, pid = excluded.pid,
            node_name = excluded.node_name, host = excluded.host, version = excluded.version,
            description = excluded.description, metadata = excluded.metadata
        WHERE n.started_at <= excluded.started_at;
    IF FOUND THEN
        PERFORM node_forget(p_namespace_id);
    END IF;
END
$$;

-- node_list: `store_node_list`. p_token: who asks. state: hf_node_state. Of those that are gone the
-- last of each id, unless one that is not has the id.
CREATE OR REPLACE FUNCTION holdfast.node_list(p_namespace_id integer, p_token uuid, p_node_id text)
    RETURNS TABLE (node_id text, node_name text, description text, metadata text, host text,
                   version text, pid bigint, heartbeat_ms bigint, started_at timestamptz,
                   seen_at timestamptz, stopped_at timestamptz, state integer, self boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_dead uuid[];
BEGIN
    SELECT dead_of(p_namespace_id, array_agg(p.token)) INTO v_dead
        FROM read_processes() p WHERE p.namespace_id = p_namespace_id;
    RETURN QUERY
    WITH seen AS (
        SELECT coalesce(p.node_id, p.token::text) AS node_id, p.node_name, p.description,
               p.metadata::text AS metadata, p.host, p.version, p.pid, p.heartbeat_ms, p.started_at,
               p.seen_at, NULL::timestamptz AS stopped_at,
               CASE WHEN p.token = p_token THEN HF_NODE_LIVE
                    WHEN p.token = ANY (v_dead) THEN HF_NODE_GONE
                    WHEN p.seen_at < v_now - p.heartbeat_ms * interval '3 ms' THEN HF_NODE_STALE
                    ELSE HF_NODE_LIVE END AS state,
               p.token = p_token AS self, p.seen_at AS ended_at
        FROM read_processes() p WHERE p.namespace_id = p_namespace_id
        UNION ALL
        SELECT n.node_id, n.node_name, n.description, n.metadata::text, n.host, n.version, n.pid,
               n.heartbeat_ms, n.started_at, n.seen_at, n.stopped_at, HF_NODE_GONE, false,
               n.ended_at
        FROM read_past_nodes() n WHERE n.namespace_id = p_namespace_id
    ), placed AS (
        SELECT s.*, row_number() OVER (PARTITION BY s.node_id ORDER BY s.state, s.started_at DESC)
                    AS place
        FROM seen s WHERE p_node_id IS NULL OR s.node_id = p_node_id
    )
    SELECT s.node_id, s.node_name, s.description, s.metadata, s.host, s.version, s.pid,
           s.heartbeat_ms, s.started_at, s.seen_at, s.stopped_at, s.state, s.self
    FROM placed s
    WHERE s.state <> HF_NODE_GONE OR s.place = 1 AND s.ended_at >= v_now - interval '1 day'
    ORDER BY s.node_id COLLATE "C", s.state, s.started_at DESC;
END
$$;

-- Why what a node says about itself is refused; NULL if it is good. The limits are those of
-- node_check in C, which makes a good id of any; here it is refused.
CREATE OR REPLACE FUNCTION holdfast_private.node_fault(p_node_id text, p_description text,
                                                       p_metadata json, p_heartbeat_ms bigint)
    RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT coalesce(
        name_fault(p_node_id, 'node', HF_NODE_ID_BYTES_MAX),
        CASE WHEN p_node_id COLLATE "C" !~ '^[A-Za-z0-9._:-]+$'
                 THEN 'node has a character that is no letter, no digit and none of ._:-'
             WHEN octet_length(p_description) > HF_NODE_DESCRIPTION_BYTES_MAX
                 THEN format('description is %s bytes; the limit is HF_NODE_DESCRIPTION_BYTES_MAX',
                             octet_length(p_description))
             WHEN p_description COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
                 THEN 'description has a control character' END,
        metadata_fault(p_metadata, HF_NODE_METADATA_BYTES_MAX),
        CASE WHEN p_heartbeat_ms NOT BETWEEN 1000 AND 86400000
                 THEN format('heartbeat_ms is %s; it takes 1000 to 86400000', p_heartbeat_ms) END)
$$;

-- Since when the token is registered for this node, by heartbeat, which knows no process; NULL: it
-- is not. HF001: it is another node's.
CREATE OR REPLACE FUNCTION holdfast_private.node_started(p_namespace_id integer, p_node_id text,
                                                         p_token uuid)
    RETURNS timestamptz
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_found processes;
BEGIN
    SELECT * INTO v_found FROM processes p WHERE p.token = p_token;
    IF FOUND AND (v_found.namespace_id, v_found.node_id)
               IS DISTINCT FROM (p_namespace_id, p_node_id)
       OR v_found.pid IS NOT NULL THEN
        RAISE EXCEPTION 'token is not one of node %', p_node_id USING ERRCODE = 'HF001';
    END IF;
    RETURN v_found.started_at;
END
$$;

-- heartbeat: registers a node that works without the library, and answers its token; with that
-- token, shows that it still lives. The session that has the token is the node: one that is not
-- registered (any more) is, again, under the one it brings. Of what it says about itself NULL stays
-- as it was; heartbeat_ms is 30000 at first. HF001; HF002; HF003; HF004 if another node that is
-- live has the id: when it registers, any; later one that came while this one was silent, so that
-- of two the same one gives way, always.
--   It holds no lock that would vanish with it, so it is never called dead, but stale when it is
-- silent, and gone after a day. One that is stale keeps no namespace from being removed. It owns no
-- partition and no lease: what it claims ends by the clock. Locks, to the end of the transaction:
-- its row; when it registers, others who do with this id (they wait for 2 seconds, then go on with
-- a warning), and the one who removes the namespace.
CREATE OR REPLACE FUNCTION holdfast.heartbeat(namespace text, node text, token uuid DEFAULT NULL,
                                              description text DEFAULT NULL,
                                              metadata anycompatible DEFAULT NULL,
                                              heartbeat_ms bigint DEFAULT NULL,
                                              p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_id       integer := (enter(p_ticket, heartbeat.namespace, 'be a node of',
                                 'viewer', 'publisher', 'consumer', 'owner')).id;
    v_caller   oid := holder(p_ticket);
    v_token    uuid := coalesce(heartbeat.token, gen_random_uuid());
    v_metadata json;
    v_message  text;
    v_started  timestamptz;
    v_done     record;
BEGIN
    PERFORM json_check('metadata', heartbeat.metadata);
    v_metadata := heartbeat.metadata;
    v_message := node_fault(heartbeat.node, heartbeat.description, v_metadata,
                            heartbeat.heartbeat_ms);
    IF v_message IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = v_message, ERRCODE = 'HF001';
    END IF;
    PERFORM demand_read_committed('heartbeat needs');
    PERFORM process_check(v_id, v_token, v_caller);
    PERFORM clock_mind(v_id, v_caller);
    v_started := node_started(v_id, heartbeat.node, v_token);
    IF v_started IS NOT NULL THEN
        v_message := node_rival(v_id, heartbeat.node, v_token, v_started);
        IF v_message IS NOT NULL THEN
            RAISE EXCEPTION USING MESSAGE = v_message, ERRCODE = 'HF004';
        END IF;
        UPDATE processes p
            SET renewals = p.renewals + 1, seen_at = clock_timestamp(),
                description = coalesce(heartbeat.description, p.description),
                metadata = coalesce(v_metadata, p.metadata),
                heartbeat_ms = coalesce(heartbeat.heartbeat_ms, p.heartbeat_ms)
            WHERE p.token = v_token;
        IF FOUND THEN
            RETURN v_token;
        END IF;
    END IF;
    v_done := node_register(v_id, v_token, false, false, heartbeat.node, true, heartbeat.node,
                            heartbeat.description, v_metadata, NULL, NULL, NULL,
                            coalesce(heartbeat.heartbeat_ms, 30000), p_ticket);
    IF v_done.status <> HF_OK THEN
        RAISE EXCEPTION USING MESSAGE = v_done.message,
            ERRCODE = CASE WHEN v_done.status = HF_CONFLICT THEN 'HF004' ELSE 'HF003' END;
    ELSIF v_done.message IS NOT NULL THEN
        RAISE WARNING USING MESSAGE = v_done.message;
    END IF;
    -- Another session may have come with the same token.
    PERFORM node_started(v_id, heartbeat.node, v_token);
    RETURN v_token;
END
$$;

-- goodbye: the node stops. False: it was not registered (any more). HF001, HF003.
CREATE OR REPLACE FUNCTION holdfast.goodbye(namespace text, node text, token uuid,
                                            p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id integer := (enter(p_ticket, namespace, 'be a node of',
                           'viewer', 'publisher', 'consumer', 'owner')).id;
BEGIN
    PERFORM process_check(v_id, token, holder(p_ticket));
    IF node_started(v_id, node, token) IS NULL THEN
        RETURN false;
    END IF;
    PERFORM process_close(v_id, token, clock_timestamp(), p_ticket);
    RETURN true;
END
$$;
