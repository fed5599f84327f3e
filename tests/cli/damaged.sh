#!/usr/bin/env bash
# verify ends on every damaged file, with findings or an error and never by a signal; and where it
# finds nothing the log is what it was. Damage is random: SEED=N repeats a run, DAMAGED=N makes so
# many files, and KEEP=DIRECTORY keeps those that were not as they should be.
. "$(dirname "$0")/lib.sh"
if on postgres; then
    skip "all claims about damaged files" "pages are the server's business"
    finish
fi
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
files=${DAMAGED:-60}
echo "# SEED=$seed"

# --- A small bus: rows of all kinds, and payloads that need more than a page ---
hf sub create orders --on 'order.*' --from start --partitions 2
hf sub create mailer --on 'mail.*' --from start --mode shared --retries 0
hf sub create jobs --on 'job.*' --from start --mode shared
for n in $(seq 12); do hf publish order.new "{\"n\":$n}" --key "k$n" --metadata '{"a":"b"}'; done
for n in $(seq 6); do
    hf publish mail.new "\"$(head -c $((n * 1500)) /dev/zero | tr '\0' x)\"" --tenant t
    hf publish job.new "$n" --namespace other
done
hf publish job.new 1
hf work mailer --exec 'exit 65' --until-empty --max-time 120s
hf dlq retry 1
hf claim jobs --max 1 --lease 1h
hf publish later.on '{}' --delay 1000d
hf schedule add nightly '0 0 1 1 *' night.comes '{}'
patiently bus.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
mv bus.db good && rm -f bus.db*
# What the log has, as SQLite sees it.
events() { sqlite3 "$1" 'SELECT * FROM holdfast_events NOT INDEXED ORDER BY place' 2>&1; }
events good >events.good
true_that "setup: the log has events" test -s events.good
size=$(stat -c %s good)
page=$(sqlite3 good 'PRAGMA page_size')
pages=$((size / page))

# below N: a random number from 0 to N - 1, in $drawn; 30 bits of the generator that SEED starts.
below() { drawn=$(((RANDOM << 15 | RANDOM) % $1)); }

# How the files are damaged. Each leaves in $how what it did.
flip_bytes() {
    local times i
    below 20
    times=$((drawn + 1))
    for ((i = 0; i < times; i++)); do
        below "$size"
        local at=$drawn
        below 256
        # shellcheck disable=SC2059
        printf "\\x$(printf %x "$drawn")" | dd of=bus.db bs=1 seek="$at" conv=notrunc status=none
        how+=" $at=$drawn"
    done
}
truncate_file() {
    below "$size"
    truncate -s "$drawn" bus.db
    how+=" $drawn"
}
zero_page() {
    below "$pages"
    dd if=/dev/zero of=bus.db bs="$page" seek="$drawn" count=1 conv=notrunc status=none
    how+=" $drawn"
}
copy_page() { # so that pages refer to each other in circles
    below "$pages"
    local from=$drawn
    below "$pages"
    dd if=good of=bus.db bs="$page" skip="$from" seek="$drawn" count=1 conv=notrunc status=none
    how+=" $from to $drawn"
}
flip_header() { # of a page: what is where in it, and which pages are below
    below "$pages"
    local at=$((drawn * page))
    below 100
    at=$((at + drawn))
    below 256
    # shellcheck disable=SC2059
    printf "\\x$(printf %x "$drawn")" | dd of=bus.db bs=1 seek="$at" conv=notrunc status=none
    how+=" $at=$drawn"
}
kinds=(flip_bytes truncate_file zero_page copy_page flip_header)

# How verify has ended; fails if it is not as documented.
ended_well() {
    if grep -aEq 'Sanitizer|runtime error' err; then
        echo "a sanitizer has something to say:"
        head -c 3000 err
        return 1
    fi
    case $rc in
    0)
        events bus.db >events.now
        cmp -s events.good events.now ||
            { echo "nothing was found, but the log is another"; return 1; }
        ;;
    7) grep -q '^{"name":' out || { echo "7 without a finding"; return 1; } ;;
    1 | 3 | 69) grep -aq '^holdfast: ' err || { echo "$rc without a word"; return 1; } ;;
    124) echo "it did not end within 20 s"; return 1 ;;
    *) echo "exit status $rc"; head -c 2000 err; return 1 ;;
    esac
}

# --- The files ---
RANDOM=$((seed % 32768))
declare -A ends=()
for ((number = 0; number < files; number++)); do
    rm -f bus.db*
    cp good bus.db
    kind=${kinds[number % ${#kinds[@]}]}
    how=$kind
    "$kind"
    timeout 20 "$HOLDFAST" verify --json >out 2>err </dev/null
    rc=$?
    ends[$rc]=$((${ends[$rc]:-0} + 1))
    true_that "verify ends as documented on damaged file $number (${how:0:60})" ended_well
    # shellcheck disable=SC2154
    [ -z "${KEEP:-}" ] || [ "$tap_status" -eq 0 ] || cp bus.db "$KEEP/damaged.$number"
done
echo "# files by exit status:$(for code in \
        "${!ends[@]}"; do echo -n " $code: ${ends[$code]}"; done)"
true_that "verify found damage in some files" test "${ends[7]:-0}" -gt 0
finish
