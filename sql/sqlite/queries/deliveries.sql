-- Statements for people who look at deliveries that are not over: what waits for its next attempt,
-- and what is held behind it. Each page searches an index, so all are `hot` (verbs.sql).

-- Of one partition and kind, those that are due first, after one that was due at ?4.
-- hot
-- name: retries_page
SELECT next_attempt_at, position FROM holdfast_retries INDEXED BY holdfast_retries_by_kind
    WHERE subscription_id = ?1 AND partition = ?2 AND kind = ?3
        AND (next_attempt_at, position) > (?4, ?5)
    ORDER BY next_attempt_at, position LIMIT ?6;

-- What is in the lane of ?2 behind it, after ?3; nothing if that has no row.
-- hot
-- name: retries_behind
SELECT r.position FROM holdfast_retries b
    CROSS JOIN holdfast_retries r INDEXED BY holdfast_retries_by_lane
    WHERE b.subscription_id = ?1 AND b.position = ?2
        AND r.subscription_id = b.subscription_id AND r.partition = b.partition
        AND r.lane = b.lane AND r.position > max(?2, ?3)
    ORDER BY r.position LIMIT ?4;

-- One of them, the first of its lane, and how many of the lane are behind it, at most ?3.
-- hot
-- name: retry_look
SELECT r.kind, r.partition, r.attempts, r.next_attempt_at, r.last_retry_at, r.story, r.cause,
       (SELECT f.position FROM holdfast_retries f INDEXED BY holdfast_retries_by_lane
        WHERE f.subscription_id = r.subscription_id AND f.partition = r.partition
            AND f.lane = r.lane ORDER BY f.position LIMIT 1),
       (SELECT count(*) FROM (
            SELECT 1 FROM holdfast_retries h INDEXED BY holdfast_retries_by_lane
            WHERE h.subscription_id = r.subscription_id AND h.partition = r.partition
                AND h.lane = r.lane AND h.position > r.position LIMIT ?3))
    FROM holdfast_retries r WHERE r.subscription_id = ?1 AND r.position = ?2;
