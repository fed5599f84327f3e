-- What psql says of what people call and read: \df+, \d+, \dT+. docs/sql.md says more.
--
-- Of the schema holdfast every function with a parameter whose name has no prefix p_, and what
-- docs/sql.md names, is for people; all others are for the library. A function for people, and a
-- column that they see, has its line here (tests/postgres/comments.sh).

COMMENT ON SCHEMA holdfast IS
    'Holdfast, a durable event bus. Views, and functions with a comment, are for applications; all '
    'other functions belong to the library.';
COMMENT ON SCHEMA holdfast_private IS
    'The tables of Holdfast and the functions of its inside. Only its owner may use it: grant no '
    'role any right on it.';

-- ---- Publishing ---------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.publish(text, text, anycompatible, uuid, text, text, anycompatible,
                                     text, bigint, timestamptz, text, interval) IS
    'Publishes an event in this transaction: it exists if and only if the transaction commits. '
    'Answers its id and position, and whether an event with this id was there, or one with this '
    'unique_key within unique_for: then id and position are those of that one.';
COMMENT ON FUNCTION holdfast.publish_many(text, text[], anycompatible, uuid[], text[], text[],
                                          anycompatible, text[], bigint[], timestamptz[], text[],
                                          interval[], bytea) IS
    'Publishes many events in one statement, in the order of the arrays. A row per event: its '
    'id and position, and whether it, or one with its unique key, was there.';
COMMENT ON FUNCTION holdfast.publish_many(text, anycompatible) IS
    'Publishes the events of a JSON array, each an object with type, payload, id, key ... A row '
    'per event: its id and position, and whether it, or one with its unique key, was there.';
COMMENT ON FUNCTION holdfast.publish_later IS
    'Publishes an event that enters the log at deliver_at; at once if that has passed. With '
    'replace it takes the place of one with the same unique_key that waits.';
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
    'Gives events of a lease back: others may claim them at once, or after delay_ms, and the '
    'attempt does not count.';
COMMENT ON FUNCTION holdfast.bury IS
    'Makes events of a lease dead letters, whatever attempts are left.';
COMMENT ON FUNCTION holdfast.extend IS
    'Lets a lease last lease_ms from now (NULL: as long as the subscription says). Answers when '
    'it ends.';
COMMENT ON FUNCTION holdfast.lease_list IS
    'What is claimed and not settled, of a shared subscription (NULL: of all): who has which '
    'events, since when and until when.';
COMMENT ON FUNCTION holdfast.lease_revoke IS
    'Takes a lease away from its holder: its events are free for the next claim, and the attempt '
    'does not count. Answers how many they are.';
SELECT holdfast_private.comment_make('holdfast.lease', '{
    "": "The rows of holdfast.lease_list().",
    "subscription": "the name of the subscription",
    "lease": "what ack and the others take",
    "node": "who claimed it; NULL: not known",
    "claimed_at": "when it was claimed; NULL: not known",
    "expires_at": "when it ends; if it is kept, when its node is looked at",
    "kept": "handlers of a process have it: it lasts while that is alive",
    "ended": "its time is over, or its process is dead, and no claim has taken what is left",
    "count": "how many events are left in it",
    "positions": "which"
}');

COMMENT ON FUNCTION holdfast.prepare_wait IS
    'For a client that has claimed nothing and wants to wait: LISTEN on the channel, call this, '
    'claim once more, then wait for a notification, for wait_ms at most.';

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

-- ---- Dead letters -------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.retry_dead_letters IS
    'Delivers dead letters again to their subscriptions: those with these ids (dead_id), or those '
    'that meet all conditions, oldest first. type is a pattern, error a part of the text. payload: '
    'of one id, instead of its own. Answers how many; call it again while that is max.';
COMMENT ON FUNCTION holdfast.dead_letter_groups IS
    'Dead letters that meet all conditions, counted by error, type, subscription or reason, the '
    'largest group first. more: there are so many different ones that all numbers are at least so '
    'large.';
COMMENT ON FUNCTION holdfast.resolve_dead_letters IS
    'Marks dead letters as dealt with, with a note; they stay until they are purged. Answers how '
    'many.';
COMMENT ON FUNCTION holdfast.purge_dead_letters IS
    'Deletes dead letters for good: those with these ids, or those that meet all conditions. '
    'resolved: resolved ones, too. Answers how many.';

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

-- ---- Events -------------------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.event_states IS
    'The state of an event in every subscription: not_for_it, pending, processing (node, since), '
    'retrying (next_attempt_at), held, done, dead (dead_id) or cancelled (cancelled_at, '
    'cancelled_by, cancel_reason), with the attempts that failed.';
COMMENT ON FUNCTION holdfast.cancel_event IS
    'Settles an event, named by its id or its position, for one subscription without a handler. '
    'Answers cancelled, or requested: a process has it in hand, and gives it up unless its handler '
    'succeeds.';

-- ---- Events for later ---------------------------------------------------------------------------

COMMENT ON FUNCTION holdfast.retry_list IS
    'The events of a subscription that wait for their next attempt, those that are due first '
    'first, with their last error; with behind those that are held behind one of them.';
COMMENT ON FUNCTION holdfast.later_list IS
    'Events that wait for their time, in the order in which they are due. type: a pattern; '
    'after_due_at and after_number: the last row of the page before.';
COMMENT ON FUNCTION holdfast.later_show IS
    'The event with this id, if it waits for its time; else no row.';
COMMENT ON FUNCTION holdfast.later_cancel IS
    'Cancels an event that waits for its time. If it has entered the log already, cancelled is '
    'false and position says where.';
COMMENT ON FUNCTION holdfast.later_move IS
    'Gives an event that waits for its time another one. If it has entered the log already, moved '
    'is false and position says where.';

-- ---- For those who run no process of Holdfast ---------------------------------------------------

COMMENT ON FUNCTION holdfast.tick IS
    'Fires what is due in a namespace (NULL: in all), brings events for later, makes months. '
    'next_at: when the next one is due. To be called every few seconds where no process of '
    'Holdfast runs.';
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

SELECT holdfast_private.comment_make('holdfast.stats', '{
    "": "The rows of holdfast.stats().",
    "namespace": "the name of the namespace",
    "subscription": "the name of the subscription; NULL: the namespace has none",
    "head": "the newest position of the log",
    "checkpoint": "everything up to this position is settled",
    "lag": "how many positions lie between checkpoint and head",
    "oldest_waiting": "how long the oldest event that matches and is not settled is in the log",
    "in_flight": "events under leases that have not ended; ordered: handlers that run for long",
    "retrying": "events that failed and wait for their next attempt",
    "held": "events that wait behind an earlier one of their key",
    "blocked": "dead events that keep their keys back until a person decides",
    "dead": "dead letters that are not resolved",
    "rate": "positions per second that the checkpoint has passed lately",
    "later": "of the namespace: events that wait for their time",
    "pending": "events that match and are not handed out, counted up to 10000",
    "pending_more": "at least so many are pending",
    "lease_ended": "shared: events whose lease ended; they are pending, too",
    "claimed_at": "shared: when events were last handed out; NULL: never"
}');

SELECT holdfast_private.comment_make('holdfast.event_log', '{
    "": "A row per event. Ask for one namespace: then only its months are read.",
    "namespace": "the name of the namespace",
    "position": "the place in the log; it rises, with gaps unless the namespace is gapless",
    "id": "the id that guards the event against being stored twice",
    "type": "what patterns of subscriptions match",
    "key": "events of one key and tenant are delivered in order",
    "tenant": "the other half of the key",
    "key_version": "the version of the key, if the publisher expected one",
    "payload": "the bytes that were published",
    "metadata": "what the publisher said about the event",
    "producer": "who published it",
    "schedule_id": "the schedule that fired it; NULL: none",
    "emitted_at": "when it happened, by the publisher''s clock",
    "entered_at": "when it entered the log, by the server''s clock"
}');

SELECT holdfast_private.comment_make('holdfast.dead_letters', '{
    "": "A row per dead letter, the resolved ones too: a complete copy of its event.",
    "dead_id": "the number by which it is retried or resolved",
    "namespace": "the name of the namespace",
    "subscription": "the subscription that could not handle it",
    "id": "the id of the event",
    "position": "the position of the event in the log",
    "type": "of the event",
    "key": "of the event",
    "tenant": "of the event",
    "key_version": "of the event",
    "payload": "of the event",
    "metadata": "of the event",
    "producer": "of the event",
    "schedule_id": "of the event",
    "emitted_at": "of the event",
    "entered_at": "of the event",
    "reason": "why it is dead: a word, for programs",
    "cause": "what made the last attempt fail: a word, for programs",
    "error": "what the last attempt said, for people",
    "attempts": "how many attempts were recorded",
    "attempts_json": "every attempt with its time, error and node",
    "failed_at": "when it died",
    "resolved_at": "when it was resolved; NULL: it is open",
    "resolved_by": "who did",
    "resolved_note": "and what they wrote about it",
    "deliveries": "how often it was handed out; NULL: not known"
}');

SELECT holdfast_private.comment_make('holdfast.outcome_list', '{
    "": "A row per delivery that failed first and then succeeded, the last ones of a subscription.",
    "namespace": "the name of the namespace",
    "subscription": "the subscription that handled it",
    "position": "the position of the event in the log",
    "settled_at": "when it succeeded",
    "attempts": "how many attempts failed before",
    "deliveries": "how often it was handed out; NULL: not known",
    "cause": "what made the last of those attempts fail: a word, for programs",
    "attempts_json": "every failed attempt with its time, error and node"
}');

SELECT holdfast_private.comment_make('holdfast.subscription_list', '{
    "": "A row per subscription, with its definition.",
    "namespace": "the name of the namespace",
    "name": "the name of the subscription",
    "mode": "ordered or shared",
    "partitions": "in how many parts it is delivered",
    "patterns": "the types that it gets, an array",
    "options": "its options; those that are not named have their defaults (option_rows)",
    "paused_at": "since when it is paused; NULL: it is not",
    "paused_by": "the role or node that paused it",
    "paused_reason": "why",
    "created_at": "when it was made"
}');

SELECT holdfast_private.comment_make('holdfast.schedule_list', '{
    "": "A row per schedule; for roles that may publish in the namespace, and its owners.",
    "namespace": "the name of the namespace",
    "name": "the name of the schedule",
    "id": "its id, which its events have as schedule_id",
    "expression": "the cron expression, or @every",
    "zone": "the time zone of the expression",
    "next_at": "when it fires next; NULL: never again",
    "type": "the type of its events",
    "payload": "their payload",
    "key": "their key",
    "tenant": "their tenant",
    "metadata": "their metadata",
    "misfire": "what becomes of times that were missed: skip, once or all",
    "misfire_cap": "of all: the latest so many",
    "grace_ms": "a time that is at most so late still fires",
    "driver": "own, or pg_cron: a job of that extension fires it",
    "paused_at": "since when it is paused; NULL: it is not",
    "paused_by": "the role or node that paused it",
    "paused_reason": "why",
    "created_at": "when it was made"
}');

SELECT holdfast_private.comment_make('holdfast.grant_list', '{
    "": "A row per part that a role of the server has in a namespace (namespace_grant).",
    "namespace": "the name of the namespace",
    "grantee": "the role of the server",
    "role": "viewer, publisher, consumer or owner",
    "granted_at": "when it was granted"
}');
