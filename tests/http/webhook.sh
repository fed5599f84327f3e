#!/usr/bin/env bash
# Webhooks: `holdfast work --http` against a receiver that answers in every way there is.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cli/lib.sh"

tools=$(dirname "$HOLDFAST")/tests
mkdir -p got
"$tools/tools/http_receiver" got & receiver=$!
trap 'kill $receiver; leave; rm -rf "$work"' EXIT
until_true 20 test -s got/port
port=$(cat got/port)
at=http://127.0.0.1:$port

# work_on PATH OPTIONS...: works until everything is settled.
work_on() {
    local path=$1
    shift
    hf work s --on '*' --from start --http "$at$path" --allow-private --retry-base 10ms \
        --retry-max 10ms --until-empty --max-time 60s "$@"
}

# sent TYPE: publishes one event of the type, in an empty database.
sent() { fresh && hf publish "$@"; }
count() { find got -name 'request.*' | wc -l; }
last() { echo "got/request.$(count)"; }
error_of() { hf dlq list --json && sed -n 's/.*"error":"\([^"]*\)".*/\1/p' out; }

# ---- What is sent -------------------------------------------------------------------------------

sent user.created '{"name":  "ann"}' --key 'k 1"%ü' --tenant t --metadata \
    '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"}'
work_on /ok
is "an answer of 2xx settles the event" "$rc" 0
has "a webhook is a POST to the path of the URL" "$(last)" '^POST /ok HTTP/1\.1'
has "the body of a webhook is the payload, byte for byte" "$(last)" '^\{"name":  "ann"\}$'
has "a webhook is a CloudEvent in binary mode" "$(last)" '^ce-specversion: 1\.0'
has "a webhook has the type of the event in ce-type" "$(last)" '^ce-type: user\.created'
has "a webhook has the namespace in ce-source" "$(last)" '^ce-source: /holdfast/default'
has "a webhook has the key of the event, encoded, in ce-subject" \
    "$(last)" '^ce-subject: k%201%22%25%C3%BC'
has "a webhook has the tenant of the event in ce-tenant" "$(last)" '^ce-tenant: t'
has "a webhook has the traceparent of the event" "$(last)" \
    '^traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
has "a webhook has the tracestate of the event" "$(last)" '^tracestate: a=b'
has "a webhook has an id for the receiver in webhook-id" "$(last)" '^webhook-id: [0-9a-f-]{36}'
hasnt "a webhook without secrets has no signature" "$(last)" '^webhook-signature'
hasnt "a webhook does not wait for 100 Continue" "$(last)" '^[Ee]xpect:.*100'

sent x 1 --metadata \
    '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx-evil: 1"}'
work_on /ok
hasnt "metadata of an event cannot add a header to a webhook" "$(last)" '^(x-evil|traceparent)'
attributes=$(seq 60 | sed 's/.*/"x&":"&"/' | paste -sd,)
sent x '"p"' --metadata "{\"cloudevents\":{$attributes}}"
work_on /ok
has "a webhook sends an event with more attributes than headers hold as one JSON object" \
    "$(last)" '^\{"specversion":"1.0",.*"x1":"1".*"x60":"60".*"data":"p"\}$'
sent x '"p"' --metadata "{\"cloudevents\":{\"long\":\"$(printf '%9000s' | tr ' ' l)\"}}"
work_on /ok
has "a webhook sends an event with an attribute that is too long for a header as one JSON object" \
    "$(last)" '^\{"specversion":"1.0",.*"long":"l*".*"data":"p"\}$'
sent x '"p"' --key a
work_on /ok --http-format structured
has "--http-format structured sends one JSON object" "$(last)" \
    '^\{"specversion":"1.0",.*"subject":"a".*"data":"p"\}$'
has "--http-format structured sends the content type of CloudEvents" \
    "$(last)" '^content-type: application/cloudevents\+json'
sent x 1 --key a
hf publish x 2 --key a
work_on /ok --batch-by key
has "a batch of events is one webhook" "$(last)" '^\[\{.*"data":1\},\{.*"data":2\}\]$'
has "the webhook of a batch has an id of its own" "$(last)" '^webhook-id: batch_[0-9a-f]{32}'

# ---- Signatures ---------------------------------------------------------------------------------

secret() { head -c 32 /dev/urandom | base64 | tr -d '\n'; }
# signature SECRET FILE: what openssl makes of the request.
signature() {
    local id time key
    id=$(sed -n 's/^webhook-id: \([^\r]*\)\r*$/\1/p' "$2")
    time=$(sed -n 's/^webhook-timestamp: \([0-9]*\).*/\1/p' "$2")
    key=$(echo "$1" | base64 -d | od -An -vtx1 | tr -d ' \n')
    { printf '%s.%s.' "$id" "$time"; sed '1,/^\r$/d' "$2"; } |
        openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64
}
one=$(secret) two=$(secret)
(umask 077; echo "whsec_$one" >secrets)
sent x '{"a":1}'
work_on /ok --secret-file secrets
is "a webhook is signed with the secret of --secret-file" \
    "$(sed -n 's/^webhook-signature: \([^\r]*\).*/\1/p' "$(last)")" \
        "v1,$(signature "$one" "$(last)")"
(umask 077; printf '# new first\nwhsec_%s\nwhsec_%s\n' "$two" "$one" >secrets)
sent x 1
work_on /ok --secret-file secrets
is "a webhook is signed with each of several secrets" \
    "$(sed -n 's/^webhook-signature: \([^\r]*\).*/\1/p' "$(last)")" \
    "v1,$(signature "$two" "$(last)") v1,$(signature "$one" "$(last)")"

fresh
echo "whsec_$one" >secrets
hf sub create s --on '*' --from start
"$HOLDFAST" work s --http "$at/ok" --allow-private --secret-file secrets 2>log & worker=$!
before=$(count)
hf publish x 1
until_true 20 eval '[ "$(count)" -gt $before ]'
echo "whsec_$two" >secrets
is_signed_by() { hf publish x 2 && grep -q "^webhook-signature: v1,$(signature "$1" "$(last)")" \
    "$(last)"; }
true_that "a secret is replaced while the worker runs" until_true 20 is_signed_by "$two"
has "the log says that the file of secrets was read again" log 'was read again'
echo rubbish >secrets
until_true 20 eval '{ sleep 1; hf publish x 3; grep -q "a secret begins with" log; }'
has "a bad file of secrets leaves the old ones in use and is logged" log \
    'secrets, line 1: a secret begins with whsec_'
kill $worker
wait $worker
hasnt "the log of a worker has no secrets" log "$one|$two"

chmod 644 secrets
exits 1 "work refuses a file of secrets that all can read" work s --http "$at/ok" --secret-file \
    secrets
has "the refusal of a file of secrets names chmod" err 'chmod o-r'
echo "whsec_c2hvcnQ=" >secrets
chmod 600 secrets
exits 1 "work refuses a secret of 5 bytes" work s --http "$at/ok" --secret-file secrets
has "the refusal of a short secret names line and limits" \
    err 'secrets, line 1: a secret has from 24 to 64 bytes'

# ---- Answers ------------------------------------------------------------------------------------

sent x 1
work_on /status/500 --attempts-max 3
is "an answer of 500 is retried until the event is dead" "$rc" 7
has "the error of a webhook has status, host and text of the answer" <(error_of) \
    "^HTTP 500 from 127.0.0.1:$port: the body of this 500$"
before=$(count)
sent x 1
work_on /status/422 --attempts-max 3
is "an answer of 422 makes a dead letter at the first attempt" "$rc $(($(count) - before))" "7 1"
before=$(count)
sent x 1
work_on /status/404 --attempts-max 3
is "an answer of 404 is tried again" "$rc $(($(count) - before))" "7 3"
before=$(count)
sent x 1
work_on /redirect --attempts-max 1
is "a webhook does not follow a redirect" "$rc $(($(count) - before))" "7 1"
has "the error of a redirect says where it leads" <(error_of) \
    'HTTP 302 from .*: it redirects to /ok, which is not followed'
sent x 1
work_on /dirty --attempts-max 1
hasnt "the error of a webhook has no control characters of the answer" <(error_of) '[[:cntrl:]]'
has "the error of a webhook keeps the rest of a dirty answer" \
    <(error_of) 'HTTP 500 from .*: a.*b.*c.*d e.*f'
sent x 1
work_on /status/410
is "an answer of 410 pauses the subscription" "$rc" 5
hf sub show s
has "the reason of the pause names 410 Gone" out '410 Gone: it wants no more events'
hf dlq list --json
is "an answer of 410 makes no dead letter" "$(wc -l <out)" 0
hf sub resume s
work_on /ok
is "an event with an answer of 410 is delivered after sub resume" "$rc" 0

sent x 1
before=$EPOCHREALTIME
work_on /after/1 --attempts-max 2
is "Retry-After in seconds delays the next attempt" \
    "$(awk -v a="$before" -v b="$EPOCHREALTIME" 'BEGIN { print (b - a >= 1) }')" 1
has "the log says how long Retry-After delays the next attempt" err 'again in 1s'
sent x 1
work_on /late --attempts-max 2
# The date says whole seconds, and a part of the first one passes before it is read.
has "Retry-After as a date delays the next attempt" err 'again in ([0-9]{3}ms|[12](\.[0-9]+)?s)'
sent x 1
hf sub create s --on '*' --from start --retry-base 10ms --retry-max 10ms
"$HOLDFAST" work s --http "$at/after/99999999999" --allow-private 2>log & worker=$!
until_true 20 grep -q 'again in' log
kill $worker
wait $worker
has "Retry-After delays the next attempt by at most a day" log 'again in (1d|24h)'

# ---- Receivers that lie, hang and flood ---------------------------------------------------------

sent x 1
work_on /long --attempts-max 1
has "an answer that ends early is a failure" <(error_of) 'the answer ends before it is complete'
sent x 1
work_on /hang --attempts-max 1 --http-timeout 300ms
has "a receiver that hangs is given up after --http-timeout" \
    <(error_of) 'did not answer completely within 300ms'
sent x 1
work_on /trickle --attempts-max 1 --http-timeout 500ms
has "an answer that trickles is given up after --http-timeout" \
    <(error_of) 'did not answer completely within 500ms'
sent x 1
work_on /hang --attempts-max 1 --timeout 400ms
has "a webhook ends before the time limit of its handler" <(error_of) 'did not answer completely'
sent x 1
work_on /flood
is "an answer of 100 MB with status 2xx settles the event" "$rc" 0
sent x 1
work_on /headers --attempts-max 1
has "an answer with more than 64 KiB of headers is a failure" \
    <(error_of) 'its headers have more than 65536 bytes'
sent x 1
work_on /header --attempts-max 1
has "a header of an answer that does not end is a failed attempt, and not repeated for ever" \
    <(error_of) 'a header of the answer is too long'

sent x 1
for i in 2 3 4 5 6; do hf publish x $i; done
before=$(count)
opened=$(cat got/connections)
work_on /ok
is "webhooks use a connection again" \
    "$rc $(($(count) - before)) $(($(cat got/connections) - opened))" \
    "0 6 1"
sent x 1
for i in 2 3 4 5 6 7 8; do hf publish x $i; done
work_on /slow --mode shared --concurrency 8 --max-per-host 2
is "--max-per-host limits the webhooks to one host at a time" "$rc $(cat got/most)" "0 2"

# ---- Addresses ----------------------------------------------------------------------------------

before=$(count)
sent x 1
hf work s --on '*' --from start --http "$at/ok" --attempts-max 1 --until-empty --max-time 60s
is "a webhook does not reach a loopback address" "$rc $(($(count) - before))" "7 0"
has "the error names the loopback address" <(error_of) \
    '127\.0\.0\.1, a loopback address, which webhooks do not reach'
for host in "[::ffff:127.0.0.1]" localhost 2130706433 0x7f.1; do
    sent x 1
    hf work s --on '*' --from start --http "http://$host:$port/ok" --attempts-max 1 --until-empty \
        --max-time 60s
    is "a webhook does not reach loopback as $host" "$rc $(($(count) - before))" "7 0"
done
sent x 1
hf work s --on '*' --from start --http "$at/ok" --allow-network 127.0.0.0/8 --until-empty \
    --max-time 60s
is "--allow-network lets webhooks reach that network" "$rc $(($(count) - before))" "0 1"

case ${ASAN_OPTIONS-}${TSAN_OPTIONS-}$HOLDFAST in
*address* | *thread*) ;; # their runtimes come first
*)
    cp "$tools/preload/resolver.so" . # LD_PRELOAD is split at spaces
    sent x 1
    hf publish x 2
    before=$(count)
    LD_PRELOAD=./resolver.so hf work s --on '*' --from start --attempts-max 1 \
        --http "http://turncoat.test:$port/close" --allow-network 127.0.0.2 --until-empty \
            --max-time 60s
    is "a name that resolves to loopback at the second request is refused then" \
        "$rc $(($(count) - before))" "7 1"
    has "the error names the address of the second request" <(error_of) \
        'turncoat\.test:[0-9]+ is 127\.0\.0\.1, a loopback'
    sent x 1
    before=$EPOCHSECONDS
    LD_PRELOAD=./resolver.so hf work s --on '*' --from start --attempts-max 1 \
        --http "http://sleeper.test:$port/ok" --http-timeout 500ms --until-empty --max-time 60s
    is "a resolver that hangs does not keep the handler" "$rc $((EPOCHSECONDS - before < 20))" "7 1"
    ;;
esac

# ---- Death --------------------------------------------------------------------------------------

sent x '"only once"'
hf sub create s --on '*' --from start --lease 1s
"$HOLDFAST" work s --http "$at/once" --allow-private 2>log & worker=$!
before=$(count)
until_true 20 eval '[ "$(count)" -gt $before ]'
kill -9 $worker
wait $worker 2>/dev/null
hf work s --http "$at/once" --allow-private --until-empty --max-time 60s
is "a webhook of a killed worker is sent again" "$rc $(($(count) - before))" "0 2"
is "a webhook that is sent again has the same webhook-id" \
    "$(cat got/request.$(count) got/request.$(($(count) - 1)) | grep -a '^webhook-id' |
        sort -u | wc -l)" 1

# ---- Usage --------------------------------------------------------------------------------------

exits 2 "work --http refuses a URL with a user" work s --on x --from now --http http://u:p@h/
hasnt "the refusal of a URL does not print its password" err 'u:p'
exits 2 "work --http refuses a URL of another scheme" work s --on x --from now --http ftp://h/
for url in http://host:80:90/ 'http://127.0.0.1%00.example/' http://host:99999/ 'http://[::1/'; do
    exits 1 "work --http refuses $url, which is no URL" work s --on x --from now --http "$url"
done
exits 2 "work --allow-network refuses bits behind the mask" work s --on x --from now --http \
    http://h/ --allow-network 10.0.0.1/8
exits 2 "work refuses --exec together with --http" \
    work s --on x --from now --http http://h/ --exec true
cat >hooks.yaml <<END
database: {url: "$HOLDFAST_URL"}
subscriptions:
  - name: s
    on: '*'
    from: start
    retry: {base: 10ms, max: 10ms}
    handler: {http: "$at/ok?token=geheim", allow_networks: [127.0.0.1/32], secret_file: secrets}
END
echo "whsec_$one" >secrets
sent x 1
exits 0 "work takes webhooks of a configuration file" \
    work --config hooks.yaml --until-empty --max-time 60s
has "a webhook of a configuration file is signed" "$(last)" '^webhook-signature: v1,'
exits 0 "config show succeeds for a file with webhooks" config show --config hooks.yaml --origin
has "config show hides the query of a webhook's URL" out \
    'subscriptions\.s\.handler\.http +http://[^ ]*/ok\?\*\*\* +hooks.yaml:7'
sed -i 's/secret_file: secrets/exec: "true"/' hooks.yaml
exits 2 "config check refuses a handler with exec and http" config check hooks.yaml
has "the refusal names the lines of exec and http" \
    err 'hooks.yaml:7:.*there is also handler.exec in line 7'
finish
