/*
 * fixture.h - what every test of a store stands on: a fresh database, stores on it, children.
 *
 * HOLDFAST_TEST_URLS lists the databases to test, separated by spaces; each program runs all its
 * claims once per URL. In a URL {dir} stands for the test's own fresh directory and {name} for a
 * name that no other test uses; {database} for one that is made for the program on its server and
 * removed after it (server.h). The default is "sqlite:{dir}/store.db". Every test has a namespace
 * of its own too, so an engine whose database outlives the test needs neither.
 *
 * A test opens its stores, batches, readers and children here, and the teardown ends them in the
 * right order whether the test passed or not. Two stores on one database stand for two processes.
 */
#ifndef HF_TESTS_SUPPORT_FIXTURE_H
#define HF_TESTS_SUPPORT_FIXTURE_H

#include "store/common/batch.h"
#include "store/store.h"
#include "support/check.h"
#include "support/child.h"
#include "support/temp.h"

#define FIXTURE_STORES_MAX 16
#define FIXTURE_BATCHES_MAX 64
#define FIXTURE_READERS_MAX 16
#define FIXTURE_CHILDREN_MAX 16

struct fixture {
    char dir[TEMP_PATH_BYTES];
    char url[2 * TEMP_PATH_BYTES];
    char namespace_name[HF_NAMESPACE_BYTES_MAX + 1];
    bool sqlite; /* the engine under test is SQLite */
    struct log log;
    struct store *stores[FIXTURE_STORES_MAX];
    struct batch batches[FIXTURE_BATCHES_MAX];
    size_t batch_count;
    struct reader *readers[FIXTURE_READERS_MAX];
    struct child children[FIXTURE_CHILDREN_MAX];
    size_t child_count;
};

/* ---- Programs -------------------------------------------------------------------------------- */

/* What a child process does; the number is its exit status. */
typedef int (*role_fn)(struct fixture *fixture, const char *argument);

struct role {
    const char *name; /* NULL ends the table */
    role_fn run;
};

/* One claim with its fixture: a row of the program's table. */
#define CLAIM(function)                                                                            \
    {                                                                                              \
#function, function, fixture_setup, fixture_teardown, (void *)(uintptr_t) #function        \
    }

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* The main function of a program: runs the claims on every URL, or, called as a child, the role.
 * With an argument only the claims that match this pattern run. roles may be NULL. */
int fixture_main(int argc, char **argv, const char *noun, const struct CMUnitTest *claims,
                 size_t count, const struct role *roles);

#define FIXTURE_MAIN(noun, claims, roles)                                                          \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return fixture_main(argc, argv, noun, claims, sizeof(claims) / sizeof((claims)[0]),        \
                            roles);                                                                \
    }

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Options that open the test's namespace as a node of this name. */
struct store_options fixture_options(struct fixture *fixture, const char *node_name);
/* Opens a store that must open. */
struct store *fixture_open(struct fixture *fixture, const char *node_name);
struct store *fixture_open_with(struct fixture *fixture, const struct store_options *options);
/* Opens a store on another namespace of the same database. */
struct store *fixture_open_other(struct fixture *fixture, const char *node_name);
/* Closes one before its time. */
void fixture_close(struct fixture *fixture, struct store *store);
/* An empty batch. */
struct batch *fixture_batch(struct fixture *fixture);
struct reader *fixture_reader(struct fixture *fixture, struct store *store, int64_t after);
/* Starts a child in a role. */
struct child *fixture_child(struct fixture *fixture, const char *role, const char *argument);
/* Leaves the test as skipped unless the engine is SQLite. */
void fixture_sqlite_only(struct fixture *fixture);
/* The path of the SQLite file. */
const char *fixture_path(struct fixture *fixture);

#endif
