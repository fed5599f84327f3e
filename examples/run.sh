#!/bin/sh
# run.sh: every example runs, tells its story and keeps its promise; run by `make test`.
#
# An example checks itself: it exits 0 only if what it promises has happened. Here it is seen that it
# says so, that it leaves no file behind, and that it works twice on a database it was given.
set -eu
. "$ROOT/scripts/tap.sh"

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

# runs NAME [PATH]: the example succeeds and says nothing on stderr; its output is kept.
runs() {
    "$BUILD/examples/$1" ${2+"$2"} >"$temp/$1.out" 2>"$temp/$1.err" || {
        echo "exit status $?"
        cat "$temp/$1.out" "$temp/$1.err"
        return 1
    }
    cat "$temp/$1.err"
    [ ! -s "$temp/$1.err" ]
}

# says NAME LINE: the line is in the output, word by word.
says() {
    cat "$temp/$1.out"
    grep -qxF -e "$2" "$temp/$1.out"
}

# matches NAME PATTERN: a whole line of the output matches.
matches() {
    cat "$temp/$1.out"
    grep -qxE -e "$2" "$temp/$1.out"
}

never_says() {
    cat "$temp/$1.out"
    ! grep -qE -e "$2" "$temp/$1.out"
}

leaves_nothing() {
    mkdir -p "$temp/empty"
    TMPDIR=$temp/empty "$BUILD/examples/$1" >/dev/null 2>&1 || return 1
    left=$(find "$temp/empty" -mindepth 1)
    echo "$left"
    [ -z "$left" ]
}

twice() {
    runs "$1" "$temp/$1.db" && runs "$1" "$temp/$1.db" && [ -s "$temp/$1.db" ]
}

has_a_test() {
    for source in "$ROOT"/examples/*.c; do
        name=$(basename "$source" .c)
        case " $examples " in
        *" $name "*) ;;
        *)
            # Those that need a server are run by tests/postgres/examples.sh.
            [ "$name" != "${name%_postgres}" ] || { echo "$name is not run" && return 1; }
            ;;
        esac
    done
}

examples="hello outbox projection saga pull_worker"
ok "every example is run by examples/run.sh" has_a_test
for name in $examples; do
    ok "the example $name does what it promises" runs "$name"
done

ok "the example hello has fewer than 30 lines" test "$(wc -l <"$ROOT/examples/hello.c")" -lt 30
ok "the handler of the example hello gets the event" \
    says hello 'greeter hears user.created: {"name": "Ada"}'

ok "the example outbox ships the committed order" \
    matches outbox 'shipping hears order.placed: \{"order": [0-9]+, "amount": 250\}'
ok "the example outbox does not ship the order that was rolled back" \
    never_says outbox 'shipping.*5000'
ok "the example outbox prints that rows and events agree" \
    says outbox 'orders in the table: 1, events delivered: 1'

ok "the worker of the example projection is killed three times" \
    test "$(grep -c '^killed the worker' "$temp/projection.out")" -eq 3
ok "handlers of the example projection run more often than events, which count once" \
    matches projection 'the handler ran [45][0-9][0-9] times, the table says 400'

ok "the first order of the example saga is confirmed" says saga 'order 1: confirmed'
ok "a failed attempt of the example saga publishes nothing" says saga 'payment.taken: 1'
ok "the second order of the example saga is cancelled and its stock is back" \
    says saga 'order 2: cancelled'
ok "the third order of the example saga is refused" says saga 'order 3: refused'
ok "the stock of the example saga is right" says saga '10 pieces, 4 sold: 6 left'

ok "a job of the example pull_worker that failed is done in the second attempt" \
    says pull_worker 'job.flaky 3: done in attempt 2'
ok "a touched lease of the example pull_worker outlives its time" \
    says pull_worker 'job.slow 7: done in attempt 1'
ok "the buried job of the example pull_worker says why" \
    says pull_worker '11 done, 1 of them in a second attempt; 1 dead: no worker can do this'

for name in $examples; do
    ok "the example $name leaves no file behind" leaves_nothing "$name"
    ok "the example $name works again on a database that has been used" twice "$name"
done
done_testing
