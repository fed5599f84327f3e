# shellcheck shell=bash
# Helpers of the tests that talk to PostgreSQL through psql; source it.
#
#   cluster                 starts a private cluster and stops it at exit; psql finds it
#   schema                  a new database with the schema and the namespace `default` (id 1);
#                           copied from the one that scripts/run-tests made, if there is one
#   install_schema          makes the schema in this database, or brings it up to date, with psql
#   sql TEXT                runs statements, prints rows (columns separated by |), fails on an error
#   keep                    from here on sql and what uses it need no new session for each call, but
#                           one that is as new after each (tests/tools/sql_session.c)
#   keep_none               ends that session: the next call opens another
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
    skip "all claims of this program" "psql is not installed"
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
        skip "all claims of this program" "${cluster_dir##*$'\n'}"
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
    [ -z "$kept_dir" ] || kill "$kept_pid" 2>/dev/null
    "$ROOT/scripts/postgres-cluster" stop "$cluster_dir"
}

schema_count=0
schema() {
    schema_count=$((schema_count + 1))
    export PGDATABASE=test$schema_count
    # Copying files is cheaper than logging each page, and what all servers before 15 do.
    if ! psql -qX -d postgres 2>/dev/null \
        -c "CREATE DATABASE $PGDATABASE TEMPLATE holdfast_ready STRATEGY file_copy"
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

# ---- One session --------------------------------------------------------------------------------

# The directory of the session that is kept, and its process. In kept_free there is a byte while no
# call uses it: a call that runs beside another one has a psql of its own.
kept_dir='' kept_pid='' kept_in='' kept_out='' kept_free=''

keep() {
    local dir
    dir=$(mktemp -d)
    mkfifo "$dir/in" "$dir/out" "$dir/free"
    "${BUILD:-$ROOT/build/release}/tests/tools/sql_session" "$dir/text" <"$dir/in" >"$dir/out" &
    kept_pid=$!
    disown # a `wait` for everything does not wait for it
    exec {kept_in}>"$dir/in" {kept_out}<"$dir/out" {kept_free}<>"$dir/free"
    printf x >&"$kept_free"
    kept_dir=$dir
}

keep_none() {
    printf '\0\0\0\0' >&"$kept_in"
    read -r _ <&"$kept_out"
}

# run_sql SQL: runs statements and sets sql_text to what they print. Fails if they do.
run_sql() {
    local status=
    if [ -n "$kept_dir" ] && [[ $1 != \\* && $1 == *[![:space:]]* ]] &&
        read -r -N 1 -t 0.001 <&"$kept_free"; then
        printf '%s\0' "$PGUSER" "$PGDATABASE" "$PGOPTIONS" "$1" >&"$kept_in"
        read -r status <&"$kept_out"
        IFS= read -r -d '' sql_text <"$kept_dir/text"
        printf x >&"$kept_free"
    else
        sql_text=$(psql -qXAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$1" 2>&1; status=$?
            printf x; exit "$status")
        status=$?
        sql_text=${sql_text%x}
    fi
    return "${status:-2}"
}

sql() {
    local sql_text status
    run_sql "$1"
    status=$?
    printf '%s' "$sql_text"
    return "$status"
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

same() { # WANTED TEXT
    [ "$1" = "$2" ] || { printf 'wanted: %s\nfound:  %s\n' "$1" "$2"; return 1; }
}

like() { # PATTERN TEXT
    # shellcheck disable=SC2254
    case $2 in $1) ;; *) printf 'wanted: %s\nfound:  %s\n' "$1" "$2"; return 1 ;; esac
}

rows() { # SQL: its rows, joined by spaces
    local sql_text
    run_sql "$1"
    sql_text=${sql_text%$'\n'}
    printf '%s\n' "${sql_text//$'\n'/ }"
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
    local sql_text said=
    run_sql "$2"
    case $sql_text in *'ERROR:  '*) said=${sql_text#*ERROR:  } ;; esac
    ok "$1" like "$3" "${said%%$'\n'*}"
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
