-- Schedules and delayed events for all clients: made, paused, fired and dropped from psql and any
-- driver, and tick(), which does what processes of Holdfast do by themselves, for those who run
-- none.
--
-- A planned time is fired by the first of tick(), a job of pg_cron or a process; all of them use
-- change_fire (timers.sql), so it is published once. Rules and limits are those of hf_schedule_put.
-- They raise HF001 (an argument is outside its limits), HF002 (pg_cron is not installed) and HF003
-- (no such namespace or schedule); then nothing was changed.

-- ---- Making them --------------------------------------------------------------------------------

-- A schedule by its name. HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast_private.schedule_find(p_ticket bytea, p_namespace text,
                                                          p_name text)
    RETURNS holdfast_private.schedules
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, p_namespace, 'change schedules and delayed events of',
                                    'publisher', 'owner');
    v_schedule  schedules;
BEGIN
    SELECT * INTO v_schedule FROM schedules s
        WHERE s.namespace_id = v_namespace.id AND s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule %', left(p_name, HF_SCHEDULE_NAME_BYTES_MAX)
            USING ERRCODE = 'HF003';
    END IF;
    RETURN v_schedule;
END
$$;

-- Why a schedule is refused, but for its expression; NULL if it is good.
CREATE OR REPLACE FUNCTION holdfast_private.schedule_fault(
    p_namespace_id integer, p_name text, p_zone text, p_type text, p_payload json, p_key text,
    p_tenant text, p_metadata json, p_misfire text, p_cap integer, p_grace_ms bigint)
    RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT coalesce(
        name_fault(p_name, 'schedule name', HF_SCHEDULE_NAME_BYTES_MAX),
        event_fault(p_namespace_id, p_type, p_payload, p_key, p_tenant, p_metadata, NULL, NULL,
                    now()),
        CASE WHEN p_misfire IS NULL OR p_misfire NOT IN ('skip', 'once', 'all')
                 THEN format('misfire is %s; it takes skip, once or all', p_misfire)
             WHEN p_cap IS NULL OR p_cap NOT BETWEEN 1 AND 1000
                 THEN format('misfire_cap is %s; it takes 1 to 1000', p_cap)
             WHEN p_grace_ms IS NULL OR p_grace_ms NOT BETWEEN 0 AND 86400000
                 THEN format('grace_ms is %s; it takes 0 to 86400000', p_grace_ms)
             WHEN p_zone IS DISTINCT FROM 'UTC'
                  AND NOT EXISTS (SELECT FROM pg_timezone_names z WHERE z.name = p_zone)
                 THEN format('there is no time zone %s', left(p_zone, 255)) END)
$$;

-- The values of a field, or * for all of them if it may be one.
CREATE OR REPLACE FUNCTION holdfast_private.cron_list(p_values integer[], p_all integer,
                                                      p_star boolean)
    RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN $3 AND cardinality($1) = $2 THEN '*' ELSE array_to_string($1, ',') END;

-- An expression as pg_cron understands it: lists of values, because 5/15 and FRI-SUN are something
-- else there, or nothing. Two fields of days that must both match need a * at the beginning of one
-- of them. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.cron_for_job(p_expression text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_cron     cron := cron_parse(p_expression);
    v_fields   text[] := regexp_split_to_array(replace(btrim(p_expression, E' \t'), '?', '*'),
                                               E'[ \t]+');
    v_days     text := cron_list(v_cron.days, 31, NOT v_cron.either);
    v_weekdays text := cron_list(v_cron.weekdays, 7, NOT v_cron.either);
BEGIN
    IF v_cron.every_s > 0 THEN
        RAISE EXCEPTION 'expression "%" is a period, which pg_cron does not have: write it with '
            'five fields, or leave the driver out', p_expression USING ERRCODE = 'HF001';
    ELSIF cardinality(v_fields) = 6 THEN
        RAISE EXCEPTION 'expression "%" has seconds, which pg_cron does not know', p_expression
            USING ERRCODE = 'HF001';
    ELSIF NOT v_cron.either AND v_days <> '*' AND v_weekdays <> '*' THEN
        IF v_fields[3] ~ E'^\\*/[0-9]+$' THEN
            v_days := v_fields[3];
        ELSIF v_fields[5] ~ E'^\\*/[0-9]+$' THEN
            v_weekdays := v_fields[5];
        ELSE
            RAISE EXCEPTION 'expression "%": pg_cron cannot have these two fields of days',
                p_expression USING ERRCODE = 'HF001';
        END IF;
    END IF;
    RETURN concat_ws(' ', cron_list(v_cron.minutes, 60, true), cron_list(v_cron.hours, 24, true),
                     v_days, cron_list(v_cron.months, 12, true), v_weekdays);
END
$$;

-- Whether pg_cron is installed. Its functions are called with the rights of the owner of the
-- schema, so a schema `cron` that another role has made must not be taken for it.
CREATE OR REPLACE FUNCTION holdfast_private.cron_is_there() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM pg_extension e
                   JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass
                       AND d.refobjid = e.oid
                       AND d.deptype = 'e' AND d.classid = 'pg_namespace'::regclass
                   JOIN pg_namespace n ON n.oid = d.objid
                   WHERE e.extname = 'pg_cron' AND n.nspname = 'cron');

-- Removes a job that was made for a schedule. pg_cron shows a role its own jobs only, lets no other
-- role remove them, and a number may be another role's job where a dump was restored. One that
-- stays does no harm: it asks for what is due, and of a schedule that is gone nothing is.
CREATE OR REPLACE FUNCTION holdfast_private.schedule_unjob(p_id uuid, p_job bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF cron_is_there()
       AND EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = 'cron' AND c.relname = 'job'
                       AND has_schema_privilege(n.oid, 'USAGE')
                       AND has_table_privilege(c.oid, 'SELECT')) THEN
        PERFORM cron.unschedule(j.jobid) FROM cron.job j
            WHERE j.jobid = p_job AND j.jobname = 'holdfast ' || p_id;
    END IF;
END
$$;

-- Gives a schedule its job of pg_cron, or takes it away: this is where it is decided what a job can
-- have. Only change_schedule_put, which every client uses, and changes by hand ask for it. The job
-- only says when to look: what is due, and whether another process was first, is decided as for all
-- others.
CREATE OR REPLACE FUNCTION holdfast_private.schedule_drive(p_schedule holdfast_private.schedules,
                                                           p_driver text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_zone text; -- NULL: not known, or not to us
    v_job  bigint;
BEGIN
    SELECT s.setting INTO v_zone FROM pg_settings s WHERE s.name = 'cron.timezone';
    IF p_driver IS NULL THEN
        NULL; -- pg_cron may be gone, or not ours to ask
    ELSIF p_driver <> 'pg_cron' THEN
        RAISE EXCEPTION 'driver is %; it takes pg_cron, or NULL', p_driver USING ERRCODE = 'HF001';
    ELSIF NOT cron_is_there() THEN
        RAISE EXCEPTION 'driver is pg_cron, and that extension is not installed in this database: '
            'CREATE EXTENSION pg_cron, or leave the driver out' USING ERRCODE = 'HF002';
    ELSIF v_zone NOT IN ('GMT', 'UTC', 'Etc/UTC', 'Etc/GMT') THEN
        RAISE EXCEPTION 'driver is pg_cron, whose setting cron.timezone is %; it has to be GMT',
            v_zone USING ERRCODE = 'HF002';
    ELSIF p_schedule.zone <> 'UTC' THEN
        RAISE EXCEPTION 'zone is %; pg_cron knows none but UTC', p_schedule.zone
            USING ERRCODE = 'HF001';
    END IF;
    PERFORM schedule_unjob(p_schedule.id, p_schedule.job);
    IF p_driver = 'pg_cron' THEN
        v_job := cron.schedule('holdfast ' || p_schedule.id, cron_for_job(p_schedule.expression),
                               format('SELECT holdfast.fire_schedule(%L)', p_schedule.id));
    END IF;
    UPDATE schedules s SET job = v_job WHERE s.id = p_schedule.id AND s.job IS DISTINCT FROM v_job;
END
$$;

-- Dropping a schedule, or its namespace, drops its job; changing it changes the job.
CREATE OR REPLACE FUNCTION holdfast_private.schedule_job() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF tg_op = 'UPDATE' THEN
        PERFORM schedule_drive(new, 'pg_cron');
    ELSE
        PERFORM schedule_unjob(old.id, old.job);
    END IF;
    RETURN NULL;
END
$$;

-- create_schedule: makes a schedule or changes the one of this name, and answers its id. Making the
-- same again changes nothing; if only the driver changes, it goes on waiting for the same time.
-- (hf_schedule_put does it so, too.) paused: from the beginning, if it is new.
CREATE OR REPLACE FUNCTION holdfast.create_schedule(namespace text, name text, expression text,
                                                    type text,
                                                    payload anycompatible DEFAULT 'null',
                                                    zone text DEFAULT 'UTC', key text DEFAULT NULL,
                                                    tenant text DEFAULT NULL,
                                                    metadata anycompatible DEFAULT NULL,
                                                    misfire text DEFAULT 'skip',
                                                    misfire_cap integer DEFAULT 100,
                                                    grace_ms bigint DEFAULT 60000,
                                                    driver text DEFAULT NULL,
                                                    paused boolean DEFAULT false,
                                                    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace namespaces := enter(p_ticket, create_schedule.namespace,
                                    'change schedules and delayed events of', 'publisher', 'owner');
    v_cron      cron := cron_parse(create_schedule.expression);
    v_now       timestamptz := clock_timestamp();
    v_payload   json;
    v_metadata  json;
    v_policy    integer := array_position('{skip,once,all}', create_schedule.misfire);
    v_schedule  schedules;
    v_same      boolean; -- all but who drives it
BEGIN
    PERFORM json_check('payload', create_schedule.payload);
    v_payload := create_schedule.payload;
    v_payload := coalesce(v_payload, 'null');
    v_metadata := create_schedule.metadata;
    PERFORM fault_check(schedule_fault(
        v_namespace.id, create_schedule.name, create_schedule.zone, create_schedule.type, v_payload,
        create_schedule.key, create_schedule.tenant, v_metadata, create_schedule.misfire,
        create_schedule.misfire_cap, create_schedule.grace_ms));
    PERFORM commit_durably();
    SELECT * INTO v_schedule FROM schedules s
        WHERE s.namespace_id = v_namespace.id AND s.name = create_schedule.name FOR UPDATE;
    v_same := FOUND AND (v_schedule.expression, v_schedule.zone, v_schedule.type,
                         v_schedule.payload::text, v_schedule.key, v_schedule.tenant,
                         v_schedule.metadata::text, v_schedule.policy, v_schedule.cap,
                         v_schedule.grace_us)
                        IS NOT DISTINCT FROM
                        (create_schedule.expression, create_schedule.zone, create_schedule.type,
                         v_payload::text, create_schedule.key, create_schedule.tenant,
                         v_metadata::text, v_policy, create_schedule.misfire_cap,
                         create_schedule.grace_ms * 1000);
    IF NOT v_same OR (v_schedule.job IS NULL) <> (create_schedule.driver IS NULL) THEN
        PERFORM change_schedule_put(
            v_namespace.id, new_id(v_now), create_schedule.name, create_schedule.expression,
            create_schedule.zone, create_schedule.type, v_payload, create_schedule.key,
            create_schedule.tenant, v_metadata, v_policy, create_schedule.misfire_cap,
            create_schedule.grace_ms * 1000,
            CASE WHEN v_same THEN v_schedule.next_at
                 ELSE cron_after(v_cron, create_schedule.zone, v_now) END, v_now,
            create_schedule.driver, create_schedule.paused, session_user::text, NULL);
    END IF;
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
    RETURN (schedule_find(p_ticket, create_schedule.namespace, create_schedule.name)).id;
END
$$;

-- drop_schedule: its events stay.
CREATE OR REPLACE FUNCTION holdfast.drop_schedule(namespace text, name text,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_schedule schedules := schedule_find(p_ticket, namespace, name);
BEGIN
    PERFORM change_schedule_remove(v_schedule.namespace_id, v_schedule.name);
END
$$;

-- pause_schedule: nothing fires until resume_schedule; times missed during a pause are skipped.
CREATE OR REPLACE FUNCTION holdfast.pause_schedule(namespace text, name text,
                                                   reason text DEFAULT NULL,
                                                   p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_schedule schedules := schedule_find(p_ticket, namespace, name);
BEGIN
    PERFORM change_schedule_pause(v_schedule.namespace_id, v_schedule.name, true,
                                  session_user::text, reason, NULL, clock_timestamp());
END
$$;

CREATE OR REPLACE FUNCTION holdfast.resume_schedule(namespace text, name text,
                                                    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_schedule  schedules := schedule_find(p_ticket, namespace, name);
    v_namespace namespaces := namespace_of(v_schedule.namespace_id);
    v_now       timestamptz := clock_timestamp();
BEGIN
    PERFORM change_schedule_pause(v_schedule.namespace_id, v_schedule.name, false, NULL, NULL,
                                  cron_after(cron_parse(v_schedule.expression), v_schedule.zone,
                                             v_now),
                                  v_now);
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
END
$$;

-- ---- Delayed events -----------------------------------------------------------------------------

-- publish_later: as publish, but the event is kept, in the caller's own transaction, and enters the
-- log when deliver_at has come by the server's clock: by the hand of a process, or of tick(). One
-- whose time is past enters it at the next of their turns. The answer's position is NULL unless the
-- id is in the log already; duplicate: it is, or waits already, and nothing was changed. A version
-- cannot be expected: the version at that time is not known. unique_key, unique_for: as publish; an
-- event that waits keeps its key at least as long, so unique_for may be left out. replace: one with
-- this key that waits is replaced by this one, which waits for its own time. HF001, HF003, HF011.
CREATE OR REPLACE FUNCTION holdfast.publish_later(namespace text, type text,
                                                  payload anycompatible,
                                                  deliver_at timestamptz,
                                                  INOUT id uuid DEFAULT NULL, key text DEFAULT NULL,
                                                  tenant text DEFAULT NULL,
                                                  metadata anycompatible DEFAULT NULL,
                                                  producer text DEFAULT NULL,
                                                  emitted_at timestamptz DEFAULT NULL,
                                                  unique_key text DEFAULT NULL,
                                                  unique_for interval DEFAULT NULL,
                                                  replace boolean DEFAULT false,
                                                  OUT "position" bigint, OUT duplicate boolean,
                                                  OUT replaced boolean,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'publish into', 'publisher', 'owner');
    v_payload   json;
    v_metadata  json;
    v_now       timestamptz := clock_timestamp();
    v_emitted   timestamptz := coalesce(emitted_at, v_now);
    v_fault     text;
    v_us        bigint := unique_us(unique_for);
    v_done      record;
BEGIN
    PERFORM json_check('payload', payload);
    v_payload := payload;
    v_payload := coalesce(v_payload, 'null');
    v_metadata := metadata;
    v_fault := coalesce(event_fault(v_namespace.id, type, v_payload, key, tenant, v_metadata,
                                    producer, NULL, v_emitted),
                        unique_fault(unique_key, v_us, true));
    IF v_fault IS NULL AND replace AND unique_key IS NULL THEN
        v_fault := 'replace is given but unique_key is NULL';
    ELSIF v_fault IS NULL AND deliver_at IS NULL THEN
        v_fault := 'deliver_at is missing; publish needs none';
    ELSIF v_fault IS NULL AND (deliver_at < '0001-01-01 00:00:00+00'
                               OR deliver_at >= '10000-01-01 00:00:00+00') THEN
        v_fault := 'deliver_at is outside the years 0001 to 9999';
    END IF;
    PERFORM fault_check(v_fault);
    PERFORM commit_durably();
    id := coalesce(id, new_id(v_now));
    v_done := change_delay(v_namespace.id, deliver_at, ARRAY[id], ARRAY[type], ARRAY[v_payload],
                           ARRAY[key], ARRAY[tenant], ARRAY[v_metadata], ARRAY[producer],
                           ARRAY[v_emitted], ARRAY[hash_of(coalesce(tenant, key, id::text))],
                           ARRAY[unique_key], ARRAY[v_us], coalesce(replace, false));
    id := coalesce(v_done.firsts[1], id);
    "position" := nullif(v_done.positions[1], 0);
    duplicate := v_done.duplicates[1];
    replaced := v_done.replaced[1];
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
END
$$;

-- ---- Firing -------------------------------------------------------------------------------------

-- The id of the event of a planned time, as schedule_event_id of src/bus/timers/schedule.c.
CREATE OR REPLACE FUNCTION holdfast_private.planned_id(p_schedule_id uuid, p_planned timestamptz)
    RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT lpad(to_hex(floor(us / 1000)::bigint), 12, '0') || '7' || substr(digest, 14, 3)
                   || substr('89ab', (('x' || substr(digest, 17, 1))::bit(4)::integer & 3) + 1, 1)
                   || substr(digest, 18)
            FROM (SELECT us, md5(uuid_send($1) || int8send(us::bigint)) AS digest
                  FROM (SELECT extract(epoch FROM $2) * 1000000 AS us) t) d)::uuid;

-- Publishes the events of these planned times, if the schedule still waits for what it waited for
-- when it was read. By hand: the one event, with a new id.
CREATE OR REPLACE FUNCTION holdfast_private.fire_times(
    p_schedule holdfast_private.schedules, p_times timestamptz[], p_next timestamptz,
    p_skipped_first timestamptz, p_skipped_last timestamptz, p_by_hand boolean, OUT ids uuid[],
    OUT positions bigint[])
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_sizes     integer[] := ARRAY[cardinality(p_times)];
    v_now       timestamptz := clock_timestamp();
    v_namespace namespaces := namespace_of(p_schedule.namespace_id);
    v_done      record;
BEGIN
    ids := ARRAY(SELECT CASE WHEN p_by_hand THEN new_id(v_now) ELSE planned_id(p_schedule.id, t) END
                 FROM unnest(p_times) WITH ORDINALITY u (t, i) ORDER BY i);
    PERFORM commit_durably();
    v_done := change_fire(
        p_schedule.namespace_id, p_by_hand, 'sql:' || session_user, v_now, 100,
        ARRAY[p_schedule.id], ARRAY[p_schedule.generation], ARRAY[p_schedule.next_at],
        ARRAY[p_next], ARRAY[p_skipped_first], ARRAY[p_skipped_last], array_fill(1, v_sizes),
        p_times, ids, array_fill(p_schedule.type, v_sizes), array_fill(p_schedule.payload, v_sizes),
        array_fill(p_schedule.key, v_sizes), array_fill(p_schedule.tenant, v_sizes),
        array_fill(p_schedule.metadata, v_sizes), array_fill('scheduler'::text, v_sizes),
        array_fill(p_schedule.id::text, v_sizes), p_times,
        ARRAY(SELECT hash_of(coalesce(p_schedule.tenant, p_schedule.key, i::text))
              FROM unnest(ids) WITH ORDINALITY u (i, n) ORDER BY n));
    IF NOT v_done.ours[1] THEN
        ids := '{}';
        positions := '{}';
        RETURN;
    END IF;
    positions := v_done.positions;
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
END
$$;

-- run_schedule: publishes its event now, also if it is paused. What it waits for stays.
CREATE OR REPLACE FUNCTION holdfast.run_schedule(namespace text, name text, OUT id uuid,
                                                 OUT "position" bigint,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_done record;
BEGIN
    v_done := fire_times(schedule_find(p_ticket, namespace, name), ARRAY[clock_timestamp()], NULL,
                         NULL, NULL, true);
    id := v_done.ids[1];
    "position" := v_done.positions[1];
    IF id IS NULL THEN
        RAISE EXCEPTION 'there is no schedule %', left(name, HF_SCHEDULE_NAME_BYTES_MAX)
            USING ERRCODE = 'HF003';
    END IF;
END
$$;

-- fire_schedule: fires what is due of one schedule; how many events that were: at most 100, and
-- about 4 MiB of them (schedule_due of src/bus/timers/schedule.c); the rest comes with the next
-- call. 0, too, if there is none, if it is paused, or if another process has fired it. Waits for a
-- transaction that fires it: a job of pg_cron comes once for a planned time, and if that
-- transaction is rolled back no other would fire it.
CREATE OR REPLACE FUNCTION holdfast.fire_schedule(p_id uuid,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_schedule schedules;
    v_now      timestamptz := clock_timestamp();
    v_bytes    integer;
    v_plan     record;
BEGIN
    IF NOT caller_has(holder(p_ticket), (SELECT s.namespace_id FROM schedules s WHERE s.id = p_id),
                    'publisher', 'owner') THEN
        RETURN 0;
    END IF;
    SELECT * INTO v_schedule FROM schedules s
        WHERE s.id = p_id AND s.next_at <= v_now AND s.paused_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_bytes := 128 + octet_length(concat(v_schedule.type, v_schedule.payload, v_schedule.key,
                                         v_schedule.tenant, v_schedule.metadata));
    v_plan := misfire_plan(cron_parse(v_schedule.expression), v_schedule.zone, v_schedule.policy,
                           v_schedule.cap, v_schedule.grace_us * interval '1 microsecond',
                           greatest(1, least(100, 4194304 / v_bytes)), v_schedule.next_at, v_now);
    RETURN cardinality((fire_times(v_schedule, v_plan.times, v_plan.next_at, v_plan.skipped_first,
                                   v_plan.skipped_last, false)).ids);
END
$$;

-- fire_due: fires what is due of a namespace, of at most p_max schedules, for a second at most: all
-- namespaces may be done in one transaction, and those who read any of them wait for its end.
-- fired: how many events that were; more: there is more of some of them. What cannot be read (its
-- zone is unknown to this server, and was known to the one that made it) is passed over, with a
-- warning, and so is what another transaction has locked: neither is in the way of others.
CREATE OR REPLACE FUNCTION holdfast_private.fire_due(p_namespace_id integer, p_max integer,
                                                     p_now timestamptz, OUT fired bigint,
                                                     OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_until   timestamptz := clock_timestamp() + interval '1 s';
    v_due     record;
    v_turns   integer := 0;
    v_refused integer := 0;
    v_why     text;
BEGIN
    fired := 0;
    more := false;
    FOR v_due IN SELECT s.id, s.name FROM schedules s
                 WHERE s.namespace_id = p_namespace_id AND s.next_at <= p_now
                     AND s.next_at IS NOT NULL AND s.paused_at IS NULL
                 ORDER BY s.next_at LOOP
        IF v_turns >= p_max OR clock_timestamp() > v_until THEN
            more := true;
            EXIT;
        END IF;
        PERFORM FROM schedules s WHERE s.id = v_due.id FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND; -- another session fires it; tick() is called again
        BEGIN
            fired := fired + fire_schedule(v_due.id);
            v_turns := v_turns + 1;
            more := more OR EXISTS (SELECT FROM schedules s
                                    WHERE s.id = v_due.id AND s.next_at <= p_now);
        EXCEPTION WHEN data_exception OR SQLSTATE 'HF001' THEN
            v_refused := v_refused + 1;
            v_why := coalesce(v_why, format('schedule %s: %s', v_due.name, sqlerrm));
        END;
    END LOOP;
    IF v_refused > 0 THEN
        RAISE WARNING '% of the schedules that are due cannot be fired; the first is %', v_refused,
            v_why;
    END IF;
END
$$;

-- tick_namespace: what tick does in one namespace.
CREATE OR REPLACE FUNCTION holdfast_private.tick_namespace(
    p_namespace holdfast_private.namespaces, p_max integer, p_now timestamptz, p_ticket bytea,
    OUT fired bigint, OUT released bigint, OUT months bigint, OUT more boolean,
    OUT next_at timestamptz)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    months := ensure_months(p_namespace.id);
    SELECT b.fired, b.released, b.more, b.next_at INTO fired, released, more, next_at
        FROM bring_due(p_namespace.id, p_max, p_now) b;
    PERFORM process_sweep(p_namespace.id, p_ticket)
        WHERE EXISTS (SELECT FROM processes p WHERE p.namespace_id = p_namespace.id
                          AND process_is_silent(p));
END
$$;

-- tick_apart: the same for callers that go through many namespaces. What is in one, and what
-- transactions that stay open hold there, must not be in the way of the others: it waits for no
-- other session, and one that fails is passed over with a warning, without having been changed.
CREATE OR REPLACE FUNCTION holdfast_private.tick_apart(
    p_namespace holdfast_private.namespaces, p_max integer, p_now timestamptz, p_ticket bytea,
    OUT fired bigint, OUT released bigint, OUT months bigint, OUT more boolean,
    OUT next_at timestamptz)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '200ms'
AS $$
DECLARE
    v_done    record;
    v_context text;
BEGIN
    v_done := tick_namespace(p_namespace, p_max, p_now, p_ticket);
    fired := v_done.fired;
    released := v_done.released;
    months := v_done.months;
    more := v_done.more;
    next_at := v_done.next_at;
EXCEPTION WHEN OTHERS THEN
    fired := 0;
    released := 0;
    months := 0;
    more := false;
    GET STACKED DIAGNOSTICS v_context = PG_EXCEPTION_CONTEXT;
    RAISE WARNING 'namespace % is passed over: %', p_namespace.name, sqlerrm || coalesce(
        '; it waited for ' || CASE WHEN sqlstate = '55P03' THEN row_holders(v_context) END, '');
END
$$;

-- tick: everything that a process would do by itself, for those who run none; of one namespace, or
-- of all. At most p_max schedules, and 1000 delayed events of each namespace: `more` says that it
-- should be called again at once, next_at when the next one is due (NULL: nothing waits). Call it
-- every second, outside of a transaction, from one place or from many. Of all namespaces, one in
-- which something fails or is locked is passed over, with a warning. A role does so in namespaces
-- in which it may publish or consume; of one that it names it must. 42501.
CREATE OR REPLACE FUNCTION holdfast.tick(namespace text DEFAULT NULL, p_max integer DEFAULT 1000,
                                         OUT fired bigint, OUT released bigint, OUT months bigint,
                                         OUT more boolean, OUT next_at timestamptz,
                                         p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller    oid := holder(p_ticket);
    v_namespace namespaces;
    v_done      record;
    v_now       timestamptz := clock_timestamp();
BEGIN
    fired := 0;
    released := 0;
    months := 0;
    more := false;
    IF namespace IS NOT NULL THEN
        PERFORM enter(p_ticket, namespace, 'bring what is due in', 'publisher', 'consumer',
                      'owner');
    END IF;
    PERFORM commit_durably();
    FOR v_namespace IN SELECT * FROM namespaces n
                       WHERE n.removing_at IS NULL AND n.copying IS NULL
                           AND (tick.namespace IS NULL OR n.name = tick.namespace)
                           AND caller_has(v_caller, n.id, 'publisher', 'consumer', 'owner')
                       ORDER BY n.id LOOP
        IF namespace IS NULL THEN
            v_done := tick_apart(v_namespace, p_max, v_now, p_ticket);
        ELSE
            v_done := tick_namespace(v_namespace, p_max, v_now, p_ticket);
        END IF;
        fired := fired + v_done.fired;
        released := released + v_done.released;
        months := months + v_done.months;
        more := more OR v_done.more;
        next_at := least(next_at, v_done.next_at);
    END LOOP;
    more := more OR fired >= p_max;
    IF v_caller IS NULL THEN
        PERFORM upkeep();
        PERFORM retain(namespace); -- last: it may lock a log to the end of the transaction
    END IF;
END
$$;
