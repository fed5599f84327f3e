CREATE OR REPLACE FUNCTION holdfast.next_note() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN (SELECT count(*) FROM holdfast_private.next);
-- As if each namespace had one.
CREATE OR REPLACE FUNCTION holdfast_private.extra_1() RETURNS integer
    LANGUAGE sql
    RETURN 1;
