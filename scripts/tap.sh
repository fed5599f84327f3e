# shellcheck shell=sh
# TAP for shell scripts; source it:  . "$ROOT/scripts/tap.sh"
#
#   ok CLAIM COMMAND...    one test: passes if the command succeeds; shows its output if not
#   skip CLAIM WHY         one test that cannot run here
#   done_testing           prints the plan; the script's exit status (0 if all passed)
tap_count=0
tap_failed=0

ok() {
    tap_count=$((tap_count + 1))
    tap_claim=$1
    shift
    if tap_output=$("$@" 2>&1 </dev/null); then
        echo "ok $tap_count - $tap_claim"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $tap_claim"
        printf '%s\n' "$tap_output" | sed 's/^/# /'
    fi
}

skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}
