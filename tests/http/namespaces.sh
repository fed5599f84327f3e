#!/usr/bin/env bash
# What a server keeps open for requests of other namespaces than its own.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
serve
count=20
for i in $(seq $count); do
    ask PUT /v1/namespaces/n"$i" '{}'
done
true_that "setup: twenty namespaces are made" test "$status" = 201

# How many of the namespaces have a process, which is the server.
kept() {
    local i number=0
    for i in $(seq $count); do
        "$HOLDFAST" node list --namespace n"$i" --json 2>/dev/null |
            grep -q "\"pid\":$server_pid," && number=$((number + 1))
    done
    echo "$number"
}
answered=0
for i in $(seq $count) $(seq $count); do
    ask GET /v1/namespaces/n"$i"/stats
    [ "$status" = 200 ] && answered=$((answered + 1))
done
is "requests for more namespaces than are kept open are answered" "$answered" $((count * 2))
is "the server keeps eight namespaces open that no request uses" "$(kept)" 8

# Those that are followed are in use.
for i in $(seq 6); do
    curl -sN --unix-socket http -o stream."$i" "http://localhost/v1/namespaces/n$i/stream" &
    eval "follower_$i=\$!"
done
follows() { [ "$(grep -l retry: stream.* | wc -l)" -eq 6 ]; }
true_that "setup: six namespaces are followed" until_true 30 follows
for i in $(seq $count); do
    ask GET /v1/namespaces/n"$i"/stats
done
is "namespaces that are followed stay open, besides eight" "$(kept)" 14
ask POST /v1/namespaces/n1/events '{"type":"x"}'
gets() { grep -q '"type":"x"' stream.1; }
true_that "a namespace that is followed sends its events" until_true 30 gets
for i in $(seq 6); do
    eval "kill \$follower_$i"
done
unserve
is "the server ends without an error after many namespaces" "$rc" 0
finish
