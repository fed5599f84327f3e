#!/usr/bin/env bash
# Who has changed what: the audit records of `holdfast serve`, and the form of its log.
. "$(dirname "$0")/lib.sh"

admin=admin-token-$$ viewer=viewer-token-$$
hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
(umask 077
    echo "ann admin * $(hash_of "$admin")"
    echo "eve viewer * $(hash_of "$viewer")") >tokens
hf sub create mailer --on 'user.*' --from start

# last FIELD: of the newest record in the file `audit`.
last() { field audit '$' "\$.$1"; }
lines() { wc -l <audit; }

# ---- A file -------------------------------------------------------------------------------------

serve --tokens tokens --audit audit
bearer "$admin"
answers 204 "setup: the admin pauses a subscription" POST /v1/subscriptions/mailer/pause \
    '{"reason":"secret reason"}'
json "each line of the audit file is a JSON object" audit
is "a record names the token" "$(last actor)" ann
is "a record says that it was a token" "$(last via)" token
is "a record names what was done" "$(last action)" subscriptions_pause
is "a record names what it was done to" "$(last path)" /v1/subscriptions/mailer/pause
is "a record names the namespace" "$(last namespace)" default
is "a record of a unix socket names the user" "$(last address)" "uid $(id -u)"
is "a record has the status of the answer" "$(last status)" 204
is "a record of a success says that it is done" "$(last result)" done
has "a record has its time" audit '"at":"20[0-9]{2}-[0-9-]+T[0-9:.]+Z"'
hasnt "no body is in the audit file" audit 'secret reason'
hasnt "no token is in the audit file" audit "$admin"
is "the audit file can be read by its owner only" "$(stat -c %a audit)" 600
before=$(lines)
answers 200 "setup: a request that changes nothing" GET /v1/subscriptions
is "a request that changes nothing is not recorded" "$(lines)" "$before"
answers 201 "setup: an event is published" POST /v1/events '{"type":"user.x","payload":"hidden"}'
is "publishing is recorded in a file" "$(last action)" events_publish
hasnt "no payload is in the audit file" audit hidden
answers 404 "setup: a subscription that is not there" POST /v1/subscriptions/nobody/pause
is "a request that fails is recorded with its status" "$(last status) $(last result)" "404 failed"
bearer "$viewer"
answers 403 "setup: a viewer may not pause" POST /v1/subscriptions/mailer/pause
is "a request of a token that may not is recorded as refused" \
    "$(last actor) $(last status) $(last result)" "eve 403 refused"
bearer wrong
answers 401 "setup: an unknown token" POST /v1/subscriptions/mailer/pause
is "a request without a known token has no actor" \
    "$(last actor)/$(last via)/$(last status)" "//401"
bearer ''
hostile=$(printf 'a%%1b%%5b31m%%0aforged')
ask DELETE "/v1/subscriptions/$hostile"
json "a hostile path leaves the audit file lines of JSON" audit
hasnt "no control character reaches the audit file" audit $'\033'

# ---- Sessions of browsers -----------------------------------------------------------------------

web() { curl -s --unix-socket http -b jar -c jar "$@"; }
web http://localhost/session -d "{\"token\":\"$admin\"}" -o out
is "logging in is recorded with the token's name" "$(last actor) $(last action)" "ann log_in"
hasnt "logging in leaves no token in the audit file" audit "$admin"
secret=$(web http://localhost/session | sed -n 's/.*"secret":"\([0-9a-f]*\)".*/\1/p')
web -X POST http://localhost/v1/subscriptions/mailer/resume -o out
is "a change of a session without its secret is recorded as refused" \
    "$(last actor) $(last via) $(last result)" "ann session refused"
web -X POST -H "X-Holdfast-Secret: $secret" http://localhost/v1/subscriptions/mailer/resume -o out
is "a change of a browser says that it was a session" \
    "$(last actor) $(last via) $(last action) $(last result)" \
    "ann session subscriptions_resume done"
hasnt "no secret of a session is in the audit file" audit "$secret"
web -X POST -H 'Origin: https://evil.example' http://localhost/v1/subscriptions/mailer/pause -o out
is "a change that another site requests is recorded as refused" \
    "$(last status) $(last result)" "403 refused"
web -X DELETE -H "X-Holdfast-Secret: $secret" http://localhost/session -o out
is "logging out is recorded with the token's name" "$(last actor) $(last action)" "ann log_out"
mv audit audit.1
before=$(wc -l <audit.1)
kill -HUP "$server_pid"
true_that "the audit file is made again after SIGHUP" until_true 30 test -e audit
bearer "$admin"
answers 204 "setup: the admin pauses again" POST /v1/subscriptions/mailer/pause
is "a record after SIGHUP is in the new audit file" "$(last action)" subscriptions_pause
is "the renamed audit file gets no record after SIGHUP" "$(wc -l <audit.1)" "$before"
bearer ''
spent() { awk '{ print $14 + $15 }' "/proc/$server_pid/stat"; }
before=$(spent)
sleep 1
true_that "a server that got SIGHUP does not spin" test $(($(spent) - before)) -lt 50
unserve

# ---- The log ------------------------------------------------------------------------------------

rm -f serve.err audit
serve
answers 204 "setup: a subscription is paused" POST /v1/subscriptions/mailer/pause
has "without --audit a change is a line of the log" serve.err \
    "^20[0-9-]+T[0-9:]+Z  audit: local \(local\) from uid $(id -u): POST .*/pause: 204 done$"
answers 201 "setup: another event is published" POST /v1/events '{"type":"user.y"}'
hasnt "the log has no record of publishing" serve.err '/v1/events'
ask DELETE "/v1/subscriptions/$hostile"
hasnt "no control character of a path reaches the log" serve.err $'\033'
is "every line of the log begins with its time" \
    "$(grep -avcE '^20[0-9]{2}-[0-9-]+T[0-9:]+Z  ' serve.err)" 0
unserve
rm -f serve.err
serve --log-format json
answers 204 "setup: a subscription is resumed" POST /v1/subscriptions/mailer/resume
ask DELETE "/v1/subscriptions/$hostile"
unserve
json "serve --log-format json writes every line of the log as an object" serve.err
is "every object of the log has its time" "$(grep -vc '"at":"20' serve.err)" 0
has "a record in a log of JSON has the fields of the file" serve.err \
    '"message":"audit","actor":"local","via":"local",.*"action":"subscriptions_resume"'
rm -f serve.err
serve --json
unserve
json "serve --json writes the log as JSON, too" serve.err
rm -f serve.err
serve --audit off
answers 204 "setup: one more pause" POST /v1/subscriptions/mailer/pause
hasnt "serve --audit off records nothing at all" serve.err audit
unserve
exits 1 "serve refuses an audit file that cannot be opened" serve --listen unix:http \
    --audit no/such/folder
has "the message names the audit file" err 'the audit file no/such/folder cannot be opened'
mkfifo pipe
exec 8<>pipe
serve --audit pipe
drain() { dd if=pipe iflag=nonblock bs=65536 2>>drain.err; }
long=$(printf '%5000s' | tr ' ' p)
for _ in {1..20}; do
    ask POST "/v1/$long"
done
drain >drained
is "setup: the audit file had room for a part of the last record" "$(tail -c 1 drained)" p
answers 204 "setup: a pause when the audit file has room again" POST \
    /v1/subscriptions/mailer/pause
drain >>drained
unserve
exec 8>&-
tail -n 1 drained >whole
json "a record behind one that was cut is on a line of its own" whole
if [ -e /dev/full ]; then
    rm -f serve.err
    serve --audit /dev/full
    answers 204 "a full disk of the audit file keeps no request from its answer" \
        POST /v1/subscriptions/mailer/resume
    has "a full disk of the audit file is complained about in the log" serve.err \
        'the audit file /dev/full cannot be written: No space left'
    unserve
fi
finish
