-- What people ask first when nothing moves: who claimed what and when, what runs, what is pending.

-- When a lease was claimed; NULL: not known, or no claim holds it.
ALTER TABLE holdfast_private.leases ADD COLUMN claimed_at timestamptz;

-- When a shared subscription last handed something out; NULL: never.
ALTER TABLE holdfast_private.checkpoints_0 ADD COLUMN claimed_at timestamptz;
ALTER TABLE holdfast_private.checkpoints_1 ADD COLUMN claimed_at timestamptz;

-- The handlers that have run for a while in a process, for people (functions/watch/standing.sql):
-- their subscriptions, the positions of their events, and since when. NULL: none.
ALTER TABLE holdfast_private.processes ADD COLUMN running_subscriptions bigint[];
ALTER TABLE holdfast_private.processes ADD COLUMN running_positions bigint[];
ALTER TABLE holdfast_private.processes ADD COLUMN running_since timestamptz[];

-- lease_ended: events of leases that have ended, or that no process holds; lease_ended_at: since
-- when the first of them is free. claimed_at: as in the journal.
ALTER TYPE holdfast.progress ADD ATTRIBUTE lease_ended bigint;
ALTER TYPE holdfast.progress ADD ATTRIBUTE lease_ended_at timestamptz;
ALTER TYPE holdfast.progress ADD ATTRIBUTE claimed_at timestamptz;

-- What is pending: functions/watch/standing.sql.
ALTER TYPE holdfast.stats ADD ATTRIBUTE pending bigint;
ALTER TYPE holdfast.stats ADD ATTRIBUTE pending_more boolean;
ALTER TYPE holdfast.stats ADD ATTRIBUTE lease_ended bigint;
ALTER TYPE holdfast.stats ADD ATTRIBUTE claimed_at timestamptz;

-- A row of lease_list().
CREATE TYPE holdfast.lease AS (
    subscription text,
    lease        text,
    node         text,
    claimed_at   timestamptz,
    expires_at   timestamptz,
    kept         boolean,
    ended        boolean,
    count        integer,
    positions    bigint[]
);
