#!/usr/bin/env bash
# With --json every command prints an object on stdout, lists and those that take their time one per
# line; each command is tried. Nothing is printed by lists without rows, nor by work and serve.
. "$(dirname "$0")/lib.sh"
: >tried

# object NAME ARGS...: it succeeds and prints one object. objects NAME ARGS...: or more. nothing
# NAME ARGS...: it succeeds and prints nothing. NAME may have two words, in quotes.
object() {
    objects "$@"
    is "$1 ${*:2} --json prints one line" "$(wc -l <out)" 1
}
objects() {
    echo "$1" >>tried
    # shellcheck disable=SC2086
    hf $1 "${@:2}" --json
    [ "$rc" -eq 0 ] || [ "$rc" -eq 7 ] || cat err >>out
    json "$1 ${*:2} --json prints JSON objects" out
}
nothing() {
    echo "$1" >>tried
    # shellcheck disable=SC2086
    hf $1 "${@:2}" --json
    is "$1 ${*:2} --json prints nothing on stdout" "$rc $(cat out)" '0 '
}
# lease: a new lease of one event of the subscription `pulled`.
lease() { hf claim pulled -n 1 --json && field out 1 '$.lease'; }
# dead: the number of the newest dead letter, after an event that dies.
dead() {
    hf publish user.dies '{}'
    hf work pushed --exec 'exit 65' --until-empty
    hf dlq list && awk 'NR == 2 { print $1 }' out
}

object migrate --namespace default
object publish user.created '{"n": 1}' --key k
id=$(field out 1 '$.id')
for n in 2 3 4 5 6; do
    hf publish user.created "{\"n\": $n}"
done
objects tail
object "event show" "$id"
objects "event list"
object "sub create" pulled --on '**' --from start --mode shared
hf sub create pushed --on '**' --from start
object "event cancel" 6 --subscription pushed
objects "sub list"
object "sub show" pushed
objects claim pulled -n 1
object ack pulled "$(lease)"
object nack pulled "$(lease)" --delay 1h
object release pulled "$(lease)"
object bury pulled "$(lease)"
object touch pulled "$(lease)"
objects "lease list"
objects "retry list" pulled
object "lease revoke" pulled --all --yes
object "sub pause" pushed
object "sub resume" pushed
is "sub resume --json says that the subscription is not paused" \
    "$(cat out)" '{"name":"pushed","paused":false}'
object "sub seek" pushed --to now --yes
object wait "$id" --subscription pushed --timeout 60s
nothing work pushed --exec true --until-empty
json "work --json prints its messages as JSON objects" err
hf publish user.created '{}'
hf work pushed --exec 'echo its own words' --until-empty --json
is "work --json leaves stdout to the commands that it runs" "$rc $(cat out)" '0 its own words'
objects "dlq list"
objects "dlq list" --group-by error
object "dlq show" "$(dead)"
object "dlq retry" "$(dead)"
object "dlq edit" "$(dead)" --payload '{"x": 1}'
object "dlq resolve" "$(dead)" --note n
object "dlq purge" --all --yes
object "schedule add" nightly '0 3 * * *' night.fell
objects "schedule list"
object "schedule show" nightly
object "schedule run" nightly
objects "schedule next" nightly
object "schedule pause" nightly
object "schedule resume" nightly
objects names schedules
object "schedule rm" nightly --yes
hf publish user.later '{}' --delay 1h --json
later=$(field out 1 '$.id')
objects "later list"
object "later show" "$later"
object "later move" "$later" --delay 2h
object "later cancel" "$later"
object tick
object "sub rm" pulled --yes
object "namespace create" other
objects "namespace list"
object "namespace show" other
object "namespace set" other --metadata '{"a": 1}'
nothing "namespace grants" other
if on postgres; then
    object "namespace grant" viewer other pg_monitor
    objects "namespace grants" other
    object "namespace revoke" viewer other pg_monitor
else
    echo "namespace grant" >>tried
    echo "namespace revoke" >>tried
fi
object "namespace rm" other --yes
"$HOLDFAST" work pushed --node-id worker --exec true >/dev/null 2>&1 &
until_true 60 "$HOLDFAST" node show worker >/dev/null
objects "node list"
object "node show" worker
kill $!
wait
object "retention run"
printf 'subscriptions:\n  - {name: s, on: x, from: now, handler: {exec: "true"}}\n' >good.yaml
object "config check" good.yaml
is "config check --json says what a good file has" "$(cat out)" \
    '{"file":"good.yaml","subscriptions":1,"schedules":0,"problems":[],"problems_more":0}'
json "config check --json prints its messages as JSON objects" err
objects "config show" --config good.yaml
objects "config keys"
object stats
objects top
object check --max-wait 1d
objects doctor
object verify
objects copy "$HOLDFAST_URL" "$(empty copied)"
echo demo >>tried # it takes ten seconds, in demo.sh
echo serve >>tried # it prints nothing on stdout (tests/http/api.sh)
object "bench publish" --events 20
object "bench consume" --events 20
object "bench e2e" --seconds 1 --rate 20/s
object version
objects help
echo completion >>tried
exits 2 "completion refuses --json because it prints a script" completion bash --json
is "completion with --json prints nothing on stdout" "$(cat out)" ''

cp tried all
hf help --json
for ((n = 1; n <= $(wc -l <out); n++)); do
    field out "$n" '$.name'
done | sort >known
is "every command was tried with --json" "$(sort -u all | comm -3 - known)" ''
finish
