#!/usr/bin/env bash
# Whatever is in the data: no control character reaches the output, and JSON stays JSON.
. "$(dirname "$0")/lib.sh"

esc=$(printf '\033')
evil="${esc}[2J${esc}]0;owned$(printf '\007\r\b\177')"
csi=$(printf '\302\233')31m # U+009B, which some terminals take for ESC [
rlo=$(printf '\342\200\256') # U+202E, which turns the direction of writing
evil="$evil$csi$rlo"

clean() { # FILE: without control characters but line ends
    ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1" || {
        LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1" | cat -v | head -3
        return 1
    }
}
shows() { # WHAT ARGS...: neither stream has a control character
    local claim=$1
    shift
    hf "$@"
    cat out err >both
    true_that "$claim prints no control characters" clean both
}
shows_json() {
    local claim=$1
    shift
    shows "$claim" "$@" --json
    json "$claim --json prints JSON objects" out
}

printf '{"text":"%s%s\177 \342\200\250","n":1}' "$csi" "$rlo" >payload
"$HOLDFAST" publish evil.one - --key "key$evil" --tenant "tenant$evil" \
    --producer "me$csi" <payload >out 2>err
published=$?
if [ $published -ne 0 ]; then # a name with control characters may be refused, but cleanly
    true_that "the refusal of names with control characters has none" clean err
    "$HOLDFAST" publish evil.one - --key "key$evil" --tenant "tenant$evil" <payload >out 2>err
    published=$?
fi
is "publish takes control characters in key, tenant and payload" "$published" 0
id=$(sed 's/.*id \([0-9a-f-]*\).*/\1/' out)
for command in "tail" "event list" "event show $id"; do
    # shellcheck disable=SC2086
    shows "$command" $command
    # shellcheck disable=SC2086
    shows_json "$command" $command
done
hf tail --json
is "a key with control characters comes back as it was" "$(field out 1 '$.key')" "key$evil"

hf sub create s --on '*' --from start --retries 0
hf work s --exec "printf 'bad: $csi\\033[31m\\007\\n' >&2; exit 1" --until-empty --quiet
grep ' at 1, attempt' err >line
true_that "the line of a failed attempt has no control characters" clean line
dead=1
for command in "dlq list" "dlq show $dead" "dlq list --group-by error" "event show $id"; do
    # shellcheck disable=SC2086
    shows "$command" $command
    # shellcheck disable=SC2086
    shows_json "$command" $command
done
hf sub pause s --reason "because $evil"
shows "sub show" sub show s
shows_json "sub show" sub show s
shows "sub list" sub list
hf dlq resolve $dead --note "note $evil" --by "me $evil"
shows "dlq show of a resolved dead letter" dlq show $dead
shows_json "dlq show of a resolved dead letter" dlq show $dead

# Roles of a server may have any name.
if on postgres; then
    role="hf_cli_$$_$csi"
    server "CREATE ROLE \"$role\""
    hf namespace grant viewer default "$role"
    shows "namespace grants" namespace grants default
    shows_json "namespace grants" namespace grants default
    is "a role with control characters comes back as it was" "$(field out 1 '$.to')" "$role"
    hf namespace revoke viewer default "$role"
    server "DROP ROLE \"$role\""
fi

# --- Messages quote what was typed ---
shows "the error about a command" "pub$evil"
shows "the error about an option" tail "--fo$evil"
shows "the error about a value" tail --from "x$evil"
shows "the error about a type" publish "a.$evil"
shows "the error about a database" stats --db "none$evil.db"
shows "the error about a database of a server" stats --db "postgres:///none$evil?host=/none"
shows "the error about a URL" stats --db "postgres://$evil"
shows "the error about a name" sub show "none$evil"
printf '{"type":"a","ty%s":1}\n' "$csi" >bad.ndjson
shows "the error about a line" publish --file bad.ndjson

# --- Bytes that are no UTF-8 ---
bad=$(printf 'x\377\376')
hf publish evil.two "\"$bad\""
true_that "publish refuses a payload that is not UTF-8" test "$rc" -ne 0
true_that "the refusal of a payload that is not UTF-8 has no control characters" clean err
hf publish evil.two '{}' --key "$bad"
true_that "publish refuses a key that is not UTF-8" test "$rc" -ne 0

# --- SQL and HTML are only text ---
exits 0 "publish takes a key that looks like SQL" publish a.b \
    '"<script>"' --key "'; DROP TABLE holdfast_events, holdfast.events; --"
exits 0 "sub create takes a name that looks like SQL" \
    sub create "x'; DROP TABLE y; --" --on '*' --from now
exits 0 "sub show takes a name that looks like SQL" sub show "x'; DROP TABLE y; --"

# --- Output that cannot be written ---
"$HOLDFAST" tail >/dev/full 2>err
is "tail exits with 1 if stdout is a full disk" "$?" 1
has "tail says that it cannot write its output" \
    err 'cannot write the output: No space left on device'
pad=$(head -c 1000 /dev/zero | tr '\0' x)
for _ in $(seq 300); do echo "{\"type\":\"long.listing\",\"payload\":\"$pad\"}"; done >many.ndjson
hf publish --file many.ndjson
"$HOLDFAST" tail --json >/dev/full 2>err
is "tail of a long listing exits with 1 if stdout is a full disk" "$?" 1
has "tail of a long listing says that it cannot write its output" \
    err 'cannot write the output: No space left on device'
is "tail says once that it cannot write its output" "$(wc -l <err)" 1
# The reader has left before anything is written: who knows how much a pipe holds.
{ until_true 60 test -e left; exec "$HOLDFAST" tail --json 2>err; } | { exec <&-; : >left; }
is "tail exits with 1 if its reader has left" "${PIPESTATUS[0]}" 1
is "tail says nothing if its reader has left" "$(cat err)" ""
"$HOLDFAST" stats >&- 2>err
is "stats exits with 0 if stdout is closed" "$?" 0
"$HOLDFAST" publish a.b '{}' <&- >out 2>&-
is "publish exits with 0 if stdin and stderr are closed" "$?" 0
if on sqlite; then
    true_that "closed file descriptors do no harm to a SQLite file" \
        sh -c "sqlite3 bus.db 'PRAGMA integrity_check' | grep -q '^ok$'"
fi
exits 0 "tail succeeds after commands with closed file descriptors" tail --json
json "tail prints JSON objects after commands with closed file descriptors" out

finish
