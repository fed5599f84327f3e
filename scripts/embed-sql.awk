# The work of embed-sql, which documents input and output. One pass over all files: each line goes
# through strip(), a small scanner that knows whether it is inside a literal, and is then written as
# one line of a C string literal.

function die(message)
{
    printf "%s:%d: %s\n", FILENAME, FNR, message > "/dev/stderr"
    failed = 1
    exit 1
}

# What ends the literal or comment that begins at the head of `rest`; "" if none begins there.
function closer_of(rest,    first)
{
    first = substr(rest, 1, 1)
    if (first == "'" || first == "\"" || first == "`")
        return first
    if (first == "[" && prefix == "sqlite")
        return "]"
    if (substr(rest, 1, 2) == "/*")
        return "*/"
    if (prefix == "postgres" && match(rest, /^\$([A-Za-z_][A-Za-z_0-9]*)?\$/))
        return substr(rest, 1, RLENGTH)
    return ""
}

# The line without comments. `closer` remembers across lines what we are inside of. A doubled quote
# needs no care: it closes one literal and opens the next.
function strip(line,    out, at, opener)
{
    out = ""
    while (line != "") {
        if (closer != "") {
            at = index(line, closer)
            if (at == 0)
                return closer == "*/" ? out : out line
            if (closer != "*/")
                out = out substr(line, 1, at + length(closer) - 1)
            line = substr(line, at + length(closer))
            closer = ""
        } else if (substr(line, 1, 2) == "--") {
            break
        } else if ((closer = closer_of(line)) != "") {
            opener = closer == "*/" ? "/*" : closer == "]" ? "[" : closer
            if (closer != "*/")
                out = out opener
            line = substr(line, length(opener) + 1)
        } else {
            out = out substr(line, 1, 1)
            line = substr(line, 2)
        }
    }
    sub(/[ \t\r]+$/, "", out)
    return out
}

# The line with the values of constants in the place of their names.
function name_values(line,    out, word, before)
{
    out = ""
    while (match(line, /[A-Z][A-Z0-9]*_[A-Z0-9_]+/)) {
        word = substr(line, RSTART, RLENGTH)
        before = RSTART > 1 ? substr(line, RSTART - 1, 1) : ""
        if (before !~ /[A-Za-z0-9_]/ && substr(line, RSTART + RLENGTH, 1) !~ /[a-z]/) {
            if (word in value_of)
                word = value_of[word]
            else if (substr(word, 1, index(word, "_")) in named)
                die("there is no constant " word)
        }
        out = out substr(line, 1, RSTART - 1) word
        line = substr(line, RSTART + RLENGTH)
    }
    return out line
}

# Makes `line` the next line of the current text, as a C string literal. A backslash before the
# second of two question marks keeps the compiler from seeing a trigraph.
function add_line(line)
{
    gsub(/\\/, "&&", line)
    gsub(/"/, "\\\"", line)
    gsub(/\t/, "\\t", line)
    gsub(/\r/, "\\r", line)
    gsub(/\?\?/, "?\\?", line)
    text = text "\n        \"" line "\\n\""
}

function finish()
{
    if (kind == "")
        return
    if (closer != "")
        die("the literal or comment that ends with " closer " is not finished in " name)
    if (text == "")
        die(kind " " name " is empty")
    # Joined, not formatted: mawk's sprintf has room for 8192 bytes.
    if (kind == "query")
        queries = queries "    [" upper "_QUERY_" toupper(name) "] = {\"" name "\"," text "},\n"
    else if (kind == "file of functions")
        functions = functions "    {\"" name "\"," text "},\n"
    else {
        migrations = migrations "    {" version ", \"" name "\"," text ",\n        " \
                     (older_programs == "work") ", " (older_schema == "works") "},\n"
        programs_from = older_programs == "work" ? programs_from : version
        works_from = older_schema == "works" ? works_from : version
    }
    kind = ""
    text = ""
}

function begin_query(line)
{
    finish()
    kind = "query"
    name = line
    sub(/^-- *name: */, "", name)
    sub(/[ \t\r]+$/, "", name)
    if (name !~ /^[a-z][a-z0-9_]*$/)
        die("the query name '" name "' is not lower case letters, digits and _")
    if (name in seen)
        die("the query " name " exists already, in " seen[name])
    seen[name] = FILENAME ":" FNR
    constants = constants sprintf("    %s_QUERY_%s,\n", upper, toupper(name))
}

function begin_migration(file)
{
    kind = "migration"
    name = substr(file, 6, length(file) - 9)
    version = substr(file, 1, 4) + 0
    older_programs = "refused"
    older_schema = "looks"
    migration_count++
    if (version != migration_count)
        die(sprintf("migration %04d is expected here: numbers go up without a gap", \
                    migration_count))
}

# A line of a migration that says who can work with whom.
function read_neighbours(line)
{
    sub(/^-- */, "", line)
    sub(/[ \t\r]+$/, "", line)
    if (line ~ /^older programs: (work|refused)$/)
        older_programs = substr(line, 17)
    else if (line ~ /^older schema: (works|looks)$/)
        older_schema = substr(line, 15)
    else
        die("'" line "': older programs work or are refused; the older schema works or looks")
}

function begin_functions(file)
{
    kind = "file of functions"
    name = substr(file, 1, length(file) - 4)
    functions_count++
}

BEGIN {
    upper = toupper(prefix)
    while (names != "" && (getline constant < names) > 0) {
        at = index(constant, " ")
        word = substr(constant, 1, at - 1)
        value_of[word] = substr(constant, at + 1)
        named[substr(word, 1, index(word, "_"))] = 1
    }
}

FNR == 1 {
    finish()
    file = FILENAME
    sub(/.*\//, "", file)
    if (FILENAME ~ /\/tables\/[^\/]*$/)
        begin_migration(file)
    else if (FILENAME ~ /\/functions\/([^\/]*\/)?[^\/]*$/)
        begin_functions(file)
}

closer == "" && /^-- *name:/ {
    if (kind != "" && kind != "query")
        die("a " kind " holds no named queries")
    begin_query($0)
    next
}

kind == "migration" && closer == "" && /^-- *older (programs|schema):/ {
    read_neighbours($0)
    next
}

{
    inside = closer != "" && closer != "*/"
    stripped = strip($0)
    if (!inside && stripped ~ /^[ \t]*$/ && (closer == "" || closer == "*/"))
        next
    if (kind == "")
        die("there is SQL before the first `-- name:` line")
    count = split(name_values(stripped), parts, "\f") # of OPTION_ROWS
    for (i = 1; i <= count; i++)
        add_line(parts[i])
}

END {
    if (failed)
        exit 1
    finish()
    if (failed)
        exit 1
    printf "/* Made by scripts/embed-sql from sql/%s. Do not edit. */\n", prefix
    printf "#ifndef HF_GEN_%s_SQL_H\n#define HF_GEN_%s_SQL_H\n\n", upper, upper
    printf "enum %s_query {\n%s    %s_QUERY_COUNT\n};\n\n", prefix, constants, upper
    printf "struct %s_query_text {\n    const char *name;\n    const char *sql;\n};\n\n", prefix
    printf "static const __attribute__((unused)) struct %s_query_text\n", prefix
    printf "    %s_queries[%s_QUERY_COUNT] = {\n%s};\n\n", prefix, upper, queries
    printf "struct %s_migration {\n    int version;\n    const char *name;\n", prefix
    printf "    const char *sql;\n    int older_programs;\n    int older_schema;\n};\n\n"
    printf "#define %s_MIGRATION_COUNT %d\n", upper, migration_count
    printf "#define %s_PROGRAMS_FROM %d\n", upper, programs_from
    printf "#define %s_WORKS_FROM %d\n\n", upper, works_from
    printf "static const __attribute__((unused)) struct %s_migration\n", prefix
    printf "    %s_migrations[%s_MIGRATION_COUNT] = {\n%s};\n\n", prefix, upper, migrations
    if (functions_count > 0) {
        printf "struct %s_functions {\n    const char *name;\n    const char *sql;\n};\n\n", prefix
        printf "#define %s_FUNCTIONS_COUNT %d\n", upper, functions_count
        printf "#define %s_FUNCTIONS_DIGEST @\n\n", upper
        printf "static const __attribute__((unused)) struct %s_functions\n", prefix
        printf "    %s_functions[%s_FUNCTIONS_COUNT] = {\n%s};\n\n", prefix, upper, functions
    }
    printf "#endif\n"
}
