#!/usr/bin/env bash
# dlq list, show, retry, edit, resolve, purge.
. "$(dirname "$0")/lib.sh"

work() { # SUB COMMAND: works off everything
    hf work "$1" --exec "$2" --until-empty --max-time 60s
}
hf sub create mailer --on 'mail.*' --from start --retries 0 --mode shared
hf sub create audit --on '*' --from start --retries 0
exits 0 "without dead letters the list is empty" dlq list
is "nothing on stdout" "$(cat out)" ''
for n in 1 2 3 4; do hf publish mail.new "{\"n\":$n}" --key "k$n"; done
hf publish mail.old '{"n":5}'
work mailer 'case $HOLDFAST_POSITION in
    [12]) echo "no route" >&2; exit 1 ;;
    3) echo "no host" >&2; exit 1 ;;
    5) exit 65 ;;
    esac'
work audit 'test $HOLDFAST_POSITION != 4 || { echo "no route" >&2; exit 1; }'

exits 0 "list" dlq list
has "is a table" out '^ *ID +SUBSCRIPTION +TYPE +KEY +REASON +ATTEMPTS +FAILED +ERROR'
is "of all of them" "$(wc -l <out)" 6
exits 0 "list --json" dlq list --json
json "prints an object per dead letter" out
is "the newest first" "$(field out 1 '$.subscription')" audit
is "numbers are strings" "$(field out 1 '$.dead_id') $(grep -c '"dead_id":"' out)" "5 5"
is "times are RFC 3339" \
    "$(field out 1 '$.failed_at' | grep -cE '^20..-..-..T..:..:..\.[0-9]{6}Z$')" 1
is "the event is complete" "$(field out 5 '$.event.payload.n') $(field out 5 '$.event.key')" "1 k1"
hf dlq list --subscription mailer --json
is "by subscription" "$(wc -l <out)" 4
hf dlq list --type mail.old --json
is "by type" "$(wc -l <out)" 1
hf dlq list --error 'no route' --json
is "by a part of the error" "$(wc -l <out)" 3
hf dlq list --reason rejected --json
is "by reason" "$(field out 1 '$.event.type')" mail.old
hf dlq list --older-than 1h --json
is "by age: none is so old" "$(cat out)" ''
hf dlq list --newer-than 1h --json
is "by age: all are so new" "$(wc -l <out)" 5
exits 0 "a page" dlq list --limit 2 --json
is "has so many" "$(wc -l <out)" 2
has "and names the next" err -- '--before 4'
hf dlq list --before 4 --json
is "which goes on" "$(field out 1 '$.dead_id') $(wc -l <out)" "3 3"
exits 0 "groups by error" dlq list --group-by error
has "are counted" out '^ +3 .*exit status 1: no route$'
is "the largest first" "$(sed -n 2p out | grep -c 'no route')" 1
exits 0 "groups as JSON" dlq list --group-by subscription --json
json "are objects" out
is "with their count" "$(field out 1 '$.count') $(field out 1 '$.subscription')" "4 mailer"
exits 2 "grouping is by what is known" dlq list --group-by colour

exits 0 "show" dlq show 1
has "shows the error" out '^error: +exit status 1: no route$'
has "and why the last attempt failed" out '^cause: +handler$'
has "and every attempt" out '^  attempt 1 .*no route'
exits 0 "show --json" dlq show 1 --json
json "is an object" out
is "with the attempts" "$(field out 1 '$.attempts_json[0].attempt')" 1
is "and the cause" "$(field out 1 '$.cause')" handler
exits 3 "a number that is not there is not found" dlq show 999
exits 2 "a number is a number" dlq show one

# --- Retry ---
exits 2 "retry needs numbers or --all" dlq retry
exits 2 "not both" dlq retry 1 --all
exits 2 "a filter goes with --all" dlq retry 1 --type mail.new
exits 0 "--dry-run counts" dlq retry --all --error 'no route' --dry-run
has "and changes nothing" out '^3 would be retried$'
exits 0 "retry one" dlq retry 1
has "says so" out '^1 retried$'
exits 3 "it is gone" dlq show 1
work mailer 'echo "again $HOLDFAST_POSITION $HOLDFAST_ATTEMPT"'
has "and delivered again with a clean record" out '^again 1 1$'
exits 3 "one that is missing is named, the others go" dlq retry 2 999
has "in the complaint" err '999'
has "and counted" out '^1 retried$'
exits 0 "retry at a rate" dlq retry --all --subscription mailer --rate 20/s
has "counts" out '^2 retried$'
work mailer 'echo "rate $HOLDFAST_POSITION"'
is "the oldest first" "$(grep -c '^rate' out)" 3
exits 0 "retry all" dlq retry --all --json
is "counts what it did" "$(field out 1 '$.retried')" 1
work audit 'exit 65'

# --- Edit ---
hf dlq list --subscription audit --json
dead=$(field out 1 '$.dead_id')
exits 2 "edit needs a payload" dlq edit "$dead"
exits 2 "that is JSON" dlq edit "$dead" --payload '{'
exits 0 "edit" dlq edit "$dead" --payload '{"n": 4.50}'
work audit 'cat'
has "delivers the other payload" out '"payload":\{"n": 4\.50\}'
hf tail --from 3 --limit 1 --json
has "the log is not changed" out '"payload":\{"n":4\}'
hf publish mail.six '{"n":6}'
work mailer 'exit 65'
hf dlq list --json
dead=$(field out 1 '$.dead_id')
printf '{"n": 60}\n' | "$HOLDFAST" dlq edit "$dead" --payload - >out 2>err
is "edit takes the payload from stdin" "$?" 0
work mailer 'cat >&2; exit 65'
has "as it was given" err '"payload":\{"n": 60\}'

# --- Resolve and purge ---
hf dlq list --json
dead=$(field out 1 '$.dead_id')
exits 0 "resolve" dlq resolve "$dead" --note 'sent by hand' --by ada
has "says so" out '^1 resolved$'
exits 4 "twice is a conflict" dlq resolve "$dead"
exits 4 "a resolved one is not retried" dlq retry "$dead"
exits 3 "of nothing is not found" dlq resolve 999
hf dlq list --json
is "resolved ones are not listed" "$(grep -c "\"dead_id\":\"$dead\"" out)" 0
hf dlq list --resolved --json
has "unless asked for" out '"resolved_by":"ada","resolved_note":"sent by hand"'
exits 2 "purge needs to know which" dlq purge
exits 2 "and wants --yes" dlq purge --all
exits 0 "purge of what is too new" dlq purge --older-than 30d --yes
has "purges nothing" out '^0 purged$'
exits 2 "a reason that there is not is refused" dlq list --reason attempt
has "and the right one suggested" err 'did you mean attempts'
exits 0 "purge --dry-run" dlq purge --all --dry-run
has "counts" out '^[1-9][0-9]* would be purged$'
exits 0 "purge --open-only keeps the resolved" dlq purge --all --open-only --yes
hf dlq list --resolved --json
is "just them" "$(wc -l <out)" 1
exits 0 "purge" dlq purge --older-than 0 --yes --json
is "is inclusive" "$(field out 1 '$.purged')" 1
hf dlq list --resolved
is "then nothing is left" "$(cat out)" ''

finish
