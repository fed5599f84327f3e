# Charts of what bench/peers/run has measured, as SVG files in `folder`. See figures.awk.
#
# A line of the table is a group of bars, Holdfast's first; each group has a scale of its own that
# begins at 0, because what is compared is within a group. A thin line across the end of a bar goes
# from the lowest to the highest round. Colours follow what the reader prefers, light or dark.

BEGIN {
    WIDTH = 760
    LEFT = 190   # where bars begin
    RIGHT = 150  # room for figures
    BAR = 13
    GAP = 4
}

function escape(text)
{
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}

function say(text) { print text >path }

# systems_of(ROW, METRIC): fills `shown` with the systems that have figures; how many
function systems_of(row, metric,    names, count, i, found)
{
    count = split(ours[row] " " peers[row] " " bare[row], names, " ")
    for (i = 1; i <= count; i++)
        if (values(work[row], names[i], metric) > 0)
            shown[++found] = names[i]
    return found + 0
}

function head_of(height, title)
{
    say("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" WIDTH "\" height=\"" height \
        "\" viewBox=\"0 0 " WIDTH " " height "\" role=\"img\">")
    say("<title>" escape(title) "</title>")
    say("<style>")
    say("  text { font: 12px system-ui, sans-serif; fill: #1f2937 }")
    say("  .title { font-size: 15px; font-weight: 600 } .group { font-weight: 600 }")
    say("  .note { fill: #6b7280 } .paper { fill: #ffffff } .range { stroke: #111827 }")
    say("  .ours { fill: #2563eb } .peer { fill: #9ca3af } .bare { fill: #e5e7eb }")
    say("  @media (prefers-color-scheme: dark) {")
    say("    text { fill: #e5e7eb } .note { fill: #9ca3af } .paper { fill: #111827 }")
    say("    .range { stroke: #f9fafb } .ours { fill: #60a5fa } .peer { fill: #6b7280 }")
    say("    .bare { fill: #374151 }")
    say("  }")
    say("</style>")
    say("<rect class=\"paper\" width=\"" WIDTH "\" height=\"" height "\" rx=\"6\"/>")
}

function text_at(x, y, class, text, anchor)
{
    say("<text x=\"" x "\" y=\"" y "\"" (class == "" ? "" : " class=\"" class "\"") \
        (anchor == "" ? "" : " text-anchor=\"" anchor "\"") ">" escape(text) "</text>")
}

# bars(ROW, METRIC, Y): a group of bars below this height; where it ends
function bars(row, metric, y,    count, i, most, scale, kind, wide)
{
    text_at(16, y + 12, "group", section[row] ": " title[row])
    y += 20
    count = systems_of(row, metric)
    most = 0
    for (i = 1; i <= count; i++)
        if (values(work[row], shown[i], metric) > 0 && high > most)
            most = high
    scale = most > 0 ? (WIDTH - LEFT - RIGHT) / most : 0
    for (i = 1; i <= count; i++) {
        values(work[row], shown[i], metric)
        kind = shown[i] == ours[row] ? "ours" : index(" " bare[row] " ", " " shown[i] " ") ? "bare" : "peer"
        wide = median * scale > 1 ? median * scale : 1
        text_at(LEFT - 8, y + BAR - 2, "", kind == "ours" ? "Holdfast" : name_of(shown[i]), "end")
        say(sprintf("<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>",
            kind, LEFT, y, wide, BAR))
        if (high > low)
            say(sprintf("<path class=\"range\" d=\"M%.1f %.1fH%.1f\"/>", LEFT + low * scale,
                y + BAR / 2, LEFT + high * scale))
        text_at(sprintf("%.0f", LEFT + high * scale + 8), y + BAR - 2, kind == "ours" ? "group" : "",
            number(median))
        y += BAR + GAP
    }
    return y + 10
}

# chart(FILE, TITLE, NOTE, SECTIONS, METRIC): one file. SECTIONS is a pattern; METRIC "" is that of
# each line. Nothing is written if there is nothing to show.
function chart(file, title_is, note, sections, only_metric,    i, y, height, chosen, count, metric_is)
{
    height = 62
    for (i = 1; i <= row; i++) {
        metric_is = only_metric == "" ? metric[i] : only_metric
        chosen[i] = section[i] ~ sections && systems_of(i, metric_is) > 1
        if (chosen[i]) {
            height += 30 + systems_of(i, metric_is) * (BAR + GAP)
            count++
        }
    }
    if (count == 0)
        return
    path = folder "/" file
    head_of(height, title_is)
    text_at(16, 26, "title", title_is)
    text_at(16, 44, "note", note)
    y = 56
    for (i = 1; i <= row; i++)
        if (chosen[i])
            y = bars(i, only_metric == "" ? metric[i] : only_metric, y)
    say("</svg>")
    close(path)
}

END {
    where = "all synced to disk before they are acknowledged; " fact["processors"] ", " fact["filesystem"] \
        ", " fact["date"] (is_busy() ? "; on a busy machine" : "")
    chart("bench-publish.svg", "Publishing, events per second", where, "publish$", "rate")
    chart("bench-consume.svg", "Consuming a backlog, events per second", where, "consume$", "rate")
    chart("bench-latency.svg", "From publishing to handling, and publishing beside followers, ms",
        "less is better; " where, "^end to end|^one publish", "")
    chart("bench-cost.svg", "CPU microseconds per event, of client and server",
        "less is better; " where, "publish$|consume$", "cpu")
}
