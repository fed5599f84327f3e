#!/usr/bin/env bash
# Claims that wait: many at a time, clients that give up, the end of the server.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
serve
mailer=/v1/subscriptions/mailer
answers 201 "a shared subscription is made" \
    PUT $mailer '{"patterns":["mail"],"mode":"shared","from":"now"}'

# wait_for NAME COUNT BODY [SUBSCRIPTION]: so many clients claim at once; answers go to NAME.1 ...
wait_for() {
    local name=$1 count=$2 body=$3 path=${4:-$mailer} i
    rm -f "$name".*
    for i in $(seq "$count"); do
        echo "url = http://localhost$path/claim"
        echo "output = $name.$i"
    done >"clients.$name"
    curl -s --no-progress-meter -Z --parallel-immediate --parallel-max "$count" \
        --unix-socket http -d "$body" -w '%{http_code}\n' -K "clients.$name" >"codes.$name" &
    clients=$!
}
waiting() { [ "$(ls "$1".* 2>/dev/null | wc -l)" -eq 0 ]; }
# Seconds that the server has computed, in hundredths.
spent() { awk '{ print $14 + $15 }' "/proc/$server_pid/stat"; }
codes() { sort "codes.$1" | uniq -c | awk '{ print $1, $2 }'; }

# --- Many ---
wait_for many 200 '{"max":1,"wait_ms":30000}'
sleep 2
true_that "200 claims that wait are not answered while there is nothing" waiting many
answers 200 "other requests are answered while 200 claims wait" GET /v1/stats
before=$(spent)
sleep 3
true_that "200 claims that wait cost less than a tenth of a core" test $(($(spent) - before)) -lt 30
{ echo '['; yes '{"type":"mail"},' | head -n 199; echo '{"type":"mail"}]'; } >mails
answers 201 "200 events are published" POST /v1/events "$(cat mails)"
wait $clients
is "200 claims that waited are answered with 200" "$(codes many)" "200 200"
is "each of 200 claims that waited has one of 200 events" \
    "$(cat many.* | grep -o '"position":[0-9]*' | sort -u | wc -l)" 200
is "no claim that waited has more than it asked for" \
    "$(grep -o '"attempt":' many.* | sort | uniq -c | awk '$1 > 1' | wc -l)" 0

wait_for late 40 '{"wait_ms":700}'
wait $clients
is "claims that have waited long enough are answered with 200" "$(codes late)" "40 200"
is "claims that have waited long enough have no events" \
    "$(grep -l '^{"lease":null,"expires_at":null,"events":\[\]}' late.* | wc -l)" 40

# --- Clients that give up ---
give_up() { # COUNT: so many clients wait for a second, and leave
    wait_for gone "$1" '{"lease_ms":600000,"wait_ms":30000}'
    sleep 1
    kill "$clients"
    wait "$clients" 2>/dev/null
}
handed_out() {
    ask POST $mailer/claim '{"wait_ms":20000}'
    is "$1" "$(field out 1 '$.events[0].attempt')" 1
    field out 1 '$.lease' >lease
    answers 204 "the event is acknowledged" POST $mailer/ack "{\"lease\":\"$(cat lease)\"}"
}
give_up 1
answers 201 "an event is published when a client has left" POST /v1/events '{"type":"mail"}'
handed_out "an event goes to the next client if the one that waited for it has left"
give_up 20
answers 201 "an event is published when twenty clients have left" POST /v1/events '{"type":"mail"}'
handed_out "an event goes to the next client if twenty that waited for it have left"

# --- More subscriptions than threads that may wait ---
unserve
serve --threads 2
for name in a b c; do
    answers 201 "a shared subscription of one type is made" PUT /v1/subscriptions/$name \
        "{\"patterns\":[\"to.$name\"],\"mode\":\"shared\",\"from\":\"now\"}"
done
for name in a b c; do
    wait_for "$name" 3 '{"max":1,"wait_ms":30000}' /v1/subscriptions/$name
    eval "clients_$name=\$clients"
done
sleep 1
answers 200 "a server of two threads answers while claims of three subscriptions wait" \
    GET /v1/stats
answers 201 "events for three subscriptions are published" POST /v1/events \
    "[$(for name in a b c; do
        for i in 1 2 3; do echo "{\"type\":\"to.$name\",\"payload\":$i},"; done
    done | tr -d '\n' | sed 's/,$//')]"
wait "$clients_a" "$clients_b" "$clients_c"
for name in a b c; do
    is "claims get their events if more subscriptions are waited for than threads may wait" \
        "$(cat $name.* | grep -o "\"type\":\"to.$name\"" | wc -l)" 3
done

# --- What ends ---
wait_for removed 10 '{"wait_ms":30000}' /v1/subscriptions/a
sleep 1
answers 204 "a subscription is removed while claims wait for it" DELETE /v1/subscriptions/a
wait $clients
is "claims of a subscription that is removed are answered with 404" "$(codes removed)" "10 404"
wait_for stopped 40 '{"wait_ms":30000}'
sleep 1
unserve
is "the server ends without an error while claims wait" "$rc" 0
wait $clients
is "claims that wait are answered when the server ends" "$(codes stopped)" "40 200"
is "claims that the end of the server cuts short have no events" \
    "$(grep -l '"events":\[\]}' stopped.* | wc -l)" 40
finish
