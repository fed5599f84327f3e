#!/usr/bin/env bash
# top: a live view at a terminal of 80 columns, and what it is without one.
. "$(dirname "$0")/lib.sh"

long=a-subscription-whose-name-is-long-enough-to-be-cut
hf sub create $long --on '**' --from start
hf sub create mailer --on 'mail.*' --mode shared --from start
for n in 1 2 3; do
    hf publish mail.sent "{\"n\": $n}"
done

# --- Without a terminal ---
exits 0 "without a terminal it prints one look" top
hasnt "without codes" out "$(printf '\033')"
has "with what waits" out '^head 3, .* events/s, [0-9]+ nodes?, oldest waiting [0-9]'
has "and a row for each" out '^mailer +[a-z ]+ +3 +[0-9]+m?s? '
is "it fits 80 columns" "$(($(wc -L <out) <= 80))" 1
exits 0 "as often as it is told" top --count 3 --interval 100ms --json
json "as JSON" out
is "that often" "$(wc -l <out)" 3
exits 2 "not more often than that" top --interval 1ms
TERM=dumb exits 0 "a terminal that can do nothing is none" top

if ! command -v tmux >/dev/null; then
    skip "at a terminal" "tmux is not installed"
    finish
fi

# --- At a terminal ---
tm() { tmux -S "$work/tmux" -f /dev/null "$@"; }
screen() { tm capture-pane -p -t top >screen; }
shows() { screen && grep -Eq -- "$1" screen; }
type_keys() { tm send-keys -t top "$@"; }
trap 'tm kill-server 2>/dev/null; leave; rm -rf "$work"' EXIT
tm new-session -d -s top -x 80 -y 20 "PS1='prompt> ' NO_COLOR=1 sh"
until_true 60 shows 'prompt>'
type_keys "'$HOLDFAST' top --interval 200ms" Enter
until_true 60 shows '^SUBSCRIPTION '
is "the screen has a row for a subscription" "$(grep -c '^mailer ' screen)" 1
has "names are cut, numbers are not" screen '^a-subscription-whose-n…  [a-z ]+ +3 '
has "the keys are named" screen '^q: end$'
hasnt "the shell's line is not on it" screen 'prompt>'
hf publish mail.sent '{"n": 4}'
until_true 60 shows '^mailer +[a-z ]+ +4 '
has "what comes is shown" screen '^mailer +[a-z ]+ +4 '
tm resize-window -t top -x 100 -y 20
until_true 60 shows '^a-subscription-whose-name-is-long'
has "a wider terminal shows more of a name" screen '^a-subscription-whose-name-is-long'
tm resize-window -t top -x 80 -y 20
type_keys x
type_keys q
until_true 60 shows 'prompt>'
hasnt "q ends it, and the screen is as it was" screen '^SUBSCRIPTION '
type_keys 'stty -a | grep -o "[-]*icanon\|[-]*echo$\|[-]*echo "' Enter
until_true 60 shows '^icanon'
hasnt "the terminal is as it was" screen '^-(icanon|echo)'

# gives_back HOW: starts it, ends it with a command in another shell, and looks at the terminal.
gives_back() {
    local signal=$1
    type_keys 'clear' Enter
    type_keys "'$HOLDFAST' top --interval 200ms; echo ended" Enter
    until_true 60 shows '^SUBSCRIPTION '
    pid=$(pgrep -P "$(tm display-message -p -t top "#{pane_pid}")" -x holdfast)
    kill "-$signal" "$pid"
    until_true 60 shows '^ended'
    type_keys 'stty -a | grep -o "[-]*icanon"' Enter
    until_true 60 shows '^-?icanon'
}
for signal in INT TERM HUP QUIT; do
    gives_back $signal
    hasnt "SIG$signal gives the terminal back" screen '^-icanon'
done

# --- Ctrl-Z, and more rows than there is room for ---
type_keys 'clear' Enter
for n in 1 2 3 4 5 6 7 8 9; do
    hf sub create "s$n" --on "s$n" --from now
done
tm resize-window -t top -x 80 -y 12
tm kill-session -t top
tm new-session -d -s top -x 80 -y 12 "PS1='prompt> ' NO_COLOR=1 bash --norc -i"
until_true 60 shows 'prompt>'
type_keys "'$HOLDFAST' top --interval 200ms" Enter
until_true 60 shows 'j, k: 1 to 6 of 11'
has "rows that do not fit are counted" screen 'j, k: 1 to 6 of 11'
type_keys j
until_true 60 shows 'j, k: 2 to 7 of 11'
hasnt "j scrolls" screen '^a-subscription'
type_keys k
until_true 60 shows 'j, k: 1 to 6 of 11'
type_keys C-z
until_true 60 shows 'Stopped'
hasnt "Ctrl-Z gives the terminal back" screen '^SUBSCRIPTION '
type_keys fg Enter
until_true 60 shows '^SUBSCRIPTION '
has "and it goes on where it was" screen 'j, k: 1 to 6 of 11'
for n in 1 2 3 4 5; do
    type_keys j
done
until_true 60 shows 'j, k: 6 to 11 of 11'
tm resize-window -t top -x 80 -y 24
until_true 60 shows '^q: end$'
has "a higher terminal shows what was scrolled past" screen '^a-subscription'
hasnt "and counts nothing" screen 'j, k:'
type_keys q
until_true 60 shows 'prompt> *$'
is "then it ends" "$(grep -c '^SUBSCRIPTION ' screen)" 0

# --- A narrow terminal ---
tm kill-session -t top
hf claim mailer --max 1 --json
hf bury mailer "$(field out 1 '$.lease')"
tm new-session -d -s top -x 40 -y 24 "env -u NO_COLOR PS1='prompt> ' sh"
until_true 60 shows 'prompt>'
tm pipe-pane -t top "cat >'$work/raw'"
type_keys "'$HOLDFAST' top --interval 200ms" Enter
until_true 60 shows '^q: end'
has "a narrow terminal has the columns that fit" screen '^SUBSCRIPTION +STATE +PENDING +DEAD$'
has "numbers are not cut" screen '^mailer +[a-z ]+ +3 +1$'
true_that "dead letters are red" grep -aqP '\033\[31m +1\033\[0m' raw
true_that "and so is a subscription that does not move" grep -aqP '\033\[31mnot moving' raw
is "each subscription has one row" \
    "$(sed -n '/^SUBSCRIPTION/,/^q: end/p' screen | grep -c .)" 13
has "long lines are cut" screen '^head 4, .*…$'
# A terminal that has written its last column clears that one when it clears the rest of the line.
# tmux does not, xterm and the console do.
is "no line is cleared behind its text" "$(grep -acP '[^\n]\033\[K\r' raw)" 0
tm resize-window -t top -x 15 -y 24
until_true 60 shows '^holdfast top:…$'
has "a terminal of 15 columns has the names" screen '^mailer *$'
type_keys q
until_true 60 shows 'prompt>'
tm kill-server

# --- Large numbers ---
if on sqlite; then
    fresh
    name=a-name-of-30-characters-at-last
    hf sub create $name --on 'x' --mode shared --from start
    seq 100000 | sed 's/.*/{"type":"x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
    for n in 1 2 3 4 5 6 7 8 9 10; do
        hf claim $name --max 10000 --json
        hf nack $name "$(sed -n '1s/.*"lease":"\([0-9a-f]*\)".*/\1/p' out)" --delay 1h
    done
    exits 0 "numbers of six digits" top
    has "are shown" out '^a-name-of-30.*… .* 100000 +0$'
    is "and take their room from the name" "$(($(wc -L <out) <= 80))" 1
fi
finish
