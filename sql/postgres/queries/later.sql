-- Statements of events that wait for their time, and of what is due (functions/timers/later.sql).

-- name: change_bring
SELECT status, message, fired, released, next_at FROM holdfast.change_bring($1, $2);

-- name: change_later_cancel
SELECT status, message, position FROM holdfast.change_later_cancel($1, $2);

-- name: change_later_move
SELECT status, message, position FROM holdfast.change_later_move($1, $2, $3);

-- Those behind the time $2 (NULL: from the first) and the number $3, due before $4, with the key
-- $5, of a type that matches $6, at most $7. Their payloads stay where they are.
-- name: later_list
SELECT id, due_at, number, emitted_at, type, NULL::text, octet_length(payload::text)::bigint, key,
       tenant, metadata, producer
    FROM holdfast.read_delayed() d
    WHERE d.namespace_id = $1
        AND holdfast.may_see($1, 'events for later', 'publisher', 'owner')
        AND (d.due_at, d.number) > (coalesce($2, '-infinity'::timestamptz), $3)
        AND d.due_at < coalesce($4, 'infinity'::timestamptz)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR coalesce(d.type ~ holdfast.patterns_regex(ARRAY[$6]), true))
    ORDER BY d.due_at, d.number LIMIT $7;

-- name: later_get
SELECT id, due_at, number, emitted_at, type, payload, octet_length(payload::text)::bigint, key,
       tenant, metadata, producer
    FROM holdfast.read_delayed() d
    WHERE d.namespace_id = $1 AND d.id = $2
        AND holdfast.may_see($1, 'events for later', 'publisher', 'owner');

-- name: timers_count
SELECT later, later_due, later_next, schedules_due, schedules_next
    FROM holdfast.timers_count($1, $2);
