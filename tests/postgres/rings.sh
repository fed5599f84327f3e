#!/usr/bin/env bash
# A process that sleeps is notified by each function of SQL that gives it something to do. A
# transaction that has sent a notification cannot be prepared: that shows it without a listener.
. "$(dirname "$0")/lib.sh"
cluster max_prepared_transactions=1
keep
schema
sql "SELECT holdfast.create_subscription('default', 'jobs', '{job}', 'start', 'shared');
     SELECT FROM generate_series(1, 3), holdfast.publish('default', 'job');
     SELECT holdfast.bury('default', 'jobs', max(lease)) FROM holdfast.claim('default', 'jobs');
     SELECT FROM holdfast.publish('default', 'job');
     SELECT FROM holdfast.publish_later('default', 'job', '1', now() + interval '1 h',
         id => '0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55');
     SELECT holdfast.create_schedule('default', 'hourly', '@every 1h', 'job');
     SELECT FROM holdfast.prepare_wait('default', 3600000)" >/dev/null
lease=$(sql "SELECT lease FROM holdfast.claim('default', 'jobs')")
sql "SELECT FROM holdfast.publish('default', 'job')" >/dev/null

# rings CLAIM CALL: the call notifies; it is rolled back.
rings() {
    fails "$1 notifies a process that sleeps" "BEGIN; $2; PREPARE TRANSACTION 'p'" \
        '0A000: cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY'
    sql "ROLLBACK PREPARED 'p'" >/dev/null # which is there only if the claim failed
}
rings publish "SELECT FROM holdfast.publish('default', 'job')"
rings publish_many "SELECT FROM holdfast.publish_many('default', '{job}', NULL)"
rings publish_later \
    "SELECT FROM holdfast.publish_later('default', 'job', '1', now() + interval '1 h')"
rings later_move "SELECT FROM holdfast.later_move('default',
    '0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55', now() + interval '1 s')"
rings retry_dead_letters "SELECT holdfast.retry_dead_letters('default', everything => true)"
rings resolve_dead_letters "SELECT holdfast.resolve_dead_letters('default', everything => true)"
rings purge_dead_letters "SELECT holdfast.purge_dead_letters('default', everything => true)"
rings release "SELECT holdfast.release('default', 'jobs', '$lease')"
rings nack "SELECT holdfast.nack('default', 'jobs', '$lease')"
rings create_subscription \
    "SELECT holdfast.create_subscription('default', 'new', '{job}', 'start', 'shared')"
rings alter_subscription "SELECT holdfast.alter_subscription('default', 'jobs', '{job, other}')"
rings seek_subscription "SELECT FROM holdfast.seek_subscription('default', 'jobs', 'start')"
rings pause_subscription "SELECT holdfast.pause_subscription('default', 'jobs')"
rings resume_subscription "SELECT holdfast.pause_subscription('default', 'jobs');
    SELECT holdfast.resume_subscription('default', 'jobs')"
rings drop_subscription "SELECT holdfast.drop_subscription('default', 'jobs')"
rings cancel_event "SELECT FROM holdfast.cancel_event('default', 'jobs', \"position\" =>
    (SELECT max(position) FROM holdfast.event_log))"
rings create_schedule \
    "SELECT holdfast.create_schedule('default', 'other', '@every 1h', 'job')"
rings run_schedule "SELECT FROM holdfast.run_schedule('default', 'hourly')"
sql "UPDATE holdfast_private.delayed SET due_at = now() - interval '1 s'" >/dev/null
rings "a tick that brings an event" "SELECT FROM holdfast.tick('default')"
rings "a claim that brings an event" "SELECT FROM holdfast.claim('default', 'jobs')"
done_testing
