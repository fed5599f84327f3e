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
    echo "oscar operator default $(hash_of act)"
    echo "ada admin default $(hash_of all)"
    echo "otto operator other $(hash_of other)"
    echo "root admin * $(hash_of root)"
} >tokens

# --- Without tokens only this machine is listened to ---
exits 1 "an address for other machines needs tokens" serve --listen 0.0.0.0:0
has "and says how" err 'give a file of tokens \(--tokens\), or listen on 127.0.0.1$'
exits 2 "what is no address is refused" serve --listen nonsense
exits 2 "a key without its certificate is refused" serve --tls-key x

# --- The file of tokens ---
exits 3 "a file that is not there" serve --listen 127.0.0.1:0 --tokens nowhere
echo "x viewer default 12" >bad
exits 2 "a hash that is none is refused" serve --listen 127.0.0.1:0 --tokens bad
has "with the line" err 'bad, line 1: the last word is 64 hexadecimal digits'
echo "x king default $(hash_of a)" >bad
exits 2 "a role that is none is refused" serve --listen 127.0.0.1:0 --tokens bad
cp tokens open
chmod go+w open
hf serve --listen 127.0.0.1:0 --tokens open
has "a file that others can write is refused" err 'can be written by others'

# --- Every route and every role ---
exits 0 "another namespace" namespace create other
serve --tokens tokens
answers 401 "without a token" GET /v1/stats
has "it says what is needed" out 'a token is needed: Authorization: Bearer TOKEN'
bearer wrong
answers 401 "a token that is not known" GET /v1/stats
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
        result $right "$what is $([ $may = 1 ] || echo not) allowed" \
            < <(echo "status $status"; cat out)
    done
done < <(list_routes)
is "all routes were tried" "$routes" "$(grep -c '^ROUTE(' "$root/src/server/api/routes.def")"
bearer other
answers 200 "a token is for its namespace" GET /v1/namespaces/other/stats
bearer root
answers 200 "one for all of them may look at them" GET /v1/namespaces

described() {
    local method path scope role
    while read -r method path scope role; do
        grep -qF "| \`$method /v1/$path\` | ${role,,} |" "$root/docs/http.md" ||
            { echo "docs/http.md does not have $method $path, $role"; return 1; }
    done < <(list_routes)
    [ "$(grep -c '^| `[A-Z]* /v1/' "$root/docs/http.md")" -eq "$routes" ]
}
true_that "docs/http.md has the routes that there are" described

# --- Tokens come and go without a restart ---
grep -v '^vera' tokens >fewer
mv fewer tokens
bearer see
gone() { ask GET /v1/stats; [ "$status" = 401 ]; }
true_that "a token that was taken out of the file is refused" until_true 10 gone
echo "nonsense" >>tokens
sleep 1.5
bearer act
answers 200 "a file that cannot be read leaves the tokens as they were" GET /v1/stats
has "and the log says what is wrong" serve.err 'tokens, line [0-9]+: a line has four words'
unserve

# --- Host and Origin ---
token=
serve
source_of() { curl -s -o out -w '%{http_code}' --unix-socket http "$@" http://localhost/v1/stats; }
is "the name of another machine is refused" "$(source_of -H 'Host: evil.example')" 421
is "one that begins like ours, too" "$(source_of -H 'Host: localhost.evil.example')" 421
is "and none" "$(source_of --http1.0 -H 'Host:')" 421
is "our own is not" "$(source_of -H 'Host: 127.0.0.1:7070')" 200
is "a page of another site is refused" "$(source_of -H 'Origin: http://evil.example')" 403
is "and a sandboxed one" "$(source_of -H 'Origin: null')" 403
is "our own page is not" "$(source_of -H 'Origin: http://localhost')" 200
is "what a browser calls cross-site is refused" "$(source_of -H 'Sec-Fetch-Site: cross-site')" 403
finish
