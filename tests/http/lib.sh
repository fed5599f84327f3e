# shellcheck shell=bash
# What the tests of `holdfast serve` share, besides what those of the command do; source it.
#
#   serve ARGS...      starts a server on the socket `http` with these options, and waits until it
#                      answers; unserve ends it, and leaves its exit status in $rc
#   ask METHOD PATH [BODY]   leaves the status in $status and the answer in the file out
#   answers STATUS CLAIM METHOD PATH [BODY]   the answer has this status
#   bearer TOKEN       sends a token from now on; none: none
#   list_routes        method, path, scope and role of each route
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
server_pid=
token=
status=
header= # of the next requests, besides; none if empty

serve() {
    rm -f http
    "$HOLDFAST" serve --listen unix:http "$@" >>serve.out 2>>serve.err </dev/null &
    server_pid=$!
    until_true 30 curl -s -o serve.up --unix-socket http http://localhost/v1/
}

unserve() {
    [ -z "$server_pid" ] || { kill "$server_pid" && wait "$server_pid"; }
    rc=$?
    server_pid=
}

list_routes() {
    { tr '\n' ' ' <"$root/src/server/api/routes.def"; echo; } | sed 's/ROUTE(/\n&/g' |
        sed -nE 's/^ROUTE\(([A-Z]+), "([^"]*)", ([A-Z]+), ([A-Z]+),.*/\1 \2 \3 \4/p'
}

bearer() { token=$1; }

ask() {
    local extra=() seconds=60
    case $2 in */stream*) seconds=1 ;; esac # it does not end by itself
    [ -z "$token" ] || extra+=(-H "Authorization: Bearer $token")
    [ -z "$header" ] || extra+=(-H "$header")
    [ $# -lt 3 ] || extra+=(--data-binary "$3")
    status=$(curl -s -o out -w '%{http_code}' --max-time "$seconds" --unix-socket http -X "$1" \
        "${extra[@]}" "http://localhost$2")
}

answers() {
    local wanted=$1 claim=$2
    shift 2
    ask "$@"
    [ "$status" = "$wanted" ]
    result $? "$claim" < <(echo "status $status instead of $wanted: $*"; head -c 2000 out)
}
trap 'unserve 2>/dev/null; leave; rm -rf "$work"' EXIT
