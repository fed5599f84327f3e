# exposition.awk: reads the text format of Prometheus and prints what is wrong with it.
#
# HELP and TYPE stand before the samples of each metric, those of a metric stand together, no sample
# is there twice, counters end in _total, labels are those that may be, and the buckets of a
# histogram rise up to its count.
function wrong(text) { print FNR ": " text ": " $0 }
function base(name) {
    if (type[name] == "" && sub(/_(bucket|sum|count)$/, "", name) && type[name] == "histogram")
        return name
    return name
}
/^# HELP / { help[$3] = 1; if (NF < 5) wrong("HELP says nothing"); next }
/^# TYPE / {
    if (!help[$3]) wrong("TYPE without HELP")
    if ($3 in type) wrong("TYPE is there twice")
    if ($4 !~ /^(counter|gauge|histogram)$/) wrong("no type")
    if (($4 == "counter") != ($3 ~ /_total$/))
        wrong("the names of counters, and no others, end in _total")
    type[$3] = $4
    present = $3
    next
}
/^#/ { wrong("neither HELP nor TYPE"); next }
{
    if (!match($0, /^[a-z_]+/)) { wrong("no name"); next }
    name = substr($0, 1, RLENGTH)
    rest = substr($0, RLENGTH + 1)
    if (base(name) != present) wrong("not below its TYPE")
    labels = ""
    le = ""
    if (rest ~ /^\{/) {
        rest = substr(rest, 2)
        while (match(rest, /^[a-z]+="([^"\\\n]|\\\\|\\"|\\n)*",?/)) {
            label = substr(rest, 1, RLENGTH)
            rest = substr(rest, RLENGTH + 1)
            key = label
            sub(/=.*/, "", key)
            if (key !~ /^(namespace|subscription|result|reason|state|code|le|version|engine)$/)
                wrong("a label that may not be")
            if (key == "le") { le = label; gsub(/^le="|",?$/, "", le) }
            else labels = labels label
        }
        if (rest !~ /^\} /) { wrong("labels that cannot be read"); next }
        rest = substr(rest, 2)
    }
    if (rest !~ /^ -?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?$/) wrong("no value")
    if (rest + 0 == -1) wrong("-1 is no sample")
    if (seen[name, labels, le]++) wrong("is there twice")
    if (type[present] != "histogram") next
    sub(/,$/, "", labels)
    if (name ~ /_bucket$/) {
        if (rest + 0 < last[labels, present]) wrong("a bucket falls")
        last[labels, present] = rest + 0
        end[labels, present] = le
    } else if (name ~ /_count$/) {
        if (end[labels, present] != "+Inf") wrong("the last bucket has a bound")
        if (rest + 0 != last[labels, present]) wrong("the count is not that of the last bucket")
    }
}
