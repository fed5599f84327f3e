#!/usr/bin/env bash
# Commands that work runs do not learn the password of the database.
. "$(dirname "$0")/lib.sh"

if on postgres; then
    export HOLDFAST_URL="$HOLDFAST_URL&password=geheim-url"
fi
hf publish x '{}'
PGPASSWORD=geheim-env hf work a --on '*' --from start --until-empty --exec 'env >seen'
is "the command has run" "$rc" 0
has "it gets the URL" seen '^HOLDFAST_URL=.'
hasnt "without a password, and no PGPASSWORD" seen 'geheim'
hf work b --on x --from start --until-empty --exec '"$HOLDFAST" publish y "{}" >published 2>&1'
has "it can publish with what it gets" published '^position 2 '
finish
