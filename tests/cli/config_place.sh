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
exits 0 "publish reads url and namespace of holdfast.yaml" publish user.created --key ann
is "publish with holdfast.yaml prints nothing on stderr" "$(cat err)" ''
exits 0 "work reads url and namespace of holdfast.yaml" work --until-empty
is "work gets the event that publish put into the database of the file" "$(cat out)" 'mail ann'
hf tail --json --from start
is "tail reads the database of holdfast.yaml" "$(wc -l <out)" 1
hf sub list --json
is "sub list reads the database of holdfast.yaml" "$(field out 1 '$.name')" mailer
exits 0 "work --exec reads the database of holdfast.yaml" \
    work other --on 'user.*' --from start --exec true \
    --until-empty
has "work --exec prints database and namespace of holdfast.yaml" \
    err 'Working for other on .*, namespace shop\.'
true_that "no command makes the default database beside holdfast.yaml" test ! -e holdfast.db

# --- Who wins, and that it is said ---
exits 0 "publish takes --db beside holdfast.yaml" publish user.created --db "$other"
has "publish says that --db wins over the url of holdfast.yaml" \
    err '^holdfast\.yaml:2: not used: .*; --db is '
export HOLDFAST_URL=$other
exits 0 "publish takes HOLDFAST_URL beside holdfast.yaml" publish user.created
# shellcheck disable=SC2016
has "publish says that HOLDFAST_URL wins over the url of holdfast.yaml" \
    err '^holdfast\.yaml:2: not used: .*; \$HOLDFAST_URL is '
exits 0 "publish takes --quiet together with HOLDFAST_URL" publish user.created --quiet
is "publish --quiet does not say which url wins" "$(cat err)" ''
export HOLDFAST_URL=$named
exits 0 "publish takes a HOLDFAST_URL that is the url of the file" publish user.created
is "publish says nothing if HOLDFAST_URL is the url of the file" "$(cat err)" ''
unset HOLDFAST_URL
exits 0 "publish takes --namespace beside holdfast.yaml" publish user.created --namespace else
has "publish says that --namespace wins over the namespace of holdfast.yaml" \
    err '^holdfast\.yaml:3: not used: shop; --namespace is else\.$'
hf config show --origin --json
is "config show says that the url is that of the file" \
    "$(grep -c '"key":"database.url".*"origin":"file"' out)" 1
has "config show says that the namespace is that of the file" out \
    '"key":"database.namespace".*"value":"shop","origin":"file","file":"holdfast.yaml","line":3'
hf config show --origin --json --db "$other"
has "config show says that the url is that of the flag" out '"key":"database.url".*"origin":"flag"'

# --- A file that cannot be read ---
cp holdfast.yaml good.yaml
sed -i 's/on: user/onn: user/' holdfast.yaml
exits 0 "publish succeeds with mistakes in other sections of holdfast.yaml" publish user.created
sed 's/^database:/databse:/' good.yaml >holdfast.yaml
exits 2 "publish refuses a file with a misspelt section" publish user.created
has "the misspelt section is named with what was meant" err \
    'holdfast\.yaml:1:1: databse: there is no such key; did you mean database\?'
printf 'url: sqlite:here.db\n' | cat - good.yaml >holdfast.yaml
exits 2 "publish refuses a key of the section database that stands outside" publish user.created
has "the key is named with where it belongs" err \
    'holdfast\.yaml:1:1: url: there is no such key; did you mean database\.url\?'
true_that "a file with mistakes makes no database" test ! -e holdfast.db -a ! -e here.db
sed 's/on: user/onn: user/' good.yaml >holdfast.yaml
sed -i 's/url:/ulr:/' holdfast.yaml
exits 2 "publish refuses a mistake in the section database of holdfast.yaml" publish user.created
has "the refusal of publish names file, line and the right key" err \
    'holdfast\.yaml:2:3: database\.ulr: there is no such key; did you mean url'
true_that "publish with a mistake in holdfast.yaml uses no other database" test ! -e holdfast.db
exits 0 "work --config reads another file instead of holdfast.yaml" \
    work --config good.yaml --until-empty
exits 0 "version does not read holdfast.yaml" version
mv good.yaml holdfast.yaml
printf 'database: {url: "%s"}\n' "$named" >holdfast.yaml
exits 0 "publish takes a holdfast.yaml that has only the database" publish user.created
rm holdfast.yaml
exits 0 "config show succeeds without a file" config show --origin --db "$named"
has "config show without a file says that the url is that of the flag" \
    out '^database\.url .*flag --db'
hasnt "config show without a file prints no retention" out '^retention'

finish
