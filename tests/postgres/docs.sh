#!/usr/bin/env bash
# The examples of docs/sql.md do what stands there, typed one after another into one psql.
. "$(dirname "$0")/lib.sh"
cluster
schema

statements=()
answers=() # as they stand in the text
inside=no
while IFS= read -r line; do
    case $inside:$line in
    no:'```psql') inside=yes ;;
    yes:'```') inside=no ;;
    yes:'=> '*) statements+=("${line#=> }") answers+=('') ;;
    yes:*) answers[-1]+=$line$'\n' ;;
    esac
done <"$ROOT/docs/sql.md"

# Marks between the answers go to stderr, where errors are, too: stdout may come later.
mapfile -d '' -t found < <(printf '%s\n\\warn ::end\n' "${statements[@]}" |
    psql -qXAt -v VERBOSITY=verbose 2>&1 | sed 's/^::end$/\x00/' | sed -z 's/^\n//')
for i in "${!statements[@]}"; do
    answer=$(sed '/^\(CONTEXT\|LOCATION\|HINT\|DETAIL\)/,$d' <<<"${found[i]-}")
    ok "${statements[i]:0:90}" same "$(printf '%s' "${answers[i]%$'\n'}")" "${answer%$'\n'}"
done
done_testing
