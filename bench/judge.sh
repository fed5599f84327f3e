# shellcheck shell=bash
# Rows of a table of figures: what was measured, what is to be reached, what was reached, and whether
# it is enough. Source it; $below is 1 as soon as a figure is not.
# shellcheck disable=SC2034
below=0

# field NAME: the number of that name in the JSON object on standard input
field() { sed -n 's/.*"'"$1"'":\([-+0-9.eE]*\).*/\1/p'; }

# judge TITLE GOAL VALUE...: one row. GOAL is ">= N", "< N", "<= N", or "" for a figure to know
judge() {
    local title=$1 goal=$2 median low high verdict=
    shift 2
    read -r low median high < <(printf '%s\n' "$@" | sort -g | awk '
        { value[NR] = $1 }
        END { print value[1], value[int((NR + 1) / 2)], value[NR] }')
    if [ -n "$goal" ]; then
        verdict=$(awk -v is="$median" -v goal="$goal" 'BEGIN {
            split(goal, part, " ")
            ok = part[1] == ">=" ? is >= part[2] : part[1] == "<=" ? is <= part[2] : is < part[2]
            print ok ? "ok" : "BELOW" }')
    fi
    [ "$verdict" != BELOW ] || below=1
    awk -v title="$title" -v goal="$goal" -v m="$median" -v l="$low" -v h="$high" -v v="$verdict" '
        function show(x) { return x >= 1000 ? sprintf("%.0f", x) : sprintf("%.3g", x) }
        BEGIN { printf "%-58s %-10s %10s  (%s to %s)  %s\n", title, goal, show(m), show(l), show(h), v }'
}

judge_heads() { printf '%-58s %-10s %10s  %s\n' MEASURED GOAL REACHED "(lowest to highest)"; }
