-- Up to where dead letters were numbered is copied with a namespace (transfer_write_numbers in
-- queries_transfer.sql), also into a file that has numbered none yet: SQLite's own row of it is
-- there from the beginning.
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'holdfast_dead_letters', 0
    WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'holdfast_dead_letters');
