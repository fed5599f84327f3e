# The rules of check-layers, which explains them; -v layer=base etc. Exits 1 if one is broken.

BEGIN {
    allowed["base"] = " base "
    allowed["store"] = " store base "
    allowed["bus"] = " bus store base "
    allowed["cli"] = " cli server base "
    allowed["server"] = " server base "
    owner["sqlite3.h"] = "sqlite"
    owner["libpq-fe.h"] = "postgres"
}
function refuse(why) { printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why; bad = 1 }

/^[ \t]*#[ \t]*include/ {
    split(FILENAME, path, "/")
    engine = path[2] == "store" && path[4] != "" ? path[3] : ""
    name = $0
    sub(/^[^<"]*[<"]/, "", name)
    sub(/[>"].*/, "", name)
    split(name, to, "/")

    if (name ~ /^[a-z]+_sql\.h$/)
        owner[name] = substr(name, 1, length(name) - 6)
    # The configuration file is read in one place; the library must not need its parser.
    if (name == "yaml.h" && FILENAME != "src/cli/config/yaml.c")
        refuse("belongs to src/cli/config/yaml.c")
    if (name in owner) {
        # `bench --raw` measures the bare engine with the very statement of the bus.
        if (engine != owner[name] && FILENAME != "src/cli/bench/raw.c")
            refuse("belongs to src/store/" owner[name])
    } else if ($0 !~ /"/) {
        next
    } else if (name ~ /\.\.\// || to[2] == "") {
        refuse("write it from src/, as \"base/buf.h\"")
    } else if (!index(allowed[layer], " " to[1] " ")) {
        refuse(layer " may include only" allowed[layer] "and <holdfast.h>")
    } else if (to[1] == "store" && to[3] != "" && engine != to[2] &&
               !(layer == "store" && engine == "")) {
        refuse("private to the engine " to[2])
    }
}
END { exit bad }
