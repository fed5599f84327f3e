#!/usr/bin/env bash
# What a postgres:// URL leaves out comes from the service file, then from the environment, as for
# every program that uses libpq: host, port, user, database, password, password file and TLS.
#
# The server has a TCP port of its own for this, and a certificate that the test makes.
. "$(dirname "$0")/lib.sh"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
unset "${!HOLDFAST_@}"
temp=$(mktemp -d)
cd "$temp" || exit 1

# Another address of this machine stands for another machine; not every machine has one.
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m1 -E '^[0-9]+(\.[0-9]+){3}$' || :)

# A port may be taken by another program between two looks: another one then.
cluster_dir=
for ((i = 0; i < 20; i++)); do
    port=$((20000 + RANDOM % 12000))
    cluster_dir=$("$ROOT/scripts/postgres-cluster" start --with $$ --set "port = $port" \
        --set "listen_addresses = '127.0.0.1${address:+, $address}'" \
        --set "log_min_messages = fatal" 2>start.log) && break
    cluster_dir=
done
if [ -z "$cluster_dir" ]; then
    ok "setup: a server with a TCP port starts" cat start.log /dev/null/none
    done_testing
    exit 1
fi
trap 'cd /; rm -rf "$temp"; "$ROOT/scripts/postgres-cluster" stop "$cluster_dir"' EXIT

admin() { psql -qXAt -v ON_ERROR_STOP=1 -h "$cluster_dir" -p "$port" -U holdfast -d "$1" -c "$2"; }
secret='s3cret:with\colon'
admin postgres "CREATE ROLE checked LOGIN PASSWORD '$secret'"
for name in shop other; do
    admin postgres "CREATE DATABASE $name OWNER checked"
done

# Claims ------------------------------------------------------------------------------------------

# reaches DATABASE URL: an event is published there, and read back.
number=0
reaches() {
    number=$((number + 1))
    local type=test.number$number.$BASHPID
    "$HOLDFAST" publish "$type" --db "$2" || return 1
    [ "$(admin "$1" "SELECT count(*) FROM holdfast_private.events WHERE type = '$type'")" = 1 ]
}
# refused PATTERN URL: it fails and says so, without the password.
refused() {
    local rc=0
    "$HOLDFAST" publish test.never --db "$2" >out 2>err || rc=$?
    cat err
    [ "$rc" -ne 0 ] && [ "$rc" -lt 128 ] && grep -qE -e "$1" err && ! grep -qF -e "$secret" out err
}
# with NAME=VALUE... -- COMMAND...: runs a function with these variables.
with() {
    (
        while [ "$1" != -- ]; do
            export "${1?}"
            shift
        done
        shift
        "$@"
    )
}

# The environment ---------------------------------------------------------------------------------

where=("PGHOST=$cluster_dir" "PGPORT=$port" PGUSER=checked PGDATABASE=shop)
ok "postgres:// takes everything from the environment" \
    with "${where[@]}" "PGPASSWORD=$secret" -- reaches shop postgres://
ok "postgresql:// takes everything from the environment" \
    with "${where[@]}" "PGPASSWORD=$secret" -- reaches shop postgresql://
from_environment() { HOLDFAST_URL=postgres:// "$HOLDFAST" publish test.from.environment; }
ok "HOLDFAST_URL=postgres:// takes everything from the environment" \
    with "${where[@]}" "PGPASSWORD=$secret" -- from_environment
ok "a wrong PGPASSWORD is refused by the server" \
    with "${where[@]}" PGPASSWORD=wrong -- refused 28P01 postgres://
ok "the error of a missing password says that none was given" \
    with "${where[@]}" -- refused 'none was given' postgres://
ok "the URL's host, port, user, password and database win over the environment" \
    with PGHOST=/nonexistent PGPORT=1 PGUSER=nobody PGPASSWORD=wrong PGDATABASE=none -- \
    reaches shop \
    "postgres:///shop?host=$cluster_dir&port=$port&user=checked&password=${secret//\\/%5C}"
ok "a URL with only a database takes the rest from the environment" \
    with "${where[@]}" "PGPASSWORD=$secret" -- reaches other postgres:///other

# The password file -------------------------------------------------------------------------------

escaped=${secret//\\/\\\\}
printf '%s\n' "*:*:shop:checked:${escaped//:/\\:}" >passwords
chmod 600 passwords
ok "PGPASSFILE has the password of the database" \
    with "${where[@]}" "PGPASSFILE=$temp/passwords" -- reaches shop postgres://
ok "PGPASSFILE has no password of another database" \
    with "${where[@]}" "PGPASSFILE=$temp/passwords" -- refused 'none was given' postgres:///other
ok "PGPASSWORD wins over PGPASSFILE" with "${where[@]}" "PGPASSFILE=$temp/passwords" \
    PGPASSWORD=wrong -- refused 28P01 postgres://

# The service file --------------------------------------------------------------------------------

cat >services <<END
[shop]
host=$cluster_dir
port=$port
user=checked
dbname=shop
passfile=$temp/passwords
END
service=("PGSERVICEFILE=$temp/services")
ok "PGSERVICE names a service of PGSERVICEFILE" \
    with "${service[@]}" PGSERVICE=shop -- reaches shop postgres://
ok "a URL names a service of PGSERVICEFILE" \
    with "${service[@]}" -- reaches shop 'postgres://?service=shop'
ok "a service wins over the environment" with "${service[@]}" PGSERVICE=shop PGHOST=/nonexistent \
    PGUSER=nobody PGDATABASE=none -- reaches shop postgres://
ok "the URL wins over a service" with "${service[@]}" PGSERVICE=shop "PGPASSWORD=$secret" -- \
    reaches other "postgres:///other?password=${secret//\\/%5C}"
ok "the error of an unknown service names it" \
    with "${service[@]}" -- refused 'service.*nowhere' 'postgres://?service=nowhere'
ok "the error of a missing service file names it" with "PGSERVICEFILE=$temp/none" -- \
    refused "$temp/none" 'postgres://?service=shop'

# Without encryption ------------------------------------------------------------------------------

# examined LEVEL PATTERN URL: what doctor says of the connection's encryption.
examined() {
    "$HOLDFAST" doctor --json --db "$3" >out || [ "$?" -eq 7 ]
    grep '"name":"encryption"' out >found
    cat found
    grep -q "\"level\":\"$1\"" found && grep -qE "\"value\":\"$2" found
}
printf '%s\n' \
    'host all holdfast 127.0.0.1/32 trust' ${address:+"host all holdfast $address/32 trust"} \
    >>"$cluster_dir/data/pg_hba.conf"
admin postgres "SELECT pg_reload_conf()" >/dev/null
plain="port=$port&user=holdfast&sslmode=disable&options=-crole%3Dchecked" \
    # the schema is of that role
trusts() { psql -qX "postgres:///shop?host=${address:-127.0.0.1}&$plain" -c ''; }
until_true 60 trusts
ok "doctor says that the connection is a Unix socket" examined ok 'none: a Unix socket"' \
    "postgres:///shop?host=$cluster_dir&$plain"
ok "doctor does not warn of TCP to this machine without encryption" \
    examined ok 'none: 127\.0\.0\.1 is this machine"' "postgres:///shop?host=127.0.0.1&$plain"
warned="doctor warns of TCP to another machine without encryption"
if [ -n "$address" ]; then
    ok "$warned" examined warn "none: TCP to $address\".*sslmode=verify-full" \
        "postgres:///shop?host=$address&$plain"
else
    skip "$warned" "this machine has no other address"
fi

# TLS ---------------------------------------------------------------------------------------------

# authority NAME: a certificate that signs others
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=$1" -addext basicConstraints=critical,CA:TRUE -keyout "$1.key" -out "$1.crt"
}
certificates() {
    set -e
    authority right
    authority wrong
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=db.test \
        -keyout server.key -out server.csr
    echo subjectAltName=DNS:db.test >extensions
    openssl x509 -req -in server.csr -CA right.crt -CAkey right.key -CAcreateserial -days 2 \
        -extfile extensions -out server.crt
    for name in server.crt server.key; do
        install -m 600 "$name" "$cluster_dir/data/$name" || return 1
        chown --reference="$cluster_dir/data" "$cluster_dir/data/$name"
    done
    printf '%s\n' 'hostssl all checked 127.0.0.1/32 scram-sha-256' \
        'hostnossl all all 127.0.0.1/32 reject' >>"$cluster_dir/data/pg_hba.conf"
    admin postgres "ALTER SYSTEM SET ssl = on"
    admin postgres "SELECT pg_reload_conf()"
}
ok "setup: the server gets a certificate" certificates
speaks_tls() {
    [ "$(admin postgres "SHOW ssl")" = on ]
}
ok "setup: the server speaks TLS" \
    until_true 60 speaks_tls # it reads its configuration a moment later

# The name is what the certificate is compared with, the address is where the server is.
tcp="hostaddr=127.0.0.1&port=$port&user=checked&passfile=$temp/passwords"
tls="postgres:///shop?host=db.test&$tcp"
ok "sslmode=verify-full accepts the authority that has signed the certificate" \
    reaches shop "$tls&sslmode=verify-full&sslrootcert=$temp/right.crt"
ok "doctor names protocol and cipher of TLS" \
    examined ok 'TLSv1\.[23], [A-Z0-9_-]+"' "$tls&sslmode=require"
ok "PGSSLMODE and PGSSLROOTCERT set up TLS" \
    with PGSSLMODE=verify-full "PGSSLROOTCERT=$temp/right.crt" -- reaches shop "$tls"
ok "sslmode=verify-full refuses a certificate of another authority" \
    refused 'certificate verify failed' \
    "$tls&sslmode=verify-full&sslrootcert=$temp/wrong.crt"
ok "sslmode=verify-full refuses a certificate for another name" refused 'db\.test.*other\.test' \
    "postgres:///shop?host=other.test&$tcp&sslmode=verify-full&sslrootcert=$temp/right.crt"
ok "the error of a missing sslrootcert names the file" refused "$temp/none.crt" \
    "$tls&sslmode=verify-full&sslrootcert=$temp/none.crt"
ok "the URL's sslmode wins over PGSSLMODE" with PGSSLMODE=verify-full \
    "PGSSLROOTCERT=$temp/wrong.crt" -- reaches shop "$tls&sslmode=require&sslrootcert="
ok "a server that asks for TLS refuses a connection without it" refused 'pg_hba\.conf' \
    "$tls&sslmode=disable"

# All connections of a process: those that consume and listen, too.
consumes() {
    export PGSSLMODE=verify-full PGSSLROOTCERT=$temp/right.crt
    cat >holdfast.yaml <<END
database: {url: "$tls"}
subscriptions:
  - name: tls
    on: 'test.**'
    from: start
    handler: {exec: [sh, -c, 'echo "got \$HOLDFAST_TYPE"']}
END
    "$HOLDFAST" work --until-empty >out 2>err || { cat err; return 1; }
    grep -q '^got test\.number' out
}
ok "consumers work with sslmode=verify-full" consumes
done_testing
