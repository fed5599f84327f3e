# The table of bench/peers/run, as text or (-v markdown=1) for a document. See figures.awk.

# others_of(ROW, METRIC, LIST): what the systems of a list reached, one after the other
function others_of(row, metric, list,    names, count, i, text, why)
{
    count = split(list, names, " ")
    for (i = 1; i <= count; i++)
        if (values(work[row], names[i], metric) > 0) {
            text = text (text == "" ? "" : "; ") name_of(names[i]) " " spread(work[row], names[i], metric)
        }
    return text
}

# title_in(ROW): with the unit of its figures, where it is not events per second
function title_in(row)
{
    return title[row] (metric[row] == "us" ? ", µs per event" : "")
}

# verdict_of(ROW): what is to be said of a line: whether its goal is reached, and who is faster
function verdict_of(row, best, ratio,    text)
{
    text = reached(row)
    if (text == "" && goal[row] != "" && values(work[row], ours[row], metric[row]) > 0)
        text = "not measured"
    if (best != "" && ratio > 0 && ratio < 1)
        text = text (text == "" ? "" : "; ") name_of(best) " is faster"
    return text ~ /^(ok|not measured)$/ ? text : markdown && text != "" ? "**" text "**" : text
}

function heading(text)
{
    if (markdown)
        printf "\n%s\n\n", text
    else
        printf "\n%s\n", text
}

function main_table(    i, best, ratio, goal_is, line, all)
{
    if (markdown) {
        print "| work | Holdfast | peers | best peer: ratio | goal | |"
        print "|---|---|---|---|---|---|"
    } else
        printf "%-44s %-32s %-40s %6s  %s\n", "WORK", "HOLDFAST", "BEST PEER", "RATIO", "GOAL"
    for (i = 1; i <= row; i++) {
        best = best_of(i)
        ratio = best == "" ? 0 : ratio_to(i, work[i], best)
        reached(i)
        goal_is = goal_text
        all = others_of(i, metric[i], peers[i])
        line = others_of(i, metric[i], bare[i])
        if (markdown) {
            printf "| %s: %s | %s | %s | %s | %s | %s |\n", section[i], title_in(i),
                spread(work[i], ours[i], metric[i]), all (line == "" ? "" : (all == "" ? "" : "; ") "*" line "*"),
                best == "" ? "" : name_of(best) ": " sprintf("%.2f", ratio), goal_is, verdict_of(i, best, ratio)
            continue
        }
        if (section[i] != section[i - 1])
            print section[i]
        pad("  " title_in(i), 44)
        pad(spread(work[i], ours[i], metric[i]), 32)
        pad(best == "" ? "" : name_of(best) " " spread(work[i], best, metric[i]), 40)
        printf "%6s  %s\n", best == "" ? "" : sprintf("%.2f", ratio),
            goal_is (goal_is == "" ? "" : ": ") verdict_of(i, best, ratio)
        sub(/^[^;]*$/, "", all) # it is the best peer
        if (all != "" || line != "")
            printf "    %s\n", all (all != "" && line != "" ? "; " : "") line
    }
}

# pad(TEXT, COLUMNS): printf counts bytes; this counts characters
function pad(text, columns,    bytes, length_now)
{
    bytes = text
    gsub(/[\200-\277]/, "", bytes)
    length_now = length(bytes)
    printf "%s%*s ", text, (columns > length_now ? columns - length_now : 0), ""
}

function cost_table(    i, seen)
{
    if (markdown) {
        print "| work | Holdfast: CPU µs | bytes | peers: CPU µs, bytes |"
        print "|---|---|---|---|"
    } else
        printf "%-60s %-10s %-10s %s\n", "WORK", "CPU µs", "BYTES", "PEERS: CPU µs, BYTES"
    for (i = 1; i <= row; i++) {
        if (section[i] !~ /publish$|consume$/ || values(work[i], ours[i], "cpu") == 0)
            continue
        if (markdown)
            printf "| %s: %s | %s | %s | %s |\n", section[i], title[i], middle(i, ours[i], "cpu"),
                middle(i, ours[i], "bytes"), costs_of(i, peers[i] " " bare[i])
        else {
            pad(section[i] ": " title[i], 60)
            pad(middle(i, ours[i], "cpu"), 10)
            pad(middle(i, ours[i], "bytes"), 10)
            print costs_of(i, peers[i] " " bare[i])
        }
    }
}

function middle(row, who, metric)
{
    return values(work[row], who, metric) > 0 ? number(median) : "–"
}

function costs_of(row, list,    names, count, i, text)
{
    count = split(list, names, " ")
    for (i = 1; i <= count; i++)
        if (values(work[row], names[i], "cpu") > 0)
            text = text (text == "" ? "" : "; ") name_of(names[i]) " " middle(row, names[i], "cpu") \
                ", " middle(row, names[i], "bytes")
    return text
}

function notes(    i, text)
{
    heading("Absent:")
    for (i = 1; i <= absents; i++)
        printf "%s%s%s: %s\n", markdown ? "- " : "  ", name_of(absent_system[i]),
            absent_work[i] == "*" ? "" : " (" absent_work[i] ")", reason[absent_work[i], absent_system[i]]
    if (absents == 0)
        print (markdown ? "" : "  ") "nothing"
    heading("Measured with:")
    for (i = 1; i <= facts; i++)
        printf "%s%s: %s\n", markdown ? "- " : "  ", name_of(fact_names[i]), fact[fact_names[i]]
}

END {
    if (is_busy())
        print (markdown ? "**" : "") "Taken on a busy machine: only the ratios mean something." \
            (markdown ? "**" : "") (markdown ? "\n" : "")
    main_table()
    heading(markdown ? "What an event costs: CPU microseconds, which are CPU seconds per million events,\n" \
        "of the client and of the server, and bytes that are written." : "What an event costs")
    cost_table()
    notes()
}
