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
# A claim that goes on with an earlier one ("and says so", "with its name") is printed behind it, so
# that each name says by itself what was claimed: "a bad file is refused: with its name". Most such
# claims are known by their first word. A script may set tap_subject to the claim that the next ones
# go on with, whatever their first words are.
tap_count=0
tap_failed=0
tap_subject=
tap_last=

# named CLAIM: sets tap_name to what is printed for it.
named() {
    tap_name=$1
    if [ -n "$tap_subject" ]; then
        tap_name="$tap_subject: $1"
        return
    fi
    case $1 in
    "("* | and\ * | or\ * | nor\ * | but\ * | so\ * | also\ * | then\ * | too | not\ * | none* | \
        neither\ * | which\ * | who\ * | that\ * | this\ * | these\ * | those\ * | it\ * | \
        its\ * | they\ * | them\ * | their\ * | until\ * | unless\ * | because\ * | with\ [!-]* | \
        by\ * | as\ * | in\ * | of\ * | all\ of\ * | is\ * | are\ * | was\ * | were\ * | has\ * | \
        have\ * | had\ * | says\ * | shows\ * | gets\ * | leaves\ * | stays\ * | comes\ * | \
        goes\ * | does\ * | ends | ends\ * | once | twice | twice\ * | again | again\ * | \
        still | still\ * | else\ * | to\ * | from\ * | for\ * | the\ same | the\ same\ * | \
        the\ rest | the\ rest\ *)
        [ -z "$tap_last" ] || tap_name="$tap_last: $1"
        ;;
    *) tap_last=$1 ;;
    esac
}

result() {
    tap_count=$((tap_count + 1))
    named "$2"
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $tap_name"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $tap_name"
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
    named "$1"
    echo "ok $tap_count - $tap_name # SKIP $2"
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
        [ "$tap_time" -lt "$tap_end" ] || return 1
        tap_rest=000$tap_rest_ms
        nap "0.${tap_rest#"${tap_rest%???}"}"
        [ "$tap_rest_ms" -ge 250 ] || tap_rest_ms=$((tap_rest_ms * 3 / 2))
    done
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}
