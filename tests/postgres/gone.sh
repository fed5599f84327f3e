#!/usr/bin/env bash
# A worker whose server is gone has nothing in hand and nothing to wait for: it ends when it is asked to.
# It has a cluster of its own, which it kills.
. "$(dirname "$0")/../cli/lib.sh"

limit=25 # seconds; it takes two, and took 40 to 60 when it waited for the server
cluster=$("$root/scripts/postgres-cluster" start --with $$)
trap '"$root/scripts/postgres-cluster" stop "$cluster"; leave; rm -rf "$work"' EXIT
"$root/scripts/postgres-cluster" createdb "$cluster" gone
url=$("$root/scripts/postgres-cluster" url "$cluster" gone)

HOLDFAST_URL=$url "$HOLDFAST" work a --on '*' --from start --exec true >worked 2>said &
worker=$!
until_true 60 grep -q "Working for" said
HOLDFAST_URL=$url "$HOLDFAST" publish x '{}' >out 2>err
handled() { HOLDFAST_URL=$url "$HOLDFAST" sub show a --json 2>/dev/null | grep -q '"checkpoint": *1[,}]'; }
true_that "the worker handles an event" until_true 60 handled
"$root/scripts/postgres-cluster" kill "$cluster"
true_that "the worker notices that the server is gone" until_true 60 grep -q 'cannot connect' said

before=$SECONDS
kill -TERM "$worker"
wait "$worker"
is "it ends in peace" $? 0
took=$((SECONDS - before))
true_that "it ends although the server is gone" test "$took" -lt "$limit"
has "and says what it did" said '^1 done, 0 failed attempts'
finish
