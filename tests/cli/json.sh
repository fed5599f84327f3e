#!/usr/bin/env bash
# With --json every command prints an object per line on stdout; each command is tried. Nothing is
# printed by lists without rows, by those that only look for mistakes, and by work.
. "$(dirname "$0")/lib.sh"
: >tried

# objects NAME ARGS...: it succeeds and prints one object or more. nothing NAME ARGS...: it succeeds
# and prints nothing. NAME may have two words, in quotes.
objects() {
    echo "$1" >>tried
    # shellcheck disable=SC2086
    hf $1 "${@:2}" --json
    [ "$rc" -eq 0 ] || [ "$rc" -eq 7 ] || cat err >>out
    json "$1 ${*:2} prints objects" out
}
nothing() {
    echo "$1" >>tried
    # shellcheck disable=SC2086
    hf $1 "${@:2}" --json
    is "$1 ${*:2} prints nothing" "$rc $(cat out)" '0 '
}
# lease: a new lease of one event of the subscription `pulled`.
lease() { hf claim pulled -n 1 --json && field out 1 '$.lease'; }
# dead: the number of the newest dead letter, after an event that dies.
dead() {
    hf publish user.dies '{}'
    hf work pushed --exec 'exit 65' --until-empty
    hf dlq list && awk 'NR == 2 { print $1 }' out
}

objects migrate --namespace default
objects publish user.created '{"n": 1}' --key k
id=$(field out 1 '$.id')
for n in 2 3 4 5 6; do
    hf publish user.created "{\"n\": $n}"
done
objects tail
objects "event show" "$id"
objects "event list"
objects "sub create" pulled --on '**' --from start --mode shared
hf sub create pushed --on '**' --from start
objects "event cancel" 6 --subscription pushed
objects "sub list"
objects "sub show" pushed
objects claim pulled -n 1
objects ack pulled "$(lease)"
objects nack pulled "$(lease)" --delay 1h
objects release pulled "$(lease)"
objects bury pulled "$(lease)"
objects touch pulled "$(lease)"
objects "lease list"
objects "lease revoke" pulled --all --yes
objects "sub pause" pushed
objects "sub resume" pushed
is "which says what it is now" "$(cat out)" '{"name":"pushed","paused":false}'
objects "sub seek" pushed --to now --yes
objects wait "$id" --subscription pushed --timeout 60s
nothing work pushed --exec true --until-empty
json "work: its messages are objects" err
objects "dlq list"
objects "dlq list" --group-by error
objects "dlq show" "$(dead)"
objects "dlq retry" "$(dead)"
objects "dlq edit" "$(dead)" --payload '{"x": 1}'
objects "dlq resolve" "$(dead)" --note n
objects "dlq purge" --all --yes
objects "schedule add" nightly '0 3 * * *' night.fell
objects "schedule list"
objects "schedule show" nightly
objects "schedule run" nightly
objects "schedule next" nightly
objects "schedule pause" nightly
objects "schedule resume" nightly
objects names schedules
objects "schedule rm" nightly --yes
hf publish user.later '{}' --delay 1h --json
later=$(field out 1 '$.id')
objects "later list"
objects "later show" "$later"
objects "later move" "$later" --delay 2h
objects "later cancel" "$later"
objects tick
objects "sub rm" pulled --yes
objects "namespace create" other
objects "namespace list"
objects "namespace show" other
objects "namespace set" other --metadata '{"a": 1}'
nothing "namespace grants" other
if on postgres; then
    objects "namespace grant" viewer other pg_monitor
    objects "namespace grants" other
    objects "namespace revoke" viewer other pg_monitor
else
    echo "namespace grant" >>tried
    echo "namespace revoke" >>tried
fi
objects "namespace rm" other --yes
"$HOLDFAST" work pushed --node-id worker --exec true >/dev/null 2>&1 &
until_true 60 "$HOLDFAST" node show worker >/dev/null
objects "node list"
objects "node show" worker
kill $!
wait
objects "retention run"
printf 'subscriptions:\n  - {name: s, on: x, from: now, handler: {exec: "true"}}\n' >good.yaml
nothing "config check" good.yaml
json "config check: its messages are objects" err
objects "config show" --config good.yaml
objects "config keys"
objects stats
objects top
objects check --max-wait 1d
objects doctor
nothing verify
objects copy "$HOLDFAST_URL" "$(empty copied)"
echo demo >>tried # it takes ten seconds, in demo.sh
echo serve >>tried # it prints nothing on stdout (tests/http/api.sh)
objects "bench publish" --events 20
objects "bench consume" --events 20
objects "bench e2e" --seconds 1 --rate 20/s
objects version
objects help
echo completion >>tried
exits 2 "completion prints a script, which is no JSON" completion bash --json
is "and nothing then" "$(cat out)" ''

cp tried all
hf help --json
for ((n = 1; n <= $(wc -l <out); n++)); do
    field out "$n" '$.name'
done | sort >known
is "every command was tried" "$(sort -u all | comm -3 - known)" ''
finish
