-- Patterns, and places: where in the log a subscription begins or is moved to.

-- Why patterns are refused; NULL if they are good.
CREATE OR REPLACE FUNCTION holdfast_private.patterns_fault(p_name text, p_patterns text[])
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_count integer := coalesce(cardinality(p_patterns), 0);
    v_fault text;
BEGIN
    IF v_count NOT BETWEEN 1 AND 64 THEN
        RETURN format('subscription %s: %s patterns; it takes 1 to 64', p_name, v_count);
    END IF;
    SELECT f.fault INTO v_fault
        FROM unnest(p_patterns) WITH ORDINALITY p (pattern, place),
             LATERAL (SELECT CASE WHEN p.pattern IS NULL
                                  THEN format('subscription %s: pattern is NULL', p_name)
                                  ELSE glob_fault(p.pattern, 'pattern') END) f (fault)
        WHERE f.fault IS NOT NULL ORDER BY p.place LIMIT 1;
    RETURN v_fault;
END
$$;

-- The newest position that was ever drawn, when no transaction is left that may have drawn it or
-- one below and has not ended, as postgres_now of C: whatever is at or below it is decided, but for
-- what the caller's own transaction has published. Those that were publishing at the first look are
-- waited for, and those that are prepared in any case, as for a hole (holes.sql). HF007.
CREATE OR REPLACE FUNCTION holdfast_private.now_find(p_namespace holdfast_private.namespaces)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_wait  constant interval := '10 s';
    v_until timestamptz := clock_timestamp() + c_wait;
    v_head  bigint := head(p_namespace.id);
    v_first record;                             -- the first look
    v_now   record;
    v_pid   integer;
BEGIN
    v_first := hole_holders(p_namespace.id, false);
    v_now := v_first;
    WHILE NOT witnesses_gone(v_first.holders, v_now.holders, v_now.prepared) LOOP
        IF clock_timestamp() > v_until THEN
            SELECT min(l.pid) INTO v_pid FROM publishing_now(p_namespace.id) l
                WHERE l.virtualtransaction = ANY (v_first.holders);
            RAISE EXCEPTION USING ERRCODE = 'HF007', MESSAGE = coalesce(
                'a transaction of the server''s process ' || v_pid, 'a prepared transaction')
                || ' has published and does not end';
        END IF;
        PERFORM pg_sleep(0.01);
        v_now := hole_holders(p_namespace.id, false);
    END LOOP;
    RETURN v_head;
END
$$;

-- What a place says, whatever there is in the log: one of three words, a position, or a time; NULL
-- is none of them. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.place_read(p_place text, OUT word text,
                                                       OUT "position" numeric,
                                                       OUT "time" timestamptz)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_place IN ('start', 'now', 'end') THEN
        word := p_place;
    ELSIF p_place ~ '^-[0-9]{1,100}$' THEN
        RAISE EXCEPTION 'position is %; it must be 0 or more', p_place USING ERRCODE = 'HF001';
    ELSIF p_place ~ '^[0-9]{1,100}$' THEN
        "position" := p_place;
    ELSE
        BEGIN
            "time" := p_place;
        EXCEPTION WHEN data_exception THEN
            RAISE EXCEPTION 'place is %; it takes start, now, a position or a time',
                left(p_place, 64) USING ERRCODE = 'HF001';
        END;
        IF "time" < '0001-01-01 00:00:00+00' OR "time" >= '10000-01-01 00:00:00+00' THEN
            RAISE EXCEPTION 'place is the time %, which is outside the years 0001 to 9999', "time"
                USING ERRCODE = 'HF001';
        END IF;
    END IF;
END
$$;

-- A place as the position after which reading begins. count: how many positions come after it.
-- HF001, HF007.
CREATE OR REPLACE FUNCTION holdfast_private.place_find(p_namespace holdfast_private.namespaces,
                                                       p_place text, OUT "position" bigint,
                                                       OUT count bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    v_place record := place_read(p_place);
    v_head  bigint := head(p_namespace.id);
    v_first bigint;
BEGIN
    EXECUTE format('SELECT least($1, (SELECT e.position FROM holdfast_private.events_%s e '
                   'ORDER BY e.position LIMIT 1))', p_namespace.id)
        INTO v_first USING p_namespace.retained_through + 1;
    IF p_place IS NULL THEN
        RAISE EXCEPTION 'no place is given: say start, now, a position or a time'
            USING ERRCODE = 'HF001';
    ELSIF v_place.word = 'start' THEN
        "position" := v_first - 1;
    ELSIF v_place.word IN ('now', 'end') THEN
        "position" := now_find(p_namespace);
    ELSIF v_place."position" > v_head THEN
        RAISE EXCEPTION 'position % is beyond the end of the log, which is %', p_place, v_head
            USING ERRCODE = 'HF001';
    ELSIF v_place."position" IS NOT NULL THEN
        "position" := v_place."position";
    ELSE
        "position" := position_before(p_namespace.id, v_place."time");
    END IF;
    count := greatest(0, v_head - greatest("position", v_first - 1));
END
$$;
