#!/usr/bin/env bash
# What people see at a terminal: tables that fit its width, colours for trouble, empty lists that
# say so. A program that reads a pipe gets every column, whole and without colours.
. "$(dirname "$0")/lib.sh"
if ! command -v script >/dev/null; then
    skip "everything" "script (util-linux) is not installed"
    finish
fi

# seen COLUMNS ARGS...: what a terminal of so many columns shows, in the file seen, without the
# codes of colours in the file plain; `marked` says which colour a word has.
seen() {
    local columns=$1 line
    shift
    printf -v line '%q ' "$HOLDFAST" "$@"
    env -u NO_COLOR TERM=xterm script -qec "stty cols $columns; $line" /dev/null </dev/null |
        tr -d '\r' >seen
    sed 's/\x1b\[[0-9]*m//g' seen >plain
}
marked() { grep -qF $'\x1b['"$1m$2"$'\x1b[0m' seen; }
# fits COLUMNS: no line of the table is wider (the line that says what is left out is no table).
fits() {
    grep -v '^Not shown: ' plain >table
    cat table
    [ "$(wc -L <table)" -le "$1" ]
}

long=a-subscription-whose-name-is-long-enough-to-be-cut
hf sub create $long --on '**' --from start
hf sub create mailer --on 'user.**' --from start
for n in 1 2 3; do
    hf publish "user.created.with.a.rather.long.name" "{\"n\": $n}" --key "customer-number-$n"
done
hf work $long --exec 'echo "an error that is long enough to be cut" >&2; exit 65' --until-empty
hf sub pause mailer
hf schedule add nightly '0 3 * * *' an.event.of.a.schedule.with.a.long.name --zone Europe/Berlin

for command in "sub list" "sub show $long" "stats" "dlq list" "dlq list --group-by error" \
    "event list" "namespace list" "node list --all" "schedule list" "doctor"; do
    # shellcheck disable=SC2086
    seen 80 $command
    case $command in
    "sub show"* | doctor) sed -i -n '/^NAME\|^PARTITION\|^ .*WHAT/,/^$/p' plain ;;
    esac
    true_that "$command fits 80 columns" fits 80
done
seen 80 sub list
has "cells are cut with an ellipsis" plain '^a-subscript[a-z-]*… +up to date '
has "what is left out is said" plain \
    '^Not shown: MODE, CHECKPOINT, LAG,( PER SECOND,)? HELD, OWNER\. --wide shows all columns\.$'
seen 60 sub list
true_that "a narrower terminal shows fewer columns" fits 60
has "but how many died" plain '^NAME .* DEAD'
seen 200 sub list
has "a wide one shows all of them" plain '^NAME +MODE +STATE +CHECKPOINT .* OWNER$'
hasnt "and says nothing" plain 'Not shown'
seen 80 sub list --wide
has "so does --wide, which cuts nothing" plain "^$long +ordered +up to date "
seen 80 event list
has "ids and positions are never cut" plain '^ +1  [0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}  '
exits 0 "a pipe gets all columns, whole" sub list
has "whatever their widths" out "^$long +ordered +up to date "
hasnt "without an ellipsis" out '…'
hasnt "or colours" out $'\x1b'

seen 80 sub list
true_that "dead letters are red" marked 31 3
true_that "a pause is yellow" marked 33 paused
seen 80 sub list --no-color
true_that "not with --no-color" cmp -s seen plain
NO_COLOR=1 script -qec "$(printf '%q ' "$HOLDFAST" sub list)" /dev/null </dev/null >seen
hasnt "nor with \$NO_COLOR" seen $'\x1b'
hf sub resume mailer
seen 80 sub list
true_that "not moving is red" marked 31 'not moving'
seen 80 stats
true_that "and so are dead letters in the numbers" marked 31 3
if on sqlite; then
    patiently bus.db "UPDATE holdfast_schedules SET next_at = next_at - 30 * 86400 * 1000000"
else
    psql -qX "$HOLDFAST_URL" -c "UPDATE holdfast_private.schedules
        SET next_at = next_at - interval '30 days'"
fi
seen 80 schedule list
true_that "a schedule that is overdue is red" marked 31 "$(grep -oE '[0-9]+d[0-9h]* ago' plain)"

# The server of the tests does not wait for its disk, of which doctor warns.
if on postgres; then
    seen 80 doctor
    "$HOLDFAST" doctor --json | grep '"level":"\(warn\|error\)"' >troubles
    advice="$(field troubles 1 '$.name'): $(field troubles 1 '$.advice')"
    true_that "advice on a finding is there as a whole" grep -qxF -- "$advice" plain
fi
fresh
hf namespace create default
for list in "sub list:No subscriptions" "dlq list:No dead letters" "event list:No events" \
    "schedule list:No schedules" "node list:No nodes"; do
    # shellcheck disable=SC2086
    exits 0 "an empty list is no error: ${list%%:*}" ${list%%:*}
    has "and says so on stderr" err "^${list#*:}"
    is "not on stdout" "$(cat out)" ''
done
finish
