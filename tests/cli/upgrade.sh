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
    skip "everything" "there is no $next: make neighbours"
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
        exits 0 "$1: $command" $command
    done
    hf doctor
    true_that "$1: doctor" test "$rc" -eq 0 -o "$rc" -eq 7
    exits 0 "$1: verify finds nothing" verify
}

# works WHO: publishing, claiming, settling, processing.
works() {
    local lease
    exits 0 "$1: publish" publish job.made '{"n": 2}' --key b
    exits 0 "$1: claim" claim jobs --max 1 --json
    lease=$(field out 1 '$.lease')
    exits 0 "$1: ack" ack jobs "$lease"
    exits 0 "$1: work" work ledger --until-empty --exec 'cat >>done'
    exits 0 "$1: publish for later" publish job.later '{}' --delay 1h
    exits 0 "$1: sub pause" sub pause jobs
    exits 0 "$1: sub resume" sub resume jobs
}

# ---- The next program on the previous schema -----------------------------------------------------

made
before=$(schema)
with "$next"
looks "next on previous"
is "looking has changed nothing" "$(schema)" "$before"
exits 1 "what needs the new schema is refused" later list
has "with both versions and the remedy" err \
    "schema version $number, and this needs version $after .*run .holdfast migrate."
hf doctor
has "doctor says that it is older" out "^warn +schema_version +$number +older than this program"
exits 7 "a dry run has something to say" migrate --dry-run
has "the versions" out "^schema version $number: would migrate to version $after$"
has "the step, and who can work on" out "^step $after, next: programs of version $number can work"
exits 7 "in JSON, too" migrate --dry-run --json
is "versions" "$(field out 1 '$.schema_version') $(field out 1 '$.schema_after')" "$number $after"
is "what it would do" "$(field out 1 '$.would')" migrate
is "steps" "$(field out 1 '$.steps[0].number') $(field out 1 '$.steps[0].name')
$(field out 1 '$.steps[0].older_programs')" "$after next
work"
if on postgres; then
    is "functions" "$(field out 1 '$.functions') $(field out 1 '$.functions_applied')" "other 1"
    works "next on previous"
    is "and working has changed nothing" "$(schema)" "$before"
    looks "next on previous, with work"
else
    is "(and that has changed nothing)" "$(schema)" "$before"
    exits 0 "a program that opens a file for work" publish job.made '{"n": 3}'
    is "migrates it" "$(meta schema_version)" "$after"
    made
    with "$next"
fi

# ---- Migrating -----------------------------------------------------------------------------------

exits 0 "migrate" migrate
has "says so" out "^schema version $after, migrated$"
is "it is done" "$(meta schema_version) $(meta programs_from)" "$after $number"
exits 0 "then there is nothing to do" migrate --dry-run
has "and it says that" out "^schema version $after: nothing to do$"
looks "next on next"
works "next on next"
exits 0 "what needed the new schema" later list

# ---- The previous program on the next schema -----------------------------------------------------

before=$(schema)
with "$previous"
looks "previous on next"
works "previous on next"
exits 0 "previous on next: later list" later list
exits 0 "a dry run of the previous program finds nothing to do" migrate --dry-run --json
is "because it is newer" "$(field out 1 '$.schema_version') $(field out 1 '$.would')" \
    "$after nothing"
exits 0 "and migrating does nothing" migrate
has "but say which version it is" out "^schema version $after, as it was$"
exits 0 "it makes namespaces there" publish a.b '{}' --namespace other
exits 0 "and verifies them" verify
is "nothing of the schema was changed" "$(meta schema_version)" "$after"
if on postgres; then
    psql -qXAt "$HOLDFAST_URL" -c "SELECT holdfast.publish('default', 'a..b')" >said 2>&1
    has "the functions are still those of the next version" said 'has an empty part'
    "$HOLDFAST" migrate --print >script.sql
    true_that "and the previous version's script leaves them" \
        psql -qX -v ON_ERROR_STOP=1 -f script.sql "$HOLDFAST_URL"
    is "as they are" "$(schema | head -2)" "$(head -2 <<<"$before")"
fi
with "$next"
exits 0 "the next program works on with what the previous one did" verify

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
true_that "both consume and publish at the same time" both_work
is "every event was processed once" "$(cat seen.* | grep -o '"i": *[0-9]*' | wc -l)" 40
with "$previous"
exits 0 "and the database is sound" verify

# ---- Killed while it migrates --------------------------------------------------------------------

made
before=$(schema)
with "$next"
# kill_midway: a migration that is killed before it has committed.
kill_midway() {
    local pid
    if on postgres; then
        psql -qX "$HOLDFAST_URL" -c BEGIN -c 'LOCK TABLE holdfast_private.subscriptions' \
            -c '\! sh hold' -c ROLLBACK >/dev/null &
        until_true 60 test -e locked || return 1
    fi
    "$HOLDFAST" migrate >out 2>err &
    pid=$!
    if on postgres; then
        until_true 60 waits_for_a_lock || return 1
    else
        for _ in $(seq 10000); do
            sqlite3 bus.db 'BEGIN IMMEDIATE; ROLLBACK' 2>/dev/null || break
        done
    fi
    kill -KILL "$pid"
    touch unlock
    { wait "$pid"; } 2>/dev/null
    [ $? = 137 ] || { echo "it had ended"; return 1; }
}
waits_for_a_lock() {
    [ "$(server "SELECT count(*) FROM pg_stat_activity WHERE datname = '$base'
        AND wait_event_type = 'Lock'")" != 0 ]
}
true_that "a migration is killed midway" kill_midway
if on postgres; then
    true_that "(its session ends)" until_true 60 test "$(server "SELECT count(*)
        FROM pg_stat_activity WHERE datname = '$base' AND wait_event_type = 'Lock'")" = 0
fi
is "nothing has changed" "$(schema)" "$before"
with "$previous"
exits 0 "the previous program works" publish job.made '{}'
with "$next"
exits 0 "and the next attempt succeeds" migrate
has "as if it were the first" out "^schema version $after, migrated$"
exits 0 "all is as it should be" verify

# ---- A step that does not let older programs work ------------------------------------------------

made
before=$(schema)
with "$breaks"
looks "break on previous"
is "looking has changed nothing there either" "$(schema)" "$before"
exits 7 "a dry run says who is refused after it" migrate --dry-run
has "which programs" out "^step $after, break: programs of version $number are refused after it"
if on postgres; then
    exits 1 "a program that would work is refused" publish job.made '{}'
    has "with both versions and the remedy" err \
        "schema version $number, and this program needs version $after .*run .holdfast migrate."
    is "and has changed nothing" "$(schema)" "$before"
fi
# A program that has the database open meanwhile is stopped: by its next write to a file, or when it
# has seen that the schema on a server was migrated.
"$previous" work jobs --exec 'echo >>old' 2>old.log &
worker=$!
true_that "(the previous program works)" until_true 60 test -s old
if on sqlite; then
    exits 0 "(the file is migrated meanwhile, by a program that works)" publish job.made '{}'
else
    exits 0 "(the schema is migrated meanwhile)" migrate
fi
left_behind() {
    grep -q "schema version $after, which takes programs from version $after" old.log ||
        { "$breaks" publish -q job.made '{}'; return 1; }
}
true_that "a running program of the previous version is left behind" until_true 60 left_behind
rm -f old
hf publish job.made '{}'
sleep 1
true_that "and takes no event any more" test ! -e old
kill "$worker"
wait "$worker" 2>/dev/null
exits 0 "migrate" migrate
looks "break on break"
works "break on break"
before=$(schema)
with "$previous"
for command in tail stats 'publish job.made {}' 'work jobs --exec true' doctor migrate \
    'migrate --dry-run'; do
    # shellcheck disable=SC2086
    exits 1 "previous on break: $command is refused" $command
    has "and says which program it takes" err \
        "schema version $after, which takes programs from version $after on.*install Holdfast"
done
is "and nothing was changed" "$(schema)" "$before"

# ---- A dry run where there is nothing, and where it would be refused -----------------------------

fresh
with "$next"
exits 7 "without a schema there is everything to do" migrate --dry-run
has "as it says" out "^no schema: would create version $after$"
hf migrate --dry-run --json
is "in JSON, too" "$(field out 1 '$.would') $(field out 1 '$.schema_version')" "create "
exits 3 "and nothing was made" stats
exits 2 "--print and --dry-run exclude each other" migrate --print --dry-run
made
if on sqlite; then
    sqlite3 bus.db "CREATE TABLE holdfast_mine (a)"
else
    psql -qX "$HOLDFAST_URL" -c "CREATE TABLE holdfast_private.mine (a integer)"
fi
with "$next"
exits 1 "a dry run is refused where migrating would be" migrate --dry-run
has "and names what is in the way" err 'mine does not belong to Holdfast'
finish
