# doc-blocks.awk: the blocks of a Markdown page that a reader can type; used by the tests of the
# documents (examples/docs.sh, tests/postgres/docs.sh, tests/postgres/languages.sh, check-install).
#
# A fenced block is opened by ``` and a line that says what becomes of it:
#
#   sh                          typed into a shell, those of one page one after another, on SQLite
#   sh on postgres, sql         the same on a server; sql goes through psql
#   sh on both                  on SQLite and, again, on a server. There a line that exports
#                               HOLDFAST_URL=sqlite:... is left out: the test has set another one
#   python, js                  a program, run between the blocks around it, on a server
#   yaml                        a configuration file: `holdfast config check` accepts it
#   c                           a program: compiled without a warning, and run
#   c part                      statements: compiled inside of a function
#   psql                        statements behind "=> ", further lines of them behind "-> ", and
#                               their answers, compared
#   ini                         a unit of systemd: systemd-analyze accepts it
#   LANGUAGE run by FILE        a test of its own runs it; FILE names this page
#   LANGUAGE not run: REASON    it is not run
#   text, or nothing            output, drawings, formulas
#
# A command that works until it is stopped (holdfast work without --until-empty, tail --follow) is
# given a second, and then stopped. What a page takes for granted stands in a comment of HTML, which
# readers do not see: "<!-- setup" (or "<!-- setup on postgres", "... on sqlite"), lines of shell, "-->".
#
#   awk -v mode=check ...                 prints the blocks that break these rules
#   awk -v mode=session -v engine=E ...   prints the page as a script for E (sqlite or postgres);
#                                         -v without="js python" leaves these languages out
#   awk -v mode=write -v info=I -v to=F   writes each block that was opened by exactly I to F.1,
#                                         F.2 ..., and prints these names without their directory

BEGIN {
    split("sh sql psql c python js yaml ini", list, " ")
    for (i in list) runs[list[i]] = 1
    typed = "^(\\$ |=> |#include |import |from .* import |export |sudo |" \
            "(holdfast|cc|gcc|make|psql|createdb|pg_dump|pg_restore|pg_basebackup|sqlite3|apt|apt-get|" \
            "systemctl|journalctl|cp|mv|rm|cd|cat|echo|printf|kill|du|df|docker|npm|pip|git|jq|crontab|" \
            "beanstalkd|redis-cli|lsof|fuser|ps|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|GRANT|REVOKE|" \
            "CALL|BEGIN|COMMIT|SET|WITH|VACUUM|PREPARE)( |;|$))"
    heredoc = "END_OF_THIS_BLOCK"
}

function complain(line, text) {
    if (mode == "check") print FILENAME ":" line ": " text
}

# open_block(): an opening fence; sets lang, how, place, file.
function open_block(  rest) {
    info = substr($0, 4)
    at = FNR
    lang = info
    sub(/ .*/, "", lang)
    rest = substr(info, length(lang) + 2)
    how = ""
    place = lang == "sql" || lang == "python" || lang == "js" ? "postgres" : "sqlite"
    if (rest ~ /^not run: ./) how = "not run"
    else if (rest ~ /^run by [^ ]+$/) { how = "run by"; runner = substr(rest, 8) }
    else if (rest == "on postgres" || rest == "on both") { how = "session"; place = substr(rest, 4) }
    else if (rest == "part" && lang == "c") how = "part"
    else if (rest == "") how = lang == "c" || lang == "psql" || lang == "ini" ? "other" : "session"
    else complain(at, "``` " info ": this mark is not known")
    if (lang == "" || lang == "text") how = "text"
    else if (!(lang in runs) && how != "not run" && how != "run by")
        complain(at, "a block in " lang " is not run: say why (\"" lang " not run: ...\")")
    if (how == "run by" && (!(runner in mentions)))
        mentions[runner] = names_page(runner)
    if (how == "run by" && !mentions[runner])
        complain(at, runner " does not exist or does not name this page")
    inside = 1
    lines = 0
}

# names_page(file): whether a test names the page that is read.
function names_page(file,  line, name, found) {
    name = FILENAME
    sub(/.*\//, "", name)
    while ((getline line < file) > 0)
        if (index(line, name)) found = 1
    close(file)
    return found
}

function close_block(  i) {
    inside = 0
    if (mode == "check" && how == "text") {
        for (i = 1; i <= lines; i++) if (block[i] ~ typed) {
            complain(at + i, "this can be typed: the block needs a language, such as sh")
            break
        }
    }
    if (mode == "write" && info == wanted) write_block()
    if (mode == "session" && how == "session" && (place == engine || place == "both") &&
        index(" " without " ", " " lang " ") == 0) session_block()
}

function write_block(  i, name) {
    name = to "." ++written
    printf "" >name
    for (i = 1; i <= lines; i++) print block[i] >name
    close(name)
    sub(/.*\//, "", name)
    print name
}

function session_block(  i, name) {
    printf "echo '# %s:%d' >&2\n", FILENAME, at
    if (lang == "sh") return shell_lines()
    if (lang == "sql") print "psql -X -q -v ON_ERROR_STOP=1 <<'" heredoc "'"
    else if (lang == "yaml") print "holdfast config check - <<'" heredoc "'"
    else {
        name = "block" at "." lang
        print "cat >" name " <<'" heredoc "'"
    }
    for (i = 1; i <= lines; i++) print block[i]
    print heredoc
    if (lang == "python") print "/usr/bin/python3 " name
    if (lang == "js") print "node " name
}

# shell_lines(): a command that does not end by itself is stopped after a second.
function shell_lines(  i, command) {
    for (i = 1; i <= lines; i++) {
        command = block[i]
        while (command ~ /\\$/ && i < lines) command = command "\n" block[++i]
        if (engine == "postgres" && command ~ /^export HOLDFAST_URL=sqlite:/) continue
        if (command ~ /^holdfast (work|tail) / && command !~ /--until-empty|--max-time/ &&
            (command ~ /^holdfast work/ || command ~ / (-f|--follow)( |$)/))
            print "(exec " command ") & ended_by_a_signal $!"
        else print command
    }
}

BEGIN { wanted = info }

/^```/ && inside { close_block(); next }
inside { block[++lines] = $0; next }
/^```/ { open_block(); next }
/^<!-- setup( on (postgres|sqlite))?$/ { setup = 1; setup_place = $4; next }
setup && /^-->$/ { setup = 0; next }
setup {
    if (mode == "session" && (setup_place == "" || setup_place == engine)) print
    next
}
# Four spaces after an empty line are a block, too; below a list they are part of it.
/^    / && (before == "" || indented) {
    indented = 1
    if (substr($0, 5) ~ typed && !listed) complain(FNR, "this can be typed: put it into a fenced block")
}
!/^    / { indented = 0 }
/^[^ ]/ { listed = /^([-*]|[0-9]+\.) / }
{ before = $0 }
END {
    if (inside) complain(at, "this block has no end")
}
