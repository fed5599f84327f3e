# shellcheck shell=bash
# Helpers of the tests that talk to PostgreSQL through psql; source it.
#
#   cluster                 starts a private cluster and stops it at exit; psql finds it
#   schema                  a new database with the schema and the namespace `default` (id 1);
#                           copied from the one that scripts/run-tests made, if there is one
#   install_schema          makes the schema in this database, or brings it up to date, with psql
#   sql TEXT                runs statements, prints rows (columns separated by |), fails on an error
#   is CLAIM SQL WANTED     one test: the rows are as wanted (lines joined by a space)
#   becomes SQL WANTED      waits until the rows are as wanted (fails after 60 s, and shows them)
#   fails CLAIM SQL WANTED  one test: it fails, and "SQLSTATE: message" is as wanted (a pattern)
#   finds_pg, fetch_pg      whether Node has its driver; fetches it, where it can
#   past MONTHS COUNT [ID]  the month so long ago, with so many events, of a namespace (1)
#
# Sessions that are open at the same time, each a psql of its own:
#
#   open NAME               starts one
#   ask NAME SQL            runs statements there, waits, prints rows or "ERROR: ..."
#   tell NAME SQL           sends statements, does not wait
#   blocked NAME            waits until the session waits for a lock (fails after 60 s)
#   a_session_waits          waits until any session of the database does so
#   hear NAME               waits for the answer to tell
#   shut NAME               ends it
set -u
ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
. "$ROOT/scripts/tap.sh"
unset "${!PG@}"

if ! command -v psql >/dev/null; then
    skip "everything" "psql is not installed"
    done_testing
    exit
fi

# cluster [--preload NAME] [NAME=VALUE ...]: a library of tests/preload; settings of the server.
cluster() {
    local options=(--with $$ --set autovacuum=off --set log_min_messages=fatal)
    if [ "${1-}" = --preload ]; then
        options+=(--preload "${BUILD:-$ROOT/build/release}/tests/preload/$2.so")
        shift 2
    fi
    while [ $# -gt 0 ]; do
        options+=(--set "$1")
        shift
    done
    if ! cluster_dir=$("$ROOT/scripts/postgres-cluster" start "${options[@]}" 2>&1); then
        skip "everything" "${cluster_dir##*$'\n'}"
        done_testing
        exit
    fi
    trap cluster_stop EXIT
    export PGHOST=$cluster_dir PGUSER=holdfast PGDATABASE=postgres
    export PGOPTIONS='-c client_min_messages=warning -c search_path=public'
}

cluster_stop() {
    local name
    for name in "${!session_pid[@]}"; do
        shut "$name"
    done
    "$ROOT/scripts/postgres-cluster" stop "$cluster_dir"
}

schema_count=0
schema() {
    schema_count=$((schema_count + 1))
    export PGDATABASE=test$schema_count
    if ! psql -qX -d postgres -c "CREATE DATABASE $PGDATABASE TEMPLATE holdfast_ready" 2>/dev/null
    then
        psql -qX -d postgres -c "CREATE DATABASE $PGDATABASE" || exit 1
        install_schema || exit 1
    fi
    sql "SELECT FROM holdfast_private.namespace_put('default')" >/dev/null
}

# install: makes the schema with psql alone, by the script that the command prints.
install_schema() {
    "${HOLDFAST:-$ROOT/build/release/holdfast}" migrate --print | psql -qX -v ON_ERROR_STOP=1
}

sql() {
    psql -qXAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$1" 2>&1
}

past() {
    local id=${3:-1}
    sql "SET timezone = 'UTC'; DO \$\$
        DECLARE
            v_from timestamp := date_trunc('month', now()) - interval '$1 months';
            v_name text := 'events_${id}_' || to_char(v_from, 'YYYYMM');
        BEGIN
            EXECUTE format('CREATE TABLE holdfast_private.%I (LIKE holdfast_private.events '
                           'INCLUDING ALL)', v_name);
            EXECUTE format('CREATE UNIQUE INDEX ON holdfast_private.%I (id, guard_at)', v_name);
            EXECUTE format('CREATE INDEX ON holdfast_private.%I (position)', v_name);
            EXECUTE format('ALTER TABLE holdfast_private.events_$id '
                           'ATTACH PARTITION holdfast_private.%I FOR VALUES FROM (%L) TO (%L)',
                           v_name, v_from, v_from + interval '1 month');
            UPDATE holdfast_private.namespaces SET months_from = least(months_from, v_from)
                WHERE id = $id;
            INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, entered_at,
                guard_at, id, namespace_id, type, payload)
                SELECT e.position, holdfast_private.hash_of(id::text),
                       holdfast_private.checksum_of(holdfast_private.content_of(id, t, 'old', NULL,
                       NULL, NULL, NULL, NULL, e.x),
                                            holdfast_private.hash_of(id::text), e.position, t,
                                            NULL),
                       t, t, t, id, $id, 'old', e.x
                FROM (SELECT v_from + interval '1 day' + i * interval '1 s' AS t,
                    gen_random_uuid() AS id,
                             holdfast_private.draw(${id}) AS position,
                             to_json(repeat('x', 100)) AS x
                      FROM generate_series(1, $2) i) e;
        END \$\$" >/dev/null
}

# ---- One session --------------------------------------------------------------------------------

same() { # WANTED TEXT
    [ "$1" = "$2" ] || { printf 'wanted: %s\nfound:  %s\n' "$1" "$2"; return 1; }
}

like() { # PATTERN TEXT
    # shellcheck disable=SC2254
    case $2 in $1) ;; *) printf 'wanted: %s\nfound:  %s\n' "$1" "$2"; return 1 ;; esac
}

rows() { # SQL: its rows, joined by spaces
    sql "$1" | paste -sd' ' -
}

is() {
    ok "$1" same "$3" "$(rows "$2")"
}

rows_are() { # SQL WANTED
    same "$2" "$(rows "$1")"
}

becomes() {
    until_true 60 rows_are "$@" || rows_are "$@"
}

fails() {
    ok "$1" like "$3" "$(sql "$2" | sed -n 's/^.*ERROR:  //p' | head -1)"
}

# ---- Node ---------------------------------------------------------------------------------------

# Its driver is Debian's, or, where Node itself is not, the one that npm fetches once into
# build/node.
fetched=$ROOT/build/node
export NODE_PATH=/usr/share/nodejs:$fetched/node_modules

finds_pg() {
    node -e 'require("pg")' 2>/dev/null
}

# The driver where Debian's cannot be, because Node is not Debian's. Another run of the tests may be
# fetching it, too.
fetch_pg() {
    local lock
    command -v npm >/dev/null || return 1
    mkdir -p "$fetched"
    exec {lock}>"$fetched.lock"
    flock "$lock"
    finds_pg || timeout 60 npm install --prefix "$fetched" \
        --ignore-scripts --no-audit --no-fund --fetch-retries=0 pg@8.8.0 >/dev/null 2>&1
    exec {lock}>&-
    finds_pg
}

# ---- Several sessions ---------------------------------------------------------------------------

declare -A session_in=() session_out=() session_pid=() session_backend=()

open() {
    local dir in out
    dir=$(mktemp -d)
    mkfifo "$dir/in" "$dir/out"
    psql -qXAt -v VERBOSITY=sqlstate <"$dir/in" >"$dir/out" 2>&1 &
    session_pid[$1]=$!
    exec {in}>"$dir/in" {out}<"$dir/out"
    session_in[$1]=$in
    session_out[$1]=$out
    rm -rf "$dir"
    session_backend[$1]=$(ask "$1" "SELECT pg_backend_pid()")
}

tell() {
    printf '%s;\n\\echo ::done\n' "$2" >&"${session_in[$1]}"
}

hear() {
    local line all=
    while IFS= read -r -t 60 line <&"${session_out[$1]}"; do
        if [ "$line" = ::done ]; then
            printf '%s\n' "${all# }"
            return 0
        fi
        all="$all $line"
    done
    echo "no answer"
    return 1
}

ask() {
    tell "$1" "$2"
    hear "$1"
}

blocked() {
    becomes "SELECT wait_event_type = 'Lock' FROM pg_stat_activity
        WHERE pid = ${session_backend[$1]}" t
}

a_session_waits() {
    becomes "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock'" t
}

shut() {
    local in=${session_in[$1]} out=${session_out[$1]}
    echo '\q' >&"$in" # closing alone is not enough: later sessions have inherited it
    exec {in}>&- {out}<&-
    wait "${session_pid[$1]}" 2>/dev/null
    unset "session_pid[$1]"
}

asks() { # CLAIM NAME SQL WANTED: one test
    ok "$1" same "$4" "$(ask "$2" "$3")"
}

hears() { # CLAIM NAME WANTED: one test, after tell
    ok "$1" same "$3" "$(hear "$2")"
}
