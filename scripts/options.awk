# The options of a subscription for scripts: reads the constants of enum-names.awk, then options.def, and
# prints for each option, separated by tabs:
#
#   field  kind  initial  min  max  words  flag  unit  key  help  shown  commands
#
# Numbers are decimal, periods milliseconds; `words` are separated by | and empty but for a CHOICE; an
# option without a key has - there. `commands` is the default for commands, `shown` the same as people
# write it (30s). With -v sql=1 it prints the rows of option_rows() for embed-sql instead: one line, on
# which a form feed stands for a new one.

function die(message)
{
    printf "%s:%d: %s\n", FILENAME, FNR, message > "/dev/stderr"
    failed = 1
    exit 1
}

# The value of 100, HF_CLAIM_MAX, SECONDS(30) or ZERO.
function number_of(text,    unit)
{
    if (text == "ZERO")
        return 0
    unit = text
    sub(/\(.*/, "", unit)
    if (unit != text && unit in unit_ms) {
        gsub(/[^0-9]/, "", text)
        return sprintf("%.0f", text * unit_ms[unit])
    }
    if (text in value_of)
        return value_of[text]
    if (text !~ /^[0-9]+$/)
        die("no number, period or constant: " text)
    return text
}

# The default as people write it: SECONDS(30) is 30s.
function shown(text,    unit)
{
    if (text == "ZERO")
        return "0"
    unit = text
    sub(/\(.*/, "", unit)
    if (unit == text)
        return text
    gsub(/[^0-9]/, "", text)
    return text letters[unit]
}

# Splits the arguments of a line at commas outside of quotes; quotes are taken off.
function split_arguments(text, into,    i, letter, count, quoted)
{
    count = 1
    into[1] = ""
    for (i = 1; i <= length(text); i++) {
        letter = substr(text, i, 1)
        if (letter == "\"")
            quoted = !quoted
        else if (letter == "," && !quoted)
            into[++count] = ""
        else if (letter != " " || quoted)
            into[count] = into[count] letter
    }
    return count
}

function tell(field, kind, initial, min, max, words, flag, unit, key, help, written, commands)
{
    options++
    if (key == "NO_KEY")
        key = "-"
    if (!sql) {
        print field "\t" kind "\t" initial "\t" min "\t" max "\t" words "\t" flag "\t" unit "\t" key \
            "\t" help "\t" written "\t" (commands == "" ? initial : commands)
        return
    }
    gsub(/\|/, ",", words)
    row = sprintf("(%d, '%s', %s, %s, %s, %d, %s)", options, field, kind == "CHOICE" ? 1 : initial, min, \
                  max, kind == "FACTOR" ? 2 : 0, words == "" ? "NULL" : "'{" words "}'::text[]")
    rows = rows (rows == "" ? "" : ",\f        ") row
}

BEGIN {
    split("MS SECONDS MINUTES HOURS DAYS", names, " ")
    split("1 1000 60000 3600000 86400000", factors, " ")
    split("ms s m h d", short, " ")
    for (i = 1; i <= 5; i++) {
        unit_ms[names[i]] = factors[i]
        letters[names[i]] = short[i]
    }
}

FILENAME !~ /\.def$/ { value_of[$1] = $2; next }

/^(CHOICE|NUMBER|PERIOD|LIMIT|FACTOR|ALSO)\(/ { statement = "" }
/^(CHOICE|NUMBER|PERIOD|LIMIT|FACTOR|ALSO)\(/, /\)$/ {
    sub(/^ +/, " ")
    statement = statement $0
    if (statement !~ /"\)$/)
        next
    kind = substr(statement, 1, index(statement, "(") - 1)
    split_arguments(substr(statement, length(kind) + 2, length(statement) - length(kind) - 2), a)
    if (kind == "CHOICE") {
        words = a[3] "|" a[4]
        tell(a[1], kind, a[3], 1, split(words, list, "|"), words, a[5], "", a[6], a[7], a[3])
    } else if (kind == "LIMIT") {
        tell(a[1], "PERIOD", number_of(a[2]), number_of(a[4]), number_of(a[5]), "", a[6], "TIME", a[7], \
             a[8], shown(a[3]), number_of(a[3]))
    } else if (kind == "PERIOD") {
        tell(a[1], kind, number_of(a[2]), number_of(a[3]), number_of(a[4]), "", a[5], "TIME", a[6], \
             a[7], shown(a[2]))
    } else if (kind != "ALSO") {
        tell(a[1], kind, number_of(a[2]), number_of(a[3]), number_of(a[4]), "", a[5], a[6], a[7], a[8], \
             a[2])
    }
}

END {
    if (failed)
        exit 1
    if (sql)
        print "OPTION_ROWS " rows
}
