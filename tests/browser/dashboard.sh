#!/usr/bin/env bash
# The dashboard in a real browser: tests/browser/dashboard.mjs makes the claims, with Debian's
# chromium and playwright-core. Pictures of the pages are kept in $root/build/screenshots.
# shellcheck disable=SC2154
. "$(dirname "$0")/../http/lib.sh"
root=$ROOT
# start NAME ARGS...: a server on a port of its own, whose address is in the file NAME.url.
servers=()
start() {
    local name=$1
    shift
    "$HOLDFAST" serve --listen 127.0.0.1:0 "$@" >"$name.out" 2>"$name.err" </dev/null &
    servers+=($!)
    until_true 30 grep -q 'on http://' "$name.err"
    sed -n 's/.* on \(http:\/\/[^ ,]*\).*/\1/p' "$name.err" | head -1 >"$name.url"
}
stop_all() {
    local pid
    for pid in "${servers[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid"
    done
}
trap 'stop_all; leave; rm -rf "$work"' EXIT

true_that "chromium is installed (scripts/deps browser)" command -v chromium
driver=$("$root/scripts/browser-driver" 2>npm.out)
result $? "the driver of the browser is there" <npm.out

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
printf '%s\n' "vera viewer default $(hash_of see)" "olga operator default $(hash_of do)" \
    "ada admin * $(hash_of all)" >tokens
chmod 600 tokens

# What the pages show: one that works, one whose handler fails, one without a worker, one paused.
hf sub create ledger --on 'order.*' --from start
hf sub create billing --on order.placed --from start --attempts-max 1
hf sub create mailer --on 'user.*' --from start
hf sub create audit --on '**' --from start
hf sub pause audit --reason migration
hf sub create '<img src=x onerror=alert(1)>' --on 'stock.*' --from start --mode shared
hf schedule add nightly '0 3 * * *' report.due
hf schedule add clocks '30 2 * * *' report.due --zone Europe/Berlin
hf publish report.late '{}' --key k-later --delay 1h
seq 40 | sed \
    's/.*/{"type":"order.placed","key":"o-&","payload":{"order":&,"ref":9007199254740993}}/' |
    "$HOLDFAST" publish --file - >out 2>err
seq 12 | sed 's/.*/{"type":"user.created","payload":{"n":&}}/' | "$HOLDFAST" publish --file - \
    >out 2>err
hf work ledger --on 'order.*' --exec true --until-empty
hf work billing --on order.placed --until-empty \
    --exec 'echo "connect to 10.0.4.7:5432: refused" >&2; exit 65'
# One whose attempts fail, which holds what follows of the same key, and one with events in hand.
hf sub create courier --on 'parcel.*' --from start --retry-base 1h --retry-max 1h
hf sub create packer --on 'parcel.*' --from start
{ seq 12 && echo 1 && echo 1; } |
    sed 's/.*/{"type":"parcel.sent","key":"p-&","payload":{"n":&}}/' |
    "$HOLDFAST" publish --file - >out 2>err
"$HOLDFAST" work courier --exec 'echo "no <b>courier</b> is free" >&2; exit 75' >/dev/null 2>&1 &
servers+=($!)
"$HOLDFAST" work packer --exec 'exec sleep 3600' --concurrency 2 --node-id shed >/dev/null 2>&1 &
servers+=($!)
waits() {
    hf sub show courier --json && [ "$(field out 1 '$.retrying') $(field out 1 '$.held')" = '12 2' ]
}
until_true 60 waits
start open
start closed --tokens tokens

mkdir -p "$root/build/screenshots"
node "$root/tests/browser/dashboard.mjs" "$driver" "$(cat open.url)" "$(cat closed.url)" \
    "$root/build/screenshots" "$engine" tokens >browser.tap 2>browser.err
rc=$?
while read -r line; do
    case $line in
    "ok "*) result 0 "${line#ok }" </dev/null ;;
    "not ok "*) result 1 "${line#not ok }" < <(grep -A12 -F "# ${line#not ok }" browser.err) ;;
    esac
done <browser.tap
is "the browser came to its end" "$rc" 0
[ "$rc" = 0 ] || tail -20 browser.err >&2
finish
