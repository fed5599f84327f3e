#!/usr/bin/env bash
# The configuration file: work --config, config check, config show, precedence, secrets, signals.
. "$(dirname "$0")/lib.sh"
bus=$HOLDFAST_URL
unset HOLDFAST_URL

# The url of the database in place of BUS in the files.
with_bus() { sed -i "s|BUS|\"${bus//&/\\&}\"|" "$@"; }

gone() { # FILE: the process whose number is in the file does not run
    local pid
    pid=$(cat "$1")
    [ ! -d "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status"
}
begun() { [ -s "$1" ]; }

# --- One process for all subscriptions ---
cat >holdfast.yaml <<'END'
database:
  url: BUS
subscriptions:
  - name: mailer
    on: user.*
    from: start
    handler: {exec: 'echo "mailer $HOLDFAST_TYPE"'}
  - name: ledger
    on: [order.placed, order.paid]
    from: start
    concurrency: 2
    retry: {attempts: 2, base: 10ms}
    handler:
      exec: [sh, -c, 'echo "ledger $HOLDFAST_TYPE $1 $2"', sh, "it's", '$HOME "x"']
END
with_bus holdfast.yaml
db=(--db "$bus")
hf publish "${db[@]}" user.created
hf publish "${db[@]}" order.paid
exits 0 "work without a word takes holdfast.yaml" work --until-empty
has "one subscription works" out '^mailer user\.created$'
has "and the other, and its list reaches the program as it is" out \
    "^ledger order\.paid it's \\\$HOME \"x\"\$"
has "it says what it works for" err 'Working for 2 subscriptions of holdfast\.yaml'
exits 0 "the subscriptions are as the file says" sub show ledger "${db[@]}" --json
is "their options" \
    "$(field out 1 '$.options.concurrency') $(field out 1 '$.options.attempts_max')" "2 2"
is "their patterns" "$(field out 1 '$.patterns')" '["order.placed","order.paid"]'
hf publish "${db[@]}" user.left
hf publish "${db[@]}" order.placed
mv holdfast.yaml shop.yaml
exits 0 "one of the file can be named" work mailer --config shop.yaml --until-empty
has "it works" out '^mailer user\.left$'
hasnt "the other does not" out ledger
exits 0 "several can" work ledger mailer --config shop.yaml --until-empty
has "and they work" out '^ledger order\.placed'
cat >chain.yaml <<'END'
database:
  url: BUS
subscriptions:
  - name: second
    on: chain.made
    from: start
    handler: {exec: 'echo "second got $HOLDFAST_TYPE"'}
  - name: first
    on: chain.begun
    from: start
    handler: {exec: 'sleep 1; "$HOLDFAST" publish chain.made --quiet --db "$bus"'}
END
with_bus chain.yaml
hf publish "${db[@]}" chain.begun
export bus
exits 0 "work --until-empty with a handler that publishes" work --config chain.yaml --until-empty
has "--until-empty waits for what handlers publish for others" out '^second got chain\.made$'
exits 2 "without a file and a word work is refused" work --until-empty
has "with both ways to call it" err 'SUB is missing: .*--config FILE, or holdfast\.yaml'
exits 2 "a file that is not there is refused" work --config none.yaml
has "by its name" err 'none\.yaml'
exits 2 "a subscription that the file has not is refused" work malier --config shop.yaml
has "with a suggestion" err "shop\.yaml has no subscription 'malier'; did you mean mailer\?"
exits 2 "one that is named twice is refused" work mailer mailer --config shop.yaml
exits 2 "--exec for several is refused" work --config shop.yaml --exec true
exits 2 "several without a file are refused" work mailer ledger --exec true
hf publish "${db[@]}" user.back
exits 0 "--exec overrides the command of one" work mailer --config shop.yaml \
    --until-empty --exec 'echo other'
has "it runs" out '^other$'

{ echo subscriptions: && for i in 1 2 3 4 5; do
    echo "- {name: s$i, on: x, from: now, handler: {exec: 'true'}}"; done; } >five.yaml
exits 2 "a flag cannot raise the commands above the limit" work --config five.yaml --concurrency 256
has "which is told" err 'more than 1024 commands could run at once'
exits 0 "one of them may have as many" work s1 --config five.yaml --concurrency 256 \
    --until-empty "${db[@]}"

# --- The file is the whole truth ---
sed -i 's/concurrency: 2/batch: 9/; s/\[order.placed, order.paid\]/order.*/' shop.yaml
hf work ledger --config shop.yaml --until-empty
hf sub show ledger "${db[@]}" --json
is "what is not in the file any more is at its default" \
    "$(field out 1 '$.options.concurrency') $(field out 1 '$.options.batch')" "1 9"
is "patterns are those of the file" "$(field out 1 '$.patterns')" '["order.*"]'
hf work ledger --config shop.yaml --until-empty --batch 11 --retries 5
hf sub show ledger "${db[@]}" --json
is "flags override the file" \
    "$(field out 1 '$.options.batch') $(field out 1 '$.options.attempts_max')" "11 6"
sed 's/batch: 9/mode: shared/' shop.yaml >shared.yaml
exits 4 "what cannot be changed is a conflict" work ledger --config shared.yaml --until-empty
has "with file, line and name" err 'shared\.yaml:8: subscription ledger: '
hf sub create tx "${db[@]}" --on 'user.*' --from start --transactional on
sed 's/name: mailer/name: tx/' shop.yaml >tx.yaml
exits 2 "a subscription that is transactional is left alone" work tx --config tx.yaml --until-empty
has "with the reason" err 'which a command cannot'

# --- check ---
exits 0 "a good file is good" config check shop.yaml
has "and it says so" err 'shop\.yaml is good: 2 subscriptions'
cat >bad.yaml <<'END'
database:
  ulr: x
subscriptions:
  - name: a
    on: x.*
    from: start
    batch: 0
    batch: 5
    retry: {bsae: 1s}
    transactional: on
    handler: {http: 'ftp://example.org', secret: x}
  - name: b
    on: x.*
    from: start
    handler: {timeout: 1s}
END
exits 2 "a bad file is refused" config check bad.yaml
has "an unknown key: file, line, column, path, suggestion, what is allowed" err \
    '^holdfast: bad\.yaml:2:3: database\.ulr: there is no such key; did you mean url\? \(allowed: '
has "a value out of its limits" err \
    'bad\.yaml:7:12: subscriptions\[0\]\.batch takes a whole number from 1 to 10000, not .0.'
has "a key given twice" err \
    "bad\.yaml:8:5: the key 'batch' is here for the second time; the first is in line 7"
has "an unknown key inside" err \
    'bad\.yaml:9:13: subscriptions\[0\]\.retry\.bsae: .*did you mean base'
has "what makes no sense for commands" err \
    'bad\.yaml:10:5: subscriptions\[0\]\.transactional is not for commands'
has "a URL that is none of a webhook" err \
    'bad\.yaml:11:21: subscriptions\[0\]\.handler\.http: .* begins with https:// or http://'
has "a secret that is not in a file" err \
    'bad\.yaml:11:42: subscriptions\[0\]\.handler\.secret is not allowed'
has "what is missing" err 'bad\.yaml:12:5: subscriptions\[1\]\.handler is missing'
is "all at once" "$(grep -c bad.yaml err)" 8
exits 2 "work refuses it, too" work --config bad.yaml
is "with the same words" "$(grep -c bad.yaml err)" 8
{ cat shop.yaml; for i in $(seq 20); do echo "    wrong$i: 1"; done; } >many.yaml
exits 2 "of many mistakes" config check many.yaml
is "ten are told" "$(grep -c '^holdfast: many' err)" 10
has "and the others counted" err 'and 10 more mistakes'
printf 'a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nsubscriptions: [*c,*c]\n' >laughs.yaml
exits 2 "anchors and aliases are refused" config check laughs.yaml
has "by name" err 'anchors \(&a\) and aliases are not allowed'
printf 'subscriptions:\n- {name: a, on: *, from: now, handler: {exec: x}}\n' >star.yaml
exits 2 "a star without quotes is refused" config check star.yaml
has "and the quotes are shown" err "star\.yaml:2:.*needs quotes: '\*'"
printf 'database:\n\turl: x\n' >tab.yaml
exits 2 "a tab is refused" config check tab.yaml
has "as a tab" err 'tab\.yaml:2:1: there is a tab'
printf 'a: \033[31m\n' >escape.yaml
exits 2 "control characters are refused" config check escape.yaml
hasnt "and not repeated" err "$(printf '\033')"
head -c 300000 /dev/zero | tr '\0' '#' >huge.yaml
exits 2 "a huge file is refused" config check huge.yaml
exits 2 "a directory is no file" config check .
"$HOLDFAST" config check - <shop.yaml >out 2>err
is "stdin is a file" "$?" 0
sed 's/^  url: .*/  url: sqlite:never.db/' shop.yaml >never.yaml
hf config check never.yaml
hf config show --config never.yaml
true_that "check and show open no database" test ! -e never.db

# --- show and precedence ---
exits 0 "show shows" config show --config shop.yaml --origin
has "what the file says, with its line" out '^database\.url +[^ ]+ +shop\.yaml:2$'
has "an option that is set nowhere has its default" out \
    '^subscriptions\.mailer\.retry\.base +1s +default$'
HOLDFAST_URL=sqlite:env.db hf config show --config shop.yaml --origin
has "the environment wins over the file" out \
    '^database\.url +sqlite:env\.db +environment HOLDFAST_URL$'
HOLDFAST_URL=sqlite:env.db hf config show --config shop.yaml --origin --db sqlite:flag.db \
    --batch 3 --retries 1
has "a flag wins over the environment" out '^database\.url +sqlite:flag\.db +flag --db$'
has "also for a subscription" out '^subscriptions\.ledger\.batch +3 +flag --batch$'
has "also by another name" out '^subscriptions\.ledger\.retry\.attempts +2 +flag --retries$'
exits 0 "show of one subscription" config show ledger --config shop.yaml --origin --json
json "as JSON" out
hasnt "only that one" out mailer
is "with the origin in parts" \
    "$(grep '"path":"batch"' out >one; field one 1 '$.origin') $(field one 1 '$.line')" "file 11"
hf config show --config shop.yaml
hasnt "without --origin there is none" out 'shop\.yaml|1s +default$'
(HOLDFAST_URL=sqlite:env.db && export HOLDFAST_URL &&
    "$HOLDFAST" work mailer --config shop.yaml --until-empty) >out 2>err
true_that "work acts on what show shows" test -e env.db

# --- Secrets ---
secret='hunter2"/@:%&'
printf '%s\n' "$secret" >password
printf 'sqlite:secret.db\n' >url
sed 's/^  url: .*/  url_file: url/' shop.yaml >url_file.yaml
exits 0 "the url can be in a file" work mailer --config url_file.yaml --until-empty
true_that "and is used" test -e secret.db
hf config show --config url_file.yaml --origin
hasnt "and not shown" out secret.db
has "but where it is" out '^database\.url_file +url +url_file\.yaml:2$'
sed 's/url_file: url/url_file: no-such-file/' url_file.yaml >missing.yaml
exits 2 "a file that is missing is told" work --config missing.yaml
has "with the key" err 'database\.url_file'
sed 's|^  url: .*|  url: "postgresql://shop:topsecret@127.0.0.1:1/x?connect_timeout=1"|' \
    shop.yaml >pg.yaml
hf config show --config pg.yaml --origin
has "a password in a url is masked" out 'postgresql://shop:\*\*\*@127\.0\.0\.1:1/x'
hasnt "wholly" out topsecret
sed -e 's|^  url: .*|  url: "postgresql://shop@127.0.0.1:1/x?connect_timeout=1"|' \
    -e '/^  url: /a\  password_file: password' shop.yaml >pw.yaml
exits 0 "a password file is not opened by check" config check pw.yaml
exits 69 "a database that is not there is unavailable" work --config pw.yaml --db-timeout 1s
hasnt "the password is not in the message" err 'hunter|%68%75'
hf config show --config pw.yaml --origin --json
hasnt "nor shown" out 'hunter|%68'
: >password
exits 2 "an empty password file is refused" work --config pw.yaml
has "by its key" err 'database\.password_file: password is empty'
printf 'a\nb\n' >password
exits 2 "one of two lines is refused" work --config pw.yaml
hf publish "${db[@]}" user.last
exits 0 "the file's password is not for the database of a flag" work mailer --config pw.yaml \
    "${db[@]}" --until-empty
has "which works without" out '^mailer user\.last$'

# --- Signals ---
cat >signals.yaml <<'END'
database: {url: BUS, drain: 20s}
subscriptions:
  - name: one
    on: sig.one
    from: now
    handler: {exec: 'echo $$ >one.pid; sleep 1; echo "one ends"'}
  - name: two
    on: sig.two
    from: now
    handler: {exec: 'echo $$ >two.pid; sleep 1; echo "two ends"'}
END
with_bus signals.yaml
hf work --config signals.yaml --until-empty
hf publish "${db[@]}" sig.one
hf publish "${db[@]}" sig.two
"$HOLDFAST" work --config signals.yaml >out 2>err &
pid=$!
until_true 60 begun one.pid && until_true 60 begun two.pid
kill -TERM $pid
wait $pid
is "after SIGTERM work ends well" "$?" 0
has "the commands of one subscription finish" out '^one ends$'
has "and those of the other" out '^two ends$'
sed -i 's/sleep 1;/trap "" TERM; while :; do sleep 0.1; done;/' signals.yaml
rm -f one.pid two.pid
hf publish "${db[@]}" sig.one
hf publish "${db[@]}" sig.two
"$HOLDFAST" work --config signals.yaml >out 2>err &
pid=$!
until_true 60 begun one.pid && until_true 60 begun two.pid
kill -TERM $pid
until_true 60 grep -q Stopping err
sleep 1.1 # an earlier one would count as the first
kill -TERM $pid
wait $pid
is "a second SIGTERM ends it at once" "$?" 143
until_true 60 gone one.pid
is "with its commands" "$?" 0
until_true 60 gone two.pid
is "all of them" "$?" 0
sed -i 's/trap "" TERM; while :; do sleep 0.1; done;//' signals.yaml
exits 0 "their events come again" work --config signals.yaml --until-empty --max-time 60s
has "to one" out '^one ends$'
has "and to the other" out '^two ends$'

# --- What the file cannot mean ---
# refused WANTED OPTIONS [COMMAND]: check, and work, too, refuse a subscription with these options.
refused() {
    printf 'subscriptions:\n  - {name: odd, on: odd.*, from: start, %s, handler: {exec: %s}}\n' \
        "$2" "${3:-cat}" >odd.yaml
    exits 2 "check refuses ${2:-} ${3:-}" config check odd.yaml
    has "and says why" err "odd\.yaml:2:.*$1"
    exits 2 "so does work" work --config odd.yaml "${db[@]}" --until-empty
}
refused 'handler\.exec is empty' 'batch: 1' '""'
refused 'handler\.exec is empty' 'batch: 1' '["", x]'
refused 'partitions: a shared subscription has 1' 'mode: shared, partitions: 4'
refused 'in strict order there can only be 1' 'order: strict, partitions: 4'
refused 'a shared subscription has no order' 'order: strict, mode: shared'
refused 'split does not go with' 'on_poison: block_key, on_batch_failure: split'
refused 'a shared subscription has no order of keys' 'mode: shared, on_poison: block_key'
exits 3 "and makes no such subscription" sub show odd "${db[@]}"
exits 2 "an empty command is refused on the command line, too" work odd \
    "${db[@]}" --on 'odd.*' --from start --exec ' '
has "because it would settle everything" err '--exec is empty, which would settle every event'

finish
