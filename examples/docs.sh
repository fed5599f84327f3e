#!/bin/sh
# docs.sh: what the documentation says is so; run by `make test`.
#
# What can be typed is typed, and programs are compiled and run: scripts/doc-blocks.awk explains how a
# page says so. Here everything runs that needs no server; tests/postgres/docs.sh runs the rest. The
# example of man/holdfast.3 is a whole program, too. Besides, names are compared: of functions,
# options, tests, fault points and files.
#
# shellcheck disable=SC2016  # patterns are full of the backquotes of Markdown
set -eu
cd "$ROOT"
. scripts/tap.sh

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
pages="README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md $(echo docs/*.md docs/adr/*.md)"

# blocks INFO FILE: writes the blocks that are opened so to files in $temp, and prints their names.
blocks() {
    awk -v mode=write -v info="$1" -v to="$temp/$(echo "$2 $1" | tr '/ ' __)" \
        -f scripts/doc-blocks.awk "$2"
}

# blocks_are_marked PAGE...: what can be typed is run, or the page says why not.
blocks_are_marked() {
    for page in "$@"; do
        awk -v mode=check -f scripts/doc-blocks.awk "$page"
    done >"$temp/marks"
    cat "$temp/marks"
    [ ! -s "$temp/marks" ]
}

# unmarked_is_refused LINE...: a page with just these lines is complained about.
unmarked_is_refused() {
    printf '%s\n' "$@" >"$temp/toy.md"
    ! blocks_are_marked "$temp/toy.md"
}

# Compiles a program and runs it in a directory of its own.
program_works() {
    mkdir "$1.d" &&
        gcc -std=gnu11 -Wall -Wextra -Werror -o "$1.d/program" -x c "$1" -I"$HOLDFAST_INCLUDE" \
            -L"$HOLDFAST_LIB" -lholdfast -lsqlite3 &&
        (cd "$1.d" && LD_LIBRARY_PATH=$HOLDFAST_LIB timeout 60 ./program)
}

# part_compiles FILE: statements of a page, inside of a function that has what they speak of.
part_compiles() {
    {
        printf '#include <holdfast.h>\n#include <libpq-fe.h>\n#include <sqlite3.h>\n'
        echo 'void part(hf_bus *bus, sqlite3 *db, PGconn *pg, hf_new_event event, hf_receipt receipt,'
        echo '          hf_subscription_options options, hf_status status);'
        echo 'void part(hf_bus *bus, sqlite3 *db, PGconn *pg, hf_new_event event, hf_receipt receipt,'
        echo '          hf_subscription_options options, hf_status status)'
        echo '{'
        echo '    (void)bus, (void)db, (void)pg, (void)event, (void)receipt, (void)options, (void)status;'
        cat "$1"
        echo '}'
    } >"$1.c"
    # shellcheck disable=SC2046  # flags
    gcc -std=gnu11 -Wall -Wextra -Werror -Wno-unused-but-set-parameter -fsyntax-only "$1.c" \
        -I"$HOLDFAST_INCLUDE" $(pkg-config --cflags libpq)
}

# unit_is_valid FILE NAME: systemd reads it without a complaint, the missing program aside, and of a
# socket the service that goes with it.
unit_is_valid() {
    kind=service
    ! grep -q '^\[Socket\]' "$1" || kind=socket
    mkdir -p "$temp/units" && cp "$1" "$temp/units/$2.$kind" || return
    systemd-analyze verify "$temp/units/$2.$kind" 2>&1 | grep -F "$2.$kind:" |
        grep -vE 'is not executable|service .* not loaded' >"$temp/unit.err" || :
    cat "$temp/unit.err"
    [ ! -s "$temp/unit.err" ]
}

man_example() {
    sed -n '/^\.EX$/,/^\.EE$/{/^\.E[XE]$/d; s/\\e/\\/g; s/\\-/-/g; s/\\&//g; p}' man/holdfast.3
}

# man_page: the examples of holdfast(1) as a page of shell.
man_page() {
    echo '<!-- setup'
    echo 'cat >send-mail <<END_OF_PROGRAM'
    printf '#!/bin/sh\ncat >/dev/null\nEND_OF_PROGRAM\n'
    printf 'chmod +x send-mail\ncp send-mail send-all\n-->\n'
    sed -n '/^\.Sh EXAMPLES/,$p' man/holdfast.1 |
        sed 's/\\e/\\/g; s/\\-/-/g; s/\\&//g; s/^\.Bd -literal.*/```sh/; s/^\.Ed$/```/'
}

man_is_clean() {
    groff -ww -mandoc -Tutf8 -z "$1" 2>"$temp/man.err" || return 1
    cat "$temp/man.err"
    [ ! -s "$temp/man.err" ]
}

# all_in FILE...: every line of stdin is a word in one of the files.
all_in() {
    missing=0
    while read -r word; do
        grep -qwF -e "$word" "$@" || { echo "$word is not in $*" && missing=1; }
    done
    return $missing
}

functions_are_in_man() {
    cat include/holdfast/*.h | grep -o '^HF_API [^(]*(' | grep -o 'hf_[a-z0-9_]*(' | tr -d '(' |
        all_in man/holdfast.3
}

man_knows_no_others() {
    grep -o '\bhf_[a-z0-9_]*[a-z0-9]\b' man/holdfast.3 | sort -u | all_in include/holdfast/*.h
}

statuses_are_in_man() {
    sed -n 's/^ *X(\(HF_[A-Z]*\),.*/\1/p' include/holdfast/status.h | all_in man/holdfast.3
}

man_has_the_version() {
    version=$(sed -n 's/^#define HF_VERSION "\(.*\)"$/\1/p' include/holdfast/common.h)
    grep '^\.TH' man/holdfast.3 | grep -F "Holdfast $version" && grep -qF "## $version" CHANGELOG.md
}

# Of docs/guarantees-tests.md: "- `program`" is a test program or an example, "  - `claim`" a test in
# the program above it.
tests_exist() {
    programs=0
    file=
    while IFS= read -r line; do
        name=$(expr "$line" : '[^`]*`\([^`]*\)`') || continue
        case $line in
        "- "*)
            programs=$((programs + 1))
            for other in $(echo "$line" | grep -o '`[^`]*`' | tr -d '`'); do
                file=
                for path in "tests/$other.c" "tests/$other.sh" "$other"; do
                    [ ! -f "$path" ] || file=$path
                done
                [ -n "$file" ] || { echo "$other is no test program" && return 1; }
            done
            ;;
        "  - "*)
            grep -qwF -e "$name" "$file" || { echo "$file has no test $name" && return 1; }
            ;;
        esac
    done <docs/guarantees-tests.md
    [ "$programs" -gt 40 ] || { echo "only $programs programs are named" && return 1; }
}

# help_examples: the examples of all help texts, one per line.
help_examples() {
    "$HOLDFAST" help | sed -n '/^Commands /,/^$/s/^  \([a-z]*\( [a-z]*\)\{0,1\}\)  .*/\1/p' |
        while read -r command; do
            # shellcheck disable=SC2086  # one or two words
            "$HOLDFAST" help $command | sed -n '/^Examples:/,/^$/s/^  //p'
        done | sed -e :again -e '/[\\|]$/{N;s/\\\{0,1\}\n *//;b again' -e '}'
}

# examples_are_understood: no example of a help text is refused for its words. What it speaks of is
# not there, so most of them fail otherwise; those that take long are left out.
examples_are_understood() {
    help_examples | grep '^holdfast ' |
        grep -vE '^holdfast (demo|bench|work|copy|completion) |--follow|--wait' >"$temp/examples"
    [ "$(wc -l <"$temp/examples")" -gt 80 ] || { echo "hardly an example is found" && return 1; }
    mkdir "$temp/examples.d"
    bad=0
    while IFS= read -r line; do
        (cd "$temp/examples.d" && PATH=$BUILD:$PATH timeout 20 sh -c "$line") >/dev/null \
            2>"$temp/said" </dev/null || :
        if grep -q "^Try 'holdfast\|not found$" "$temp/said"; then
            echo "$line" && cat "$temp/said"
            bad=1
        fi
    done <"$temp/examples"
    return $bad
}

# named_in PAGE: the tests that a page of explanations names: paths below tests/, and claims.
named_in() {
    grep -oE '`[^` ]+`' "$1" | tr -d '`' >"$temp/quoted"
    grep -E '^tests/[a-z_/]+\.(c|sh)$' "$temp/quoted" >"$temp/paths" || :
    grep -E '^test_[a-z_]+\.c$' "$temp/quoted" >>"$temp/paths" || :
    [ -s "$temp/paths" ] || { echo "$1 names no test" && return 1; }
    while read -r path; do
        case $path in
        tests/*) [ -f "$path" ] ;;
        *) find tests -name "$path" | grep -q . ;;
        esac || { echo "$1: there is no $path" && return 1; }
    done <"$temp/paths"
    grep -E '^[a-z]+(_[a-z]+){4,}$' "$temp/quoted" >"$temp/claims" || :
    while read -r claim; do
        grep -rqwF --include='*.c' --include='*.sh' -e "$claim" tests src include sql ||
            { echo "$1: no test is called $claim" && return 1; }
    done <"$temp/claims"
}

# tables_are_whole PAGE...: a row is one line. One that was wrapped ends the table.
tables_are_whole() {
    ! grep -n '^| ' "$@" | grep -v '|$'
}

guarantees_are_all_there() {
    for n in 1 2 3 4 5 6 7 8 9 10; do
        title=$(grep "^## G$n\\. " docs/guarantees.md) || { echo "G$n is missing" && return 1; }
        grep -q "^| G$n |" README.md || { echo "README.md has no G$n" && return 1; }
        sed -n "/^## G$n\\. /,/^## G$((n + 1))/p" docs/guarantees-tests.md >"$temp/tests"
        head -1 "$temp/tests" | grep -qxF "$title" || { echo "$title: other words" && return 1; }
        grep -q '^- ' "$temp/tests" || { echo "G$n has no tests" && return 1; }
    done
}

points_exist() {
    sed -n '/^## What happens if it stops here/,$p' docs/architecture.md | grep -o '(`[a-z_]*`)' |
        tr -d '()`' | sort -u >"$temp/points"
    [ -s "$temp/points" ] || return 1
    while read -r point; do
        grep -rqF "HF_POINT(\"$point\")" src || { echo "$point is no fault point" && return 1; }
    done <"$temp/points"
}

tables_exist() {
    sed -n '/^## What is stored/,/^## /s/^| `\([a-z_]*\)` |.*/holdfast_\1/p' docs/architecture.md |
        sort >"$temp/described"
    cat sql/sqlite/tables/[0-9]*.sql | sed -n 's/^CREATE TABLE \([a-z_]*\) (.*/\1/p' | sort >"$temp/made"
    diff "$temp/described" "$temp/made"
}

benchmarks_are_those_that_run() {
    sed -nE 's/^(repeat=1 )?(measure|also) "([^"]*)".*/\3/p' bench/run bench/run-postgres >"$temp/measured"
    sed -n '/^| measured |/,/^$/s/^| \([^|]*\) |.*/\1/p' docs/benchmarks.md |
        grep -vx measured >"$temp/reported"
    [ -s "$temp/measured" ] && diff "$temp/measured" "$temp/reported"
}

# Links to files of the repository lead somewhere, headings included.
links_lead_somewhere() {
    for page in $pages; do
        grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//' | while read -r link; do
            case $link in *://*) continue ;; esac
            file=${link%%#*}
            target=$(dirname "$page")/$file
            [ -n "$file" ] || target=$page
            [ -e "$target" ] || { echo "$page: $link leads nowhere" && exit 1; }
            case $link in
            *#*)
                sed -n 's/^##* //p' "$target" | tr '[:upper:]' '[:lower:]' | tr -d '.,:' | tr ' ' '-' |
                    grep -qx "${link#*#}" || { echo "$page: no heading for $link" && exit 1; }
                ;;
            esac
        done || return 1
    done
}

pages_can_be_found() {
    for page in docs/*.md; do
        grep -qF "($page)" README.md || { echo "README.md does not lead to $page" && return 1; }
    done
}

nothing_is_unfinished() {
    # shellcheck disable=SC2086  # a list of names without spaces
    ! grep -nwE "$(printf 'TO''DO|FIX''ME|X''XX|TB''D|TESTS_G[0-9]+')" $pages man/holdfast.3
}

# shellcheck disable=SC2086  # a list of names without spaces
ok "everything that can be typed is run, or its page says why not" blocks_are_marked $pages
ok "check of pages: a command without a fence is found" unmarked_is_refused '' '    holdfast doctor'
ok "check of pages: a command in a fence without a language is found" \
    unmarked_is_refused '```' 'holdfast doctor' '```'
ok "check of pages: a block in a language that no test runs is found" \
    unmarked_is_refused '```ruby' 'puts 1' '```'
ok "check of pages: a block that is not run for no reason is found" \
    unmarked_is_refused '```sh not run:' 'holdfast doctor' '```'
ok "check of pages: a block whose test does not name the page is found" \
    unmarked_is_refused '```sh run by scripts/deps' 'x' '```'
for page in $pages; do
    for name in $(blocks "c" "$page"); do
        ok "the program in $page compiles and works" program_works "$temp/$name"
    done
    for name in $(blocks "c part" "$page"); do
        ok "the statements of C in $page compile" part_compiles "$temp/$name"
    done
    number=0
    for name in $(blocks "ini" "$page"); do
        number=$((number + 1))
        if command -v systemd-analyze >/dev/null; then
            ok "unit $number of $page is one for systemd" unit_is_valid "$temp/$name" "page-$number"
        else
            skip "unit $number of $page is one for systemd" "no systemd-analyze"
        fi
    done
    status=0
    output=$(scripts/doc-session sqlite "$page" 2>&1 </dev/null) || status=$?
    [ "$status" -eq 3 ] || result "$status" "what $page tells to type works" <<OUTPUT
$output
OUTPUT
done
ok "the examples of the help texts are understood" examples_are_understood
man_page >"$temp/holdfast.1.md"
ok "what the examples of holdfast(1) tell to type works" \
    scripts/doc-session sqlite "$temp/holdfast.1.md"
man_example >"$temp/man.c"
ok "the example of holdfast(3) compiles and works" program_works "$temp/man.c"
if command -v groff >/dev/null; then
    for manual in man/*.[13]; do
        ok "$manual has no formatting errors" man_is_clean "$manual"
    done
else
    skip "the manual pages have no formatting errors" "no groff"
fi
ok "holdfast(3) has every public function" functions_are_in_man
ok "holdfast(3) knows no function that there is not" man_knows_no_others
ok "holdfast(3) has every status" statuses_are_in_man
ok "holdfast(3) and the changelog have this version" man_has_the_version
ok "every guarantee is in the README and in docs/guarantees.md, and has tests" guarantees_are_all_there
ok "the tests that docs/guarantees-tests.md names exist" tests_exist
ok "the tests that docs/consumers.md names exist" named_in docs/consumers.md
ok "the tests that docs/ordering.md names exist" named_in docs/ordering.md
# shellcheck disable=SC2086  # a list of names without spaces
ok "rows of tables in documents are whole" tables_are_whole $pages
ok "the fault points that docs/architecture.md names exist" points_exist
ok "docs/architecture.md describes the tables that there are" tables_exist
ok "docs/benchmarks.md has the lines that are measured" benchmarks_are_those_that_run
ok "links of the documents lead somewhere" links_lead_somewhere
ok "the README leads to every page of docs" pages_can_be_found
ok "no document is marked as unfinished" nothing_is_unfinished
done_testing
