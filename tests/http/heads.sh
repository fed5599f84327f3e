#!/usr/bin/env bash
# Heads of requests that could be read in two ways, and bodies of callers that are not known.
# shellcheck disable=SC2183
trap '' PIPE
. "$(dirname "$0")/lib.sh"
tools=$(dirname "$HOLDFAST")/tests/tools
echo "ann admin * $(printf %s secret | sha256sum | cut -d' ' -f1)" >tokens
chmod 600 tokens

# start ARGS...: a server on a port of its own; leaves the port in $port.
start() {
    rm -f log
    "$HOLDFAST" serve --listen 127.0.0.1:0 "$@" 2>log &
    server_pid=$!
    until_true 30 listening
}
listening() { port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' log) && [ -n "$port" ]; }

# say TEXT...: sends bytes (as printf has them) on a connection, and prints what comes back; fails
# if the connection is not closed.
say() {
    local closed
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return
    # shellcheck disable=SC2059
    printf "$@" >&9 2>/dev/null
    timeout 5 cat <&9 2>/dev/null
    closed=$?
    exec 9>&-
    return "$closed"
}
codes() { grep -ao '^HTTP/1.1 [0-9]*' | cut -c 10- | tr '\n' ' '; }
# refused CODE CLAIM TEXT: one answer, and then the end of the connection: what a body might hide is
# not read.
refused() {
    say "$3" >out
    is "$2" "closed: $? $(codes <out)" "closed: 0 $1 "
}

host='Host: localhost\r\n'
get="GET /v1/stats HTTP/1.1\r\n"
post="POST /v1/events HTTP/1.1\r\n$host"
event='{"type":"hidden"}'

start
refused 400 "a request with two lengths is refused" \
    "${post}Content-Length: 0\r\nContent-Length: 17\r\n\r\n"
refused 400 "a request with the same length twice is refused" \
    "${post}Content-Length: 17\r\nContent-Length: 17\r\n\r\n"
refused 400 "a request with a length and chunks is refused, and its connection closed" \
    "${post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
refused 501 "a request with an encoding that is not known is refused" \
    "${post}Transfer-Encoding: gzip, chunked\r\n\r\n"
refused 400 "a request with two encodings is refused" \
    "${post}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n"
refused 400 "a request with a space behind the name of a header is refused" \
    "${post}Content-Length : 17\r\n\r\n"
refused 400 "a length on a line of its own below its name is refused" \
    "${post}Content-Length:\r\n 17\r\n\r\n"
refused 400 "an encoding on a line of its own below its name is refused" \
    "${post}Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n"
refused 400 "a request of HTTP/1.0 with chunks is refused" \
    "POST /v1/events HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n"
refused 400 "a request with two Hosts is refused" "$get${host}Host: evil.example\r\n\r\n"
refused 400 "a request with two Origins is refused" \
    "$get${host}Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n"
refused 400 "a NUL in a parameter is refused" "GET /v1/events?type=a%%00b HTTP/1.1\r\n$host\r\n"
refused 400 "a CR alone in a header is refused: for some it is the end of the line" \
    "${get}Host: localhost\rContent-Length: 17\r\n\r\n"
refused 400 "a control character in a header is refused" "$get${host}X: a\013b\r\n\r\n"
refused 400 "a NUL in a header is refused" "${get}${host}X: a\0b\r\n\r\n"
refused 400 "a NUL at the end of a header is refused" "${get}${host}X: a\0\r\n\r\n"
refused 400 "a NUL in the last header before lines that end with LF alone is refused" \
    "GET /v1/stats HTTP/1.1\nHost: localhost\0.evil.example\n\n"
refused 400 "a NUL in the target of a request is refused" "GET /v1/stats\0/x HTTP/1.1\r\n$host\r\n"
refused 400 "a space in the target of a request is refused" "GET /v1/stats x HTTP/1.1\r\n$host\r\n"
refused 400 "a header that goes on in the next line is refused" "${get}${host}X: a\r\n b\r\n\r\n"
many=$(printf '&type=a%.0s' {1..600})
refused 414 "more parameters than any route takes are refused at once" \
    "GET /v1/stream?from=now$many HTTP/1.1\r\n$host\r\n"
refused 414 "parameters of one byte that fill the head are refused at once" \
    "GET /v1/stats?$(printf 'a&%.0s' {1..8000}) HTTP/1.1\r\n$host\r\n"
refused 414 "a target of 9 KiB is refused" \
    "GET /v1/stats?a=$(printf '%9000s' | tr ' ' a) HTTP/1.1\r\n$host\r\n"
refused 400 "a header without a name is refused" "${get}$host: x\r\n\r\n"
refused 415 "a packed body is refused before it comes" \
    "${post}Content-Encoding: gzip\r\nContent-Length: 17\r\n\r\n"
refused 400 "a request with two content types is refused" \
    "${post}Content-Type: text/plain\r\nContent-Type: application/cloudevents+json\r\n\r\n"
close='Connection: close\r\n'
refused 201 "a body whose Content-Encoding says that it is not packed is taken" \
    "${post}Content-Encoding: identity\r\nContent-Length: 17\r\n$close\r\n$event"
refused 200 "lines that end with LF alone and blanks around a header are taken" \
    "GET /v1/stats HTTP/1.1\nHost:  localhost\nX: \t a \nY:\nConnection: close\n\n"
most=$(printf "X: $(printf '%1000s' | tr ' ' x)\\\\r\\\\n%.0s" {1..10})
refused 200 "as many parameters as a stream takes, and 10 KiB of headers, are taken" \
    "GET /v1/check?nodes=0$(printf '&subscription=a%.0s' {1..64}) HTTP/1.1\r\n$host$most$close\r\n"
refused 400 "the parameters that a stream takes at most are all looked at" \
    "GET /v1/stream?from=no$(printf '&type=a.bcdefghi%.0s&key=abcdefghijklmnop' {1..64}) \
HTTP/1.1\r\n$host$close\r\n"
has "the answer to that is about the parameter from" out 'the parameter from takes'
refused 200 "a tab in a header is taken" "$get${host}X: a\tb\r\n$close\r\n"
refused 421 "a Host with something behind the address is refused" \
    "${get}Host: [::1].evil.example\r\n$close\r\n"
refused 421 "a Host whose port is no number is refused" \
    "${get}Host: localhost:1@evil.example\r\n$close\r\n"
refused 201 "behind a chunked request there is no other one on the connection" \
    "${post}Transfer-Encoding: Chunked\r\n\r\n11\r\n$event\r\n0\r\n\r\n$get$host\r\n"
refused 201 "what a line that ends with LF alone hides in an extension of a chunk is no request" \
    "${post}Transfer-Encoding: chunked\r\n\r\n11;x\n$event\r\n0\r\n\r\n$get$host\r\n"
# unread WHAT TEXT: libmicrohttpd answers such a head itself, some of them with two heads.
unread() {
    say "$2\r\n$get$host\r\n" >out
    is "behind $1 nothing is read" "closed: $? $(codes <out | grep -c 200)" "closed: 0 0"
}
unread "a length that is no number" "$get${host}Content-Length: x\r\n"
unread "a list of lengths" "$get${host}Content-Length: 5, 5\r\n"
unread "a negative length" "${post}Content-Length: -1\r\n"
unread "a length that no number can hold" "${post}Content-Length: 99999999999999999999999\r\n"
unread "very many cookies" "$get${host}Cookie: $(printf 'a=b;%.0s' {1..900})\r\n"
unread "a header without a colon" "$get${host}X\r\n"
unread "a request of HTTP/3.0" "GET /v1/stats HTTP/3.0\r\n$host"
unread "a line with something behind the version" "GET /v1/stats HTTP/1.1 x\r\n$host"
unserve

# --- Clients that close their sending side ---
# left CLAIM TEXT: such a client is not kept until --request-timeout, which is 30 seconds.
left() {
    # shellcheck disable=SC2059
    printf "$2" | "$tools/half_close" "$port" 15 >out
    is "$1" "$?" 0
}
start
left "a request whose client closes its side in the middle of its body is ended" \
    "${post}Content-Length: 100\r\n\r\n{\"type\""
is "a request that ends in the middle of its body gets no answer" "$(cat out)" ""
left "a request whose client closes its side before its body is ended" \
    "${post}Content-Length: 100\r\n\r\n"
left "a request whose client closes its side in the middle of a chunk is ended" \
    "${post}Transfer-Encoding: chunked\r\n\r\n11\r\n{\"ty"
left "a request whose client closes its side in the middle of its head is ended" "$get$host"
left "a request whose client closes its side in its first line is ended" "GET /v1/st"
left "a connection whose client closes its side behind its request is ended" "$get$host\r\n"
is "a client that closes its side behind its request gets the answer" "$(codes <out)" "200 "
crowd=
for i in {1..30}; do
    # shellcheck disable=SC2059
    printf "$get$host\r\n" | "$tools/half_close" "$port" 15 >"crowd.$i" &
    crowd="$crowd $!"
done
# shellcheck disable=SC2086
wait $crowd
is "30 clients at a time that close their sides behind their requests get their answers" \
    "$(cat crowd.* | grep -ao 'HTTP/1.1 200' | wc -l)" 30
curl -s -o out -X PUT "http://127.0.0.1:$port/v1/subscriptions/jobs" \
    -d '{"patterns":["job"],"mode":"shared","from":"now"}'
left "a connection whose client closes its side and waits for events is ended after the answer" \
    "POST /v1/subscriptions/jobs/claim HTTP/1.1\r\n${host}Content-Length: 16\r\n\r\n\
{\"wait_ms\":4000}"
is "a client that closes its side and waits for events gets the answer" "$(codes <out)" "200 "
unserve

# --- Bodies of strangers ---
start --tokens tokens --audit audit --max-body 1MiB
refused 401 "a large body without a token is refused before it comes" \
    "${post}Content-Length: 100000\r\n\r\n"
refused 413 "a large body for a path of the page is refused before it comes" \
    "POST /session HTTP/1.1\r\n${host}Content-Length: 100000\r\n\r\n"
refused 413 "a body above the limit is refused before it comes" \
    "${post}Content-Length: 2000000\r\n\r\n"
is "requests that are refused before their bodies come are recorded" \
    "$(sed 's/.*"status":\([0-9]*\).*/\1/' audit | tr '\n' ' ')" '401 413 413 '
large=$(printf '%40000s' ' ')
say "${post}Transfer-Encoding: chunked\r\n\r\n9c40\r\n$large\r\n" >out
is "a chunked body without a token ends its connection when it becomes large" "$?" 0
say "${post}Transfer-Encoding: chunked\r\nAuthorization: Bearer secret\r\n$close\r\n%s" \
    "9c40"$'\r\n'"$large"$'\r\n11\r\n'"$event"$'\r\n0\r\n\r\n' >out
is "a chunked body with a token may be large" "$(codes <out)" '201 '
unserve
finish
