#!/usr/bin/env bash
# `holdfast serve` while its PostgreSQL server does not answer: it lives, is not ready, and is ready
# again. The test has a cluster of its own, which it freezes and restarts.
# shellcheck disable=SC2154
. "$(dirname "$0")/../http/lib.sh"

cluster=$("$root/scripts/postgres-cluster" start --with $$)
main=$(head -1 "$cluster/data/postmaster.pid")
signal() {
    local child
    kill -"$1" "$main"
    for child in $(ps -o pid= --ppid "$main"); do
        kill -"$1" "$child" 2>/dev/null # it may end meanwhile
    done
}
trap 'signal CONT 2>/dev/null; unserve 2>/dev/null
    "$root/scripts/postgres-cluster" stop "$cluster"; leave; rm -rf "$work"' EXIT
"$root/scripts/postgres-cluster" createdb "$cluster" ready
HOLDFAST_URL=$("$root/scripts/postgres-cluster" url "$cluster" ready)
probe() {
    curl -s -o out -w '%{http_code}' --max-time 30 --unix-socket http "http://localhost$1"
}
not_ready() { [ "$(probe /readyz)" = 503 ]; }
is_ready() { [ "$(probe /readyz)" = 200 ]; }

serve
is "a server whose PostgreSQL answers is ready" "$(probe /readyz)" 200
signal STOP
true_that "a server whose PostgreSQL is frozen is not ready" until_true 60 not_ready
is "a server whose PostgreSQL is frozen lives" "$(probe /healthz)" 200
signal CONT
true_that "a server is ready again when its PostgreSQL answers" until_true 60 is_ready

kill -INT "$main"
gone() { ! kill -0 "$main" 2>/dev/null; }
until_true 60 gone
true_that "a server whose PostgreSQL is stopped is not ready" until_true 60 not_ready
is "a server whose PostgreSQL is stopped lives" "$(probe /healthz)" 200
finish
