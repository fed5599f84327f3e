# The figures of SQL for check-figures: the lines of each function, with its body.

FNR == 1 { body = "" }
(body == "" || body == "?") && /^[ \t]*CREATE (OR REPLACE )?(FUNCTION|PROCEDURE) / {
    name = $0
    sub(/^[ \t]*CREATE (OR REPLACE )?(FUNCTION|PROCEDURE) /, "", name)
    sub(/\(.*/, "", name)
    first = FNR
    body = "?"
}
body == "?" && match($0, /\$[a-z_]*\$/) {
    body = substr($0, RSTART, RLENGTH)
    rest = substr($0, RSTART + RLENGTH)
    if (index(rest, body))
        ended = 1
    else
        next
}
body != "" && body != "?" && (ended || index($0, body)) {
    printf "sql_lines %d %s:%s\n", FNR - first + 1, FILENAME, name
    body = ""
    ended = 0
}
