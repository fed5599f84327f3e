# Reads what bench/peers/run has measured (facts, absent, results, rows) and knows how to count it:
# medians over the rounds, the best peer, ratios round by round, and whether a goal is reached. For
# table.awk and chart.awk, which write it down.
#
# A value is found by (work, system, metric); values of one round were measured close to each other.

BEGIN {
    FS = "\t"
    label["sqlite"] = "bare SQLite"
    label["disk"] = "bare disk"
    label["bare"] = "bare INSERT"
    label["skiplocked"] = "own queue, SKIP LOCKED"
    label["redis"] = "Redis"
    label["nats"] = "NATS JetStream"
    label["pgq"] = "PgQ"
    file = 0
}

FNR == 1 { file = FILENAME; sub(/.*\//, "", file) }
file == "facts.tsv" {
    if ($1 in fact)
        fact[$1] = fact[$1] ", " $2
    else {
        fact[$1] = $2
        fact_names[++facts] = $1
    }
}
file == "absent.tsv" && !(($1, $2) in reason) {
    reason[$1, $2] = $3
    absent_work[++absents] = $1
    absent_system[absents] = $2
}
file == "results.tsv" {
    rounds = $3 > rounds ? $3 : rounds
    keep($1, $2, "rate", $3, $4)
    if ($4 > 0)
        keep($1, $2, "us", $3, 1e6 / $4)
    keep($1, $2, "cpu", $3, $5)
    keep($1, $2, "bytes", $3, $6)
    keep($1, $2, "p50", $3, $7)
    keep($1, $2, "p99", $3, $8)
}
file == "rows.tsv" {
    row++
    section[row] = $1
    title[row] = $2
    work[row] = $3
    ours[row] = $4
    metric[row] = $5
    goal[row] = $6
    peers[row] = $7
    bare[row] = $8
    our_system[$3] = $4
}

function keep(its, who, metric, round, value)
{
    if (value != "")
        measured[its, who, metric, round] = value + 0
}

function name_of(who)
{
    return who in label ? label[who] : who
}

# values(WORK, SYSTEM, METRIC): how many rounds there are; then median, low and high are theirs
function values(its, who, metric,    count, i, round, sorted)
{
    count = 0
    for (round = 1; round <= rounds; round++)
        if ((its, who, metric, round) in measured) {
            for (i = ++count; i > 1 && sorted[i - 1] > measured[its, who, metric, round]; i--)
                sorted[i] = sorted[i - 1]
            sorted[i] = measured[its, who, metric, round]
        }
    if (count > 0) {
        low = sorted[1]
        high = sorted[count]
        median = (sorted[int((count + 1) / 2)] + sorted[int(count / 2) + 1]) / 2
    }
    return count
}

function is_better_low(metric)
{
    return metric != "rate"
}

# best_of(ROW): the peer with the best median, or ""
function best_of(row,    list, count, i, best, best_value)
{
    count = split(peers[row], list, " ")
    best = ""
    for (i = 1; i <= count; i++)
        if (values(work[row], list[i], metric[row]) > 0 &&
            (best == "" || (is_better_low(metric[row]) ? median < best_value : median > best_value))) {
            best = list[i]
            best_value = median
        }
    return best
}

# ratio_to(ROW, WORK, SYSTEM): by how much ours is better, the median of the rounds' ratios; above 1:
# ours is better. 0: there is nothing to compare.
function ratio_to(row, its_work, who,    round, a, b)
{
    for (round = 1; round <= rounds; round++) {
        delete measured["ratio", who, "ratio", round]
        if (((work[row], ours[row], metric[row], round) in measured) &&
            ((its_work, who, metric[row], round) in measured)) {
            a = measured[work[row], ours[row], metric[row], round]
            b = measured[its_work, who, metric[row], round]
            if (a > 0 && b > 0)
                measured["ratio", who, "ratio", round] = is_better_low(metric[row]) ? b / a : a / b
        }
    }
    return values("ratio", who, "ratio") > 0 ? median : 0
}

# reached(ROW): "ok", "below", or "" if it cannot be said; says in `goal_text` what the goal is
function reached(row,    part, count, each, against, value, is, its)
{
    goal_text = ""
    if (goal[row] == "")
        return ""
    count = split(goal[row], part, " ")
    each = part[1] == "each"
    if (each) {
        part[1] = part[2]
        part[2] = part[3]
        count--
    }
    against = count == 4 ? part[4] : ""
    goal_text = (part[1] == ">=" ? "≥" : part[1] == "<=" ? "≤" : part[1]) " " \
        (against == "" ? number(part[2]) : part[2] " × " (against in our_system ? title_of(against) : name_of(against))) \
        (each ? ", every round" : "")
    if (values(work[row], ours[row], metric[row]) == 0)
        return ""
    if (against == "") {
        is = each ? (is_better_low(metric[row]) ? high : low) : median
        value = part[2]
    } else {
        its = against in our_system
        is = ratio_to(row, its ? against : work[row], its ? our_system[against] : against)
        if (is == 0)
            return ""
        # Of what should be low the ratio is the other way round.
        return (is_better_low(metric[row]) ? is >= 1 / part[2] : is >= part[2]) ? "ok" : "below"
    }
    return (part[1] == ">=" ? is >= value : part[1] == "<=" ? is <= value : is < value) ? "ok" : "below"
}

function title_of(its_work,    i)
{
    for (i = 1; i <= row; i++)
        if (work[i] == its_work)
            return title[i]
    return its_work
}

# number(X): 1234567 as 1,234,567 and 0.1234 as 0.123
function number(x,    text, head)
{
    if (x < 100 && x != int(x))
        return sprintf(x < 10 ? (x < 1 ? "%.3f" : "%.2f") : "%.1f", x)
    text = sprintf("%.0f", x)
    head = ""
    while (length(text) > 3) {
        head = "," substr(text, length(text) - 2) head
        text = substr(text, 1, length(text) - 3)
    }
    return text head
}

# spread(WORK, SYSTEM, METRIC): "median (low–high)", or "–"
function spread(its, who, metric)
{
    if (values(its, who, metric) == 0)
        return "–"
    return number(median) (rounds > 1 ? " (" number(low) "–" number(high) ")" : "")
}

function is_busy(    list, count, i)
{
    count = split(fact["others, percent of the machine"], list, ", ")
    for (i = 1; i <= count; i++)
        if (list[i] > 10)
            return 1
    return 0
}
