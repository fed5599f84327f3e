-- Deliveries that are cancelled, or that are to be (src/store/cancel.h). A row goes with its event,
-- by retention. hash: the event's, which says its partition.
CREATE TABLE holdfast_private.cancels (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    hash            bigint NOT NULL,
    requested_at    timestamptz NOT NULL,
    cancelled_at    timestamptz,                -- NULL: requested, and not decided yet
    cancelled_by    text,
    reason          text,
    PRIMARY KEY (subscription_id, position)
);
CREATE INDEX cancels_requested ON holdfast_private.cancels (subscription_id, position)
    WHERE cancelled_at IS NULL;

ALTER TABLE holdfast_private.cancels ENABLE ROW LEVEL SECURITY;
CREATE POLICY see ON holdfast_private.cancels FOR SELECT
    USING (EXISTS (SELECT FROM holdfast_private.subscriptions s WHERE s.id = subscription_id));

-- They answer more: functions/ makes them anew.
DROP FUNCTION IF EXISTS holdfast.event_states(text, uuid);
DROP FUNCTION IF EXISTS holdfast.delivery_facts(integer, bigint[], uuid, bigint, bigint,
                                                timestamptz, uuid);
