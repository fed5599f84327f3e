#!/usr/bin/env bash
# node list, node show, and what `work` says about itself.
. "$(dirname "$0")/lib.sh"

exits 3 "node list without a database exits with not found" node list
on postgres || is "node list does not make a database" "$(ls -- *.db 2>/dev/null)" ''
hf publish a.b '{}'
exits 0 "node list --json succeeds without nodes" node list --json
is "node list leaves out commands that only look and those that have ended" "$(cat out)" ''
exits 3 "node show of an unknown node exits with not found" node show nobody
exits 2 "node show refuses an empty id" node show ''

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
is "node show --json says that a worker is live, with name and process" \
    "$(field out 1 '$.state') $(field out 1 '$.name') $(field out 1 '$.pid')" \
    "live the one $worker"
is "node show --json prints started_at as a time" \
    "$(field out 1 '$.started_at' | grep -cE '^20..-')" 1
is "node show --json prints description and metadata of the node" \
    "$(field out 1 '$.description') $(field out 1 '$.metadata.rack')" \
    "says one bé"
is "node show --json prints no stopped_at of a live node" "$(field out 1 '$.stopped_at')" ''
exits 0 "node list succeeds with a live node" node list
has "node list prints id, state, process and name of a live node" \
    out "^one +live .* $worker +the one\$"
exits 0 "node show succeeds for a live node" node show one
has "node show prints the process of a node" out "pid: +$worker\$"
exits 4 "work with the --node-id of a live node exits with a conflict" \
    work other --on x --from start --exec true \
    --node-id one
has "the conflict of --node-id names the process that has it" \
    err "node one is live already: process $worker on "

kill -TERM "$worker"
wait "$worker"
exits 0 "node list --json succeeds after a node has stopped" node list --json
is "node list leaves out nodes that have stopped" "$(cat out)" ''
exits 0 "node list takes the option --all" node list --all --json
is "node list --all prints a node that has stopped as gone" \
    "$(field out 1 '$.node_id') $(field out 1 '$.state')" "one gone"
true_that "node list --all --json prints stopped_at of a node that has stopped" \
    test -n "$(field out 1 '$.stopped_at')"
exits 0 "work --node-id takes other characters than letters" work s-one --exec true \
    --until-empty --node-id 'rack 7/ä'
exits 0 "node show finds a node by an id with other characters" node show 'rack 7/ä' --json
listed=$(field out 1 '$.node_id')
exits 0 "node show finds a node by the id that node list prints" node show "$listed" --json
is "both forms of an id find the same node" \
    "$(field out 1 '$.node_id') $(grep -c . <<<"$listed")" "$listed 1"
exits 0 "node list -a succeeds without --json" node list -a
has "node list -a says that a node has stopped" out '^one +gone \(stopped\)'

worker two
kill -KILL "$worker"
{ wait "$worker"; } 2>/dev/null
until_true 60 is_node two gone
is "node show --json says that a killed node is gone without having stopped" \
    "$(field out 1 '$.state') $(field out 1 '$.stopped_at')" "gone "
exits 0 "node list --all succeeds with a killed node" node list --all
has "node list --all says that a killed node died" out '^two +gone \(died\)'
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
exits 0 "work takes the node_id of a file" work --config node.yaml --until-empty
exits 0 "node show finds a node by the node_id of a file" node show three --json
is "node show prints description and metadata of the file" \
    "$(field out 1 '$.description') $(field out 1 '$.metadata.rack')" \
    "of a file 7"
exits 0 "work takes --node-description together with a file" \
    work --config node.yaml --node-description 'of a flag' --until-empty
exits 0 "node show succeeds for a node of a file" node show three
has "--node-description wins over the file" out 'of a flag'
exits 2 "work refuses --node-metadata that is no object" work x --on x --from start --exec true \
    --node-metadata 7
has "the refusal of --node-metadata names the node's metadata" err "the node's metadata "
exits 2 "work refuses an empty --node-id" work x --on x --from start --exec true --node-id ''
has "the refusal of an empty --node-id says that it is empty" err "the node's id is empty"
exits 0 "namespace rm removes a namespace that had nodes" namespace rm default --yes
finish
