#!/usr/bin/env bash
# The command line itself: help, typos, exit codes of usage errors, completion, the manual.
. "$(dirname "$0")/lib.sh"
man=$root/man/holdfast.1

exits 2 "without a command the overview goes to stderr"
has "and lists the commands" err '^  publish '
is "stdout stays empty" "$(cat out)" ''
exits 0 "help lists the commands on stdout" help
cp out overview
exits 0 "--help is the same" --help
is "word for word" "$(cmp out overview && echo same)" same
exits 0 "--version is version" --version
has "it names the version" out '^holdfast [0-9]+\.[0-9]+\.[0-9]+$'
exits 0 "version --json is an object" version --json
json "a valid one" out

has "the overview has sections" overview '^Commands for subscriptions:$'
has "for what belongs together" overview '^Commands for dead letters:$'

# --- Every command ---
sed -n '/^Commands /,/^$/s/^  \([a-z0-9]*\( [a-z0-9]*\)\?\)  .*/\1/p' overview |
    sed 's/ *$//' >commands
true_that "there are more than thirty commands" test "$(wc -l <commands)" -gt 30
: >missing
: >no_examples
: >differ
while read -r -a words; do
    name="${words[*]}"
    "$HOLDFAST" help "${words[@]}" >h1 2>&1 || echo "help $name" >>differ
    "$HOLDFAST" "${words[@]}" --help >h2 2>&1 || echo "$name --help" >>differ
    "$HOLDFAST" "${words[@]}" -h >h3 2>&1 || echo "$name -h" >>differ
    cmp -s h1 h2 && cmp -s h2 h3 || echo "$name" >>differ
    # Examples come before the usage.
    [ "$(grep -nE '^(Examples|Usage):' h1 | head -1 | grep -c Examples)" = 1 ] ||
        echo "$name" >>no_examples
    grep -q "^\.It Ic .*${words[-1]}\|^\.Ss .*$name" "$man" || echo "command $name" >>missing
    # Every option of the help is in the manual, with its two dashes.
    grep -oE '^ +(-[a-z], )?--[a-z0-9-]+' h1 | grep -oE -- '--[a-z0-9-]+' | sort -u |
        while read -r option; do
        grep -qE -- "Fl Fl ${option#--}( |\$)" "$man" || echo "$name $option"
    done >>missing
done <commands
is "every command has its help in three ways" "$(cat differ)" ''
is "every help leads with examples" "$(cat no_examples)" ''
is "every command and option is in the manual" "$(sort -u missing)" ''
while read -r -a words; do "$HOLDFAST" help "${words[@]}"; done <commands >all_help 2>/dev/null
grep -oE 'Fl Fl [a-z0-9-]+' "$man" | sed 's/Fl Fl //' | sort -u | while read -r option; do
    grep -qE -- "--$option( |\$|,)" all_help || [ "$option" = version ] || echo "$option"
done >stale
is "the manual has no option that does not exist" "$(cat stale)" ''
is "no line of a help is wider than a terminal" "$(cat overview all_help | awk 'length > 80')" ''
exits 0 "a group has a help" sub --help
has "of its commands" out '^  sub seek '
exits 0 "help of a group" help dlq
has "lists them, too" out '^  dlq retry '

# --- Typos ---
exits 2 "a mistyped command is refused" pubish
has "with a suggestion" err "did you mean 'publish'"
exits 2 "a mistyped command of a group is refused" sub lst
has "with a suggestion, too" err "did you mean 'sub list'"
exits 2 "a word of other programs is refused" namespace remove x
has "and ours suggested, not the nearest" err "did you mean 'namespace rm'"
exits 2 "also where it is near to nothing" schedule create x
has "(the word for it is another there)" err "did you mean 'schedule add'"
for pair in push:publish put:publish consume:work subscribe:work pull:claim reserve:claim \
    log:tail watch:tail backup:copy export:copy queue:sub subscriptions:sub dead-letters:dlq \
    cron:schedule status:stats ps:node fsck:verify health:doctor init:migrate delete:ack \
    extend:touch reject:bury events:event topic:namespace settings:config benchmark:bench; do
    exits 2 "what others call ${pair%:*} is refused" "${pair%:*}"
    has "with our word for it" err "^holdfast: there is no command .*; did you mean '${pair#*:}'"
done
exits 2 "a word that means two things is refused" consume
has "with both" err "did you mean 'work' or 'claim'\?"
exits 2 "a group needs a command" sub
has "and shows them" err '^  sub list '
exits 2 "something that is near nothing gets no suggestion" zzzzzz
hasnt "none at all" err 'did you mean'
exits 2 "an option of another command is refused" stats --follow
exits 2 "a mistyped choice is refused" sub create x --on '*' --from start --mode ordred
has "with the choices and a suggestion" err 'ordered\|shared, not .ordred.; did you mean ordered'
exits 2 "help of nothing is refused" help nothing
exits 2 "help of a typo suggests" help pubish
has "the command" err "did you mean 'publish'"
exits 2 "also of a command of a group" help dlq retyr
has "by its whole name" err "did you mean 'dlq retry'"
exits 2 "and of a group" help dlqq
has "by its name" err "did you mean 'dlq'"
exits 2 "the time for the database has limits" stats --db-timeout 2d
has "which are told" err '--db-timeout takes a time .* from 1ms to 1d, not .2d.'
exits 2 "an option needs its value" tail --limit
has "which is named" err -- '--limit N'
exits 2 "a flag takes no value" tail --follow=yes
exits 2 "a number is a number" tail --limit 5x
has "within its limits" err 'a whole number from 0'
exits 2 "a duration needs a unit" claim s --wait 5
has "as the message shows" err '250ms, 30s, 5m'
exits 2 "a place is a place" tail --from yesterday
exits 2 "an unknown letter is refused" tail -z
exits 2 "a missing word is named" sub show
has "by its name in the usage" err 'SUB is missing'
has "with the help to read" err "Try 'holdfast sub show --help'"

# --- Completion ---
exits 2 "completion knows three shells" completion tcsh
for shell in bash zsh fish; do
    exits 0 "there is a completion for $shell" completion $shell
    cp out completion.$shell
done
true_that "the bash script is valid" bash -n completion.bash
complete_line() { # WORDS...: what bash would offer for the last word
    PATH=${HOLDFAST%/*}:$PATH bash -c 'source "$1"; shift
        COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        IFS=" :" read -ra COMP_WORDS <<<"$COMP_LINE"; [ -n "${!#}" ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _holdfast
        printf "%s\n" "${COMPREPLY[@]}"' _ completion.bash "$@"
}
is "bash completes a command" "$(complete_line holdfast pub)" publish
is "and a command of a group" "$(complete_line holdfast sub se)" seek
is "and an option" "$(complete_line holdfast publish --exp)" --expect-version
is "after options with values" "$(complete_line holdfast --db x.db sub sh)" show
is "and a choice" "$(complete_line holdfast work s --mode sh)" shared
is "and the words of completion" "$(complete_line holdfast completion f)" fish
for command in "sub create mailer --on x" "sub create main --on x" "sub create other --on y"; do
    # shellcheck disable=SC2086
    hf $command --from now
done
hf namespace create shop
hf schedule add nightly '0 3 * * *' night.fell
is "and names of subscriptions" "$(complete_line holdfast sub show ma | sort | paste -sd' ')" \
    'mailer main'
is "all of them if nothing is typed" "$(complete_line holdfast claim '' | wc -l)" 3
is "of the database that the line names" \
    "$(HOLDFAST_URL=sqlite:none.db complete_line holdfast --db sqlite:bus.db sub pause ot)" other
is "and of schedules" "$(complete_line holdfast schedule show n)" nightly
is "and of namespaces" "$(complete_line holdfast namespace show s)" shop
is "also as values" "$(complete_line holdfast stats --namespace s)" shop
is "all of them, if nothing is typed" \
    "$(complete_line holdfast stats --namespace '' | sort | paste -sd' ')" 'default shop'
is "of the database that is named before" \
    "$(HOLDFAST_URL=sqlite:none.db complete_line holdfast stats --db=bus.db --namespace '' |
        sort | paste -sd' ')" 'default shop'
is "of which there are two" "$(complete_line holdfast dlq list --subscription o)" other
is "a database that is not there has none" \
    "$(HOLDFAST_URL=sqlite:none.db complete_line holdfast sub show '' 2>&1)" ''
true_that "and is not made" test ! -e none.db
exits 0 "names are for scripts, too" names subscriptions
is "one per line" "$(sort out | paste -sd' ')" 'mailer main other'
exits 0 "or an object each" names namespaces --json
json "in JSON" out
exits 2 "a kind of names that is none is refused" names people

# --- JSON ---
exits 0 "help --json describes every command" help --json
json "an object each" out
is "all of them" "$(wc -l <out)" "$(wc -l <commands)"
exits 0 "or one, with its options" help work --json
has "by name" out '"name":"exec"'
exits 0 "or those of a group" help dlq --json
is "six" "$(wc -l <out)" 6
exits 2 "a script is no JSON" completion bash --json
exits 2 "nor is that of the schema" migrate --print --json
echo 'subscriptions: [{nam: x}]' >bad.yaml
exits 2 "mistakes of a configuration file are objects, too" config check bad.yaml --json
json "on stderr" err
if command -v zsh >/dev/null; then true_that "the zsh script is valid" zsh -n completion.zsh; fi
if command -v fish >/dev/null; then true_that "the fish script is valid" fish -n completion.fish; fi

hf help work
hasnt "lines of the help do not end with blanks" out ' $'

finish
