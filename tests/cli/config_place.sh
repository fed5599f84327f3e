#!/usr/bin/env bash
# Which database a command works on: option, environment, holdfast.yaml, default; and who says so.
. "$(dirname "$0")/lib.sh"

named=$HOLDFAST_URL
other=$(empty other)
unset HOLDFAST_URL
cat >holdfast.yaml <<END
database:
  url: '$named'
  namespace: shop
subscriptions:
  - name: mailer
    on: user.*
    from: start
    handler: {exec: 'echo "mail \$HOLDFAST_KEY"'}
END

# --- The file says where ---
exits 0 "publish reads the url and the namespace of holdfast.yaml" publish user.created --key ann
is "without a word about it" "$(cat err)" ''
exits 0 "and work gets the event" work --until-empty
is "it was the same database" "$(cat out)" 'mail ann'
hf tail --json --from start
is "tail reads it" "$(wc -l <out)" 1
hf sub list --json
is "sub list, too" "$(field out 1 '$.name')" mailer
exits 0 "and so does work with a command" work other --on 'user.*' --from start --exec true \
    --until-empty
has "which names it" err 'Working for other on .*, namespace shop\.'
true_that "no database was made beside it" test ! -e holdfast.db

# --- Who wins, and that it is said ---
exits 0 "an option wins" publish user.created --db "$other"
has "and a line says so" err '^holdfast\.yaml:2: not used: .*; --db is '
export HOLDFAST_URL=$other
exits 0 "so does the environment" publish user.created
# shellcheck disable=SC2016
has "with a line, too" err '^holdfast\.yaml:2: not used: .*; \$HOLDFAST_URL is '
exits 0 "which --quiet leaves out" publish user.created --quiet
is "as all messages" "$(cat err)" ''
export HOLDFAST_URL=$named
exits 0 "the same url is no difference" publish user.created
is "and nothing is said" "$(cat err)" ''
unset HOLDFAST_URL
exits 0 "another namespace" publish user.created --namespace else
has "is said" err '^holdfast\.yaml:3: not used: shop; --namespace is else\.$'
hf config show --origin --json
is "config show says whose word counts" "$(grep -c '"key":"database.url".*"origin":"file"' out)" 1
has "for the namespace, too" out \
    '"key":"database.namespace".*"value":"shop","origin":"file","file":"holdfast.yaml","line":3'
hf config show --origin --json --db "$other"
has "also if an option wins" out '"key":"database.url".*"origin":"flag"'

# --- A file that cannot be read ---
cp holdfast.yaml good.yaml
sed -i 's/on: user/onn: user/' holdfast.yaml
exits 0 "mistakes in other sections do not keep publish from working" publish user.created
sed -i 's/url:/ulr:/' holdfast.yaml
exits 2 "a mistake in its own section does" publish user.created
has "with file and line" err \
    'holdfast\.yaml:2:3: database\.ulr: there is no such key; did you mean url'
true_that "and no other database is used" test ! -e holdfast.db
exits 0 "work --config names another file" work --config good.yaml --until-empty
exits 0 "commands without a database do not read it" version
mv good.yaml holdfast.yaml
printf 'database: {url: "%s"}\n' "$named" >holdfast.yaml
exits 0 "a file may name the database alone" publish user.created
rm holdfast.yaml
exits 0 "without a file config show tells the database" config show --origin --db "$named"
has "and whose word it is" out '^database\.url .*flag --db'
hasnt "and no more" out '^retention'

finish
