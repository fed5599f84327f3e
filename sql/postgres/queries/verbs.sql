-- Statements of subscriptions: changes, progress, leases, retries, dead letters.
--
-- A change is a call of its function (functions/), so it is one statement.
-- So is every query, and one statement reads one snapshot: what belongs together is asked for
-- together. Functions that read more for a query are STABLE, so they see the query's snapshot.
-- Wherever a subscription is named by its id the namespace is checked too.
--
-- The log has an index on (position) and one on (id, guard_at) per month, and no statistics that
-- could be relied on. Where one event is looked for by its position, this is written as "the first
-- at or after it": there is only one plan for that.

-- ---- Changes ------------------------------------------------------------------------------------

-- name: change_subscription_put
SELECT status, message, id, created
    FROM holdfast.change_subscription_put($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: change_subscription_remove
SELECT status, message FROM holdfast.change_subscription_remove($1, $2);

-- name: change_pause
SELECT status, message FROM holdfast.change_pause($1, $2, $3, $4, $5, $6);

-- name: change_breaker
SELECT status, message FROM holdfast.change_breaker($1, $2, $3);

-- name: change_seek
SELECT status, message FROM holdfast.change_seek($1, $2, $3, $4);

-- name: change_members_refresh
SELECT status, message, ring, members_version, members, assigned, owners, seen, seen_renewals,
       other_name, lowest, highest
    FROM holdfast.change_members_refresh($1, $2, $3, $4, $5, $6, $7, $8);

-- name: change_repartition
SELECT status, message, changed, owner, owner_renewals
    FROM holdfast.change_repartition($1, $2, $3, $4, $5, $6);

-- name: change_acquire
SELECT status, message, epoch, checkpoint, generation, unclean, owner, owner_renewals,
       doubt_through
    FROM holdfast.change_acquire($1, $2, $3, $4, $5, $6, $7, $8);

-- name: change_give_back
SELECT status, message FROM holdfast.change_give_back($1, $2, $3, $4);

-- name: change_depart
SELECT status, message, remaining FROM holdfast.change_depart($1, $2, $3);

-- name: change_settle
SELECT status, message, generation, lane_busy
    FROM holdfast.change_settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                                $16, $17, $18, $19, $20, $21, $22, $23, $24);

-- name: change_checkpoints
SELECT status, message, generation, stale, due
    FROM holdfast.change_checkpoints($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: change_claim
SELECT status, message, lease, expires_at, wake_at, paused, more, careful, owners, owner_renewals,
       unhandled
    FROM holdfast.claim_{namespace}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                                    $15, $16, $17, $18);

-- name: change_rate_take
SELECT status, message, granted, wait_us FROM holdfast.change_rate_take($1, $2, $3, $4, $5);

-- name: claim_events
-- The events of the lease $2 that change_claim has made for the subscription $1, in the same
-- transaction.
SELECT position, id, type, payload, key, tenant, metadata, producer, schedule_id, key_version, hash,
       emitted_at, entered_at, checksum, attempts, uncounted, story, cause, unit_first, unit_events,
       waited, deliveries
    FROM holdfast.lease_events_{namespace}($1, $2);

-- name: change_settle_lease
SELECT status, message, ring
    FROM holdfast.change_settle_lease($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                                      $15, $16, $17, $18, $19, $20, $21, $22);

-- name: change_dead_retry
SELECT status, message, count, resolved FROM holdfast.change_dead_retry($1, $2, $3, $4);

-- name: change_cancel
SELECT status, message, state, waited, lane_busy, ring
    FROM holdfast.change_cancel($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: cancels_requested
SELECT c.position, c.hash FROM holdfast.read_cancels() c
    WHERE c.subscription_id = $1 AND c.cancelled_at IS NULL ORDER BY c.position LIMIT $2;

-- name: change_dead_resolve
SELECT status, message FROM holdfast.change_dead_resolve($1, $2, $3, $4, $5);

-- name: change_dead_purge
SELECT status, message, count FROM holdfast.change_dead_purge($1, $2, $3);

-- name: process_close
SELECT holdfast.process_close($1, $2, $3);

-- ---- Subscriptions ------------------------------------------------------------------------------

-- name: subscription_get
SELECT id, name, patterns, options, mode, partitions, generation, created_at, start, paused_at,
       paused_by, paused_reason, breaker, wanted, dropped_through, dropped
    FROM holdfast.read_subscriptions()
    WHERE namespace_id = $1 AND name = $2
        AND holdfast.may_see($1, 'subscriptions', 'viewer', 'consumer', 'owner');

-- name: subscription_by_id
SELECT id, name, patterns, options, mode, partitions, generation, created_at, start, paused_at,
       paused_by, paused_reason, breaker, wanted, dropped_through, dropped
    FROM holdfast.read_subscriptions() WHERE id = $2 AND namespace_id = $1;

-- name: subscription_list
SELECT id, name, patterns, options, mode, partitions, generation, created_at, start, paused_at,
       paused_by, paused_reason, breaker, wanted, dropped_through, dropped
    FROM holdfast.read_subscriptions()
    WHERE namespace_id = $1 AND holdfast.may_see($1, 'subscriptions', 'viewer', 'consumer', 'owner')
    ORDER BY name;

-- A row per partition that $3 owns; one without a partition if there is none.
-- name: subscription_standing
SELECT s.generation, s.members_version, p.partition, p.epoch
    FROM holdfast.read_subscriptions() s
    LEFT JOIN holdfast.read_partitions() p ON p.subscription_id = s.id AND p.owner = $3
    WHERE s.id = $2 AND s.namespace_id = $1 ORDER BY p.partition;

-- ---- Progress -----------------------------------------------------------------------------------

-- The numbers of the subscriptions $2, in this order: see holdfast.progress_of.
-- name: progress
SELECT p.id, p.mode, p.checkpoint, p.checkpoint_at, p.last_event_id, p.owner, p.owner_name,
       greatest(p.checkpoint, (SELECT e.position FROM holdfast.times_{namespace}() e
                               ORDER BY e.position DESC LIMIT 1)),
       p.in_flight, p.retrying, p.held, p.blocked, p.dead, p.lowest,
       coalesce(p.copied_at,
                (SELECT e.entered_at FROM (
                     SELECT e.position, e.entered_at FROM holdfast.times_{namespace}() e
                     WHERE e.position >= p.first_open ORDER BY e.position LIMIT 1) e
                 WHERE e.position = p.first_open)),
       p.owner_alive, p.unowned, (p.rate * 1000000)::bigint, p.next_attempt_at, p.lease_ended,
       p.lease_ended_at, p.claimed_at
    FROM holdfast.progress_of($1, $2, $3, $4) p;

-- name: pending
SELECT p.count, p.more, p.first_at FROM holdfast.pending_{namespace}($1, $2) p;

-- The leases of a subscription; without any, one row of NULLs tells that the subscription is there.
-- name: lease_list
SELECT l.lease::uuid, l.node, l.claimed_at, l.expires_at, l.kept, l.ended, l.positions
    FROM holdfast.read_subscriptions() s
    LEFT JOIN LATERAL holdfast.lease_rows($1, s.id, $3, $4) l ON true
    WHERE s.id = $2 AND s.namespace_id = $1;

-- Members that live (0), by their joining, then partitions (1): whose each is. $3: this process,
-- which lives. `checkpoint` is NULL as in progress.
-- name: partitions
WITH about AS MATERIALIZED (
        SELECT s.id FROM holdfast.read_subscriptions() s WHERE s.id = $2 AND s.namespace_id = $1),
    parts AS MATERIALIZED (
        SELECT c.partition, c.epoch, c.checkpoint, c.checkpoint_at, c.owner, c.owner_name
        FROM about JOIN holdfast.read_checkpoints() c ON c.subscription_id = about.id),
    working AS MATERIALIZED (
        SELECT m.id, m.token, m.assigned
        FROM about JOIN holdfast.read_members() m ON m.subscription_id = about.id),
    gone AS MATERIALIZED (
        SELECT holdfast.dead_of($1, ARRAY(SELECT t.token FROM (
                   SELECT p.owner FROM parts p UNION SELECT c.token FROM working c) t (token)
                   WHERE t.token <> $3::uuid)) AS tokens),
    living AS MATERIALIZED (
        SELECT row_number() OVER (ORDER BY c.id) - 1 AS member, c.token, c.assigned
        FROM working c, gone WHERE c.token <> ALL (gone.tokens)),
    waiting AS MATERIALIZED (
        SELECT r.partition, count(*) FILTER (WHERE r.kind = RETRY_WAITING) AS retrying,
               count(*) FILTER (WHERE r.kind = RETRY_HELD) AS held,
               count(*) FILTER (WHERE r.kind = RETRY_BLOCKED) AS blocked
        FROM holdfast.read_retries() r WHERE r.subscription_id = $2 GROUP BY r.partition)
SELECT 0 AS what, l.member AS number, l.assigned AS word, NULL::bigint, NULL::bigint,
       NULL::timestamptz, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
    FROM living l
UNION ALL
SELECT 1, p.partition, p.owner_name, p.epoch, p.checkpoint, p.checkpoint_at,
       CASE WHEN p.owner IS NOT NULL THEN p.owner <> ALL (gone.tokens) END,
       (SELECT l.member FROM living l WHERE l.token = p.owner),
       coalesce(w.retrying, 0), coalesce(w.held, 0), coalesce(w.blocked, 0)
    FROM gone CROSS JOIN parts p LEFT JOIN waiting w ON w.partition = p.partition
ORDER BY what, number;

-- Keys that wait for a dead letter: at most $4 after position $3. The first row tells whether there
-- is such a subscription at all, and is all there is to it if no key is blocked.
-- name: blocked
WITH about AS MATERIALIZED (
        SELECT s.id, s.name FROM holdfast.read_subscriptions() s
        WHERE s.id = $2 AND s.namespace_id = $1),
    blocked AS MATERIALIZED (
        SELECT r.position, r.partition, r.lane, r.last_retry_at
        FROM about JOIN holdfast.read_retries() r ON r.subscription_id = about.id
        WHERE r.kind = RETRY_BLOCKED AND r.position > $3 ORDER BY r.position LIMIT $4::integer)
SELECT b.position, b.partition, b.last_retry_at,
       (SELECT count(*) FROM holdfast.read_retries() r
        WHERE r.subscription_id = $2 AND r.partition = b.partition AND r.lane = b.lane
            AND r.position > b.position),
       d.id, e.id, e.type, e.tenant, e.key
    FROM about LEFT JOIN blocked b ON true
    LEFT JOIN holdfast.events_at($1, $2, ARRAY(SELECT position FROM blocked)) e
        ON e.position = b.position
    LEFT JOIN LATERAL (SELECT holdfast.letter_of($1, about.name, e.id) AS id) d ON true
    ORDER BY b.position;

-- Retries of the subscription $2 (holdfast.retry_rows); without any, one row of NULLs tells that
-- the subscription is there.
-- name: retry_list
SELECT r.position, r.partition, r.kind, r.attempts, r.cause, r.story, r.failed_at,
       r.next_attempt_at, r.first, r.held, r.event_id, r.type, r.tenant, r.key
    FROM holdfast.read_subscriptions() s
    LEFT JOIN LATERAL holdfast.retry_rows($1, s.id, $3, $4, $5, $6, $7) WITH ORDINALITY r ON true
    WHERE s.id = $2 AND s.namespace_id = $1 ORDER BY r.ordinality;

-- What runs for the ordered subscription $2: at most $4 after position $3. The first row tells
-- whether there is such a subscription at all. $5: this process, which lives.
-- name: running_list
WITH about AS MATERIALIZED (
        SELECT s.id, s.partitions FROM holdfast.read_subscriptions() s
        WHERE s.id = $2 AND s.namespace_id = $1),
    owners AS MATERIALIZED (
        SELECT ARRAY(SELECT DISTINCT p.owner FROM about
                     JOIN holdfast.read_partitions() p ON p.subscription_id = about.id
                     WHERE p.owner IS NOT NULL) AS tokens),
    gone AS MATERIALIZED (
        SELECT holdfast.dead_of($1, array_remove(owners.tokens, $5::uuid)) AS tokens FROM owners),
    running AS MATERIALIZED (
        SELECT u.position, u.since, p.node_name, p.host, p.pid
        FROM about CROSS JOIN owners CROSS JOIN gone
        JOIN holdfast.read_processes() p ON p.namespace_id = $1 AND p.token = ANY (owners.tokens)
        CROSS JOIN LATERAL unnest(p.running_subscriptions, p.running_positions, p.running_since)
            u (id, position, since)
        WHERE u.id = about.id AND u.position > $3 AND p.token <> ALL (gone.tokens)
        ORDER BY u.position LIMIT $4::integer)
SELECT r.position, e.hash % about.partitions, r.since, r.node_name, r.host, r.pid, e.id, e.type,
       e.tenant, e.key
    FROM about LEFT JOIN running r ON true
    LEFT JOIN holdfast.events_at($1, $2, ARRAY(SELECT position FROM running)) e
        ON e.position = r.position
    ORDER BY r.position;

-- Positions that a subscription's checkpoint waits for: those that are missing below visible ones,
-- and who has published and has not ended; at most $3 are counted. An ordered subscription's are
-- read off the log, a shared one's are stored with its cursor. `checkpoint`: as in progress.
-- name: gaps
WITH about AS MATERIALIZED (
        SELECT s.mode, c.checkpoint, c.holes
        FROM holdfast.read_subscriptions() s
        JOIN holdfast.read_checkpoints() c ON c.subscription_id = s.id AND c.partition = 0
        WHERE s.id = $2 AND s.namespace_id = $1),
    gaps AS MATERIALIZED (
        SELECT g.before + 1 AS first
        FROM (SELECT e.position, lag(e.position, 1, about.checkpoint) OVER (ORDER BY e.position)
                         AS before
              FROM about CROSS JOIN LATERAL (
                  SELECT e.position FROM holdfast.times_{namespace}() e
                  WHERE about.mode = HF_MODE_ORDERED AND e.position > about.checkpoint
                  ORDER BY e.position LIMIT 4 * $3::bigint) e) g
        WHERE g.before < g.position - 1
        UNION ALL
        SELECT h.low FROM about CROSS JOIN LATERAL unnest(about.holes) h
            WHERE about.mode = HF_MODE_SHARED),
    holders AS MATERIALIZED (
        SELECT l.pid
        FROM holdfast.publishing_now({namespace}) l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        ORDER BY a.xact_start NULLS FIRST)
SELECT about.checkpoint, (SELECT min(g.first) FROM gaps g),
       (SELECT least(count(*), $3::bigint) FROM gaps g),
       (SELECT count(*) FROM holders), (SELECT h.pid FROM holders h LIMIT 1)
    FROM about;

-- Who has published and has not ended (as read_holders), told for people, the oldest first. How
-- long others are in their transaction only some roles may see.
-- name: gap_holders
WITH locks AS MATERIALIZED (SELECT * FROM pg_locks)
SELECT l.pid, coalesce(quote_literal(p.gid) || ' of role ' || p.owner, a.application_name), a.state,
       (extract(epoch FROM clock_timestamp() - coalesce(p.prepared, a.xact_start)) * 1000)::bigint
    FROM holdfast.publishing_now({namespace}) l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    LEFT JOIN locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid'
        AND x.virtualtransaction = l.virtualtransaction
    LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
    ORDER BY 4 DESC NULLS LAST, 1;

-- Where one event is in the subscriptions $2: $3 its id, $4 its position, $5 its hash. A position
-- that a shared subscription's cursor has passed without seeing it counts as not passed.
-- name: delivery_facts
SELECT f.subscription_id, f.mode, f.start, f.checkpoint, f.settled, f.leased, f.lease_ended, f.node,
       f.since, f.kind, f.attempts, f.next_attempt_at, f.story, f.cause, f.dead_id, f.dead_attempts,
       f.dead_story, f.dead_cause, f.deliveries, f.dead_deliveries, f.kept, f.kept_attempts,
       f.kept_story, f.kept_cause, f.kept_deliveries, f.lease_times, f.cancel_requested_at,
       f.cancelled_at, f.cancelled_by, f.cancel_reason
    FROM holdfast.delivery_facts($1, $2, $3, $4, $5, $6, $7) f;

-- ---- The log ------------------------------------------------------------------------------------

-- name: event_find
SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer, e.schedule_id,
       e.key_version, e.hash, e.emitted_at, e.entered_at, e.checksum
    FROM holdfast.find_id($1, $2) f
    CROSS JOIN LATERAL (SELECT * FROM holdfast.log_{namespace}() e
                        WHERE e.id = $2 AND e.guard_at = f.guard_at LIMIT 1) e;

-- Whatever was ever published may still be in the log, or come into it when its transaction
-- commits. What is visible need not be the oldest: a transaction that is open may have drawn a
-- lower position. But none has drawn one that retention has passed; and months overlap a little in
-- their positions.
-- name: head_and_first
SELECT holdfast.head($1), least(n.retained_through + 1,
                                (SELECT e.position FROM holdfast.times_{namespace}() e
                                 ORDER BY e.position LIMIT 1))
    FROM holdfast.read_namespaces() n WHERE n.id = $1;

-- name: last
SELECT e.position FROM holdfast.times_{namespace}() e ORDER BY e.position DESC LIMIT 1;

-- name: position_before
SELECT holdfast.position_before($1, $2, $3);

-- ---- Retries ------------------------------------------------------------------------------------

-- What is due of the partitions $2, but for the positions $6, by due time, at most $4 and about $5
-- bytes (but one): the event's columns, then those of its attempts, then when the next one that is
-- not due yet will be. At least one row: position NULL if nothing is due. Not what is behind the
-- first of its lane if that is due later, or blocked: several of a lane wait when they failed as a
-- unit, follow one, or their process died.
--   It is asked for whenever something failed, and by every subscription when there is news, so its
-- one plan is kept: an event is looked up here, not by events_at, which has its statement planned
-- anew each time. First the copy that a dead letter left with the subscription; the log only if
-- there is none. Numbers of partitions are compared with their limits so that the server expects
-- one of them and not ten: else a plan that is made for each call seems cheaper to it than the one
-- that is kept, and making it takes 1.5 ms where running it takes 0.04.
-- name: retries_due
WITH due AS MATERIALIZED (
        SELECT r.position, r.attempts, r.uncounted, r.story, r.cause, r.unit_first, r.unit_events,
               r.deliveries, r.next_attempt_at
        FROM unnest($2::integer[]) o (partition)
        CROSS JOIN LATERAL (
            SELECT * FROM holdfast.read_retries() r
            WHERE r.subscription_id = $1 AND r.partition = o.partition AND r.kind = RETRY_WAITING
                AND r.next_attempt_at <= $3
                AND r.position NOT IN (SELECT unnest($6::bigint[]))
                AND NOT EXISTS (
                    SELECT FROM holdfast.lane_first($1, o.partition, r.lane) f
                    WHERE f.kind = RETRY_BLOCKED OR f.kind = RETRY_WAITING
                        AND f.next_attempt_at > r.next_attempt_at)
            ORDER BY r.next_attempt_at, r.position LIMIT $4) r
        WHERE o.partition >= 0 AND o.partition < HF_PARTITIONS_MAX
        ORDER BY r.next_attempt_at, r.position LIMIT $4),
    found AS (
        SELECT e.*, due.attempts, due.uncounted, due.story, due.cause, due.unit_first,
               due.unit_events, due.deliveries, due.next_attempt_at,
               sum(octet_length(e.payload::text)) OVER (ORDER BY due.next_attempt_at, due.position)
                   - octet_length(e.payload::text) AS bytes_before
        FROM due
        LEFT JOIN LATERAL (
            SELECT * FROM holdfast.read_copies() c
            WHERE c.subscription_id = $1 AND c.position = due.position LIMIT 1) c ON true
        CROSS JOIN LATERAL (
            SELECT c.position, c.id, c.type, c.payload, c.key, c.tenant, c.metadata, c.producer,
                   c.schedule_id, c.key_version, c.hash, c.emitted_at, c.entered_at,
                   c.checksum
            WHERE c.position IS NOT NULL
            UNION ALL
            SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                   e.schedule_id, e.key_version, e.hash, e.emitted_at, e.entered_at,
                   e.checksum
            FROM (SELECT * FROM holdfast.log_{namespace}() e
                  WHERE e.position >= due.position ORDER BY e.position LIMIT 1) e
            WHERE c.position IS NULL AND e.position = due.position) e)
SELECT f.position, f.id, f.type, f.payload, f.key, f.tenant, f.metadata, f.producer, f.schedule_id,
       f.key_version, f.hash, f.emitted_at, f.entered_at, f.checksum, f.attempts, f.uncounted,
       f.story, f.cause, f.unit_first, f.unit_events, f.deliveries,
       (SELECT min(n.next_attempt_at) FROM unnest($2::integer[]) o (partition)
        CROSS JOIN LATERAL (
            SELECT r.next_attempt_at FROM holdfast.read_retries() r
            WHERE r.subscription_id = $1 AND r.partition = o.partition AND r.kind = RETRY_WAITING
                AND r.next_attempt_at > $3
            ORDER BY r.next_attempt_at LIMIT 1) n
        WHERE o.partition >= 0 AND o.partition < HF_PARTITIONS_MAX)
    FROM (SELECT) one LEFT JOIN found f ON f.bytes_before < $5
    ORDER BY f.next_attempt_at, f.position;

-- name: lanes
SELECT r.lane, count(*) FROM holdfast.read_retries() r
    WHERE r.subscription_id = $1 AND r.partition = $2 GROUP BY r.lane ORDER BY r.lane;

-- name: ahead
SELECT s.position FROM holdfast.read_settled() s
    WHERE s.subscription_id = $1 AND s.partition = $2 AND s.position > $3
UNION ALL
SELECT r.position FROM holdfast.read_retries() r
    WHERE r.subscription_id = $1 AND r.partition = $2 AND r.position > $3
ORDER BY position;

-- ---- Leases -------------------------------------------------------------------------------------

-- name: lease_read
-- What is left in the lease $2 of the subscription $1: at least one row, whose position is NULL if
-- there is no event, and whose last column says whether the lease is held.
SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer, e.schedule_id,
       e.key_version, e.hash, e.emitted_at, e.entered_at, e.checksum, e.attempts, e.uncounted,
       e.story, e.cause, e.unit_first, e.unit_events, e.waited, e.deliveries, h.held
    FROM (SELECT EXISTS (SELECT FROM holdfast.read_leases() l
                         JOIN holdfast.read_subscriptions() s ON s.id = l.subscription_id
                         WHERE l.token = $2 AND l.subscription_id = $1 AND l.piece IS NULL
                             AND s.namespace_id = {namespace})) h (held)
    LEFT JOIN holdfast.lease_events_{namespace}($1, $2) e ON true;

-- ---- Dead letters -------------------------------------------------------------------------------

-- name: dead_get
SELECT position, event_id, type, payload, key, tenant, metadata, producer, schedule_id, key_version,
       hash, emitted_at, entered_at, checksum, id, subscription, reason, error, attempts, story,
       failed_at, resolved_at, resolved_by, resolved_note, cause, deliveries
    FROM holdfast.read_letters()
    WHERE id = $2 AND namespace_id = $1
        AND holdfast.may_see($1, 'dead letters', 'viewer', 'consumer', 'owner');

-- A page of a list: ids between $2 and $3, $4 subscription, $5 resolved ones too, $6 a pattern of
-- the type, $7 a part of the error, $8 reason, $9 failed at or before, $10 failed at or after, $11
-- at most, $12 skipped. NULL: any. These are planned anew each time, so that what is not asked for
-- costs nothing and the index that fits is taken.
-- name: dead_newest
SELECT position, event_id, type, payload, key, tenant, metadata, producer, schedule_id, key_version,
       hash, emitted_at, entered_at, checksum, id, subscription, reason, error, attempts, story,
       failed_at, resolved_at, resolved_by, resolved_note, cause, deliveries
    FROM holdfast.read_letters() d
    WHERE d.namespace_id = $1 AND d.id > $2 AND d.id < $3
        AND holdfast.may_see($1, 'dead letters', 'viewer', 'consumer', 'owner')
        AND ($4::text IS NULL OR d.subscription = $4)
        AND ($5::boolean OR d.resolved_at IS NULL)
        AND ($6::text IS NULL OR coalesce(d.type ~ holdfast.patterns_regex(ARRAY[$6]), true))
        AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
        AND ($8::text IS NULL OR d.reason = $8)
        AND ($9::timestamptz IS NULL OR d.failed_at <= $9)
        AND ($10::timestamptz IS NULL OR d.failed_at >= $10)
    ORDER BY d.id DESC LIMIT $11 OFFSET $12;

-- name: dead_oldest
SELECT position, event_id, type, payload, key, tenant, metadata, producer, schedule_id, key_version,
       hash, emitted_at, entered_at, checksum, id, subscription, reason, error, attempts, story,
       failed_at, resolved_at, resolved_by, resolved_note, cause, deliveries
    FROM holdfast.read_letters() d
    WHERE d.namespace_id = $1 AND d.id > $2 AND d.id < $3
        AND holdfast.may_see($1, 'dead letters', 'viewer', 'consumer', 'owner')
        AND ($4::text IS NULL OR d.subscription = $4)
        AND ($5::boolean OR d.resolved_at IS NULL)
        AND ($6::text IS NULL OR coalesce(d.type ~ holdfast.patterns_regex(ARRAY[$6]), true))
        AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
        AND ($8::text IS NULL OR d.reason = $8)
        AND ($9::timestamptz IS NULL OR d.failed_at <= $9)
        AND ($10::timestamptz IS NULL OR d.failed_at >= $10)
    ORDER BY d.id LIMIT $11 OFFSET $12;

-- name: dead_count
SELECT count(*) FROM (
    SELECT 1 FROM holdfast.read_letters() d
    WHERE d.namespace_id = $1 AND d.id > $2 AND d.id < $3
        AND holdfast.may_see($1, 'dead letters', 'viewer', 'consumer', 'owner')
        AND ($4::text IS NULL OR d.subscription = $4)
        AND ($5::boolean OR d.resolved_at IS NULL)
        AND ($6::text IS NULL OR coalesce(d.type ~ holdfast.patterns_regex(ARRAY[$6]), true))
        AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
        AND ($8::text IS NULL OR d.reason = $8)
        AND ($9::timestamptz IS NULL OR d.failed_at <= $9)
        AND ($10::timestamptz IS NULL OR d.failed_at >= $10)
    LIMIT $11 OFFSET $12) matching;

-- Groups of letters by $2; the other parameters are those of dead_count and whether the conditions
-- hold for whole kinds.
-- name: dead_groups
SELECT g.text, g.letters, g.newest_id, g.newest_at, g.oldest_at, g.groups, g.all_letters, g.more
    FROM holdfast.dead_groups($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) g;

-- ---- Transactions -------------------------------------------------------------------------------

-- A mark that ends with the transaction: a session that finds it is in the same one. $2:
-- synchronous_commit (NULL: as it is).
-- name: tx_mark
SELECT pg_catalog.set_config('holdfast.tx', $1, true),
       pg_catalog.set_config('synchronous_commit',
                             coalesce($2, pg_catalog.current_setting('synchronous_commit')), true);

-- name: tx_enter
SELECT status, message
    FROM holdfast.tx_enter($1, $2, $3, $4, $5, $6, $7, $9)
    WHERE pg_catalog.current_setting('holdfast.tx', true) OPERATOR(pg_catalog.=) $8;

-- A delivery begins. The one before, if it was kept, is over only now: that saves a round trip.
-- name: tx_release
RELEASE SAVEPOINT holdfast_delivery;

-- name: tx_save
SAVEPOINT holdfast_delivery;

-- name: tx_undo
ROLLBACK TO SAVEPOINT holdfast_delivery; RELEASE SAVEPOINT holdfast_delivery;

-- name: tx_check
SELECT holdfast.tx_check($1);

-- If one of them is not what the log has at its position, with an epoch that no owner ever had.
-- Asked one by one, so that no plan reads the log as a whole.
-- name: tx_settle
SELECT holdfast.tx_settle($1, $2, $3, $4, $5,
    CASE WHEN $3 OR NOT EXISTS (
        SELECT 1 FROM ROWS FROM (pg_catalog.unnest($9::bigint[]),
                                 pg_catalog.unnest($12::pg_catalog.uuid[])) o (position, id)
        WHERE ((SELECT e.id FROM holdfast.log_{namespace}() e
                WHERE e.position OPERATOR(pg_catalog.=) o.position)
               OPERATOR(pg_catalog.=) o.id) IS NOT TRUE
            AND (SELECT r.position FROM holdfast.read_retries() r
                 WHERE r.subscription_id OPERATOR(pg_catalog.=) $2
                     AND r.position OPERATOR(pg_catalog.=) o.position) IS NULL)
    THEN $6 ELSE -1 END, $7, $8, $9, $10, $11, $13);

-- ---- Joining the application's transaction ------------------------------------------------------

-- name: join_begin
BEGIN; SET LOCAL holdfast.notify = off;

-- name: join_check
SELECT holdfast.join_check($1, $2);

-- Answers whether there was no notifying, because the transaction is not to.
-- name: join_ring
SELECT holdfast.is_quiet() FROM holdfast.read_namespaces() n, holdfast.ring(n.id, n.sleep)
    WHERE n.id OPERATOR(pg_catalog.=) {namespace};
