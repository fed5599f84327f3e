#!/usr/bin/env bash
# What is counted as pending when not all of it is looked at: right, or a lower limit that says so.
. "$(dirname "$0")/lib.sh"
cluster
schema
pending() { echo "SELECT p.count, p.more FROM holdfast_private.subscriptions s,
    holdfast.pending_1(s.id, 10000) p WHERE s.name = '$1'"; }
sql "SELECT FROM holdfast.create_subscription('default', 'ordered', '{t}', 'start', 'ordered',
                                                options => '{\"partitions\": 2}');
     SELECT FROM holdfast.create_subscription('default', 'shared', '{t}', 'start', 'shared');
     SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[45000]),
                                       array_fill('1'::json, ARRAY[45000]))" >/dev/null
is "pending events are counted up to the limit" "$(pending ordered)" "10000|t"
# settle FROM TO: events of the ordered one are settled ahead of its checkpoints
settle() { sql "INSERT INTO holdfast_private.settled (subscription_id, partition, position)
    SELECT s.id, e.hash % 2, e.position FROM holdfast_private.subscriptions s,
        holdfast_private.events_1 e
    WHERE s.name = 'ordered' AND e.position BETWEEN $1 AND $2"; }
settle 1 9000 >/dev/null
is "events that are settled ahead of the checkpoint are not pending" "SELECT p.count <= 36000
    FROM holdfast_private.subscriptions s, holdfast.pending_1(s.id, 100000) p
    WHERE s.name = 'ordered'" t
settle 9001 45000 >/dev/null
is "if more events are settled ahead than are looked at, pending says that there are more" \
    "$(pending ordered)" "0|t"

# --- Holes with many events in them ---
journal() { sql "UPDATE holdfast_private.checkpoints_$1 c SET checkpoint = 44000,
    holes = ARRAY[ROW($2, $3, now(), NULL, NULL, NULL)::holdfast_private.hole]
    FROM holdfast_private.subscriptions s WHERE s.id = c.subscription_id AND s.name = 'shared'"; }
journal 0 1 2000; journal 1 1 2000
is "events that have become visible in a hole are pending" "$(pending shared)" "3000|f"
journal 0 1 4000; journal 1 1 4000
is "if a hole has more events than are looked at, pending says that there are more" \
    "SELECT p.count <= 5000, p.more FROM holdfast_private.subscriptions s,
     holdfast.pending_1(s.id, 10000) p WHERE s.name = 'shared'" "t|t"

done_testing
