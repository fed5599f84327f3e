#!/usr/bin/env bash
# The schema by psql alone: `holdfast migrate --print` writes a script that makes it, brings an
# older one up to date, leaves its own alone and refuses a newer one. (All tests of this folder that
# say `schema` run on what it makes.) Other versions are made of the same script with sed and awk.
. "$(dirname "$0")/lib.sh"
cluster
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ ! -x "$HOLDFAST" ]; then
    skip "everything" "there is no $HOLDFAST"
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

ok "the script names itself" like \
    "-- The schema of Holdfast $release *: version $latest, functions $digest." \
    "$(head -1 "$script")"
new
ok "psql makes the schema in an empty database" run "$script"
is "of this version" "$(meta schema_version)" "$latest"
is "with these functions" "$(meta functions_digest); $(meta functions_release)" "$digest $release"
made=$(sql "$objects")
ok "a program finds nothing to do" as_it_was "as it was"
ok "publishes" "$HOLDFAST" --db "$(url)" publish order.placed '{"id": 1}'
ok "and finds it sound" verified
before=$(sql "SELECT sum(xmin::text::bigint) FROM pg_proc
        WHERE pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)")
ok "running it again" run "$script"
is "leaves it alone" "SELECT sum(xmin::text::bigint) FROM pg_proc
    WHERE pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)" "$before"
new
ok "a program makes" "$HOLDFAST" --db "$(url)" migrate
is "the same" "$objects" "$made"
ok "and psql finds nothing to do" run "$script"

# ---- Older functions ----------------------------------------------------------------------------

sql "CREATE ROLE seller LOGIN" >/dev/null
other 0.0.9 0000 | with "CREATE FUNCTION holdfast.gone() RETURNS integer LANGUAGE sql RETURN 1;
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
is "(an older one is made)" "$(meta functions_release); SELECT holdfast.gone(), holdfast.head(1)" \
    "0.0.9 1|-1"
ok "psql brings an older one up to date" run "$script"
is "its functions are those of the script" "$(meta functions_digest); $(meta functions_release);
    SELECT holdfast.head(1)" "$digest $release 0"
is "and what is none of them is gone" "SELECT to_regprocedure('holdfast.gone()') IS NULL" t
is "it is what a new one is" "$objects" "$made"
ok "a program finds it sound" verified
ok "and a role can do what it could" "$HOLDFAST" --db "$(url seller)" publish order.placed 1
older
ok "a program brings it up to date" as_it_was "migrated"
is "to the same" "$objects" "$made"
older
ok "psql does it with a savepoint around each statement, too" \
    psql -qX -v ON_ERROR_STOP=1 -v ON_ERROR_ROLLBACK=on -f "$script"
is "to the same again" "$objects" "$made"
older
sql "CREATE VIEW public.mine AS SELECT holdfast.gone()" >/dev/null
ok "what an application depends on is not taken away" refuses "$script" \
    "*cannot drop function holdfast.gone()*"
is "and nothing is changed" "$(meta functions_release); SELECT holdfast.head(1)" "0.0.9 -1"
older
sql "DROP INDEX holdfast_private.retries_by_lane" >/dev/null
ok "one that others have changed is refused" refuses "$script" \
    "*index retries_by_lane on retries is missing*"
is "and left as it is" "$(meta functions_release)" "0.0.9"

# ---- Newer functions, other functions -----------------------------------------------------------

new
other 99.0.0 1111 | with "CREATE FUNCTION holdfast.newer() RETURNS integer
    LANGUAGE sql RETURN 1;" >"$work/newer.sql"
ok "(one with functions of a newer release is made)" run "$work/newer.sql"
ok "its functions are left alone by psql" run "$script"
ok "and by a program" as_it_was "as it was"
is "they are still there" "$(meta functions_release); SELECT holdfast.newer()" "99.0.0 1"
ok "a program works with them" "$HOLDFAST" --db "$(url)" publish order.placed 1

new
other "$release" 2222 >"$work/same.sql"
ok "(one with other functions of the same release is made)" run "$work/same.sql"
ok "psql puts its own in their place" run "$script"
is "(they are)" "$(meta functions_digest)" "$digest"
run "$work/same.sql" >/dev/null
ok "and so does a program of the schema's owner" as_it_was migrated

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
ok "(a script of the next version)" run "$work/next.sql"
is "brings older tables up to date" "$(meta schema_version); SELECT count(*) FROM holdfast.added" \
    "$next 0"
ok "this version's script refuses the newer one" refuses "$script" \
    "*has version $next, and this is version $latest*"
ok "and so does the program" like "*has schema version $next*" \
    "$("$HOLDFAST" --db "$(url)" publish a 1 2>&1)"
sql "UPDATE holdfast_private.meta SET value = '$latest' WHERE name = 'programs_from'" >/dev/null
ok "unless the newer one takes programs of this version" run "$script"
is "then it is left as it is" "$(meta schema_version); $(meta functions_release);
    SELECT count(*) FROM holdfast.added" "$next 99.0.0 0"
ok "and the program works" "$HOLDFAST" --db "$(url)" publish a 1

# ---- What goes wrong ----------------------------------------------------------------------------

with "SELECT 1 / 0;" <"$script" >"$work/broken.sql"
new
ok "a script that fails at its end" refuses "$work/broken.sql" "*division by zero*"
is "leaves nothing behind" \
    "SELECT coalesce(to_regnamespace('holdfast'), to_regnamespace('holdfast_private')) IS NULL" t
psql -qX -f "$work/broken.sql" >/dev/null 2>&1
is "also if psql goes on after errors" \
    "SELECT coalesce(to_regnamespace('holdfast'), to_regnamespace('holdfast_private')) IS NULL" t

sql "CREATE ROLE maker LOGIN; CREATE ROLE other LOGIN" >/dev/null
new maker
ok "any role that may make a schema can run it" env PGUSER=maker psql -qX -v ON_ERROR_STOP=1 \
    -f "$script"
refuses_other() { ! PGUSER=other run "$script" >"$work/said"; }
ok "another one is refused" refuses_other
ok "and told whom to connect as" like "*belongs to role maker: connect as maker*" \
    "$(cat "$work/said")"
ok "so is a superuser" refuses "$script" "*belongs to role maker, and holdfast is a superuser*"

rm -rf "$work"
done_testing
