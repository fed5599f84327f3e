-- Who works for an ordered subscription, in the order of joining. Its partitions are shared out
-- among the members; a member that has died is struck off by the next process that looks.
CREATE TABLE holdfast_members (
    subscription_id INTEGER NOT NULL,
    joined          INTEGER NOT NULL,          -- 1, 2 ...
    token           BLOB NOT NULL,             -- of the process
    PRIMARY KEY (subscription_id, joined)
) STRICT, WITHOUT ROWID;

-- Rises when the members change or a partition is given back: then each of them looks at its share.
ALTER TABLE holdfast_subscriptions ADD COLUMN members_version INTEGER NOT NULL DEFAULT 0;
