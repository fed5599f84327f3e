-- Cron expressions in time zones, for those who run no process of Holdfast: what
-- src/base/time/cron.c, timetable.c and misfire.c are in C, with the zones of the server. The rules
-- are written down there; tests/postgres/cron.sh compares the two.
--
-- Clocks are taken to be changed at most once in two days, and by less than a day.

-- ---- Reading ------------------------------------------------------------------------------------

-- One value of a field: a number or a name. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.cron_value(p_field text, p_text text, p_min integer,
                                                       p_max integer, p_names text[])
    RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_value integer := p_min + array_position(p_names, upper(p_text)) - 1;
BEGIN
    IF v_value IS NULL AND p_text ~ '^[0-9]+$' THEN
        v_value := least(p_text::numeric, 1000000);
    END IF;
    IF v_value IS NULL OR v_value NOT BETWEEN p_min AND p_max THEN
        RAISE EXCEPTION 'cron expression: % "%" is not one of the values % to %', p_field, p_text,
            p_min, p_max USING ERRCODE = 'HF001';
    END IF;
    RETURN v_value;
END
$$;

-- A field as its values, in order. p_last: the last one of *, p_max: the last that may be written.
CREATE OR REPLACE FUNCTION holdfast_private.cron_field(p_field text, p_text text, p_min integer,
                                                       p_last integer, p_max integer,
                                                       p_names text[])
    RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_part   text;
    v_match  text[];
    v_first  integer;
    v_end    integer;
    v_step   integer;
    v_values integer[] := '{}';
BEGIN
    FOREACH v_part IN ARRAY string_to_array(p_text, ',') LOOP
        v_match := regexp_match(v_part,
                                '^(?:([*?])|([0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?)(?:/([0-9]+))?$');
        v_step := least(coalesce(v_match[4]::numeric, 1), 1000000);
        IF v_match IS NULL OR v_match[1] = '?' AND p_field NOT LIKE 'day%'
           OR v_step NOT BETWEEN 1 AND p_last - p_min + 1 THEN
            RAISE EXCEPTION 'cron expression: % "%" is not understood', p_field, v_part
                USING ERRCODE = 'HF001';
        END IF;
        IF v_match[1] IS NOT NULL THEN
            v_first := p_min;
            v_end := p_last;
        ELSE
            v_first := cron_value(p_field, v_match[2], p_min, p_max, p_names);
            v_end := CASE WHEN v_match[3] IS NOT NULL
                              THEN cron_value(p_field, v_match[3], p_min, p_max, p_names)
                          WHEN v_match[4] IS NULL THEN v_first
                          WHEN v_first > p_last THEN p_max
                          ELSE p_last END;
            -- In SAT-SUN the week ends with Sunday.
            IF p_max = 7 AND v_end = 0 AND length(v_match[3]) = 3 THEN
                v_end := 7;
            END IF;
        END IF;
        IF v_end < v_first THEN
            RAISE EXCEPTION 'cron expression: % "%" runs backwards; write it as two ranges',
                p_field, v_part USING ERRCODE = 'HF001';
        END IF;
        v_values := v_values || ARRAY(SELECT CASE WHEN p_max = 7 THEN i % 7 ELSE i END
                                      FROM generate_series(v_first, v_end, v_step) i);
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT i FROM unnest(v_values) i ORDER BY i);
END
$$;

-- cron_every: the seconds of a period such as 1h30m, as parse_every of src/base/time/cron.c. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.cron_every(p_period text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_parts text[] := regexp_match(p_period,
        '^(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?$');
    v_ms    numeric;
BEGIN
    IF v_parts IS NULL OR p_period = '' THEN
        RAISE EXCEPTION 'cron expression: "%" is no period; @every takes whole numbers with units, '
            'the larger ones first: 30s, 5m, 1h30m, 7d', p_period USING ERRCODE = 'HF001';
    END IF;
    v_ms := (SELECT sum(coalesce(p, '0')::numeric * ms)
             FROM unnest(v_parts, '{604800000,86400000,3600000,60000,1000,1}'::numeric[])
                  u (p, ms));
    IF v_ms < 1000 OR v_ms % 1000 <> 0 OR v_ms > 31536000000 THEN
        RAISE EXCEPTION 'cron expression: @every "%" is out of range; it takes whole seconds, from '
            '1s to 365d', p_period USING ERRCODE = 'HF001';
    END IF;
    RETURN v_ms / 1000;
END
$$;

-- An expression of five or six fields, or one with an @. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.cron_parse(p_expression text)
    RETURNS holdfast_private.cron
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_words  json := '{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
                       "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
                       "@hourly": "0 * * * *"}';
    v_text   text := btrim(p_expression, E' \t');
    v_fields text[];
    v_cron   cron;
BEGIN
    IF octet_length(p_expression) > 255 OR p_expression ~ E'[^\t -~]' THEN
        RAISE EXCEPTION 'cron expression is longer than 255 bytes, or not plain ASCII'
            USING ERRCODE = 'HF001';
    END IF;
    v_fields := regexp_split_to_array(coalesce(v_words ->> lower(v_text), v_text), E'[ \t]+');
    IF cardinality(v_fields) = 2 AND lower(v_fields[1]) = '@every' THEN
        v_cron.every_s := cron_every(v_fields[2]);
        v_cron.runs := true;
        RETURN v_cron;
    END IF;
    IF cardinality(v_fields) = 5 THEN
        v_fields := array_prepend('0', v_fields);
    END IF;
    IF cardinality(v_fields) IS DISTINCT FROM 6 THEN
        RAISE EXCEPTION 'cron expression "%" has neither 5 nor 6 fields, and is no @word',
            p_expression USING ERRCODE = 'HF001';
    END IF;
    v_cron.seconds := cron_field('seconds', v_fields[1], 0, 59, 59, NULL);
    v_cron.minutes := cron_field('minute', v_fields[2], 0, 59, 59, NULL);
    v_cron.hours := cron_field('hour', v_fields[3], 0, 23, 23, NULL);
    v_cron.days := cron_field('day of month', v_fields[4], 1, 31, 31, NULL);
    v_cron.months := cron_field('month', v_fields[5], 1, 12, 12,
        '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}');
    v_cron.weekdays := cron_field('day of week', v_fields[6], 0, 6, 7,
                                  '{SUN,MON,TUE,WED,THU,FRI,SAT}');
    v_cron.either := v_fields[4] !~ '^[*?]' AND v_fields[6] !~ '^[*?]';
    v_cron.runs := v_fields[3] ~ '[*/]';
    -- The year 2000 is a leap year.
    IF NOT v_cron.either AND NOT EXISTS (
        SELECT FROM generate_series('2000-01-01'::date, '2000-12-31', '1 day') d
        WHERE extract(day FROM d) = ANY (v_cron.days)
            AND extract(month FROM d) = ANY (v_cron.months))
    THEN
        RAISE EXCEPTION 'cron expression never fires: none of its months has such a day of month'
            USING ERRCODE = 'HF001';
    END IF;
    RETURN v_cron;
END
$$;

-- ---- On the wall --------------------------------------------------------------------------------

-- The value of a set that is nearest to p_from, itself included, going up or down; or NULL.
CREATE OR REPLACE FUNCTION holdfast_private.cron_near(p_set integer[], p_from integer, p_up boolean)
    RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT CASE WHEN $3 THEN min(i) FILTER (WHERE i >= $2)
                        ELSE max(i) FILTER (WHERE i <= $2) END
            FROM unnest($1) i);

-- The time of day, in seconds, that is nearest to p_second; or NULL: none is left that day.
CREATE OR REPLACE FUNCTION holdfast_private.cron_time(p_cron holdfast_private.cron,
                                                      p_second integer, p_up boolean)
    RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_hour    integer := p_second / 3600;
    v_minute  integer := p_second / 60 % 60;
    v_next    integer;
    v_step    integer := CASE WHEN p_up THEN 1 ELSE -1 END;
    v_minutes integer := cron_near(p_cron.minutes, CASE WHEN p_up THEN 0 ELSE 59 END, p_up);
    v_seconds integer := cron_near(p_cron.seconds, CASE WHEN p_up THEN 0 ELSE 59 END, p_up);
BEGIN
    IF v_hour = ANY (p_cron.hours) THEN
        IF v_minute = ANY (p_cron.minutes) THEN
            v_next := cron_near(p_cron.seconds, p_second % 60, p_up);
            IF v_next IS NOT NULL THEN
                RETURN v_hour * 3600 + v_minute * 60 + v_next;
            END IF;
        END IF;
        v_next := cron_near(p_cron.minutes, v_minute + v_step, p_up);
        IF v_next IS NOT NULL THEN
            RETURN v_hour * 3600 + v_next * 60 + v_seconds;
        END IF;
    END IF;
    RETURN cron_near(p_cron.hours, v_hour + v_step, p_up) * 3600 + v_minutes * 60 + v_seconds;
END
$$;

-- The match nearest to a time of the wall, itself included; or NULL. The longest wait is for 29
-- February on one day of the week, 40 years.
CREATE OR REPLACE FUNCTION holdfast_private.cron_find(p_cron holdfast_private.cron,
                                                      p_wall timestamp, p_up boolean)
    RETURNS timestamp
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_day    date := p_wall;
    v_from   integer := extract(epoch FROM p_wall - v_day);
    v_second integer;
    v_month  boolean;
    v_days   boolean;
    v_week   boolean;
BEGIN
    FOR i IN 1 .. 41 * 366 LOOP
        v_month := extract(month FROM v_day) = ANY (p_cron.months);
        v_days := extract(day FROM v_day) = ANY (p_cron.days);
        v_week := extract(dow FROM v_day) = ANY (p_cron.weekdays);
        IF v_month AND (v_days AND v_week OR p_cron.either AND (v_days OR v_week)) THEN
            v_second := cron_time(p_cron, v_from, p_up);
            IF v_second IS NOT NULL THEN
                RETURN v_day + v_second * interval '1 second';
            END IF;
        END IF;
        v_from := CASE WHEN p_up THEN 0 ELSE 86399 END;
        v_day := CASE WHEN v_month THEN v_day + CASE WHEN p_up THEN 1 ELSE -1 END
                      WHEN p_up THEN (date_trunc('month', v_day) + interval '1 month')::date
                      ELSE date_trunc('month', v_day)::date - 1 END;
    END LOOP;
    RETURN NULL;
END
$$;

-- ---- In a zone ----------------------------------------------------------------------------------

-- How far the clocks of a zone are ahead of UTC at an instant.
CREATE OR REPLACE FUNCTION holdfast_private.zone_offset(p_zone text, p_at timestamptz)
    RETURNS interval
    LANGUAGE sql STABLE
    RETURN (p_at AT TIME ZONE p_zone) - (p_at AT TIME ZONE 'UTC');

-- The instant, after p_from and up to p_to, at which the clocks are changed. There is one.
CREATE OR REPLACE FUNCTION holdfast_private.zone_change(p_zone text, p_from timestamptz,
                                                        p_to timestamptz)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_offset interval := zone_offset(p_zone, p_from);
    v_low    timestamptz := p_from;
    v_high   timestamptz := p_to;
    v_middle timestamptz;
BEGIN
    WHILE v_high - v_low > interval '1 second' LOOP
        v_middle := v_low + floor(extract(epoch FROM v_high - v_low) / 2) * interval '1 second';
        IF zone_offset(p_zone, v_middle) = v_offset THEN
            v_low := v_middle;
        ELSE
            v_high := v_middle;
        END IF;
    END LOOP;
    RETURN v_high;
END
$$;

-- The latest time that the clocks have shown up to an instant.
CREATE OR REPLACE FUNCTION holdfast_private.zone_highest(p_zone text, p_at timestamptz)
    RETURNS timestamp
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_wall timestamp := p_at AT TIME ZONE p_zone;
    v_day  timestamptz := p_at - interval '24 hours';
BEGIN
    IF zone_offset(p_zone, v_day) > zone_offset(p_zone, p_at) THEN
        v_wall := greatest(v_wall, (zone_change(p_zone, v_day, p_at) - interval '1 second')
                                   AT TIME ZONE p_zone);
    END IF;
    RETURN v_wall;
END
$$;

-- The instant at which the clocks first show a time, or a later one.
CREATE OR REPLACE FUNCTION holdfast_private.zone_reached(p_zone text, p_wall timestamp)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_about timestamptz := p_wall AT TIME ZONE p_zone;
    v_from  timestamptz := v_about - interval '24 hours';
    v_to    timestamptz := v_about + interval '24 hours';
    v_first timestamptz := (p_wall - zone_offset(p_zone, v_from)) AT TIME ZONE 'UTC';
    v_last  timestamptz := (p_wall - zone_offset(p_zone, v_to)) AT TIME ZONE 'UTC';
BEGIN
    RETURN CASE
        WHEN v_first AT TIME ZONE p_zone = p_wall AND v_last AT TIME ZONE p_zone = p_wall
            THEN least(v_first, v_last)
        WHEN v_first AT TIME ZONE p_zone = p_wall THEN v_first
        WHEN v_last AT TIME ZONE p_zone = p_wall THEN v_last
        ELSE zone_change(p_zone, v_from, v_to) END;
END
$$;

-- The first real instant from p_from on (or the last up to it) at which the clocks match. A time of
-- the wall is looked up by the offset of the moment. If the clocks are changed on the way there,
-- the search goes on behind the change. A long way is cut short to a day before its end, if the
-- clocks do not show again what they have just shown.
CREATE OR REPLACE FUNCTION holdfast_private.cron_real(p_cron holdfast_private.cron, p_zone text,
                                                      p_from timestamptz, p_up boolean)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_day    interval := CASE WHEN p_up THEN interval '24 hours' ELSE interval '-24 hours' END;
    v_from   timestamptz := p_from;
    v_wall   timestamp;
    v_match  timestamp;
    v_at     timestamptz;
    v_end    timestamptz; -- no further than a day
    v_is_far boolean;
BEGIN
    FOR i IN 1 .. 100 LOOP
        v_wall := v_from AT TIME ZONE p_zone;
        v_match := cron_find(p_cron, v_wall, p_up);
        v_at := v_from + (v_match - v_wall);
        v_is_far := CASE WHEN p_up THEN v_at > v_from + v_day ELSE v_at < v_from + v_day END;
        v_end := CASE WHEN v_is_far THEN v_from + v_day ELSE v_at END;
        IF v_at IS NULL OR zone_offset(p_zone, v_end) = zone_offset(p_zone, v_from) THEN
            IF NOT v_is_far OR v_at IS NULL THEN
                RETURN v_at;
            END IF;
            v_from := v_at - v_day;
        ELSE
            v_from := CASE WHEN p_up THEN zone_change(p_zone, v_from, v_end)
                           ELSE zone_change(p_zone, v_end, v_from) - interval '1 second' END;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- cron_after, cron_previous: the first planned time strictly after an instant, the last one before
-- it; NULL: none.
CREATE OR REPLACE FUNCTION holdfast_private.cron_after(p_cron holdfast_private.cron, p_zone text,
                                                       p_after timestamptz)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_from timestamptz := date_trunc('second', p_after) + interval '1 second';
BEGIN
    IF p_cron.every_s > 0 THEN
        RETURN to_timestamp((floor(extract(epoch FROM p_after) / p_cron.every_s) + 1)
                            * p_cron.every_s);
    ELSIF p_cron.runs THEN
        RETURN cron_real(p_cron, p_zone, v_from, true);
    END IF;
    RETURN zone_reached(p_zone, cron_find(p_cron, zone_highest(p_zone, v_from - interval '1 second')
                                                  + interval '1 second', true));
END
$$;

CREATE OR REPLACE FUNCTION holdfast_private.cron_previous(p_cron holdfast_private.cron, p_zone text,
                                                          p_before timestamptz)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_until timestamptz := date_trunc('second', p_before - interval '1 microsecond');
BEGIN
    IF p_cron.every_s > 0 THEN
        RETURN to_timestamp((ceil(extract(epoch FROM p_before) / p_cron.every_s) - 1)
                            * p_cron.every_s);
    ELSIF p_cron.runs THEN
        RETURN cron_real(p_cron, p_zone, v_until, false);
    END IF;
    RETURN zone_reached(p_zone, cron_find(p_cron, zone_highest(p_zone, v_until), false));
END
$$;

-- cron_next: the first time after an instant at which an expression holds in a zone. It reads no
-- table, so it does not ask who calls.
CREATE OR REPLACE FUNCTION holdfast.cron_next(expression text, zone text DEFAULT 'UTC',
                                              after timestamptz DEFAULT now())
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN cron_after(cron_parse(expression), zone, after);
END
$$;

-- ---- What was missed ----------------------------------------------------------------------------

-- misfire_plan of C: what happens now to a schedule that waits for p_next. p_policy: 1 skip, 2
-- once, 3 all. At most p_times_max times in one firing. A planned time is on time during its whole
-- second, also if p_grace is shorter.
CREATE OR REPLACE FUNCTION holdfast_private.misfire_plan(
    p_cron holdfast_private.cron, p_zone text, p_policy integer, p_cap integer, p_grace interval,
    p_times_max integer, p_next timestamptz, p_now timestamptz, OUT times timestamptz[],
    OUT next_at timestamptz, OUT skipped_first timestamptz, OUT skipped_last timestamptz)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_late timestamptz := p_now - greatest(p_grace, interval '999999 microseconds');
BEGIN
    times := '{}';
    next_at := p_next;
    IF p_next < v_late THEN
        IF p_policy = HF_MISFIRE_SKIP THEN
            next_at := cron_after(p_cron, p_zone,
                                  greatest(p_next, v_late - interval '1 microsecond'));
        ELSE
            next_at := greatest(p_next, cron_previous(p_cron, p_zone, v_late));
            FOR i IN 2 .. CASE WHEN p_policy = HF_MISFIRE_ALL THEN p_cap ELSE 1 END LOOP
                EXIT WHEN next_at <= p_next;
                next_at := greatest(p_next, cron_previous(p_cron, p_zone, next_at));
            END LOOP;
        END IF;
    END IF;
    IF next_at IS DISTINCT FROM p_next THEN
        skipped_first := p_next;
        skipped_last := greatest(p_next, cron_previous(p_cron, p_zone, coalesce(next_at, v_late)));
    END IF;
    WHILE next_at <= p_now AND cardinality(times) < p_times_max LOOP
        times := times || next_at;
        next_at := cron_after(p_cron, p_zone, next_at);
    END LOOP;
END
$$;
