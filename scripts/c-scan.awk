# A scanner for C lines, for use with `awk -f c-scan.awk -f rules.awk`. c_scan(line) sets
#
#   c_code         the line without comments and without what its string literals hold
#   c_strings      what its string literals hold, one after another, each ended by a newline
#   c_line_comment whether it has a // comment
#
# c_in_comment says whether the next line begins inside a comment; clear it at the top of a file.

function c_scan(line,    at, closer, literal)
{
    c_code = c_strings = ""
    c_line_comment = 0
    while (line != "") {
        if (c_in_comment) {
            at = index(line, "*/")
            if (at == 0)
                return
            line = substr(line, at + 2)
            c_in_comment = 0
        } else if (!match(line, /["']|\/\*|\/\//)) {
            c_code = c_code line
            return
        } else {
            c_code = c_code substr(line, 1, RSTART - 1)
            closer = substr(line, RSTART, 1)
            if (closer == "/") {
                c_line_comment = substr(line, RSTART, 2) == "//"
                c_in_comment = !c_line_comment
                if (c_line_comment)
                    return
                line = substr(line, RSTART + 2)
            } else {
                literal = c_literal(substr(line, RSTART + 1), closer)
                line = substr(line, RSTART + length(literal) + 2)
                c_code = c_code closer closer
                if (closer == "\"")
                    c_strings = c_strings literal "\n"
            }
        }
    }
}

# The part of `rest` before the unescaped `closer`.
function c_literal(rest, closer,    at, c)
{
    for (at = 1; at <= length(rest); at++) {
        c = substr(rest, at, 1)
        if (c == "\\")
            at++
        else if (c == closer)
            break
    }
    return substr(rest, 1, at - 1)
}
