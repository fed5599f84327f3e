#!/usr/bin/env bash
# copy: a whole bus into another database and back, refused cases, hostile names, Ctrl-C.
. "$(dirname "$0")/lib.sh"
odd="o'ne \"two\"; -- %s \\ 日本"

hf publish a.b '{"n": 1}' --key k --expect-version 0
hf publish a.b '{"n": 2}' --key k --expect-version 1
for n in 3 4 5 6; do hf publish a.c "{\"n\": $n}" --tenant t$((n % 2)); done
hf sub create "$odd" --on 'a.*' --from start --partitions 3 --retries 0
hf work "$odd" --exec '[ "$HOLDFAST_POSITION" -gt 2 ]' --until-empty
hf sub create jobs --on 'a.*' --from start --mode shared
hf claim jobs --max 3 --lease 1h
hf claim jobs --max 2 --json
hf nack jobs "$(field out 1 '$.lease')" --delay 1h
hf dlq list --json
hf dlq retry "$(field out 1 '$.dead_id')"
hf sub pause jobs --reason "it's \"so\""
hf publish --namespace "$odd" x '[]'
hf namespace set "$odd" --metadata '{"team": "é"}'
hf schedule add yearly @yearly a.later
hf schedule run yearly
hf publish a.later --delay 1d

exits 2 "copy needs two databases" copy "$HOLDFAST_URL"
exits 3 "copy of a source that does not exist exits with not found" \
    copy sqlite:none.db sqlite:there.db
exits 2 "copy of a database onto itself is refused" copy "$HOLDFAST_URL" "$HOLDFAST_URL"
exits 3 "copy of a namespace that does not exist exits with not found" \
    copy "$HOLDFAST_URL" sqlite:there.db --namespace none
is "copy that is refused because of its source makes no target" "$(ls there.db* 2>/dev/null)" ""
exits 0 "copy into a new database succeeds" copy "$HOLDFAST_URL" sqlite:there.db
has "copy prints how many namespaces and events it copied and verified" \
    err '^2 namespaces copied and verified: 8 events, '
exits 4 "copy into a namespace that is not empty exits with a conflict" \
    copy "$HOLDFAST_URL" sqlite:there.db
has "the conflict of copy says that the target is not empty" err 'of the target is not empty'

# A refused copy leaves the target as it was: whichever namespace is not empty, the other one is not
# made, and if it is there it can be used.
for full in default "$odd"; do
    other=$odd
    [ "$full" = default ] || other=default
    target=$(empty "refused_${#full}")
    hf publish --db "$target" --namespace "$full" x
    exits 4 "copy exits with a conflict if one namespace of the target is not empty" \
        copy "$HOLDFAST_URL" "$target"
    hf namespace list --db "$target" --json
    is "a refused copy makes no namespace" "$(field out 1 '$.name') $(wc -l <out)" "$full 1"
    hf namespace create "$other" --db "$target"
    exits 4 "copy exits with a conflict beside an empty namespace of the target" \
        copy "$HOLDFAST_URL" "$target"
    has "the conflict of copy says which target is not empty" err 'of the target is not empty'
    exits 0 "a namespace that was empty at a refused copy can be published to" \
        publish --db "$target" --namespace "$other" x
done

# dump FILE: everything in it but who it is.
dump() { patiently "$1" .dump | grep -v "'identity'"; }
# forget_arrival FILE: when its partitions came, if that was a short time ago; what is left of that.
forget_arrival() {
    patiently "$1" "UPDATE holdfast_partitions SET span = 0
        WHERE span BETWEEN strftime('%s') / 30 - 20 AND strftime('%s') / 30;
        SELECT total(span) FROM holdfast_partitions"
}
back=$(empty back)
exits 0 "copy --json into another database succeeds" copy sqlite:there.db "$back" --json
json "copy --json prints JSON objects" out
is "copy --json says at the end that the copy is complete" \
    "$(field out "$(wc -l <out)" '$.complete') $(field out "$(wc -l <out)" '$.later')" '1 0'
exits 0 "copy of a copy succeeds" copy "$back" sqlite:last.db
for file in there.db last.db; do
    is "partitions of $file have their time of arrival from the copy" \
        "$(forget_arrival "$file")" 0.0
done
is "a copy of a copy is the same, row by row" \
    "$(cmp <(dump there.db) <(dump last.db) && echo same)" same
true_that "setup: the copies have more than 20 rows" test "$(dump last.db | grep -c INSERT)" -gt 20
for url in sqlite:there.db "$back"; do
    exits 0 "verify finds nothing wrong with a copy" verify --db "$url"
done

# told URL NAME: what the commands say of a database.
told() {
    local changing='owner|owner_alive|oldest_waiting|lag|rate|not_moving|in_flight|gapless'
    changing="$changing|pending|pending_more|lease_ended|claimed_at" # leases are free in a copy
    for words in "event list" "dlq list" "sub list" "schedule list" "namespace list"; do
        # shellcheck disable=SC2086
        "$HOLDFAST" $words --json --db "$1"
    done | sed -E 's/"('"$changing"')":("([^"\\]|\\.)*"|[-+a-z0-9.]+),?//g'
}
told "$HOLDFAST_URL" >one
told "$back" >two
is "commands print the same of the source and of the copy" "$(diff one two && echo same)" same
true_that "setup: the commands print more than 12 rows" test "$(wc -l <one)" -gt 12

# --- Every column of every row ---
# A file in which every column has something, by way of the engine into another file: what arrives
# is compared with what was there.
full() { hf "$@" --db sqlite:full.db; }
for n in 1 2 3 4 5 6; do full publish "x.$n" "{\"n\": $n}" --key "k$n" --expect-version 0; done
full sub create a --on 'x.*' --from start --retries 0
full sub create b --on 'x.*' --from start --mode shared
full work a --exec '[ "$HOLDFAST_POSITION" -gt 3 ]' --until-empty
full dlq list --json
first=$(field out 1 '$.dead_id')
second=$(field out 2 '$.dead_id')
full dlq retry "$first"
full dlq resolve "$second" --note "it's done"
full claim b --max 3 --lease 1h
full claim b --max 1 --json
full nack b "$(field out 1 '$.lease')" --delay 1h
full schedule add yearly @yearly x.later
full schedule run yearly
full publish x.later --delay 1d --unique u1
full publish x.once --unique u2 --unique-for 1h
full namespace set default --metadata '{"team": "é"}' --retain-age 30d --retain-bytes 1G \
    --lagging drop
patiently full.db "
    UPDATE holdfast_events SET key_version = 3, schedule_id = 'e' || place, producer = 'p' || place,
        tenant = 't' || place, metadata = '{\"p\":  ' || place || '}';
    UPDATE holdfast_subscriptions SET generation = 9, wanted = 4, paused_at = 5, paused_by = 'b'
        || id,
        paused_reason = 'r' || id, breaker = '{\"b\": ' || id || '}', members_version = 0,
        dropped_through = 2,
        dropped = id;
    UPDATE holdfast_partitions SET checkpoint_at = 7,
        last_event_id = x'00112233445566778899aabbccddeeff',
        epoch = 8, turn = subscription_id = 2, owner = NULL, owner_name = NULL, span = 0,
        span_from = NULL, span_before = NULL, claimed_at = 14;
    UPDATE holdfast_retries SET uncounted = 2, last_retry_at = 9, story = '[' || position || ']',
        cause = 'c' || position, unit_first = position, unit_events = 7, deliveries = position;
    UPDATE holdfast_copies SET key_version = 4, schedule_id = 'c', producer = 'cp', tenant = 'ct',
        metadata = '[]';
    INSERT INTO holdfast_settled VALUES (2, 0, 6), (2, 0, 7);
    INSERT INTO holdfast_outcomes VALUES (2, 1, 6, 10, 3, 4, 'oc', '[6]'),
        (2, 2, 5, 11, 1, 2, 'od', '[5]');
    INSERT INTO holdfast_cancels VALUES (2, 6, 123, 12, 13, 'cb', 'cr');
    UPDATE holdfast_leases SET expires_at = 0, owner = NULL, owner_name = NULL, bound = 0, kept = 0,
        piece = 2, times = x'', claimed_at = NULL;
    UPDATE holdfast_dead_letters SET key_version = 5, schedule_id = 'd', producer = 'dp',
        tenant = 'dt',
        metadata = '[1]', resolved_by = 'rb' || id, cause = 'dc' || id, deliveries = 3 + id;
    UPDATE holdfast_schedules SET generation = 6, paused_at = 8, paused_by = 'sb',
        paused_reason = 'sr',
        cap = 3, grace_us = 4, key = 'sk', tenant = 'st', metadata = '[2]';
    UPDATE holdfast_schedule_runs SET until_at = planned_at + 1, node = 'n';
    UPDATE holdfast_delayed SET producer = 'lp', key = 'lk', tenant = 'lt', metadata = '[3]';
    UPDATE holdfast_namespaces SET type_index = 1;
    DELETE FROM holdfast_members;
    DELETE FROM holdfast_past_nodes"
bare=$(patiently full.db \
        "SELECT 'SELECT ''' || t.name || '.' || c.name || ''' WHERE NOT EXISTS (SELECT 1 FROM '
        || t.name || ' WHERE ' || c.name || ' IS NOT NULL);'
    FROM sqlite_master t, pragma_table_info(t.name) c
    WHERE t.type = 'table' AND t.name LIKE 'holdfast_%'
        AND t.name NOT IN ('holdfast_members', 'holdfast_past_nodes', 'holdfast_types',
                           'holdfast_rates')" \
    | patiently full.db | sort)
is "setup: no column is empty but those that are not copied" "$bare" "holdfast_leases.claimed_at
holdfast_leases.owner
holdfast_leases.owner_name
holdfast_namespaces.copying
holdfast_namespaces.removing_at
holdfast_namespaces.retained_at
holdfast_partitions.owner
holdfast_partitions.owner_name
holdfast_partitions.span_before
holdfast_partitions.span_from"
way=$(empty way)
exits 0 "copy of a file in which every column has a value succeeds" copy sqlite:full.db "$way"
exits 0 "copy of such a copy back into a file succeeds" copy "$way" sqlite:again.db
is "partitions of a copied file have their time of arrival from the copy" \
    "$(forget_arrival again.db)" 0.0
is "positions of a copied namespace may have gaps up to the last one" \
    "$(patiently again.db "SELECT gapless_after FROM holdfast_namespaces;
    UPDATE holdfast_namespaces SET gapless_after = 0")" 8
rows() { dump "$1" | grep -v 'INTO sqlite_sequence '; }
index() { patiently "$1" "SELECT type_index, types_through FROM holdfast_namespaces;
    SELECT type, position FROM holdfast_types;
    UPDATE holdfast_namespaces SET type_index = 0, types_through = 0; DELETE FROM holdfast_types"; }
is "copy builds the whole index on types" "$(index again.db | sed 1d)" \
    "$(patiently full.db "SELECT type, place & 17592186044415 FROM holdfast_events ORDER BY 1")"
index full.db >/dev/null
is "copy takes all columns of all rows" "$(diff <(rows full.db) <(rows again.db) && echo same)" same

# --- What a copy does with what it has ---
exits 0 "namespace show succeeds for a copy with an index on types" \
    namespace show default --db "$way" --json
is "an index on types that was being built is complete in the copy" \
    "$(field out 1 '$.type_index')" on
exits 0 "publish --unique succeeds in a copy" \
    publish x.once --unique u2 --unique-for 1h --json --db "$way"
is "a unique key of the source is taken in the copy" "$(field out 1 '$.duplicate')" 1
exits 0 "publish --unique --replace succeeds in a copy" \
    publish x.later --delay 2d --unique u1 --replace --json \
    --db "$way"
is "an event that waits with a unique key can be replaced in the copy" \
    "$(field out 1 '$.replaced')" 1
exits 0 "setup: a target with an index on types is made" \
    namespace create default --type-index on --db sqlite:indexed.db
exits 0 "copy into an empty namespace with an index on types succeeds" \
    copy "$HOLDFAST_URL" sqlite:indexed.db --namespace default
exits 0 "namespace show succeeds after a copy into an indexed namespace" \
    namespace show default --db sqlite:indexed.db --json
is "copy switches off an index on types that the source does not have" \
    "$(field out 1 '$.type_index')" off
exits 0 "verify finds nothing wrong after a copy into an indexed namespace" \
    verify --db sqlite:indexed.db

# --- A log that does not begin at 1 ---
seq 3000 | sed 's/.*/{"type":"x","payload":&}/' >many
hf publish --file many --db sqlite:old.db
hf namespace set default --retain-bytes 20K --db sqlite:old.db
hf retention run --db sqlite:old.db
begins=
short=$(empty short)
exits 0 "copy of a log whose beginning is gone succeeds" copy sqlite:old.db "$short"
for url in sqlite:old.db "$short"; do
    hf sub create late --on x --from start --db "$url"
    hf stats --json --db "$url"
    begins="$begins $(field out 1 '$.first') $(field out 1 '$.head')"
    hf sub show late --json --db "$url"
    begins="$begins $(field out 1 '$.lag')"
done
read -r first head lag there <<<"$begins"
true_that "setup: the log does not begin at position 1" \
    test "$first" -gt 1 -a "$lag" -eq "$((head - first + 1))"
is "a copy of a log whose beginning is gone begins at the same position" \
    "$there" "$first $head $lag"

# --- One namespace, beside another ---
exits 0 "copy --namespace copies one namespace" \
    copy "$HOLDFAST_URL" sqlite:one.db --namespace "$odd"
hf namespace list --db sqlite:one.db --json
is "copy --namespace copies no other namespace" "$(field out 1 '$.name') $(wc -l <out)" "$odd 1"
exits 0 "copy --namespace succeeds beside a namespace that was copied before" \
    copy "$HOLDFAST_URL" sqlite:one.db --namespace default
is "namespaces that are copied one by one are the same as all at once" \
    "$(told sqlite:one.db | diff - one && echo same)" same

# --- In use, and interrupted ---
"$HOLDFAST" copy "$HOLDFAST_URL" sqlite:part.db --namespace "$odd" --live --json >/dev/full 2>err
has "copy whose output fails stops and prints the command that goes on" \
    err 'To go on: holdfast copy '
has "the command that goes on has all options of copy" err ' --live$'
eval "$(sed -n 's/.*To go on: holdfast/"$HOLDFAST"/p' err)" 2>err
has "the command that copy prints goes on with the copy" err '^1 namespace copied (.*) and verified'
hf namespace list --db sqlite:part.db --json
is "a continued copy has only the namespace that was asked for" \
    "$(field out 1 '$.name') $(wc -l <out)" "$odd 1"

"$HOLDFAST" work "$odd" --exec true >work.out 2>work.err &
pid=$!
until_true 60 heeds $pid
in_use() {
    ! "$HOLDFAST" copy "$HOLDFAST_URL" sqlite:used.db 2>err && grep -q 'open in 1 process' err
}
until_true 60 in_use
is "copy refuses a source that another process has open" "$?" 0
exits 0 "copy --live takes a source that another process has open" \
    copy "$HOLDFAST_URL" sqlite:live.db --live
kill -TERM $pid
wait $pid
seq 60000 | sed 's/.*/{"type":"many","payload":&}/' >many
hf publish --file many
big=$(empty big)
"$HOLDFAST" copy "$HOLDFAST_URL" "$big" >out 2>err &
pid=$!
until_true 60 heeds $pid
kill -TERM $pid # the shell lets what runs in the background ignore Ctrl-C
wait $pid
code=$?
if [ "$code" -ne 0 ]; then # it may have been done already
    has "copy that is interrupted prints the command that goes on" err 'To go on: holdfast copy '
    exits 0 "copy with the same words goes on after an interruption" copy "$HOLDFAST_URL" "$big"
fi
hf stats --db "$big" --json
is "all events are in the copy after an interruption" "$(field out 1 '$.head')" \
    "$("$HOLDFAST" stats --json | grep -oE '"head":[0-9]+' | head -1 | cut -d: -f2)"
finish
