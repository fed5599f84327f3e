# The figures of C for check-figures, which explains them: kind, figure and where, with spaces between.

function figure(kind, value, where) { printf "%s %d %s\n", kind, value, where }

# How often `word` stands in c_code as a word of its own.
function words(word,    rest, count)
{
    rest = " " c_code " "
    while (match(rest, "[^A-Za-z0-9_]" word "[^A-Za-z0-9_]")) {
        count++
        rest = substr(rest, RSTART + RLENGTH - 1)
    }
    return count
}
# How often the characters stand in c_code.
function signs(pattern,    rest)
{
    rest = c_code
    return gsub(pattern, "", rest)
}

FNR == 1 { c_in_comment = in_body = in_struct = 0 }

{
    c_scan($0)
    if (c_code ~ /^[ \t]*#/)
        next
}

# A struct, with those inside it that have no name.
!in_body && !in_struct && c_code ~ /(struct|union)( [a-z0-9_]+)? \{$/ {
    in_struct = 1
    depth = booleans = 0
    name = c_code
    sub(/^.*(struct|union) /, "", name)
    sub(/ ?\{$/, "", name)
    place = FILENAME ":" (name == "" ? FNR : name)
}
in_struct {
    if (c_code ~ /^[ \t]*(atomic_bool|_Atomic bool|bool)[ \t]/ && c_code !~ /\(/)
        booleans += 1 + signs(",")
    depth += signs("\\{") - signs("\\}")
    if (depth == 0) {
        figure("booleans", booleans, place)
        in_struct = 0
    }
}

# A function: its name is before the last parenthesis that began in the first column's declaration.
!in_body && c_code ~ /^[a-z].*\(/ {
    name = c_code
    sub(/\(.*/, "", name)
    sub(/^.*[ *]/, "", name)
}
c_code ~ /^\{/ {
    in_body = 1
    ways = 1
}
in_body {
    ways += words("if") + words("for") + words("while") + words("switch")
    ways += signs("&&") + signs("\\|\\|") + signs("\\?")
    if (c_code ~ /^\}/) {
        figure("complexity", ways, FILENAME ":" name)
        in_body = 0
    }
}
