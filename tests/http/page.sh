#!/usr/bin/env bash
# The dashboard's files, and logging in with a browser's session.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
{
    echo "vera viewer default $(hash_of see)"
    echo "oscar operator default $(hash_of act)"
    echo "root admin * $(hash_of root)"
    echo "sam admin shop $(hash_of shop)"
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
}

# --- Files ---
serve
visits 200 "GET / answers the page" GET /
has "the page is HTML in UTF-8" head '^Content-Type: text/html; charset=utf-8$'
has "the page may run only scripts of the server" head \
    "^Content-Security-Policy: default-src 'none'; script-src 'self'"
hasnt "the page may run nothing inline" head unsafe-
has "no other page may frame the page" head "frame-ancestors 'none'"
has "a browser must not guess the type of the page" head '^X-Content-Type-Options: nosniff$'
has "the page sends no referrer to other sites" head '^Referrer-Policy: no-referrer$'
has "no cache keeps the page, which has a session in it" head '^Cache-Control: no-store$'
visits 405 "the page refuses other methods than GET" POST / -d x
visit GET /
hasnt "the page names no address of other sites" out 'https?://[^w]'
grep -oE '(src|href)="assets/[^"]*"' out | cut -d'"' -f2 >files
true_that "the page is made of files of the server" test -s files
folder=$(sed -n '1s|/[^/]*$||p' files)
bytes=$(wc -c <out)
while read -r path; do
    name=${path##*/}
    case $name in
    *.js) "$root/scripts/join-modules" "$root/web" "$name" >file ;;
    *) cp "$root/web/$name" file ;;
    esac
    visit GET "/$path"
    cmp -s file out && [ "$status" = 200 ]
    result $? "the file $name of the page is served as it is" < <(cat head)
    tag=$(sed -n 's/^ETag: //p' head)
    visit GET "/$path" -H 'Accept-Encoding: gzip, br'
    bytes=$((bytes + $(wc -c <out)))
    gzip -dc out | cmp -s file -
    result $? "the file $name of the page is served packed on request" < <(cat head)
done <files
has "a packed file says that it is" head '^Content-Encoding: gzip$'
packed_tag=$(sed -n 's/^ETag: //p' head)
true_that "a packed file has another tag than the same one as it is" test "$packed_tag" != "$tag"
true_that "the page with all its files is less than 75 KB, packed ($bytes)" test "$bytes" -lt 75000
has "a browser may keep the files of the page for ever" \
    head '^Cache-Control: public, max-age=31536000, immutable$'
visits 304 "a file is not sent again if it has not changed" \
    GET "/$folder/$name" -H "If-None-Match: $tag"
is "the answer for an unchanged file has no body" "$(wc -c <out)" 0
visit GET "/$folder/$name" -H 'Accept-Encoding: gzip;q=0'
hasnt "a file is not packed for a client that takes no gzip" head '^Content-Encoding:'
visits 404 "a file of another version of the page is 404" GET /assets/0123456789abcdef/app.js
visits 404 "a path out of the folder of the page is 404" \
    GET "/$folder/../../server.c" --path-as-is
visits 404 "a module that another file has in it is no file of the page" GET "/$folder/dom.js"
hf sub create '<!--<script>' --on '**' --from start
# what_it_begins_with: what the page says of the server before it has asked for anything
what_it_begins_with() {
    sed -n 's|^<script type="application/json" id="first">\(.*\)</script>$|\1|p' out >first
}
shows_it() { visit GET / && what_it_begins_with && grep -q 'u003c!--.u003cscript>' first; }
true_that "the page begins with the newest numbers of the server's own namespace" \
    until_true 30 shows_it
has "the page begins with the session and the namespace of the server" first \
    "$(printf '%s' '^\{"session":\{"login":false,.*"namespaces":\[\{"name":"default",' \
        '"role":"admin"\}\]\},"live":\{"headline":"All is well.","at":"2')"
has "the headline stands in the page itself" out '<h1 id="headline">All is well\.</h1>'
is "a name that would begin an element in the page does not" "$(grep -c '<!--<script>' out)" 0
visit GET / -H 'Cookie: holdfast_theme=dark'
has "the page has the theme that the reader has chosen" out '^<html lang="en" data-theme="dark">$'
visit GET / -H 'Cookie: holdfast_theme="><b>'
has "the page has no theme that is none" out '^<html lang="en">$'
visits 200 "GET /session answers without tokens" GET /session
has "a server without tokens asks for no login and allows everything" \
    out '"login":false,.*"role":"admin"'
visits 409 "POST /session without tokens is a conflict" POST /session -d '{"token":"see"}'
visits 421 "the page is refused under a name that the server does not have" \
    GET / -H 'Host: evil.example'
unserve

# --- Bodies where there is none to take ---
serve
for path in / /session /metrics /healthz /readyz "/$(head -n 1 files)"; do
    visits 400 "GET $path refuses a body" GET "$path" -d '{"x":1}'
done
visits 400 "DELETE /session refuses a body" DELETE /session -d x
visits 200 "an empty object is no body" GET /session -d '{ }'
unserve

# --- Logging in ---
serve --tokens tokens
visits 200 "GET / answers the page of a server with tokens" GET /
what_it_begins_with
has "the page before a login has no headline" out '<h1 id="headline"></h1>'
has "the page before a login has no numbers and names no namespace" first \
    '"namespace":null,"version":null,"engine":null,"namespaces":\[\]\},"live":null\}$'
visits 200 "GET /session answers before a login" GET /session
has "a session before a login says that a login is needed, and nothing else" out \
    "$(printf '%s' '^\{"login":true,"actor":null,"secret":null,"namespace":null,"version":null,' \
        '"engine":null,"namespaces":\[\]\}$')"
visits 401 "POST /session refuses an unknown token" POST /session -d '{"token":"nothing"}'
visits 400 "POST /session refuses a body without a token" POST /session -d '{}'
visits 403 "POST /session refuses the Origin of another site" POST /session -d '{"token":"act"}' \
    -H 'Origin: https://evil.example'
visits 204 "POST /session takes a token" POST /session -d '{"token":"act"}'
has "the cookie of a session is hidden from scripts and other sites" head \
    '^Set-Cookie: holdfast_session=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict; Max-Age=604800$'
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)
visits 200 "GET /session answers with the cookie of a session" GET /session -H "Cookie: $cookie"
has "a session says its name, its namespaces and its role" out \
    '"actor":"oscar".*"namespaces":\[\{"name":"default","role":"operator"\}\]'
secret=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' out)
has_numbers() {
    visit GET / -H "Cookie: $cookie"
    what_it_begins_with
    grep -q '"live":{' first
}
true_that "the page of a session begins with numbers" until_true 30 has_numbers
has "the page of a session begins with its name and secret" first \
    "\"actor\":\"oscar\",\"secret\":\"$secret\""
visits 200 "the API takes the cookie of a session to look" GET /v1/stats -H "Cookie: $cookie"
visits 403 "a change with the cookie alone is refused" POST /v1/events -H "Cookie: $cookie" \
    -d '{"type":"a"}'
has "the refusal names the header with the session's secret" \
    out 'the header X-Holdfast-Secret is not that of the session'
visits 403 "a change with a wrong secret is refused" POST /v1/events -H "Cookie: $cookie" \
    -H "X-Holdfast-Secret: ${secret//[0-9a-f]/0}" -d '{"type":"a"}'
visits 201 "a change with the secret of the session is made" POST /v1/events -H "Cookie: $cookie" \
    -H "X-Holdfast-Secret: $secret" -d '{"type":"a"}'
visits 403 "a session may not do what its role may not" \
    POST /v1/dead-letters/purge -H "Cookie: $cookie" \
    -H "X-Holdfast-Secret: $secret" -d '{"all":true}'
has "the refusal names the token of the session and its role" \
    out 'the token oscar has the role operator in this namespace; this needs the role admin'
visits 401 "a cookie of no session is refused" GET /v1/stats -H "Cookie: holdfast_session=${secret}"
visits 403 "logging out without the secret is refused" DELETE /session -H "Cookie: $cookie"
curl -sN --unix-socket http -H "Cookie: $cookie" -o live http://localhost/v1/stream &
live=$!
true_that "a session follows the log" until_true 30 grep -q retry: live
visits 204 "DELETE /session ends a session" \
    DELETE /session -H "Cookie: $cookie" -H "X-Holdfast-Secret: $secret"
has "DELETE /session takes the cookie away" head '^Set-Cookie: holdfast_session=; .*Max-Age=0$'
visits 401 "the cookie of an ended session is refused" GET /v1/stats -H "Cookie: $cookie"
over() { ! kill -0 "$live" 2>/dev/null; }
true_that "the streams of a session end with it" until_true 10 over

visit POST /session -d '{"token":"shop"}'
visit GET / -H "Cookie: $(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)"
what_it_begins_with
has "the page of who may not see the server's namespace begins without its numbers" first \
    '"namespaces":\[\{"name":"shop","role":"admin"\}\]\},"live":null\}$'

visit POST /session -d '{"token":"root"}'
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)
visits 200 "GET /session answers for a token of all namespaces" GET /session -H "Cookie: $cookie"
has "a session of a token for all namespaces lists them" \
    out '"namespaces":\[\{"name":"default","role":"admin"\}\]'
grep -v ^root tokens >fewer
chmod 600 fewer
mv fewer tokens
gone() { visit GET /v1/stats -H "Cookie: $cookie"; [ "$status" = 401 ]; }
true_that "a token that is taken out of the file ends its sessions" until_true 30 gone
visit GET /session -H "Cookie: $cookie"
has "a session that has ended must log in again" out '"actor":null,"secret":null'

# --- So many and no more ---
visit POST /session -d '{"token":"see"}'
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/p' head)
visits 200 "setup: the session of one token is known" GET /v1/stats -H "Cookie: $cookie"
log_in_often() { # TOKEN TIMES
    seq "$2" | sed 's|.*|url = "http://localhost/session"|' >many
    curl -s -o out --unix-socket http -d "{\"token\":\"$1\"}" -K many >>curl.out
}
log_in_often act 1024
visits 200 "a session goes on when another token has logged in 1024 times" \
    GET /v1/stats -H "Cookie: $cookie"
log_in_often see 64
visits 401 "a session ends when its own token has logged in 64 times since" \
    GET /v1/stats -H "Cookie: $cookie"
unserve
is "the server ends with 0 after its sessions" "$rc" 0
finish
