-- Grants: which role of the server has which part in which namespace, and the policies that ask for
-- them. functions/schema/grants.sql tells what each part may do.

CREATE TABLE holdfast_private.grants (
    namespace_id integer NOT NULL,
    grantee      regrole NOT NULL,
    role         text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'publisher', 'consumer',
                                                           'owner')),
    granted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace_id, grantee, role)
);

-- ---- Policies -----------------------------------------------------------------------------------

-- Declared here because the policies need it; functions/schema/grants.sql has its body.
CREATE FUNCTION holdfast.namespaces_of(VARIADIC p_roles text[]) RETURNS integer[]
    LANGUAGE plpgsql STABLE AS 'BEGIN RETURN NULL; END';

-- Who sees the rows of each table. Those of subscriptions and schedules go with them. Only the
-- owner of the schema writes any.
DO $$
DECLARE
    c_all        constant text := $f$'viewer', 'publisher', 'consumer', 'owner'$f$;
    c_readers    constant text := $f$'viewer', 'consumer', 'owner'$f$;
    c_publishers constant text := $f$'publisher', 'owner'$f$;
    t            record;
BEGIN
    FOR t IN
        SELECT * FROM (VALUES
            ('namespaces', 'id', c_all), ('processes', 'namespace_id', c_all),
            ('past_nodes', 'namespace_id', c_all), ('events', 'namespace_id', c_readers),
            ('heads', 'namespace_id', c_all), ('event_ids', 'namespace_id', c_all),
            ('keys', 'namespace_id', c_all), ('schedules', 'namespace_id', c_publishers),
            ('delayed', 'namespace_id', c_publishers), ('subscriptions', 'namespace_id', c_readers),
            ('letters', 'namespace_id', c_readers), ('members', NULL, NULL),
            ('partitions', NULL, NULL),
            ('checkpoints_0', NULL, NULL), ('checkpoints_1', NULL, NULL), ('leases', NULL, NULL),
            ('retries', NULL, NULL), ('copies', NULL, NULL), ('settled', NULL, NULL))
            v (name, "column", see)
    LOOP
        EXECUTE format('ALTER TABLE holdfast_private.%I ENABLE ROW LEVEL SECURITY', t.name);
        EXECUTE format('CREATE POLICY see ON holdfast_private.%I FOR SELECT USING (%s)', t.name,
            CASE WHEN t."column" IS NOT NULL THEN
                format('%I = ANY ((SELECT holdfast.namespaces_of(%s))::integer[])', t."column",
                       t.see)
            ELSE 'EXISTS (SELECT FROM holdfast_private.subscriptions s WHERE s.id = '
                 'subscription_id)' END);
    END LOOP;
    ALTER TABLE holdfast_private.schedule_runs ENABLE ROW LEVEL SECURITY;
    CREATE POLICY see ON holdfast_private.schedule_runs FOR SELECT
        USING (EXISTS (SELECT FROM holdfast_private.schedules s WHERE s.id = schedule_id));
    ALTER TABLE holdfast_private.grants ENABLE ROW LEVEL SECURITY;
    CREATE POLICY see ON holdfast_private.grants FOR SELECT USING (pg_has_role(grantee, 'USAGE'));
END
$$;

-- Declared here because the trigger needs it; functions/schema/grants.sql has its body.
CREATE FUNCTION holdfast_private.grants_drop() RETURNS trigger
    LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER grants_drop AFTER DELETE ON holdfast_private.namespaces
    FOR EACH ROW EXECUTE FUNCTION holdfast_private.grants_drop();
