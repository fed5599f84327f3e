#!/usr/bin/env bash
# What docs/postgres.md tells to type works, in its order; its grants suffice; and the README's tour
# works on a server, too.
. "$(dirname "$0")/../cli/lib.sh"
page=$root/docs/postgres.md

# Blocks opened by "```sh on postgres" or "```sql on postgres" become files 01.sh, 02.sql ...
awk '/^```/ && inside { inside = 0; close(file); next }
     /^```(sh|sql) on postgres$/ {
         inside = 1
         file = sprintf("%02d.%s", ++count, substr($1, 4))
         next
     }
     inside { print >file }' "$page"
PATH=$(dirname "$HOLDFAST"):$PATH
server 'DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN END $$'
true_that "there are several blocks" test "$(ls ./*.sh ./*.sql | wc -l)" -ge 5
for block in [0-9]*; do
    case $block in
    *.sh) true_that "$(head -1 "$block" | cut -c1-60) ..." sh -eu "$block" ;;
    *.sql) true_that "$(sed -n 2p "$block" | cut -c1-60) ..." psql -qX -v ON_ERROR_STOP=1 "$HOLDFAST_URL" -f "$block" ;;
    esac
done
hf tail --json
is "what was published in SQL is in the log" "$(field out 2 '$.type') $(field out 2 '$.key')" \
    "order.placed order-1"

# --- The role of the grants ---
HOLDFAST_URL="postgresql:///$base?host=$TEST_POSTGRES&user=app"
exits 0 "the role can publish" publish user.created '{}' --key user-2
exits 0 "consume" work app --on '**' --from start --retries 0 --until-empty \
    --exec 'test "$HOLDFAST_KEY" != user-2'
hf dlq list --json
is "have dead letters" "$(field out 1 '$.event.key')" user-2
exits 0 "retry them" dlq retry --all
exits 0 "and look" sub show app
hf sub create pulled --on '**' --from start --mode shared
exits 0 "pull" claim pulled --json
exits 0 "and acknowledge" ack pulled "$(field out 1 '$.lease')"
true_that "turn the journal" psql -qXAt "$HOLDFAST_URL" -c 'SELECT holdfast.rotate(0)'
true_that "and have a month made" psql -qXAt "$HOLDFAST_URL" \
    -c "SELECT holdfast.ensure_month(1, now() + interval '50 days')"
exits 1 "it cannot make a namespace" publish a.b --namespace other
has "and is told so" err 'permission denied for schema holdfast'

# --- The tour of the README ---
tour=$(empty tour)
sed -n '/^```sh runnable$/,/^```$/{/^```/d; s|^export HOLDFAST_URL=.*|export HOLDFAST_URL="$1"|; p}' \
    "$root/README.md" >tour.sh
has "the tour says where it is" tour.sh '^export HOLDFAST_URL="\$1"$'
sh -eu tour.sh "$tour" >tour.out 2>tour.err
is "the tour works" "$?" 0
has "and says what it says on a file" tour.out '^ +2 .*exit status 1: no route to mail server$'
has "to its end" tour.out '^mailer +ordered +up to date '

finish
