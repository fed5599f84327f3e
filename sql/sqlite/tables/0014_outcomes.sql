-- What became of deliveries that failed first and then succeeded, and how often events were handed
-- out.

-- The last HF_OUTCOMES_MAX of a subscription; number: the order in which they were settled. They go
-- with their events, by retention. An event that succeeds at once has no row here.
CREATE TABLE holdfast_outcomes (
    subscription_id INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    settled_at      INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,          -- that failed
    deliveries      INTEGER,                   -- NULL: not known
    cause           TEXT,                      -- as in retries: of the last attempt that failed
    story           TEXT,
    PRIMARY KEY (subscription_id, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast_outcomes_by_position
    ON holdfast_outcomes (subscription_id, position);

-- How often the event was handed out. In retries of a shared subscription: by leases, NULL: not
-- known. Of an ordered one its attempts tell, unless its position is not above doubt_through: then
-- it is NULL (not known), or the number all the same, because a note has told which attempt ran
-- when its process died.
ALTER TABLE holdfast_retries ADD COLUMN deliveries INTEGER;
ALTER TABLE holdfast_dead_letters ADD COLUMN deliveries INTEGER;

-- An owner of the partition died, or lost it: what it had handed out of the events up to this
-- position and had not stored is not known.
ALTER TABLE holdfast_partitions ADD COLUMN doubt_through INTEGER NOT NULL DEFAULT 0;
UPDATE holdfast_partitions
    SET doubt_through = (
        SELECT max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                                   WHERE e.place > n.id << 44
                                       AND e.place <= (n.id << 44) + 17592186044415
                                   ORDER BY e.place DESC LIMIT 1), 0))
        FROM holdfast_subscriptions s JOIN holdfast_namespaces n ON n.id = s.namespace_id
        WHERE s.id = holdfast_partitions.subscription_id);

-- How often each of the positions without a row in retries was handed out, this lease included, as
-- varints (0: not known). NULL: each of them once. Empty: not known of any.
ALTER TABLE holdfast_leases ADD COLUMN times BLOB;
UPDATE holdfast_leases SET times = x'';
