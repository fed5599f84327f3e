#!/bin/sh
# The examples that need a server: they run, tell their story and keep their promise, also on a
# database that has been used.
set -eu
. "$ROOT/scripts/tap.sh"

database=examples_$$
"$ROOT/scripts/postgres-cluster" createdb "$TEST_POSTGRES" "$database"
temp=$(mktemp -d)
trap 'rm -rf "$temp"; "$ROOT/scripts/postgres-cluster" dropdb "$TEST_POSTGRES" "$database"' EXIT
url=$("$ROOT/scripts/postgres-cluster" url "$TEST_POSTGRES" "$database")

# runs NAME: it succeeds and says nothing on stderr; its output is kept.
runs() {
    "$BUILD/examples/$1" "$url" >"$temp/$1.out" 2>"$temp/$1.err" || {
        echo "exit status $?"
        cat "$temp/$1.out" "$temp/$1.err"
        return 1
    }
    cat "$temp/$1.err"
    [ ! -s "$temp/$1.err" ]
}

says() {
    cat "$temp/$1.out"
    grep -qxE -e "$2" "$temp/$1.out"
}

tells_how() {
    status=0
    "$BUILD/examples/$1" >"$temp/usage" 2>&1 || status=$?
    [ "$status" -eq 2 ] && grep -q "^usage: $1 postgres://" "$temp/usage"
}

for name in "$ROOT"/examples/*_postgres.c; do
    name=$(basename "$name" .c)
    ok "the example $name does what it promises" runs "$name"
    ok "the example $name works again on a database that has been used" runs "$name"
    ok "the example $name without a database prints its usage" tells_how "$name"
done
ok "the example outbox_postgres prints that rows, events and results agree" \
    says outbox_postgres 'orders in the table: 2, revenue: 350; the handler ran [4-9] times'
done_testing
