/*
 * projection.c - a table of counts that is right to the last digit, whatever is killed.
 *
 * A projection turns the log into a table: here, how often each page was viewed. Counting is the
 * hard case, because counting twice shows. The subscription is transactional: the handler's UPDATE
 * and the record that this event is done are one transaction, so a crash undoes both or neither.
 *
 * The program publishes some views, and then kills its own worker process several times in the
 * middle of a handler, after the UPDATE. In the end the handler has run more often than there are
 * events, and the table still says exactly what was published.
 */
#include "temp.h"
#include <holdfast.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define VIEWS 400
#define KILLS 3

static const char *const pages[] = {"/", "/news", "/about"};
#define PAGES (int)(sizeof pages / sizeof pages[0])

/* Shared with the worker processes. */
struct tally {
    int runs;        /* handlers that were begun, in all processes */
    int kill_at_run; /* the worker dies in this one; 0: it lives */
};

static void check(hf_status status, const char *doing)
{
    if (status != HF_OK) {
        fprintf(stderr, "projection: %s: %s (%s)\n", doing, hf_errmsg(), hf_status_name(status));
        exit(1);
    }
}

/* One view is one more in the row of its page, which is the event's key. */
static hf_verdict count_view(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct tally *tally = ctx;
    int run = ++tally->runs;
    sqlite3 *db = hf_delivery_sqlite(delivery);
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db, "UPDATE views SET count = count + 1 WHERE page = ?1", -1,
                                  &stmt, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, event->key, -1, SQLITE_STATIC);
        sqlite3_step(stmt);
        code = sqlite3_finalize(stmt);
    }
    if (code != SQLITE_OK) {
        hf_delivery_error(delivery, "cannot count the view: %s", sqlite3_errmsg(db));
        return HF_RETRY;
    }
    if (run == tally->kill_at_run) {
        raise(SIGKILL); /* the worst moment: the row is changed, the answer not given */
    }
    return HF_ACK;
}

/* Works until everything is done, or until it is killed. */
static void work(const char *path, struct tally *tally)
{
    hf_bus *bus = NULL;
    check(hf_open(path, NULL, &bus), "open");
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    options.transactional = HF_ON;
    check(hf_subscribe(bus, "views", "page.viewed", count_view, tally, &options, NULL),
          "subscribe");
    check(hf_start(bus), "start");
    check(hf_wait(bus, "views", -1, 30000), "wait");
    check(hf_close(&bus), "close");
}

/* A process of its own for the worker; here no bus is open meanwhile. True if it was killed. */
static int work_in_child(const char *path, struct tally *tally)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work(path, tally);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status);
}

static void publish_views(const char *path)
{
    hf_bus *bus = NULL;
    check(hf_open(path, NULL, &bus), "open");
    hf_new_event events[VIEWS];
    for (int i = 0; i < VIEWS; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = "page.viewed";
        event.key = pages[i % PAGES];
        events[i] = event;
    }
    check(hf_publish_many(bus, events, VIEWS, NULL), "publish");
    check(hf_close(&bus), "close");
}

/* Runs statements on a connection that lives only for them, while no bus is open. Answers the first
 * number they give. */
static int ask(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int answer = 0;
    int code = sqlite3_open(path, &db);
    while (code == SQLITE_OK && *sql) {
        code = sqlite3_prepare_v2(db, sql, -1, &stmt, &sql);
        if (code == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
            answer = sqlite3_column_int(stmt, 0);
        }
        code = code == SQLITE_OK ? sqlite3_finalize(stmt) : code;
    }
    if (code != SQLITE_OK) {
        fprintf(stderr, "projection: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
    sqlite3_close(db);
    return answer;
}

int main(int argc, char **argv)
{
    const char *path = temp_database(argc, argv);
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED) {
        return 1;
    }
    publish_views(path);
    ask(path, "CREATE TABLE IF NOT EXISTS views (page TEXT PRIMARY KEY, count INTEGER NOT NULL);"
              "INSERT OR IGNORE INTO views VALUES ('/', 0), ('/news', 0), ('/about', 0)");
    int before = ask(path, "SELECT sum(count) FROM views");
    printf("published %d views of %d pages\n", VIEWS, PAGES);

    int killed = 0;
    for (int i = 0; i < KILLS; i++) {
        tally->kill_at_run = tally->runs + 90;
        killed += work_in_child(path, tally);
        printf("killed the worker inside a handler; the table says %d\n",
               ask(path, "SELECT sum(count) FROM views") - before);
    }
    tally->kill_at_run = 0;
    work_in_child(path, tally);
    int counted = ask(path, "SELECT sum(count) FROM views") - before;
    printf("the handler ran %d times, the table says %d\n", tally->runs, counted);
    return killed == KILLS && tally->runs > VIEWS && counted == VIEWS ? 0 : 1;
}
