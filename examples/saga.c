/*
 * saga.c - one business process over several steps, each undone by the next if it has to be.
 *
 *     order.placed ---> stock: enough? ---> stock.reserved ---> payment: does the card pay?
 *                            |                                      |           |
 *                            no                                     yes         no
 *                            v                                      v           v
 *                       stock.refused                         payment.taken  payment.failed
 *                            |                                      |           |
 *                            v                                      v           v
 *                       order refused                     order confirmed   stock: put it back,
 *                                                                           order.cancelled
 *
 * Every step is a transactional handler: what it changes and the event it publishes are committed
 * together, and together with the fact that it is done. So the process never stands between two
 * steps, and no step happens twice, though there is no coordinator and no step waits for another.
 *
 * The payment of the first order fails once for no good reason, after it has published its event.
 * The attempt is undone, event and all, and made again.
 */
#include "temp.h"
#include <holdfast.h>
#include <sqlite3.h>
#include <string.h>

static void check(hf_status status, const char *doing)
{
    if (status != HF_OK) {
        fprintf(stderr, "saga: %s: %s (%s)\n", doing, hf_errmsg(), hf_status_name(status));
        exit(1);
    }
}

/* Runs one statement with the order's number as ?1. Answers its first number; -1: it failed. */
static int run(sqlite3 *db, const char *sql, const char *order)
{
    sqlite3_stmt *stmt = NULL;
    int answer = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        return -1;
    }
    sqlite3_bind_text(stmt, 1, order, -1, SQLITE_STATIC);
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        answer = sqlite3_column_int(stmt, 0);
    }
    return sqlite3_finalize(stmt) == SQLITE_OK ? answer : -1;
}

/* The next step of the same order: it joins the transaction of the handler that calls this. */
static hf_verdict next_step(hf_delivery *delivery, const hf_event *event, const char *type)
{
    hf_new_event next = HF_NEW_EVENT_INIT;
    next.type = type;
    next.key = event->key;
    if (hf_publish(hf_delivery_bus(delivery), &next, NULL) != HF_OK) {
        hf_delivery_error(delivery, "cannot publish %s: %s", type, hf_errmsg());
        return HF_RETRY;
    }
    return HF_ACK;
}

/* A statement failed: whatever this attempt has done is undone. */
static hf_verdict again(hf_delivery *delivery)
{
    hf_delivery_error(delivery, "%s", sqlite3_errmsg(hf_delivery_sqlite(delivery)));
    return HF_RETRY;
}

static hf_verdict reserve_stock(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    sqlite3 *db = hf_delivery_sqlite(delivery);
    int done = run(db,
                   "UPDATE stock SET pieces = pieces - (SELECT pieces FROM orders WHERE id = ?1)"
                   " WHERE pieces >= (SELECT pieces FROM orders WHERE id = ?1) RETURNING 1",
                   event->key);
    if (done < 0) {
        return again(delivery);
    }
    printf("order %s: stock %s\n", event->key, done ? "reserved" : "is too low");
    return next_step(delivery, event, done ? "stock.reserved" : "stock.refused");
}

static hf_verdict take_payment(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    int pays =
        run(hf_delivery_sqlite(delivery), "SELECT card_pays FROM orders WHERE id = ?1", event->key);
    if (pays < 0) {
        return again(delivery);
    }
    hf_verdict verdict = next_step(delivery, event, pays ? "payment.taken" : "payment.failed");
    if (strcmp(event->key, "1") == 0 && hf_delivery_attempt(delivery) == 1) {
        printf("order %s: the bank hung up; what was done is undone\n", event->key);
        hf_delivery_error(delivery, "the bank hung up");
        return HF_RETRY;
    }
    printf("order %s: payment %s\n", event->key, pays ? "taken" : "failed");
    return verdict;
}

/* The compensation: what reserve_stock did is undone by doing the opposite. */
static hf_verdict put_back(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    if (run(hf_delivery_sqlite(delivery),
            "UPDATE stock SET pieces = pieces + (SELECT pieces FROM orders WHERE id = ?1)",
            event->key) < 0) {
        return again(delivery);
    }
    printf("order %s: stock put back\n", event->key);
    return next_step(delivery, event, "order.cancelled");
}

static hf_verdict end_order(const hf_event *event, hf_delivery *delivery, void *state)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE orders SET state = '%s' WHERE id = ?1", (const char *)state);
    if (run(hf_delivery_sqlite(delivery), sql, event->key) < 0) {
        return again(delivery);
    }
    printf("order %s: %s\n", event->key, (const char *)state);
    return HF_ACK;
}

static void subscribe(hf_bus *bus, const char *name, const char *pattern, hf_handler_fn handler,
                      const char *state)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_NOW;
    options.transactional = HF_ON;
    options.retry_base_ms = 20;
    check(hf_subscribe(bus, name, pattern, handler, (void *)(uintptr_t)state, &options, NULL),
          "subscribe");
}

static void make_tables(hf_bus *bus, sqlite3 *db)
{
    check(hf_sqlite_begin(bus, db), "begin");
    if (sqlite3_exec(db,
                     "DROP TABLE IF EXISTS stock; DROP TABLE IF EXISTS orders;"
                     "CREATE TABLE stock (pieces INTEGER NOT NULL); INSERT INTO stock VALUES (10);"
                     "CREATE TABLE orders (id TEXT PRIMARY KEY, pieces INTEGER NOT NULL,"
                     "                     card_pays INTEGER NOT NULL, state TEXT);"
                     "INSERT INTO orders VALUES ('1', 4, 1, 'placed'), ('2', 3, 0, 'placed'),"
                     "                          ('3', 50, 1, 'placed')",
                     NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "saga: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
    check(hf_sqlite_commit(bus, db), "commit");
}

/* Until a whole round has published nothing new. */
static void wait_for_the_end(hf_bus *bus)
{
    hf_place now = {HF_PLACE_NOW, -1};
    int64_t before = -1;
    int64_t after = 0;
    while (before != after) {
        check(hf_locate(bus, now, &before), "locate");
        check(hf_wait(bus, NULL, -1, 10000), "wait");
        check(hf_locate(bus, now, &after), "locate");
    }
}

static int count_event(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int *)ctx;
    return 0;
}

/* Every type of the process must be in the log exactly this often. */
static int log_is_right(hf_bus *bus, int64_t from)
{
    static const struct {
        const char *type;
        int count;
    } wanted[] = {
        {"order.placed", 3},  {"stock.reserved", 2}, {"stock.refused", 1},
        {"payment.taken", 1}, {"payment.failed", 1}, {"order.cancelled", 1},
    };
    int right = 1;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int64_t cursor = from;
        int count = 0;
        check(hf_read(bus, wanted[i].type, 1000, 0, &cursor, count_event, &count), "read");
        right = right && count == wanted[i].count;
        printf("%s: %d\n", wanted[i].type, count);
    }
    return right;
}

int main(int argc, char **argv)
{
    const char *path = temp_database(argc, argv);
    hf_bus *bus = NULL;
    sqlite3 *db = NULL;
    int64_t from = 0;
    check(hf_open(path, NULL, &bus), "open");
    check(hf_locate(bus, (hf_place){HF_PLACE_NOW, -1}, &from), "locate");
    if (sqlite3_open(path, &db) != SQLITE_OK) {
        fprintf(stderr, "saga: %s\n", sqlite3_errmsg(db));
        return 1;
    }
    make_tables(bus, db);
    subscribe(bus, "stock", "order.placed", reserve_stock, NULL);
    subscribe(bus, "stock", "payment.failed", put_back, NULL);
    subscribe(bus, "payment", "stock.reserved", take_payment, NULL);
    subscribe(bus, "orders", "payment.taken", end_order, "confirmed");
    subscribe(bus, "orders", "order.cancelled", end_order, "cancelled");
    subscribe(bus, "orders", "stock.refused", end_order, "refused");
    check(hf_start(bus), "start");

    for (int i = 1; i <= 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = "order.placed";
        event.key = key;
        check(hf_publish(bus, &event, NULL), "publish");
    }
    wait_for_the_end(bus);
    int right = log_is_right(bus, from);
    check(hf_close(&bus), "close");

    int confirmed = run(db, "SELECT state = 'confirmed' FROM orders WHERE id = ?1", "1");
    int cancelled = run(db, "SELECT state = 'cancelled' FROM orders WHERE id = ?1", "2");
    int refused = run(db, "SELECT state = 'refused' FROM orders WHERE id = ?1", "3");
    int pieces = run(db, "SELECT pieces FROM stock WHERE ?1", "1");
    sqlite3_close(db);
    printf("10 pieces, 4 sold: %d left\n", pieces);
    return right && confirmed == 1 && cancelled == 1 && refused == 1 && pieces == 6 ? 0 : 1;
}
