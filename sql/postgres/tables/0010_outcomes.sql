-- What became of deliveries that failed first and then succeeded, and how often events were handed
-- out.

-- The last HF_OUTCOMES_MAX of a subscription; number: the order in which they were settled. They go
-- with their events, by retention. An event that succeeds at once has no row here.
CREATE SEQUENCE holdfast_private.outcome_numbers AS bigint;

CREATE TABLE holdfast_private.outcomes (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    number          bigint NOT NULL DEFAULT nextval('holdfast_private.outcome_numbers'),
    settled_at      timestamptz NOT NULL,
    attempts        integer NOT NULL,           -- that failed
    deliveries      integer,                    -- NULL: not known
    cause           text COLLATE "C",           -- as in retries: of the last attempt that failed
    story           text,
    PRIMARY KEY (subscription_id, position)
);
CREATE INDEX outcomes_newest ON holdfast_private.outcomes (subscription_id, number);

ALTER TABLE holdfast_private.outcomes ENABLE ROW LEVEL SECURITY;
CREATE POLICY see ON holdfast_private.outcomes FOR SELECT
    USING (EXISTS (SELECT FROM holdfast_private.subscriptions s WHERE s.id = subscription_id));

-- How often the event was handed out. In retries: of shared subscriptions, by leases; NULL: not
-- known. Of ordered ones the attempts tell, above doubt_through; then this is NULL, but for a
-- retried dead letter that has not been tried again.
ALTER TABLE holdfast_private.retries ADD COLUMN deliveries integer;
ALTER TABLE holdfast_private.letters ADD COLUMN deliveries integer;

-- An owner of the partition died, or lost it: what it had handed out of the events up to this
-- position and had not stored is not known.
ALTER TABLE holdfast_private.partitions ADD COLUMN doubt_through bigint NOT NULL DEFAULT 0;
UPDATE holdfast_private.partitions p
    SET doubt_through = greatest(pg_sequence_last_value(n.sequence), h.head, 0)
    FROM holdfast_private.subscriptions s
    JOIN holdfast_private.namespaces n ON n.id = s.namespace_id
    LEFT JOIN holdfast_private.heads h ON h.namespace_id = n.id
    WHERE s.id = p.subscription_id;

-- Positions of a lease that were handed out so often, this lease included; NULL: not known.
CREATE TYPE holdfast_private.handed AS (
    times     integer,
    positions int8multirange
);

-- Of positions without a row in retries: those that were handed out more than once. NULL: none.
ALTER TABLE holdfast_private.leases ADD COLUMN handed holdfast_private.handed[];
UPDATE holdfast_private.leases
    SET handed = ARRAY[ROW(NULL, positions)::holdfast_private.handed];
ALTER TYPE holdfast_private.claiming ADD ATTRIBUTE handed holdfast_private.handed[];

-- This delivery included; NULL: not known.
ALTER TYPE holdfast.leased_event ADD ATTRIBUTE deliveries integer;

-- They answer more, or take more: functions/ makes them anew.
DROP FUNCTION IF EXISTS holdfast.claim(text, text, integer, bigint, text, bytea);
DROP FUNCTION IF EXISTS holdfast.change_acquire(integer, bigint, integer, uuid, text, boolean,
                                                uuid[], bigint[], bytea);
