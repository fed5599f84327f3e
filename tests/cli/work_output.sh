#!/usr/bin/env bash
# work --output: what each run of a command prints is kept in files.
. "$(dirname "$0")/lib.sh"

hf sub create mailer --on 'mail.*' --from start --retries 1
hf publish mail.a '{"n": 1}'
hf publish mail.b '{"n": 2}'
printf 'echo "to $HOLDFAST_TYPE"\necho "try $HOLDFAST_ATTEMPT" >&2\n%s\n' \
    '[ "$HOLDFAST_TYPE" = mail.a ] || [ "$HOLDFAST_ATTEMPT" = 2 ]' >send
hf work mailer --output kept --exec 'sh ./send' --until-empty
is "work --output keeps stdout of a run in a file" "$(cat kept/mailer-1-1.out)" 'to mail.a'
is "work --output keeps stderr of a run in a file" "$(cat kept/mailer-1-1.err)" 'try 1'
is "work --output keeps files of each attempt" "$(cat kept/mailer-2-1.err kept/mailer-2-2.err)" \
    "$(printf 'try 1\ntry 2')"
is "work --output makes no other files" "$(find kept -type f | wc -l)" 6
is "work --output passes stdout on all the same" \
    "$(sort -u out | tr '\n' ' ')" 'to mail.a to mail.b '
has "work --output passes stderr on all the same" err '^try 2$'
is "files of work --output cannot be read by others" \
    "$(stat -c %A kept/mailer-1-1.out | cut -c8-10)" '---'

hf publish mail.c
hf work mailer --output kept --exec true --until-empty
is "work --output makes no file for a run that prints nothing" "$(find kept -name 'mailer-3*')" ''

# --- The same attempt again, and files that are there ---
hf publish mail.d
printf 'there before\n' >kept/mailer-4-1.out
ln -s "$PWD/elsewhere" kept/mailer-4-1-2.err
hf work mailer --output kept --exec 'echo first; echo oh >&2' --until-empty
is "work --output does not overwrite a file that is there" \
    "$(cat kept/mailer-4-1.out)" 'there before'
is "work --output takes the next free name" "$(cat kept/mailer-4-1-3.out kept/mailer-4-1-3.err)" \
    "$(printf 'first\noh')"
true_that "work --output does not follow a link" test ! -e elsewhere

# --- Names, batches ---
hf sub create '../a b/é' --on 'x.*' --from start
hf publish x.y
hf work '../a b/é' --output kept --exec 'echo odd' --until-empty
is "work --output keeps a name with slashes in the directory" \
    "$(cat kept/%2E.%2Fa%20b%2F%C3%A9-5-1.out)" odd
hf sub create totals --on 'order.*' --from start --batch-by key
hf publish order.a --key k
hf publish order.b --key k
hf work totals --output kept --exec 'echo sum' --until-empty
is "work --output keeps one file for a batch" "$(cat kept/totals-6+2-1.out)" sum

# --- Long names, much output ---
long=$(printf 'é%.0s' $(seq 127))
hf sub create "$long" --on 'long.*' --from start
hf publish long.name
hf work "$long" --output long --exec 'echo long; echo oh >&2' --until-empty
is "work --output cuts the long name of a subscription in names of files" \
    "$(cd long && echo *)" "$(printf '%%C3%%A9%.0s' $(seq 21))-8-1.err \
$(printf '%%C3%%A9%.0s' $(seq 21))-8-1.out"
hf sub create much --on 'much.*' --from start
hf publish much.text
"$HOLDFAST" work much --output much --exec 'yes | head -c 67200000' --until-empty \
    >/dev/null 2>err
is "work --output keeps 64 MiB of a run, and says that there was more" \
    "$(stat -c %s much/much-9-1.out) $(tail -n 1 much/much-9-1.out)" \
    "$((64 * 1024 * 1024 + 43)) [holdfast: more was printed than is kept]"
rm -r long much

# --- Trouble ---
printf 'x' >plain
exits 1 "work --output refuses a file in the place of the directory" \
    work mailer --output plain --exec true --until-empty
has "the refusal of work --output names the file" err 'plain'
exits 1 "work --output refuses a directory below one that does not exist" \
    work mailer --output no/such --exec true --until-empty
hf publish mail.e
hf publish mail.f
mkdir gone
hf work mailer --output gone --exec 'rmdir gone 2>/dev/null; echo text' --until-empty
is "work --output settles events if the directory is removed meanwhile" "$rc" 0
is "work --output says once that nothing can be kept" "$(grep -c 'cannot be kept: gone/' err)" 1

# --- The file ---
cat >shop.yaml <<END
database: {url: "$HOLDFAST_URL"}
subscriptions:
  - {name: mailer, on: mail.*, from: start, handler: {exec: "echo by file", output: by-file}}
END
hf publish mail.g
hf work --config shop.yaml --until-empty
is "work keeps the output that handler.output of a file asks for" \
    "$(cat by-file/mailer-12-1.out)" 'by file'
hf publish mail.h
hf work --config shop.yaml --output by-flag --until-empty
is "work --output wins over handler.output of a file" "$(cat by-flag/mailer-13-1.out)" 'by file'
finish
