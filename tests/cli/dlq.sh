#!/usr/bin/env bash
# dlq list, show, retry, edit, resolve, purge.
. "$(dirname "$0")/lib.sh"

work() { # SUB COMMAND: works off everything
    hf work "$1" --exec "$2" --until-empty --max-time 60s
}
hf sub create mailer --on 'mail.*' --from start --retries 0 --mode shared
hf sub create audit --on '*' --from start --retries 0
exits 0 "dlq list succeeds without dead letters" dlq list
is "dlq list without dead letters prints nothing on stdout" "$(cat out)" ''
for n in 1 2 3 4; do hf publish mail.new "{\"n\":$n}" --key "k$n"; done
hf publish mail.old '{"n":5}'
work mailer 'case $HOLDFAST_POSITION in
    [12]) echo "no route" >&2; exit 1 ;;
    3) echo "no host" >&2; exit 1 ;;
    5) exit 65 ;;
    esac'
work audit 'test $HOLDFAST_POSITION != 4 || { echo "no route" >&2; exit 1; }'

exits 0 "dlq list succeeds with dead letters" dlq list
has "dlq list prints titles" out '^ *ID +SUBSCRIPTION +TYPE +KEY +REASON +ATTEMPTS +FAILED +ERROR'
is "dlq list prints a row per dead letter" "$(wc -l <out)" 6
exits 0 "dlq list takes the option --json" dlq list --json
json "dlq list --json prints a JSON object per dead letter" out
is "dlq list prints the newest dead letter first" "$(field out 1 '$.subscription')" audit
is "dlq list --json prints dead_id as a string" \
    "$(field out 1 '$.dead_id') $(grep -c '"dead_id":"' out)" "5 5"
is "dlq list --json prints times as RFC 3339" \
    "$(field out 1 '$.failed_at' | grep -cE '^20..-..-..T..:..:..\.[0-9]{6}Z$')" 1
is "dlq list --json prints payload and key of the event" \
    "$(field out 5 '$.event.payload.n') $(field out 5 '$.event.key')" "1 k1"
hf dlq list --subscription mailer --json
is "dlq list --subscription prints dead letters of that subscription" "$(wc -l <out)" 4
hf dlq list --type mail.old --json
is "dlq list --type prints dead letters of that type" "$(wc -l <out)" 1
hf dlq list --error 'no route' --json
is "dlq list --error prints dead letters whose error has that text" "$(wc -l <out)" 3
hf dlq list --reason rejected --json
is "dlq list --reason prints dead letters with that reason" "$(field out 1 '$.event.type')" mail.old
hf dlq list --older-than 1h --json
is "dlq list --older-than leaves out newer dead letters" "$(cat out)" ''
hf dlq list --newer-than 1h --json
is "dlq list --newer-than prints newer dead letters" "$(wc -l <out)" 5
exits 0 "dlq list takes the option --limit" dlq list --limit 2 --json
is "dlq list --limit prints at most so many dead letters" "$(wc -l <out)" 2
has "dlq list --limit says how to get the next page" err '--before 4'
hf dlq list --before 4 --json
is "dlq list --before prints the next page" "$(field out 1 '$.dead_id') $(wc -l <out)" "3 3"
exits 0 "dlq list takes --group-by error" dlq list --group-by error
has "dlq list --group-by error counts dead letters by error" out '^ +3 .*exit status 1: no route$'
is "dlq list --group-by prints the largest group first" "$(sed -n 2p out | grep -c 'no route')" 1
exits 0 "dlq list --group-by takes the option --json" dlq list --group-by subscription --json
json "dlq list --group-by --json prints JSON objects" out
is "dlq list --group-by --json prints count and subscription" \
    "$(field out 1 '$.count') $(field out 1 '$.subscription')" "4 mailer"
exits 0 "dlq list --group-by takes --limit" dlq list --group-by error --limit 1 --json
is "dlq list --group-by --limit prints so many groups" "$(wc -l <out)" 1
has "dlq list --group-by says how many groups are left" err '^And 2 groups more, of 2 dead letters'
exits 0 "dlq list --group-by takes a filter" dlq list --group-by type --error 'no route' --json
is "dlq list --group-by counts what the filter chooses" "$(field out 1 '$.count')" 3
hf dlq list --group-by error --older-than 1h
has "dlq list --group-by says that no dead letter is that old" err '^No dead letters'
exits 2 "dlq list --group-by refuses an unknown field" dlq list --group-by colour

exits 0 "dlq show takes a number" dlq show 1
has "dlq show prints the error of the last attempt" out '^error: +exit status 1: no route$'
has "dlq show prints the cause of the last failure" out '^cause: +handler$'
has "dlq show prints every attempt with its error" out '^  attempt 1 .*no route'
exits 0 "dlq show takes the option --json" dlq show 1 --json
json "dlq show --json prints a JSON object" out
is "dlq show --json has the attempts" "$(field out 1 '$.attempts_json[0].attempt')" 1
is "dlq show --json has the cause" "$(field out 1 '$.cause')" handler
exits 3 "dlq show of an unknown number exits with not found" dlq show 999
exits 2 "dlq show refuses what is no number" dlq show one

# --- Retry ---
exits 2 "dlq retry needs numbers or --all" dlq retry
exits 2 "dlq retry refuses numbers together with --all" dlq retry 1 --all
exits 2 "dlq retry refuses a filter without --all" dlq retry 1 --type mail.new
exits 0 "dlq retry takes the option --dry-run" dlq retry --all --error 'no route' --dry-run
has "dlq retry --dry-run prints how many would be retried" out '^3 would be retried$'
exits 0 "dlq retry takes a number" dlq retry 1
has "dlq retry prints how many it retried" out '^1 retried$'
exits 3 "a dead letter that is retried is gone" dlq show 1
work mailer 'echo "again $HOLDFAST_POSITION $HOLDFAST_ATTEMPT"'
has "an event that is retried is delivered again as attempt 1" out '^again 1 1$'
exits 3 "dlq retry exits with not found if one of the numbers is missing" dlq retry 2 999
has "the error of dlq retry names the missing number" err '999'
has "dlq retry retries the dead letters that are there beside a missing number" out '^1 retried$'
exits 0 "dlq retry --all takes the option --rate" dlq retry --all --subscription mailer --rate 20/s
has "dlq retry --rate prints how many it retried" out '^2 retried$'
work mailer 'echo "rate $HOLDFAST_POSITION"'
is "every event that was retried at a rate is delivered again" "$(grep -c '^rate' out)" 3
exits 0 "dlq retry --all takes the option --json" dlq retry --all --json
is "dlq retry --json prints how many it retried" "$(field out 1 '$.retried')" 1
work audit 'exit 65'

# --- Edit ---
hf dlq list --subscription audit --json
dead=$(field out 1 '$.dead_id')
exits 2 "dlq edit needs a payload" dlq edit "$dead"
exits 2 "dlq edit refuses a payload that is no JSON" dlq edit "$dead" --payload '{'
exits 0 "dlq edit takes a payload" dlq edit "$dead" --payload '{"n": 4.50}'
work audit 'cat'
has "dlq edit delivers the event with the new payload" out '"payload":\{"n": 4\.50\}'
hf tail --from 3 --limit 1 --json
has "dlq edit does not change the event in the log" out '"payload":\{"n":4\}'
hf publish mail.six '{"n":6}'
work mailer 'exit 65'
hf dlq list --json
dead=$(field out 1 '$.dead_id')
printf '{"n": 60}\n' | "$HOLDFAST" dlq edit "$dead" --payload - >out 2>err
is "dlq edit --payload - reads the payload from stdin" "$?" 0
work mailer 'cat >&2; exit 65'
has "dlq edit delivers the payload of stdin as it was given" err '"payload":\{"n": 60\}'

# --- Resolve and purge ---
hf dlq list --json
dead=$(field out 1 '$.dead_id')
exits 0 "dlq resolve takes --note and --by" dlq resolve "$dead" --note 'sent by hand' --by ada
has "dlq resolve prints how many it resolved" out '^1 resolved$'
exits 4 "dlq resolve of a resolved dead letter exits with a conflict" dlq resolve "$dead"
exits 4 "dlq retry of a resolved dead letter exits with a conflict" dlq retry "$dead"
exits 3 "dlq resolve of an unknown number exits with not found" dlq resolve 999
hf dlq list --json
is "dlq list leaves out resolved dead letters" "$(grep -c "\"dead_id\":\"$dead\"" out)" 0
hf dlq list --resolved --json
has "dlq list --resolved prints who resolved a dead letter and the note" \
    out '"resolved_by":"ada","resolved_note":"sent by hand"'
exits 2 "dlq purge needs --all or a filter" dlq purge
exits 2 "dlq purge --all without --yes and without a terminal is refused" dlq purge --all
exits 0 "dlq purge --older-than succeeds if all dead letters are newer" \
    dlq purge --older-than 30d --yes
has "dlq purge --older-than leaves newer dead letters" out '^0 purged$'
exits 2 "dlq list --reason refuses an unknown reason" dlq list --reason attempt
has "the refusal of an unknown reason suggests the right one" err 'did you mean attempts'
exits 0 "dlq purge takes the option --dry-run" dlq purge --all --dry-run
has "dlq purge --dry-run prints how many would be purged" out '^[1-9][0-9]* would be purged$'
exits 0 "dlq purge takes the option --open-only" dlq purge --all --open-only --yes
hf dlq list --resolved --json
is "dlq purge --open-only keeps the resolved dead letters" "$(wc -l <out)" 1
exits 0 "dlq purge takes --older-than 0 and --json" dlq purge --older-than 0 --yes --json
is "dlq purge --older-than 0 purges every dead letter" "$(field out 1 '$.purged')" 1
hf dlq list --resolved
is "no dead letter is left after the last purge" "$(cat out)" ''

finish
