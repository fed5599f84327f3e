#!/usr/bin/env bash
# The rate of a subscription in SQL: claims take from it, give back what they did not hand out, and
# lose it with a rollback; one bucket is the same in C and in SQL.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
sql "SELECT holdfast.create_subscription('default', 'jobs', ARRAY['**'], 'start', mode => 'shared',
         options => '{\"rate_events\": 2, \"rate_ms\": 3600000}');
     SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[9]), NULL)" >/dev/null
claimed="SELECT count(*) FROM holdfast.claim('default', 'jobs')"
# filled TOKENS: so many are in the bucket
filled() {
    sql "INSERT INTO holdfast_private.rates VALUES (1, now()) ON CONFLICT DO NOTHING;
         UPDATE holdfast_private.rates SET empty_at = clock_timestamp() - $1 * interval '1800 s'" \
        >/dev/null
}
take="SELECT granted FROM holdfast.change_rate_take(1, 1, 100, 1000000"
is "a claim gets what the rate allows" "$claimed" 1
is "and then nothing" "$claimed" 0
filled 1
is "after its time the next" "$claimed" 1
filled 1
is "one that is rolled back has taken nothing" "BEGIN; $claimed; ROLLBACK; $claimed" "1 1"
filled 1
is "what is not handed out is given back" "UPDATE holdfast_private.subscriptions
    SET paused_at = now(); $claimed; UPDATE holdfast_private.subscriptions SET paused_at = NULL;
    $claimed" "0 1"
is "without a rate all are handed out" "SELECT holdfast.alter_subscription('default', 'jobs',
    options => '{\"rate_events\": 0}'); $claimed" " 5"

# --- The bucket ---
set_empty="UPDATE holdfast_private.rates SET empty_at = clock_timestamp()"
is "100 a second are 50 in half a second" "$set_empty - interval '0.5 s';
    SELECT granted BETWEEN 50 AND 99 FROM holdfast.change_rate_take(1, 1, 100, 1000000, 1000)" t
is "what is not taken is lost after a second" "$set_empty - interval '1 h'; $take, 1000)" 100
is "when none is left it says when there is" "$set_empty; SELECT granted,
    wait_us BETWEEN 3500000000 AND 3600000001
    FROM holdfast.change_rate_take(1, 1, 1, 3600000000, 1)" "0|t"
is "what is given back can be taken again" "$take, -20); $take, 20)" "-20 20"
is "a clock that was set back does not stop it" "$set_empty + interval '1 day';
    SELECT granted, wait_us BETWEEN 3500000000 AND 3600000001
    FROM holdfast.change_rate_take(1, 1, 1, 3600000000, 1)" "0|t"
is "there is no such subscription" \
    "SELECT status FROM holdfast.change_rate_take(1, 99, 100, 1000000, 1)" 3
fails "a rate has its limits" "$take, 1000001)" "HF001: a rate of 100 in 1000000 us is outside*"
is "it goes with its subscription" "SELECT holdfast.drop_subscription('default', 'jobs');
    SELECT count(*) FROM holdfast_private.rates" " 0"

done_testing
