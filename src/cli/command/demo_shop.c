/*
 * demo_shop.c - events and handlers of the demo.
 *
 * The customer's number is the digit at the end of the key ("customer-3"). `ledger` checks that the
 * positions it sees of one customer only rise: the promise of an ordered subscription. `mailer`
 * cannot send to the order that has the wrong address until `repaired` is set.
 */
#include "cli/command/demo_shop.h"

#include "base/banned.h"
#include "cli/core/cli.h"
#include "cli/terminal/out.h"

#define SHOP_ORDERS (SHOP_CUSTOMERS * SHOP_ORDERS_EACH)
#define WRONG_ORDER 17 /* the order whose address is wrong */

static hf_verdict book(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct shop *shop = ctx;
    size_t customer = (size_t)(event->key[strlen(event->key) - 1] - '1') % SHOP_CUSTOMERS;
    int64_t before = atomic_exchange(&shop->last_seen[customer], event->position);

    (void)delivery;
    if (before >= event->position) {
        atomic_fetch_add(&shop->disorder, 1);
    }
    atomic_fetch_add(&shop->booked, 1);
    return HF_ACK;
}

static hf_verdict mail(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct shop *shop = ctx;
    char wrong[32];

    snprintf(wrong, sizeof wrong, "\"order\":%d,", WRONG_ORDER);
    if (strstr(event->payload, wrong)) {
        if (!atomic_load(&shop->repaired)) {
            atomic_fetch_add(&shop->failures, 1);
            hf_delivery_error(delivery, "550 no such mailbox (try %d)",
                              hf_delivery_attempt(delivery));
            return HF_RETRY;
        }
        atomic_store(&shop->last_attempt, hf_delivery_attempt(delivery));
    }
    atomic_fetch_add(&shop->mailed, 1);
    return HF_ACK;
}

int shop_subscribe(struct shop *shop)
{
    hf_subscription_options ledger = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_subscription_options mailer = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_status status;

    ledger.from = (hf_place){HF_PLACE_START, -1};
    ledger.mode = HF_MODE_ORDERED;
    ledger.concurrency = 4;
    mailer.from = (hf_place){HF_PLACE_START, -1};
    mailer.mode = HF_MODE_SHARED;
    mailer.concurrency = SHOP_MAILERS;
    mailer.batch = 10;
    mailer.attempts_max = SHOP_ATTEMPTS;
    mailer.retry_base_ms = shop->quick ? 100 : 700;
    status = hf_subscribe(shop->bus, "ledger", "order.*", book, shop, &ledger, NULL);
    if (!status) {
        status = hf_subscribe(shop->bus, "mailer", "order.placed", mail, shop, &mailer, NULL);
    }
    return cli_fail(status);
}

static hf_status publish_one(struct shop *shop, int order, const char *type, hf_receipt *receipt)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    int customer = order % SHOP_CUSTOMERS + 1;
    char key[32];
    char payload[160];

    snprintf(key, sizeof key, "customer-%d", customer);
    snprintf(payload, sizeof payload,
             "{\"order\":%d,\"customer\":%d,\"total\":%d.%02d,\"mail\":\"c%d@example.%s\"}", order,
             customer, 10 + order * 3, order * 7 % 100, customer,
             order == WRONG_ORDER ? "invalid" : "org");
    event.type = type;
    event.key = key;
    event.payload = payload;
    return hf_publish(shop->bus, &event, receipt);
}

int shop_publish(struct shop *shop, hf_receipt *ret_first, hf_receipt *ret_again)
{
    static const char *const types[] = {"order.placed", "order.paid", "order.shipped"};
    hf_new_event repeat = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    hf_status status = HF_OK;

    for (size_t step = 0; step < 3; step++) {
        for (int order = 1; order <= SHOP_ORDERS && !status; order++) {
            status = publish_one(shop, order, types[step], &receipt);
            if (!status && shop->published++ == 0) {
                *ret_first = receipt;
                shop->first_position = receipt.position;
            }
            shop->last_position = receipt.position;
            shop->orders += !status && step == 0;
        }
    }
    if (status) {
        return cli_fail(status);
    }
    repeat.type = types[0];
    repeat.payload = "{}";
    repeat.id = ret_first->id;
    return cli_fail(hf_publish(shop->bus, &repeat, ret_again));
}

/* One line per failed attempt, as it happens. */
static void tell_failure(const hf_log_record *record, void *ctx)
{
    const struct shop *shop = ctx;
    char words[OUT_WORDS_BYTES];
    char line[512];

    if (shop->json || !record->error || record->attempt < 0) {
        return;
    }
    if (record->delay_ms >= 0) {
        snprintf(line, sizeof line, "  attempt %" PRId32 " of %" PRId32 ": %.200s; again in %s\n",
                 record->attempt, record->attempts_max, record->error,
                 out_duration(record->delay_ms, words));
    } else {
        snprintf(line, sizeof line, "  attempt %" PRId32 " of %" PRId32 ": %.200s; given up\n",
                 record->attempt, record->attempts_max, record->error);
    }
    out_write(STDOUT_FILENO, line, strlen(line));
}

void shop_log(struct shop *shop, hf_options *options)
{
    options->log = tell_failure;
    options->log_ctx = shop;
}
