#!/usr/bin/env bash
# Who may use the HTTP API: tokens, roles, namespaces, hosts and origins.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
shopt -s extglob

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
{
    echo "# a comment, and an empty line"
    echo
    echo "vera viewer default $(hash_of see)"
    echo "wanda operator default $(hash_of wait)"
    echo "oscar operator default $(hash_of act)"
    echo "ada admin default $(hash_of all)"
    echo "otto operator other $(hash_of other)"
    echo "root admin * $(hash_of root)"
} >tokens

# --- Without tokens only this machine is listened to ---
exits 1 "serve refuses an address for other machines without tokens" serve --listen 0.0.0.0:0
has "the refusal of serve names --tokens and 127.0.0.1" \
    err 'give a file of tokens \(--tokens\), or listen on 127.0.0.1$'
exits 2 "serve --listen refuses what is no address" serve --listen nonsense
exits 2 "serve refuses --tls-key without a certificate" serve --tls-key x

# --- The file of tokens ---
exits 3 "serve --tokens with a file that does not exist exits with not found" \
    serve --listen 127.0.0.1:0 --tokens nowhere
echo "x viewer default 12" >bad
exits 2 "serve refuses a token whose hash has not 64 digits" serve --listen 127.0.0.1:0 --tokens bad
has "the refusal of a hash names file and line" \
    err 'bad, line 1: the last word is 64 hexadecimal digits'
echo "x king default $(hash_of a)" >bad
exits 2 "serve refuses a token with an unknown role" serve --listen 127.0.0.1:0 --tokens bad
cp tokens open
chmod go+w open
hf serve --listen 127.0.0.1:0 --tokens open
has "serve refuses a file of tokens that others can write" err 'can be written by others'

# --- Every route and every role ---
exits 0 "setup: namespace create makes another namespace" namespace create other
serve --tokens tokens
answers 401 "a request without a token gets 401" GET /v1/stats
has "the answer to a request without a token says which header is needed" \
    out 'a token is needed: Authorization: Bearer TOKEN'
bearer wrong
answers 401 "a request with an unknown token gets 401" GET /v1/stats
level() { case $1 in VIEWER) echo 1 ;; OPERATOR) echo 2 ;; ADMIN) echo 3 ;; esac; }
routes=0
while read -r method path scope role; do
    routes=$((routes + 1))
    path=${path//\{*([a-z_])\}/nothing}
    for who in see:1 act:2 all:3 other:0; do
        bearer "${who%:*}"
        ask "$method" "/v1/$path" '{"x":1}'
        may=1
        { [ "${who#*:}" -ge "$(level "$role")" ] && [ "$scope" = NAMESPACE ]; } || may=0
        case $may:$status in
        0:403 | 1:400 | 1:404 | 1:200 | 1:204 | 1:409) right=0 ;;
        *) right=1 ;;
        esac
        what="$method $path with the token \"${who%:*}\""
        result $right "$what is $([ $may = 1 ] && echo allowed || echo refused)" \
            < <(echo "status $status"; cat out)
    done
done < <(list_routes)
is "all routes were tried with all tokens" \
    "$routes" "$(grep -c '^ROUTE(' "$root/src/server/api/routes.def")"
bearer other
answers 200 "a token may use its own namespace" GET /v1/namespaces/other/stats
bearer root
answers 200 "a token for all namespaces may list them" GET /v1/namespaces

described() {
    local method path scope role
    while read -r method path scope role; do
        grep -qF "| \`$method /v1/$path\` | ${role,,} |" "$root/docs/http.md" ||
            { echo "docs/http.md does not have $method $path, $role"; return 1; }
    done < <(list_routes)
    [ "$(grep -c '^| `[A-Z]* /v1/' "$root/docs/http.md")" -eq "$routes" ]
}
true_that "docs/http.md has every route with its role, and no other" described

# --- Tokens come and go without a restart ---
# follow NAME TOKEN PATH: a stream that goes on until the server ends it; its id is in $client.
follow() {
    curl -sN --unix-socket http -H "Authorization: Bearer $2" -H 'Accept: text/event-stream' \
        -o "$1" "http://localhost$3" &
    client=$!
    true_that "a client follows $3" until_true 30 grep -q retry: "$1"
}
over() { ! kill -0 "$1" 2>/dev/null; }
follow seen see /v1/stream
seen=$client
follow live see /v1/live
live=$client
follow acted act /v1/stream
acted=$client
bearer act
answers 201 "setup: a subscription is made that a client waits for" \
    PUT /v1/subscriptions/awaited '{"patterns":["awaited"],"from":"now","mode":"shared"}'
curl -s --unix-socket http -H "Authorization: Bearer wait" -o claimed -d '{"wait_ms":60000}' \
    http://localhost/v1/subscriptions/awaited/claim &
waits=$!
waiting() { ask GET /metrics && sleep 1; } # until the request has come
true_that "setup: a client waits for events" waiting
grep -Ev '^(vera|wanda)' tokens >fewer
mv fewer tokens
true_that "a claim ends its waiting when its token is taken out of the file" \
    until_true 10 over "$waits"
is "a claim whose token is taken out of the file gets no events" \
    "$(cat claimed)" '{"lease":null,"expires_at":null,"events":[]}'
true_that "a stream ends when its token is taken out of the file" until_true 10 over "$seen"
true_that "a page's stream ends when its token is taken out of the file" until_true 10 over "$live"
true_that "streams of other tokens go on" kill -0 "$acted"
kill "$acted"
bearer see
gone() { ask GET /v1/stats; [ "$status" = 401 ]; }
true_that "a token that is taken out of the file is refused without a restart" until_true 10 gone
echo "nonsense" >>tokens
sleep 1.5
bearer act
answers 200 "a file of tokens with a mistake leaves the tokens as they were" GET /v1/stats
has "the log names file and line of a mistake among the tokens" \
    serve.err 'tokens, line [0-9]+: a line has four words'
unserve

# --- Host and Origin ---
token=
serve
source_of() { curl -s -o out -w '%{http_code}' --unix-socket http "$@" http://localhost/v1/stats; }
is "a request for the name of another machine is refused" "$(source_of -H 'Host: evil.example')" 421
is "a request for a name that begins like ours is refused" \
    "$(source_of -H 'Host: localhost.evil.example')" 421
is "a request without a Host is refused" "$(source_of --http1.0 -H 'Host:')" 421
is "a request for our own address is answered" "$(source_of -H 'Host: 127.0.0.1:7070')" 200
is "a request with the Origin of another site is refused" \
    "$(source_of -H 'Origin: http://evil.example')" 403
is "a request with the Origin null is refused" "$(source_of -H 'Origin: null')" 403
is "a request with our own Origin is answered" "$(source_of -H 'Origin: http://localhost')" 200
is "a request that a browser calls cross-site is refused" \
    "$(source_of -H 'Sec-Fetch-Site: cross-site')" 403
finish
