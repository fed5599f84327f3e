-- Dead letters, and what people call from SQL besides publish.

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
                             next_attempt_at)
            VALUES (g.subscription_id, g."position", RETRY_WAITING, g.partition, coalesce(v_lane,
                g.lane), 0, p_now);
        IF g.ordered THEN
            DELETE FROM settled s WHERE s.subscription_id = g.subscription_id
                AND s.partition = g.partition AND s.position = g."position";
        END IF;
        DELETE FROM letters d WHERE d.id = v_id;
        count := count + 1;
    END LOOP;
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
        WHERE id = p_dead_id;
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
    v_id bigint;
    g    record;
BEGIN
    status := HF_OK;
    PERFORM clock_check(admit(p_ticket, p_namespace_id, 'change the dead letters of', 'consumer',
                              'owner'),
                        p_now);
    count := 0;
    FOREACH v_id IN ARRAY p_dead_ids LOOP
        g := grave(p_namespace_id, v_id);
        CONTINUE WHEN g.dead_id IS NULL;
        DELETE FROM letters d WHERE d.id = v_id;
        IF g.subscription_id IS NOT NULL THEN
            PERFORM unblock(g.subscription_id, g.partition, g.ordered, g."position", p_now);
        END IF;
        count := count + 1;
    END LOOP;
END
$$;
