/*
 * demo.c - the command `demo`: ten seconds that show what Holdfast does.
 *
 * A shop publishes orders. Subscription `ledger` (ordered) books them, each customer's in order;
 * subscription `mailer` (shared) writes letters and fails for one address until the demo repairs
 * the address book. Every number that is printed comes from the bus or from what the handlers saw;
 * if one of them is not what it should be, the demo says so and fails.
 *
 * --quick leaves out the pauses for reading and waits less before retries.
 */
#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/command/demo_shop.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/tempdir.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"
#include "cli/terminal/table.h"

#include <stdarg.h>

#define WAIT_MS 20000

/* ---- Talking --------------------------------------------------------------------------------- */

/* A sentence; nothing with --json. */
static void __attribute__((format(printf, 2, 3)))
tell(const struct shop *shop, const char *format, ...)
{
    va_list list;

    if (shop->json) {
        return;
    }
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    fflush(stdout);
}

/* Time to read; ends early with Ctrl-C. */
static void pause_for_reading(const struct shop *shop, int64_t ms)
{
    int64_t until_us = clock_mono_us() + ms * 1000;

    if (shop->quick || shop->json) {
        return;
    }
    while (!stop_requested() && clock_mono_us() < until_us) {
        stop_wait(-1, (until_us - clock_mono_us()) / 1000 + 1);
    }
}

static void heading(const struct shop *shop, const char *text)
{
    if (!shop->json) {
        printf("\n%s%s%s\n", out_on(OUT_BOLD), text, out_off());
    }
}

/* ---- The acts -------------------------------------------------------------------------------- */

static int act_publish(struct shop *shop)
{
    int64_t started_us = clock_mono_us();
    hf_receipt first;
    hf_receipt again;
    int code;

    heading(shop, "1. Publishing");
    code = shop_publish(shop, &first, &again);
    if (code) {
        return code;
    }
    tell(shop,
         "Published %" PRId64 " events of %d customers in %.1f ms: positions %" PRId64
         " to %" PRId64 ", on disk before each call returned.",
         shop->published, SHOP_CUSTOMERS, (double)(clock_mono_us() - started_us) / 1000,
         shop->first_position, shop->last_position);
    tell(shop, "Published the first one again with the same id: %s, still position %" PRId64 ".",
         again.duplicate ? "stored once" : "STORED TWICE", again.position);
    if (!again.duplicate || again.position != first.position) {
        out_complain("the repeated publish was stored twice");
        return EXIT_ERROR;
    }
    pause_for_reading(shop, 2000);
    return 0;
}

static int act_deliver(struct shop *shop)
{
    hf_status status;

    heading(shop, "2. Delivering");
    tell(shop, "Subscription ledger is ordered: one customer's events come one after another.");
    tell(shop,
         "Subscription mailer is shared: %d workers take what is there. One letter has a "
         "wrong address; its attempts, with longer and longer waits between them:",
         SHOP_MAILERS);
    pause_for_reading(shop, 1500);
    status = hf_start(shop->bus);
    if (!status) {
        status = hf_wait(shop->bus, "ledger", -1, WAIT_MS);
    }
    if (!status) {
        status = hf_wait(shop->bus, "mailer", -1, WAIT_MS);
    }
    if (status) {
        return cli_fail(status);
    }
    tell(shop, "ledger has booked %" PRId64 " events; out of order per customer: %" PRId64 ".",
         (int64_t)atomic_load(&shop->booked), (int64_t)atomic_load(&shop->disorder));
    if (atomic_load(&shop->booked) != shop->published || atomic_load(&shop->disorder) != 0) {
        out_complain("the ledger is wrong");
        return EXIT_ERROR;
    }
    return 0;
}

/* The number of the dead letter that the demo made. */
static int show_letter(const hf_dead_letter *letter, void *ctx)
{
    struct shop *shop = ctx;

    shop->dead_id = letter->dead_id;
    shop->dead_attempts = letter->attempts;
    if (shop->json) {
        return 0;
    }
    printf("  dead letter %" PRId64 " of %s: ", letter->dead_id, letter->subscription);
    out_text(letter->event.type);
    printf(" at position %" PRId64 ", reason \"%s\", payload ", letter->event.position,
           letter->reason);
    out_text_cut((struct text){letter->event.payload, letter->event.payload_bytes}, 200);
    putchar('\n');
    show_attempts(letter->attempts_json);
    return 0;
}

static int act_dead_letter(struct shop *shop)
{
    int64_t count = 0;
    hf_status status;

    heading(shop, "3. The dead letter");
    status = hf_dead_count(shop->bus, NULL, &count);
    if (!status) {
        tell(shop,
             "After %d attempts the letter was given up, and nothing else waited for it: "
             "%" PRId64 " dead letter, %" PRId64 " letters sent.",
             SHOP_ATTEMPTS, count, (int64_t)atomic_load(&shop->mailed));
    }
    if (!status) {
        status = hf_dead_list(shop->bus, NULL, show_letter, shop);
    }
    if (status) {
        return cli_fail(status);
    }
    if (count != 1) {
        out_complain("%" PRId64 " dead letters instead of 1", count);
        return EXIT_ERROR;
    }
    pause_for_reading(shop, 2500);
    return 0;
}

static int act_retry(struct shop *shop)
{
    int64_t count = 0;
    hf_status status;

    heading(shop, "4. Repairing");
    tell(shop, "The address is corrected, and the dead letter is delivered again.");
    atomic_store(&shop->repaired, true);
    status = hf_dead_retry(shop->bus, shop->dead_id, NULL, 0);
    if (!status) {
        status = hf_wait(shop->bus, "mailer", -1, WAIT_MS);
    }
    if (!status) {
        status = hf_dead_count(shop->bus, NULL, &count);
    }
    if (status) {
        return cli_fail(status);
    }
    tell(shop,
         "mailer has sent it at attempt %" PRId32 ". Dead letters: %" PRId64
         ", letters sent: %" PRId64 ".",
         (int32_t)atomic_load(&shop->last_attempt), count, (int64_t)atomic_load(&shop->mailed));
    if (count != 0 || atomic_load(&shop->mailed) != shop->orders) {
        out_complain("the retry did not succeed");
        return EXIT_ERROR;
    }
    pause_for_reading(shop, 1500);
    return 0;
}

/* ---- Summary --------------------------------------------------------------------------------- */

static int add_row(const hf_subscription_info *info, void *ctx)
{
    struct out_table *table = ctx;

    out_table_cell(table, info->name);
    out_table_cell(table, info->options.mode == HF_MODE_SHARED ? "shared" : "ordered");
    out_table_cell(table, info->pattern_count > 0 ? info->patterns[0] : "-");
    out_table_number(table, info->checkpoint);
    out_table_number(table, info->lag);
    out_table_number(table, info->retrying);
    out_table_number(table, info->dead);
    return 0;
}

static void summary_json(const struct shop *shop, const hf_stats *stats)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_int(json, "published", shop->published);
    show_int(json, "booked", atomic_load(&shop->booked));
    show_int(json, "out_of_order", atomic_load(&shop->disorder));
    show_int(json, "mailed", atomic_load(&shop->mailed));
    show_int(json, "failed_attempts", atomic_load(&shop->failures));
    show_int(json, "dead_attempts", shop->dead_attempts);
    show_int(json, "head", stats->head);
    show_int(json, "dead", stats->dead);
    show_int(json, "delivered", stats->delivered);
    show_line_end(&line);
}

static int act_summary(struct shop *shop)
{
    static const struct out_column columns[] = {
        {"SUBSCRIPTION", false, 0, 0}, {"MODE", false, 0, 0}, {"PATTERN", false, 0, 0},
        {"CHECKPOINT", true, 0, 0},    {"LAG", true, 0, 0},   {"RETRYING", true, 0, 0},
        {"DEAD", true, 0, 0}};
    hf_stats stats = {.size = sizeof stats};
    struct out_table table;
    hf_status status = hf_stats_get(shop->bus, &stats);

    if (status) {
        return cli_fail(status);
    }
    if (shop->json) {
        summary_json(shop, &stats);
        return 0;
    }
    heading(shop, "Summary");
    out_table_init(&table, columns, 7);
    status = hf_subscription_list(shop->bus, add_row, &table);
    out_table_end(&table);
    tell(shop,
         "%" PRId64 " events in the log, %" PRId64 " deliveries done, %" PRId64
         " attempts failed, nothing lost.",
         shop->published, stats.delivered, stats.failed);
    return cli_fail(status);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int play(struct shop *shop)
{
    int (*const acts[])(struct shop *) = {act_publish, act_deliver, act_dead_letter, act_retry,
                                          act_summary};
    int code = shop_subscribe(shop);

    for (size_t i = 0; i < sizeof acts / sizeof acts[0] && !code; i++) {
        if (stop_requested()) {
            out_complain("interrupted");
            return EXIT_ERROR;
        }
        code = acts[i](shop);
    }
    return code;
}

static int refuse_used(struct cli *cli)
{
    hf_stats stats = {.size = sizeof stats};
    int code = cli_fail(hf_stats_get(cli->bus, &stats));
    char shown[URL_SHOWN_BYTES];

    if (code) {
        return code;
    }
    if (stats.head == 0 && stats.subscriptions == 0) {
        return 0;
    }
    out_complain("%s is not empty: the demo wants a database of its own",
                 url_shown(cli->url, shown));
    return EXIT_USAGE;
}

static int run_demo(struct cli *cli)
{
    static struct shop shop; /* handlers use it until the bus is closed */
    const struct args *args = &cli->args;
    static struct tempdir dir;
    bool own = !args_given(args, "db");
    bool keep = args_given(args, "keep") || !own;
    hf_options options = cli_options(cli, HF_OPEN_CREATE);
    char engine[32];
    char shown[URL_SHOWN_BYTES];
    int code;

    if (own && !tempdir_make(&dir, NULL)) {
        return EXIT_ERROR;
    }
    if (own) {
        cli->url = dir.url;
    }
    shop.json = cli->json;
    shop.quick = args_given(args, "quick");
    shop_log(&shop, &options);
    code = cli_open_with(cli, &options);
    if (!code) {
        code = refuse_used(cli);
    }
    if (!code) {
        shop.bus = cli->bus;
        stop_catch();
        tell(&shop, "Holdfast keeps its events in %s: %s",
             strcmp(url_engine(cli->url, engine, sizeof engine), "sqlite") == 0
                 ? "one ordinary file"
                 : "a schema of this database",
             url_shown(cli->url, shown));
        code = play(&shop);
    }
    if (cli->bus) {
        int closed = cli_fail(hf_close(&cli->bus));
        code = code ? code : closed;
    }
    if (own && !keep) {
        tempdir_remove(&dir);
    } else if (!code) {
        out_say("Look around: holdfast --db '%s' tail", url_shown(cli->url, shown));
    }
    return code;
}

static const struct option_row options_rows[] = {
    {"keep", 0, OPTION_FLAG, NULL, NULL, 0, 0, "keep the database to look around in it"},
    {"quick", 0, OPTION_FLAG, NULL, NULL, 0, 0, "without pauses for reading"},
    OPTION_END,
};

const struct command command_demo = {
    .name = "demo",
    .usage = "",
    .summary = "shows Holdfast at work for ten seconds, in a new database",
    .examples = "  holdfast demo\n"
                "  holdfast demo --keep\n"
                "  holdfast demo --db sqlite:demo.db\n"
                "  holdfast demo --db postgres:///demo\n",
    .options = options_rows,
    .places_itself = true,
    .run = run_demo,
};
