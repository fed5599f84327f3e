# shellcheck shell=bash
# What the tests of the command share; source it. Not executable, so it is not run by itself.
#
# A test runs in a directory of its own, with an empty database in $HOLDFAST_URL: a file, or, if
# TEST_POSTGRES is the directory of a cluster (scripts/postgres-cluster), a database of that server;
# $engine says which. The latter has the schema already, if the cluster has such a database to copy,
# unless the test has set `blank` before, because it is about making the schema. `hf ARGS...` runs
# the command and leaves its exit status in $rc, stdout in the file out and stderr in the file err.
# Claims are made with
#
#   exits CODE CLAIM ARGS...     the command exits with CODE
#   is CLAIM GOT WANTED          two texts are equal
#   has CLAIM FILE PATTERN       a line of the file matches the extended regular expression
#   hasnt CLAIM FILE PATTERN     no line does
#   json CLAIM FILE              every line of the file is a JSON object
#   true_that CLAIM COMMAND...   the command succeeds
#
# and end with `finish`. `on ENGINE` succeeds on that engine, `fresh` empties the database, `empty
# NAME` prints the URL of another one that is empty, `lock` keeps publishers out, from when the file
# `locked` is there until the file `unlock` is, and `heeds PID` succeeds when a signal would not
# just end it.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
: "${HOLDFAST:=$root/build/release/holdfast}"
work=$(mktemp -d "${TMPDIR:-/tmp}/cli.XXXXXX")
export NO_COLOR=1 LC_ALL=C.UTF-8
unset HOLDFAST_NAMESPACE "${!PG@}"
cd "$work" || exit 1
. "$root/scripts/tap.sh"
rc=0

# ---- The database -------------------------------------------------------------------------------

on() { [ "$engine" = "$1" ]; }

# server SQL: runs statements in the cluster's own database.
server() { psql -qXAt -h "$TEST_POSTGRES" -U holdfast -d postgres -c "$1" 2>>server.log; }

# A session that has ended may stay for some seconds on a slow machine, and the server waits for
# five.
make_database() { until_true 60 server "CREATE DATABASE $*"; }
drop_database() { until_true 60 server "DROP DATABASE IF EXISTS $1 WITH (FORCE)"; }

url_of() { echo "postgresql:///$1?host=$TEST_POSTGRES&user=holdfast"; }

if [ -n "${TEST_POSTGRES:-}" ]; then
    engine=postgres
    base=hf_cli_$$
    template=template1
    [ -n "${blank:-}" ] || template=$(server "SELECT coalesce(max(datname), 'template1')
        FROM pg_database WHERE datname = 'holdfast_ready'")
    make_database "$base TEMPLATE $template"
    HOLDFAST_URL=$(url_of "$base")
    fresh() { drop_database "$base" && make_database "$base TEMPLATE $template"; }
    empty() {
        echo "${base}_$1" >>databases
        make_database "${base}_$1" && url_of "${base}_$1"
    }
    lock() {
        psql -qX "$HOLDFAST_URL" -c 'BEGIN' \
            -c 'LOCK TABLE holdfast_private.events IN EXCLUSIVE MODE' \
            -c '\! sh hold' -c COMMIT >/dev/null
    }
    leave() {
        local name
        for name in "$base" $(cat databases 2>/dev/null); do
            drop_database "$name"
        done
    }
else
    engine=sqlite
    HOLDFAST_URL=sqlite:bus.db
    fresh() { rm -f bus.db*; }
    empty() { echo "sqlite:$1.db"; }
    lock() { sqlite3 bus.db 'BEGIN IMMEDIATE' '.shell sh hold' COMMIT; }
    leave() { :; }
fi
export HOLDFAST_URL
# shellcheck disable=SC2016
echo 'touch locked; for i in $(seq 600); do [ ! -e unlock ] || break; sleep 0.1; done' >hold
trap 'leave; rm -rf "$work"' EXIT

# ---- Claims -------------------------------------------------------------------------------------

hf() {
    "$HOLDFAST" "$@" >out 2>err </dev/null
    rc=$?
}

exits() {
    local wanted=$1 claim=$2
    shift 2
    hf "$@"
    if [ "$rc" -eq "$wanted" ]; then
        result 0 "$claim"
    else
        result 1 "$claim" < <(echo "exit status $rc instead of $wanted: holdfast $*"
            head -c 2000 err)
    fi
}

is() {
    if [ "$2" = "$3" ]; then
        result 0 "$1"
    else
        result 1 "$1" < <(printf 'got:    %s\nwanted: %s\n' "$2" "$3")
    fi
}

# A claim with a word more than these three looks for something else than it says, so it fails.
has() {
    if [ $# -eq 3 ] && grep -aEq -- "$3" "$2"; then
        result 0 "$1"
    else
        result 1 "$1" < <(echo "no line of $2 matches $3:"; head -c 2000 "$2")
    fi
}

hasnt() {
    if [ $# -eq 3 ] && ! grep -aEq -- "$3" "$2"; then
        result 0 "$1"
    else
        result 1 "$1" < <(echo "a line of $2 matches $3:"; grep -aE -- "$3" "$2" | head -c 2000)
    fi
}

true_that() {
    ok "$@"
}

# Every line of FILE is a JSON object, as SQLite sees it. One process looks at all of them.
all_json() {
    [ -s "$1" ] || { echo "$1 is empty"; return 1; }
    local wrong
    wrong=$(sqlite3 :memory: "
        WITH RECURSIVE lines (line, rest) AS (
            SELECT NULL, cast(readfile('$1') AS text)
            UNION ALL
            SELECT substr(rest, 1, instr(rest || char(10), char(10)) - 1),
                   substr(rest, instr(rest || char(10), char(10)) + 1)
            FROM lines WHERE rest <> '')
        SELECT 'not a JSON object: ' || line FROM lines WHERE line IS NOT NULL
            AND CASE WHEN json_valid(line) THEN json_type(line) = 'object' END IS NOT TRUE") &&
        [ -z "$wrong" ] || {
        printf '%s\n' "$wrong"
        return 1
    }
}

json() {
    true_that "$1" all_json "$2"
}

# field FILE LINE PATH: a value of a JSON object, as text. LINE is a number, or $ for the last one.
field() {
    local line=()
    case $2 in
    '$') mapfile -t line < <(tail -n 1 "$1") ;;
    *) mapfile -t -s "$(($2 - 1))" -n 1 line <"$1" ;;
    esac
    printf '%s' "${line[0]-}" >json.line
    sqlite3 :memory: "SELECT json_extract(cast(readfile('json.line') AS text), '$3')" 2>/dev/null
}

# heeds PID: the command is up (before that it is this shell, which has its own way to end) and has
# its own way to end.
heeds() {
    local mask
    [ "/proc/$1/exe" -ef "$HOLDFAST" ] || return 1
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
    [ $((0x$mask >> 14 & 1)) -eq 1 ] # SIGTERM
}

finish() {
    done_testing
    exit
}

# patiently FILE [SQL...]: sqlite3, which waits for a process that is closing the file at this
# moment
patiently() { sqlite3 -cmd '.timeout 60000' "$@"; }
