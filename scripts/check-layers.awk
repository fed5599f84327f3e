# The rules of check-layers, which explains them; -v layer=base etc. Exits 1 if one is broken.

BEGIN {
    # What a folder may include besides its own files. A name stands for that folder alone.
    allow("base", "base/text base/time")
    allow("base/text", "base base/time")
    allow("base/time", "base base/text")
    allow("store", "base base/text base/time store/common")
    allow("store/common", "base base/text base/time store")
    allow("store/schema", "base base/text base/time")
    allow("store/module", "base base/text base/time store")
    engine_rooms("sqlite", "file write read")
    allow("store/sqlite/write", "store/sqlite/file")
    allow("store/sqlite/read", "store/sqlite/file store/sqlite/write")
    engine_rooms("postgres", "wire write read keeper")
    allow("store/postgres/write", "store/postgres/wire")
    allow("store/postgres/read", "store/postgres/wire")
    allow("store/postgres/keeper", "store/postgres/wire")
    below = "base base/text base/time store store/common"
    rooms = " bus/deliver/turn bus/deliver/window bus/deliver/work bus/deliver/tail"
    allow("bus", below rooms " bus/deliver bus/deliver/ordered")
    allow("bus/deliver/window", below)
    allow("bus/deliver/tail", below " bus/deliver/turn")
    allow("bus/deliver/turn", below rooms " bus bus/deliver")
    allow("bus/deliver/work", below rooms " bus bus/deliver")
    allow("bus/deliver", below rooms " bus")
    allow("bus/deliver/ordered", below rooms " bus bus/deliver")
    allow("bus/timers", below " bus")
    allow("bus/api", below rooms " bus bus/deliver bus/timers")
    allow("json", "")
    allow("cli", "cli/core cli/terminal cli/config json")
    allow("cli/terminal", "json")
    allow("cli/core", "cli/terminal json")
    allow("cli/webhook", "cli/core cli/terminal")
    allow("cli/config", "cli/core cli/terminal cli/webhook json")
    allow("cli/work", "cli/core cli/terminal cli/config cli/webhook json")
    allow("cli/bench", "cli/core cli/terminal json")
    allow("cli/watch", "cli/core cli/terminal json")
    allow("server", "server/http server/access server/page server/live server/follow " \
          "server/monitor server/buses cli/core cli/terminal cli/config cli/work json")
    allow("cli/command", "cli/core cli/terminal cli/config cli/webhook cli/work cli/watch json")
    allow("server/webhook", "server/access server/cloudevent cli/webhook cli/terminal json")
    allow("server/http", "json")
    allow("server/access", "server/http")
    allow("server/api", "server/http server/cloudevent cli/watch cli/terminal json")
    allow("server/cloudevent", "server/http json")
    allow("server/page", "server/http server/access server/live json")
    allow("server/live", "server/buses server/http json")
    allow("server/follow", "server/buses server/http server/cloudevent json")
    allow("server/buses", "")
    allow("server/monitor", "server/http cli/watch")
    # What the command may use of the library's inside: leaf modules that know nothing of a bus.
    count = split("arena banned err mem ranges thread uuid text/buf text/glob text/hex " \
                  "text/json_check text/json_read text/json_scan text/json_write text/suggest " \
                  "text/text text/utf8 time/clock time/coming time/cron time/deadline time/time " \
                  "time/timetable time/zone", names, " ")
    for (i = 1; i <= count; i++)
        helper["base/" names[i] ".h"] = 1
    owner["sqlite3.h"] = "sqlite"
    owner["libpq-fe.h"] = "postgres"
}
function allow(folder, others) { allowed[folder] = allowed[folder] " " others " " folder " " }
function engine_rooms(engine, rooms,    names, count, i) {
    allow("store/" engine, "base base/text base/time store store/common store/schema store/module")
    count = split(rooms, names, " ")
    for (i = 1; i <= count; i++) {
        allow("store/" engine, "store/" engine "/" names[i])
        allow("store/" engine "/" names[i], \
              "base base/text base/time store store/common store/schema store/" engine)
    }
}
function folder_of(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }
function refuse(why) { printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why; bad = 1 }

FNR == 1 {
    folder = folder_of(substr(FILENAME, 5)) # without src/
    split(folder, part, "/")
    engine = part[1] == "store" ? part[2] : ""
    if (!(folder in allowed)) {
        printf "%s: no rule says what src/%s may include\n", FILENAME, folder
        bad = 1
    }
}

/^[ \t]*#[ \t]*include/ {
    name = $0
    sub(/^[^<"]*[<"]/, "", name)
    sub(/[>"].*/, "", name)

    if (name ~ /^[a-z]+_sql\.h$/)
        owner[name] = substr(name, 1, length(name) - 6)
    # The configuration file is read in one place; the library must not need its parser.
    if (name == "yaml.h" && FILENAME != "src/cli/config/yaml.c")
        refuse("belongs to src/cli/config/yaml.c")
    # Which build this is concerns the engine's module and its opener.
    if (name == "build.h") {
        if (FILENAME !~ /^src\/store\/(module\/opened|postgres\/module)\.c$/)
            refuse("belongs to src/store/module/opened.c and src/store/postgres/module.c")
    } else if (name == "web.h") {
        if (FILENAME != "src/server/page/assets.c")
            refuse("belongs to src/server/page/assets.c")
    } else if (name in owner) {
        # `bench --raw` measures the bare engine with the very statement of the bus.
        if (engine != owner[name] && FILENAME != "src/cli/bench/raw.c")
            refuse("belongs to src/store/" owner[name])
    } else if ($0 !~ /"/) {
        next
    } else if (name ~ /\.\.\// || folder_of(name) == "") {
        refuse("write it from src/, as \"base/text/buf.h\"")
    } else if (layer ~ /^(json|cli|server)$/ && name == "bus/options.def") {
        next # the options of a subscription are listed once, for the library and the command
    } else if (layer ~ /^(json|cli|server)$/ && name ~ /^base\//) {
        if (!(name in helper))
            refuse("not one of the helpers that the command may use")
    } else if (!index(allowed[folder], " " folder_of(name) " ")) {
        refuse("src/" folder " may not include src/" folder_of(name))
    }
}
END { exit bad }
