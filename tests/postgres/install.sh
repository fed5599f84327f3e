#!/usr/bin/env bash
# The schema by psql alone: `holdfast migrate --print` writes a script that makes it, brings an
# older one up to date, leaves its own alone and refuses a newer one. (All tests of this folder that
# say `schema` run on what it makes.) Other versions are made of the same script with sed and awk.
. "$(dirname "$0")/lib.sh"
cluster
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ ! -x "$HOLDFAST" ]; then
    skip "all claims about installing by psql" "there is no $HOLDFAST"
    done_testing
    exit
fi
work=$(mktemp -d)
script=$work/holdfast.sql
release=$("$HOLDFAST" version | sed -n '1s/.* \([0-9.]*\).*/\1/p')
latest=$(find "$ROOT/sql/postgres/tables" -name '0*.sql' | wc -l)
number=0
new() { # [OWNER]: a new, empty database
    number=$((number + 1))
    psql -qX -d postgres -c "CREATE DATABASE i$number${1:+ OWNER $1}" || exit 1
    export PGDATABASE=i$number
}
url() { echo "postgresql:///$PGDATABASE?host=$PGHOST&user=${1:-$PGUSER}"; }
run() { psql -qX -v ON_ERROR_STOP=1 -f "$1" 2>&1; } # FILE
refuses() { # FILE PATTERN
    local said
    said=$(run "$1") && { echo "it was not refused"; return 1; }
    like "$2" "$said"
}
meta() { echo "SELECT value FROM holdfast_private.meta WHERE name = '$1'"; }
objects="SELECT md5(value) FROM holdfast_private.meta WHERE name = 'schema_objects'"
verified() { "$HOLDFAST" --db "$(url)" verify; }
as_it_was() { # WORD
    like "schema version *, $1" "$("$HOLDFAST" --db "$(url)" migrate 2>&1)"
}
"$HOLDFAST" migrate --print >"$script"
digest=$(sed -n '1s/.*functions \([0-9a-f]*\)\.$/\1/p' "$script")

# other RELEASE DIGEST: the script as a program of another release would print it.
other() { sed "s/$digest/$2/; s/'$release'/'$1'/" "$script"; }
# with TEXT: puts SQL at the end of the functions.
with() {
    awk -v text="$1" '/^DROP FUNCTION holdfast_private.finish_mark/ { print text } { print }'
}

# ---- An empty database --------------------------------------------------------------------------

ok "the first line of the script has release, version and digest" like \
    "-- The schema of Holdfast $release *: version $latest, functions $digest." \
    "$(head -1 "$script")"
new
ok "psql makes the schema in an empty database" run "$script"
is "the script makes the tables of this version" "$(meta schema_version)" "$latest"
is "the script stores digest and release of its functions" \
    "$(meta functions_digest); $(meta functions_release)" "$digest $release"
made=$(sql "$objects")
ok "migrate has nothing to do after the script" as_it_was "as it was"
ok "publish succeeds after the script" "$HOLDFAST" --db "$(url)" publish order.placed '{"id": 1}'
ok "verify finds nothing after the script" verified
before=$(sql "SELECT sum(xmin::text::bigint) FROM pg_proc
        WHERE pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)")
ok "psql runs the script a second time" run "$script"
is "the script leaves a schema of its own version alone" \
    "SELECT sum(xmin::text::bigint) FROM pg_proc
    WHERE pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)" "$before"
new
ok "migrate makes the schema in an empty database" "$HOLDFAST" --db "$(url)" migrate
is "migrate makes the same schema as the script" "$objects" "$made"
ok "psql runs the script after migrate" run "$script"

# ---- Older functions ----------------------------------------------------------------------------

sql "CREATE ROLE seller LOGIN" >/dev/null
other 0.0.9 0000 | with "CREATE FUNCTION holdfast.gone() RETURNS integer LANGUAGE sql RETURN 1;
    CREATE FUNCTION holdfast.gone_entry() RETURNS integer LANGUAGE sql SECURITY DEFINER RETURN 1;
    CREATE OR REPLACE FUNCTION holdfast.head(p_namespace_id integer) RETURNS bigint
        LANGUAGE sql RETURN -1;" >"$work/older.sql"
older() {
    new
    run "$work/older.sql" >/dev/null || echo "# the older script failed"
    sql "SELECT FROM holdfast_private.namespace_put('default')" >/dev/null
    if [ "$(sql "SELECT current_setting('server_version_num')::integer >= 150000")" = t ]; then
        sql "SELECT holdfast.namespace_grant('publisher', 'default', 'seller')" >/dev/null
    fi
}
older
is "setup: a database has functions of an older release" \
    "$(meta functions_release); SELECT holdfast.gone(), holdfast.head(1)" \
    "0.0.9 1|-1"
ok "psql brings functions of an older release up to date" run "$script"
is "functions are those of the script after an update" \
    "$(meta functions_digest); $(meta functions_release);
    SELECT holdfast.head(1)" "$digest $release 0"
is "the script drops functions that it does not have" \
    "SELECT to_regprocedure('holdfast.gone()') IS NULL" t
is "the script drops functions with their owner's rights that it does not have" \
    "SELECT to_regprocedure('holdfast.gone_entry()') IS NULL" t
is "an updated schema is the same as a new one" "$objects" "$made"
ok "verify finds nothing after an update" verified
ok "a role keeps its grants after an update" "$HOLDFAST" --db "$(url seller)" publish order.placed 1
older
ok "migrate brings functions of an older release up to date" as_it_was "migrated"
is "migrate updates to the same schema as the script" "$objects" "$made"
older
ok "psql with ON_ERROR_ROLLBACK brings functions up to date" \
    psql -qX -v ON_ERROR_STOP=1 -v ON_ERROR_ROLLBACK=on -f "$script"
is "psql with ON_ERROR_ROLLBACK updates to the same schema" "$objects" "$made"
older
sql "CREATE VIEW public.mine AS SELECT holdfast.gone()" >/dev/null
ok "the script does not drop a function that an application depends on" refuses "$script" \
    "*view public.mine depends on function holdfast.gone()*"
is "a script that is refused changes nothing" \
    "$(meta functions_release); SELECT holdfast.head(1)" "0.0.9 -1"
older
sql "DROP INDEX holdfast_private.retries_by_lane" >/dev/null
ok "the script refuses a schema that others have changed" refuses "$script" \
    "*index retries_by_lane on retries is missing*"
is "the script leaves a schema that it refuses as it is" "$(meta functions_release)" "0.0.9"

# ---- Newer functions, other functions -----------------------------------------------------------

new
other 99.0.0 1111 | with "CREATE FUNCTION holdfast.newer() RETURNS integer
    LANGUAGE sql RETURN 1;" >"$work/newer.sql"
ok "setup: a database has functions of a newer release" run "$work/newer.sql"
ok "psql runs the script on functions of a newer release" run "$script"
ok "migrate has nothing to do on functions of a newer release" as_it_was "as it was"
is "functions of a newer release are left alone" \
    "$(meta functions_release); SELECT holdfast.newer()" "99.0.0 1"
ok "publish works with functions of a newer release" \
    "$HOLDFAST" --db "$(url)" publish order.placed 1

new
other "$release" 2222 >"$work/same.sql"
ok "setup: a database has other functions of the same release" run "$work/same.sql"
ok "psql runs the script on other functions of the same release" run "$script"
is "the script replaces other functions of the same release" "$(meta functions_digest)" "$digest"
run "$work/same.sql" >/dev/null
ok "migrate replaces other functions of the same release" as_it_was migrated

# ---- Newer and older tables ---------------------------------------------------------------------

next=$((latest + 1))
awk -v next_version="$next" '
    /^DO \$holdfast_functions\$/ {
        print "DO $holdfast_step$ BEGIN"
        print "IF current_setting(\x27holdfast.version\x27)::integer < " next_version
        print "THEN CREATE TABLE holdfast.added (id integer); END IF; END $holdfast_step$;"
    }
    { print }' <(other 99.0.0 3333 |
        sed "s/v_version > $latest\\b/v_version > $next/;
        s/v_version < $latest\\b/v_version < $next/g;
        s/v_version = $latest\\b/v_version = $next/g;
        s/coalesce(v_from, v_version) > $latest/coalesce(v_from, v_version) > $next/;
        s/('programs_from', '[0-9]*')/('programs_from', '$next')/;
        s/('schema_version', '$latest')/('schema_version', '$next')/") >"$work/next.sql"
new
run "$script" >/dev/null
sql "SELECT FROM holdfast_private.namespace_put('default')" >/dev/null
ok "setup: a script of the next version runs" run "$work/next.sql"
is "a script of the next version brings older tables up to date" \
    "$(meta schema_version); SELECT count(*) FROM holdfast.added" \
    "$next 0"
ok "the script refuses tables of a newer version" refuses "$script" \
    "*has version $next, and this is version $latest*"
ok "publish refuses tables of a newer version" like "*has schema version $next*" \
    "$("$HOLDFAST" --db "$(url)" publish a 1 2>&1)"
sql "UPDATE holdfast_private.meta SET value = '$latest' WHERE name = 'programs_from'" >/dev/null
ok "the script runs on newer tables that take programs of this version" run "$script"
is "the script leaves newer tables that take programs of this version as they are" \
    "$(meta schema_version); $(meta functions_release);
    SELECT count(*) FROM holdfast.added" "$next 99.0.0 0"
ok "publish works with newer tables that take programs of this version" \
    "$HOLDFAST" --db "$(url)" publish a 1

# ---- What goes wrong ----------------------------------------------------------------------------

with "SELECT 1 / 0;" <"$script" >"$work/broken.sql"
new
ok "setup: a script fails at its end" refuses "$work/broken.sql" "*division by zero*"
is "a script that fails leaves nothing behind" \
    "SELECT coalesce(to_regnamespace('holdfast'), to_regnamespace('holdfast_private')) IS NULL" t
psql -qX -f "$work/broken.sql" >/dev/null 2>&1
is "a script that fails leaves nothing behind if psql goes on after errors" \
    "SELECT coalesce(to_regnamespace('holdfast'), to_regnamespace('holdfast_private')) IS NULL" t

sql "CREATE ROLE maker LOGIN; CREATE ROLE other LOGIN" >/dev/null
new maker
ok "a role that may make a schema can run the script" env PGUSER=maker psql -qX -v ON_ERROR_STOP=1 \
    -f "$script"
refuses_other() { ! PGUSER=other run "$script" >"$work/said"; }
ok "the script refuses a role that does not own the schema" refuses_other
ok "the refusal names the role to connect as" like "*belongs to role maker: connect as maker*" \
    "$(cat "$work/said")"
ok "the script refuses a superuser that does not own the schema" \
    refuses "$script" "*belongs to role maker, and holdfast is a superuser*"

rm -rf "$work"
done_testing
