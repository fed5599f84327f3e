/*
 * fixture.c - prepares a fresh database for each test and ends what the test has opened.
 */
#include "support/fixture.h"

#include "support/puppet.h"
#include "support/server.h"
#include "support/sqlite.h"

#include <signal.h>

#define URL_DEFAULT "sqlite:{dir}/store.db"
#define URLS_MAX 8
/* A test that hangs is killed with its program, so that the claim's name is the last one shown. */
#define TEST_SECONDS_MAX 500 /* less than scripts/run-tests waits */

static const char *url_pattern = URL_DEFAULT;
static int names_given;

/* Writes the pattern with its {dir} and {name} filled in. */
static void url_expand(const char *pattern, const char *dir, const char *name, char *out,
                       size_t out_bytes)
{
    size_t used = 0;
    while (*pattern && used + 1 < out_bytes) {
        const char *insert = NULL;
        if (strncmp(pattern, "{dir}", 5) == 0) {
            insert = dir;
            pattern += 5;
        } else if (strncmp(pattern, "{name}", 6) == 0) {
            insert = name;
            pattern += 6;
        }
        if (insert) {
            used += (size_t)snprintf(out + used, out_bytes - used, "%s", insert);
        } else {
            out[used++] = *pattern++;
        }
    }
    must_hold(used < out_bytes);
    out[used] = '\0';
}

/* Whether the program is about what lies in a database before it has a schema, and how that is made
 * (scripts/run-tests). */
static bool is_blank(void)
{
    const char *blank = getenv("TEST_BLANK");
    return blank && blank[0];
}

static struct fixture *fixture_new(void)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    must_hold(fixture);
    fixture->log = (struct log){.level = HF_LOG_INFO};
    return fixture;
}

int fixture_setup(void **state)
{
    alarm(TEST_SECONDS_MAX);
    check_claim(*state);
    struct fixture *fixture = fixture_new();
    *state = fixture;
    temp_open(fixture->dir);
    snprintf(fixture->namespace_name, sizeof fixture->namespace_name, "test-%d-%d", (int)getpid(),
             ++names_given);
    url_expand(url_pattern, fixture->dir, fixture->namespace_name, fixture->url,
               sizeof fixture->url);
    fixture->sqlite = strncmp(fixture->url, "sqlite:", 7) == 0;
    if (fixture->sqlite && !is_blank()) {
        sqlite_make_ready(fixture_path(fixture));
    }
    return 0;
}

/* Ends everything in the order in which it depends on each other. */
static void fixture_free(struct fixture *fixture)
{
    for (size_t i = 0; i < fixture->child_count; i++) {
        child_discard(&fixture->children[i]);
    }
    for (size_t i = 0; i < FIXTURE_READERS_MAX; i++) {
        if (fixture->readers[i]) {
            store_reader_close(fixture->readers[i]);
        }
    }
    for (size_t i = 0; i < FIXTURE_STORES_MAX; i++) {
        store_close(fixture->stores[i]);
    }
    for (size_t i = 0; i < fixture->batch_count; i++) {
        batch_release(&fixture->batches[i]);
    }
    free(fixture);
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    char dir[TEMP_PATH_BYTES];
    memcpy(dir, fixture->dir, sizeof dir);
    fixture_free(fixture);
    temp_close(dir);
    alarm(0);
    return 0;
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* argv: program --role NAME URL NAMESPACE DIR ARGUMENT CLAIM */
static int role_main(char **argv, const struct role *roles)
{
    static const struct role puppet[] = {{"puppet", puppet_run}, {NULL, NULL}};
    alarm(TEST_SECONDS_MAX);
    role_prepare();
    check_claim(argv[7]);
    struct fixture *fixture = fixture_new();
    snprintf(fixture->url, sizeof fixture->url, "%s", argv[3]);
    snprintf(fixture->namespace_name, sizeof fixture->namespace_name, "%s", argv[4]);
    snprintf(fixture->dir, sizeof fixture->dir, "%s", argv[5]);
    fixture->sqlite = strncmp(fixture->url, "sqlite:", 7) == 0;

    const struct role *tables[] = {puppet, roles};
    for (size_t i = 0; i < 2; i++) {
        for (const struct role *role = tables[i]; role && role->name; role++) {
            if (strcmp(role->name, argv[2]) == 0) {
                int code = role->run(fixture, argv[6]);
                fixture_free(fixture);
                return code;
            }
        }
    }
    check_fail(__FILE__, __LINE__, "there is no role \"%s\"", argv[2]);
}

/* Cuts the list of URLs into its parts; returns how many there are. */
static int urls_split(char *list, const char *urls[URLS_MAX])
{
    int count = 0;
    while (*list && count < URLS_MAX) {
        list += strspn(list, " ");
        size_t length = strcspn(list, " ");
        if (length > 0) {
            urls[count++] = list;
        }
        list += length;
        if (*list) {
            *list++ = '\0';
        }
    }
    return count;
}

int fixture_main(int argc, char **argv, const char *noun, const struct CMUnitTest *claims,
                 size_t count, const struct role *roles)
{
    if (argc == 8 && strcmp(argv[1], "--role") == 0) {
        return role_main(argv, roles);
    }
    signal(SIGPIPE, SIG_IGN); /* a child that is gone is reported by an assertion */
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const char *given = getenv("HOLDFAST_TEST_URLS");
    char *list = strdup(given && given[0] ? given : URL_DEFAULT);
    must_hold(list);
    const char *urls[URLS_MAX];
    int url_count = urls_split(list, urls);
    int failed = 0;
    for (int i = 0; i < url_count; i++) {
        char url[2 * TEMP_PATH_BYTES];
        /* One for the program: tests have namespaces. */
        (is_blank() ? server_make : server_make_ready)(urls[i], url, sizeof url);
        url_pattern = url;
        char group[256];
        snprintf(group, sizeof group, "%s on %.*s", noun, (int)strcspn(urls[i], ":"), urls[i]);
        failed += _cmocka_run_group_tests(group, claims, count, NULL, NULL);
        server_remove(url);
    }
    free(list);
    return failed ? 1 : 0;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

struct store_options fixture_options(struct fixture *fixture, const char *node_name)
{
    return (struct store_options){
        .namespace_name = text_of(fixture->namespace_name),
        .node_name = text_of(node_name),
        .node = {.id = text_of(node_name),
                 .host = text_of("test"),
                 .pid = getpid(),
                 .heartbeat_ms = 30000},
        .open_mode = HF_OPEN_CREATE,
        .durability = HF_DURABILITY_PROCESS,
        .timeout_ms = DEADLINE_MS,
        .queue_events_max = 65536,
        .queue_bytes_max = INT64_C(64) << 20,
        .log = &fixture->log,
    };
}

struct store *fixture_open(struct fixture *fixture, const char *node_name)
{
    struct store_options options = fixture_options(fixture, node_name);
    return fixture_open_with(fixture, &options);
}

struct store *fixture_open_with(struct fixture *fixture, const struct store_options *options)
{
    for (size_t i = 0; i < FIXTURE_STORES_MAX; i++) {
        if (!fixture->stores[i]) {
            must_answer(HF_OK, store_open(fixture->url, options, &fixture->stores[i]));
            return fixture->stores[i];
        }
    }
    check_fail(__FILE__, __LINE__, "a test has more than %d stores", FIXTURE_STORES_MAX);
}

struct store *fixture_open_other(struct fixture *fixture, const char *node_name)
{
    char name[HF_NAMESPACE_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.100s-other", fixture->namespace_name);
    struct store_options options = fixture_options(fixture, node_name);
    options.namespace_name = text_of(name);
    return fixture_open_with(fixture, &options);
}

void fixture_close(struct fixture *fixture, struct store *store)
{
    for (size_t i = 0; i < FIXTURE_STORES_MAX; i++) {
        if (fixture->stores[i] == store) {
            fixture->stores[i] = NULL;
            store_close(store);
            return;
        }
    }
    check_fail(__FILE__, __LINE__, "this store is not of the fixture");
}

struct batch *fixture_batch(struct fixture *fixture)
{
    must_hold(fixture->batch_count < FIXTURE_BATCHES_MAX);
    struct batch *batch = &fixture->batches[fixture->batch_count++];
    batch_init(batch);
    return batch;
}

struct reader *fixture_reader(struct fixture *fixture, struct store *store, int64_t after)
{
    for (size_t i = 0; i < FIXTURE_READERS_MAX; i++) {
        if (!fixture->readers[i]) {
            must_answer(HF_OK, store_reader_open(store, after, false, &fixture->readers[i]));
            return fixture->readers[i];
        }
    }
    check_fail(__FILE__, __LINE__, "a test has more than %d readers", FIXTURE_READERS_MAX);
}

struct child *fixture_child(struct fixture *fixture, const char *role, const char *argument)
{
    must_hold(fixture->child_count < FIXTURE_CHILDREN_MAX);
    struct child *child = &fixture->children[fixture->child_count++];
    child_start(fixture, child, role, argument);
    return child;
}

void fixture_sqlite_only(struct fixture *fixture)
{
    if (!fixture->sqlite) {
        skip();
    }
}

const char *fixture_path(struct fixture *fixture)
{
    must_hold(fixture->sqlite);
    return fixture->url + strlen("sqlite:");
}
