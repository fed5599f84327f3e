-- The rate of a subscription: when its bucket of tokens was empty (functions/deliver/rates.sql). A
-- row is made when the first process takes from it.
CREATE TABLE holdfast_private.rates (
    subscription_id bigint PRIMARY KEY,
    empty_at        timestamptz NOT NULL
) WITH (fillfactor = 50);

ALTER TABLE holdfast_private.rates ENABLE ROW LEVEL SECURITY;
CREATE POLICY see ON holdfast_private.rates FOR SELECT
    USING (EXISTS (SELECT FROM holdfast_private.subscriptions s WHERE s.id = subscription_id));
