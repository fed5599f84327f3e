-- The transaction that makes the schema or brings it up to date, in parts. script.c puts them
-- together: the engine runs them when it opens a database, and `holdfast migrate --print` writes
-- them for psql. What must hold is asked here and nowhere else.
--
-- {version}, {release}, {digest}: those of the program. {from}: the oldest program that may use
-- what it makes. {name of a statement}: its text. {step}, {text}: of what the part is repeated for.

-- name: install_settings
-- How the database is set must not matter to what is made. Bodies of functions are not checked,
-- because they may name what is made after them.
SET LOCAL statement_timeout = 0;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL default_table_access_method = heap;
SET LOCAL check_function_bodies = off;

-- name: install_fault
-- Refuses a schema that this role must not make or change: before the lock, which needs a right,
-- and after.
DO $holdfast_fault$
DECLARE
    v_exists boolean;
    v_text   text;
BEGIN
    EXECUTE $holdfast_query${schema_exists}$holdfast_query$ INTO v_exists;
    EXECUTE $holdfast_query${schema_use}$holdfast_query$ INTO v_text;
    IF v_text IS NULL THEN
        EXECUTE $holdfast_query${schema_fault}$holdfast_query$ INTO v_text USING NOT v_exists;
    END IF;
    IF v_text IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HF013', MESSAGE = v_text;
    END IF;
END
$holdfast_fault$;

-- name: install_check
-- Refuses a schema that does not take this version, or that is to be changed and is not as it was
-- made; says to the parts that follow where it is (holdfast.version) and whether its functions are
-- to be applied (holdfast.functions). A newer schema is left as it is.
DO $holdfast_check$
DECLARE
    v_exists  boolean;
    v_version bigint;
    v_whose   integer := HF_FUNCTIONS_OLDER;
    v_from    bigint;
    v_text    text;
    v_change  boolean;
BEGIN
    EXECUTE $holdfast_query${schema_exists}$holdfast_query$ INTO v_exists;
    IF v_exists THEN
        EXECUTE $holdfast_query${schema_state}$holdfast_query$ INTO v_version, v_whose, v_text,
            v_from USING '{digest}', '{release}';
    END IF;
    v_version := coalesce(v_version, 0);
    IF v_version > {version} AND coalesce(v_from, v_version) > {version} THEN
        RAISE EXCEPTION 'the schema holdfast has version %, and this is version {version}: '
                        'use a newer one', v_version USING ERRCODE = 'HF015';
    END IF;
    v_change := v_version < {version}
        OR (v_version = {version} AND v_whose IN (HF_FUNCTIONS_OTHER, HF_FUNCTIONS_OLDER));
    IF v_version > 0 AND v_change THEN
        EXECUTE $holdfast_query${schema_objects}$holdfast_query$ INTO v_text;
        EXECUTE $holdfast_query${verify_schema}$holdfast_query$ INTO v_text
            USING 1, v_text, {version};
        IF v_text IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'HF015', MESSAGE = v_text
                || '. Make it as it is in a new database of the version that made it, and remove '
                'what does not belong to Holdfast; `holdfast verify` of that version lists all';
        END IF;
    END IF;
    PERFORM set_config('holdfast.version', v_version::text, true),
            set_config('holdfast.functions', v_change::text, true);
END
$holdfast_check$;

-- name: install_step
DO $holdfast_step$
BEGIN
    IF current_setting('holdfast.version')::integer < {step} THEN
        EXECUTE $holdfast_text$
{text}$holdfast_text$;
    END IF;
END
$holdfast_step$;

-- name: install_functions
DO $holdfast_functions$
BEGIN
    IF current_setting('holdfast.functions')::boolean THEN
        EXECUTE $holdfast_text$
{text}$holdfast_text$;
    END IF;
END
$holdfast_functions$;

-- name: install_record
-- What was made, for `verify` and for the next time. Programs that have the database open look at
-- it when they are woken.
DO $holdfast_record$
DECLARE
    v_objects text;
BEGIN
    IF current_setting('holdfast.functions')::boolean THEN
        EXECUTE $holdfast_query${schema_objects}$holdfast_query$ INTO v_objects;
        INSERT INTO holdfast_private.meta (name, value)
            VALUES ('schema_version', '{version}'), ('functions_digest', '{digest}'),
                   ('functions_release', '{release}'), ('schema_objects', v_objects),
                   ('programs_from', '{from}'), ('schema_release', '{release}')
            ON CONFLICT (name) DO UPDATE SET value = excluded.value;
        PERFORM holdfast.wake(n.id) FROM holdfast_private.namespaces n;
    END IF;
END
$holdfast_record$;
