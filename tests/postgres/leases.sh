#!/usr/bin/env bash
# Leases in SQL: who has which events, since when and until when; taking one away; for roles.
. "$(dirname "$0")/lib.sh"
cluster
keep
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
is "lease_list returns no row before anything is claimed" "$list)" ""
long=$(claim jobs 2 3600000)
short=$(claim jobs 1 1)
other=$(claim mails 3 3600000)
is "lease_list lists leases by subscription and by their ends" "$list)" \
    "jobs|web-1|f|t|1|{3} jobs|web-1|f|f|2|{1,2} mails|web-1|f|f|3|{1,2,3}"
is "lease_list takes a subscription" "$list, 'mails')" "mails|web-1|f|f|3|{1,2,3}"
is "lease_list returns the lease that ack takes" \
    "SELECT lease = '$other' FROM holdfast.lease_list('default',
    'mails')" t
is "lease_list returns since when and until when a lease lasts" \
    "SELECT claimed_at <= now(), expires_at > now() + interval '59 min'
    FROM holdfast.lease_list('default', 'mails')" "t|t"
sql "SELECT holdfast.ack('default', 'mails', '$other', '{2}')" >/dev/null
is "lease_list leaves out positions that are settled" "$list, 'mails')" "mails|web-1|f|f|2|{1,3}"
is "lease_list of an ordered subscription returns no row" "$list, 'line')" ""
fails "lease_list of an unknown subscription is not found" \
    "$list, 'nothing')" "HF003: there is no subscription nothing"
fails "lease_list of an unknown namespace is not found" \
    "SELECT FROM holdfast.lease_list('nowhere')" \
    "HF003: there is no namespace nowhere"

# --- Taking one away ---
revoke() { echo "SELECT holdfast.lease_revoke('default', '$1', $2)"; }
is "lease_revoke takes a lease that has ended" "$(revoke jobs "'$short'")" 1
is "lease_revoke returns how many events the lease had" "$(revoke jobs "'$long'")" 2
fails "lease_revoke of a revoked lease is not found" \
    "$(revoke jobs "'$long'")" "HF003: subscription jobs has no lease $long *"
fails "ack with a revoked lease is stale" \
    "SELECT holdfast.ack('default', 'jobs', '$long')" "HF005: *"
is "events of a revoked lease are handed out again as the same attempt" "SELECT position, attempt
    FROM holdfast.claim('default', 'jobs', 3) ORDER BY 1" "1|1 2|1 3|1"
is "lease_revoke leaves leases of other subscriptions" "$list, 'mails')" "mails|web-1|f|f|2|{1,3}"
fails "lease_revoke of a lease of another subscription is not found" \
    "$(revoke jobs "'$other'")" "HF003: *"
fails "lease_revoke of an ordered subscription is refused" \
    "$(revoke line "'$other'")" "HF002: subscription line is ordered*"
for lease in NULL "''" "'x'" "repeat('0', 33)" "repeat('G', 32)"; do
    fails "lease_revoke refuses what is no lease: $lease" "$(revoke jobs "$lease")" "HF001: lease *"
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
    ok "a $part may call lease_list" same "mails|web-1|f|f|2|{1,3}" "$(as $part "$list, 'mails')")"
done
ok "a publisher cannot call lease_list" \
    like "*42501*may not see the leases*" "$(as publisher "$list)")"
for part in viewer publisher; do
    ok "a $part cannot call lease_revoke" like "*42501*" "$(as $part "$(revoke mails "'$other'")")"
done
ok "a consumer of another namespace does not find the namespace to list" like "*HF003*" \
    "$(as stranger "$list)")"
ok "a consumer of another namespace does not find the namespace to revoke" \
    like "*HF003*" "$(as stranger "$(revoke mails "'$other'")")"
ok "a consumer may call lease_revoke" same 2 "$(as consumer "$(revoke mails "'$other'")")"
done_testing
