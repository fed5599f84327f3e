#!/usr/bin/env bash
# The examples of docs/sql.md do what stands there.
. "$(dirname "$0")/lib.sh"
cluster
schema

# run STATEMENT: its rows, or its error as it stands in the text.
run() {
    local lease
    lease=$(sql "SELECT replace(token::text, '-', '') FROM holdfast.leases LIMIT 1")
    lease=${lease:-$last}
    last=$lease
    psql -qXAt -v VERBOSITY=verbose -v lease="$lease" 2>&1 <<<"$1" | sed '/^\(CONTEXT\|LOCATION\|HINT\|DETAIL\)/,$d'
}
last=
statement=
wanted=
check() {
    [ -n "$statement" ] || return 0
    run "$statement" >"$cluster_out" # not in a subshell: it remembers the lease
    ok "${statement:0:90}" same "$(printf '%s' "${wanted%$'\n'}")" "$(cat "$cluster_out")"
    statement=
    wanted=
}
cluster_out=$(mktemp)
inside=no
while IFS= read -r line; do
    case $inside:$line in
    no:'```psql') inside=yes ;;
    yes:'```') check && inside=no ;;
    yes:'=> '*) check && statement=${line#=> } ;;
    yes:*) wanted+=$line$'\n' ;;
    esac
done <"$ROOT/docs/sql.md"
rm -f "$cluster_out"
done_testing
