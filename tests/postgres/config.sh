#!/usr/bin/env bash
# The configuration file with a server: the password is in a file of its own and reaches the server.
. "$(dirname "$0")/lib.sh"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
cluster
unset PGDATABASE PGOPTIONS "${!HOLDFAST_@}"
temp=$(mktemp -d)
trap 'cd /; rm -rf "$temp"; cluster_stop' EXIT
cd "$temp" || exit 1

secret='it'\''s 100% "s&c=r#t"/ä@:?'
# Commands do not inherit the password: they have a file of their own.
printf '%s\n' "*:*:*:checked:${secret//:/\\:}" >passwords
chmod 600 passwords
PGDATABASE=postgres sql "CREATE ROLE checked LOGIN PASSWORD '${secret//\'/\'\'}'" >/dev/null
PGDATABASE=postgres sql "CREATE DATABASE shop OWNER checked" >/dev/null
printf '%s\n' "$secret" >password
cat >holdfast.yaml <<END
database:
  url: postgresql://checked@/shop?host=$cluster_dir
  password_file: password
subscriptions:
  - name: one
    on: user.*
    from: start
    handler: {exec: "PGPASSFILE='$temp/passwords' '$HOLDFAST' publish made.by.one --quiet"}
  - name: two
    on: 'made.**'
    from: start
    mode: shared
    handler: {exec: [sh, -c, 'echo "two got \$HOLDFAST_TYPE"']}
END
url="postgresql://checked@/shop?host=$cluster_dir"

works() {
    "$HOLDFAST" work --until-empty >out 2>err || { cat err; return 1; }
    ! grep -F -e "$secret" -e '%73%26%63' out err
}
publishes() {
    PGPASSFILE=$temp/passwords "$HOLDFAST" publish user.created --db "$url"
}
ok "work opens the database with the password of password_file" works
PGDATABASE=shop sql "GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO holdfast" >/dev/null
ok "setup: an event is published to the database of the file" publishes
ok "work handles the event with the password of password_file" works
ok "commands of work reach the database with a password file" grep -x 'two got made.by.one' out

denied() {
    echo "$1" >password
    "$HOLDFAST" work --until-empty >out 2>err
    [ $? -eq 1 ] && grep -q 28P01 err && ! grep -F -e "$1" out err
}
ok "a wrong password of password_file is refused and not printed" denied 'secretly-wrong'
shown() {
    "$HOLDFAST" config show --origin >out && grep -F "database.password_file" out &&
        ! grep -q secretly out
}
ok "config show does not open the password_file" shown
done_testing
