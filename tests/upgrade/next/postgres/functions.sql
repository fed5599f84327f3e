CREATE OR REPLACE FUNCTION holdfast.next_note() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN (SELECT count(*) FROM holdfast_private.next);
