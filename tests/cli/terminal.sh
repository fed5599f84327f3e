#!/usr/bin/env bash
# What people see at a terminal: tables that fit its width, colours for trouble, empty lists that
# say so. A program that reads a pipe gets every column, whole and without colours.
. "$(dirname "$0")/lib.sh"
if ! command -v script >/dev/null; then
    skip "all claims about terminals" "script (util-linux) is not installed"
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
# fits COLUMNS: no line is wider (a sentence that says why a subscription does not move is no
# table).
fits() {
    grep -v '^[a-z-]*: no worker ' plain >table
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
hf sub create a-shared-$long --on '**' --from start --mode shared
hf claim a-shared-$long
hf publish "user.created.with.a.rather.long.name" --key "customer-number-9" --delay 1h

for command in "sub list" "sub show $long" "stats" "dlq list" "dlq list --group-by error" \
    "event list" "event show 1" "namespace list" "node list --all" "schedule list" \
    "schedule next nightly" "later list" "lease list" "config keys" "config show --origin" \
    "doctor"; do
    # shellcheck disable=SC2086
    seen 80 $command
    case $command in
    "sub show"* | "event show"* | doctor)
        sed -i -n '/^NAME\|^SUBSCRIPTION\|^PARTITION\|^ .*WHAT/,/^$/p' plain
        ;;
    esac
    true_that "$command fits 80 columns at a terminal" fits 80
done
seen 80 sub list
has "sub list at a terminal cuts long names with an ellipsis" \
    plain '^a-subscript[a-z-]*… +up to date '
has "sub list at a terminal says which columns it leaves out" plain \
    '^Not shown: MODE, CHECKPOINT, LAG,( PER SECOND,)? HELD, OWNER \(--wide\)\.$'
seen 60 sub list
true_that "sub list fits a terminal of 60 columns" fits 60
has "sub list in 60 columns keeps the column DEAD" plain '^NAME .* DEAD'
seen 200 sub list
has "sub list in 200 columns shows all columns" plain '^NAME +MODE +STATE +CHECKPOINT .* OWNER$'
hasnt "sub list in 200 columns says nothing of columns left out" plain 'Not shown'
seen 80 sub list --wide
has "sub list --wide shows all columns and cuts nothing" plain "^$long +ordered +up to date "
seen 80 event list
has "event list at a terminal does not cut ids and positions" \
    plain '^ +1  [0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}  '
exits 0 "sub list into a pipe succeeds" sub list
has "sub list into a pipe prints all columns whole" out "^$long +ordered +up to date "
hasnt "sub list into a pipe prints no ellipsis" out '…'
hasnt "sub list into a pipe prints no colours" out $'\x1b'

seen 80 sub list
true_that "sub list prints dead letters in red" marked 31 3
true_that "sub list prints a pause in yellow" marked 33 paused
seen 80 sub list --no-color
true_that "sub list --no-color prints no colours" cmp -s seen plain
NO_COLOR=1 script -qec "$(printf '%q ' "$HOLDFAST" sub list)" /dev/null </dev/null >seen
hasnt "sub list with NO_COLOR prints no colours" seen $'\x1b'
hf sub resume mailer
seen 80 sub list
true_that "sub list prints a subscription that does not move in red" marked 31 'not moving'
seen 80 stats
true_that "stats prints dead letters in red" marked 31 3
if on sqlite; then
    patiently bus.db "UPDATE holdfast_schedules SET next_at = next_at - 30 * 86400 * 1000000"
else
    psql -qX "$HOLDFAST_URL" -c "UPDATE holdfast_private.schedules
        SET next_at = next_at - interval '30 days'"
fi
seen 80 schedule list
true_that "schedule list prints an overdue schedule in red" \
    marked 31 "$(grep -oE '[0-9]+d[0-9h]* ago' plain)"

# The server of the tests does not wait for its disk, of which doctor warns.
if on postgres; then
    seen 80 doctor
    "$HOLDFAST" doctor --json | grep '"level":"\(warn\|error\)"' >troubles
    advice="$(field troubles 1 '$.name'): $(field troubles 1 '$.advice')"
    true_that "doctor at a terminal prints the whole advice on a finding" \
        grep -qxF -- "$advice" plain
fi
fresh
hf namespace create default
for list in "sub list:No subscriptions" "dlq list:No dead letters" "event list:No events" \
    "schedule list:No schedules" "node list:No nodes"; do
    # shellcheck disable=SC2086
    exits 0 "${list%%:*} without rows exits with 0" ${list%%:*}
    has "${list%%:*} without rows says so on stderr" err "^${list#*:}"
    is "${list%%:*} without rows prints nothing on stdout" "$(cat out)" ''
done
finish
