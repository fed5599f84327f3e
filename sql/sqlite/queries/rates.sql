-- Statements of rates of subscriptions (tables/0016_rates.sql).

-- hot
-- name: rate_get
SELECT r.empty_at, s.id FROM holdfast_subscriptions s
    LEFT JOIN holdfast_rates r ON r.subscription_id = s.id
    WHERE s.id = ?1 AND s.namespace_id = ?2;

-- hot
-- name: rate_put
INSERT INTO holdfast_rates (subscription_id, empty_at) VALUES (?1, ?2)
    ON CONFLICT (subscription_id) DO UPDATE SET empty_at = excluded.empty_at;

-- name: rate_delete
DELETE FROM holdfast_rates WHERE subscription_id = ?1;
