#!/usr/bin/env bash
# Every key of the configuration file is documented and in the sample, and nothing else is.
#
# `holdfast config keys` prints the table that the parser reads by. docs/configuration.md has one
# line for each key, exactly the one that is made here of the table; if a claim fails, the lines to
# write are in its output.
. "$(dirname "$0")/lib.sh"
doc=$root/docs/configuration.md
sample=$root/examples/holdfast.yaml

exits 0 "config keys lists the keys of the configuration file" config keys
has "config keys prints a key with its default" out '^database\.url \(sqlite:holdfast\.db\)$'
exits 0 "config keys takes the option --json" config keys --json
json "config keys --json prints a JSON object per key" out
true_that "config keys lists more than thirty keys" test "$(wc -l <out)" -gt 30
sed '1s/^/[/; $!s/$/,/; $s/$/]/' out >keys.json

# shellcheck disable=SC2016  # backquotes are Markdown's
sqlite3 :memory: "
    SELECT '| \`' || (value ->> 'key') || '\` | ' || replace(value ->> 'takes', '|', ', ')
        || ' | ' ||
           CASE WHEN value ->> 'required' THEN 'required'
                ELSE coalesce('\`' || (value ->> 'default') || '\`', 'none') END || ' | ' ||
           coalesce('\`--' || (value ->> 'flag') || '\`', '') ||
           coalesce(', \`\$' || (value ->> 'environment') || '\`', '') || ' | ' ||
           (value ->> 'help') || ' |'
    FROM json_each(readfile('keys.json'))" >expected
true_that "setup: there is an expected line of the document for each key" \
    test "$(wc -l <expected)" -eq "$(wc -l <out)"
# shellcheck disable=SC2016
grep -E '^\| `(database|subscriptions\[\]|schedules\[\]|retention|serve)\.' "$doc" >documented
is "docs/configuration.md has exactly the lines of config keys" \
    "$(diff expected documented | sed -n 's/^[<>]/&/p')" ''

exits 0 "config check accepts examples/holdfast.yaml" config check "$sample"
HOLDFAST_URL='' hf config show --config "$sample" --origin --json
is "config show accepts examples/holdfast.yaml" "$rc" 0
cp out shown
sqlite3 :memory: "SELECT value ->> 'key' FROM json_each(readfile('keys.json'))" |
    while read -r key; do
    path=${key#*.}
    # In effect somewhere, or in a comment as "# key: value".
    grep -q "\"path\":\"$path\",.*\"origin\":\"file\"" shown ||
        grep -qE "^ +# ${path##*.}: " "$sample" || echo "$key"
done >missing
is "examples/holdfast.yaml has every key" "$(cat missing)" ''
# shellcheck disable=SC2016
sqlite3 :memory: \
    "SELECT value ->> 'default' || ' ' || (value ->> 'key') FROM json_each(readfile('keys.json'))
    WHERE value ->> 'default' IS NOT NULL AND value ->> 'key' LIKE 'subscriptions[]%'" |
    while read -r initial key; do
        shown="\"key\":\"subscriptions.ledger.${key#*.}\",\"subscription\":\"ledger\""
        shown="$shown,\"path\":\"${key#*.}\",\"value\":\"$initial\",\"origin\":\"file\""
        grep -qF "$shown" shown ||
            grep -qE "^ +# ${key##*.}: $initial( |\$)" "$sample" ||
            echo "$key is not $initial in the second subscription"
    done >wrong
is "the second subscription of examples/holdfast.yaml has the defaults" "$(cat wrong)" ''
cp "$sample" holdfast.yaml
hf publish user.created --db sqlite:shop.db --key ann
hf publish order.placed --db sqlite:shop.db
HOLDFAST_URL='' hf work --until-empty
is "work runs with examples/holdfast.yaml" "$rc" 0
has "the first subscription of examples/holdfast.yaml handles its event" out '^mail for ann$'
has "the second subscription of examples/holdfast.yaml handles its event" out '^booked order$'
hf schedule show report --db sqlite:shop.db
has "work makes the schedule of examples/holdfast.yaml" out '^zone: +Europe/Berlin$'
hf namespace show default --db sqlite:shop.db --json
is "work sets the retention of examples/holdfast.yaml" \
    "$(field out 1 '$.retention_ms')" $((90 * 86400000))

finish
