#!/usr/bin/env bash
# The OpenAPI document and the server say the same: every path, method, parameter, member of a body,
# status and field of an answer that one has, the other has.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
exits 0 "setup: the namespace default has positions without gaps" namespace create default --gapless
serve
answers 200 "GET openapi.json answers a document" GET /v1/openapi.json
mv out doc.json
is "the document is one of OpenAPI 3.1" \
    "$(sqlite3 :memory: "SELECT readfile('doc.json') ->> 'openapi'")" 3.1.0
sqlite3 doc.db "
    CREATE TABLE schemas AS SELECT '#/components/schemas/' || key AS ref, value AS body
        FROM json_each(cast(readfile('doc.json') AS text), '\$.components.schemas');
    CREATE TABLE operations AS SELECT upper(m.key) AS method, substr(p.key, 2) AS template,
            m.value AS body FROM json_each(cast(readfile('doc.json') AS text), '\$.paths') p,
            json_each(p.value) m WHERE m.key <> 'servers';
    CREATE TABLE answers AS SELECT method, template, r.key AS status, coalesce(
            json_extract(r.value, '\$.content.\"application/json\".schema'), '{}') AS body
        FROM operations o, json_each(o.body, '\$.responses') r;"
say() { sqlite3 -separator ' ' doc.db "$@"; }

# --- Paths and methods ---
list_routes | awk '{ print $1, $2, tolower($4) }' | sort >there
say "SELECT method, template, body ->> 'x-role' FROM operations" | sort >documented
is "the document has the routes of the server with their roles, and no others" \
    "$(cat documented)" "$(cat there)"
is "every path of the document has the parameters of its template" \
    "$(say "SELECT template FROM operations WHERE
    (SELECT count(*) FROM json_each(body, '\$.parameters') WHERE value ->> 'in' = 'path') <>
    length(template) - length(replace(template, '{', ''))")" ""
is "every schema that the document refers to is in it" "$(sqlite3 doc.db "SELECT value FROM
    json_tree(cast(readfile('doc.json') AS text)) WHERE key = '\$ref' AND value LIKE '%/schemas/%'
    AND value NOT IN (SELECT ref FROM schemas)")" ""
is "every schema of the document is referred to" "$(sqlite3 doc.db "SELECT ref FROM schemas WHERE
    ref NOT IN (SELECT value FROM json_tree(cast(readfile('doc.json') AS text))
        WHERE key = '\$ref') AND ref NOT LIKE '%/SubscriptionNumbers'")" ""

# --- Answers ---
# chosen CHILD TYPE: of a schema that has several, the one for a value of this type, without refs.
chosen() {
    local one="CASE WHEN json_extract($1, '\$.oneOf') IS NULL THEN $1
        WHEN $2 = 'null' THEN '{\"type\":\"null\"}'
        WHEN $2 = 'array' AND json_extract($1, '\$.oneOf[1].type') = 'array'
            THEN json_extract($1, '\$.oneOf[1]')
        ELSE json_extract($1, '\$.oneOf[0]') END"
    echo "coalesce((SELECT body FROM schemas
        WHERE ref = json_extract($one, '\$.\"\$ref\"')), $one)"
}
child="CASE v.type WHEN 'object' THEN json_extract(v.schema, '\$.properties.\"' || e.key || '\"')
    ELSE json_extract(v.schema, '\$.items') END"
# differs SCHEMA: prints how the file `out` differs from it.
differs() {
    say "WITH RECURSIVE root(value, schema) AS (
            SELECT CASE WHEN json_valid(t) THEN t ELSE 'null' END, $1
                FROM (SELECT cast(readfile('out') AS text) AS t), (SELECT 1)),
        v(path, type, value, schema) AS (
            SELECT 'it', json_type(value), value, $(chosen schema "json_type(value)") FROM root
            UNION ALL
            SELECT v.path || '.' || e.key, e.type, e.value, $(chosen "$child" e.type)
                FROM v, json_each(CASE WHEN v.type IN ('object', 'array') AND (
                    json_extract(v.schema, '\$.properties') IS NOT NULL OR
                    json_extract(v.schema, '\$.items') IS NOT NULL) THEN v.value ELSE '[]' END) e),
        typed AS (SELECT *, CASE type WHEN 'true' THEN 'boolean' WHEN 'false' THEN 'boolean'
            WHEN 'text' THEN 'string' WHEN 'real' THEN 'number' ELSE type END AS kind FROM v)
        SELECT path || ' is not in the document' FROM typed WHERE schema IS NULL
        UNION ALL
        SELECT path || ' is of type ' || kind FROM typed WHERE schema <> '{}' AND NOT EXISTS (
            SELECT 1 FROM json_each(json_array(json_extract(schema, '\$.type'))) a
                WHERE a.value = kind OR (a.value = 'number' AND kind = 'integer')
            UNION ALL SELECT 1 FROM json_each(CASE WHEN json_type(schema, '\$.type') = 'array'
                THEN json_extract(schema, '\$.type') ELSE '[]' END) a WHERE a.value = kind
                OR (a.value = 'number' AND kind = 'integer'))
        UNION ALL
        SELECT typed.path || ' has no ' || r.value FROM typed, json_each(CASE kind WHEN 'object'
            THEN coalesce(json_extract(schema, '\$.required'), '[]') ELSE '[]' END) r
            WHERE r.value NOT IN (SELECT key FROM json_each(typed.value))
        LIMIT 5" 2>&1
}
# gives STATUS METHOD TEMPLATE PATH [BODY]: the answer is as the document says.
gives() {
    local wanted=$1 method=$2 template=$3 path=$4 problem=
    shift 4
    ask "$method" "/v1/$path" "$@"
    echo "$method $template $status" >>seen
    if [ "$status" != "$wanted" ]; then
        problem="status $status: $(head -c 500 out)"
    elif [ "$status" -lt 300 ] && [ "$status" != 204 ]; then
        problem=$(differs "(SELECT body FROM answers WHERE method = '$method' AND
            template = '$template' AND status = '$status')")
    elif [ "$status" -ge 400 ]; then
        problem=$(differs "(SELECT body FROM schemas WHERE ref LIKE '%/Problem')")
    fi
    [ -z "$problem" ]
    result $? "$method $template answers $wanted as documented: $path $*" < <(echo "$problem")
}
sub='subscriptions/{name}' dead='dead-letters/{dead_id}'
unknown=0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
gives 201 POST events events '{"type":"a","key":"k","payload":{"n":1},"metadata":{"m":1}}'
id=$(field out 1 '$.id')
gives 200 POST events events "{\"type\":\"a\",\"id\":\"$id\"}"
gives 201 POST events events '[{"type":"b"},{"type":"c"},{"type":"d"}]'
gives 409 POST events events '{"type":"a","key":"v","expected_version":7}'
header='Content-Type: application/cloudevents+avro'
gives 415 POST events events x
header=
gives 202 POST events events '{"type":"late","deliver_at":"2099-01-01T00:00:00Z"}'
late=$(field out 1 '$.id')
gives 200 GET events events
gives 200 GET 'events/{id}/payload' "events/$id/payload"
gives 200 GET search search
gives 200 GET stream 'stream?from=start'
gives 201 PUT $sub subscriptions/jobs \
    '{"patterns":["*"],"from":"start","mode":"shared","attempts_max":1}'
gives 200 PUT $sub subscriptions/jobs '{"patterns":["*"],"attempts_max":1}'
gives 409 PUT $sub subscriptions/jobs '{"patterns":["*"],"mode":"ordered"}'
gives 201 PUT $sub subscriptions/line '{"patterns":["*"],"from":"start"}'
gives 200 GET subscriptions subscriptions
gives 200 GET $sub subscriptions/jobs
gives 204 POST $sub/pause subscriptions/jobs/pause '{"reason":"r"}'
gives 204 POST $sub/resume subscriptions/jobs/resume
gives 200 POST $sub/seek subscriptions/jobs/seek '{"to":"start","dry_run":true}'
gives 409 POST $sub/claim subscriptions/line/claim '{}'
gives 200 POST $sub/claim subscriptions/jobs/claim '{"max":4}'
lease="\"lease\":\"$(field out 1 '$.lease')\""
gives 200 GET leases leases
gives 409 GET leases 'leases?subscription=line'
gives 204 POST $sub/touch subscriptions/jobs/touch "{$lease}"
gives 204 POST $sub/ack subscriptions/jobs/ack "{$lease,\"positions\":[1]}"
gives 204 POST $sub/nack subscriptions/jobs/nack "{$lease,\"positions\":[2],\"error\":\"e\"}"
ask PUT /v1/subscriptions/again '{"patterns":["*"],"from":"start","mode":"shared"}'
ask POST /v1/subscriptions/again/claim '{"max":2}'
ask POST /v1/subscriptions/again/nack \
    "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"e\",\"delay_ms\":3600000}"
gives 200 GET $sub/retries subscriptions/again/retries
gives 404 GET $sub/retries subscriptions/none/retries
gives 400 GET $sub/retries 'subscriptions/again/retries?after=17'
gives 204 POST $sub/bury subscriptions/jobs/bury "{$lease,\"positions\":[3],\"error\":\"e\"}"
gives 204 POST $sub/release subscriptions/jobs/release "{$lease}"
for verb in touch ack nack bury release; do
    gives 409 POST $sub/$verb subscriptions/jobs/$verb "{$lease}"
done
gives 200 POST $sub/claim subscriptions/jobs/claim '{}'
gives 200 DELETE 'leases/{subscription}/{lease}' "leases/jobs/$(field out 1 '$.lease')"
gives 409 DELETE 'leases/{subscription}/{lease}' leases/line/0123456789abcdef0123456789abcdef
gives 200 GET 'events/{id}' "events/$id"
gives 204 POST 'events/{id}/cancel' events/4/cancel '{"subscription":"jobs"}'
gives 409 POST 'events/{id}/cancel' events/1/cancel '{"subscription":"jobs"}'
gives 200 GET dead-letters dead-letters
first=$(field out 1 '$.items[0].dead_id') second=$(field out 1 '$.items[1].dead_id')
for by in error type subscription reason; do
    gives 200 GET dead-letters/groups "dead-letters/groups?by=$by"
done
gives 200 GET $dead "dead-letters/$first"
gives 200 GET $dead/payload "dead-letters/$first/payload"
gives 200 POST dead-letters/retry dead-letters/retry '{"all":true,"dry_run":true}'
gives 204 POST $dead/resolve "dead-letters/$first/resolve" '{"note":"n"}'
gives 409 POST $dead/resolve "dead-letters/$first/resolve" '{}'
gives 409 POST $dead/retry "dead-letters/$first/retry" '{}'
gives 204 POST $dead/retry "dead-letters/$second/retry" '{"payload":1}'
gives 200 POST dead-letters/purge dead-letters/purge '{"all":true,"resolved":true}'
gives 200 GET later later
gives 200 GET 'later/{id}' "later/$late"
gives 204 POST 'later/{id}/move' "later/$late/move" '{"deliver_at":"2098-01-01T00:00:00Z"}'
gives 204 DELETE 'later/{id}' "later/$late"
gives 409 POST 'later/{id}/move' "later/$id/move" '{"deliver_at":"2098-01-01T00:00:00Z"}'
gives 409 DELETE 'later/{id}' "later/$id"
gives 200 POST tick tick
gives 201 PUT 'schedules/{name}' schedules/night '{"expression":"@daily","type":"n"}'
gives 200 PUT 'schedules/{name}' schedules/night '{"expression":"@daily","type":"n","grace_ms":1}'
gives 201 POST 'schedules/{name}/run' schedules/night/run
gives 200 GET schedules schedules
gives 200 GET 'schedules/{name}' schedules/night
gives 204 POST 'schedules/{name}/pause' schedules/night/pause '{}'
gives 204 POST 'schedules/{name}/resume' schedules/night/resume
gives 204 DELETE 'schedules/{name}' schedules/night
gives 204 DELETE $sub subscriptions/line
gives 200 GET nodes nodes
gives 200 GET stats stats
gives 200 GET check 'check?subscription=nowhere'
gives 200 POST retention/run retention/run '{"dry_run":true}'
gives 200 GET live live
gives 200 GET openapi.json openapi.json
gives 200 GET namespaces namespaces
gives 200 GET 'namespaces/{name}' namespaces/default
gives 201 PUT 'namespaces/{name}' namespaces/made '{"metadata":{"a":1}}'
gives 200 PUT 'namespaces/{name}' namespaces/made '{"retention_ms":1000}'
gives 409 DELETE 'namespaces/{name}' namespaces/default
gives 204 DELETE 'namespaces/{name}' namespaces/made

# --- Refusals ---
# example TEMPLATE: a path whose open parts name what is not there.
example() { sed -E "s/\{id\}/$unknown/; s/\{dead_id\}/999999/; s/\{[a-z]+\}/nothing/g" <<<"$1"; }
body_for() { # METHOD TEMPLATE: a body with all that is needed
    case $1:$2 in
    POST:events) echo '{"type":"x"}' ;;
    *:dead-letters/retry | *:dead-letters/purge) echo '{"all":true,"dry_run":true}' ;;
    PUT:subscriptions/*) echo '{"patterns":["*"],"from":"start"}' ;;
    PUT:schedules/*) echo '{"expression":"@daily","type":"x"}' ;;
    *) say "SELECT coalesce(json_group_object(value, json(CASE value
        WHEN 'to' THEN '\"start\"' WHEN 'deliver_at' THEN '\"2098-01-01T00:00:00Z\"'
        WHEN 'lease' THEN '\"0123456789abcdef0123456789abcdef\"' ELSE '\"nothing\"' END)), '{}')
        FROM operations, json_each(body,
            '\$.requestBody.content.\"application/json\".schema.required')
        WHERE method = '$1' AND template = '$2'" ;;
    esac
}
while read -r method path; do
    ask "$method" "/v1/$(example "$path")?zzz=1" '{}'
    echo "$method $path $status" >>seen
    names=$(say "SELECT coalesce(group_concat(value ->> 'name', ', '), 'none') FROM operations,
        json_each(body, '\$.parameters') WHERE value ->> 'in' = 'query'
        AND method = '$method' AND template = '$path'")
    grep -qF "there is no parameter \\\"zzz\\\"; this path takes $names\"" out
    result $? "$method $path refuses a parameter that it does not take, and names those it takes" \
        <out
    [ "$path" != "${path#namespaces}" ] || prefix=namespaces/nothing/
    [ "$path" = "${path#namespaces}" ] || prefix=
    [ "$path" = namespaces ] || [ "$method $path" = 'PUT namespaces/{name}' ] ||
        gives 404 "$method" "$path" "$prefix$(example "$path")" "$(body_for "$method" "$path")"
done < <(say 'SELECT method, template FROM operations')
while read -r method path name; do
    gives 400 "$method" "$path" "$(example "$path")?$name=wrong"
    has "the parameter $name of $path is checked" out "the parameter $name takes"
done < <(say "SELECT method, template, value ->> 'name' FROM operations,
    json_each(body, '\$.parameters') WHERE value ->> 'in' = 'query' AND (
        value -> 'schema' ->> 'type' NOT IN ('string', 'array') OR
        value -> 'schema' ->> 'enum' IS NOT NULL OR
        value -> 'schema' ->> 'format' IS NOT NULL)")
while read -r method path name; do
    gives 400 "$method" "$path" "$(example "$path")?$name=%ff"
done < <(say "SELECT method, template, value ->> 'name' FROM operations,
    json_each(body, '\$.parameters') WHERE value ->> 'in' = 'query'")
# takes WHAT NAME PATTERN: whether the answer says that there is no such member.
takes() {
    local refused=0
    ! grep -q "$3 .\"$2" out || refused=1
    case $2 in
    zzz) is "$1 refuses a member that it does not take" $refused 1 ;;
    *) is "$1 takes the member $2" $refused 0 ;;
    esac
}
while read -r method path names; do
    for name in ${names//,/ } zzz; do
        ask "$method" "/v1/$(example "$path")" "{\"$name\":[[]]}"
        takes "$method $path" "$name" 'there is no'
    done
done < <(say "SELECT method, template, group_concat(p.key) FROM operations o, json_each(o.body,
    '\$.requestBody.content.\"application/json\".schema.properties') p GROUP BY 1, 2")
while read -r method path; do
    ask "$method" "/v1/$(example "$path")" '{"zzz":[[]]}'
    is "$method $path refuses a body, of which it takes none" \
        "$status $(grep -c "$method takes no body at this path" out)" "400 1"
done < <(say "SELECT method, template FROM operations WHERE body -> 'requestBody' IS NULL")
for name in $(say "SELECT p.key FROM schemas s, json_each(s.body, '\$.properties') p
    WHERE ref LIKE '%/NewEvent'") zzz; do
    ask POST /v1/events "{\"$name\":[[]]}"
    takes "POST events" "$name" 'there is no field'
done
unserve

# --- Without a token, and with one that may not ---
echo "x admin nowhere $(printf %s secret | sha256sum | cut -d' ' -f1)" >tokens
serve --tokens tokens
while read -r method path; do
    bearer ""
    gives 401 "$method" "$path" "$(example "$path")" '{}'
    bearer secret
    gives 403 "$method" "$path" "$(example "$path")" '{}'
done < <(say 'SELECT method, template FROM operations')
unserve
say "SELECT method, template, status FROM answers WHERE status <> 'default'" | sort -u >documented
sort -u seen >answered
is "every status of the document was answered" "$(comm -23 documented answered)" ""
is "no status was answered that the document does not have" "$(comm -13 documented answered)" ""
finish
