-- Tickets: how a function that runs with its owner's rights learns who has called it, and whether
-- the caller may. tables/0001_schema.sql says why.

-- Whose process it is. It counts as dead when its row is gone, so who does not consume removes none
-- but its own. A role is known by its number: its name may change while it runs. (A regrole would
-- be dumped as a name, and rows of processes that are long gone could keep a dump from being
-- restored.)
CREATE OR REPLACE FUNCTION holdfast_private.role_id() RETURNS oid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN quote_ident(current_user)::regrole::oid;

-- A ticket: the caller's number, and what only who knows the secret can compute of it. It is good
-- in this transaction of this session only.
CREATE OR REPLACE FUNCTION holdfast_private.ticket_make(p_caller oid, p_secret bytea) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN oidsend(p_caller) || sha256(p_secret || oidsend(p_caller) || int4send(pg_backend_pid())
                                       || timestamptz_send(transaction_timestamp()));

-- tickets: a view of one row, the ticket of its reader. A view reads tables with the rights of its
-- owner and computes expressions as its reader: so it knows the secret, and current_user is the
-- role that reads. There is no value that a reader could give.
SELECT holdfast_private.view_make('holdfast_private.tickets', 'security_barrier = on', $view$
    SELECT holdfast_private.ticket_make(holdfast_private.role_id(), s.secret) AS ticket
    FROM holdfast_private.secret s
$view$);

CREATE OR REPLACE FUNCTION holdfast.read_tickets() RETURNS SETOF bytea
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT t.ticket FROM holdfast_private.tickets t;
END;

-- passes: whether the caller passes by all policies, as the owner of the schema does and a
-- superuser.
CREATE OR REPLACE FUNCTION holdfast.passes() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN NOT row_security_active('holdfast_private.secret'::regclass);

-- owner_check: true if the caller passes by all policies, or 42501: what it may not do.
CREATE OR REPLACE FUNCTION holdfast.owner_check(p_deed text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT passes() THEN
        RAISE EXCEPTION '% may not %: it is for the owner of the schema', current_user, p_deed
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN true;
END
$$;

-- knows_secret: whether the caller can read the secret itself.
CREATE OR REPLACE FUNCTION holdfast.knows_secret() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN NOT row_security_active('holdfast_private.secret'::regclass)
        AND has_table_privilege('holdfast_private.secret'::regclass, 'SELECT');

-- is_owner: whether the caller has all rights of the owner of the schema, owner_id. A session reads
-- that once. If the schema is given to another role meanwhile, the old owner is refused by the
-- server itself what it may not do any more.
CREATE OR REPLACE FUNCTION holdfast.owner_id() RETURNS oid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT c.relowner FROM pg_class c WHERE c.oid = 'holdfast_private.secret'::regclass);

CREATE OR REPLACE FUNCTION holdfast.is_owner() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_has_role(holdfast.owner_id(), 'USAGE');

-- secret_value, secret_digest: the secret, and what may be seen of it. It is written once, when the
-- schema is made, so they are called immutable: a session reads it once, when it makes the plan of
-- an expression that has one of them. Every role can have the plans shown that are made for it
-- (debug_print_plan), also those of functions that run with their owner's rights. So only what the
-- caller itself runs has secret_value.
CREATE OR REPLACE FUNCTION holdfast_private.secret_value() RETURNS bytea
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT s.secret FROM holdfast_private.secret s);

CREATE OR REPLACE FUNCTION holdfast_private.secret_digest() RETURNS bytea
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT sha256(s.secret) FROM holdfast_private.secret s);

-- ticket: the default of p_ticket. A caller that knows the secret has the secret itself for a
-- ticket, which costs less. It has no search_path of its own, which would cost as much again as all
-- of it: every name has its schema, and there are no operators.
CREATE OR REPLACE FUNCTION holdfast.ticket() RETURNS bytea
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF holdfast.knows_secret() THEN
        RETURN holdfast_private.secret_value();
    END IF;
    RETURN (SELECT t FROM holdfast.read_tickets() t);
END
$$;

-- holder: the caller whose ticket this is. 42501: it is none of this transaction.
CREATE OR REPLACE FUNCTION holdfast_private.holder(p_ticket bytea) RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_secret bytea := (SELECT s.secret FROM secret s);
    v_caller oid;
BEGIN
    IF p_ticket = v_secret THEN
        RETURN NULL;
    END IF;
    v_caller := ('x' || encode(substr(p_ticket, 1, 4), 'hex'))::bit(32)::bigint::oid;
    IF (ticket_make(v_caller, v_secret) = p_ticket) IS NOT TRUE THEN -- NULL is no ticket either
        RAISE EXCEPTION 'p_ticket is not a ticket of this transaction: leave the parameter out'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN v_caller;
END
$$;

-- caller_has: whether the caller has one of these in a namespace.
CREATE OR REPLACE FUNCTION holdfast_private.caller_has(p_caller oid, p_namespace_id integer,
                                               VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN p_caller IS NULL OR EXISTS (
        SELECT FROM grants g
        WHERE g.namespace_id = p_namespace_id AND g.role = ANY (p_roles)
            AND pg_has_role(p_caller, g.grantee::oid, 'USAGE'));
END
$$;

-- admit: the caller, if it has one of these in the namespace with this id. 42501: who may not do
-- what. The name of a namespace is told only to those who have a part in it.
CREATE OR REPLACE FUNCTION holdfast_private.admit(p_ticket bytea, p_namespace_id integer,
                                                  p_deed text, VARIADIC p_roles text[])
    RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
BEGIN
    IF p_ticket = (SELECT s.secret FROM secret s) THEN
        RETURN NULL; -- as holder, but at once
    END IF;
    v_caller := holder(p_ticket);
    IF NOT caller_has(v_caller, p_namespace_id, VARIADIC p_roles) THEN
        RAISE EXCEPTION '% may not % namespace %', pg_get_userbyid(v_caller), p_deed, coalesce(
            (SELECT n.name FROM namespaces n WHERE n.id = p_namespace_id
                 AND caller_has(v_caller, n.id, 'viewer', 'publisher', 'consumer', 'owner')),
            format('with id %s', p_namespace_id)) USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN v_caller;
END
$$;

-- enter: the namespace of this name, as namespace_find has it, if the caller has one of these in
-- it. For who has no part in it at all there is none (HF003). 42501 as admit.
CREATE OR REPLACE FUNCTION holdfast_private.enter(p_ticket bytea, p_namespace text, p_deed text,
                                          VARIADIC p_roles text[])
    RETURNS holdfast_private.namespaces
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller    oid := holder(p_ticket);
    v_namespace namespaces;
BEGIN
    IF v_caller IS NOT NULL THEN
        SELECT * INTO v_namespace FROM namespaces n WHERE n.name = p_namespace;
        IF NOT caller_has(v_caller, v_namespace.id, 'viewer', 'publisher', 'consumer', 'owner') THEN
            RAISE EXCEPTION 'there is no namespace %', left(p_namespace, 255)
                USING ERRCODE = 'HF003';
        END IF;
        PERFORM admit(p_ticket, v_namespace.id, p_deed, VARIADIC p_roles);
    END IF;
    RETURN namespace_find(p_namespace);
END
$$;

-- consumer_admit: admit for a consumer that works as the process with this token, which is one of
-- the namespace, or none that is registered; NULL: as none. p_now: its clock; NULL: it does not
-- matter.
CREATE OR REPLACE FUNCTION holdfast_private.consumer_admit(p_ticket bytea, p_namespace_id integer,
                                                   p_token uuid, p_now timestamptz) RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
BEGIN
    IF p_ticket = (SELECT s.secret FROM secret s) THEN
        RETURN NULL; -- as admit, but at once
    END IF;
    v_caller := admit(p_ticket, p_namespace_id, 'change the subscriptions of', 'consumer', 'owner');
    PERFORM process_check(p_namespace_id, p_token, v_caller);
    PERFORM clock_check(v_caller, p_now);
    RETURN v_caller;
END
$$;
