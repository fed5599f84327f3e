#!/usr/bin/env bash
# Leases in SQL: who has which events, since when and until when; taking one away; for roles.
. "$(dirname "$0")/lib.sh"
cluster
schema

for name in jobs mails; do
    sql "SELECT FROM holdfast.create_subscription('default', '$name', '{**}', 'start', 'shared')" \
        >/dev/null
done
sql "SELECT FROM holdfast.create_subscription('default', 'line', '{**}', 'start', 'ordered');
     SELECT FROM generate_series(1, 6) i, holdfast.publish('default', 't', to_json(i))" >/dev/null
list="SELECT subscription, node, kept, ended, count, positions FROM holdfast.lease_list('default'"
claim() { # SUBSCRIPTION MAX LEASE_MS: prints the lease
    sql "SELECT min(lease) FROM holdfast.claim('default', '$1', $2, $3, node => 'web-1')"
}

# --- Looking ---
is "before anything is claimed there is none" "$list)" ""
long=$(claim jobs 2 3600000)
short=$(claim jobs 1 1)
other=$(claim mails 3 3600000)
is "all of a namespace, by subscription and by their ends" "$list)" \
    "jobs|web-1|f|t|1|{3} jobs|web-1|f|f|2|{1,2} mails|web-1|f|f|3|{1,2,3}"
is "those of one subscription" "$list, 'mails')" "mails|web-1|f|f|3|{1,2,3}"
is "by the lease that ack takes" "SELECT lease = '$other' FROM holdfast.lease_list('default',
    'mails')" t
is "since when and until when" "SELECT claimed_at <= now(), expires_at > now() + interval '59 min'
    FROM holdfast.lease_list('default', 'mails')" "t|t"
sql "SELECT holdfast.ack('default', 'mails', '$other', '{2}')" >/dev/null
is "what is settled is not in it any more" "$list, 'mails')" "mails|web-1|f|f|2|{1,3}"
is "an ordered one has none" "$list, 'line')" ""
fails "one that is not there" "$list, 'nothing')" "HF003: there is no subscription nothing"
fails "nor is the namespace" "SELECT FROM holdfast.lease_list('nowhere')" \
    "HF003: there is no namespace nowhere"

# --- Taking one away ---
revoke() { echo "SELECT holdfast.lease_revoke('default', '$1', $2)"; }
is "one that has ended can be taken away, too" "$(revoke jobs "'$short'")" 1
is "it answers how many events that were" "$(revoke jobs "'$long'")" 2
fails "then it is gone" "$(revoke jobs "'$long'")" "HF003: subscription jobs has no lease $long *"
fails "and its holder is refused" "SELECT holdfast.ack('default', 'jobs', '$long')" "HF005: *"
is "its events are free, and the attempt did not count" "SELECT position, attempt
    FROM holdfast.claim('default', 'jobs', 3) ORDER BY 1" "1|1 2|1 3|1"
is "those of others are as they were" "$list, 'mails')" "mails|web-1|f|f|2|{1,3}"
fails "one of another subscription" "$(revoke jobs "'$other'")" "HF003: *"
fails "an ordered subscription" "$(revoke line "'$other'")" "HF002: subscription line is ordered*"
for lease in NULL "''" "'x'" "repeat('0', 33)" "repeat('G', 32)"; do
    fails "what is no lease: $lease" "$(revoke jobs "$lease")" "HF001: lease *"
done

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
sql "SELECT FROM holdfast_private.namespace_put('other')" >/dev/null
for part in viewer publisher consumer; do
    sql "CREATE ROLE $part LOGIN;
         SELECT holdfast.namespace_grant('$part', 'default', '$part')" >/dev/null
done
sql "CREATE ROLE stranger LOGIN; SELECT holdfast.namespace_grant('consumer', 'other', 'stranger')" \
    >/dev/null
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
for part in viewer consumer; do
    ok "a $part sees leases" same "mails|web-1|f|f|2|{1,3}" "$(as $part "$list, 'mails')")"
done
ok "a publisher does not" like "*42501*may not see the leases*" "$(as publisher "$list)")"
for part in viewer publisher; do
    ok "a $part takes none away" like "*42501*" "$(as $part "$(revoke mails "'$other'")")"
done
ok "for a consumer of another namespace there is no such namespace" like "*HF003*" \
    "$(as stranger "$list)")"
ok "in which it could take one away" like "*HF003*" "$(as stranger "$(revoke mails "'$other'")")"
ok "a consumer does" same 2 "$(as consumer "$(revoke mails "'$other'")")"
done_testing
