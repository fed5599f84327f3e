/*
 * demo_shop.h - the little shop that the demo runs: its events, its handlers, and what they saw.
 */
#ifndef HF_CLI_COMMAND_DEMO_SHOP_H
#define HF_CLI_COMMAND_DEMO_SHOP_H

#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHOP_CUSTOMERS 5
#define SHOP_ORDERS_EACH 8 /* of each customer: placed, paid, shipped */
#define SHOP_MAILERS 3     /* handlers of `mailer` at once */
#define SHOP_ATTEMPTS 3    /* before a letter is dead */

struct shop {
    hf_bus *bus;
    bool json;
    bool quick;
    int64_t published;
    int64_t orders; /* events of type order.placed */
    int64_t first_position;
    int64_t last_position;
    int64_t dead_id;
    int32_t dead_attempts;
    atomic_int_fast64_t booked;   /* by ledger */
    atomic_int_fast64_t disorder; /* events of a customer that came before an earlier one */
    atomic_int_fast64_t mailed;   /* by mailer */
    atomic_int_fast64_t failures;
    atomic_int last_attempt; /* the attempt at which the repaired letter was sent */
    atomic_bool repaired;
    _Atomic int64_t last_seen[SHOP_CUSTOMERS]; /* position; per customer, by ledger */
};

/* Makes the bus tell failed attempts of the mailer on stdout. */
void shop_log(struct shop *shop, hf_options *options);

/* Registers both handlers. 0, or the exit code after the complaint. */
int shop_subscribe(struct shop *shop);

/* Publishes all events, then the first one again. */
int shop_publish(struct shop *shop, hf_receipt *ret_first, hf_receipt *ret_again);

#endif
