#!/usr/bin/env bash
# Messages about what another session did: a lock that is held, a namespace that was removed.
. "$(dirname "$0")/../cli/lib.sh"

hf publish a.b
lock &
until_true 60 test -e locked
exits 5 "publish exits with a timeout if another transaction holds a lock" \
    publish a.b --db-timeout 4s
has "the error says that another transaction holds a lock" \
    err 'a lock that another transaction holds'
has "the error says for how long publish has tried" err 'it was tried for [0-9]+ ms'
touch unlock
wait

# A process that has a namespace open, while another one removes the namespace.
mkfifo lines
"$HOLDFAST" publish --namespace shop --file - <lines >out 2>err &
publisher=$!
exec 3>lines
echo '{"type":"a.b"}' >&3
stored() { "$HOLDFAST" tail --namespace shop --json 2>/dev/null | grep -q a.b; }
until_true 60 stored
"$HOLDFAST" namespace rm shop --yes --force 2>rm.err
is "setup: a namespace is removed under a process" "$?" 0
echo '{"type":"a.c"}' >&3
exec 3>&-
wait "$publisher"
is "publish exits with not found if its namespace was removed" "$?" 3
has "the error says that the namespace was removed" err 'namespace shop is gone: it was removed'
finish
