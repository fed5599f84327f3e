# shellcheck shell=sh
# TAP for shell scripts; source it:  . "$ROOT/scripts/tap.sh"
#
#   ok CLAIM COMMAND...    one test: passes if the command succeeds; shows its output if not
#   result STATUS CLAIM    one test: passes if the status is 0; shows stdin if not
#   skip CLAIM WHY         one test that cannot run here
#   until_true SECONDS COMMAND...
#                          waits until the command succeeds; fails after so long
#   done_testing           prints the plan; the script's exit status (0 if all passed)
#
# A claim says by itself which rule was broken, because the log of a failure has only its line: "not
# ok 17 - CLAIM". A claim of fewer than four words fails; check-tidy has the words that none may begin
# with.
tap_count=0
tap_failed=0

result() {
    tap_count=$((tap_count + 1))
    case $2 in
    *\ *\ *\ *) ;;
    *)
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
        echo "# this claim has fewer than four words"
        return
        ;;
    esac
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
        awk '{ print "# " $0 }' # ends the last line, also if it was cut: the next test has its own
    fi
}

ok() {
    tap_claim=$1
    shift
    tap_status=0
    tap_output=$("$@" 2>&1 </dev/null) || tap_status=$?
    result "$tap_status" "$tap_claim" <<END
$tap_output
END
}

skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# nap SECONDS: sleeps. bash need not start a program for it: nothing is ever written into this pipe.
# The same goes for the time.
if [ -n "${BASH_VERSION:-}" ]; then
    eval 'exec {tap_pipe}<> <(:)
        nap() { read -r -t "$1" -u "$tap_pipe" _ || :; }
        tap_now() { tap_time=$EPOCHSECONDS; }'
else
    nap() { sleep "$1"; }
    tap_now() { tap_time=$(date +%s); }
fi

until_true() {
    tap_now
    tap_end=$((tap_time + $1 + 1))
    shift
    tap_rest_ms=20 # it grows: a look may cost a server more than what it waits for
    while ! "$@" >/dev/null 2>&1; do
        tap_now
        if [ "$tap_time" -ge "$tap_end" ]; then
            echo "# waited in vain for: $*" >&2
            return 1
        fi
        tap_rest=000$tap_rest_ms
        nap "0.${tap_rest#"${tap_rest%???}"}"
        [ "$tap_rest_ms" -ge 250 ] || tap_rest_ms=$((tap_rest_ms * 3 / 2))
    done
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}
