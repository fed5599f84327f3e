# The constants of C headers for embed-sql: prints "NAME VALUE" for each constant of an enum, for each
# line X(NAME, VALUE, ...) of a list, and for each #define of a number. Values are decimal numbers; in an
# enum also one more than the one before. Of a list of words, `#define CAUSES(X)` with X(DIED, "died") and
# so on, CAUSE_DIED is the quoted word, and CAUSE_ANY all of them, with commas.

function die(message)
{
    printf "%s:%d: %s\n", FILENAME, FNR, message > "/dev/stderr"
    failed = 1
    exit 1
}

function tell(name, value)
{
    if (name in seen && seen[name] != value)
        die(name " has two values")
    seen[name] = value
    print name, value
}

# The constants between the braces of an enum, without comments.
function tell_all(list,    parts, count, i, part, value)
{
    value = -1
    count = split(list, parts, ",")
    for (i = 1; i <= count; i++) {
        part = parts[i]
        gsub(/[ \t]/, "", part)
        if (part == "" || part ~ /^#/)
            continue
        if (part ~ /^[A-Z][A-Z0-9_]*$/)
            value++
        else if (part ~ /^[A-Z][A-Z0-9_]*=-?[0-9]+$/)
            value = substr(part, index(part, "=") + 1) + 0
        else
            return # made by macros, or no constant that SQL could know
        sub(/=.*/, "", part)
        tell(part, value)
    }
}

{
    line = $0
    while (match(line, /\/\*[^*]*\*\//)) # a comment of one line
        line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
    if (comment) {
        if (!index(line, "*/"))
            next
        line = substr(line, index(line, "*/") + 2)
        comment = 0
    }
    if (index(line, "/*")) {
        line = substr(line, 1, index(line, "/*") - 1)
        comment = 1
    }
}

line ~ /^#define [A-Z][A-Z0-9]*_[A-Z0-9_]* (INT64_C\()?-?[0-9]+\)? *$/ {
    split(line, field, / +/)
    gsub(/INT64_C|[()]/, "", field[3])
    tell(field[2], field[3])
}

line ~ /^#define [A-Z]+S\(X\)/ {
    list_name = substr(line, 9, index(line, "(") - 10)
    words = ""
}

line ~ /^ *X\([A-Z][A-Z0-9_]*, "[a-z_]+"\)/ && list_name != "" {
    split(line, field, /[(,") ]+/)
    tell(list_name "_" field[3], "'" field[4] "'")
    words = words (words == "" ? "" : ", ") "'" field[4] "'"
    if (line !~ /\\$/) {
        tell(list_name "_ANY", words)
        list_name = ""
    }
}

line ~ /^ *X\([A-Z][A-Z0-9_]*, *[0-9]+,/ {
    sub(/^ *X\(/, "", line)
    split(line, field, /, */)
    tell(field[1], field[2] + 0)
}

!inside && line ~ /(^|[ \t])enum [a-z_]+ *\{/ {
    inside = 1
    sub(/.*enum [a-z_]+ *\{/, "", line)
    list = ""
}

inside {
    if (index(line, "}")) {
        tell_all(list " " substr(line, 1, index(line, "}") - 1))
        inside = 0
    } else {
        list = list " " line
    }
}

END { if (failed) exit 1 }
