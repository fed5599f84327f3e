-- Statements of subscriptions: progress, leases, retries, dead letters.
--
-- Queries marked `hot` run for every batch, or read what may be large; a test asserts that they
-- search an index and sort nothing. Wherever a subscription is named by its id the namespace is
-- checked too, once per change: an id of another namespace finds nothing.

-- ---- Subscriptions ------------------------------------------------------------------------------

-- hot
-- name: subscription_get
SELECT id, name, patterns, options, mode, partitions, generation, created_at, start, paused_at,
       paused_by, paused_reason, breaker, wanted, dropped_through, dropped
    FROM holdfast_subscriptions WHERE namespace_id = ?1 AND name = ?2;

-- A row per partition that ?3 owns; one without a partition if there is none.
-- hot
-- name: subscription_standing
SELECT s.generation, s.members_version, p.partition, p.epoch
    FROM holdfast_subscriptions s
    LEFT JOIN holdfast_partitions p ON p.subscription_id = s.id AND p.owner = ?3
    WHERE s.id = ?2 AND s.namespace_id = ?1 ORDER BY p.partition;

-- hot
-- name: subscription_by_id
SELECT id, name, patterns, options, mode, partitions, generation, created_at, start, paused_at,
       paused_by, paused_reason, breaker, wanted, dropped_through, dropped
    FROM holdfast_subscriptions WHERE id = ?2 AND namespace_id = ?1;

-- hot
-- name: subscription_list
SELECT id, name, patterns, options, mode, partitions, generation, created_at, start, paused_at,
       paused_by, paused_reason, breaker, wanted, dropped_through, dropped
    FROM holdfast_subscriptions WHERE namespace_id = ?1 ORDER BY name;

-- name: subscription_create
INSERT INTO holdfast_subscriptions (namespace_id, name, patterns, options, mode, partitions, start,
                                    created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: subscription_change
UPDATE holdfast_subscriptions
    SET patterns = coalesce(?2, patterns), options = coalesce(?3, options),
        generation = generation + 1
    WHERE id = ?1;

-- name: subscription_delete
DELETE FROM holdfast_subscriptions WHERE id = ?1;

-- name: subscription_pause
UPDATE holdfast_subscriptions
    SET paused_at = ?3, paused_by = ?4, paused_reason = ?5, generation = generation + 1
    WHERE id = ?2 AND namespace_id = ?1 AND paused_at IS NULL;

-- name: subscription_resume
UPDATE holdfast_subscriptions
    SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, breaker = NULL,
        generation = generation + 1
    WHERE id = ?2 AND namespace_id = ?1 AND (paused_at IS NOT NULL OR breaker IS NOT NULL);

-- name: subscription_breaker
UPDATE holdfast_subscriptions SET breaker = ?3, generation = generation + 1
    WHERE id = ?2 AND namespace_id = ?1 AND breaker IS NOT ?3;

-- name: subscription_seek
UPDATE holdfast_subscriptions SET start = ?3, generation = generation + 1
    WHERE id = ?2 AND namespace_id = ?1;

-- name: subscription_drop_partitions
DELETE FROM holdfast_partitions WHERE subscription_id = ?1;

-- name: subscription_drop_leases
DELETE FROM holdfast_leases WHERE subscription_id = ?1;

-- name: subscription_drop_members
DELETE FROM holdfast_members WHERE subscription_id = ?1;

-- name: subscription_drop_retries
DELETE FROM holdfast_retries WHERE subscription_id = ?1;

-- name: subscription_drop_copies
DELETE FROM holdfast_copies WHERE subscription_id = ?1;

-- name: subscription_drop_settled
DELETE FROM holdfast_settled WHERE subscription_id = ?1;

-- Of what comes again, or all (0).
-- name: subscription_drop_outcomes
DELETE FROM holdfast_outcomes WHERE subscription_id = ?1 AND position > ?2;

-- ---- Partitions ---------------------------------------------------------------------------------

-- name: partition_create
INSERT INTO holdfast_partitions (subscription_id, partition, checkpoint) VALUES (?1, ?2, ?3);

-- The row of a partition, all NULL if there is none, with what else a settle must know.
-- hot
-- name: partition_get
SELECT s.mode, s.generation, s.paused_at, s.partitions, p.epoch, p.checkpoint, p.turn, p.owner,
       p.owner_name, p.span, p.span_from, p.span_before, p.doubt_through
    FROM holdfast_subscriptions s
    LEFT JOIN holdfast_partitions p ON p.subscription_id = s.id AND p.partition = ?3
    WHERE s.id = ?2 AND s.namespace_id = ?1;

-- name: partition_checkpoint_get
SELECT checkpoint FROM holdfast_partitions WHERE subscription_id = ?1 AND partition = ?2;

-- name: partition_take
UPDATE holdfast_partitions
    SET epoch = ?3, owner = ?4, owner_name = ?5, doubt_through = max(doubt_through, ?6)
    WHERE subscription_id = ?1 AND partition = ?2;

-- name: partition_give_back
UPDATE holdfast_partitions SET owner = NULL, owner_name = NULL
    WHERE subscription_id = ?1 AND partition = ?2 AND epoch = ?3 AND owner = ?4;

-- name: partition_depart
UPDATE holdfast_partitions SET owner = NULL, owner_name = NULL
    WHERE subscription_id = ?1 AND owner = ?2;

-- Those that their runner has given back are not among them. ?2: the head.
-- name: partition_give_back_all
UPDATE holdfast_partitions
    SET owner = NULL, owner_name = NULL, doubt_through = max(doubt_through, ?2) WHERE owner = ?1;

-- An ordered one's checkpoint. (The span: src/store/sqlite/write/span.h.)
-- hot
-- name: partition_move
UPDATE holdfast_partitions
    SET checkpoint = ?3, checkpoint_at = ?4, last_event_id = coalesce(?5, last_event_id), span = ?6,
        span_from = ?7, span_before = ?8
    WHERE subscription_id = ?1 AND partition = ?2;

-- A shared one's cursor. ?7: when something was handed out; NULL: nothing was.
-- hot
-- name: partition_move_cursor
UPDATE holdfast_partitions
    SET checkpoint = ?2, turn = ?3, span = ?4, span_from = ?5, span_before = ?6,
        claimed_at = coalesce(?7, claimed_at)
    WHERE subscription_id = ?1 AND partition = 0;

-- name: partition_seek
UPDATE holdfast_partitions
    SET checkpoint = ?2, checkpoint_at = ?3, last_event_id = NULL, epoch = epoch + 1,
        span = ?4, span_from = NULL, span_before = NULL
    WHERE subscription_id = ?1;

-- hot
-- name: partition_list
SELECT partition, checkpoint, checkpoint_at, last_event_id, owner, owner_name, epoch, span,
       span_from, span_before, claimed_at
    FROM holdfast_partitions WHERE subscription_id = ?1 ORDER BY partition;

-- ---- Another number of partitions ---------------------------------------------------------------

-- The present number is no request.
-- name: partitions_request_put
UPDATE holdfast_subscriptions SET wanted = nullif(?2, partitions), generation = generation + 1
    WHERE id = ?1;

-- hot
-- name: partitions_request_get
SELECT s.wanted, s.partitions,
       (SELECT min(p.checkpoint) FROM holdfast_partitions p WHERE p.subscription_id = s.id),
       (SELECT max(p.checkpoint) FROM holdfast_partitions p WHERE p.subscription_id = s.id),
       (SELECT max(p.epoch) FROM holdfast_partitions p WHERE p.subscription_id = s.id),
       (SELECT max(p.doubt_through) FROM holdfast_partitions p WHERE p.subscription_id = s.id)
    FROM holdfast_subscriptions s WHERE s.id = ?2 AND s.namespace_id = ?1;

-- name: partitions_request_end
UPDATE holdfast_subscriptions
    SET partitions = wanted, wanted = NULL, generation = generation + 1,
        members_version = members_version + 1
    WHERE id = ?1;

-- name: partition_renew
INSERT INTO holdfast_partitions (subscription_id, partition, checkpoint, checkpoint_at, epoch,
                                 owner, owner_name, span, doubt_through)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- ?3: the place of position 0. One whose event is nowhere any more stays known in partition 0.
-- name: retries_rehome
UPDATE holdfast_retries
    SET partition = coalesce(
        (SELECT c.hash FROM holdfast_copies c
         WHERE c.subscription_id = ?1 AND c.position = holdfast_retries.position),
        (SELECT e.hash FROM holdfast_events e WHERE e.place = ?3 + holdfast_retries.position),
        0) % ?2
    WHERE subscription_id = ?1;

-- name: settled_rehome
UPDATE OR REPLACE holdfast_settled
    SET partition = coalesce(
        (SELECT e.hash FROM holdfast_events e WHERE e.place = ?3 + holdfast_settled.position),
        0) % ?2
    WHERE subscription_id = ?1;

-- ---- Members ------------------------------------------------------------------------------------

-- name: members_changed
UPDATE holdfast_subscriptions SET members_version = members_version + 1 WHERE id = ?1;

-- name: members_changed_by
UPDATE holdfast_subscriptions SET members_version = members_version + 1
    WHERE id IN (SELECT subscription_id FROM holdfast_partitions WHERE owner = ?1
                 UNION SELECT subscription_id FROM holdfast_members WHERE token = ?1);

-- name: members_get
SELECT members_version FROM holdfast_subscriptions WHERE id = ?1;

-- name: member_add
INSERT INTO holdfast_members (subscription_id, joined, token, assigned)
    SELECT ?1, 1 + ifnull(max(joined), 0), ?2, ?3 FROM holdfast_members WHERE subscription_id = ?1;

-- name: member_remove
DELETE FROM holdfast_members WHERE subscription_id = ?1 AND token = ?2;

-- name: member_remove_all
DELETE FROM holdfast_members WHERE token = ?1;

-- name: member_list
SELECT token, assigned FROM holdfast_members WHERE subscription_id = ?1 ORDER BY joined;

-- ---- Settled ahead of the checkpoint ------------------------------------------------------------

-- hot
-- name: settled_add
INSERT INTO holdfast_settled (subscription_id, partition, position) VALUES (?1, ?2, ?3)
    ON CONFLICT (subscription_id, partition, position) DO NOTHING;

-- hot
-- name: settled_has
SELECT 1 FROM holdfast_settled WHERE subscription_id = ?1 AND partition = ?2 AND position = ?3;

-- hot
-- name: settled_fold
DELETE FROM holdfast_settled WHERE subscription_id = ?1 AND partition = ?2 AND position <= ?3;

-- name: settled_remove
DELETE FROM holdfast_settled WHERE subscription_id = ?1 AND partition = ?2 AND position = ?3;

-- ---- Events by position -------------------------------------------------------------------------

-- hot
-- name: event_at
SELECT place, id, type, payload, key, tenant, metadata, producer, schedule_id, key_version, hash,
       emitted_at, entered_at, checksum
    FROM holdfast_events WHERE place = ?1;

-- hot
-- name: event_find
SELECT place, id, type, payload, key, tenant, metadata, producer, schedule_id, key_version, hash,
       emitted_at, entered_at, checksum
    FROM holdfast_events WHERE id = ?1 AND place >> 44 = ?2;

-- hot
-- name: event_first
SELECT place, entered_at FROM holdfast_events WHERE place > ?1 AND place <= ?2
    ORDER BY place LIMIT 1;

-- What decides whether an event is for a subscription, in the order of the log.
-- hot
-- name: read_types
SELECT place, type, hash, entered_at FROM holdfast_events WHERE place > ?1 AND place <= ?2
    ORDER BY place;

-- name: event_late
SELECT place FROM holdfast_events
    WHERE place > ?1 AND place <= ?2 AND entered_at >= ?3
    ORDER BY place LIMIT 1;

-- hot
-- name: copy_at
SELECT position, id, type, payload, key, tenant, metadata, producer, schedule_id, key_version, hash,
       emitted_at, entered_at, checksum
    FROM holdfast_copies WHERE subscription_id = ?1 AND position = ?2;

-- hot
-- name: copy_remove
DELETE FROM holdfast_copies WHERE subscription_id = ?1 AND position = ?2;

-- ---- Retries ------------------------------------------------------------------------------------

-- hot
-- name: retry_get
SELECT kind, partition, lane, attempts, uncounted, next_attempt_at, story, cause, deliveries
    FROM holdfast_retries WHERE subscription_id = ?1 AND position = ?2;

-- hot
-- name: retry_leased
SELECT attempts, uncounted, story, cause, unit_first, unit_events, deliveries
    FROM holdfast_retries WHERE subscription_id = ?1 AND position = ?2 AND kind = RETRY_LEASED;

-- ?14: how often it was handed out, if it has no row yet; NULL: not known. ?15: the subscription is
-- ordered; then the number in a row is that of its attempts.
-- hot
-- name: retry_put
INSERT INTO holdfast_retries (subscription_id, position, kind, partition, lane, attempts, uncounted,
                              next_attempt_at, last_retry_at, story, cause, unit_first, unit_events,
                              deliveries)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT (subscription_id, position) DO UPDATE
    SET kind = excluded.kind, partition = excluded.partition, lane = excluded.lane,
        attempts = excluded.attempts, uncounted = excluded.uncounted,
        next_attempt_at = excluded.next_attempt_at, last_retry_at = excluded.last_retry_at,
        story = excluded.story, cause = excluded.cause, unit_first = excluded.unit_first,
        unit_events = excluded.unit_events,
        deliveries = CASE WHEN NOT ?15 THEN deliveries
                          WHEN deliveries IS NULL THEN excluded.deliveries
                          ELSE excluded.attempts + excluded.uncounted END;

-- What was recorded by notes at ?3 is known; of others that are due it is not (any more).
-- name: retries_doubt
UPDATE holdfast_retries INDEXED BY holdfast_retries_by_kind SET deliveries = NULL
    WHERE subscription_id = ?1 AND partition = ?2 AND kind = RETRY_WAITING
        AND next_attempt_at <= ?3 AND last_retry_at IS NOT ?3 AND deliveries IS NOT NULL;

-- A delivery that was tried before keeps its attempts when it is held.
-- hot
-- name: retry_hold
INSERT INTO holdfast_retries (subscription_id, position, kind, partition, lane, attempts,
                              next_attempt_at)
    VALUES (?1, ?2, 2, ?3, ?4, 0, ?5)
    ON CONFLICT (subscription_id, position) DO UPDATE
    SET kind = RETRY_HELD, partition = excluded.partition, lane = excluded.lane,
        next_attempt_at = excluded.next_attempt_at;

-- name: retry_lane
SELECT lane FROM holdfast_retries WHERE subscription_id = ?1 AND position = ?2;

-- A dead letter comes back with a clean record, in place of whatever row the position had.
-- name: retry_revive
INSERT OR REPLACE INTO holdfast_retries (subscription_id, position, kind, partition, lane, attempts,
                                         next_attempt_at, deliveries)
    VALUES (?1, ?2, 1, ?3, ?4, 0, ?5, 0);

-- hot
-- name: retry_remove
DELETE FROM holdfast_retries WHERE subscription_id = ?1 AND position = ?2 RETURNING lane;

-- hot
-- name: retry_remove_leased
DELETE FROM holdfast_retries WHERE subscription_id = ?1 AND position = ?2 AND kind = RETRY_LEASED
    RETURNING lane;

-- name: retry_remove_blocked
DELETE FROM holdfast_retries WHERE subscription_id = ?1 AND position = ?2 AND kind = RETRY_BLOCKED;

-- Becomes ?3, due at ?4; the rest of the row stays.
-- hot
-- name: retry_turn
UPDATE holdfast_retries SET kind = ?3, next_attempt_at = ?4
    WHERE subscription_id = ?1 AND position = ?2;

-- hot
-- name: retry_lease
UPDATE holdfast_retries SET kind = RETRY_LEASED, deliveries = deliveries + 1
    WHERE subscription_id = ?1 AND position = ?2;

-- hot
-- name: retry_release
UPDATE holdfast_retries SET kind = RETRY_WAITING, next_attempt_at = ?3
    WHERE subscription_id = ?1 AND position = ?2 AND kind = RETRY_LEASED;

-- hot
-- name: lane_first
SELECT position, kind FROM holdfast_retries INDEXED BY holdfast_retries_by_lane
    WHERE subscription_id = ?1 AND partition = ?2 AND lane = ?3 ORDER BY position LIMIT 1;

-- Keys that wait for a dead letter, by position.
-- name: blocked_list
SELECT position, partition, lane, last_retry_at FROM holdfast_retries NOT INDEXED
    WHERE subscription_id = ?1 AND position > ?2 AND kind = RETRY_BLOCKED
        ORDER BY position LIMIT ?3;

-- How many of the lane are behind a position.
-- name: lane_behind
SELECT count(*) FROM holdfast_retries INDEXED BY holdfast_retries_by_lane
    WHERE subscription_id = ?1 AND partition = ?2 AND lane = ?3 AND position > ?4;

-- Whether anything in the lane can go on by itself, or is blocked.
-- hot
-- name: lane_moving
SELECT 1 FROM holdfast_retries INDEXED BY holdfast_retries_by_lane
    WHERE subscription_id = ?1 AND partition = ?2 AND lane = ?3 AND kind <> RETRY_HELD LIMIT 1;

-- hot
-- name: lane_list
SELECT lane, count(*) FROM holdfast_retries
    WHERE subscription_id = ?1 AND partition = ?2 GROUP BY lane;

-- Both parts come in order, so they are merged.
-- hot
-- name: ahead
SELECT position FROM holdfast_settled
    WHERE subscription_id = ?1 AND partition = ?2 AND position > ?3
UNION ALL
SELECT position FROM holdfast_retries
    WHERE subscription_id = ?1 AND +partition = ?2 AND position > ?3
ORDER BY position;

-- hot
-- name: retries_due
SELECT position, attempts, uncounted, story, cause, unit_first, unit_events, deliveries
    FROM holdfast_retries
    WHERE subscription_id = ?1 AND partition = ?2 AND kind = ?5 AND next_attempt_at <= ?3
    ORDER BY next_attempt_at, position LIMIT ?4;

-- Not what is behind the first of its lane if that is due later, or blocked: several of a lane wait
-- when they failed as a unit, follow one, or their process died.
-- hot
-- name: retries_due_by_lane
SELECT position, attempts, uncounted, story, cause, unit_first, unit_events, deliveries
    FROM holdfast_retries r
    WHERE subscription_id = ?1 AND partition = ?2 AND kind = ?5 AND next_attempt_at <= ?3
        AND NOT EXISTS (
            SELECT 1 FROM (
                SELECT b.kind, b.next_attempt_at
                FROM holdfast_retries b INDEXED BY holdfast_retries_by_lane
                WHERE b.subscription_id = ?1 AND b.partition = ?2 AND b.lane = r.lane
                ORDER BY b.position LIMIT 1) f
            WHERE f.kind = ?6 OR f.kind = ?5 AND f.next_attempt_at > r.next_attempt_at)
    ORDER BY next_attempt_at, position LIMIT ?4;

-- hot
-- name: retries_next
SELECT next_attempt_at FROM holdfast_retries
    WHERE subscription_id = ?1 AND partition = ?2 AND kind = ?4 AND next_attempt_at > ?3
    ORDER BY next_attempt_at LIMIT 1;

-- hot
-- name: retries_lowest
SELECT position FROM holdfast_retries WHERE subscription_id = ?1 ORDER BY position LIMIT 1;

-- The lowest that is not given up.
-- hot
-- name: retries_lowest_open
SELECT position FROM holdfast_retries WHERE subscription_id = ?1 AND kind <> RETRY_BLOCKED
    ORDER BY position LIMIT 1;

-- The highest position of a shared subscription that a claim must not take from the log: it has a
-- row of its own, or is settled (cancelled) ahead of the cursor. 0: none.
-- hot
-- name: claim_ahead
SELECT max(ifnull((SELECT position FROM holdfast_retries WHERE subscription_id = ?1
                   ORDER BY position DESC LIMIT 1), 0),
           ifnull((SELECT position FROM holdfast_settled
                   WHERE subscription_id = ?1 AND partition = 0
                   ORDER BY position DESC LIMIT 1), 0));

-- hot
-- name: retries_count
SELECT count(*) FROM holdfast_retries WHERE subscription_id = ?1 AND partition = ?2 AND kind = ?3;

-- ---- Outcomes -----------------------------------------------------------------------------------

-- Keeps the story of a retry that is done, before its row goes: of one that has failed, other than
-- by the attempt that was recorded before it ran (?4: so many attempts had failed before it; NULL:
-- all that are recorded). ?5: the subscription is ordered; ?6: and its partition's doubt_through.
-- name: outcome_keep
INSERT OR REPLACE INTO holdfast_outcomes (subscription_id, number, position, settled_at, attempts,
                                          deliveries, cause, story)
    SELECT ?1, 1 + ifnull((SELECT max(number) FROM holdfast_outcomes WHERE subscription_id = ?1),
                          0), ?2, ?3,
           min(attempts, ifnull(?4, attempts)),
           CASE WHEN NOT ?5 THEN deliveries
                WHEN deliveries IS NOT NULL OR ?2 > ?6
                THEN min(attempts, ifnull(?4, attempts)) + uncounted + 1 END,
           cause, CASE WHEN attempts > ?4 THEN json_remove(story, '$[#-1]') ELSE story END
    FROM holdfast_retries
    WHERE subscription_id = ?1 AND position = ?2 AND (?5 OR kind = RETRY_LEASED)
        AND min(attempts, ifnull(?4, attempts)) + uncounted > 0;

-- name: outcomes_trim
DELETE FROM holdfast_outcomes
    WHERE subscription_id = ?1
        AND number <= (SELECT max(number) FROM holdfast_outcomes WHERE subscription_id = ?1)
                      - HF_OUTCOMES_MAX;

-- hot
-- name: outcome_get
SELECT attempts, story, cause, deliveries FROM holdfast_outcomes
    WHERE subscription_id = ?1 AND position = ?2;

-- name: outcomes_forget
DELETE FROM holdfast_outcomes
    WHERE subscription_id IN (SELECT id FROM holdfast_subscriptions WHERE namespace_id = ?1)
        AND position <= ?2;

-- ---- Leases -------------------------------------------------------------------------------------

-- hot
-- name: lease_get
SELECT subscription_id, expires_at, lease_ms, owner, bound, kept, piece, has_retries, count,
       owner_name, positions, times, claimed_at
    FROM holdfast_leases WHERE token = ?1;

-- hot
-- name: lease_put
INSERT INTO holdfast_leases (token, subscription_id, expires_at, owner, bound, kept, piece,
                             has_retries, count, first, owner_name, positions, lease_ms, times,
                             claimed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15);

-- hot
-- name: lease_change
UPDATE holdfast_leases SET expires_at = ?2, count = ?3, first = ?4, positions = ?5, times = ?6
    WHERE token = ?1;

-- hot
-- name: lease_remove
DELETE FROM holdfast_leases WHERE token = ?1;

-- Acknowledging everything, the common case: one statement, if no retries are to go with it.
-- hot
-- name: lease_finish
DELETE FROM holdfast_leases
    WHERE token = ?1 AND subscription_id = ?2 AND piece IS NULL AND has_retries = 0;

-- hot
-- name: lease_owner_next
SELECT owner FROM holdfast_leases WHERE subscription_id = ?1 AND owner > ?2 ORDER BY owner LIMIT 1;

-- ?4: those that expire up to then; ?5: now. The two differ for an owner that is dead: then those
-- that are bound to it are over, whenever they would expire.
-- hot
-- name: lease_over
SELECT token, expires_at, piece, count, lease_ms FROM holdfast_leases
    WHERE subscription_id = ?1 AND owner IS ?2 AND kept = ?3 AND expires_at <= ?4
        AND (bound = 1 OR expires_at <= ?5)
    ORDER BY expires_at LIMIT ?6;

-- hot
-- name: lease_expiry_next
SELECT expires_at FROM holdfast_leases
    WHERE subscription_id = ?1 AND owner IS ?2 AND kept = ?3 AND expires_at > ?4
    ORDER BY expires_at LIMIT 1;

-- hot
-- name: lease_list
SELECT token FROM holdfast_leases INDEXED BY holdfast_leases_by_owner
    WHERE subscription_id = ?1 AND first <= ?2;

-- name: lease_owned
SELECT token FROM holdfast_leases WHERE owner = ?1;

-- By owner, so that the state of each owner is asked for once.
-- hot
-- name: lease_each
SELECT owner, kept, expires_at, bound, piece, count, first
    FROM holdfast_leases INDEXED BY holdfast_leases_by_owner WHERE subscription_id = ?1
    ORDER BY owner;

-- Those that a claim holds, for people; a subscription has few.
-- name: lease_held
SELECT token FROM holdfast_leases INDEXED BY holdfast_leases_by_owner
    WHERE subscription_id = ?1 AND piece IS NULL ORDER BY expires_at, token;

-- ---- Dead letters -------------------------------------------------------------------------------

-- A new dead letter with a new number; nothing if its delivery has an open one. Both take the same
-- parameters; the first does not need ?3. They answer the kind of the letter.
-- name: dead_add_copy
INSERT INTO holdfast_dead_letters
    (namespace_id, subscription, event_id, position, failed_at, attempts, reason, type, error, hash,
     checksum, emitted_at, entered_at, key_version, schedule_id, producer, key, tenant, metadata,
     payload, story, cause, deliveries, kind_hash)
    SELECT s.namespace_id, s.name, e.id, ?2, ?4, ?5, ?6, e.type, ?7, e.hash, e.checksum,
           e.emitted_at, e.entered_at, e.key_version, e.schedule_id, e.producer, e.key, e.tenant,
           e.metadata, e.payload, coalesce(?8, '[]'), ?9, ?10,
           holdfast_kind(s.name, e.type, ?6, ?7)
    FROM holdfast_subscriptions s, holdfast_copies e
    WHERE s.id = ?1 AND e.subscription_id = ?1 AND e.position = ?2
    ON CONFLICT (namespace_id, subscription, event_id) WHERE resolved_at IS NULL DO NOTHING
    RETURNING kind_hash;

-- name: dead_add
INSERT INTO holdfast_dead_letters
    (namespace_id, subscription, event_id, position, failed_at, attempts, reason, type, error, hash,
     checksum, emitted_at, entered_at, key_version, schedule_id, producer, key, tenant, metadata,
     payload, story, cause, deliveries, kind_hash)
    SELECT s.namespace_id, s.name, e.id, ?2, ?4, ?5, ?6, e.type, ?7, e.hash, e.checksum,
           e.emitted_at, e.entered_at, e.key_version, e.schedule_id, e.producer, e.key, e.tenant,
           e.metadata, e.payload, coalesce(?8, '[]'), ?9, ?10,
           holdfast_kind(s.name, e.type, ?6, ?7)
    FROM holdfast_subscriptions s, holdfast_events e
    WHERE s.id = ?1 AND e.place = ?3
    ON CONFLICT (namespace_id, subscription, event_id) WHERE resolved_at IS NULL DO NOTHING
    RETURNING kind_hash;

-- The open letter of a delivery, by ?1 subscription, ?2 position, ?3 place. It answers its kind.
-- name: dead_replace
DELETE FROM holdfast_dead_letters
    WHERE resolved_at IS NULL
        AND (namespace_id, subscription) = (SELECT namespace_id, name FROM holdfast_subscriptions
                                            WHERE id = ?1)
        AND event_id = coalesce((SELECT id FROM holdfast_copies
                                 WHERE subscription_id = ?1 AND position = ?2),
                                (SELECT id FROM holdfast_events WHERE place = ?3))
    RETURNING kind_hash;

-- ?3 more open letters of a kind (fewer, if it is negative).
-- hot
-- name: dead_kind_change
INSERT INTO holdfast_dead_kinds (namespace_id, kind_hash, letters) VALUES (?1, ?2, ?3)
    ON CONFLICT (namespace_id, kind_hash) DO UPDATE SET letters = letters + excluded.letters;

-- hot
-- name: dead_kind_forget
DELETE FROM holdfast_dead_kinds WHERE namespace_id = ?1 AND kind_hash = ?2 AND letters = 0;

-- The kinds of a namespace counted anew.
-- name: dead_kinds_build
INSERT INTO holdfast_dead_kinds (namespace_id, kind_hash, letters)
    SELECT namespace_id, kind_hash, count(*)
    FROM holdfast_dead_letters INDEXED BY holdfast_dead_letters_open_kind
    WHERE namespace_id = ?1 AND resolved_at IS NULL GROUP BY kind_hash;

-- At most ?2 kinds, those with most letters first.
-- hot
-- name: dead_kinds_largest
SELECT kind_hash, letters FROM holdfast_dead_kinds INDEXED BY holdfast_dead_kinds_largest
    WHERE namespace_id = ?1 ORDER BY letters DESC LIMIT ?2;

-- hot
-- name: dead_kind_newest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_open_kind
    WHERE namespace_id = ?1 AND kind_hash = ?2 AND resolved_at IS NULL ORDER BY id DESC LIMIT 1;

-- hot
-- name: dead_kind_oldest
SELECT id, failed_at FROM holdfast_dead_letters INDEXED BY holdfast_dead_letters_open_kind
    WHERE namespace_id = ?1 AND kind_hash = ?2 AND resolved_at IS NULL ORDER BY id LIMIT 1;

-- hot
-- name: dead_get
SELECT position, event_id, type, payload, key, tenant, metadata, producer, schedule_id, key_version,
       hash, emitted_at, entered_at, checksum, id, subscription, reason, error, attempts, story,
       failed_at, resolved_at, resolved_by, resolved_note, cause, deliveries
    FROM holdfast_dead_letters WHERE id = ?2 AND namespace_id = ?1;

-- The newest.
-- hot
-- name: dead_of_event
SELECT id, attempts, story, cause, deliveries
    FROM holdfast_dead_letters INDEXED BY holdfast_dead_letters_event
    WHERE namespace_id = ?1 AND subscription = ?2 AND event_id = ?3 ORDER BY id DESC LIMIT 1;

-- The copy that a dead letter leaves in the hands of its subscription when it is retried. ?3:
-- another payload, and then ?4: the checksum with it.
-- name: dead_to_copy
INSERT OR REPLACE INTO holdfast_copies
    (subscription_id, position, id, type, hash, checksum, emitted_at, entered_at, key_version,
     schedule_id, producer, key, tenant, metadata, payload)
    SELECT ?2, position, event_id, type, hash, coalesce(?4, checksum), emitted_at, entered_at,
           key_version, schedule_id, producer, key, tenant, metadata, coalesce(?3, payload)
    FROM holdfast_dead_letters WHERE id = ?1;

-- name: dead_remove
DELETE FROM holdfast_dead_letters WHERE id = ?1
    RETURNING CASE WHEN resolved_at IS NULL THEN kind_hash END;

-- name: dead_resolve
UPDATE holdfast_dead_letters SET resolved_at = ?2, resolved_by = ?3, resolved_note = ?4
    WHERE id = ?1 RETURNING kind_hash;

-- Lists give what is needed to filter and to group; dead_get gives the rest. ?2 .. ?3: ids between
-- them. The index is named because statistics (the application may ANALYZE its file) must not
-- change the plan.
-- hot
-- name: dead_open_of_newest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_open_of
    WHERE namespace_id = ?1 AND subscription = ?4 AND resolved_at IS NULL AND id > ?2 AND id < ?3
    ORDER BY id DESC;

-- hot
-- name: dead_open_of_oldest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_open_of
    WHERE namespace_id = ?1 AND subscription = ?4 AND resolved_at IS NULL AND id > ?2 AND id < ?3
    ORDER BY id;

-- hot
-- name: dead_open_newest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_open
    WHERE namespace_id = ?1 AND resolved_at IS NULL AND id > ?2 AND id < ?3
    ORDER BY id DESC;

-- hot
-- name: dead_open_oldest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_open
    WHERE namespace_id = ?1 AND resolved_at IS NULL AND id > ?2 AND id < ?3
    ORDER BY id;

-- hot
-- name: dead_all_newest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_all
    WHERE namespace_id = ?1 AND id > ?2 AND id < ?3 AND (?4 IS NULL OR subscription = ?4)
    ORDER BY id DESC;

-- hot
-- name: dead_all_oldest
SELECT id, type, reason, error, failed_at, subscription FROM holdfast_dead_letters
    INDEXED BY holdfast_dead_letters_all
    WHERE namespace_id = ?1 AND id > ?2 AND id < ?3 AND (?4 IS NULL OR subscription = ?4)
    ORDER BY id;

-- hot
-- name: dead_count_open
SELECT count(*) FROM holdfast_dead_letters INDEXED BY holdfast_dead_letters_open
    WHERE namespace_id = ?1 AND resolved_at IS NULL;

-- name: dead_count_open_of
SELECT count(*) FROM holdfast_dead_letters INDEXED BY holdfast_dead_letters_open_of
    WHERE namespace_id = ?1 AND subscription = ?2 AND resolved_at IS NULL;

-- ---- The clock was set back ---------------------------------------------------------------------

-- name: retries_clock_back
UPDATE holdfast_retries SET next_attempt_at = ?1, last_retry_at = ?1
    WHERE kind IN (RETRY_WAITING, RETRY_ALONE)
        AND coalesce(last_retry_at, next_attempt_at) > ?1 AND next_attempt_at > ?1;

-- name: leases_clock_back
UPDATE holdfast_leases SET expires_at = ?1 + lease_ms * 1000
    WHERE expires_at > ?1 + lease_ms * 1000;

-- What is due later than ?4 from now (?3) on, and was recorded later than ?5 (one that never
-- failed: is due later). It keeps its delay, if that is known: one that was recorded in the past
-- has another policy now, or was made due by a clock that was ahead.
-- name: retries_ahead
UPDATE holdfast_retries INDEXED BY holdfast_retries_by_kind
    SET next_attempt_at = ?3 + CASE WHEN last_retry_at IS NULL THEN 0
                                    WHEN last_retry_at > ?3
                                    THEN max(next_attempt_at - last_retry_at, 0)
                                    ELSE ?4 END,
        last_retry_at = min(last_retry_at, ?3)
    WHERE subscription_id = ?1 AND partition = ?2 AND kind IN (RETRY_WAITING, RETRY_ALONE)
        AND next_attempt_at > ?3 + ?4
        AND coalesce(last_retry_at, next_attempt_at) > ?5;

-- name: leases_ahead
UPDATE holdfast_leases INDEXED BY holdfast_leases_by_owner SET expires_at = ?2 + lease_ms * 1000
    WHERE subscription_id = ?1 AND expires_at > ?2 + lease_ms * 1000;

-- ---- Nodes that ended ---------------------------------------------------------------------------

-- Of a namespace that was removed while the node had it open nothing is kept.
-- name: past_node_put
INSERT INTO holdfast_past_nodes
    (namespace_id, node_id, started_at, seen_at, stopped_at, ended_at, heartbeat_ms, pid, node_name,
     host, version, description, metadata)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
        WHERE EXISTS (SELECT 1 FROM holdfast_namespaces WHERE id = ?1)
    ON CONFLICT (namespace_id, node_id) DO UPDATE
    SET started_at = excluded.started_at, seen_at = excluded.seen_at,
        stopped_at = excluded.stopped_at, ended_at = excluded.ended_at,
        heartbeat_ms = excluded.heartbeat_ms, pid = excluded.pid, node_name = excluded.node_name,
        host = excluded.host, version = excluded.version, description = excluded.description,
        metadata = excluded.metadata
    WHERE started_at <= excluded.started_at;

-- ?2: those that ended before are forgotten, and all but the last ?3 + 1.
-- name: past_node_forget
DELETE FROM holdfast_past_nodes
    WHERE namespace_id = ?1
      AND (ended_at < ?2
           OR ended_at < (SELECT ended_at FROM holdfast_past_nodes WHERE namespace_id = ?1
                          ORDER BY ended_at DESC LIMIT 1 OFFSET ?3));

-- name: past_node_list
SELECT node_id, node_name, description, metadata, host, version, pid, heartbeat_ms, started_at,
       seen_at, stopped_at
    FROM holdfast_past_nodes
    WHERE namespace_id = ?1 AND ended_at >= ?2 AND (?3 IS NULL OR node_id = ?3);
