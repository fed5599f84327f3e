-- Who works for an ordered subscription, in the order of joining. Its partitions are shared out among
-- the members; a member that has died is struck off by whoever looks next.
CREATE TABLE holdfast_members (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription_id INTEGER NOT NULL,
    token           BLOB NOT NULL,             -- of the process
    UNIQUE (subscription_id, token)
) STRICT;

-- Rises when the members change or a partition is given back: then each of them looks at its share.
ALTER TABLE holdfast_subscriptions ADD COLUMN crew INTEGER NOT NULL DEFAULT 0;
