#!/usr/bin/env bash
# work --exec: what a command gets, and what its exit status means.
. "$(dirname "$0")/lib.sh"

drain() { # SUB COMMAND OPTIONS...: works off everything
    local sub=$1 command=$2
    shift 2
    hf work "$sub" --exec "$command" --until-empty --max-time 60s "$@"
}

hf publish user.created '{"id": 1, "n": 1.10}' --key user-1 --tenant acme --producer shop
exits 2 "work needs a command" work s --on '*' --from start
exits 2 "a new subscription needs a place" work s --on '*' --exec true
has "and says which" err -- '--from'
exits 2 "and a pattern" work s --from start --exec true
has "and says so" err -- '--on'

# --- What the command gets ---
export HOLDFAST_KEY=not-this
drain s 'cat; env | grep ^HOLDFAST_ | sort' --on 'user.*' --from start
unset HOLDFAST_KEY
is "work --until-empty ends with 0" "$rc" 0
head -1 out >event.json
json "the event is one JSON object on stdin" event.json
is "with its fields" "$(field event.json 1 '$.type') $(field event.json 1 '$.key')" \
    "user.created user-1"
has "the payload is raw" event.json '"payload":\{"id": 1, "n": 1\.10\}'
is "the attempt" "$(field event.json 1 '$.attempt') $(field event.json 1 '$.attempts_max')" "1 4"
has "HOLDFAST_TYPE" out '^HOLDFAST_TYPE=user\.created$'
has "HOLDFAST_POSITION" out '^HOLDFAST_POSITION=1$'
has "HOLDFAST_KEY is the event's, not ours" out '^HOLDFAST_KEY=user-1$'
has "HOLDFAST_TENANT" out '^HOLDFAST_TENANT=acme$'
has "HOLDFAST_SUBSCRIPTION" out '^HOLDFAST_SUBSCRIPTION=s$'
has "HOLDFAST_ATTEMPT" out '^HOLDFAST_ATTEMPT=1$'
has "HOLDFAST_ATTEMPTS_MAX" out '^HOLDFAST_ATTEMPTS_MAX=4$'
has "HOLDFAST_EVENT_PRODUCER" out '^HOLDFAST_EVENT_PRODUCER=shop$'
has "HOLDFAST_PAYLOAD, if it is small" out '^HOLDFAST_PAYLOAD=\{"id": 1, "n": 1\.10\}$'
has "HOLDFAST_ID" out '^HOLDFAST_ID=[0-9a-f-]{36}$'
has "HOLDFAST_EMITTED_AT" out '^HOLDFAST_EMITTED_AT=20.*Z$'
hf publish n.x '{}' --namespace elsewhere
hf work s --namespace elsewhere --on 'n.*' --from start --until-empty \
    --exec "test \"\$HOLDFAST_NAMESPACE\" = elsewhere && '$HOLDFAST' publish m.x"
hf tail m.x --namespace elsewhere --json
is "a command publishes into the same namespace" "$(wc -l <out)" 1
export HOLDFAST_TENANT=not-this
hf publish user.left
drain s 'env | grep ^HOLDFAST_'
unset HOLDFAST_TENANT
hasnt "a field that the event has not is not set" out '^HOLDFAST_(TENANT|KEY)='
hf publish user.left
drain s '"$0_never" 2>/dev/null; '"'$HOLDFAST'"' publish made.here "{}" --key "$HOLDFAST_ID"'
is "a command can publish into the same database" "$rc" 0
hf tail made.here --json
is "without being told where it is" "$(wc -l <out)" 1

# --- Batches ---
hf sub create b --on 'b.*' --from now
for i in 1 2 3 4 5 6; do
    hf publish b.x "{\"n\": $i}" --key "k$((i % 2))"
done
drain b 'echo "$HOLDFAST_KEY $HOLDFAST_EVENTS $(grep -c n) ${HOLDFAST_ID-none}"' --batch-by key
is "with --batch-by key a command gets the events of a key, a line each" "$(sort out)" \
    "$(printf 'k0 3 3 none\nk1 3 3 none')"
for i in 1 2 3 4; do
    hf publish b.x "{\"n\": $i}" --key k
done
drain b 'grep -q "\"n\": 3" && exit 65; exit 0' --batch-by key --on-batch-failure split
hf dlq list --subscription b --json
is "a batch that fails may be split until what fails is alone" "$(wc -l <out)" 1
has "and that one dies" out '"n": 3'

# --- Verdicts ---
hf sub create v --on 'v.*' --from now
hf publish v.a
drain v 'echo "attempt $HOLDFAST_ATTEMPT"
    test "$HOLDFAST_ATTEMPT" = 3 || { echo "not yet" >&2; exit 75; }' --retry-base 20ms --retries 3
has "75 is tried again" out '^attempt 3$'
is "until it succeeds" "$(grep -c ^attempt out)" 3
has "each failure is a line on stderr" err \
    'v  v\.a at [0-9]+, attempt 1 of 4: exit status 75: not yet; again in'
hf publish v.b
drain v 'echo "cannot parse" >&2; exit 65'
is "an event that died makes --until-empty end with 7" "$rc" 7
has "which it says" err '1 event became a dead letter'
hf dlq list --json --limit 1
is "65 is a dead letter at once" "$(field out 1 '$.reason') $(field out 1 '$.attempts')" \
    "rejected 1"
is "with the command's words" "$(field out 1 '$.error')" "exit status 65: cannot parse"
hf publish v.c
drain v 'echo "boom $HOLDFAST_ATTEMPT" >&2; exit 3' --retries 1 --retry-base 10ms
has "the last failure says dead letter" err 'attempt 2 of 2: exit status 3: boom 2; dead letter'
hf dlq list --json --limit 1
is "other exit statuses are tried and then dead" \
    "$(field out 1 '$.reason') $(field out 1 '$.attempts')" "attempts 2"
is "with all errors" "$(field out 1 '$.attempts_json[0].error')" "exit status 3: boom 1"
hf publish v.d
drain v 'kill -SEGV $$' --retries 0
hf dlq list --json --limit 1
is "a command that a signal killed" "$(field out 1 '$.error')" "killed by SIGSEGV"
hf publish v.e
drain v './no-such-program' --retries 0
hf dlq list --json --limit 1
has "a command that does not exist" out 'exit status 127: .*no-such-program'
hf publish v.f
drain v 'head -c 100000 /dev/zero | tr "\0" a >&2; echo the-end >&2; exit 1' --retries 0
hf dlq list --json --limit 1
true_that "of a long stderr the end is kept" test "$(field out 1 '$.error' | wc -c)" -le 2049
is "the very end" "$(field out 1 '$.error' | tail -c 8)" the-end
hf publish v.g
drain v 'printf "\377\376 \033[31mred\033[0m\nsecond line" >&2; exit 1' --retries 0
hf dlq list --json --limit 1
json "bytes that are no text do no harm" out
hf work v --exec true --until-empty --json
hf publish v.h
"$HOLDFAST" work v --exec 'exit 1' --retries 0 --until-empty --json --quiet >out 2>err </dev/null
json "with --json everything on stderr is an object" err
grep '"attempt":1' err >records
is "with all fields" "$(field records 1 \
        '$.subscription') $(field records 1 '$.attempt') $(field records 1 '$.error')" \
    "v 1 exit status 1"

# --- Input and output ---
head -c 900000 /dev/zero | tr '\0' x | sed 's/.*/"&"/' >large
hf sub create io --on 'io.*' --from now
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'wc -c; echo ${HOLDFAST_PAYLOAD-none}'
has "a large payload is on stdin only" out '^none$'
sed -i /none/d out
true_that "a large event arrives whole" test "$(tr -d ' \n' <out)" -gt 900000
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'exit 0'
is "a command that ignores stdin is no trouble" "$rc" 0
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'exec <&-; sleep 0.2; echo closed'
has "nor one that closes it" out '^closed$'
"$HOLDFAST" publish io.large - <large >/dev/null
drain io 'head -c 300000 /dev/zero | tr "\0" y; cat >/dev/null; echo'
true_that "nor one that writes much before it reads" test "$(wc -c <out)" -eq 300001
hf publish io.small
drain io 'sleep 5 & echo started'
has "a background process does not hold up the worker" out '^started$'
hasnt "nor count as a failure" err 'attempt [0-9]'
hf publish io.small
descriptors='for n in $(seq 3 99); do ! test -e /proc/$$/fd/$n || echo "fd $n"; done; yes | head -1'
drain io "$descriptors"
sh -c "$descriptors" >as_usual </dev/null
is "a command gets no descriptor of ours" "$(comm -23 <(sort out) <(sort as_usual))" ''
hasnt "and the default for SIGPIPE" err 'Broken pipe'
hf sub create many --on 'many.*' --from now --mode shared --concurrency 8
seq 1 40 | sed 's/.*/{"type":"many.x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
drain many 'for i in 1 2 3 4 5; do printf "aaaaaaaaaa"; printf "bbbbbbbbbb\n"; done'
is "lines of commands that run together are not torn" "$(grep -cv '^aaaaaaaaaabbbbbbbbbb$' out)" 0
is "nor lost" "$(wc -l <out)" 200

# --- The subscription ---
hf sub create two --on 'x.*' --on 'y.*' --from start
exits 2 "patterns that --on does not cover are refused" work two --on 'x.*' --exec true \
    --until-empty
has "with the one that is missing" err "'y\.\*'"
exits 0 "stored patterns are used without --on" work two --exec true --until-empty
exits 2 "a transactional subscription is not for commands" work tx --on '*' --from start \
    --transactional on --exec true
hf publish x.1
hf sub pause two
exits 5 "--until-empty does not wait for a paused one" work two --exec true --until-empty
has "and says so" err \
    'two  is paused by .*, and not everything is settled: `holdfast sub resume two`'
exits 0 "without --until-empty the end of the time is no error" work two --exec true \
    --max-time 200ms

finish
