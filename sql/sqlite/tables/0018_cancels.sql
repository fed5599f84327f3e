-- Deliveries that are cancelled, or that are to be (src/store/cancel.h). A row goes with its event,
-- by retention. hash: the event's, which says its partition.
CREATE TABLE holdfast_cancels (
    subscription_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    hash            INTEGER NOT NULL,
    requested_at    INTEGER NOT NULL,
    cancelled_at    INTEGER,                   -- NULL: requested, and not decided yet
    cancelled_by    TEXT,
    reason          TEXT,
    PRIMARY KEY (subscription_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_cancels_requested
    ON holdfast_cancels (subscription_id, position) WHERE cancelled_at IS NULL;
