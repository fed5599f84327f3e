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
exits 0 "top without a terminal prints one look and ends" top
hasnt "top without a terminal prints no control codes" out "$(printf '\033')"
has "top prints head, rate, nodes and the oldest waiting event" \
    out '^head 3, .* events/s, [0-9]+ nodes?, oldest waiting [0-9]'
has "top prints a row for each subscription" out '^mailer +[a-z ]+ +3 +[0-9]+m?s? '
is "top without a terminal fits 80 columns" "$(($(wc -L <out) <= 80))" 1
exits 0 "top takes --count, --interval and --json" top --count 3 --interval 100ms --json
json "top --json prints JSON objects" out
is "top --count 3 prints three looks" "$(wc -l <out)" 3
exits 2 "top refuses an interval of 1 ms" top --interval 1ms
TERM=dumb exits 0 "top at a dumb terminal prints one look and ends" top

if ! command -v tmux >/dev/null; then
    skip "claims about top at a terminal" "tmux is not installed"
    finish
fi

# --- At a terminal ---
tm() { tmux -S "$work/tmux" -f /dev/null "$@"; }
screen() { tm capture-pane -p -t top >screen; }
shows() { screen && grep -Eq -- "$1" screen; }
type_keys() { tm send-keys -t top "$@"; }
trap 'tm kill-server 2>/dev/null; leave; rm -rf "$work"' EXIT

# terminal COLUMNS LINES COMMAND: a new one in place of the one before, with its prompt. The server
# of tmux ends with its last session, so the new one is made first.
terminal() {
    tm new-session -d -s next -x "$1" -y "$2" "$3"
    tm kill-session -t top 2>/dev/null
    tm rename-session -t next top
    until_true 60 shows 'prompt>'
}
terminal 80 20 "PS1='prompt> ' NO_COLOR=1 sh"
type_keys "'$HOLDFAST' top --interval 200ms" Enter
until_true 60 shows '^SUBSCRIPTION '
is "top at a terminal has a row for a subscription" "$(grep -c '^mailer ' screen)" 1
has "top cuts long names, but no numbers" screen '^a-subscription-whose-n…  [a-z ]+ +3 '
has "top names its keys in the last line" screen '^q: end$'
hasnt "top does not show the lines of the shell" screen 'prompt>'
hf publish mail.sent '{"n": 4}'
until_true 60 shows '^mailer +[a-z ]+ +4 '
has "top shows the number of an event that has come meanwhile" screen '^mailer +[a-z ]+ +4 '
tm resize-window -t top -x 100 -y 20
until_true 60 shows '^a-subscription-whose-name-is-long'
has "top shows more of a name in a wider terminal" screen '^a-subscription-whose-name-is-long'
tm resize-window -t top -x 80 -y 20
type_keys x
type_keys q
until_true 60 shows 'prompt>'
hasnt "the key q ends top and restores the screen" screen '^SUBSCRIPTION '
type_keys 'stty -a | grep -o "[-]*icanon\|[-]*echo$\|[-]*echo "' Enter
until_true 60 shows '^icanon'
hasnt "top restores the modes of the terminal" screen '^-(icanon|echo)'

# gives_back HOW: starts it, ends it with a command in another shell, and looks at the terminal.
gives_back() {
    local signal=$1
    type_keys 'clear' Enter
    type_keys "'$HOLDFAST' top --interval 200ms; echo ended" Enter
    until_true 60 shows '^SUBSCRIPTION '
    pid=$(pgrep -P "$(tm display-message -p -t top "#{pane_pid}")" -x holdfast)
    kill "-$signal" "$pid"
    until_true 60 shows '^(prompt> )?ended'
    type_keys 'stty -a | grep -o "[-]*icanon"' Enter
    until_true 60 shows '^-?icanon'
}
for signal in INT TERM HUP QUIT; do
    gives_back $signal
    hasnt "SIG$signal ends top, which restores the modes of the terminal" screen '^-icanon'
done

# --- Ctrl-Z, and more rows than there is room for ---
type_keys 'clear' Enter
for n in 1 2 3 4 5 6 7 8 9; do
    hf sub create "s$n" --on "s$n" --from now
done
terminal 80 12 "PS1='prompt> ' NO_COLOR=1 bash --norc -i"
type_keys "'$HOLDFAST' top --interval 200ms" Enter
until_true 60 shows 'j, k: 1 to 6 of 11'
has "top says how many rows do not fit" screen 'j, k: 1 to 6 of 11'
type_keys j
until_true 60 shows 'j, k: 2 to 7 of 11'
hasnt "the key j scrolls the rows of top" screen '^a-subscription'
type_keys k
until_true 60 shows 'j, k: 1 to 6 of 11'
type_keys C-z
until_true 60 shows 'Stopped'
hasnt "Ctrl-Z stops top, which restores the screen" screen '^SUBSCRIPTION '
type_keys fg Enter
until_true 60 shows '^SUBSCRIPTION '
has "top goes on where it was after fg" screen 'j, k: 1 to 6 of 11'
for n in 1 2 3 4 5; do
    type_keys j
done
until_true 60 shows 'j, k: 6 to 11 of 11'
tm resize-window -t top -x 80 -y 24
until_true 60 shows '^q: end$'
has "top shows rows that were scrolled past in a higher terminal" screen '^a-subscription'
hasnt "top does not count rows if all of them fit" screen 'j, k:'
type_keys q
until_true 60 shows 'prompt> *$'
is "the key q ends top after scrolling" "$(grep -c '^SUBSCRIPTION ' screen)" 0

# --- A narrow terminal ---
hf claim mailer --max 1 --json
hf bury mailer "$(field out 1 '$.lease')"
terminal 40 24 "env -u NO_COLOR PS1='prompt> ' sh"
tm pipe-pane -t top "cat >'$work/raw'"
type_keys "'$HOLDFAST' top --interval 200ms" Enter
until_true 60 shows '^q: end'
has "top in a narrow terminal shows the columns that fit" \
    screen '^SUBSCRIPTION +STATE +PENDING +DEAD$'
has "top in a narrow terminal does not cut numbers" screen '^mailer +[a-z ]+ +3 +1$'
true_that "top prints dead letters in red" grep -aqP '\033\[31m +1\033\[0m' raw
true_that "top prints a subscription that does not move in red" grep -aqP '\033\[31mnot moving' raw
is "top in a narrow terminal has one row per subscription" \
    "$(sed -n '/^SUBSCRIPTION/,/^q: end/p' screen | grep -c .)" 13
has "top cuts long lines in a narrow terminal" screen '^head 4, .*…$'
# A terminal that has written its last column clears that one when it clears the rest of the line.
# tmux does not, xterm and the console do.
is "top clears no line behind its text" "$(grep -acP '[^\n]\033\[K\r' raw)" 0
tm resize-window -t top -x 15 -y 24
until_true 60 shows '^holdfast top: …$'
has "top in a terminal of 15 columns shows the names" screen '^mailer *$'
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
    exits 0 "top succeeds with numbers of six digits" top
    has "top prints numbers of six digits whole" out '^a-name-of-30.*… .* 100000 +0$'
    is "numbers of six digits take their room from the name" "$(($(wc -L <out) <= 80))" 1
fi
finish
