-- What publish answers is a type with a name: the columns of a function's parameters are looked up
-- in every call. functions/ makes publish anew.
-- older programs: work
-- older schema: works
CREATE TYPE holdfast.published AS (
    id          uuid,
    "position"  bigint,
    duplicate   boolean,
    key_version bigint
);
DROP FUNCTION IF EXISTS holdfast.publish(text, text, anycompatible, uuid, text, text, anycompatible,
    text, bigint, timestamptz, text, interval, bytea);
DROP FUNCTION IF EXISTS holdfast_private.publish_place(text, timestamptz);
