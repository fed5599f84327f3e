#!/usr/bin/env bash
# A token of one namespace reaches nothing of another, whatever it names: every route with every
# role, and with ids, names and leases that exist in the other namespace.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
shopt -s extglob

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
{
    echo "vera viewer default $(hash_of see)"
    echo "oscar operator default $(hash_of act)"
    echo "ada admin default $(hash_of all)"
    echo "root admin * $(hash_of root)"
} >tokens
exits 0 "setup: namespace create makes the default namespace" namespace create default
exits 0 "setup: namespace create makes another namespace" namespace create theirs
serve --tokens tokens
bearer root

# --- What the other namespace has ---
v1=/v1/namespaces/theirs
plant() { # CLAIM METHOD PATH [BODY]
    local claim="setup: $1"
    shift
    ask "$@"
    true_that "$claim" test "${status:0:1}" = 2
}
plant "a subscription is planted" PUT $v1/subscriptions/planted \
    '{"patterns":["marked"],"mode":"shared","from":"start","attempts_max":1}'
plant "a schedule is planted" PUT $v1/schedules/planted '{"expression":"@daily","type":"marked"}'
marked='{"type":"marked","key":"marked","payload":"marked"}'
plant "200 events are planted" POST $v1/events \
    "[$(yes "$marked," | head -n 199 | tr -d '\n')$marked]"
id=$(field out 1 '$[0].id')
position=$(field out 1 '$[199].position') # that the namespace of the tokens will not have
plant "an event for later is planted" POST $v1/events \
    '{"type":"marked","payload":"marked","deliver_at":"2099-01-01T00:00:00Z"}'
later=$(field out 1 '$.id')
plant "an event is claimed" POST $v1/subscriptions/planted/claim '{"max":1}'
plant "an event becomes a dead letter" POST $v1/subscriptions/planted/bury \
    "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"marked\"}"
plant "dead letters are listed" GET $v1/dead-letters
dead=$(field out 1 '$.items[0].dead_id')
plant "a lease is planted" POST $v1/subscriptions/planted/claim '{"max":1,"lease_ms":600000}'
lease=$(field out 1 '$.lease')
true_that "setup: all that was planted has a name" \
    test -n "$id" -a -n "$position" -a -n "$later" -a -n "$dead" -a -n "$lease"

# --- The same in words for each route ---
body_of() { # TEMPLATE
    case $1 in
    events) echo '{"type":"own"}' ;;
    events/*/cancel) echo '{"subscription":"planted"}' ;;
    subscriptions/*/seek) echo '{"to":"start"}' ;;
    subscriptions/*/@(ack|nack|release|bury|touch)) echo "{\"lease\":\"$lease\"}" ;;
    dead-letters/@(retry|purge)) echo '{"all":true}' ;;
    later/*/move) echo '{"deliver_at":"2098-01-01T00:00:00Z"}' ;;
    namespaces/*) echo '{"metadata":{"taken":"over"}}' ;;
    *) echo '{}' ;;
    esac
}
# paths_of TEMPLATE: with everything that it may stand for
paths_of() {
    local template=$1 name
    case $template in
    namespaces/*) echo "${template//\{name\}/theirs}" ;;
    leases/*) echo "leases/planted/$lease" ;;
    *\{dead_id\}*) echo "${template//\{dead_id\}/$dead}" ;;
    *\{id\}*) for name in "$id" "$position" "$later"; do echo "${template//\{id\}/$name}"; done ;;
    *\{name\}*) echo "${template//\{name\}/planted}" ;;
    search) echo "search?type=marked"; echo "search?key=marked" ;;
    *) echo "$template" ;;
    esac
}
# What the other namespace has, as its own users see it.
seen() {
    local path
    bearer root
    for path in events subscriptions dead-letters later schedules leases \
        "events/$id" "later/$later" "dead-letters/$dead" schedules/planted; do
        ask GET "$v1/$path"
        sed -E 's/"rate":[^,}]*//g' out
        echo
    done
    ask GET /v1/namespaces/theirs
    sed -E 's/"head":[^,}]*//' out
}
seen >before

tried=0
while read -r method template scope role; do
    for path in $(paths_of "$template"); do
        for who in see act all; do
            bearer "$who"
            # By the other's own path.
            if [ "$scope" = NAMESPACE ]; then
                ask "$method" "$v1/$path" "$(body_of "$template")"
                result $((status != 403)) \
                    "$method $template of another namespace is refused to $who" \
                    < <(echo "status $status"; head -c 500 out)
            fi
            # By one's own, with what the other has. Making something of this name is no harm.
            [ "$method" != PUT ] || [ "$scope" = DATABASE ] || continue
            ask "$method" "/v1/$path" "$(body_of "$template")"
            mark=0
            grep -q marked out && mark=1
            case $template in
            *\{*) [ "${status:0:1}" = 4 ] || mark=1 ;;
            esac
            result $mark "$method $template with what another namespace has gives $who nothing" \
                < <(echo "status $status: $path"; head -c 500 out)
            tried=$((tried + 1))
        done
    done
done < <(list_routes)
true_that "more than 100 requests named what another namespace has" test "$tried" -gt 100
seen >after
true_that "the other namespace is what it was" diff before after

# --- Names that look like another namespace ---
bearer all
for path in '/v1/namespaces/theirs%2Fstats' '/v1/namespaces/default%2F..%2Ftheirs/stats' \
    '/v1/namespaces/default/../theirs/stats' '/v1/namespaces//stats' \
    '/v1//namespaces/theirs/stats' '/v1/namespaces/THEIRS/stats' \
    '/v1/namespaces/theirs%00/stats' '/v1/namespaces/*/stats' '/v1/namespaces/%2A/stats' \
    '/v1/./namespaces/theirs/stats' '/v1/namespaces/theirs;a=b/stats'; do
    status=$(curl -s --path-as-is -o out -w '%{http_code}' --unix-socket http \
        -H "Authorization: Bearer all" "http://localhost$path")
    case $status in 400 | 403 | 404) right=0 ;; *) right=1 ;; esac
    result $right "the path $path leads a token to no other namespace" < <(echo "status $status")
done
for path in "/metrics?namespace=theirs" "/v1/namespaces" "/v1/namespaces/theirs"; do
    answers 403 "$path is refused to an admin of one namespace" GET "$path"
done
finish
