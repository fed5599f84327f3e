#!/usr/bin/env bash
# SIGHUP: `holdfast serve` reads its certificate and key again, as a pair or not at all. New
# connections get the renewed pair, those that stand keep theirs.
. "$(dirname "$0")/lib.sh"

trap 'kill ${client:-} 2>/dev/null; unserve 2>/dev/null; leave; rm -rf "$work"' EXIT

# pair NAME: NAME.pem, which verifies itself for localhost, and NAME.key.
pair() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=$1" -addext subjectAltName=DNS:localhost -keyout "$1.key" -out "$1.pem" \
        >openssl.out 2>&1
}
put() { cp "$1.pem" cert.pem && cp "${2:-$1}.key" key.pem; }
# get NAME [PATH]: succeeds if the server has the certificate NAME.
get() {
    curl -s -o got --max-time 30 --unix-socket http --cacert "$1.pem" "https://localhost${2:-/v1/}"
}
serve_tls() {
    rm -f http
    "$HOLDFAST" serve --listen unix:http "$@" >>serve.out 2>>serve.err </dev/null &
    server_pid=$!
    until_true 30 curl -s -o got --insecure --unix-socket http https://localhost/v1/
}
said() { [ "$(grep -cE "$1" serve.err)" -gt "$2" ]; }
# hangup CLAIM PATTERN: SIGHUP makes the log say this.
hangup() {
    local before
    before=$(grep -cE "$2" serve.err)
    kill -HUP "$server_pid"
    true_that "$1" until_true 30 said "$2" "$before"
}
taken='the certificate cert\.pem and its key were read again'
not_taken='cert\.pem is not taken; the certificate and key before it go on'

ok "setup: pairs are made" eval 'pair first && pair second && pair third'
put first
serve_tls --tls-cert cert.pem --tls-key key.pem
ok "the server has its first certificate" get first
fails() { ! "$@"; }
ok "setup: another certificate would be noticed" fails get second

# ---- A connection that stands -------------------------------------------------------------------

mkfifo requests
openssl s_client -quiet -unix http -servername localhost <requests >answers 2>s_client.err &
client=$!
exec 8>requests
request() { printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n' >&8; }
answered() { [ "$(grep -c '^HTTP/1.1 200' answers)" -eq "$1" ]; }
request
true_that "setup: a connection stands" until_true 30 answered 1

# ---- A renewed pair -----------------------------------------------------------------------------

put second
ok "a renewed certificate is not looked at before SIGHUP" get first
hangup "a renewed pair is taken" "$taken"
ok "new connections get the renewed certificate" get second
request
true_that "a connection that stands goes on" until_true 30 answered 2
exec 8>&-
{ kill "$client"; wait "$client"; } 2>/dev/null # it would wait for the server
client=

# ---- What is not taken --------------------------------------------------------------------------

put third first
hangup "a key that does not fit is not taken" "$not_taken"
has "the log says why" serve.err 'the certificate cannot be used with its key'
ok "after a key that does not fit the pair before goes on" get second
put third
rm key.pem
hangup "a certificate without its key is not taken" "$not_taken"
has "the log names the missing file" serve.err 'cannot open key\.pem'
ok "after a missing key the pair before goes on" get second
head -c 100 third.pem >cert.pem
cp third.key key.pem
hangup "half of a certificate is not taken" "$not_taken"
ok "after half of a certificate the pair before goes on" get second
put third
hangup "a pair that fits is taken after others that did not" "$taken"
ok "new connections get the pair that fits" get third

# ---- While connections come ---------------------------------------------------------------------

come() { # 25 connections, one after the other
    local i
    for i in $(seq 25); do
        curl -s -o "got.$1" --max-time 30 --unix-socket http --insecure https://localhost/v1/ ||
            echo "$1: $i" >>lost
    done
}
clients=()
for i in 1 2 3; do
    come "$i" & clients+=($!)
done
for i in $(seq 10); do
    put "$([ $((i % 2)) -eq 0 ] && echo second || echo third)"
    hangup "pair $i is taken while connections come" "$taken"
done
wait "${clients[@]}"
is "no connection is lost while pairs change" "$(cat lost 2>/dev/null)" ''
ok "new connections get the last pair" get second
unserve
is "the server exits with 0 after its pair has changed" "$rc" 0

# ---- With a configuration file ------------------------------------------------------------------

mkdir etc
put first
mv cert.pem key.pem etc
cat >bus.yaml <<'END_OF_FILE'
serve: {tls: {cert: etc/cert.pem, key: etc/key.pem}}
retention: {age: 30d}
END_OF_FILE
serve_tls --config bus.yaml
ok "the server has the certificate that its file names" get first
cp second.pem etc/cert.pem
sed -i s/30d/20d/ bus.yaml
hangup "a changed file is taken though the key does not fit" 'bus\.yaml was read again'
has "the log says that the pair is not taken" serve.err 'etc/cert\.pem is not taken'
ok "the pair before goes on though the file was taken" get first
ok "setup: the server answers" get first /v1/namespaces/default
has "retention is that of the changed file" got "\"retention_ms\":$((20 * 86400000))"
cp second.key etc/key.pem
echo nonsense >>bus.yaml
hangup "a file with a mistake is not taken" 'everything stays as it was'
ok "a pair that fits is taken though the file is not" get second
unserve

put first second
rm -f http
exits 69 "serve does not start with a key that does not fit" serve --listen unix:http \
    --tls-cert cert.pem --tls-key key.pem
has "the message says why" err 'the certificate cannot be used with its key'
finish
