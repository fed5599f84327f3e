#!/usr/bin/env bash
# The dashboard's files, and logging in with a browser's session.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
{
    echo "vera viewer default $(hash_of see)"
    echo "oscar operator default $(hash_of act)"
    echo "root admin * $(hash_of root)"
} >tokens
chmod 600 tokens

# visit METHOD PATH CURL-OPTIONS...: as `ask`, with the headers of the answer in the file head.
visit() {
    local method=$1 path=$2
    shift 2
    : >out
    status=$(curl -s -o out -D head -w '%{http_code}' --max-time 60 --unix-socket http \
        -X "$method" "$@" "http://localhost$path")
    tr -d '\r' <head >head.new && mv head.new head
}
# visits STATUS CLAIM METHOD PATH CURL-OPTIONS...
visits() {
    local wanted=$1 claim=$2
    shift 2
    visit "$@"
    [ "$status" = "$wanted" ]
    result $? "$claim" < <(echo "status $status instead of $wanted: $*"; head -c 2000 out)
    told_by=$tap_name
}

# --- Files ---
serve
visits 200 "the page" GET /
has "it is HTML" head '^Content-Type: text/html; charset=utf-8$'
has "it runs its own files only" head \
    "^Content-Security-Policy: default-src 'none'; script-src 'self'"
hasnt "and nothing inline" head unsafe-
has "no page may frame it" head "frame-ancestors 'none'"
has "its type is what the header says" head '^X-Content-Type-Options: nosniff$'
has "it tells no one where a reader comes from" head '^Referrer-Policy: no-referrer$'
has "the page is asked for again each time" head '^Cache-Control: no-cache$'
tag=$(sed -n 's/^ETag: //p' head)
visits 304 "and not sent again if it is the same" GET / -H "If-None-Match: $tag"
is "which is short" "$(wc -c <out)" 0
visits 405 "it takes no other method" POST / -d x
visit GET /
hasnt "the page names nothing of other places" out 'https?://[^w]'
grep -oE '(src|href)="assets/[^"]*"' out | cut -d'"' -f2 >files
true_that "the page is made of files" test -s files
bytes=$(wc -c <out)
for file in "$root"/web/*; do
    name=${file##*/}
    [ "$name" != index.html ] || continue
    path=$(sed -n '1s|/[^/]*$||p' files)/$name
    visit GET "/$path"
    bytes=$((bytes + $(wc -c <out)))
    cmp -s "$file" out && [ "$status" = 200 ]
    result $? "$name is served as it is" < <(cat head)
done
true_that "all of them are less than 150 KB ($bytes)" test "$bytes" -lt 150000
has "a browser may keep them for ever" head '^Cache-Control: public, max-age=31536000, immutable$'
visits 404 "what has another digest is another program's" GET /assets/0123456789abcdef/app.js
visits 404 "there is no other file" GET "/$(sed -n '1s|/[^/]*$||p' files)/../../server.c" \
    --path-as-is
visits 200 "without tokens nobody logs in" GET /session
has "and everything is allowed" out '"login":false,.*"role":"admin"'
visits 409 "a token is refused then" POST /session -d '{"token":"see"}'
visits 421 "a name that the server does not go by gets no page" GET / -H 'Host: evil.example'
unserve

# --- Logging in ---
serve --tokens tokens
visits 200 "with tokens there is the page" GET /
visits 200 "and a session to begin" GET /session
has "it says so, and nothing else" out \
    "$(printf '%s' '^\{"login":true,"actor":null,"secret":null,"namespace":null,"version":null,' \
        '"engine":null,"namespaces":\[\]\}$')"
visits 401 "a wrong token is refused" POST /session -d '{"token":"nothing"}'
visits 400 "and no token" POST /session -d '{}'
visits 403 "a page of another site logs nobody in" POST /session -d '{"token":"act"}' \
    -H 'Origin: https://evil.example'
visits 204 "a token begins a session" POST /session -d '{"token":"act"}'
has "in a cookie that scripts and other sites do not get" head \
    '^Set-Cookie: holdfast_session=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict; Max-Age=604800$'
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)
visits 200 "the session is known" GET /session -H "Cookie: $cookie"
has "with what it may" out \
    '"actor":"oscar".*"namespaces":\[\{"name":"default","role":"operator"\}\]'
secret=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' out)
visits 200 "the API takes the cookie to look" GET /v1/stats -H "Cookie: $cookie"
visits 403 "a change needs the session's secret" POST /v1/events -H "Cookie: $cookie" \
    -d '{"type":"a"}'
has "and says so" out 'the header X-Holdfast-Secret is not that of the session'
visits 403 "another secret is refused" POST /v1/events -H "Cookie: $cookie" \
    -H "X-Holdfast-Secret: ${secret//a/b}" -d '{"type":"a"}'
visits 201 "with it the change is made" POST /v1/events -H "Cookie: $cookie" \
    -H "X-Holdfast-Secret: $secret" -d '{"type":"a"}'
visits 403 "a role is a role" POST /v1/dead-letters/purge -H "Cookie: $cookie" \
    -H "X-Holdfast-Secret: $secret" -d '{"all":true}'
has "and the session has the token's name" out 'the token oscar is operator here'
visits 401 "another cookie is no session" GET /v1/stats -H "Cookie: holdfast_session=${secret}"
visits 403 "logging out needs the secret, too" DELETE /session -H "Cookie: $cookie"
visits 204 "logging out" DELETE /session -H "Cookie: $cookie" -H "X-Holdfast-Secret: $secret"
has "takes the cookie away" head '^Set-Cookie: holdfast_session=; .*Max-Age=0$'
visits 401 "the session has ended" GET /v1/stats -H "Cookie: $cookie"

visit POST /session -d '{"token":"root"}'
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)
visits 200 "a token for all namespaces" GET /session -H "Cookie: $cookie"
has "has them listed" out '"namespaces":\[\{"name":"default","role":"admin"\}\]'
grep -v ^root tokens >fewer
chmod 600 fewer
mv fewer tokens
gone() { visit GET /v1/stats -H "Cookie: $cookie"; [ "$status" = 401 ]; }
true_that "a token that is taken out of the file ends its sessions" until_true 30 gone
visit GET /session -H "Cookie: $cookie"
has "which are asked to log in again" out '"actor":null,"secret":null'

# --- So many and no more ---
visit POST /session -d '{"token":"see"}'
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)
visits 200 "a session" GET /v1/stats -H "Cookie: $cookie"
seq 1024 | sed 's|.*|url = "http://localhost/session"|' >many
curl -s -o out --unix-socket http -d '{"token":"see"}' -K many >>curl.out
visits 401 "ends when a thousand others have begun since" GET /v1/stats -H "Cookie: $cookie"
unserve
is "the server stops without a complaint" "$rc" 0
finish
