#!/usr/bin/env bash
# work --output: what each run of a command prints is kept in files.
. "$(dirname "$0")/lib.sh"

hf sub create mailer --on 'mail.*' --from start --retries 1
hf publish mail.a '{"n": 1}'
hf publish mail.b '{"n": 2}'
printf 'echo "to $HOLDFAST_TYPE"\necho "try $HOLDFAST_ATTEMPT" >&2\n%s\n' \
    '[ "$HOLDFAST_TYPE" = mail.a ] || [ "$HOLDFAST_ATTEMPT" = 2 ]' >send
hf work mailer --output kept --exec 'sh ./send' --until-empty
is "stdout of a run is kept" "$(cat kept/mailer-1-1.out)" 'to mail.a'
is "and its stderr" "$(cat kept/mailer-1-1.err)" 'try 1'
is "each attempt has its own files" "$(cat kept/mailer-2-1.err kept/mailer-2-2.err)" \
    "$(printf 'try 1\ntry 2')"
is "there are no others" "$(find kept -type f | wc -l)" 6
is "the output is passed on all the same" "$(sort -u out | tr '\n' ' ')" 'to mail.a to mail.b '
has "and stderr, too" err '^try 2$'
is "others may not read it" "$(stat -c %A kept/mailer-1-1.out | cut -c8-10)" '---'

hf publish mail.c
hf work mailer --output kept --exec true --until-empty
is "a run that prints nothing leaves no file" "$(find kept -name 'mailer-3*')" ''

# --- The same attempt again, and files that are there ---
hf publish mail.d
printf 'there before\n' >kept/mailer-4-1.out
ln -s "$PWD/elsewhere" kept/mailer-4-1-2.err
hf work mailer --output kept --exec 'echo first; echo oh >&2' --until-empty
is "a file that is there is not written over" "$(cat kept/mailer-4-1.out)" 'there before'
is "the run takes the next name" "$(cat kept/mailer-4-1-3.out kept/mailer-4-1-3.err)" \
    "$(printf 'first\noh')"
true_that "a link is not followed" test ! -e elsewhere

# --- Names, batches ---
hf sub create '../a b/é' --on 'x.*' --from start
hf publish x.y
hf work '../a b/é' --output kept --exec 'echo odd' --until-empty
is "a name with slashes stays in the directory" "$(cat kept/%2E.%2Fa%20b%2F%C3%A9-5-1.out)" odd
hf sub create totals --on 'order.*' --from start --batch-by key
hf publish order.a --key k
hf publish order.b --key k
hf work totals --output kept --exec 'echo sum' --until-empty
is "a batch has one file" "$(cat kept/totals-6+2-1.out)" sum

# --- Trouble ---
printf 'x' >plain
exits 1 "a directory that is a file is refused before anything runs" \
    work mailer --output plain --exec true --until-empty
has "with its name" err 'plain'
exits 1 "so is one below a directory that is not there" \
    work mailer --output no/such --exec true --until-empty
hf publish mail.e
hf publish mail.f
mkdir gone
hf work mailer --output gone --exec 'rmdir gone 2>/dev/null; echo text' --until-empty
is "if the directory is removed meanwhile, events are settled" "$rc" 0
is "the worker says once that nothing is kept" "$(grep -c 'cannot be kept: gone/' err)" 1

# --- The file ---
cat >shop.yaml <<END
database: {url: "$HOLDFAST_URL"}
subscriptions:
  - {name: mailer, on: mail.*, from: start, handler: {exec: "echo by file", output: by-file}}
END
hf publish mail.g
hf work --config shop.yaml --until-empty
is "a file may say so" "$(cat by-file/mailer-10-1.out)" 'by file'
hf publish mail.h
hf work --config shop.yaml --output by-flag --until-empty
is "and the command line wins" "$(cat by-flag/mailer-11-1.out)" 'by file'
finish
