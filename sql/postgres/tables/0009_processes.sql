-- Each sign of life reads the processes of its namespace. Without an index it would step over those
-- of all others, of which a role may have 10,000, and over what their changes have left behind.
CREATE INDEX processes_by_namespace ON holdfast_private.processes (namespace_id);

-- It takes a ticket: functions/log/publishers.sql makes it anew.
DROP FUNCTION IF EXISTS holdfast.publishing_now(integer);
