/*
 * assign.c - the fixed partitions of `work`: --partition and --total-partitions, or partition
 * and total_partitions of a file.
 *
 * What cannot be is refused before anything is stored, so that a mistake leaves neither a new
 * subscription nor other options behind. A file was checked by itself already (check.c);
 * here it is beside the command line and what is stored. What is stored in between is found
 * by hf_assign.
 *
 * The number of partitions of a subscription that exists changes only when all are equally far, so
 * there can be two: the one that it has, and the one that is requested. An assignment may be for
 * either.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/ranges.h"
#include "cli/core/args_value.h"
#include "cli/terminal/out.h"
#include "cli/work/work.h"

#include <stdarg.h>

#define REASON_BYTES 512

/* Tells a mistake in the words of who made it: a place in the file, or the usage. */
__attribute__((format(printf, 3, 4))) static int
refuse(const struct work *work, const struct work_item *item, const char *format, ...)
{
    char reason[REASON_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (!work->file) {
        return args_usage(&work->cli->args, "subscription %s, --partition: %s", item->name, reason);
    }
    out_complain("%s:%d: subscription %s, partition: %s", work->file, item->line, item->name,
                 reason);
    return EXIT_USAGE;
}

/* Tells what failed; 0, or the exit code. */
static int tell(const struct work *work, const struct work_item *item, hf_status status)
{
    if (!status || !work->file) {
        return cli_fail(status);
    }
    out_complain("%s:%d: subscription %s: %s", work->file, item->line, item->name, hf_errmsg());
    return cli_exit_code(status);
}

/* How many partitions it will have in the end. */
static int32_t partitions_of(const struct work_item *item)
{
    if (item->options.partitions != -1) {
        return item->options.partitions;
    }
    return item->stored.exists ? item->stored.options.partitions : 1;
}

static int32_t total_of(const struct work_item *item)
{
    return item->total == -1 ? partitions_of(item) : item->total;
}

/* One that is requested already, and not had yet, is not known here: hf_assign knows. */
static bool fits_number(const struct work_item *item)
{
    return total_of(item) == partitions_of(item) ||
           (item->stored.exists &&
            (item->options.partitions == -1 || item->total == item->stored.options.partitions));
}

int work_assign_check(const struct work *work, const struct work_item *item)
{
    const hf_subscription_options *stored = &item->stored.options;
    hf_mode mode = item->options.mode;
    hf_instance_mode instances = item->options.instance_mode;
    struct ranges ranges;

    if (!item->assigned && item->total == -1) {
        return EXIT_OK;
    }
    if (!item->assigned) {
        return refuse(work, item,
                      "it is missing, and the total is nothing by itself: say which of "
                      "the %d",
                      item->total);
    }
    if (mode == HF_MODE_DEFAULT && item->stored.exists) {
        mode = stored->mode;
    }
    if (instances == HF_INSTANCE_DEFAULT && item->stored.exists) {
        instances = stored->instance_mode;
    }
    if (mode == HF_MODE_SHARED) {
        return refuse(work, item, "it is shared, and has no partitions to assign");
    }
    if (instances == HF_INSTANCE_SINGLE) {
        return refuse(work, item,
                      "its instance mode is single: the newest process takes all "
                      "partitions, so none can be assigned");
    }
    if (item->assigned[0] == '\0') {
        return refuse(work, item, "the list is empty");
    }
    if (ranges_parse(text_of(item->assigned), total_of(item), &ranges) != HF_OK) {
        return refuse(work, item, "%s", err_message());
    }
    if (!fits_number(item)) {
        return tell(work, item,
                    fail(HF_CONFLICT, "%s has %d partitions, and the assignment is for %d",
                         item->name, partitions_of(item), item->total));
    }
    return EXIT_OK;
}

int work_assign(const struct work *work, const struct work_item *item)
{
    int32_t total = total_of(item);
    int32_t partitions[HF_PARTITIONS_MAX];
    size_t count = 0;
    struct ranges ranges;
    hf_status status;

    if (!item->assigned) {
        return EXIT_OK;
    }
    status = ranges_parse(text_of(item->assigned), total, &ranges);
    for (int32_t i = 0; i < total && !status; i++) {
        if (ranges_has(&ranges, i)) {
            partitions[count++] = i;
        }
    }
    if (!status) {
        status = hf_assign(work->cli->bus, item->name, partitions, count, total);
    }
    return tell(work, item, status);
}
