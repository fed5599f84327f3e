#!/usr/bin/env bash
# What others have put into schemas of a role's search_path is never called, and a schema that
# others could have prepared is not used.
#
# The first half plants functions and operators in `public`, one for each of the server's own that
# has ordinary types, and some for pairs of types that the server would convert, in a database where
# `public` comes before pg_catalog. Each of them counts its calls in a sequence, which no rollback
# takes back.
. "$(dirname "$0")/lib.sh"
cluster
keep
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ ! -x "$HOLDFAST" ]; then
    skip "all claims about planted functions" "there is no $HOLDFAST"
    done_testing
    exit
fi
export PGOPTIONS='-c client_min_messages=warning -c search_path=pg_catalog'
out=$cluster_dir.out
# hf ROLE ARGUMENTS: the command, with the search_path of the database.
hf() {
    local role=$1 code=0
    shift
    env -u PGOPTIONS "$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=$role" \
        "$@" >"$out" 2>&1 || code=$?
    [ "$code" = 0 ] || cat "$out"
    return "$code"
}
# as ROLE SQL: the same for psql.
as() { env -u PGOPTIONS psql -qXAt -v ON_ERROR_STOP=1 -U "$1" -c "$2" 2>&1; }
database() { psql -qX -d postgres -c "CREATE DATABASE $1" || exit 1; export PGDATABASE=$1; }

# ---- Planted in public --------------------------------------------------------------------------

database planted
sql "CREATE ROLE app LOGIN; CREATE ROLE seller LOGIN;
    GRANT CREATE ON DATABASE planted TO app" >/dev/null
sql "ALTER DATABASE planted SET search_path = public, pg_catalog; CREATE SEQUENCE public.calls;
     GRANT ALL ON SEQUENCE public.calls TO PUBLIC; GRANT ALL ON SCHEMA public TO PUBLIC;
     CREATE TABLE public.called (name text); GRANT ALL ON public.called TO PUBLIC" >/dev/null
plant=$(cat <<'S'
SET check_function_bodies = off;
DO $$
DECLARE
    v record;
    v_body text := 'BEGIN PERFORM pg_catalog.nextval(''public.calls''); '
                   'RAISE WARNING ''planted: %s''; RETURN NULL; END';
BEGIN
    FOR v IN
        SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args,
            p.prorettype::regtype AS result,
               p.proretset
        FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.provariadic = 0
            AND p.proargmodes IS NULL AND p.prorettype <> 'internal'::regtype
            AND NOT EXISTS (SELECT FROM unnest(p.proargtypes || p.prorettype) t (oid) JOIN pg_type
                USING (oid)
                            WHERE typtype = 'p' AND (typname <> 'void' OR p.prorettype <> t.oid))
            AND NOT 'void'::regtype = ANY (p.proargtypes)
    LOOP
        EXECUTE format('CREATE FUNCTION public.%I (%s) RETURNS %s%s LANGUAGE plpgsql AS %L',
            v.proname, v.args,
                       CASE WHEN v.proretset THEN 'SETOF ' ELSE '' END, v.result,
                       CASE WHEN v.proretset OR v.result = 'void'::regtype
                            THEN replace(format(v_body, v.proname), 'RETURN NULL', 'RETURN')
                            ELSE format(v_body, v.proname) END);
    END LOOP;
    FOR v IN
        SELECT o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r,
            o.oprresult::regtype AS result,
               row_number() OVER () AS n
        FROM (SELECT oprname, oprleft, oprright, oprresult FROM pg_operator
              WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b' AND oprresult <> 0
                  AND NOT EXISTS (SELECT FROM unnest(ARRAY[oprleft, oprright]) t (oid) JOIN pg_type
                      USING (oid)
                                  WHERE typtype = 'p')
              UNION
              SELECT name, l, r, result FROM
                  (VALUES ('*'), ('/'), ('+'), ('-')) a (name),
                  (VALUES ('float8'::regtype, 'int4'::regtype, 'float8'::regtype),
                      ('float8', 'int8', 'float8'),
                          ('numeric', 'int4', 'numeric'), ('numeric', 'int8', 'numeric'),
                              ('int8', 'interval', 'interval'),
                          ('int4', 'interval', 'interval'),
                              ('numeric', 'interval', 'interval')) b (l, r, result)
              UNION
              SELECT '||', 'text'::regtype, r, 'text'::regtype
              FROM unnest('{int4,int8,uuid,name,oid,regclass,timestamptz}'::regtype[]) r
              UNION
              SELECT name, l, r, 'bool'::regtype FROM
                  (VALUES ('='), ('<>'), ('<'), ('>'), ('<='), ('>=')) a (name),
                  (VALUES ('numeric'::regtype, 'int4'::regtype), ('numeric', 'int8'),
                      ('float8', 'int4'), ('text', 'name'),
                          ('int8', 'numeric'), ('regclass', 'oid'), ('oid', 'regclass')) b (l, r)) o
    LOOP
        EXECUTE
            format('CREATE FUNCTION public.planted_%s (%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
            v.n, v.l, v.r,
                       v.result, format(v_body, 'operator ' || replace(v.oprname, '%', '%%')));
        EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, '
                       'FUNCTION = public.planted_%s)',
                       v.oprname, v.l, v.r, v.n);
    END LOOP;
END
$$
S
)
ok "setup: functions and operators are planted in public" sql "$plant"
is "setup: more than 1500 functions are planted" \
    "SELECT count(*) > 1500 FROM pg_proc WHERE pronamespace = 'public'::regnamespace" t
is "setup: more than 600 operators are planted" \
    "SELECT count(*) > 600 FROM pg_operator WHERE oprnamespace = 'public'::regnamespace" t
clean() { # WHAT: what was done since the last call of clean
    is "$1 calls no planted function or operator" \
        "SELECT last_value, is_called FROM public.calls" "1|f"
    sql "SELECT setval('public.calls', 1, false)" >/dev/null
}
like "*planted*" "$(as app "SELECT now() > now()")" ||
    echo "# (they are not called by a session that looks there first)"
is "a role whose search_path has them first calls the planted functions" \
    "SELECT is_called FROM public.calls" t
sql "SELECT setval('public.calls', 1, false)" >/dev/null

ok "migrate makes the schema beside planted functions" hf app migrate
clean "migrate"
ok "namespace create succeeds beside planted functions" hf app namespace create shop
sql "SET ROLE app; SELECT holdfast.namespace_grant('publisher', 'shop', 'seller')" >/dev/null
hf app --namespace shop doctor >/dev/null # which finds that the server is made for tests
clean "doctor"
for role in app seller; do
    ok "publish by $role succeeds beside planted functions" \
        hf $role --namespace shop publish a.b '{"x": 1}' --key k
    ok "publish --delay by $role succeeds beside planted functions" \
        hf $role --namespace shop publish a.b 1 --delay 1h
    clean "publish by $role"
    ok "holdfast.publish by $role succeeds beside planted functions" \
        as $role "SELECT count(*) FROM holdfast.publish('shop', 'a.b', '1')"
    ok "holdfast.publish with all arguments by $role succeeds beside planted functions" \
        as $role "SELECT 1 FROM holdfast.publish('shop', 'a.b', '1',
        pg_catalog.gen_random_uuid(), 'k', 't', '{}', 'p')"
    ok "holdfast.publish_many by $role succeeds beside planted functions" \
        as $role "SELECT 1 FROM holdfast.publish_many('shop', '{a,b}', '{1,2}')"
    ok "holdfast.publish_later by $role succeeds beside planted functions" \
        as $role "SELECT holdfast.publish_later('shop', 'a.b', '1', '2099-01-01')"
    clean "publishing in SQL by $role"
done
verbs() {
    local verb words
    while read -r verb; do
        [ -n "$verb" ] || continue
        read -ra words <<<"$verb"
        ok "holdfast $verb succeeds beside planted functions" hf app --namespace shop "${words[@]}"
        clean "holdfast $verb"
    done
}
verbs <<'V'
sub create jobs --on ** --from start --mode shared
sub create copies --on ** --from start
sub list
sub show jobs
sub show copies
claim jobs --max 2
tail --from start
tail --from 1h
stats
verify
node list
namespace list
namespace set shop --retain-age 30d
retention run
schedule add hourly @hourly tick
schedule list
schedule show hourly
dlq list
sub pause copies
sub resume copies
sub seek copies --to end --yes
sub seek copies --to 1h --yes
sub rm copies --yes
namespace rm shop --yes --force
V

# ---- A schema that was prepared -----------------------------------------------------------------

refused() { # CLAIM ROLE PATTERN
    local code=0
    "$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=$2" migrate >"$out" 2>&1 ||
        code=$?
    ok "$1" like "$3" "$code: $(cat "$out")"
}
database prepared
sql "GRANT CREATE ON DATABASE prepared TO app; SET ROLE app; CREATE SCHEMA holdfast;
     CREATE FUNCTION holdfast.clock_timestamp() RETURNS timestamptz
         LANGUAGE plpgsql AS 'BEGIN ALTER ROLE app SUPERUSER; RETURN now(); END';
     GRANT ALL ON SCHEMA holdfast TO PUBLIC" >/dev/null
refused "a superuser does not use a schema of another role" holdfast \
    "1: *belongs to role app*holdfast is a superuser*connect as app*"
refused "migrate makes no tables in a schema of another role" seller \
    "1: *belongs to role app: connect as app*"
refused "migrate refuses an own schema in which others may create" app \
    "1: *role PUBLIC may create*REVOKE CREATE ON SCHEMA holdfast FROM PUBLIC*"
sql "REVOKE ALL ON SCHEMA holdfast FROM PUBLIC" >/dev/null
refused "migrate refuses an own schema in which something lies" \
    app "1: *has the function clock_timestamp*role app made it*"
is "the planted function made no superuser" "SELECT rolsuper FROM pg_roles WHERE rolname = 'app'" f
sql "DROP FUNCTION holdfast.clock_timestamp()" >/dev/null
ok "migrate uses an empty schema of its role" hf app migrate --namespace default
refused "a superuser does not use a schema that another role has made" \
    holdfast "1: *is a superuser*"
is "setup: a superuser can act as the owner" "SELECT 1" 1
ok "a superuser with options=-crole=app may use the schema of app" "$HOLDFAST" \
    --db "postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast&options=-crole%3Dapp" stats
sql "UPDATE holdfast_private.meta SET value = '1' WHERE name = 'schema_version';
    CREATE TABLE holdfast.other ()" >/dev/null
refused "migrate refuses a schema in which a table of others lies" app \
    "1: *has the relation other*role holdfast made it*"

database given
sql "CREATE SCHEMA holdfast AUTHORIZATION seller;
    CREATE SCHEMA holdfast_private AUTHORIZATION seller" >/dev/null
ok "migrate uses schemas that were made for its role" hf seller migrate

done_testing
