#!/usr/bin/env bash
# Two neighbouring versions on one database. The ordinary program is the previous one; the next one
# is made of the same sources and one more migration (tests/upgrade). `next` can work side by side
# with it, `breaks` cannot.
blank=yes # the tests are about making the schema, too
. "$(dirname "$0")/lib.sh"

neighbours=${BUILD:-$root/build/release}/neighbours
next=$neighbours/next/holdfast
breaks=$neighbours/break/holdfast
previous=$HOLDFAST
if [ ! -x "$next" ]; then
    skip "all claims about neighbouring versions" "there is no $next: make neighbours"
    finish
    exit
fi
number=$(find "$root/sql/$engine/tables" -name '0*.sql' | wc -l)
after=$((number + 1))

# with PROGRAM: which one `hf` and `exits` run.
with() { HOLDFAST=$1; }

# meta NAME: a fact that is stored of the schema.
meta() {
    if on sqlite; then
        sqlite3 bus.db "SELECT value FROM holdfast_meta WHERE name = '$1'"
    else
        psql -qXAt "$HOLDFAST_URL" -c "SELECT value FROM holdfast_private.meta WHERE name = '$1'"
    fi
}

# schema: everything of it that a program could have changed.
schema() {
    meta schema_version
    if on sqlite; then
        sqlite3 bus.db "SELECT sql FROM sqlite_schema ORDER BY name" | md5sum
    else
        meta functions_digest
        psql -qXAt "$HOLDFAST_URL" -c "SELECT md5(string_agg(concat(oid, xmin), '' ORDER BY oid))
            FROM (SELECT oid, xmin FROM pg_proc WHERE pronamespace::regnamespace::text
                      LIKE 'holdfast%'
                  UNION ALL SELECT oid, xmin FROM pg_class WHERE relnamespace::regnamespace::text
                      LIKE 'holdfast%' AND relkind IN ('r', 'p', 'v')) s"
    fi
}

# made: a new database with the schema of the previous version.
made() {
    with "$previous"
    fresh
    hf migrate --namespace default
    hf sub create jobs --on 'job.**' --mode shared --from start
    hf sub create ledger --on 'job.**' --mode ordered --from start
    hf publish job.made '{"n": 1}' --key a
}

# looks WHO: everything that only looks.
looks() {
    local command
    for command in tail stats 'sub list' 'sub show jobs' 'event list' 'event show 1' 'dlq list' \
        'node list' 'schedule list' 'namespace list' 'namespace show default' \
        'names subscriptions'; do
        # shellcheck disable=SC2086
        exits 0 "$1 runs $command" $command
    done
    hf doctor
    true_that "$1 runs doctor" test "$rc" -eq 0 -o "$rc" -eq 7
    exits 0 "$1 runs verify, which finds nothing" verify
}

# works WHO: publishing, claiming, settling, processing.
works() {
    local lease
    exits 0 "$1 runs publish" publish job.made '{"n": 2}' --key b
    exits 0 "$1 runs claim" claim jobs --max 1 --json
    lease=$(field out 1 '$.lease')
    exits 0 "$1 runs ack" ack jobs "$lease"
    exits 0 "$1 runs work" work ledger --until-empty --exec 'cat >>done'
    exits 0 "$1 publishes an event for later" publish job.later '{}' --delay 1h
    exits 0 "$1 runs sub pause" sub pause jobs
    exits 0 "$1 runs sub resume" sub resume jobs
}

# ---- The next program on the previous schema -----------------------------------------------------

made
before=$(schema)
with "$next"
looks "the next program on the previous schema"
is "commands of the next program that only look do not change the previous schema" \
    "$(schema)" "$before"
exits 1 "a command that needs the next schema is refused on the previous one" later list
has "the refusal names both versions of the schema and the command to run" err \
    "schema version $number, and this needs version $after .*run .holdfast migrate."
hf doctor
has "doctor of the next program warns that the schema is older" \
    out "^warn +schema_version +$number +older than this program"
exits 7 "migrate --dry-run exits with 7 if there is something to do" migrate --dry-run
has "migrate --dry-run prints the version before and after" \
    out "^schema version $number: would migrate to version $after$"
has "migrate --dry-run prints the step and that older programs can work" \
    out "^step $after, next: programs of version $number can work"
exits 7 "migrate --dry-run --json exits with 7 if there is something to do" migrate --dry-run --json
is "migrate --dry-run --json has the version before and after" \
    "$(field out 1 '$.schema_version') $(field out 1 '$.schema_after')" "$number $after"
is "migrate --dry-run --json says that it would migrate" "$(field out 1 '$.would')" migrate
is "migrate --dry-run --json lists the steps and says that older programs work" \
    "$(field out 1 '$.steps[0].number') $(field out 1 '$.steps[0].name')
$(field out 1 '$.steps[0].older_programs')" "$after next
work"
if on postgres; then
    is "migrate --dry-run --json says that the functions differ and would be applied" \
        "$(field out 1 '$.functions') $(field out 1 '$.functions_applied')" "other 1"
    works "the next program on the previous schema"
    is "working with the next program does not change the previous schema" "$(schema)" "$before"
    looks "after working, the next program on the previous schema"
else
    is "migrate --dry-run does not change the schema" "$(schema)" "$before"
    exits 0 "publish of the next program works on a file of the previous version" \
        publish job.made '{"n": 3}'
    is "a program that opens a SQLite file for work migrates it" "$(meta schema_version)" "$after"
    made
    with "$next"
fi

# ---- Migrating -----------------------------------------------------------------------------------

oldest=$(meta programs_from)
exits 0 "migrate of the next program succeeds" migrate
has "migrate prints the version that it migrated to" out "^schema version $after, migrated$"
is "migrate stores the new version and the oldest program that may work" \
    "$(meta schema_version) $(meta programs_from)" "$after $oldest"
exits 0 "migrate --dry-run exits with 0 after migrating" migrate --dry-run
has "migrate --dry-run says that there is nothing to do" \
    out "^schema version $after: nothing to do$"
looks "the next program on the next schema"
works "the next program on the next schema"
exits 0 "a command that needs the next schema works after migrating" later list

# ---- The previous program on the next schema -----------------------------------------------------

before=$(schema)
with "$previous"
looks "the previous program on the next schema"
works "the previous program on the next schema"
exits 0 "the previous program on the next schema runs later list" later list
exits 0 "migrate --dry-run of the previous program has nothing to do on the next schema" \
    migrate --dry-run --json
is "migrate --dry-run --json of the previous program prints the next version" \
    "$(field out 1 '$.schema_version') $(field out 1 '$.would')" \
    "$after nothing"
exits 0 "migrate of the previous program succeeds on the next schema" migrate
has "migrate of the previous program says that the schema is as it was" \
    out "^schema version $after, as it was$"
exits 0 "the previous program makes a namespace on the next schema" \
    publish a.b '{}' --namespace other
exits 0 "the previous program verifies a namespace that it made on the next schema" verify
is "the previous program leaves the version of the next schema" "$(meta schema_version)" "$after"
if on postgres; then
    psql -qXAt "$HOLDFAST_URL" -c "SELECT holdfast.publish('default', 'a..b')" >said 2>&1
    has "the previous program leaves the functions of the next version" said 'has an empty part'
    "$HOLDFAST" migrate --print >script.sql
    true_that "the script of the previous version runs on the next schema" \
        psql -qX -v ON_ERROR_STOP=1 -f script.sql "$HOLDFAST_URL"
    is "the script of the previous version changes neither version nor functions" \
        "$(schema | head -2)" "$(head -2 <<<"$before")"
fi
with "$next"
exits 0 "the next program verifies what the previous one did" verify

# ---- Side by side --------------------------------------------------------------------------------

# both_work: a worker of each version, publishers of both; every event is processed once.
both_work() {
    local pids=() program i
    rm -f seen.*
    for program in "$previous" "$next"; do
        "$program" work jobs --exec "cat >>seen.$(basename "$(dirname "$program")"); echo >>seen" \
            2>"log.$(basename "$(dirname "$program")")" &
        pids+=($!)
    done
    for i in $(seq 1 40); do
        program=$([ $((i % 2)) = 0 ] && echo "$previous" || echo "$next")
        "$program" publish -q job.side "{\"i\": $i}" || return 1
    done
    until_true 60 all_seen || { cat log.*; return 1; }
    kill "${pids[@]}"
    wait "${pids[@]}" 2>/dev/null
    return 0
}
all_seen() { [ "$(cat seen.* 2>/dev/null | grep -o '"i": *[0-9]*' | sort -u | wc -l)" = 40 ]; }
with "$next"
hf work jobs --until-empty --exec true
true_that "workers and publishers of both versions work at the same time" both_work
is "workers of both versions process every event once" \
    "$(cat seen.* | grep -o '"i": *[0-9]*' | wc -l)" 40
with "$previous"
exits 0 "verify finds nothing after both versions worked side by side" verify

# ---- Killed while it migrates --------------------------------------------------------------------

made
before=$(schema)
with "$next"
# kill_midway: a migration that is killed before it has committed. On a server it waits for the row
# that it writes last. In a file it is quick: if it was quicker than the kill, once more.
kill_midway() {
    local pid
    for _ in $(seq 20); do
        rm -f unlock locked
        on sqlite || hold_digest || return 1
        "$HOLDFAST" migrate --db-timeout 120s >out 2>err &
        pid=$!
        await_midway "$pid" || return 1
        kill -KILL "$pid"
        touch unlock
        { wait "$pid"; } 2>/dev/null
        [ $? != 137 ] || return 0
        echo "it had ended:" && cat out err
        on sqlite || return 1
        made && with "$next"
    done
    return 1
}
hold_digest() {
    psql -qX "$HOLDFAST_URL" -c BEGIN -c "SELECT FROM holdfast_private.meta
        WHERE name = 'functions_digest' FOR UPDATE" -c '\! sh hold' -c ROLLBACK >/dev/null &
    until_true 60 test -e locked
}
# await_midway PID: until this migration has begun to write, or has ended.
await_midway() {
    if on postgres; then
        until_true 60 waits_for_a_lock "$1"
        return
    fi
    while kill -0 "$1" 2>/dev/null; do
        sqlite3 bus.db 'BEGIN IMMEDIATE; ROLLBACK' 2>/dev/null || return 0
    done
}
# waits_for_a_lock PID: its session does.
waits_for_a_lock() {
    [ "$(server "SELECT count(*) FROM pg_stat_activity WHERE datname = '$base'
        AND application_name LIKE '%:$1' AND wait_event_type = 'Lock'")" = 1 ]
}
none_waits() {
    [ "$(server "SELECT count(*) FROM pg_stat_activity WHERE datname = '$base'
        AND wait_event_type = 'Lock'")" = 0 ]
}
true_that "setup: a migration is killed before it has committed" kill_midway
on sqlite || true_that "the session of a killed migration ends" until_true 60 none_waits
is "a migration that is killed midway has changed nothing" "$(schema)" "$before"
with "$previous"
exits 0 "the previous program works after a migration was killed" publish job.made '{}'
with "$next"
exits 0 "migrate succeeds after a migration was killed" migrate
has "migrate after a killed one prints that it migrated" out "^schema version $after, migrated$"
exits 0 "verify finds nothing after a repeated migration" verify

# ---- A step that does not let older programs work ------------------------------------------------

made
before=$(schema)
with "$breaks"
looks "the breaking program on the previous schema"
is "commands that only look do not change a schema that a breaking program finds" \
    "$(schema)" "$before"
exits 7 "migrate --dry-run exits with 7 before a breaking step" migrate --dry-run
has "migrate --dry-run says which programs are refused after a breaking step" \
    out "^step $after, break: programs of version $number are refused after it"
if on postgres; then
    exits 1 "a program that needs a breaking step is refused before migrate" publish job.made '{}'
    has "the refusal before a breaking step names both versions and the command to run" err \
        "schema version $number, and this program needs version $after .*run .holdfast migrate."
    is "a refused program has not changed the schema" "$(schema)" "$before"
fi
# A program that has the database open meanwhile is stopped: by its next write to a file, or when it
# has seen that the schema on a server was migrated.
"$previous" work jobs --exec 'echo >>old' 2>old.log &
worker=$!
true_that "setup: a worker of the previous version processes an event" until_true 60 test -s old
if on sqlite; then
    exits 0 "setup: a program of the breaking version migrates the SQLite file by publishing" \
        publish job.made '{}'
else
    exits 0 "setup: the schema is migrated by a breaking step while a worker runs" migrate
fi
left_behind() {
    grep -q "schema version $after, which takes programs from version $after" old.log ||
        { "$breaks" publish -q job.made '{}'; return 1; }
}
true_that "a running worker of the previous version stops after a breaking step" \
    until_true 60 left_behind
rm -f old
hf publish job.made '{}'
sleep 1
true_that "a worker that was left behind takes no event any more" test ! -e old
kill "$worker"
wait "$worker" 2>/dev/null
exits 0 "migrate of the breaking program succeeds" migrate
looks "the breaking program on its own schema"
works "the breaking program on its own schema"
before=$(schema)
with "$previous"
for command in tail stats 'publish job.made {}' 'work jobs --exec true' doctor migrate \
    'migrate --dry-run'; do
    # shellcheck disable=SC2086
    exits 1 "the previous program on a schema with a breaking step is refused: $command" $command
    has "the refusal of $command says which programs the schema takes" err \
        "schema version $after, which takes programs from version $after on.*install Holdfast"
done
is "refused programs have not changed the schema" "$(schema)" "$before"

# ---- A dry run where there is nothing, and where it would be refused -----------------------------

fresh
with "$next"
exits 7 "migrate --dry-run exits with 7 if there is no schema" migrate --dry-run
has "migrate --dry-run without a schema says which version it would create" \
    out "^no schema: would create version $after$"
hf migrate --dry-run --json
is "migrate --dry-run --json without a schema says that it would create one" \
    "$(field out 1 '$.would') $(field out 1 '$.schema_version')" "create "
exits 3 "migrate --dry-run makes no schema" stats
exits 2 "migrate refuses --print together with --dry-run" migrate --print --dry-run
made
if on sqlite; then
    sqlite3 bus.db "CREATE TABLE holdfast_mine (a)"
else
    psql -qX "$HOLDFAST_URL" -c "CREATE TABLE holdfast_private.mine (a integer)"
fi
with "$next"
exits 1 "migrate --dry-run is refused if migrating would be" migrate --dry-run
has "the refusal of migrate --dry-run names the foreign table" \
    err 'mine does not belong to Holdfast'
finish
