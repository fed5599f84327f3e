-- Statements about deliveries that are cancelled (src/store/cancel.h).

-- name: cancel_get
SELECT cancelled_at, cancelled_by, reason, requested_at FROM holdfast_cancels
    WHERE subscription_id = ?1 AND position = ?2;

-- name: cancel_put
INSERT INTO holdfast_cancels (subscription_id, position, hash, requested_at, cancelled_at,
                              cancelled_by, reason)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: cancel_mark
UPDATE holdfast_cancels SET cancelled_at = ?3 WHERE subscription_id = ?1 AND position = ?2;

-- Keeps the story of one that had failed, at ?3. ?4: the subscription is ordered; ?5: and its
-- partition's doubt_through. As outcome_keep, but that it was not handed out once more.
-- name: cancel_keep
INSERT OR REPLACE INTO holdfast_outcomes (subscription_id, number, position, settled_at, attempts,
                                          deliveries, cause, story)
    SELECT ?1, 1 + ifnull((SELECT max(number) FROM holdfast_outcomes WHERE subscription_id = ?1),
                          0), ?2, ?3, attempts,
           CASE WHEN NOT ?4 THEN deliveries
                WHEN deliveries IS NOT NULL OR ?2 > ?5 THEN attempts + uncounted END,
           cause, story
    FROM holdfast_retries
    WHERE subscription_id = ?1 AND position = ?2 AND attempts + uncounted > 0;

-- name: cancel_remove
DELETE FROM holdfast_cancels WHERE subscription_id = ?1 AND position = ?2;

-- name: cancels_requested
SELECT position, hash FROM holdfast_cancels INDEXED BY holdfast_cancels_requested
    WHERE subscription_id = ?1 AND cancelled_at IS NULL ORDER BY position LIMIT ?2;

-- Runners of the subscription read its definition again, and the requests with it.
-- name: cancels_tell
UPDATE holdfast_subscriptions SET generation = generation + 1 WHERE id = ?1;

-- What is still on its way from a dead owner is refused.
-- name: partition_fence
UPDATE holdfast_partitions SET epoch = epoch + 1 WHERE subscription_id = ?1 AND partition = ?2;

-- A seek to ?2 passes these once more, or has not come to them: requests, and marks without a row
-- in settled.
-- name: cancels_seek
DELETE FROM holdfast_cancels
    WHERE subscription_id = ?1
        AND (cancelled_at IS NULL
             OR position > ?2 AND NOT EXISTS (
                 SELECT 1 FROM holdfast_settled d
                 WHERE d.subscription_id = ?1 AND d.position = holdfast_cancels.position));

-- What is settled ahead is delivered again, unless it is cancelled and still ahead. After
-- cancels_seek.
-- name: settled_seek
DELETE FROM holdfast_settled
    WHERE subscription_id = ?1
        AND (position <= ?2
             OR NOT EXISTS (SELECT 1 FROM holdfast_cancels c
                            WHERE c.subscription_id = ?1
                                AND c.position = holdfast_settled.position));

-- name: subscription_drop_cancels
DELETE FROM holdfast_cancels WHERE subscription_id = ?1;

-- name: remove_cancels
DELETE FROM holdfast_cancels
    WHERE subscription_id = ?1
      AND position IN (SELECT position FROM holdfast_cancels WHERE subscription_id = ?1 LIMIT ?2);

-- name: cancels_forget
DELETE FROM holdfast_cancels
    WHERE subscription_id IN (SELECT id FROM holdfast_subscriptions WHERE namespace_id = ?1)
        AND position <= ?2;
