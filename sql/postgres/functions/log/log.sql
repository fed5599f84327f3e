-- The log as a whole.

-- head: the newest position ever given in a namespace; 0 if none. After a crash of the server it
-- may be up to 32 more. It reads the sequence like a table: that takes no lock that a publisher
-- takes, so no session is mistaken for one (drawn_<id>, reading.sql).
CREATE OR REPLACE FUNCTION holdfast.head(p_namespace_id integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_head bigint;
BEGIN
    SELECT h.head INTO v_head FROM read_heads() h WHERE h.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        EXECUTE 'SELECT CASE WHEN is_called THEN last_value ELSE 0 END '
                'FROM holdfast.drawn_' || p_namespace_id || '()' INTO v_head;
    END IF;
    RETURN v_head;
END
$$;
