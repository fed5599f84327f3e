-- Options of subscriptions: defaults, limits, and how they are written down.

-- The list of src/bus/options.def. words: the option is one of these, and initial is its number,
-- from 1; NULL: it is a number, of so many decimal places.
CREATE OR REPLACE FUNCTION holdfast.option_rows()
    RETURNS TABLE (place integer, name text, initial numeric, low numeric, high numeric,
                   decimals integer, words text[])
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    VALUES
        OPTION_ROWS
$$;

-- The known option that has most pairs of letters in common with a mistyped one; NULL: none has
-- many.
CREATE OR REPLACE FUNCTION holdfast_private.option_near(p_name text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    WITH pairs AS (
            SELECT DISTINCT w.name, substr(w.name, i, 2) AS pair
            FROM (SELECT lower(left(p_name, 64)) UNION SELECT r.name FROM option_rows() r) w (name),
                 generate_series(1, length(w.name) - 1) i),
        near AS (
            SELECT k.name, count(g.pair) * 2.0 / (count(*) + (
                       SELECT count(*) FROM pairs p WHERE p.name = lower(left(p_name, 64)))) AS near
            FROM pairs k JOIN option_rows() r ON r.name = k.name
            LEFT JOIN pairs g ON g.name = lower(left(p_name, 64)) AND g.pair = k.pair
            GROUP BY k.name)
    SELECT n.name FROM near n WHERE n.near >= 0.5 ORDER BY n.near DESC, n.name LIMIT 1
$$;

-- What a caller gives: options, and two of them that have arguments of their own. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.options_given(p_options jsonb, p_mode text,
                                                          p_partitions integer)
    RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_options jsonb := coalesce(p_options, '{}');
    v_apart   jsonb := jsonb_strip_nulls(jsonb_build_object('mode', p_mode, 'partitions',
                                                            p_partitions));
    v_name    text;
BEGIN
    IF jsonb_typeof(v_options) <> 'object' THEN
        RAISE EXCEPTION 'options is JSON but not an object' USING ERRCODE = 'HF001';
    END IF;
    SELECT k.name INTO v_name FROM jsonb_object_keys(v_options) k (name)
        WHERE k.name NOT IN (SELECT r.name FROM option_rows() r) ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = concat(
            'there is no option ', left(v_name, 64), '; did you mean ' || option_near(v_name)
            || '?');
    END IF;
    SELECT k.name INTO v_name FROM jsonb_object_keys(v_apart) k (name)
        WHERE v_options ? k.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is given twice: as an argument, and among the options', v_name
            USING ERRCODE = 'HF001';
    END IF;
    RETURN v_options || v_apart;
END
$$;

-- Why a value of an option is refused; NULL if it is good.
CREATE OR REPLACE FUNCTION holdfast_private.option_fault(p_name text, p_value jsonb, p_low numeric,
                                                         p_high numeric, p_decimals integer,
                                                         p_words text[])
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_shown text := left(p_value #>> '{}', 64);
BEGIN
    IF p_words IS NOT NULL THEN
        RETURN CASE WHEN jsonb_typeof(p_value) = 'string' AND p_value #>> '{}' = ANY (p_words)
                        THEN NULL
                    ELSE format('%s is %s; it must be one of %s', p_name, coalesce(v_shown, 'null'),
                                array_to_string(p_words, ', ')) END;
    ELSIF jsonb_typeof(p_value) <> 'number' THEN
        v_shown := left(p_value::text, 64);
    ELSIF p_value::numeric BETWEEN p_low AND p_high
          AND (p_decimals > 0 OR p_value::numeric = trunc(p_value::numeric)) THEN
        RETURN NULL;
    ELSIF p_decimals > 0 THEN
        v_shown := left(round(p_value::numeric, p_decimals)::text, 64);
    END IF;
    RETURN format('%s is %s; it must be %s to %s', p_name, v_shown, round(p_low, p_decimals),
                  round(p_high, p_decimals));
END
$$;

-- What does not go together, as options_check of C has it; NULL if all is good.
CREATE OR REPLACE FUNCTION holdfast_private.options_clash(p_options jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT CASE
        WHEN retry_max_ms < retry_base_ms THEN
            format('retry_max_ms is %s; it must be at least retry_base_ms (%s)', retry_max_ms,
                   retry_base_ms)
        WHEN partitions > 1 AND mode = 'shared' THEN
            format('partitions is %s; a shared subscription has 1: any number of processes work '
                   'for it as it is', partitions)
        WHEN "order" = 'strict' AND mode = 'shared' THEN
            'order is strict, and a shared subscription has no order: its workers take batches at '
            'the same time'
        WHEN partitions > 1 AND "order" = 'strict' THEN
            format('partitions is %s; in strict order there can only be 1, because all events come '
                   'one after another', partitions)
        WHEN on_batch_failure = 'split' AND on_poison = 'block_key' THEN
            'on_batch_failure is split, which goes with on_poison skip or halt: the neighbours '
            'of a poison event live, and block_key would keep them back'
        WHEN on_poison = 'block_key' AND mode = 'shared' THEN
            'on_poison is block_key, and a shared subscription has no order of keys to keep: use '
            'skip or halt, or an ordered subscription' END
    FROM jsonb_to_record(p_options) o (retry_max_ms bigint, retry_base_ms bigint,
                                       partitions integer, mode text, "order" text,
                                       on_batch_failure text, on_poison text)
$$;

-- Options that are stored, or none, with those that are given: complete, as JSON the way C writes
-- it. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.options_merge(p_stored jsonb, p_given jsonb)
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET extra_float_digits = 1
AS $$
DECLARE
    v_options jsonb;
    v_fault   text;
    v_text    text;
BEGIN
    SELECT jsonb_object_agg(r.name, coalesce(p_given -> r.name, p_stored -> r.name,
                                             to_jsonb(r.words[r.initial::integer]),
                                             to_jsonb(r.initial)))
        INTO v_options FROM option_rows() r;
    SELECT f.fault INTO v_fault
        FROM option_rows() r,
             LATERAL option_fault(r.name, v_options -> r.name, r.low, r.high, r.decimals,
                                  r.words) f (fault)
        WHERE f.fault IS NOT NULL ORDER BY r.place LIMIT 1;
    PERFORM fault_check(coalesce(v_fault, options_clash(v_options)));
    SELECT '{' || string_agg(concat('"', r.name, '":', CASE
                WHEN r.words IS NOT NULL THEN (v_options -> r.name)::text
                WHEN r.decimals > 0 THEN (v_options ->> r.name)::double precision::text
                ELSE (v_options ->> r.name)::numeric::bigint::text END), ',' ORDER BY r.place)
            || '}'
        INTO v_text FROM option_rows() r;
    RETURN v_text;
END
$$;
