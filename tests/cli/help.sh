#!/usr/bin/env bash
# The command line itself: help, typos, exit codes of usage errors, completion, the manual.
. "$(dirname "$0")/lib.sh"
man=$root/man/holdfast.1

exits 2 "holdfast without a command exits with a usage error"
has "holdfast without a command lists the commands on stderr" err '^  publish '
is "holdfast without a command prints nothing on stdout" "$(cat out)" ''
exits 0 "help lists the commands on stdout" help
cp out overview
exits 0 "holdfast takes --help without a command" --help
is "holdfast --help prints the same as holdfast help" "$(cmp out overview && echo same)" same
exits 0 "holdfast takes --version without a command" --version
has "holdfast --version prints the version" out '^holdfast [0-9]+\.[0-9]+\.[0-9]+$'
exits 0 "version takes the option --json" version --json
json "version --json prints a JSON object" out

has "the overview has a section for subscriptions" overview '^Commands for subscriptions:$'
has "the overview has a section for dead letters" overview '^Commands for dead letters:$'

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
is "every command prints the same help in three ways" "$(cat differ)" ''
is "every help leads with examples" "$(cat no_examples)" ''
is "every command and option is in the manual" "$(sort -u missing)" ''
while read -r -a words; do "$HOLDFAST" help "${words[@]}"; done <commands >all_help 2>/dev/null
grep -oE 'Fl Fl [a-z0-9-]+' "$man" | sed 's/Fl Fl //' | sort -u | while read -r option; do
    grep -qE -- "--$option( |\$|,)" all_help || [ "$option" = version ] || echo "$option"
done >stale
is "the manual has no option that does not exist" "$(cat stale)" ''
is "no line of a help is wider than a terminal" "$(cat overview all_help | awk 'length > 80')" ''
exits 0 "a group of commands takes --help" sub --help
has "the help of a group lists its commands" out '^  sub seek '
exits 0 "help takes the name of a group" help dlq
has "help of a group lists its commands" out '^  dlq retry '

# --- Typos ---
exits 2 "a mistyped command is refused" pubish
has "the refusal of a mistyped command suggests the right one" err "did you mean 'publish'"
exits 2 "a mistyped command of a group is refused" sub lst
has "the refusal of a mistyped command of a group suggests the right one" \
    err "did you mean 'sub list'"
exits 2 "a command name of other programs is refused" namespace remove x
has "the refusal of namespace remove suggests namespace rm" err "did you mean 'namespace rm'"
exits 2 "a command name of other programs that is near to none of ours is refused" schedule create x
has "the refusal of schedule create suggests schedule add" err "did you mean 'schedule add'"
for pair in push:publish put:publish consume:work subscribe:work pull:claim reserve:claim \
    log:tail watch:tail backup:copy export:copy queue:sub subscriptions:sub dead-letters:dlq \
    cron:schedule status:stats ps:node fsck:verify health:doctor init:migrate delete:ack \
    extend:touch reject:bury events:event topic:namespace settings:config benchmark:bench \
    peek:tail monitor:top snooze:release requeue:release delay:later job:sub; do
    exits 2 "the foreign word ${pair%:*} is no command" "${pair%:*}"
    has "the refusal of ${pair%:*} suggests ${pair#*:}" \
        err "^holdfast: there is no command .*; did you mean '${pair#*:}'"
done
for words in "dlq replay:retry" "dlq requeue:retry" "dlq delete:purge" "dlq rm:purge" \
    "later rm:cancel" "later delete:cancel" "event abort:cancel" "lease kill:revoke"; do
    # shellcheck disable=SC2086
    exits 2 "the foreign words ${words%:*} are no command" ${words%:*}
    has "the refusal of ${words%:*} suggests ${words#*:}" \
        err "^holdfast: there is no command .*; did you mean '${words%% *} ${words#*:}'"
done
exits 2 "a foreign word that means two commands is refused" consume
has "the refusal of consume suggests work and claim" err "did you mean 'work' or 'claim'\?"
exits 2 "a group without a command is refused" sub
has "the refusal of a group without a command lists its commands" err '^  sub list '
exits 2 "a word that is near to no command is refused" zzzzzz
hasnt "the refusal of a word that is near to no command suggests nothing" err 'did you mean'
exits 2 "an option of another command is refused" stats --follow
exits 2 "a mistyped choice of an option is refused" sub create x --on '*' --from start --mode ordred
has "the refusal of a mistyped choice lists the choices and suggests one" \
    err 'ordered\|shared, not .ordred.; did you mean ordered'
exits 2 "help of a command that does not exist is refused" help nothing
exits 2 "help of a mistyped command is refused" help pubish
has "help of a mistyped command suggests the right one" err "did you mean 'publish'"
exits 2 "help of a mistyped command of a group is refused" help dlq retyr
has "help of a mistyped command of a group suggests its whole name" err "did you mean 'dlq retry'"
exits 2 "help of a mistyped group is refused" help dlqq
has "help of a mistyped group suggests the right one" err "did you mean 'dlq'"
exits 2 "a --db-timeout above its limit is refused" stats --db-timeout 2d
has "the refusal of --db-timeout names its limits" \
    err '--db-timeout takes a time .* from 1ms to 1d, not .2d.'
exits 2 "an option without its value is refused" tail --limit
has "the refusal of an option without its value names it" err '--limit N'
exits 2 "a value for a flag is refused" tail --follow=yes
exits 2 "a number with a letter is refused" tail --limit 5x
has "the refusal of a number names its limits" err 'a whole number from 0'
exits 2 "a duration without a unit is refused" claim s --wait 5
has "the refusal of a duration gives examples with units" err '250ms, 30s, 5m'
exits 2 "tail --from refuses a word that is no place of the log" tail --from yesterday
exits 2 "an unknown letter of an option is refused" tail -z
exits 2 "a missing word is refused" sub show
has "the refusal of a missing word names it as the usage does" err 'SUB is missing'
has "the refusal of a missing word names the help to read" err "Try 'holdfast sub show --help'"

# --- Completion ---
exits 2 "completion refuses a shell that it does not know" completion tcsh
for shell in bash zsh fish; do
    exits 0 "completion prints a script for $shell" completion $shell
    cp out completion.$shell
done
true_that "the completion script is valid bash" bash -n completion.bash
complete_line() { # WORDS...: what bash would offer for the last word
    PATH=${HOLDFAST%/*}:$PATH bash -c 'source "$1"; shift
        COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        IFS=" :" read -ra COMP_WORDS <<<"$COMP_LINE"; [ -n "${!#}" ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _holdfast
        printf "%s\n" "${COMPREPLY[@]}"' _ completion.bash "$@"
}
is "bash completes the name of a command" "$(complete_line holdfast pub)" publish
is "bash completes the command of a group" "$(complete_line holdfast sub se)" seek
is "bash completes the name of an option" "$(complete_line holdfast publish --exp)" --expect-version
is "bash completes a command after options with values" \
    "$(complete_line holdfast --db x.db sub sh)" show
is "bash completes a choice of an option" "$(complete_line holdfast work s --mode sh)" shared
is "bash completes the shells of completion" "$(complete_line holdfast completion f)" fish
for command in "sub create mailer --on x" "sub create main --on x" "sub create other --on y"; do
    # shellcheck disable=SC2086
    hf $command --from now
done
hf namespace create shop
hf schedule add nightly '0 3 * * *' night.fell
is "bash completes names of subscriptions" \
    "$(complete_line holdfast sub show ma | sort | paste -sd' ')" \
    'mailer main'
is "bash offers all subscriptions if nothing is typed" \
    "$(complete_line holdfast claim '' | wc -l)" 3
is "bash completes subscriptions of the database that --db names" \
    "$(HOLDFAST_URL=sqlite:none.db complete_line holdfast --db sqlite:bus.db sub pause ot)" other
is "bash completes names of schedules" "$(complete_line holdfast schedule show n)" nightly
is "bash completes names of namespaces" "$(complete_line holdfast namespace show s)" shop
is "bash completes the namespace of --namespace" \
    "$(complete_line holdfast stats --namespace s)" shop
is "bash offers all namespaces for --namespace if nothing is typed" \
    "$(complete_line holdfast stats --namespace '' | sort | paste -sd' ')" 'default shop'
is "bash completes namespaces of the database that --db= names" \
    "$(HOLDFAST_URL=sqlite:none.db complete_line holdfast stats --db=bus.db --namespace '' |
        sort | paste -sd' ')" 'default shop'
is "bash completes the subscription of --subscription" \
    "$(complete_line holdfast dlq list --subscription o)" other
is "bash completes no names if the database does not exist" \
    "$(HOLDFAST_URL=sqlite:none.db complete_line holdfast sub show '' 2>&1)" ''
true_that "completion of names does not make a database" test ! -e none.db
exits 0 "names lists subscriptions for scripts" names subscriptions
is "names prints one name per line" "$(sort out | paste -sd' ')" 'mailer main other'
exits 0 "names takes the option --json" names namespaces --json
json "names --json prints JSON objects" out
exits 2 "names refuses an unknown kind of names" names people

# --- JSON ---
exits 0 "help takes the option --json" help --json
json "help --json prints JSON objects" out
is "help --json describes every command" "$(wc -l <out)" "$(wc -l <commands)"
exits 0 "help COMMAND takes the option --json" help work --json
has "help COMMAND --json lists the options of the command" out '"name":"exec"'
exits 0 "help GROUP takes the option --json" help dlq --json
is "help dlq --json lists the six commands of the group" "$(wc -l <out)" 6
exits 2 "completion refuses the option --json" completion bash --json
exits 2 "migrate --print refuses the option --json" migrate --print --json
echo 'subscriptions: [{nam: x}]' >bad.yaml
exits 2 "config check --json refuses a bad file" config check bad.yaml --json
json "config check --json prints mistakes as JSON objects on stderr" err
is "config check --json prints an object with the mistakes and their places" \
    "$(field out 1 '$.file') $(field out 1 '$.problems[#-1].line') $(field out 1 \
        '$.problems[#-1].column') $(field out 1 '$.problems[#-1].message' | cut -c 1-45)" \
    'bad.yaml 1 18 subscriptions[0].nam: there is no such key; d'
is "config check --json does not know how many subscriptions a bad file has" \
    "$(grep -o '"subscriptions":[^,]*' out)" '"subscriptions":null'
{ echo subscriptions: && printf -- '- {name: s%s, on: x, from: now}\n' {1..14}; } >many.yaml
hf config check many.yaml --json
is "config check --json prints ten mistakes, and how many others there are" "$(field out 1 \
    '$.problems[#-1].line') $(field out 1 '$.problems_more')" '11 4'
exits 2 "config check --json refuses a file that is not there" config check never.yaml --json
is "config check --json prints no object about a file that it cannot read" "$(cat out)" ''
if command -v zsh >/dev/null; then
    true_that "the completion script is valid zsh" zsh -n completion.zsh
fi
if command -v fish >/dev/null; then
    true_that "the completion script is valid fish" fish -n completion.fish
fi

hf help work
hasnt "no line of a help ends with a blank" out ' $'

finish
