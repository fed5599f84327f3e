#!/usr/bin/env bash
# Where the database is, what is said when it is not there, and what is never said.
blank=yes # the tests are about making the schema, too
. "$(dirname "$0")/lib.sh"

# --- The same on both engines ---
exits 3 "tail without a database exits with not found" tail
exits 3 "doctor without a database exits with not found" doctor
! on sqlite || : >bus.db
exits 3 "tail of an empty database exits with not found" tail
has "the refusal of an empty database says what makes its tables" \
    err '; .holdfast migrate. makes (its tables|them)$'
if on sqlite; then
    sqlite3 bus.db 'CREATE TABLE theirs (x)'
    exits 3 "tail of a file of another program exits with not found" tail
    has "the refusal of a file of another program says what makes the tables" \
        err 'has no Holdfast tables; .holdfast migrate. makes them$'
    rm bus.db
fi
exits 0 "publish creates the schema of an empty database" publish a.b
exits 0 "options of all commands may stand before the command" --db "$HOLDFAST_URL" --json tail
json "--json before the command makes it print JSON" out
exits 3 "tail of a namespace that does not exist exits with not found" tail --namespace other
exits 0 "publish creates a namespace that does not exist" publish a.b --namespace other
exits 0 "tail --namespace reads another namespace" tail --namespace other --json
is "positions of a namespace begin with 1" "$(field out 1 '$.position')" 1
export HOLDFAST_NAMESPACE=other
exits 0 "HOLDFAST_NAMESPACE names the namespace" tail --json
is "--namespace wins over HOLDFAST_NAMESPACE" \
    "$("$HOLDFAST" tail --namespace default --json | wc -l) $(wc -l <out)" "1 1"
unset HOLDFAST_NAMESPACE
exits 2 "an unknown kind of database is refused" stats --db oracle://x/y
exits 0 "migrate succeeds on a schema that is up to date" migrate
has "migrate prints the version and that there was nothing to do" \
    out '^schema version [0-9]+, as it was$'
fresh
exits 0 "migrate succeeds on an empty database" migrate
has "migrate says that it created the schema" out '^schema version [0-9]+, created$'
exits 0 "migrate succeeds a second time" migrate --json
is "migrate --json says that the schema is as it was" "$(field out 1 '$.schema_was')" 'as it was'
exits 0 "namespace list succeeds without namespaces" namespace list --json
is "migrate makes no namespace that was not asked for" "$(wc -l <out)" 0
hf doctor
true_that "doctor succeeds without a namespace" test "$rc" -eq 0 -o "$rc" -eq 7
has "doctor without a namespace says what concerns the database" out 'schema_version'
hasnt "doctor without a namespace has no advice about months of one" out 'months_ahead'
exits 0 "verify succeeds without a namespace" verify
exits 3 "doctor --namespace of a missing one exits with not found" doctor --namespace other
exits 3 "verify --namespace of a missing one exits with not found" verify --namespace other
exits 0 "migrate --namespace succeeds with a missing one" migrate --namespace other
has "migrate --namespace says that the schema is as it was" out '^schema version [0-9]+, as it was$'
hf namespace list --json
is "migrate --namespace makes that namespace and no other" \
    "$(field out 1 '$.name') $(wc -l <out)" "other 1"
hf doctor
true_that "doctor succeeds without the namespace default" test "$rc" -eq 0 -o "$rc" -eq 7
exits 0 "verify succeeds without the namespace default" verify
exits 0 "migrate succeeds without the namespace default" migrate
has "migrate without the namespace default has nothing to do" \
    out '^schema version [0-9]+, as it was$'
hf publish a.b

if on sqlite; then
    fresh
    exits 3 "tail without a SQLite file exits with not found" tail
    true_that "tail does not create a SQLite file" test ! -e bus.db
    exits 3 "--db wins over HOLDFAST_URL" stats --db sqlite:other.db
    has "the error names the file that --db names" err 'other.db'
    unset HOLDFAST_URL
    exits 3 "stats without a URL and a default file exits with not found" stats
    has "the error names the default file holdfast.db" err 'holdfast.db'
    has "the error names HOLDFAST_URL as a way to say where it is" err 'HOLDFAST_URL'
    exits 0 "publish --db takes a bare path" publish a.b --db plain.db
    true_that "a bare path of --db is the path of a SQLite file" test -s plain.db
    exits 69 "publish exits with unavailable if the directory does not exist" \
        publish a.b --db no/such/x.db
    printf 'this is not a database, it only looks like a long enough file%200s' ' ' >junk.db
    hf stats --db junk.db
    true_that "a file that is no database is an error" test "$rc" -eq 1
    has "the error says which file is no SQLite database" err 'junk\.db is not a SQLite database$'
    cp plain.db cut.db && truncate -s 5000 cut.db
    exits 1 "verify of a file that was cut off is an error" verify --db sqlite:cut.db
    has "the error names the damaged file" err 'cut\.db is damaged and cannot be opened'
    exits 2 "publish refuses a SQLite database in memory" publish a.b --db sqlite::memory:
    hf publish a.b --db left.db
    rm left.db-wal
    exits 0 "tail reads a database whose -wal file is missing" tail --db left.db
    has "tail warns that the -wal file was missing and names holdfast verify" \
        err 'left\.db-wal was missing although .* Run `holdfast verify`'
    mkdir mounted
    # shellcheck disable=SC2016  # variables of that shell
    if unshare -m sh -c 'mount -t tmpfs none mounted' 2>/dev/null; then
        unshare -m sh -c 'mount -t tmpfs none mounted && "$0" publish a.b --db mounted/x.db &&
            mount -o remount,ro mounted && { "$0" stats --db mounted/x.db; echo "$?"
            "$0" publish a.b --db mounted/new.db; echo "$?"; }' "$HOLDFAST" >out 2>err
        is "a database on a read-only filesystem is refused" "$(tail -2 out | tr '\n' ' ')" "1 69 "
        has "the refusal says which file is on a read-only filesystem" \
            err 'x\.db cannot be written: its filesystem is mounted read-only'
        has "the refusal to create a database says that its filesystem is read-only" err \
            'cannot create .*new\.db: its filesystem is mounted read-only'
    fi
    finish
fi

# --- PostgreSQL: where it is ---
dir=$TEST_POSTGRES
database=$base
exits 0 "postgres: and postgresql: mean the same in a URL" tail \
    --db "postgres:///$database?host=$dir&user=holdfast"
export PGHOST=$dir PGUSER=holdfast PGDATABASE=$database
exits 0 "PG variables of the environment fill in what the URL leaves out" tail --db postgres://
unset PGDATABASE
exits 0 "PG variables fill in only what the URL leaves out" tail --db "postgres:///$database"
exits 3 "a database of PostgreSQL that does not exist is not found" \
    tail --db "postgres:///${base}_no"
has "the error names the missing database and createdb" err "${base}_no.*createdb"
exits 3 "publish does not create a database of PostgreSQL" publish a.b \
    --db "postgres:///${base}_no"
unset PGHOST PGUSER
printf '[there]\nhost=%s\nuser=holdfast\ndbname=%s\n' "$dir" "$database" >services
export PGSERVICEFILE=$PWD/services
exits 0 "a service file of libpq is honoured" tail --db 'postgres://?service=there'
exits 2 "a service that the service file does not have is refused" \
    tail --db 'postgres://?service=nowhere'
has "the refusal names the missing service" err 'nowhere'
unset PGSERVICEFILE
mkdir nobody
exits 69 "a server whose socket is missing is unavailable" \
    tail --db "postgres:///x?host=$PWD/nobody"
has "the error names the directory of the missing socket" err "$PWD/nobody"
exits 69 "a server that does not answer over the network is unavailable" \
    tail --db 'postgres://127.0.0.1:1/x'
has "the error names the address of the server" err '127\.0\.0\.1:1/x'
exits 0 "several hosts of a URL are tried in turn" tail \
    --db "postgres:///$database?host=$PWD/nobody,$dir&user=holdfast"

# --- Passwords are not for reading ---
secret=S3CRET-$$
hide() { # CLAIM ARGS...: neither stream has the password, or half of it
    local claim=$1
    shift
    hf "$@"
    cat out err >both
    hasnt "$claim does not print the password (exit $rc)" both "S3CRET|-$$"
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
    hide "stats with a refused URL" stats --db "$bad"
    true_that "a refused URL has one of the documented exit codes" \
        test "$rc" -eq 1 -o "$rc" -eq 2 -o "$rc" -eq 69
done
hf sub create w --on '*' --from start
hide "work with a password in its URL" work w --exec true --until-empty --db "$(with)"
server "SELECT application_name FROM pg_stat_activity WHERE datname = '$database'" >out
hasnt "the application_name of a session does not have the password" out S3CRET

# --- Roles and servers that cannot be used ---
exits 1 "a wrong password is an error" stats \
    --db "postgres:///$database?host=$dir&user=checked&password=x"
has "the error of a wrong password names the user" err 'user "checked"'
server "CREATE ROLE ${base}_r LOGIN" && server "CREATE DATABASE ${base}_x"
echo "${base}_x" >>databases
exits 1 "a role that may not make the schema is refused" publish a.b \
    --db "postgres:///${base}_x?host=$dir&user=${base}_r"
has "the refusal prints the GRANT that helps" \
    err "GRANT CREATE ON DATABASE \"${base}_x\" TO \"${base}_r\""
server "DROP DATABASE ${base}_x WITH (FORCE)" && server "DROP ROLE ${base}_r"
is "a refused role leaves nothing in the database" "$?" 0
psql -qX "$HOLDFAST_URL" -c "UPDATE holdfast_private.meta SET value = '999'
    WHERE name IN ('schema_version', 'programs_from')"
exits 1 "a schema that is newer than the program is refused" publish a.b
has "the refusal of a newer schema names both versions" err 'version 999.*version [0-9]+'

finish
