#!/usr/bin/env bash
# Cron expressions in SQL mean what they mean in C, in all kinds of zones and around their changes.
. "$(dirname "$0")/lib.sh"
cluster
schema
cd "$(mktemp -d)" || exit 1

# The same numbers in every run.
RANDOM=20261115
pick() { # VALUE...: one of them
    local at=$((RANDOM % $# + 1))
    printf '%s' "${!at}"
}
field() { # MIN MAX: a field of some kind
    local low=$(($1 + RANDOM % ($2 - $1 + 1))) high
    high=$((low + RANDOM % ($2 - low + 1)))
    pick '*' "$low" "$low" "$low-$high" "*/$((1 + RANDOM % ($2 - $1 + 1)))" "$low,$high" \
        "$low-$high/2" "$low/3"
}
for _ in $(seq 80); do
    seconds=$(pick '' '' '' "$(field 0 59) ")
    expression="$seconds$(field 0 59) $(field 0 23) $(pick '*' '*' "$(field 1 28)") $(pick '*' '*' \
            "$(field 1 12)") $(pick '*' '*' 'MON-FRI' 'SAT-SUN' "$(field 0 6)")"
    zone=$(pick UTC Europe/Berlin America/St_Johns Australia/Lord_Howe Asia/Kathmandu Pacific/Apia \
        America/Santiago Africa/Casablanca Antarctica/Troll Pacific/Chatham Europe/Dublin)
    after="20$((10 + RANDOM % 40))-$(pick 03 03 10 10 04 09 11 \
            01)-$((10 + RANDOM % 19))T$((10 + RANDOM % 14)):30:00Z"
    # Within the years of which the clocks of all these zones are certain.
    printf '%s;%s;%s\n' "$expression" "$zone" "$after"
done >asked
cat >>asked <<'LIST'
30 2 * * *;Europe/Berlin;2026-03-28T00:00:00Z
30 2 * * *;Europe/Berlin;2026-10-24T23:30:00Z
*/10 2 * * *;Europe/Berlin;2026-10-24T22:00:00Z
30 2-2/1 25 10 *;Europe/Berlin;2026-10-25T00:45:00Z
0 */2 * * *;Australia/Lord_Howe;2026-04-04T10:00:00Z
15 * * * *;America/St_Johns;2026-11-01T02:00:00Z
0 0 30 12 *;Pacific/Apia;2011-01-01T00:00:00Z
0 0 29 2 MON;UTC;2026-01-01T00:00:00Z
0 0 29 2 ?;UTC;2026-01-01T00:00:00Z
59 59 23 31 12 *;Asia/Kathmandu;2026-01-01T00:00:00Z
@hourly;Europe/Berlin;2026-10-24T23:30:00Z
@weekly;Africa/Casablanca;2026-02-10T00:00:00Z
0 0 13 * FRI;UTC;2026-01-01T00:00:00Z
@every 5m;UTC;2026-01-01T00:00:01Z
@Every 1h30m;Europe/Berlin;2026-03-28T23:10:00Z
@every 7s;Asia/Kathmandu;1969-12-31T23:59:51Z
@every 2w3d;UTC;2026-01-01T00:00:00Z
@every 365d;UTC;1970-01-01T00:00:00Z
LIST
while IFS=';' read -r expression zone after; do
    "$HOLDFAST" schedule next "$expression" --zone "$zone" --after "$after" -n 6 --json |
        sed 's/^{"at":"\([^"]*\)".*/\1/' | tr '\n' ' '
    echo
done <asked >by_c
{
    echo "CREATE TABLE asked (line serial, expression text, zone text, after timestamptz);"
    echo "COPY asked (expression, zone, after) FROM stdin (DELIMITER ';');"
    cat asked
    echo '\.'
    cat <<'SQL'
SET TimeZone = 'UTC';
CREATE FUNCTION say(timestamptz) RETURNS text LANGUAGE sql AS
    $$ SELECT to_char($1, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
\o by_sql
WITH RECURSIVE times (line, expression, zone, number, at) AS (
    SELECT line, expression, zone, 0, after FROM asked
    UNION ALL
    SELECT line, expression, zone, number + 1, holdfast.cron_next(expression, zone, at)
    FROM times WHERE number < 6 AND at IS NOT NULL)
SELECT string_agg(say(at) || ' ', '' ORDER BY number) FROM times WHERE number > 0 AND at IS NOT NULL
    GROUP BY line ORDER BY line;
\o back
-- Going back from the last of them leads through all of them.
WITH RECURSIVE times (line, expression, zone, number, at) AS (
    SELECT line, expression, zone, 0, after FROM asked
    UNION ALL
    SELECT line, expression, zone, number + 1, holdfast.cron_next(expression, zone, at)
    FROM times WHERE number < 6 AND at IS NOT NULL),
pairs AS (SELECT *, lag(at) OVER (PARTITION BY line ORDER BY number) AS before FROM times
    WHERE number > 0)
SELECT line, expression, zone, at, before,
       holdfast_private.cron_previous(holdfast_private.cron_parse(expression), zone, at) AS found
FROM pairs WHERE before IS NOT NULL AND at IS NOT NULL
    AND holdfast_private.cron_previous(holdfast_private.cron_parse(expression), zone,
        at) IS DISTINCT FROM before;
SQL
} >compare.sql
ok "cron_next computes the times of all expressions" psql -qXAt -v ON_ERROR_STOP=1 -f compare.sql
ok "cron_next returns times for each expression" same "$(wc -l <asked)" "$(wc -l <by_sql)"
diff by_c by_sql >differences || paste -d'#' asked by_c by_sql | awk -F'#' '$2 != $3' | head -5
ok "cron_next returns the times that schedule next prints" test ! -s differences
cat back
ok "cron_previous leads back through the times of cron_next" test ! -s back

for wrong in '0 25 * * *' '* * *' '0 0 30 2 *' '@never' 'a * * * *' '5-3 * * * *' '*/61 * * * *' \
    '0 0 L * *' '? * * * *' '' '1,, * * * *' '@every' '@every 5' '@every 0s' '@every 366d' \
    '@every 5m1h' '@every 1500ms' '@every 5m 3m'; do
    fails "cron_next refuses the expression '$wrong'" \
        "SELECT holdfast.cron_next('$wrong')" 'HF001: cron expression*'
done
done_testing
