-- Dead letters: retried, resolved and purged.

-- Where a dead letter belongs: its subscription, if that exists, and its partition there, whose row
-- is locked for rearranging lanes. dead_id is NULL if there is no such dead letter (any more).
CREATE OR REPLACE FUNCTION holdfast_private.grave(
    p_namespace_id integer, p_dead_id bigint, OUT dead_id bigint, OUT "position" bigint,
    OUT lane bigint, OUT resolved boolean, OUT subscription_id bigint, OUT ordered boolean,
    OUT partition integer)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_letter record;
BEGIN
    SELECT d.subscription, d.hash INTO v_letter FROM holdfast_private.letters d
        WHERE d.id = p_dead_id AND d.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT s.id, s.mode = HF_MODE_ORDERED,
           CASE WHEN s.mode = HF_MODE_ORDERED
               THEN (v_letter.hash % s.partitions)::integer ELSE 0 END
        INTO grave.subscription_id, grave.ordered, grave.partition
        FROM holdfast_private.subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = v_letter.subscription;
    IF FOUND THEN
        PERFORM 1 FROM holdfast_private.partitions p
            WHERE p.subscription_id = grave.subscription_id AND p.partition = grave.partition
            FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            grave.subscription_id := NULL;
        END IF;
    END IF;
    SELECT d.id, d.position, holdfast_private.lane_of(d.tenant, d.key, d.event_id),
           d.resolved_at IS NOT NULL
        INTO grave.dead_id, grave."position", grave.lane, grave.resolved
        FROM holdfast_private.letters d WHERE d.id = p_dead_id FOR UPDATE;
END
$$;

-- Lets go of the lane that a dead letter blocked, if it did.
CREATE OR REPLACE FUNCTION holdfast_private.unblock(p_subscription_id bigint, p_partition integer,
                                                    p_ordered boolean, p_position bigint,
                                                    p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lane bigint;
BEGIN
    DELETE FROM holdfast_private.retries r
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position
            AND r.kind = RETRY_BLOCKED
        RETURNING r.lane INTO v_lane;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM holdfast_private.copies c
        WHERE c.subscription_id = p_subscription_id AND c.position = p_position;
    IF p_ordered THEN
        INSERT INTO holdfast_private.settled (subscription_id, partition, position)
            SELECT p_subscription_id, p_partition, p_position
            WHERE p_position > (holdfast.journal_newest(p_subscription_id, p_partition)).checkpoint
            ON CONFLICT (subscription_id, partition, position) DO NOTHING;
    END IF;
    PERFORM holdfast_private.lanes_promote(p_subscription_id, p_partition, ARRAY[v_lane], p_now);
END
$$;

-- change_dead_retry: `struct dead_retry`. p_payload NULL: as it was. count, resolved: how many are
-- delivered again, and how many stay because they are resolved. HF_MISUSE.
CREATE OR REPLACE FUNCTION holdfast.change_dead_retry(p_namespace_id integer, p_dead_ids bigint[],
                                                      p_payload json, p_now timestamptz,
                                                      OUT status integer, OUT message text,
                                                      OUT count bigint, OUT resolved bigint,
                                                      p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
    v_id     bigint;
    v_lane   bigint;
    v_kind   bigint;
    v_kinds  bigint[];
    g        record;
BEGIN
    status := HF_OK;
    v_caller := admit(p_ticket, p_namespace_id, 'change the dead letters of', 'consumer', 'owner');
    IF v_caller IS NOT NULL THEN
        PERFORM clock_check(v_caller, p_now);
        PERFORM fault_check(event_fault(p_namespace_id, 'x', p_payload, NULL, NULL, NULL, NULL,
                                        NULL, p_now));
    END IF;
    count := 0;
    resolved := 0;
    IF p_payload IS NOT NULL AND cardinality(p_dead_ids) <> 1 THEN
        status := HF_MISUSE;
        message := format('a payload can be replaced for one dead letter, not for %s',
                          cardinality(p_dead_ids));
        RETURN;
    END IF;
    FOREACH v_id IN ARRAY p_dead_ids LOOP
        g := grave(p_namespace_id, v_id);
        IF g.resolved THEN
            resolved := resolved + 1;
            CONTINUE;
        END IF;
        CONTINUE WHEN g.dead_id IS NULL OR g.subscription_id IS NULL;
        DELETE FROM copies c WHERE c.subscription_id = g.subscription_id
            AND c.position = g."position";
        DELETE FROM cancels c WHERE c.subscription_id = g.subscription_id
            AND c.position = g."position";
        INSERT INTO copies (subscription_id, position, id, type, hash, checksum, emitted_at,
                            entered_at, key_version, schedule_id, producer, key, tenant, metadata,
                            payload)
            SELECT g.subscription_id, d.position, d.event_id, d.type, d.hash,
                   CASE WHEN p_payload IS NULL THEN d.checksum
                        ELSE checksum_of(content_of(d.event_id, d.emitted_at, d.type, d.key,
                                                    d.tenant, d.metadata, d.producer, d.schedule_id,
                                                    p_payload),
                                         d.hash, d.position, d.entered_at, d.key_version) END,
                   d.emitted_at, d.entered_at, d.key_version, d.schedule_id, d.producer, d.key,
                   d.tenant, d.metadata, coalesce(p_payload, d.payload)
            FROM letters d WHERE d.id = v_id;
        -- The lane of the row that it left behind, if it blocks: in strict order that is not the
        -- event's.
        DELETE FROM retries r WHERE r.subscription_id = g.subscription_id
            AND r.position = g."position" RETURNING r.lane INTO v_lane;
        INSERT INTO retries (subscription_id, position, kind, partition, lane, attempts,
                             deliveries, next_attempt_at)
            VALUES (g.subscription_id, g."position", RETRY_WAITING, g.partition, coalesce(v_lane,
                g.lane), 0, 0, p_now);
        IF g.ordered THEN
            DELETE FROM settled s WHERE s.subscription_id = g.subscription_id
                AND s.partition = g.partition AND s.position = g."position";
        END IF;
        DELETE FROM letters d WHERE d.id = v_id RETURNING d.kind_hash INTO v_kind;
        v_kinds := v_kinds || v_kind;
        count := count + 1;
    END LOOP;
    PERFORM dead_kinds_note(p_namespace_id, v_kinds, -1);
END
$$;

-- change_dead_resolve: `struct dead_resolve`. HF_NOTFOUND, HF_CONFLICT.
CREATE OR REPLACE FUNCTION holdfast.change_dead_resolve(p_namespace_id integer, p_dead_id bigint,
                                                        p_by text, p_note text, p_now timestamptz,
                                                        OUT status integer, OUT message text,
                                                        p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
    v_kind   bigint;
    g        record;
BEGIN
    status := HF_OK;
    v_caller := admit(p_ticket, p_namespace_id, 'change the dead letters of', 'consumer', 'owner');
    PERFORM clock_check(v_caller, p_now);
    PERFORM text_check(v_caller, 'note', concat(p_by, p_note), 16384);
    g := grave(p_namespace_id, p_dead_id);
    IF g.dead_id IS NULL THEN
        status := HF_NOTFOUND;
        message := format('there is no dead letter %s', p_dead_id);
        RETURN;
    END IF;
    IF g.resolved THEN
        status := HF_CONFLICT;
        message := format('dead letter %s is resolved already', p_dead_id);
        RETURN;
    END IF;
    UPDATE letters SET resolved_at = p_now, resolved_by = p_by, resolved_note = p_note
        WHERE id = p_dead_id RETURNING kind_hash INTO v_kind;
    PERFORM dead_kinds_note(p_namespace_id, ARRAY[v_kind], -1);
    IF g.subscription_id IS NOT NULL THEN
        PERFORM unblock(g.subscription_id, g.partition, g.ordered, g."position", p_now);
    END IF;
END
$$;

-- change_dead_purge: `struct dead_purge`.
CREATE OR REPLACE FUNCTION holdfast.change_dead_purge(p_namespace_id integer, p_dead_ids bigint[],
                                                      p_now timestamptz, OUT status integer,
                                                      OUT message text, OUT count bigint,
                                                      p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id    bigint;
    v_kind  bigint;
    v_kinds bigint[];
    g       record;
BEGIN
    status := HF_OK;
    PERFORM clock_check(admit(p_ticket, p_namespace_id, 'change the dead letters of', 'consumer',
                              'owner'),
                        p_now);
    count := 0;
    FOREACH v_id IN ARRAY p_dead_ids LOOP
        g := grave(p_namespace_id, v_id);
        CONTINUE WHEN g.dead_id IS NULL;
        DELETE FROM letters d WHERE d.id = v_id RETURNING d.kind_hash INTO v_kind;
        IF NOT g.resolved THEN
            v_kinds := v_kinds || v_kind;
        END IF;
        IF g.subscription_id IS NOT NULL THEN
            PERFORM unblock(g.subscription_id, g.partition, g.ordered, g."position", p_now);
        END IF;
        count := count + 1;
    END LOOP;
    PERFORM dead_kinds_note(p_namespace_id, v_kinds, -1);
END
$$;

-- ---- For all clients ----------------------------------------------------------------------------
--
-- What hf_dead_retry_all, hf_dead_resolve and hf_dead_purge are in C. Which dead letters: ids, or
-- conditions that all must hold (type: a pattern; error: a part of its text), or everything =>
-- true; oldest first, at most max (1 to 10000), so call them again while they answer max. Of ids,
-- up to 10000 whatever max is, all must be there and open, or nothing happens; a purge deletes
-- those that are there, resolved or not. They raise HF001, HF003 (no such namespace or
-- dead letter, or the subscription of one that is to be retried is gone), HF004 (resolved already).

-- dead_pick: which they are. p_which: the conditions as the caller gave them, by their names.
-- p_to_retry: only those whose subscription is there.
CREATE OR REPLACE FUNCTION holdfast_private.dead_pick(
    p_namespace_id integer, p_ids bigint[], p_which jsonb, p_everything boolean,
    p_resolved boolean, p_to_retry boolean, p_max integer)
    RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_max    constant integer := 10000;
    v_type   text := p_which ->> 'type';
    v_regex  text;
    v_picked bigint[];
BEGIN
    IF p_max IS NULL OR p_max NOT BETWEEN 1 AND c_max THEN
        RAISE EXCEPTION 'max is %; it must be 1 to %', p_max, c_max USING ERRCODE = 'HF001';
    ELSIF cardinality(p_ids) > c_max THEN
        RAISE EXCEPTION 'there are % ids; the limit is %', cardinality(p_ids), c_max
            USING ERRCODE = 'HF001';
    ELSIF p_ids IS NULL AND p_which = '{}' AND NOT coalesce(p_everything, false) THEN
        RAISE EXCEPTION 'say which dead letters: ids, subscription, type, error, reason, '
                        'failed_before, failed_after, or everything => true'
            USING ERRCODE = 'HF001';
    END IF;
    IF v_type IS NOT NULL THEN
        PERFORM fault_check(glob_fault(v_type, 'pattern'));
        v_regex := patterns_regex(ARRAY[v_type]);
    END IF;
    SELECT array_agg(d.id ORDER BY d.id) INTO v_picked FROM (
        SELECT d.id FROM letters d
        WHERE d.namespace_id = p_namespace_id
            AND (p_ids IS NULL OR d.id = ANY (p_ids))
            AND (p_resolved OR d.resolved_at IS NULL)
            AND (NOT p_which ? 'subscription' OR d.subscription = p_which ->> 'subscription')
            AND (v_regex IS NULL OR d.type ~ v_regex)
            AND (NOT p_which ? 'error' OR strpos(d.error, p_which ->> 'error') > 0)
            AND (NOT p_which ? 'reason' OR d.reason = p_which ->> 'reason')
            AND (NOT p_which ? 'failed_before'
                 OR d.failed_at <= (p_which ->> 'failed_before')::timestamptz)
            AND (NOT p_which ? 'failed_after'
                 OR d.failed_at >= (p_which ->> 'failed_after')::timestamptz)
            AND (NOT p_to_retry OR EXISTS (
                SELECT FROM subscriptions s
                WHERE s.namespace_id = p_namespace_id AND s.name = d.subscription))
        ORDER BY d.id LIMIT CASE WHEN p_ids IS NULL THEN p_max END) d;
    RETURN coalesce(v_picked, '{}');
END
$$;

-- dead_which: the conditions that were given, by their names.
CREATE OR REPLACE FUNCTION holdfast_private.dead_which(
    p_subscription text, p_type text, p_error text, p_reason text, p_failed_before timestamptz,
    p_failed_after timestamptz)
    RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'subscription', $1, 'type', $2, 'error', $3, 'reason', $4, 'failed_before', $5,
        'failed_after', $6));

-- dead_check: HF003 or HF004, if one of these ids cannot be retried or resolved.
CREATE OR REPLACE FUNCTION holdfast_private.dead_check(p_namespace_id integer, p_ids bigint[],
                                                          p_to_retry boolean)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id     bigint;
    v_letter record;
BEGIN
    FOR v_id IN SELECT DISTINCT i FROM unnest(p_ids) i ORDER BY i LOOP
        SELECT d.subscription, d.resolved_at INTO v_letter FROM letters d
            WHERE d.id = v_id AND d.namespace_id = p_namespace_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no dead letter %', v_id USING ERRCODE = 'HF003';
        ELSIF v_letter.resolved_at IS NOT NULL THEN
            RAISE EXCEPTION 'dead letter % is resolved already', v_id USING ERRCODE = 'HF004';
        ELSIF p_to_retry AND NOT EXISTS (
            SELECT FROM subscriptions s
            WHERE s.namespace_id = p_namespace_id AND s.name = v_letter.subscription) THEN
            RAISE EXCEPTION 'dead letter % cannot be retried: there is no subscription %', v_id,
                v_letter.subscription USING ERRCODE = 'HF003';
        END IF;
    END LOOP;
END
$$;

-- dead_done: how many were changed, which must be all that were picked, if they were named. 40001:
-- another session was faster with one of them.
CREATE OR REPLACE FUNCTION holdfast_private.dead_done(p_ids bigint[], p_picked bigint[],
                                                      p_count bigint)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_ids IS NOT NULL AND p_count < cardinality(p_picked) THEN
        RAISE EXCEPTION 'another session has changed one of these dead letters: try again'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN p_count;
END
$$;

-- retry_dead_letters: delivers them again to their subscriptions, with a clean record. payload: of
-- one id: it is delivered with this payload. Answers how many.
CREATE OR REPLACE FUNCTION holdfast.retry_dead_letters(
    namespace text, ids bigint[] DEFAULT NULL, subscription text DEFAULT NULL,
    type text DEFAULT NULL, error text DEFAULT NULL, reason text DEFAULT NULL,
    failed_before timestamptz DEFAULT NULL, failed_after timestamptz DEFAULT NULL,
    everything boolean DEFAULT false, max integer DEFAULT 1000,
    payload anycompatible DEFAULT NULL, p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the dead letters of',
                                    'consumer', 'owner');
    v_payload   json;
    v_picked    bigint[];
    v_done      record;
BEGIN
    PERFORM json_check('payload', payload);
    v_payload := payload;
    PERFORM fault_check(event_fault(v_namespace.id, 'x', v_payload, NULL, NULL, NULL, NULL, NULL,
                                    clock_timestamp()));
    PERFORM demand_read_committed('dead letters need');
    PERFORM commit_durably();
    v_picked := dead_pick(v_namespace.id, ids,
                          dead_which(subscription, type, error, reason, failed_before,
                                     failed_after), everything, false, true, max);
    PERFORM dead_check(v_namespace.id, ids, true);
    v_done := change_dead_retry(v_namespace.id, v_picked, v_payload, clock_timestamp(), p_ticket);
    PERFORM answer_check(v_done.status, v_done.message);
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
    RETURN dead_done(ids, v_picked, v_done.count);
END
$$;

-- resolve_dead_letters: marks them as dealt with, with a note; a key that one blocked is free.
-- resolved_by: NULL: the name of the session's role. Answers how many.
CREATE OR REPLACE FUNCTION holdfast.resolve_dead_letters(
    namespace text, ids bigint[] DEFAULT NULL, note text DEFAULT NULL,
    resolved_by text DEFAULT NULL, subscription text DEFAULT NULL, type text DEFAULT NULL,
    error text DEFAULT NULL, reason text DEFAULT NULL, failed_before timestamptz DEFAULT NULL,
    failed_after timestamptz DEFAULT NULL, everything boolean DEFAULT false,
    max integer DEFAULT 1000, p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the dead letters of',
                                    'consumer', 'owner');
    v_picked    bigint[];
    v_count     bigint := 0;
    v_id        bigint;
    v_done      record;
BEGIN
    PERFORM text_check(0::oid, 'note', note, HF_ERROR_BYTES_MAX);
    PERFORM text_check(0::oid, 'resolved_by', resolved_by, HF_PRODUCER_BYTES_MAX);
    PERFORM demand_read_committed('dead letters need');
    PERFORM commit_durably();
    v_picked := dead_pick(v_namespace.id, ids,
                          dead_which(subscription, type, error, reason, failed_before,
                                     failed_after), everything, false, false, max);
    PERFORM dead_check(v_namespace.id, ids, false);
    FOREACH v_id IN ARRAY v_picked LOOP
        v_done := change_dead_resolve(v_namespace.id, v_id, coalesce(resolved_by, session_user),
                                      note, clock_timestamp(), p_ticket);
        -- Another session may have retried or resolved it meanwhile.
        IF v_done.status NOT IN (HF_NOTFOUND, HF_CONFLICT) THEN
            PERFORM answer_check(v_done.status, v_done.message);
            v_count := v_count + 1;
        END IF;
    END LOOP;
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
    RETURN dead_done(ids, v_picked, v_count);
END
$$;

-- purge_dead_letters: deletes them for good; a key that one blocked is free. resolved: resolved
-- ones, too. Answers how many.
CREATE OR REPLACE FUNCTION holdfast.purge_dead_letters(
    namespace text, ids bigint[] DEFAULT NULL, subscription text DEFAULT NULL,
    type text DEFAULT NULL, error text DEFAULT NULL, reason text DEFAULT NULL,
    failed_before timestamptz DEFAULT NULL, failed_after timestamptz DEFAULT NULL,
    resolved boolean DEFAULT false, everything boolean DEFAULT false, max integer DEFAULT 1000,
    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the dead letters of',
                                    'consumer', 'owner');
    v_done      record;
BEGIN
    PERFORM demand_read_committed('dead letters need');
    PERFORM commit_durably();
    v_done := change_dead_purge(
        v_namespace.id,
        dead_pick(v_namespace.id, ids, dead_which(subscription, type, error, reason, failed_before,
                                                  failed_after),
                  everything, coalesce(resolved, false) OR ids IS NOT NULL, false, max),
        clock_timestamp(), p_ticket);
    PERFORM answer_check(v_done.status, v_done.message);
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
    RETURN v_done.count;
END
$$;
