-- Events for later that people see, a period for schedules (@every), and how much waits in stats().

-- A row of later_list(). number: the order of arrival, for those that are due at the same time.
CREATE TYPE holdfast.later AS (
    due_at     timestamptz,
    number     bigint,
    id         uuid,
    type       text,
    payload    json,
    key        text,
    tenant     text,
    metadata   json,
    producer   text,
    emitted_at timestamptz
);

-- A row of stats(), of a namespace: events that wait for their time.
ALTER TYPE holdfast.stats ADD ATTRIBUTE later bigint;

-- @every: a multiple of so many seconds since 1970; then all other fields are NULL.
ALTER TYPE holdfast_private.cron ADD ATTRIBUTE every_s integer;

-- It answers more: functions/timers/schedules.sql makes it anew.
DROP FUNCTION IF EXISTS holdfast.tick(text, integer, bytea);
