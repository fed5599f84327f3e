/*
 * retries.c - deliveries that wait for their next attempt, and what is held behind them.
 */
#include "base/banned.h"
#include "server/api/api.h"

#define CURSOR_BYTES 64

struct retries {
    struct list list;
    char next[CURSOR_BYTES]; /* behind the last one */
};

static int list_retry(const hf_retry_info *info, void *ctx)
{
    struct retries *retries = ctx;

    snprintf(retries->next, sizeof retries->next, "%s", info->cursor);
    show_retry(list_item(&retries->list), info);
    list_item_end(&retries->list);
    return 0;
}

void retries_list(struct exchange *exchange)
{
    struct retries retries = {.next = ""};
    hf_retry_filter filter = HF_RETRY_FILTER_INIT;
    hf_status status;

    filter.after = exchange_query(exchange, "after");
    if (!exchange_query_number(exchange, "behind", 0, INT64_MAX, &filter.behind) ||
        !list_begin(&retries.list, exchange)) {
        return;
    }
    filter.limit = (int32_t)retries.list.limit;
    status = hf_retry_list(exchange->bus, exchange_param(exchange, "name"), &filter, list_retry,
                           &retries);
    list_end(&retries.list, status, retries.list.count == retries.list.limit ? retries.next : NULL);
}
