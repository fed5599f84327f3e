#!/usr/bin/env bash
# node list, node show, and what `work` says about itself.
. "$(dirname "$0")/lib.sh"

exits 3 "there is no database to look at" node list
on postgres || is "and none was made" "$(ls -- *.db 2>/dev/null)" ''
hf publish a.b '{}'
exits 0 "list" node list --json
is "the command that looks is not listed, nor one that came and went" "$(cat out)" ''
exits 3 "show of nothing is not found" node show nobody
exits 2 "an empty id is none" node show ''

is_node() { # ID STATE
    hf node show "$1" --json && [ "$(field out 1 '$.state')" = "$2" ]
}

# worker ID: works until it is told to stop, as $worker; returns when it is there.
worker() {
    "$HOLDFAST" work \
        "s-$1" --on 'a.*' --from start --exec 'cat >>got' --node-id "$1" --node "the $1" \
        --node-description "says $1" --node-metadata '{"rack": "b\u00e9"}' \
        >/dev/null 2>"work.$1" </dev/null &
    worker=$!
    until_true 60 heeds "$worker"
    until_true 60 is_node "$1" live
}

worker one
is "a worker is live" "$(field out 1 '$.state') $(field out 1 '$.name') $(field out 1 '$.pid')" \
    "live the one $worker"
is "since when is a time" "$(field out 1 '$.started_at' | grep -cE '^20..-')" 1
is "what it says about itself" "$(field out 1 '$.description') $(field out 1 '$.metadata.rack')" \
    "says one bé"
is "it has not stopped" "$(field out 1 '$.stopped_at')" ''
exits 0 "list for people" node list
has "has a line for it" out "^one +live .* $worker +the one\$"
exits 0 "show for people" node show one
has "shows the process" out "pid: +$worker\$"
exits 4 "a second one with its id is refused" work other --on x --from start --exec true \
    --node-id one
has "and told who has it" err "node one is live already: process $worker on "

kill -TERM "$worker"
wait "$worker"
exits 0 "one that has stopped is not listed" node list --json
is "unless it is asked for" "$(cat out)" ''
exits 0 "all" node list --all --json
is "gone, and it said so" "$(field out 1 '$.node_id') $(field out 1 '$.state')" "one gone"
true_that "when it stopped" test -n "$(field out 1 '$.stopped_at')"
exits 0 "one with an id of other characters" work s-one --exec true \
    --until-empty --node-id 'rack 7/ä'
exits 0 "is found by that" node show 'rack 7/ä' --json
listed=$(field out 1 '$.node_id')
exits 0 "and by what is listed" node show "$listed" --json
is "which is the same node" "$(field out 1 '$.node_id') $(grep -c . <<<"$listed")" "$listed 1"
exits 0 "all for people" node list -a
has "says that it stopped" out '^one +gone \(stopped\)'

worker two
kill -KILL "$worker"
{ wait "$worker"; } 2>/dev/null
until_true 60 is_node two gone
is "one that was killed is gone" "$(field out 1 '$.state') $(field out 1 '$.stopped_at')" "gone "
exits 0 "for people" node list --all
has "says that it died" out '^two +gone \(died\)'
cat >node.yaml <<'END'
database:
  node_id: three
  node_description: of a file
  node_metadata: '{"rack": 7}'
subscriptions:
  - name: s-three
    on: x
    from: start
    handler:
      exec: "true"
END
exits 0 "one of a file" work --config node.yaml --until-empty
exits 0 "is known" node show three --json
is "by what the file says" "$(field out 1 '$.description') $(field out 1 '$.metadata.rack')" \
    "of a file 7"
exits 0 "flags win" work --config node.yaml --node-description 'of a flag' --until-empty
exits 0 "for people" node show three
has "it is shown" out 'of a flag'
exits 2 "metadata that is no object is refused" work x --on x --from start --exec true \
    --node-metadata 7
has "in words of the command line" err "the node's metadata "
exits 2 "so is an empty id" work x --on x --from start --exec true --node-id ''
has "in the same words" err "the node's id is empty"
exits 0 "the namespace can be removed" namespace rm default --yes
finish
