#!/usr/bin/env bash
# What the documents tell to type on PostgreSQL works: shell, SQL and programs in other languages,
# page by page, each in an empty database (scripts/doc-blocks.awk explains how a page says so); and
# the examples that stand with their answers, as in docs/sql.md, get these answers, typed one after
# another into one psql.
. "$(dirname "$0")/lib.sh"
cluster max_prepared_transactions=10
cd "$ROOT" || exit 1
pages=(README.md CONTRIBUTING.md SECURITY.md docs/*.md)

# compare PAGE: its statements behind "=> ", further lines of them behind "-> ", with the answers
# below them.
compare() {
    local statements=() answers=() inside=no line found answer i
    while IFS= read -r line; do
        case $inside:$line in
        no:'```psql') inside=yes ;;
        yes:'```') inside=no ;;
        yes:'=> '*) statements+=("${line#=> }") answers+=('') ;;
        yes:'-> '*) statements[-1]+=" ${line#-> }" ;;
        yes:*) answers[-1]+=$line$'\n' ;;
        esac
    done <"$1"
    [ ${#statements[@]} -gt 0 ] || return 0
    schema
    # Marks between the answers go to stderr, where errors are, too: stdout may come later.
    mapfile -d '' -t found < <(printf '%s\n\\warn ::end\n' "${statements[@]}" |
        psql -qXAt -v VERBOSITY=verbose 2>&1 | sed 's/^::end$/\x00/' | sed -z 's/^\n//')
    for i in "${!statements[@]}"; do
        answer=$(sed '/^\(CONTEXT\|LOCATION\|HINT\|DETAIL\)/,$d' <<<"${found[i]-}")
        ok "$1 shows the answer to ${statements[i]:0:90}" \
            same "$(printf '%s' "${answers[i]%$'\n'}")" "${answer%$'\n'}"
    done
}

# Languages whose drivers are not here.
without=
/usr/bin/python3 -c 'import psycopg' 2>/dev/null || without="$without python"
finds_pg || fetch_pg || without="$without js"
[ -z "$without" ] || skip "the programs of the documents in$without" \
    "their drivers are not installed"

# type_page PAGE: what it tells to type, in a new database. A page may make databases of its own.
type_page() {
    local database output status=0
    database=page$((++page_count))
    psql -qX -d postgres -c "CREATE DATABASE $database" || exit 1
    output=$(env -u PGOPTIONS PGDATABASE="$database" HOLDFAST_URL="postgres:///$database" \
        scripts/doc-session postgres "$1" "$without" 2>&1 </dev/null) || status=$?
    [ "$status" -eq 3 ] || result "$status" "what $1 tells to type works" <<<"$output"
    psql -qX -d postgres -c 'DROP DATABASE IF EXISTS shop WITH (FORCE)'
}

page_count=0
for page in "${pages[@]}"; do
    compare "$page"
    type_page "$page"
done
done_testing
