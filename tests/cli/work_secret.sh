#!/usr/bin/env bash
# Commands that work runs do not learn the password of the database.
. "$(dirname "$0")/lib.sh"

if on postgres; then
    export HOLDFAST_URL="$HOLDFAST_URL&password=geheim-url"
fi
hf publish x '{}'
PGPASSWORD=geheim-env hf work a --on '*' --from start --until-empty --exec 'env >seen'
is "work runs the command with a password in its environment" "$rc" 0
has "work --exec sets HOLDFAST_URL for the command" seen '^HOLDFAST_URL=.'
hasnt "work passes the command neither the password of the URL nor PGPASSWORD" seen 'geheim'
hf work b --on x --from start --until-empty --exec '"$HOLDFAST" publish y "{}" >published 2>&1'
has "the command can publish with the HOLDFAST_URL that it gets" published '^position 2 '
finish
