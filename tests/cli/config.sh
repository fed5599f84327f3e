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
exits 0 "work without a word takes holdfast.yaml of the current directory" work --until-empty
has "work with a file runs the handler of the first subscription" out '^mailer user\.created$'
has "work passes a handler that is a list to the program word by word" out \
    "^ledger order\.paid it's \\\$HOME \"x\"\$"
has "work prints how many subscriptions of the file it works for" \
    err 'Working for 2 subscriptions of holdfast\.yaml'
exits 0 "work makes the subscriptions of the file" sub show ledger "${db[@]}" --json
is "a subscription has the options that the file gives it" \
    "$(field out 1 '$.options.concurrency') $(field out 1 '$.options.attempts_max')" "2 2"
is "a subscription has the patterns that the file gives it" \
    "$(field out 1 '$.patterns')" '["order.placed","order.paid"]'
hf publish "${db[@]}" user.left
hf publish "${db[@]}" order.placed
mv holdfast.yaml shop.yaml
exits 0 "work NAME --config FILE takes one subscription of the file" \
    work mailer --config shop.yaml --until-empty
has "work NAME --config FILE runs the handler of that subscription" out '^mailer user\.left$'
hasnt "work NAME --config FILE runs no other handler of the file" out ledger
exits 0 "work --config takes several subscriptions of the file" \
    work ledger mailer --config shop.yaml --until-empty
has "work with several names runs their handlers" out '^ledger order\.placed'
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
exits 0 "work --until-empty succeeds with a handler that publishes" \
    work --config chain.yaml --until-empty
has "work --until-empty waits for what handlers publish for other subscriptions" \
    out '^second got chain\.made$'
exits 2 "work without a file and without a word is refused" work --until-empty
has "the refusal of work names both ways to call it" \
    err 'SUB is missing: .*--config FILE, or holdfast\.yaml'
exits 2 "work --config refuses a file that does not exist" work --config none.yaml
has "the refusal of work --config names the missing file" err 'none\.yaml'
exits 2 "work refuses a subscription that the file does not have" work malier --config shop.yaml
has "the refusal of an unknown subscription suggests a name of the file" \
    err "shop\.yaml has no subscription 'malier'; did you mean mailer\?"
exits 2 "work refuses a subscription that is named twice" work mailer mailer --config shop.yaml
exits 2 "work refuses --exec for several subscriptions" work --config shop.yaml --exec true
exits 2 "work refuses several subscriptions without a file" work mailer ledger --exec true
hf publish "${db[@]}" user.back
exits 0 "work takes --exec for one subscription of a file" work mailer --config shop.yaml \
    --until-empty --exec 'echo other'
has "work --exec replaces the command of the file" out '^other$'

{ echo subscriptions: && for i in 1 2 3 4 5; do
    echo "- {name: s$i, on: x, from: now, handler: {exec: 'true'}}"; done; } >five.yaml
exits 2 "work --concurrency cannot raise the number of commands above the limit" \
    work --config five.yaml --concurrency 256
has "the refusal of --concurrency names the limit of 1024 commands" \
    err 'more than 1024 commands could run at once'
exits 0 "work of one subscription may have a concurrency of 256" \
    work s1 --config five.yaml --concurrency 256 \
    --until-empty "${db[@]}"

# --- The file is the whole truth ---
sed -i 's/concurrency: 2/batch: 9/; s/\[order.placed, order.paid\]/order.*/' shop.yaml
hf work ledger --config shop.yaml --until-empty
hf sub show ledger "${db[@]}" --json
is "an option that the file does not have any more goes back to its default" \
    "$(field out 1 '$.options.concurrency') $(field out 1 '$.options.batch')" "1 9"
is "a subscription has the patterns that the changed file gives it" \
    "$(field out 1 '$.patterns')" '["order.*"]'
hf work ledger --config shop.yaml --until-empty --batch 11 --retries 5
hf sub show ledger "${db[@]}" --json
is "flags of work override the options of the file" \
    "$(field out 1 '$.options.batch') $(field out 1 '$.options.attempts_max')" "11 6"
sed 's/batch: 9/mode: shared/' shop.yaml >shared.yaml
exits 4 "work exits with a conflict if the file changes what cannot be changed" \
    work ledger --config shared.yaml --until-empty
has "the conflict names file, line and subscription" err 'shared\.yaml:8: subscription ledger: '
hf sub create tx "${db[@]}" --on 'user.*' --from start --transactional on
sed 's/name: mailer/name: tx/' shop.yaml >tx.yaml
exits 2 "work refuses a file that names a transactional subscription" \
    work tx --config tx.yaml --until-empty
has "the refusal says that a command cannot be transactional" err 'which a command cannot'

# --- check ---
exits 0 "config check accepts a good file" config check shop.yaml
has "config check says that the file is good, and how many subscriptions it has" \
    err 'shop\.yaml is good: 2 subscriptions'
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
exits 2 "config check refuses a bad file" config check bad.yaml
has "config check tells of an unknown key its place, a suggestion and the allowed keys" err \
    '^holdfast: bad\.yaml:2:3: database\.ulr: there is no such key; did you mean url\? \(allowed: '
has "config check names the limits of a value that is out of them" err \
    'bad\.yaml:7:12: subscriptions\[0\]\.batch takes a whole number from 1 to 10000, not .0.'
has "config check names both lines of a key that is given twice" err \
    "bad\.yaml:8:5: the key 'batch' is here for the second time; the first is in line 7"
has "config check suggests a name for an unknown key inside of another key" err \
    'bad\.yaml:9:13: subscriptions\[0\]\.retry\.bsae: .*did you mean base'
has "config check refuses the option transactional for a command" err \
    'bad\.yaml:10:5: subscriptions\[0\]\.transactional is not for commands'
has "config check refuses a webhook URL that is neither http nor https" err \
    'bad\.yaml:11:21: subscriptions\[0\]\.handler\.http: .* begins with https:// or http://'
has "config check refuses a secret that is written into the file" err \
    'bad\.yaml:11:42: subscriptions\[0\]\.handler\.secret is not allowed'
has "config check names a key that is missing" \
    err 'bad\.yaml:12:5: subscriptions\[1\]\.handler is missing'
is "config check prints all eight mistakes of a file at once" "$(grep -c bad.yaml err)" 8
exits 2 "work refuses a bad file" work --config bad.yaml
is "work prints the same eight mistakes as config check" "$(grep -c bad.yaml err)" 8
{ cat shop.yaml; for i in $(seq 20); do echo "    wrong$i: 1"; done; } >many.yaml
exits 2 "config check refuses a file with twenty mistakes" config check many.yaml
is "config check prints the first ten mistakes" "$(grep -c '^holdfast: many' err)" 10
has "config check prints how many other mistakes there are" err 'and 10 more mistakes'
printf 'a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nsubscriptions: [*c,*c]\n' >laughs.yaml
exits 2 "config check refuses anchors and aliases" config check laughs.yaml
has "the refusal of an anchor names it" err 'anchors \(&a\) and aliases are not allowed'
printf 'subscriptions:\n- {name: a, on: *, from: now, handler: {exec: x}}\n' >star.yaml
exits 2 "config check refuses a star without quotes" config check star.yaml
has "the refusal of a star shows it with quotes" err "star\.yaml:2:.*needs quotes: '\*'"
printf 'database:\n\turl: x\n' >tab.yaml
exits 2 "config check refuses a tab" config check tab.yaml
has "the refusal of a tab names its line and column" err 'tab\.yaml:2:1: there is a tab'
printf 'a: \033[31m\n' >escape.yaml
exits 2 "config check refuses control characters" config check escape.yaml
hasnt "config check does not print control characters of the file" err "$(printf '\033')"
head -c 300000 /dev/zero | tr '\0' '#' >huge.yaml
exits 2 "config check refuses a file of 300,000 bytes" config check huge.yaml
exits 2 "config check refuses a directory" config check .
"$HOLDFAST" config check - <shop.yaml >out 2>err
is "config check - reads the file from stdin" "$?" 0
sed 's/^  url: .*/  url: sqlite:never.db/' shop.yaml >never.yaml
hf config check never.yaml
hf config show --config never.yaml
true_that "config check and config show open no database" test ! -e never.db

# --- show and precedence ---
exits 0 "config show --origin succeeds" config show --config shop.yaml --origin
has "config show --origin prints a value of the file with its line" \
    out '^database\.url +[^ ]+ +shop\.yaml:2$'
has "config show --origin prints the default of an option that is set nowhere" out \
    '^subscriptions\.mailer\.retry\.base +1s +default$'
HOLDFAST_URL=sqlite:env.db hf config show --config shop.yaml --origin
has "HOLDFAST_URL wins over the url of the file" out \
    '^database\.url +sqlite:env\.db +environment HOLDFAST_URL$'
HOLDFAST_URL=sqlite:env.db hf config show --config shop.yaml --origin --db sqlite:flag.db \
    --batch 3 --retries 1
has "the flag --db wins over HOLDFAST_URL" out '^database\.url +sqlite:flag\.db +flag --db$'
has "config show applies the flag --batch to a subscription" \
    out '^subscriptions\.ledger\.batch +3 +flag --batch$'
has "config show applies the flag --retries to retry.attempts" \
    out '^subscriptions\.ledger\.retry\.attempts +2 +flag --retries$'
exits 0 "config show takes the name of a subscription" \
    config show ledger --config shop.yaml --origin --json
json "config show --json prints JSON objects" out
hasnt "config show NAME leaves out other subscriptions" out mailer
is "config show --origin --json has origin and line in fields of their own" \
    "$(grep '"path":"batch"' out >one; field one 1 '$.origin') $(field one 1 '$.line')" "file 11"
hf config show --config shop.yaml
hasnt "config show without --origin prints no origins" out 'shop\.yaml|1s +default$'
(HOLDFAST_URL=sqlite:env.db && export HOLDFAST_URL &&
    "$HOLDFAST" work mailer --config shop.yaml --until-empty) >out 2>err
true_that "work opens the database that config show shows" test -e env.db

# --- Secrets ---
secret='hunter2"/@:%&'
printf '%s\n' "$secret" >password
printf 'sqlite:secret.db\n' >url
sed 's/^  url: .*/  url_file: url/' shop.yaml >url_file.yaml
exits 0 "work takes the url from the file of url_file" \
    work mailer --config url_file.yaml --until-empty
true_that "work opens the database that the file of url_file names" test -e secret.db
hf config show --config url_file.yaml --origin
hasnt "config show does not print the contents of url_file" out secret.db
has "config show prints the path of url_file" out '^database\.url_file +url +url_file\.yaml:2$'
sed 's/url_file: url/url_file: no-such-file/' url_file.yaml >missing.yaml
exits 2 "work refuses a url_file that does not exist" work --config missing.yaml
has "the refusal of a missing url_file names the key" err 'database\.url_file'
sed 's|^  url: .*|  url: "postgresql://shop:topsecret@127.0.0.1:1/x?connect_timeout=1"|' \
    shop.yaml >pg.yaml
hf config show --config pg.yaml --origin
has "config show masks the password of a url" out 'postgresql://shop:\*\*\*@127\.0\.0\.1:1/x'
hasnt "config show prints no part of the password of a url" out topsecret
sed -e 's|^  url: .*|  url: "postgresql://shop@127.0.0.1:1/x?connect_timeout=1"|' \
    -e '/^  url: /a\  password_file: password' shop.yaml >pw.yaml
exits 0 "config check does not open the file of password_file" config check pw.yaml
exits 69 "work exits with unavailable if the database cannot be reached" \
    work --config pw.yaml --db-timeout 1s
hasnt "the error of an unreachable database does not have the password" err 'hunter|%68%75'
hf config show --config pw.yaml --origin --json
hasnt "config show does not print the contents of password_file" out 'hunter|%68'
: >password
exits 2 "work refuses an empty password_file" work --config pw.yaml
has "the refusal of an empty password_file names the key" \
    err 'database\.password_file: password is empty'
printf 'a\nb\n' >password
exits 2 "work refuses a password_file of two lines" work --config pw.yaml
hf publish "${db[@]}" user.last
exits 0 "work with --db ignores a bad password_file" work mailer --config pw.yaml \
    "${db[@]}" --until-empty
has "work with --db handles events without the password of the file" out '^mailer user\.last$'

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
is "work exits with 0 after SIGTERM" "$?" 0
has "SIGTERM lets the command of the first subscription finish" out '^one ends$'
has "SIGTERM lets the command of the second subscription finish" out '^two ends$'
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
is "a second SIGTERM ends work at once" "$?" 143
until_true 60 gone one.pid
is "a second SIGTERM ends the command of the first subscription" "$?" 0
until_true 60 gone two.pid
is "a second SIGTERM ends the command of the second subscription" "$?" 0
sed -i 's/trap "" TERM; while :; do sleep 0.1; done;//' signals.yaml
exits 0 "work starts again after a second SIGTERM" \
    work --config signals.yaml --until-empty --max-time 60s
has "the interrupted event of the first subscription comes again" out '^one ends$'
has "the interrupted event of the second subscription comes again" out '^two ends$'

# --- What the file cannot mean ---
# refused WANTED OPTIONS [COMMAND]: check, and work, too, refuse a subscription with these options.
refused() {
    printf 'subscriptions:\n  - {name: odd, on: odd.*, from: start, %s, handler: {exec: %s}}\n' \
        "$2" "${3:-cat}" >odd.yaml
    exits 2 "config check refuses ${2:-} ${3:-}" config check odd.yaml
    has "config check says why it refuses ${2:-} ${3:-}" err "odd\.yaml:2:.*$1"
    exits 2 "work refuses ${2:-} ${3:-}" work --config odd.yaml "${db[@]}" --until-empty
}
refused 'handler\.exec is empty' 'batch: 1' '""'
refused 'handler\.exec is empty' 'batch: 1' '["", x]'
refused 'partitions: a shared subscription has 1' 'mode: shared, partitions: 4'
refused 'in strict order there can only be 1' 'order: strict, partitions: 4'
refused 'a shared subscription has no order' 'order: strict, mode: shared'
refused 'split does not go with' 'on_poison: block_key, on_batch_failure: split'
refused 'a shared subscription has no order of keys' 'mode: shared, on_poison: block_key'
exits 3 "work with a refused file makes no subscription" sub show odd "${db[@]}"
exits 2 "work refuses an empty --exec" work odd \
    "${db[@]}" --on 'odd.*' --from start --exec ' '
has "the refusal of an empty --exec says that it would settle every event" \
    err '--exec is empty, which would settle every event'

finish
