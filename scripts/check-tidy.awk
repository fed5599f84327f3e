# The rules of check-tidy. Prints "rule<TAB>file:line: what" for each breach.

function breach(rule, what)
{
    printf "%s\t%s:%d: %s\n", rule, FILENAME, FNR, what
}

function finish_file()
{
    if (is_c && lines > 800)
        printf "long_file\t%s: %d lines\n", previous, lines
    if (body)
        printf "long_function\t%s:%d: a { in the first column has no } there\n", previous, body
}

# c_dialect(CODE): braces around each body, and sizeof without parentheses unless it is of a type.
# The formatter has put the head of a statement at the beginning of a line and its body below it.
function c_dialect(code,    i, at, rest)
{
    if (!head && match(code, /^ *(\} else )?(if|for|while) \(/)) {
        head = FNR
        depth = 0
        at = RLENGTH
    } else if (!head && code ~ /^ *(\} )?(else|do)$/) {
        breach("braces", $0)
    } else if (head) {
        at = 1
    }
    for (i = at; head && i <= length(code); i++) {
        depth += substr(code, i, 1) == "("
        depth -= substr(code, i, 1) == ")"
        if (depth == 0 && substr(code, i, 1) == ")") {
            rest = substr(code, i + 1)
            if (rest !~ /^ *(\{.*|;|.*\\)$/)
                breach("braces", $0)
            head = 0
        }
    }
    while (match(code, /sizeof\([^()]*\)/)) {
        rest = substr(code, RSTART + 7, RLENGTH - 8)
        code = substr(code, RSTART + RLENGTH)
        if (rest !~ c_type)
            breach("size", $0)
    }
}

# claims(LINE): those of a shell test that are written out say by themselves which rule was broken.
function claims(line,    claim)
{
    while (match(line, claim_verb)) {
        line = substr(line, RSTART + RLENGTH)
        match(line, /^([^"\\]|\\.)*"/)
        claim = RLENGTH > 0 ? substr(line, 1, RLENGTH - 1) : line
        line = substr(line, length(claim) + 1)
        if (claim ~ claim_begins || (claim !~ /\$/ && split(claim, words, / +/) < 4))
            breach("claims", claim)
    }
}

BEGIN {
    # How a test in shell makes a claim: a verb of tap.sh, or of a lib.sh of the tests, and a text.
    claim_verb = "(^|[;({&|]|then |do |else |[A-Z]=[^ ]* ) *((exits|answers|visits|result) [^ ]+|is|" \
                 "has|hasnt|json|true_that|ok|fails|asks|hears|skip) +\""
    # What goes on with a line above, or leaves its subject out.
    claim_begins = "^(\\.\\.\\.|\\(|(and|or|nor|but|so|also|then|too|not|none|neither|which|who|whose|" \
                   "that|this|these|those|it|its|they|them|their|until|unless|because|with|by|as|" \
                   "in|of|on|to|from|for|is|are|was|were|has|have|had|says|shows|gets|leaves|" \
                   "stays|comes|goes|does|ends|once|twice|again|still|else)( |,|$))"
    c_type = "^((const|struct|union|enum|unsigned|char|int|long|double|float|bool|void)( .*)?|" \
             "[a-z0-9_]+_t|hf_[a-z_]+|[A-Z_]+|type)( \\**)?$"
    banned = "strcpy|strcat|stpcpy|sprintf|vsprintf|strncpy|strncat|strtok|atoi|atol|atoll|atof|" \
             "gets|localtime|gmtime|ctime|asctime|rand|srand|tmpnam|mktemp"
    banned = "(^|[^A-Za-z0-9_])(" banned ")[ \t]*\\("
    unfinished = "(^|[^A-Za-z0-9_])(TO" "DO|FIX" "ME|X" "XX)([^A-Za-z0-9_]|$)"
    # A condition that compares a variable with HF_OK. A call, and a value that is stored or chosen
    # by, may be compared. Examples are for users of the library, and name HF_OK.
    dialect = "(if|while) \\((.*(&&|\\|\\|) )?[][A-Za-z0-9_.>-]+ [!=]= HF_OK" \
              "( &&| \\|\\||\\)( \\{|;))"
    # A literal that begins like a statement. Two words are asked for where one is also English.
    sql = "^[ \t]*(SELECT |INSERT (OR|INTO)|UPDATE [a-z_]+ SET|DELETE FROM|REPLACE INTO|" \
          "CREATE (TABLE|INDEX|UNIQUE|TRIGGER|VIEW|TEMP)|ALTER TABLE|DROP (TABLE|INDEX|TRIGGER)|" \
          "PRAGMA |EXPLAIN |SAVEPOINT |RELEASE SAVEPOINT|ROLLBACK TO|" \
          "BEGIN (IMMEDIATE|EXCLUSIVE|DEFERRED|CONCURRENT)|(BEGIN|COMMIT|ROLLBACK|END);?$|" \
          "select .* from |insert into |update [a-z_]+ set |delete from |pragma )"
}

FNR == 1 {
    finish_file()
    previous = FILENAME
    is_c = FILENAME ~ /\.[ch]$/
    is_page = FILENAME ~ /\.md$/
    is_narrow = is_c || is_page || FILENAME ~ /\.sql$/ || FILENAME ~ /^tests\/.*\.sh$/
    is_product = FILENAME ~ /^(src|include)\//
    is_example = FILENAME ~ /^examples\//
    is_shell_test = FILENAME ~ /^(tests|examples)\/.*\.sh$|^scripts\/check-[a-z-]*$/
    c_in_comment = body = head = 0
    if (is_c && !/^\/\*/)
        breach("essay", "does not open with a comment that says what it is")
}

{ lines = FNR }
/\t/ && FILENAME !~ /(^|\/)Makefile$/ { breach("whitespace", "a tab") }
/[ \t\r]$/ { breach("whitespace", "a space at the end of the line") }
$0 ~ unfinished { breach("unfinished", $0) }

is_shell_test { claims($0) }

# A row of a table in a document is one line, and so is one of the command's.
is_page && (/^\|/ || /^ *PLANNED  |^    20[0-9][0-9]-.*Z  /) { next }
is_narrow {
    columns = $0
    gsub(/[\200-\277]/, "", columns)
    if (length(columns) > 100)
        breach("columns", length(columns) " columns")
}

is_c {
    c_scan($0)
    if (c_line_comment)
        breach("comments", "a // comment")
    if (c_code ~ banned && FILENAME !~ /\/banned\.h$/)
        breach("banned", $0)
    if (!is_example && c_code ~ dialect)
        breach("dialect", $0)
    if (c_code !~ /^#/ && c_code !~ /\\$/)
        c_dialect(c_code)
    if (is_product) {
        count = split(c_strings, literal, "\n")
        for (i = 1; i < count; i++)
            if (literal[i] ~ sql)
                breach("sql", $0)
    }
    if (c_code ~ /^\{/) {
        body = FNR
    } else if (c_code ~ /^\}/ && body) {
        if (FNR - body - 1 > 70)
            breach("long_function", sprintf("ends a body of %d lines", FNR - body - 1))
        body = 0
    }
}

END { finish_file() }
