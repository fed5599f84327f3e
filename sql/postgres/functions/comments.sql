-- What psql says of what people call and read: \df+, \d+, \dT+. docs/sql.md says more.
--
-- Of the schema holdfast every function with a parameter whose name has no prefix p_, and what docs/sql.md
-- names, is for people; all others are for the library. A function for people, and a column that they see, has
-- its line here (tests/postgres/comments.sh).

COMMENT ON SCHEMA holdfast IS
    'Holdfast, a durable event bus. Views, and functions with a comment, are for everybody; all '
    'other functions belong to the library.';
COMMENT ON SCHEMA holdfast_private IS
    'The tables of Holdfast and the functions of its inside. Only its owner may use it: grant no '
    'role any right on it.';

-- ---- Publishing ---------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.publish IS
    'Publishes an event in this transaction: it exists if and only if the transaction commits. '
    'Answers its id and position, and whether an event with this id was there.';
COMMENT ON FUNCTION holdfast.publish_many(text, text[], json[], uuid[], text[], text[],
                                          json[], text[], bigint[], timestamptz[], bytea) IS
    'Publishes many events in one statement, in the order of the arrays. A row per event: its '
    'id and position, and whether it was there.';
COMMENT ON FUNCTION holdfast.publish_many(text, json) IS
    'Publishes the events of a JSON array, each an object with type, payload, id, key ... A row '
    'per event: its id and position, and whether it was there.';
COMMENT ON FUNCTION holdfast.publish_later IS
    'Publishes an event that enters the log at deliver_at; at once if that has passed.';
COMMENT ON FUNCTION holdfast.import_table IS
    'Moves the rows of a table of events into the log, in the stated order, in one transaction. '
    'Running it again imports what was added since.';

-- ---- Pulling ------------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.claim IS
    'Takes up to max events of a shared subscription under a lease that ends after lease_ms. No '
    'rows: there is nothing to do.';
COMMENT ON FUNCTION holdfast.ack IS
    'Settles events of a lease as done; without positions all that are left.';
COMMENT ON FUNCTION holdfast.nack IS
    'Settles events of a lease as failed: they are delivered again after delay_ms, or by the '
    'subscription''s rule, or become dead letters if it was the last attempt.';
COMMENT ON FUNCTION holdfast.release IS
    'Gives events of a lease back: others may claim them at once, and the attempt does not count.';
COMMENT ON FUNCTION holdfast.bury IS
    'Makes events of a lease dead letters, whatever attempts are left.';
COMMENT ON FUNCTION holdfast.extend IS
    'Lets a lease last lease_ms from now (NULL: as long as the subscription says). Answers when '
    'it ends.';

-- ---- Subscriptions ------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.create_subscription IS
    'Makes a subscription to the types that match the patterns, from place on: start, now, a '
    'position or a time. True: it was not there. HF004 if it is there with another mode or '
    'order.';
COMMENT ON FUNCTION holdfast.alter_subscription IS
    'Changes patterns, partitions or options of a subscription; what is not given stays.';
COMMENT ON FUNCTION holdfast.drop_subscription IS
    'Removes a subscription with its checkpoint and all that waits. Its dead letters stay.';
COMMENT ON FUNCTION holdfast.option_rows IS
    'The options of subscriptions with their defaults and limits.';
COMMENT ON FUNCTION holdfast.pause_subscription IS
    'Nothing of the subscription is delivered until it is resumed.';
COMMENT ON FUNCTION holdfast.resume_subscription IS
    'Ends a pause.';
COMMENT ON FUNCTION holdfast.seek_subscription IS
    'Moves a subscription to a place: start, now, a position or a time. Answers the position '
    'after which it goes on and how many come after it. dry_run: answers, and moves nothing.';

-- ---- Namespaces ---------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.create_namespace IS
    'Makes a namespace. True: it was not there. For the owner of the schema.';
COMMENT ON FUNCTION holdfast.alter_namespace IS
    'Changes the settings of a namespace; what is NULL stays. For the owner of the schema.';
COMMENT ON PROCEDURE holdfast.drop_namespace IS
    'Removes a namespace with everything in it, by many small transactions: CALL it outside of '
    'one. force: although processes have it open. For the owner of the schema.';
COMMENT ON FUNCTION holdfast.limit_payload IS
    'Limits the payloads of a namespace to so many bytes. For the owner of the schema.';
COMMENT ON FUNCTION holdfast.namespace_grant IS
    'Makes a role of the server viewer, publisher, consumer or owner in a namespace. True: it '
    'was not before. For the owner of the schema.';
COMMENT ON FUNCTION holdfast.namespace_revoke IS
    'Takes back what namespace_grant gave. False: there was nothing to be taken back. For the '
    'owner of the schema.';

-- ---- Schedules ----------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.create_schedule IS
    'Makes a schedule that publishes an event at each time of a cron expression in a time zone, '
    'or changes the one of this name. Answers its id.';
COMMENT ON FUNCTION holdfast.drop_schedule IS
    'Removes a schedule and the ledger of its firings.';
COMMENT ON FUNCTION holdfast.pause_schedule IS
    'The schedule does not fire until it is resumed.';
COMMENT ON FUNCTION holdfast.resume_schedule IS
    'Ends a pause; times that passed meanwhile are not made up for.';
COMMENT ON FUNCTION holdfast.run_schedule IS
    'Fires a schedule now, besides its times. Answers the id and position of the event.';
COMMENT ON FUNCTION holdfast.cron_next(text, text, timestamptz) IS
    'The next time of a cron expression in a time zone after a moment.';

-- ---- For those who run no process of Holdfast ---------------------------------------------------

COMMENT ON FUNCTION holdfast.tick IS
    'Fires what is due in a namespace (NULL: in all), releases delayed events, makes months. To '
    'be called every few seconds where no process of Holdfast runs.';
COMMENT ON FUNCTION holdfast.retain IS
    'Drops months of the log that retention allows to go. To be called once an hour where no '
    'process of Holdfast runs. For the owner of the schema.';
COMMENT ON FUNCTION holdfast.upkeep IS
    'Shortens the journal of checkpoints and the tables whose rows come and go. True: something '
    'was done.';
COMMENT ON FUNCTION holdfast.heartbeat IS
    'Says that a node lives: once without a token, which it answers, then with it before '
    'heartbeat_ms are over.';
COMMENT ON FUNCTION holdfast.goodbye IS
    'Says that a node stops. False: it was not there.';
COMMENT ON FUNCTION holdfast.mend_sequences IS
    'Moves sequences that are behind their tables, as after a restore of rows alone, and names '
    'them. For the owner of the schema.';

-- ---- Looking ------------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.stats IS
    'A row per subscription of a namespace (NULL: of all): how far it is and what waits. What '
    'is not known is NULL.';
COMMENT ON TYPE holdfast.stats IS 'The rows of holdfast.stats().';
COMMENT ON COLUMN holdfast.stats.namespace IS 'the name of the namespace';
COMMENT ON COLUMN holdfast.stats.subscription IS
    'the name of the subscription; NULL: the namespace has none';
COMMENT ON COLUMN holdfast.stats.head IS 'the newest position of the log';
COMMENT ON COLUMN holdfast.stats.checkpoint IS 'everything up to this position is settled';
COMMENT ON COLUMN holdfast.stats.lag IS 'how many positions lie between checkpoint and head';
COMMENT ON COLUMN holdfast.stats.oldest_waiting IS
    'how long the oldest event that is not settled has been in the log';
COMMENT ON COLUMN holdfast.stats.in_flight IS
    'events under a lease; NULL: the subscription is ordered';
COMMENT ON COLUMN holdfast.stats.retrying IS 'events that failed and wait for their next attempt';
COMMENT ON COLUMN holdfast.stats.held IS 'events that wait behind an earlier one of their key';
COMMENT ON COLUMN holdfast.stats.blocked IS
    'dead events that keep their keys back until somebody decides';
COMMENT ON COLUMN holdfast.stats.dead IS 'dead letters that are not resolved';
COMMENT ON COLUMN holdfast.stats.rate IS
    'positions per second that the checkpoint has passed lately';

COMMENT ON VIEW holdfast.event_log IS
    'A row per event. Ask for one namespace: then only its months are read.';
COMMENT ON COLUMN holdfast.event_log.namespace IS 'the name of the namespace';
COMMENT ON COLUMN holdfast.event_log.position IS
    'the place in the log; it rises, with gaps unless the namespace is gapless';
COMMENT ON COLUMN holdfast.event_log.id IS
    'the id that guards the event against being stored twice';
COMMENT ON COLUMN holdfast.event_log.type IS 'what patterns of subscriptions match';
COMMENT ON COLUMN holdfast.event_log.key IS 'events of one key and tenant are delivered in order';
COMMENT ON COLUMN holdfast.event_log.tenant IS 'the other half of the key';
COMMENT ON COLUMN holdfast.event_log.key_version IS
    'the version of the key, if the publisher expected one';
COMMENT ON COLUMN holdfast.event_log.payload IS 'the bytes that were published';
COMMENT ON COLUMN holdfast.event_log.metadata IS 'what the publisher said about the event';
COMMENT ON COLUMN holdfast.event_log.producer IS 'who published it';
COMMENT ON COLUMN holdfast.event_log.schedule_id IS 'the schedule that fired it; NULL: none';
COMMENT ON COLUMN holdfast.event_log.emitted_at IS 'when it happened, by the publisher''s clock';
COMMENT ON COLUMN holdfast.event_log.entered_at IS
    'when it entered the log, by the server''s clock';

COMMENT ON VIEW holdfast.dead_letters IS
    'A row per dead letter, the resolved ones too: a complete copy of its event.';
COMMENT ON COLUMN holdfast.dead_letters.id IS 'the number by which it is retried or resolved';
COMMENT ON COLUMN holdfast.dead_letters.namespace IS 'the name of the namespace';
COMMENT ON COLUMN holdfast.dead_letters.subscription IS 'the subscription that could not handle it';
COMMENT ON COLUMN holdfast.dead_letters.event_id IS 'the id of the event';
COMMENT ON COLUMN holdfast.dead_letters.position IS 'the position of the event in the log';
COMMENT ON COLUMN holdfast.dead_letters.type IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.key IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.tenant IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.key_version IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.payload IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.metadata IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.producer IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.schedule_id IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.emitted_at IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.entered_at IS 'of the event';
COMMENT ON COLUMN holdfast.dead_letters.reason IS 'why it is dead: a word, for programs';
COMMENT ON COLUMN holdfast.dead_letters.cause IS
    'what made the last attempt fail: a word, for programs';
COMMENT ON COLUMN holdfast.dead_letters.error IS 'what the last attempt said, for people';
COMMENT ON COLUMN holdfast.dead_letters.attempts IS 'how many attempts were recorded';
COMMENT ON COLUMN holdfast.dead_letters.story IS 'every attempt with its time, error and node';
COMMENT ON COLUMN holdfast.dead_letters.failed_at IS 'when it died';
COMMENT ON COLUMN holdfast.dead_letters.resolved_at IS
    'when somebody resolved it; NULL: it is open';
COMMENT ON COLUMN holdfast.dead_letters.resolved_by IS 'who did';
COMMENT ON COLUMN holdfast.dead_letters.resolved_note IS 'and what they wrote about it';

COMMENT ON VIEW holdfast.subscription_list IS 'A row per subscription, with its definition.';
COMMENT ON COLUMN holdfast.subscription_list.namespace IS 'the name of the namespace';
COMMENT ON COLUMN holdfast.subscription_list.name IS 'the name of the subscription';
COMMENT ON COLUMN holdfast.subscription_list.mode IS 'ordered or shared';
COMMENT ON COLUMN holdfast.subscription_list.partitions IS 'in how many parts it is delivered';
COMMENT ON COLUMN holdfast.subscription_list.patterns IS 'the types that it gets, an array';
COMMENT ON COLUMN holdfast.subscription_list.options IS
    'its options; those that are not named have their defaults (option_rows)';
COMMENT ON COLUMN holdfast.subscription_list.paused_at IS 'since when it is paused; NULL: it is not';
COMMENT ON COLUMN holdfast.subscription_list.paused_by IS 'the role or node that paused it';
COMMENT ON COLUMN holdfast.subscription_list.paused_reason IS 'why';
COMMENT ON COLUMN holdfast.subscription_list.created_at IS 'when it was made';

COMMENT ON VIEW holdfast.grant_list IS
    'A row per part that a role of the server has in a namespace (namespace_grant).';
COMMENT ON COLUMN holdfast.grant_list.namespace IS 'the name of the namespace';
COMMENT ON COLUMN holdfast.grant_list.grantee IS 'the role of the server';
COMMENT ON COLUMN holdfast.grant_list.role IS 'viewer, publisher, consumer or owner';
COMMENT ON COLUMN holdfast.grant_list.granted_at IS 'when it was granted';
