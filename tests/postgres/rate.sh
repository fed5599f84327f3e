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
is "a claim gets nothing when the rate is used up" "$claimed" 0
filled 1
is "a claim gets an event after the time of the rate" "$claimed" 1
filled 1
is "a claim that is rolled back takes nothing of the rate" \
    "BEGIN; $claimed; ROLLBACK; $claimed" "1 1"
filled 1
is "a claim gives back what it does not hand out of the rate" "UPDATE holdfast_private.subscriptions
    SET paused_at = now(); $claimed; UPDATE holdfast_private.subscriptions SET paused_at = NULL;
    $claimed" "0 1"
is "a claim without a rate hands out all events" \
    "SELECT holdfast.alter_subscription('default', 'jobs',
    options => '{\"rate_events\": 0}'); $claimed" " 5"
sql "SELECT holdfast.alter_subscription('default', 'jobs',
         options => '{\"rate_events\": 100, \"rate_ms\": 1000}');
     SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[3]), NULL)" >/dev/null
is "a claim of few events gives the rest of what the rate granted back" \
    "UPDATE holdfast_private.rates SET empty_at = clock_timestamp() - interval '1 s'; $claimed;
    SELECT granted BETWEEN 90 AND 100
        FROM holdfast.change_rate_take(1, 1, 100, 1000000, 1000)" "3 t"

# --- The bucket ---
set_empty="UPDATE holdfast_private.rates SET empty_at = clock_timestamp()"
is "a rate of 100 a second grants 50 in half a second" "$set_empty - interval '0.5 s';
    SELECT granted BETWEEN 50 AND 99 FROM holdfast.change_rate_take(1, 1, 100, 1000000, 1000)" t
is "a rate that is not taken is lost after its time" "$set_empty - interval '1 h'; $take, 1000)" 100
is "change_rate_take returns how long to wait when nothing is left" "$set_empty; SELECT granted,
    wait_us BETWEEN 3500000000 AND 3600000001
    FROM holdfast.change_rate_take(1, 1, 1, 3600000000, 1)" "0|t"
is "a part of a rate that is given back can be taken again" "$take, -20); $take, 20)" "-20 20"
is "a clock that was set back does not stop a rate" "$set_empty + interval '1 day';
    SELECT granted, wait_us BETWEEN 3500000000 AND 3600000001
    FROM holdfast.change_rate_take(1, 1, 1, 3600000000, 1)" "0|t"
is "a rate goes on from the time to which the clock was set back" \
    "SELECT empty_at <= clock_timestamp() FROM holdfast_private.rates" t
is "change_rate_take of an unknown subscription is not found" \
    "SELECT status FROM holdfast.change_rate_take(1, 99, 100, 1000000, 1)" 3
fails "change_rate_take refuses more than its limit" \
    "$take, 1000001)" "HF001: a rate of 100 in 1000000 us is outside*"
fails "change_rate_take refuses to take back more than its limit" \
    "$take, -1000001)" "HF001: a rate of 100 in 1000000 us is outside*"
fails "change_rate_take refuses a time of zero" \
    "SELECT FROM holdfast.change_rate_take(1, 1, 100, 0, 1)" "HF001: *is outside its limits"
fails "change_rate_take refuses a rate of zero" \
    "SELECT FROM holdfast.change_rate_take(1, 1, 0, 1000000, 1)" "HF001: *is outside its limits"
fails "change_rate_take refuses a rate that is NULL" \
    "SELECT FROM holdfast.change_rate_take(1, 1, NULL, 1000000, 1)" "HF001: *is outside its limits"

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer >= 150000")" = t ]; then
    sql "SELECT holdfast.create_namespace('shop');
         SELECT holdfast.create_subscription('shop', 'theirs', '{**}', 'start', mode => 'shared',
             options => '{\"rate_events\": 2, \"rate_ms\": 3600000}');
         CREATE ROLE rate_consumer LOGIN; CREATE ROLE rate_viewer LOGIN;
         SELECT holdfast.namespace_grant('consumer', 'default', 'rate_consumer');
         SELECT holdfast.namespace_grant('viewer', 'default', 'rate_viewer')" >/dev/null
    theirs=$(sql "SELECT id FROM holdfast_private.subscriptions WHERE name = 'theirs'")
    shop=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'shop'")
    as() { echo "SET SESSION AUTHORIZATION $1; $2"; } # ROLE SQL
    is "a consumer may take from the rate of its namespace" \
        "$(as rate_consumer "SELECT status FROM holdfast.change_rate_take(1, 1, 2, 1000000, 0)")" 0
    is "a consumer does not find a subscription of another namespace by its number" \
        "$(as rate_consumer \
            "SELECT status FROM holdfast.change_rate_take(1, $theirs, 2, 1000000, 1)")" 3
    fails "a consumer of another namespace cannot call change_rate_take with its number" \
        "$(as rate_consumer \
            "SELECT FROM holdfast.change_rate_take($shop, $theirs, 2, 1000000, 1)")" "42501: *"
    fails "a viewer cannot call change_rate_take" \
        "$(as rate_viewer "SELECT FROM holdfast.change_rate_take(1, 1, 2, 1000000, 1)")" "42501: *"
    is "the rate of another namespace is untouched" "SELECT count(*)
        FROM holdfast_private.rates WHERE subscription_id = $theirs" 0
fi
is "dropping a subscription drops its rate" "SELECT holdfast.drop_subscription('default', 'jobs');
    SELECT count(*) FROM holdfast_private.rates" " 0"

done_testing
