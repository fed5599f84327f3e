#!/usr/bin/env bash
# Where the database is, what is said when it is not there, and what is never said.
blank=yes # the tests are about making the schema, too
. "$(dirname "$0")/lib.sh"

# --- The same on both engines ---
exits 3 "a reading command does not create anything" tail
exits 3 "nor does doctor" doctor
exits 0 "publish creates it" publish a.b
exits 0 "options may stand before the command" --db "$HOLDFAST_URL" --json tail
json "and work" out
exits 3 "a namespace that does not exist is not found" tail --namespace other
exits 0 "publishing creates the namespace" publish a.b --namespace other
exits 0 "namespaces have their own positions" tail --namespace other --json
is "from 1" "$(field out 1 '$.position')" 1
export HOLDFAST_NAMESPACE=other
exits 0 "HOLDFAST_NAMESPACE names the namespace" tail --json
is "unless --namespace does" \
    "$("$HOLDFAST" tail --namespace default --json | wc -l) $(wc -l <out)" "1 1"
unset HOLDFAST_NAMESPACE
exits 2 "an unknown kind of database is refused" stats --db oracle://x/y
exits 0 "migrate says the version" migrate
has "of the schema, and that there was nothing to do" out '^schema version [0-9]+, as it was$'
fresh
exits 0 "where there is nothing migrate makes it" migrate
has "and says so" out '^schema version [0-9]+, created$'
exits 0 "twice changes nothing" migrate --json
is "and says so in JSON" "$(field out 1 '$.schema_was')" 'as it was'
exits 0 "it makes no namespace" namespace list --json
is "that was not asked for" "$(wc -l <out)" 0
hf doctor
true_that "doctor needs none" test "$rc" -eq 0 -o "$rc" -eq 7
has "and says what concerns the database" out 'schema_version'
hasnt "with no advice about one that is not there" out 'months_ahead'
exits 0 "verify needs none" verify
exits 3 "a namespace that is named must be there, for doctor" doctor --namespace other
exits 3 "and for verify" verify --namespace other
exits 0 "migrate makes the namespace that is named" migrate --namespace other
has "which is not the schema" out '^schema version [0-9]+, as it was$'
hf namespace list --json
is "and no other" "$(field out 1 '$.name') $(wc -l <out)" "other 1"
hf doctor
true_that "doctor needs no namespace default" test "$rc" -eq 0 -o "$rc" -eq 7
exits 0 "nor does verify" verify
exits 0 "nor does migrate" migrate
has "which has nothing to do" out '^schema version [0-9]+, as it was$'
hf publish a.b

if on sqlite; then
    fresh
    exits 3 "a reading command does not create a database" tail
    true_that "there is none" test ! -e bus.db
    exits 3 "--db wins over the environment" stats --db sqlite:other.db
    has "its name is in the message" err 'other.db'
    unset HOLDFAST_URL
    exits 3 "the default is holdfast.db" stats
    has "as the message says" err 'holdfast.db'
    has "with a hint" err 'HOLDFAST_URL'
    exits 0 "publish creates it" publish a.b --db plain.db
    true_that "a bare path is a database" test -s plain.db
    exits 69 "a database that cannot be opened is unavailable" publish a.b --db no/such/x.db
    printf 'this is not a database, it only looks like a long enough file%200s' ' ' >junk.db
    hf stats --db junk.db
    true_that "a file that is no database is an error" test "$rc" -eq 1
    has "that says so, by its name" err 'junk\.db is not a SQLite database$'
    cp plain.db cut.db && truncate -s 5000 cut.db
    exits 1 "a file of which most is missing is an error" verify --db sqlite:cut.db
    has "that names it, too" err 'cut\.db is damaged and cannot be opened'
    exits 2 "a database in memory is refused" publish a.b --db sqlite::memory:
    hf publish a.b --db left.db
    rm left.db-wal
    exits 0 "a database without its -wal can be read" tail --db left.db
    has "but it is told" err 'left\.db-wal was missing although .* Run `holdfast verify`'
    mkdir mounted
    # shellcheck disable=SC2016  # variables of that shell
    if unshare -m sh -c 'mount -t tmpfs none mounted' 2>/dev/null; then
        unshare -m sh -c 'mount -t tmpfs none mounted && "$0" publish a.b --db mounted/x.db &&
            mount -o remount,ro mounted && { "$0" stats --db mounted/x.db; echo "$?"
            "$0" publish a.b --db mounted/new.db; echo "$?"; }' "$HOLDFAST" >out 2>err
        is "a read-only filesystem is refused" "$(tail -2 out | tr '\n' ' ')" "1 69 "
        has "by its name" err 'x\.db cannot be written: its filesystem is mounted read-only'
        has "also for a new database" err \
            'cannot create .*new\.db: its filesystem is mounted read-only'
    fi
    finish
fi

# --- PostgreSQL: where it is ---
dir=$TEST_POSTGRES
database=$base
exits 0 "postgres: and postgresql: are the same" tail \
    --db "postgres:///$database?host=$dir&user=holdfast"
export PGHOST=$dir PGUSER=holdfast PGDATABASE=$database
exits 0 "the PG variables of the environment fill in what the URL leaves out" tail --db postgres://
unset PGDATABASE
exits 0 "as far as it does" tail --db "postgres:///$database"
exits 3 "a database that does not exist is not found" tail --db "postgres:///${base}_no"
has "which is named, with what to do" err "${base}_no.*createdb"
exits 3 "also when publishing: databases are made by administrators" publish a.b \
    --db "postgres:///${base}_no"
unset PGHOST PGUSER
printf '[there]\nhost=%s\nuser=holdfast\ndbname=%s\n' "$dir" "$database" >services
export PGSERVICEFILE=$PWD/services
exits 0 "a service file is honoured" tail --db 'postgres://?service=there'
exits 2 "a service that is not in it is named" tail --db 'postgres://?service=nowhere'
has "by its name" err 'nowhere'
unset PGSERVICEFILE
mkdir nobody
exits 69 "a server that does not answer is unavailable" tail --db "postgres:///x?host=$PWD/nobody"
has "and where it was looked for is said" err "$PWD/nobody"
exits 69 "also over the network" tail --db 'postgres://127.0.0.1:1/x'
has "with its address" err '127\.0\.0\.1:1/x'
exits 0 "several hosts are tried in turn" tail \
    --db "postgres:///$database?host=$PWD/nobody,$dir&user=holdfast"

# --- Passwords are not for reading ---
secret=S3CRET-$$
hide() { # CLAIM ARGS...: neither stream has the password, or half of it
    local claim=$1
    shift
    hf "$@"
    cat out err >both
    hasnt "$claim does not tell the password (exit $rc)" both "S3CRET|-$$"
}
with() { echo "postgres://holdfast:$secret@/$database?host=$dir&sslpassword=$secret"; }
for command in tail stats doctor 'migrate --json' 'sub list' 'event list' 'demo --quick' \
    'bench publish --events 10'; do
    # shellcheck disable=SC2086
    hide "$command" $command --db "$(with)"
done
for bad in "postgres://u:$secret@127.0.0.1:1/x" "postgres://u:%zz$secret@h/x" \
    "postgres:u:$secret@h/x" \
    "postgres://u:$secret@[::1/x" "postgres://u:$secret@h:port/x" "postgres://u:$secret@h/x?foo" \
    "postgres://u:S3CRET/-$$@h/x" "postgres://u:S3CRET@-$$@127.0.0.1:1/x" \
    "postgres:///x?host=$PWD/nobody&password=$secret" \
    "postgres:///x?sslmode=bogus&password=$secret" \
    "postgres:///x?host=$dir&user=checked&password=$secret" \
    "postgres:///x?host=$dir&user=refused&password=$secret"; do
    hide "a refused URL" stats --db "$bad"
    true_that "which has an exit code for scripts" test "$rc" -eq 1 -o "$rc" -eq 2 -o "$rc" -eq 69
done
hf sub create w --on '*' --from start
hide "work, whose server knows its name," work w --exec true --until-empty --db "$(with)"
server "SELECT application_name FROM pg_stat_activity WHERE datname = '$database'" >out
hasnt "the name of a session neither" out S3CRET

# --- Roles and servers that cannot be used ---
exits 1 "a wrong password is an error" stats \
    --db "postgres:///$database?host=$dir&user=checked&password=x"
has "that names the user" err 'user "checked"'
server "CREATE ROLE ${base}_r LOGIN" && server "CREATE DATABASE ${base}_x"
echo "${base}_x" >>databases
exits 1 "a role that may not make the schema is refused" publish a.b \
    --db "postgres:///${base}_x?host=$dir&user=${base}_r"
has "with the statement that helps" err "GRANT CREATE ON DATABASE \"${base}_x\" TO \"${base}_r\""
server "DROP DATABASE ${base}_x WITH (FORCE)" && server "DROP ROLE ${base}_r"
is "and leaves nothing" "$?" 0
psql -qX "$HOLDFAST_URL" -c "UPDATE holdfast_private.meta SET value = '999'
    WHERE name IN ('schema_version', 'programs_from')"
exits 1 "a schema that is newer than the program is refused" publish a.b
has "with both versions" err 'version 999.*version [0-9]+'

finish
