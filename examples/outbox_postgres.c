/*
 * outbox_postgres.c - an order, its event and what is made of it, in transactions of PostgreSQL.
 *
 *     outbox_postgres postgres://user@host/database
 *
 * On the way in: an order is a row of the application, written on its own PGconn. The event is
 * published in the same transaction, so both exist or neither. One order is more than the customer
 * may spend, and is rolled back after its event was published: the event never existed.
 *
 * On the way out: a transactional handler keeps the revenue of each customer in a table, on the
 * connection that it is handed. The row and the fact that the event is done are one transaction.
 * The first attempt at each event fails after it has written its row; counting twice would show.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREDIT 1000

/* Prints why and ends the program: an example need not go on. */
static void check(hf_status status, const char *doing)
{
    if (status != HF_OK) {
        fprintf(stderr, "outbox_postgres: %s: %s (%s)\n", doing, hf_errmsg(),
                hf_status_name(status));
        exit(1);
    }
}

/* Runs a statement with up to two texts as parameters; the first value of its first row. */
static long long run(PGconn *pg, const char *sql, const char *first, const char *second)
{
    const char *values[2] = {first, second};
    int count = second ? 2 : first ? 1 : 0;
    PGresult *result = PQexecParams(pg, sql, count, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fprintf(stderr, "outbox_postgres: %s: %s", sql, PQerrorMessage(pg));
        exit(1);
    }
    long long value = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return value;
}

/* ---- On the way in --------------------------------------------------------------------------- */

/* Places an order: the row and its event, both or neither. Answers whether it was placed. */
static int place_order(hf_bus *bus, PGconn *pg, const char *customer, int amount)
{
    char text[32];
    char payload[128];
    snprintf(text, sizeof text, "%d", amount);
    run(pg, "BEGIN", NULL, NULL);
    long long id = run(pg,
                       "INSERT INTO shop_orders (customer, amount) VALUES ($1, $2::integer) "
                       "RETURNING id",
                       customer, text);

    snprintf(payload, sizeof payload, "{\"order\": %lld, \"amount\": %d}", id, amount);
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "order.placed";
    event.key = customer;
    event.payload = payload;
    hf_receipt receipt;
    check(hf_postgres_publish(bus, pg, &event, &receipt), "publish");
    printf("%s orders for %d: row and event %s are written\n", customer, amount, event.type);

    if (amount > CREDIT) {
        run(pg, "ROLLBACK", NULL, NULL);
        printf("  ... more than the credit of %d: rolled back, both are gone\n", CREDIT);
        return 0;
    }
    run(pg, "COMMIT", NULL, NULL); /* or hf_postgres_commit, which knows HF_UNKNOWN */
    printf("  ... committed at position %" PRId64 "\n", receipt.position);
    return 1;
}

/* ---- On the way out -------------------------------------------------------------------------- */

/* Adds the order's amount to the customer's revenue. */
static hf_verdict add_revenue(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    int *runs = ctx;
    PGconn *pg = hf_delivery_postgres(delivery);
    const char *values[2] = {event->key, event->payload};
    PGresult *result =
        PQexecParams(pg,
                     "INSERT INTO shop_revenue AS r VALUES ($1, ($2::json ->> 'amount')::int) "
                     "ON CONFLICT (customer) DO UPDATE SET amount = r.amount + excluded.amount",
                     2, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    ++*runs;
    if (status != PGRES_COMMAND_OK) {
        hf_delivery_error(delivery, "cannot add the revenue: %s", PQerrorMessage(pg));
        return HF_RETRY; /* a deadlock or a lost connection does not even count as an attempt */
    }
    if (hf_delivery_attempt(delivery) == 1) {
        hf_delivery_error(delivery, "a bad day: the row was written, and then this");
        return HF_RETRY; /* the row goes with it */
    }
    return HF_ACK;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: outbox_postgres postgres://user@host/database\n");
        return 2;
    }
    hf_bus *bus = NULL;
    check(hf_open(argv[1], NULL, &bus), "open");
    PGconn *pg = PQconnectdb(argv[1]);
    if (PQstatus(pg) != CONNECTION_OK) {
        fprintf(stderr, "outbox_postgres: %s", PQerrorMessage(pg));
        return 1;
    }
    run(pg, "SET client_min_messages = warning", NULL, NULL);
    run(pg, "CREATE TABLE IF NOT EXISTS shop_orders (id serial, customer text, amount integer)",
        NULL, NULL);
    run(pg, "CREATE TABLE IF NOT EXISTS shop_revenue (customer text PRIMARY KEY, amount integer)",
        NULL, NULL);
    long long orders = run(pg, "SELECT count(*) FROM shop_orders", NULL, NULL);
    long long revenue = run(pg, "SELECT coalesce(sum(amount), 0) FROM shop_revenue", NULL, NULL);

    int runs = 0;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_NOW;
    options.transactional = HF_ON;
    options.retry_base_ms = 50;
    check(hf_subscribe(bus, "revenue", "order.placed", add_revenue, &runs, &options, NULL),
          "subscribe");
    check(hf_start(bus), "start");
    int placed = place_order(bus, pg, "Ada", 250);
    placed += place_order(bus, pg, "Bob", 5000);
    placed += place_order(bus, pg, "Ada", 100);
    check(hf_wait(bus, "revenue", -1, 30000), "wait");

    orders = run(pg, "SELECT count(*) FROM shop_orders", NULL, NULL) - orders;
    revenue = run(pg, "SELECT coalesce(sum(amount), 0) FROM shop_revenue", NULL, NULL) - revenue;
    check(hf_close(&bus), "close");
    PQfinish(pg);
    printf("orders in the table: %lld, revenue: %lld; the handler ran %d times\n", orders, revenue,
           runs);
    return placed == 2 && orders == 2 && revenue == 350 && runs > 2 ? 0 : 1;
}
