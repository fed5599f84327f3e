-- What publish answers is a type with a name: the columns of a function's parameters are looked up
-- in every call. functions/ makes publish anew.
--   A publisher reads the row of the namespace, from its oldest version on, and old versions are
-- only removed when a page is fuller than fillfactor. The first ones are what a transaction has
-- locked and a savepoint of it has changed, and cost more than all others.
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
ALTER TABLE holdfast_private.namespaces SET (fillfactor = 10);
