/*
 * outbox.c - an order and its event in one transaction of the application's own database.
 *
 * The usual trouble: the row is committed and the program dies before it has published the event;
 * or it publishes and then the row is rolled back. Here the event is a row of the same transaction,
 * so there is nothing to keep in step: no outbox table of your own, and no relay that empties it.
 *
 * Two orders are placed. The first is committed. The second turns out to be worth more than the
 * customer may spend, after its event was published, and is rolled back: its event never existed.
 */
#include "temp.h"
#include <holdfast.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#define CREDIT 1000

/* Prints why and ends the program: an example need not go on. */
static void check(hf_status status, const char *doing)
{
    if (status != HF_OK) {
        fprintf(stderr, "outbox: %s: %s (%s)\n", doing, hf_errmsg(), hf_status_name(status));
        exit(1);
    }
}

static void check_sqlite(int code, sqlite3 *db, const char *doing)
{
    if (code != SQLITE_OK) {
        fprintf(stderr, "outbox: %s: %s\n", doing, sqlite3_errmsg(db));
        exit(1);
    }
}

/* Places an order: the row and its event, both or neither. Answers whether it was placed. */
static int place_order(hf_bus *bus, sqlite3 *db, const char *customer, int amount)
{
    check(hf_sqlite_begin(bus, db), "begin");

    char *sql =
        sqlite3_mprintf("INSERT INTO orders (customer, amount) VALUES (%Q, %d)", customer, amount);
    check_sqlite(sqlite3_exec(db, sql, NULL, NULL, NULL), db, "insert the order");
    sqlite3_free(sql);

    char payload[128];
    char key[32];
    snprintf(payload, sizeof payload, "{\"order\": %lld, \"amount\": %d}",
             (long long)sqlite3_last_insert_rowid(db), amount);
    snprintf(key, sizeof key, "order-%lld", (long long)sqlite3_last_insert_rowid(db));
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "order.placed";
    event.key = key;
    event.payload = payload;
    hf_receipt receipt;
    check(hf_sqlite_publish(bus, db, &event, &receipt), "publish");
    printf("%s orders for %d: row and event %s are written\n", customer, amount, event.type);

    if (amount > CREDIT) {
        check(hf_sqlite_rollback(bus, db), "roll back");
        printf("  ... more than the credit of %d: rolled back, both are gone\n", CREDIT);
        return 0;
    }
    check(hf_sqlite_commit(bus, db), "commit");
    printf("  ... committed at position %" PRId64 "\n", receipt.position);
    return 1;
}

/* What the rest of the application hears. */
struct heard {
    int count;
    char last[128];
};

static hf_verdict ship(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    struct heard *heard = ctx;
    heard->count++;
    snprintf(heard->last, sizeof heard->last, "%s", event->payload);
    printf("shipping hears %s: %s\n", event->type, event->payload);
    return HF_ACK;
}

static int count_orders(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    check_sqlite(sqlite3_prepare_v2(db, "SELECT count(*) FROM orders", -1, &stmt, NULL), db,
                 "count the orders");
    sqlite3_step(stmt);
    int count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return count;
}

int main(int argc, char **argv)
{
    const char *path = temp_database(argc, argv);
    hf_bus *bus = NULL;
    check(hf_open(path, NULL, &bus), "open");

    /* The application's own connection to the same file, which the bus has put into WAL mode. While
     * a bus is open all that writes goes through hf_sqlite_begin (docs/embedding.md says why). */
    sqlite3 *db = NULL;
    check_sqlite(sqlite3_open(path, &db), db, "open");
    check(hf_sqlite_begin(bus, db), "begin");
    check_sqlite(sqlite3_exec(db,
                              "CREATE TABLE IF NOT EXISTS orders "
                              "(id INTEGER PRIMARY KEY, customer TEXT, amount INTEGER)",
                              NULL, NULL, NULL),
                 db, "create the table");
    check(hf_sqlite_commit(bus, db), "commit");
    int orders_before = count_orders(db);

    struct heard heard = {0};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_NOW;
    check(hf_subscribe(bus, "shipping", "order.placed", ship, &heard, &options, NULL), "subscribe");
    check(hf_start(bus), "start");

    int placed = place_order(bus, db, "Ada", 250);
    placed += place_order(bus, db, "Bob", 5000);
    check(hf_wait(bus, "shipping", -1, 10000), "wait");

    /* A connection that was never begun with hf_sqlite_begin is refused, not half believed. */
    hf_new_event stray = HF_NEW_EVENT_INIT;
    stray.type = "order.placed";
    hf_status refused = hf_sqlite_publish(bus, db, &stray, NULL);

    int orders = count_orders(db) - orders_before;
    check(hf_close(&bus), "close");
    sqlite3_close(db);
    printf("orders in the table: %d, events delivered: %d\n", orders, heard.count);
    return placed == 1 && orders == 1 && heard.count == 1 && strstr(heard.last, "250") &&
                   refused == HF_MISUSE
               ? 0
               : 1;
}
