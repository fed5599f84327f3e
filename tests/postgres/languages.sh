#!/usr/bin/env bash
# The programs of docs/sql.md in other languages do what stands there.
#
# Python's driver is Debian's, so it is Debian's python3 that runs, whatever else is in the PATH.
. "$(dirname "$0")/lib.sh"
cluster
schema
hour=3600000 # so that nothing is tried again while this runs
sql "SELECT FROM holdfast.change_subscription_put(1, 'jobs', '[\"**\"]',
         '{\"retry_base_ms\": $hour, \"retry_max_ms\": $hour}', 2, 1, 0, -1, now());
     CREATE TABLE mails (recipient text NOT NULL, subject text NOT NULL);
     CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)" >/dev/null
temp=$(mktemp -d)
worker=
trap 'kill $worker 2>/dev/null; rm -rf "$temp"; cluster_stop' EXIT

program() { # LANGUAGE: the block of that language
    awk -v mode=write -v info="$1 run by tests/postgres/languages.sh" -v to="$temp/$1" \
        -f "$ROOT/scripts/doc-blocks.awk" "$ROOT/docs/sql.md" >/dev/null && cat "$temp/$1.1"
}

# ---- Python -------------------------------------------------------------------------------------

publish() { # TYPE PAYLOAD
    sql "SELECT FROM holdfast.publish('default', '$1', '$2')" >/dev/null
}
mails="SELECT recipient, subject FROM mails ORDER BY recipient"
leased="SELECT count(*) FROM holdfast_private.leases"

python_works() {
    local status
    publish hello '{"to": "ann@home.example"}'
    publish hello '{"to": "bob@busy.example"}'
    publish hello '{"name": "nobody"}'
    /usr/bin/python3 "$temp/worker.py" 2>"$temp/worker.err" &
    worker=$!
    ok "the worker in Python handles what it can and settles all" \
        becomes "$mails; $leased; SELECT count(*) FROM holdfast_private.retries" \
        "ann@home.example|hello 0 2"
    is "an event that failed with a delay in Python waits for so long" \
        "SELECT next_attempt_at < now() + interval
        '15 min' FROM holdfast_private.retries WHERE position = 2" t
    is "an event that failed without a delay in Python waits by the retry policy" \
        "SELECT next_attempt_at > now() + interval '30 min'
        FROM holdfast_private.retries WHERE position = 3" t
    is "error and node of the worker in Python are kept" \
        "SELECT story::json -> 0 ->> 'error', story::json -> 0 ->> 'node'
        FROM holdfast_private.retries WHERE position = 2" \
        "the mail server is busy|py-1"
    is "the worker in Python is a live node" \
        "SELECT state FROM holdfast.node_list(1, NULL, 'py-1')" 1

    # It is in the middle of its work when its lease goes to another worker.
    ask a "BEGIN; LOCK TABLE mails" >/dev/null
    publish late '{"to": "cid@home.example"}'
    ok "setup: the worker in Python is in the middle of an event" becomes \
        "SELECT count(*) FROM pg_locks WHERE relation = 'mails'::regclass AND NOT granted" 1
    is "the lease of an event begins when the worker in Python begins it" \
        "SELECT expires_at > now() + interval '1 min' FROM holdfast_private.leases" t
    is "setup: the lease of the worker in Python is released" \
        "SELECT holdfast.release('default', 'jobs', replace(token::text, '-', ''))
        FROM holdfast_private.leases" ""
    ask a "COMMIT" >/dev/null
    publish last '{"to": "dan@home.example"}'
    ok "effects of an event that Python could not acknowledge are rolled back" \
        becomes "$mails; $leased" \
        "ann@home.example|hello cid@home.example|late dan@home.example|last 0"

    kill -TERM "$worker"
    wait "$worker"
    status=$?
    worker=
    ok "the worker in Python ends with 0 after SIGTERM" same "0 " \
        "$status $(cat "$temp/worker.err")"
    is "the worker in Python has said goodbye" \
        "SELECT state FROM holdfast.node_list(1, NULL, 'py-1')" 3
}

program python >"$temp/worker.py"
if /usr/bin/python3 -c 'import psycopg' 2>/dev/null; then
    open a
    python_works
else
    skip "the worker in Python" "/usr/bin/python3 has no psycopg"
fi

# ---- JavaScript ---------------------------------------------------------------------------------

place() { # ORDER: its exit status and SQLSTATE
    local status
    node "$temp/order.js" "$1" >"$temp/order.out" 2>&1
    status=$?
    echo "$status $(sed -n "s/^ *code: '\(.*\)',$/\1/p" "$temp/order.out")"
}

program js >"$temp/order.js"
placed="SELECT id, total FROM orders ORDER BY id; SELECT key, payload FROM holdfast.event_log
    WHERE type = 'order.placed' ORDER BY position"
if finds_pg || fetch_pg; then
    ok "the program in JavaScript places an order" same "0 " "$(place '{"id": "o-1", "total": 7}')"
    is "the program in JavaScript publishes an event with the order" \
        "$placed" 'o-1|7 o-1|{"id":"o-1","total":7}'
    ok "the program in JavaScript fails if the order is refused" \
        same "1 23505" "$(place '{"id": "o-1", "total": 8}')"
    ok "the program in JavaScript fails if the event is refused" same "1 HF001" \
        "$(place '{"id": "o-2", "total": 9, "note": "\u0000"}')"
    is "refused orders and events of JavaScript leave nothing behind" \
        "$placed" 'o-1|7 o-1|{"id":"o-1","total":7}'
else
    skip "the program in JavaScript" "node or its pg is not installed"
fi
done_testing
