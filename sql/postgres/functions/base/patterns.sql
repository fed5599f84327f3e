-- Patterns: which types a subscription wants.

-- patterns_regex: patterns as one regular expression; NULL: they match every type. This is the only
-- place that makes one; base/text/glob.h says what a pattern matches. A pattern has at most one
-- '.+', at its end, so no choice is made twice: matching takes time in proportion to the type, and
-- to the expression.
CREATE OR REPLACE FUNCTION holdfast.patterns_regex(p_patterns text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_patterns && '{*,**}' THEN
        RETURN NULL;
    END IF;
    RETURN coalesce(
        (SELECT '^(?:' || string_agg((
             SELECT string_agg(CASE WHEN s = '*' THEN '[^.]+' WHEN s = '**' THEN '.+'
                 ELSE regexp_replace(s, '([!-/:-@[-`{-~])', E'\\\\\\1', 'g') END, E'\\.' ORDER BY i)
             FROM unnest(string_to_array(p, '.')) WITH ORDINALITY segments (s, i)), '|') || ')$'
         FROM unnest(p_patterns) p), '^$');
END
$$;
