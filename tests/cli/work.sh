#!/usr/bin/env bash
# work --exec: what a command gets, and what its exit status means.
. "$(dirname "$0")/lib.sh"

drain() { # SUB COMMAND OPTIONS...: works off everything
    local sub=$1 command=$2
    shift 2
    hf work "$sub" --exec "$command" --until-empty --max-time 60s "$@"
}

hf publish user.created '{"id": 1, "n": 1.10}' --key user-1 --tenant acme --producer shop
exits 2 "work without --exec is refused" work s --on '*' --from start
exits 2 "work of a new subscription needs --from" work s --on '*' --exec true
has "the refusal of work names --from" err '--from'
exits 2 "work of a new subscription needs --on" work s --from start --exec true
has "the refusal of work names --on" err '--on'

# --- What the command gets ---
export HOLDFAST_KEY=not-this
drain s 'cat; env | grep ^HOLDFAST_ | sort' --on 'user.*' --from start
unset HOLDFAST_KEY
is "work --until-empty exits with 0" "$rc" 0
head -1 out >event.json
json "work --exec passes the event as one JSON object on stdin" event.json
is "the event on stdin has its type and key" \
    "$(field event.json 1 '$.type') $(field event.json 1 '$.key')" \
    "user.created user-1"
has "the event on stdin has the payload byte for byte" \
    event.json '"payload":\{"id": 1, "n": 1\.10\}'
is "the event on stdin has attempt and attempts_max" \
    "$(field event.json 1 '$.attempt') $(field event.json 1 '$.attempts_max')" "1 4"
has "work --exec sets HOLDFAST_TYPE" out '^HOLDFAST_TYPE=user\.created$'
has "work --exec sets HOLDFAST_POSITION" out '^HOLDFAST_POSITION=1$'
has "work --exec sets HOLDFAST_KEY to the key of the event" out '^HOLDFAST_KEY=user-1$'
has "work --exec sets HOLDFAST_TENANT" out '^HOLDFAST_TENANT=acme$'
has "work --exec sets HOLDFAST_SUBSCRIPTION" out '^HOLDFAST_SUBSCRIPTION=s$'
has "work --exec sets HOLDFAST_ATTEMPT" out '^HOLDFAST_ATTEMPT=1$'
has "work --exec sets HOLDFAST_ATTEMPTS_MAX" out '^HOLDFAST_ATTEMPTS_MAX=4$'
has "work --exec sets HOLDFAST_EVENT_PRODUCER" out '^HOLDFAST_EVENT_PRODUCER=shop$'
has "work --exec sets HOLDFAST_PAYLOAD if the payload is small" \
    out '^HOLDFAST_PAYLOAD=\{"id": 1, "n": 1\.10\}$'
has "work --exec sets HOLDFAST_ID" out '^HOLDFAST_ID=[0-9a-f-]{36}$'
has "work --exec sets HOLDFAST_EMITTED_AT" out '^HOLDFAST_EMITTED_AT=20.*Z$'
hf publish n.x '{}' --namespace elsewhere
hf work s --namespace elsewhere --on 'n.*' --from start --until-empty \
    --exec "test \"\$HOLDFAST_NAMESPACE\" = elsewhere && '$HOLDFAST' publish m.x"
hf tail m.x --namespace elsewhere --json
is "a command of work publishes into the same namespace" "$(wc -l <out)" 1
export HOLDFAST_TENANT=not-this
hf publish user.left
drain s 'env | grep ^HOLDFAST_'
unset HOLDFAST_TENANT
hasnt "work --exec unsets variables of fields that the event does not have" \
    out '^HOLDFAST_(TENANT|KEY)='
hf publish user.left
drain s '"$0_never" 2>/dev/null; '"'$HOLDFAST'"' publish made.here "{}" --key "$HOLDFAST_ID"'
is "a command of work can publish into the same database" "$rc" 0
hf tail made.here --json
is "a command of work needs no --db to publish" "$(wc -l <out)" 1

# --- Batches ---
hf sub create b --on 'b.*' --from now
for i in 1 2 3 4 5 6; do
    hf publish b.x "{\"n\": $i}" --key "k$((i % 2))"
done
drain b 'echo "$HOLDFAST_KEY $HOLDFAST_EVENTS $(grep -c n) ${HOLDFAST_ID-none}"' --batch-by key
is "work --batch-by key passes the events of one key, a line each" "$(sort out)" \
    "$(printf 'k0 3 3 none\nk1 3 3 none')"
for i in 1 2 3 4; do
    hf publish b.x "{\"n\": $i}" --key k
done
drain b 'grep -q "\"n\": 3" && exit 65; exit 0' --batch-by key --on-batch-failure split
hf dlq list --subscription b --json
is "--on-batch-failure split leaves one dead letter of a failed batch" "$(wc -l <out)" 1
has "--on-batch-failure split makes a dead letter of the event that fails" out '"n": 3'

# --- Verdicts ---
hf sub create v --on 'v.*' --from now
hf publish v.a
drain v 'echo "attempt $HOLDFAST_ATTEMPT"
    test "$HOLDFAST_ATTEMPT" = 3 || { echo "not yet" >&2; exit 75; }' --retry-base 20ms --retries 3
has "an event whose command exits with 75 is tried again" out '^attempt 3$'
is "an event is tried again until its command succeeds" "$(grep -c ^attempt out)" 3
has "work prints a line on stderr for each failed attempt" err \
    'v  v\.a at [0-9]+, attempt 1 of 4: exit status 75: not yet; again in'
hf publish v.b
drain v 'echo "cannot parse" >&2; exit 65'
is "work --until-empty exits with 7 if an event became a dead letter" "$rc" 7
has "work --until-empty prints how many events became dead letters" \
    err '1 event became a dead letter'
hf dlq list --json --limit 1
is "a command that exits with 65 makes a dead letter at the first attempt" \
    "$(field out 1 '$.reason') $(field out 1 '$.attempts')" \
    "rejected 1"
is "a dead letter has exit status and stderr of the command" \
    "$(field out 1 '$.error')" "exit status 65: cannot parse"
hf publish v.c
drain v 'echo "boom $HOLDFAST_ATTEMPT" >&2; exit 3' --retries 1 --retry-base 10ms
has "work says that an event is a dead letter after its last attempt" \
    err 'attempt 2 of 2: exit status 3: boom 2; dead letter'
hf dlq list --json --limit 1
is "a command that exits with 3 is tried until attempts_max, then the event is dead" \
    "$(field out 1 '$.reason') $(field out 1 '$.attempts')" "attempts 2"
is "a dead letter has the errors of earlier attempts" \
    "$(field out 1 '$.attempts_json[0].error')" "exit status 3: boom 1"
hf publish v.d
drain v 'kill -SEGV $$' --retries 0
hf dlq list --json --limit 1
is "the error of a command that a signal killed names the signal" \
    "$(field out 1 '$.error')" "killed by SIGSEGV"
hf publish v.e
drain v './no-such-program' --retries 0
hf dlq list --json --limit 1
has "the error of a command that does not exist names it and exit status 127" \
    out 'exit status 127: .*no-such-program'
hf publish v.f
drain v 'head -c 100000 /dev/zero | tr "\0" a >&2; echo the-end >&2; exit 1' --retries 0
hf dlq list --json --limit 1
true_that "the error of an attempt is at most 2048 bytes of a long stderr" \
    test "$(field out 1 '$.error' | wc -c)" -le 2049
is "the error of an attempt has the end of a long stderr" \
    "$(field out 1 '$.error' | tail -c 8)" the-end
hf publish v.g
drain v 'printf "\377\376 \033[31mred\033[0m\nsecond line" >&2; exit 1' --retries 0
hf dlq list --json --limit 1
json "stderr of a command that is not UTF-8 becomes valid JSON" out
hf work v --exec true --until-empty --json
hf publish v.h
"$HOLDFAST" work v --exec 'exit 1' --retries 0 --until-empty --json --quiet >out 2>err </dev/null
json "work --json prints JSON objects on stderr" err
grep '"attempt":1' err >records
is "work --json prints subscription, attempt and error of a failure" "$(field records 1 \
        '$.subscription') $(field records 1 '$.attempt') $(field records 1 '$.error')" \
    "v 1 exit status 1"

# --- Input and output ---
head -c 900000 /dev/zero | tr '\0' x | sed 's/.*/"&"/' >large
hf sub create io --on 'io.*' --from now
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'wc -c; echo ${HOLDFAST_PAYLOAD-none}'
has "work --exec does not set HOLDFAST_PAYLOAD if the payload is large" out '^none$'
sed -i /none/d out
true_that "work --exec passes a large event whole on stdin" test "$(tr -d ' \n' <out)" -gt 900000
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'exit 0'
is "a command that ignores its stdin is no failure" "$rc" 0
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'exec <&-; sleep 0.2; echo closed'
has "a command that closes its stdin is no failure" out '^closed$'
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'head -c 300000 /dev/zero | tr "\0" y; cat >/dev/null; echo'
true_that "a command that writes much before it reads is no failure" test "$(wc -c <out)" -eq 300001
hf publish io.small
drain io 'sleep 5 & echo started'
has "a background process of a command does not hold up the worker" out '^started$'
hasnt "a background process of a command is no failure" err 'attempt [0-9]'
hf publish io.small
descriptors='for n in $(seq 3 99); do ! test -e /proc/$$/fd/$n || echo "fd $n"; done; yes | head -1'
drain io "$descriptors"
sh -c "$descriptors" >as_usual </dev/null
is "a command inherits no file descriptor of the worker" \
    "$(comm -23 <(sort out) <(sort as_usual))" ''
hasnt "a command has the default action for SIGPIPE" err 'Broken pipe'
hf sub create many --on 'many.*' --from now --mode shared --concurrency 8
seq 1 40 | sed 's/.*/{"type":"many.x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
drain many 'for i in 1 2 3 4 5; do printf "aaaaaaaaaa"; printf "bbbbbbbbbb\n"; done'
is "lines of commands that run together are not torn" "$(grep -cv '^aaaaaaaaaabbbbbbbbbb$' out)" 0
is "lines of commands that run together are not lost" "$(wc -l <out)" 200

# --- The subscription ---
hf sub create two --on 'x.*' --on 'y.*' --from start
exits 2 "work refuses an --on that leaves out a stored pattern" work two --on 'x.*' --exec true \
    --until-empty
has "the refusal of --on names the pattern that is left out" err "'y\.\*'"
exits 0 "work without --on uses the stored patterns" work two --exec true --until-empty
exits 2 "work --exec refuses a transactional subscription" work tx --on '*' --from start \
    --transactional on --exec true
hf publish x.1
hf sub pause two
exits 5 "work --until-empty does not wait for a paused subscription" \
    work two --exec true --until-empty
has "work --until-empty says who paused the subscription and how to resume it" err \
    'two  is paused by .*, and not everything is settled: `holdfast sub resume two`'
exits 0 "work --max-time without --until-empty exits with 0" work two --exec true \
    --max-time 200ms

finish
