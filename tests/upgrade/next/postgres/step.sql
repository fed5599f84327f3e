-- older programs: work
-- older schema: works
CREATE TABLE holdfast_private.next (
    next_id bigint PRIMARY KEY,
    note    text NOT NULL
);
ALTER TABLE holdfast_private.subscriptions ADD COLUMN next_note text;
