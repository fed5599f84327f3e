#!/usr/bin/env bash
# Every option of a subscription has the default and the limits of src/bus/options.def, as an option
# of the command and as a key of a configuration file. The list is read by scripts/options.awk; the
# library is held to it by tests/bus/test_options.c, PostgreSQL by
# tests/postgres/test_subscribing.c.
. "$(dirname "$0")/lib.sh"

awk -f "$root/scripts/enum-names.awk" "$root"/include/holdfast/*.h >constants
awk -f "$root/scripts/options.awk" constants "$root/src/bus/options.def" >options
true_that "setup: options.def has more than thirty options" test "$(wc -l <options)" -gt 30

# yaml KEY VALUE: makes holdfast.yaml with a subscription that has this key, which may be empty.
yaml() {
    printf \
        'subscriptions:\n  - name: a\n    on: x\n    from: now\n    handler:\n      exec: "true"\n'
    case $1 in
    '') ;;
    retry.base) printf '    retry:\n      base: %s\n      max: 366d\n' "$2" ;; # not above max
    retry.max) printf '    retry:\n      base: 0\n      max: %s\n' "$2" ;;
    handler.*) printf '      %s: %s\n' "${1#*.}" "$2" ;;
    *.*) printf '    %s:\n      %s: %s\n' "${1%%.*}" "${1#*.}" "$2" ;;
    *) printf '    %s: %s\n' "$1" "$2" ;;
    esac
}

# by_flag VALUE, by_key VALUE: gives the option that way; $rc says whether it was taken. No database
# is opened for it: the first shows a file, the second checks one. An option that has no key is
# given to a subscription, which is removed again.
by_flag() {
    if [ "$key" = - ]; then
        hf sub create "$field" --on x --from now "--$flag=$1"
        local taken=$rc
        "$HOLDFAST" sub remove "$field" --yes >removed 2>&1
        rc=$taken
    else
        yaml '' '' >holdfast.yaml
        hf config show --config holdfast.yaml "--$flag=$1"
    fi
}
by_key() {
    yaml "$key" "$1" >holdfast.yaml
    hf config check holdfast.yaml
}

# judged WAY VALUE taken|refused: adds a line to `wrong` if it is not.
judged() {
    case $1 in
    flag) by_flag "$2" ;;
    key) by_key "$2" ;;
    esac
    if [ "$3" = taken ]; then
        [ "$rc" -eq 0 ] || echo "$field by $1: $2 is refused: $(head -1 err)"
    elif [ "$rc" -ne 2 ]; then
        echo "$field by $1: $2 is taken"
    elif ! grep -qE -e "--$flag (takes|is) .*$2" -e "$key (takes|is) .*$2" err; then
        echo "$field by $1: $2 is refused without the name: $(head -1 err)"
    fi
}

# each WAY: all values of the option in $field, $kind ...
each() {
    local word unit=
    case $kind in
    CHOICE)
        for word in ${words//|/ }; do judged "$1" "$word" taken; done
        for word in 1 "${words%%|*}x" "${field^^}"; do judged "$1" "$word" refused; done
        ;;
    *)
        [ "$kind" != PERIOD ] || unit=ms
        judged "$1" "$min$unit" taken
        judged "$1" "$max$unit" taken
        judged "$1" "$((min - 1))$unit" refused
        judged "$1" "$((max + 1))$unit" refused
        judged "$1" many refused
        [ "$kind" = FACTOR ] || judged "$1" "1.5$unit" refused
        [ "$kind" != PERIOD ] || judged "$1" "$max" refused
        ;;
    esac
}

hf sub create defaults --on x --from now
hf sub show defaults --json
cp out stored
hf config keys --json
cp out keys
tr '\t' '\036' <options | while IFS=$'\036' read -r field kind initial min max words flag _ key _ \
    shown commands; do
    if on sqlite; then # the command judges before it opens a database
        each flag
        [ "$key" = - ] || each key
    fi
    stored=$commands
    [ "$kind" != CHOICE ] || stored="\"$initial\""
    [ "$field" != wait_period_ms ] || ! on postgres || stored=10000 # PostgreSQL has its own default
    grep -qE "\"$field\":${stored}[,}]" stored || echo "$field is not $stored in a new subscription"
    [ "$key" = - ] || grep -qF "{\"key\":\"subscriptions[].$key\"," keys || echo "$key is no key"
    [ "$key" = - ] || grep -F "\"subscriptions[].$key\"," keys |
        grep -qF "\"default\":\"$shown\"" ||
        echo "$key does not have the default $shown"
done >wrong 2>&1
is "all options have the defaults and limits of options.def" "$(cat wrong)" ''
finish
