-- The timers: schedules, the ledger of their firings, and events that enter the log when they are
-- due.

-- next_at: the planned time that it waits for; NULL: it never fires again. policy, of missed times:
-- 1 skip, 2 once, 3 all. generation rises with every change of definition or pause.
-- Who is told to fire it: a job of pg_cron, by its number; NULL: only processes and tick().
CREATE TABLE holdfast_private.schedules (
    id            uuid PRIMARY KEY,
    generation    bigint NOT NULL DEFAULT 1,
    next_at       timestamptz,
    paused_at     timestamptz,
    created_at    timestamptz NOT NULL,
    grace_us      bigint NOT NULL,
    namespace_id  integer NOT NULL,
    policy        integer NOT NULL,
    cap           integer NOT NULL,
    name          text COLLATE "C" NOT NULL,
    expression    text NOT NULL,
    zone          text NOT NULL,
    paused_by     text,
    paused_reason text,
    type          text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    tenant        text COLLATE "C",
    metadata      json,
    payload       json NOT NULL,
    UNIQUE (namespace_id, name),
    job          bigint
) WITH (fillfactor = 50);
CREATE INDEX schedules_due ON holdfast_private.schedules (namespace_id, next_at, id)
    WHERE paused_at IS NULL AND next_at IS NOT NULL;

-- kind: 1 fired, 2 fired by hand, 3 left out, from planned_at to until_at.
CREATE TABLE holdfast_private.schedule_runs (
    schedule_id uuid NOT NULL,
    planned_at  timestamptz NOT NULL,
    until_at    timestamptz,
    fired_at    timestamptz NOT NULL,
    position    bigint,
    kind        integer NOT NULL,
    node        text,
    PRIMARY KEY (schedule_id, planned_at)
);

-- number: the order of arrival, for those that are due at the same time.
CREATE TABLE holdfast_private.delayed (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at       timestamptz NOT NULL,
    emitted_at   timestamptz NOT NULL,
    hash         bigint NOT NULL,
    checksum     bigint NOT NULL,
    id           uuid NOT NULL,
    namespace_id integer NOT NULL,
    type         text COLLATE "C" NOT NULL,
    producer     text,
    key          text COLLATE "C",
    tenant       text COLLATE "C",
    metadata     json,
    payload      json NOT NULL,
    UNIQUE (namespace_id, id)
);
CREATE INDEX delayed_due ON holdfast_private.delayed (namespace_id, due_at, number);

-- What a field of an expression says, in order. `either`: one of the two fields of days is enough.
-- `runs`: the hour field has a * or a step and means real hours, not a time of day.
CREATE TYPE holdfast_private.cron AS (
    seconds  integer[],
    minutes  integer[],
    hours    integer[],
    days     integer[],
    months   integer[],
    weekdays integer[],
    either   boolean,
    runs     boolean
);

-- Declared here because the triggers need it; functions/timers/schedules.sql has its body.
CREATE FUNCTION holdfast_private.schedule_job() RETURNS trigger
    LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER schedule_changed AFTER UPDATE OF expression, zone ON holdfast_private.schedules
    FOR EACH ROW
        WHEN (old.job IS NOT NULL AND (old.expression, old.zone) <> (new.expression, new.zone))
    EXECUTE FUNCTION holdfast_private.schedule_job();
CREATE TRIGGER schedule_dropped AFTER DELETE ON holdfast_private.schedules
    FOR EACH ROW WHEN (old.job IS NOT NULL) EXECUTE FUNCTION holdfast_private.schedule_job();
