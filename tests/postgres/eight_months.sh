#!/usr/bin/env bash
# Eight months pass on the server, in months that are a moment long for all others: its clock is set
# ahead (tests/preload/clock.c). Publishing never stops, a worker that runs all the time gets
# everything, retention keeps its word, a schedule fires each planned time once; and nothing of that
# is undone when the clock is set back.
. "$(dirname "$0")/lib.sh"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
cluster --preload clock
schema
url="postgresql:///$PGDATABASE?host=$PGHOST&user=$PGUSER"
handled=$cluster_dir/handled
export HANDLED=$handled
: >"$handled"

# ahead DAYS: by so many the server's clock is ahead from now on. No process may read half of it.
ahead() {
    echo $(($1 * 86400)) >"$cluster_dir/clock.new"
    chmod 644 "$cluster_dir/clock.new"
    mv "$cluster_dir/clock.new" "$cluster_dir/clock"
}
# tick: what one who runs no process calls every second, until there is no more to do.
tick() {
    local more=t
    while [ "$more" = t ]; do more=$(sql "SELECT more FROM holdfast.tick()"); done
    while [ "$(sql "SELECT holdfast.retain('default')")" = 1 ]; do :; done
}
publish_all() {
    sql "SELECT count(holdfast.publish('default', 'by.sql')) FROM generate_series(1, 5)" &&
        for _ in 1 2; do "$HOLDFAST" publish by.library '{}' --db "$url" >/dev/null || return; done
}
# gets: the worker has everything that is in the log.
gets() { becomes "SELECT lag FROM holdfast.stats('default') WHERE subscription = 'all'" 0; }

ok "namespace set keeps events for two months" \
    "$HOLDFAST" namespace set default --retain-age 62d --db "$url"
is "create_schedule makes a schedule for the first of each month" \
    "SELECT length(holdfast.create_schedule('default',
    'monthly', '0 0 1 * *', 'by.schedule', misfire => 'all')::text) > 0" t
# It looks each second: publishers ring for consumers that sleep by the server's clock, which is
# ahead of this one's.
# shellcheck disable=SC2016  # the command's own variables
"$HOLDFAST" work all --on '**' --from start --wait-period 1s \
    --exec 'echo $HOLDFAST_POSITION $HOLDFAST_TYPE >>"$HANDLED"' \
    --db "$url" >/dev/null 2>"$cluster_dir/work.log" </dev/null &
worker=$!

first=$(sql "SELECT date_trunc('month', now() AT TIME ZONE 'UTC')")
for month in 1 2 3 4 5 6 7 8; do
    ahead $((month * 31))
    ok "SQL and the library publish in month $month" publish_all
    ok "the housekeeping of month $month succeeds" tick
    ok "the worker gets everything of month $month" gets
    ok "retention of month $month succeeds" tick
done
kill -TERM $worker
wait $worker
ok "the worker exits with 0 after eight months" same 0 $?

is "setup: eight months have passed on the server" "SELECT date_trunc('month',
    now() AT TIME ZONE 'UTC') >= '$first'::timestamp + interval '8 months'" t
is "the log has what is younger than two months, and at most one month more" \
    "SELECT min(entered_at) BETWEEN now() - interval '93 days' AND now() - interval '62 days',
    count(DISTINCT tableoid) <= 4 FROM holdfast_private.events_1" "t|t"
is "the schedule has fired once for each month" \
    "SELECT count(*) = (SELECT count(*) FROM generate_series('$first'::timestamp + interval
    '1 month', now() AT TIME ZONE 'UTC', '1 month')), count(*) = count(DISTINCT planned_at)
    FROM holdfast_private.schedule_runs" "t|t"
fired=$(sql "SELECT count(*) FROM holdfast_private.schedule_runs")
ok "the worker got each event of eight months" \
    same $((8 * 7 + fired)) "$(sort -u "$handled" | wc -l)"
ok "the worker got no event of eight months twice" \
    same "$(sort -u "$handled" | wc -l)" "$(wc -l <"$handled")"
ok "verify finds nothing after eight months" "$HOLDFAST" verify --db "$url"

# A transaction that was prepared a month ago.
sql "BEGIN; CREATE TABLE mine (); PREPARE TRANSACTION 'it''s mine'" >/dev/null
ahead $((9 * 31))
examined() {
    "$HOLDFAST" doctor --json --db "$url" | grep '"name":"forgotten_prepared"' >"$cluster_dir/found"
    cat "$cluster_dir/found"
    grep '"level":"warn"' "$cluster_dir/found" | grep -E "$1"
}
ok "doctor warns of a forgotten prepared transaction" examined \
    "\"value\":\"'it''s mine' of role holdfast, prepared for [0-9]+ s\""
ok "doctor says how a prepared transaction is ended, by whom and where" examined \
    "As holdfast or a superuser, in database test1: ROLLBACK PREPARED 'it''s mine'; or COMMIT PREP"
ok "setup: the prepared transaction is rolled back" sql "ROLLBACK PREPARED 'it''s mine'"
ok "doctor does not warn after the prepared transaction has ended" same '' "$(examined .)"
ahead $((8 * 31))

# A day back: what was, stays.
head=$(sql "SELECT max(position) FROM holdfast_private.events_1")
ahead $((8 * 31 - 1))
ok "SQL and the library publish when the clock was set back" publish_all
ok "the housekeeping succeeds when the clock was set back" tick
is "no planned time comes again when the clock was set back" \
    "SELECT count(*) FROM holdfast_private.schedule_runs" "$fired"
is "positions go on when the clock was set back" \
    "SELECT count(*) FROM holdfast_private.events_1 WHERE position > $head" 7
done_testing
