/*
 * test_open.c - opening: what is refused and why, what is created, what survives, and who is kept
 * apart from whom.
 */
#include "support/make.h"
#include "support/puppet.h"
#include "support/sqlite.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define UNTOUCHED ((struct store *)0x5a5a)

/* Opens what must not open; the status. */
static hf_status refused(struct fixture *f, const char *url, hf_open_mode mode)
{
    struct store_options options = fixture_options(f, "a");
    options.open_mode = mode;
    struct store *store = UNTOUCHED;
    hf_status status = store_open(url, &options, &store);
    if (!status) {
        store_close(store);
        return status;
    }
    must_hold(store == UNTOUCHED);
    must_hold(err_message()[0]);
    return status;
}

static const char *url_of(struct fixture *f, const char *name)
{
    static char urls[4][2 * TEMP_PATH_BYTES];
    static unsigned next;
    char *url = urls[next++ % 4];
    snprintf(url, sizeof urls[0], "sqlite:%s/%s", f->dir, name);
    return url;
}

static bool exists(struct fixture *f, const char *name)
{
    return access(temp_file(f->dir, name), F_OK) == 0;
}

static void write_file(const char *path, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must_hold(fd >= 0);
    must_equal(length, write(fd, bytes, length));
    close(fd);
}

static int64_t file_bytes(const char *path)
{
    struct stat facts;
    must_equal(0, stat(path, &facts));
    return facts.st_size;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static void urls_without_a_database_are_invalid(void **state)
{
    must_equal(HF_INVALID, refused(*state, "", HF_OPEN_CREATE));
    must_equal(HF_INVALID, refused(*state, "sqlite:", HF_OPEN_CREATE));
    must_equal(HF_INVALID, refused(*state, "nosuchengine:/tmp/x", HF_OPEN_CREATE));
    must_say("nosuchengine");
}

static void an_unsupported_url_is_refused_without_showing_its_password(void **state)
{
    struct fixture *f = *state;
    static const char *const urls[] = {
        "POSTGRES://me:secret@somewhere/db", "Postgresql://me:secret@somewhere/db",
        "mysql://me:secret@somewhere/db",    "host=somewhere password=secret",
        "password=secret host=somewhere",    "a/b://me:secret@somewhere/db",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        must_equal(HF_INVALID, refused(f, urls[i], HF_OPEN_CREATE));
        must_hold(!strstr(err_message(), "secret"));
    }
}

static void a_database_in_memory_is_refused(void **state)
{
    fixture_sqlite_only(*state);
    must_equal(HF_INVALID, refused(*state, "sqlite::memory:", HF_OPEN_CREATE));
    must_equal(HF_INVALID, refused(*state, ":memory:", HF_OPEN_CREATE));
}

static void a_bare_path_is_a_sqlite_file(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    struct store_options options = fixture_options(f, "a");
    struct store *store = NULL;
    must_answer(HF_OK, store_open(fixture_path(f), &options, &store));
    must_equal(1, append_one(store, "t", NULL));
    store_close(store);
    must_equal(1, head_of(fixture_open(f, "a")));
}

static void odd_characters_in_a_path_are_characters(void **state)
{
    static const char *const names[] = {"it's 100% #1.db", "a;b.db",     "%20.db",
                                        "\xc3\xa9.db",     "sqlite:.db", "-x.db"};
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct store_options options = fixture_options(f, "a");
        struct store *store = NULL;
        must_answer(HF_OK, store_open(url_of(f, names[i]), &options, &store));
        must_equal(1, append_one(store, "t", NULL));
        store_close(store);
        must_hold(exists(f, names[i]));
    }
}

static void a_relative_path_stays_what_it_was_when_the_directory_changes(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    char before[TEMP_PATH_BYTES];
    must_hold(getcwd(before, sizeof before));
    must_equal(0, chdir(f->dir));
    struct store_options options = fixture_options(f, "a");
    struct store *store = NULL;
    hf_status status = store_open("sqlite:relative.db", &options, &store);
    must_equal(0, chdir(before));
    must_equal(HF_OK, status);
    must_equal(1, append_one(store, "t", NULL));
    must_equal(2, append_count(store, "t", 100));
    store_close(store);
    must_hold(exists(f, "relative.db"));
}

/* ---- The file says no ------------------------------------------------------------------------ */

static void a_directory_is_not_a_database(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    must_equal(0, mkdir(temp_file(f->dir, "folder"), 0755));
    hf_status status = refused(f, url_of(f, "folder"), HF_OPEN_CREATE);
    must_hold(status == HF_UNAVAILABLE || status == HF_INVALID || status == HF_DENIED);
}

static void a_file_in_a_missing_directory_cannot_be_made(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    hf_status status = refused(f, url_of(f, "missing/store.db"), HF_OPEN_CREATE);
    must_hold(status == HF_UNAVAILABLE || status == HF_NOTFOUND || status == HF_INVALID);
    must_hold(!exists(f, "missing"));
}

/* Opens as a user that may not. */
static int stranger_role(struct fixture *f, const char *argument)
{
    (void)argument;
    if (getuid() == 0) {
        must_equal(0, setgid(65534));
        must_equal(0, setuid(65534));
    }
    role_report("status", refused(f, f->url, HF_OPEN_CREATE));
    return 0;
}

static void a_file_that_may_not_be_written_is_denied(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    fixture_close(f, store);
    must_equal(0, chmod(fixture_path(f), 0444));
    must_equal(0, chmod(f->dir, 0555));
    struct child *child = fixture_child(f, "stranger", "");
    hf_status status = (hf_status)child_hear(child, "status");
    child_finish(child);
    must_equal(0, chmod(f->dir, 0755));
    must_equal(HF_DENIED, status);
}

static void garbage_is_corrupt_and_left_alone(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    char garbage[8192];
    for (size_t i = 0; i < sizeof garbage; i++) {
        garbage[i] = (char)(i * 7 + i / 256);
    }
    const char *path = temp_file(f->dir, "garbage.db");
    write_file(path, garbage, sizeof garbage);
    must_equal(HF_CORRUPT, refused(f, url_of(f, "garbage.db"), HF_OPEN_CREATE));
    char found[sizeof garbage];
    int fd = open(path, O_RDONLY);
    must_equal(sizeof garbage, read(fd, found, sizeof found));
    close(fd);
    must_hold(memcmp(garbage, found, sizeof garbage) == 0);
    must_equal(sizeof garbage, file_bytes(path));
}

static void an_empty_file_becomes_a_database(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    write_file(fixture_path(f), "", 0);
    must_equal(1, append_one(fixture_open(f, "a"), "t", NULL));
}

/* A file cut anywhere is refused, or read truly as far as it goes; never with a crash. */
static void a_truncated_file_is_never_taken_for_a_whole_one(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    struct store *store = fixture_open(f, "a");
    append_count(store, "t", 3000);
    fixture_close(f, store);
    sqlite3 *db = NULL; /* brings everything into the file */
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    must_equal(SQLITE_OK, sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL));
    sqlite3_close(db);
    int64_t whole = file_bytes(fixture_path(f));
    must_hold(whole > 100000);
    for (int64_t bytes = whole - 4096; bytes > 4096; bytes = bytes * 3 / 4) {
        must_equal(0, truncate(fixture_path(f), bytes));
        struct store_options options = fixture_options(f, "a");
        struct store *cut = NULL;
        hf_status status = store_open(f->url, &options, &cut);
        if (!status) {
            struct reader *reader = NULL;
            struct batch batch;
            int64_t floor;
            bool more = true;
            batch_init(&batch);
            status = store_reader_open(cut, 0, false, &reader);
            while (!status && more) {
                batch_clear(&batch);
                status = store_reader_next(reader, &filter_all, 500, &batch, &floor, &more);
            }
            if (reader) {
                store_reader_close(reader);
            }
            batch_release(&batch);
            store_close(cut);
        }
        if (status != HF_CORRUPT && status != HF_IO) {
            check_fail(__FILE__, __LINE__, "a file cut to %" PRId64 " of %" PRId64 " bytes: %s",
                       bytes, whole, status_name(status));
        }
    }
}

/* ---- Modes ----------------------------------------------------------------------------------- */

static void a_missing_database_is_not_found_unless_it_may_be_created(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    must_equal(HF_NOTFOUND, refused(f, f->url, HF_OPEN_EXISTING));
    must_equal(HF_NOTFOUND, refused(f, f->url, HF_OPEN_NOMIGRATE));
    must_hold(access(fixture_path(f), F_OK) != 0);
    fixture_open(f, "a");
    must_hold(access(fixture_path(f), F_OK) == 0);
    struct store_options options = fixture_options(f, "b");
    options.open_mode = HF_OPEN_EXISTING;
    fixture_open_with(f, &options);
    options.open_mode = HF_OPEN_NOMIGRATE;
    fixture_open_with(f, &options);
}

static void a_missing_namespace_is_not_found_unless_it_may_be_created(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    struct store_options options = fixture_options(f, "a");
    options.namespace_name = text_of("this one was not made");
    struct store *other = UNTOUCHED;
    options.open_mode = HF_OPEN_EXISTING;
    must_answer(HF_NOTFOUND, store_open(f->url, &options, &other));
    options.open_mode = HF_OPEN_NOMIGRATE;
    must_answer(HF_NOTFOUND, store_open(f->url, &options, &other));
    must_hold(other == UNTOUCHED);
}

static int sql(struct fixture *f, const char *text)
{
    sqlite3 *db = NULL;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    sqlite3_busy_timeout(db, DEADLINE_MS);
    int result = sqlite3_exec(db, text, NULL, NULL, NULL);
    sqlite3_close(db);
    return result;
}

static int64_t sql_number(struct fixture *f, const char *text)
{
    return sqlite_number_in(fixture_path(f), text);
}

static void an_application_may_have_its_own_tables_in_the_file(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    must_equal(SQLITE_OK, sql(f, "PRAGMA user_version = 42; PRAGMA application_id = 4242; "
                                 "CREATE TABLE mine (x); INSERT INTO mine VALUES (7)"));
    struct store *store = fixture_open(f, "a");
    must_equal(1, append_one(store, "t", NULL));
    fixture_close(f, store);
    must_equal(42, sql_number(f, "PRAGMA user_version"));
    must_equal(4242, sql_number(f, "PRAGMA application_id"));
    must_equal(7, sql_number(f, "SELECT x FROM mine"));
    must_equal(0, sql_number(f, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE "
                                "'holdfast\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' "
                                "ESCAPE '\\' AND name <> 'mine'"));
}

static void a_newer_schema_is_refused_and_not_touched(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    fixture_close(f, store);
    /* whatever number tells the version, a newer program has raised it */
    must_equal(SQLITE_OK, sql(f, "UPDATE holdfast_meta SET value = CAST(value AS INTEGER) + 1000 "
                                 "WHERE name LIKE '%schema%' OR name = 'programs_from'"));
    must_hold(sql_number(f, "SELECT count(*) FROM holdfast_meta WHERE value > 1000") > 0);
    must_equal(HF_SCHEMA, refused(f, f->url, HF_OPEN_CREATE));
    must_equal(HF_SCHEMA, refused(f, f->url, HF_OPEN_EXISTING));
    must_equal(HF_SCHEMA, refused(f, f->url, HF_OPEN_NOMIGRATE));
    must_equal(1, sql_number(f, "SELECT count(*) FROM holdfast_events"));
}

/* Raises a number that the schema has of itself, as a newer program does. */
static void raise_number(struct fixture *f, const char *name)
{
    char text[200];
    snprintf(text, sizeof text,
             "UPDATE holdfast_meta SET value = CAST(value AS INTEGER) + 1 WHERE name = '%s'", name);
    must_equal(SQLITE_OK, sql(f, text));
}

static void a_newer_schema_that_takes_older_programs_is_used_as_it_is(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    fixture_close(f, fixture_open(f, "a"));
    raise_number(f, "schema_version");
    const char *version = "SELECT value FROM holdfast_meta WHERE name = 'schema_version'";
    int64_t before = sql_number(f, version);
    static const hf_open_mode modes[] = {HF_OPEN_CREATE, HF_OPEN_EXISTING, HF_OPEN_NOMIGRATE,
                                         HF_OPEN_MIGRATE};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct store_options options = fixture_options(f, "b");
        options.open_mode = modes[i];
        struct store *store = fixture_open_with(f, &options);
        must_equal((int64_t)i + 1, append_one(store, "t", NULL));
        fixture_close(f, store);
    }
    must_equal(before, sql_number(f, version));
}

static void a_program_that_a_migration_leaves_behind_can_write_no_more(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    raise_number(f, "schema_version");
    must_equal(2, append_one(store, "t", NULL)); /* it still takes this program */
    raise_number(f, "programs_from");
    struct new_event event = event_of("t", NULL);
    must_answer(HF_SCHEMA, append_event(store, &event));
    struct tx *tx = NULL;
    must_answer(HF_SCHEMA, store_tx_begin(store, deadline_after_ms(DEADLINE_MS), &tx));
    must_equal(2, sql_number(f, "SELECT count(*) FROM holdfast_events"));
}

/* ---- Namespaces ------------------------------------------------------------------------------ */

static void namespaces_do_not_see_each_others_events(void **state)
{
    struct fixture *f = *state;
    struct store *a = fixture_open(f, "a");
    struct store *b = fixture_open_other(f, "b");
    struct new_event event = event_of("t", "k");
    event.expected_version = 0;
    must_answer(HF_OK, append_event(a, &event));
    must_equal(1, event.position);
    append_count(a, "t", 4);
    /* the same id is another event, the same key has its own version, positions begin at 1 */
    must_answer(HF_OK, append_event(b, &event));
    must_equal(1, event.position);
    must_equal(false, event.duplicate);
    must_equal(1, event.key_version);
    must_equal(5, head_of(a));
    must_equal(1, head_of(b));
    struct new_event only_a = event_of("t", NULL);
    must_answer(HF_OK, append_event(a, &only_a));
    struct batch *batch = fixture_batch(f);
    must_answer(HF_NOTFOUND, store_event_find(b, only_a.id, batch));
    int64_t id = subscribe_shared(a, "s");
    int64_t other_id = subscribe_shared(b, "s");
    must_hold(id != other_id);
    must_read("1", list_batch(take(f, b, other_id, 10, T0).batch));
    must_equal(6, take(f, a, id, 10, T0).batch->count);
}

static void many_namespaces_live_in_one_database(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 12; i++) {
            char name[64];
            snprintf(name, sizeof name, "%.40s-%d", f->namespace_name, i);
            struct store_options options = fixture_options(f, "a");
            options.namespace_name = text_of(name);
            struct store *store = NULL;
            must_answer(HF_OK, store_open(f->url, &options, &store));
            must_equal(round * (i + 1) + 1, append_count(store, "t", (size_t)i + 1));
            store_close(store);
        }
    }
}

static void a_namespace_may_have_the_longest_and_oddest_name(void **state)
{
    struct fixture *f = *state;
    char name[HF_NAMESPACE_BYTES_MAX + 1];
    memset(name, '\'', sizeof name);
    memcpy(name, "%_\"; x", 6);
    name[HF_NAMESPACE_BYTES_MAX] = '\0';
    struct store_options options = fixture_options(f, "a");
    options.namespace_name = text_of(name);
    must_equal(1, append_one(fixture_open_with(f, &options), "t", NULL));
    must_equal(1, head_of(fixture_open_with(f, &options)));
}

/* ---- Several processes ----------------------------------------------------------------------- */

static int creator_role(struct fixture *f, const char *argument)
{
    (void)argument;
    char line[CHILD_LINE_BYTES];
    role_report("ready", 0);
    must_hold(role_listen(line));
    struct store *store = fixture_open(f, "creator");
    role_report("position", append_one(store, "t", NULL));
    return 0;
}

static void processes_that_create_at_once_share_one_database(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 3; round++) {
        struct child *children[4];
        for (int i = 0; i < 4; i++) {
            children[i] = fixture_child(f, "creator", "");
            child_hear(children[i], "ready");
        }
        for (int i = 0; i < 4; i++) {
            child_tell(children[i], "go");
        }
        int64_t sum = 0;
        for (int i = 0; i < 4; i++) {
            sum += child_hear(children[i], "position");
            child_finish(children[i]);
        }
        must_equal(1 + 2 + 3 + 4, sum);
        if (!f->sqlite || round == 2) {
            break;
        }
        unlink(fixture_path(f));
        char name[TEMP_PATH_BYTES + 16];
        snprintf(name, sizeof name, "%s-wal", fixture_path(f));
        unlink(name);
        snprintf(name, sizeof name, "%s-shm", fixture_path(f));
        unlink(name);
    }
    must_equal(4, head_of(fixture_open(f, "a")));
}

/* Appends until it is killed, telling each position when it is acknowledged. */
static int publisher_role(struct fixture *f, const char *argument)
{
    (void)argument;
    struct store_options options = fixture_options(f, "publisher");
    options.durability = HF_DURABILITY_POWER;
    struct store *store = fixture_open_with(f, &options);
    for (int64_t i = 0; i < INT64_C(1000000); i++) {
        role_report("acked", append_one(store, "t", NULL));
    }
    return 1; /* it was not killed */
}

static void everything_acknowledged_survives_kill(void **state)
{
    struct fixture *f = *state;
    int64_t acknowledged = 0;
    for (int round = 0; round < 8; round++) {
        struct child *child = fixture_child(f, "publisher", "");
        int64_t stop_at = acknowledged + 5 + round * 3;
        while (acknowledged < stop_at) {
            acknowledged = child_hear(child, "acked");
        }
        kill(child->pid, SIGKILL);
        char line[CHILD_LINE_BYTES];
        while (child_line(child, line, DEADLINE_MS)) { /* what it had said before it died */
            must_hold(strncmp(line, "acked ", 6) == 0);
            acknowledged = strtoll(line + 6, NULL, 10);
        }
        child_kill(child);
        struct store *store = fixture_open(f, "heir");
        int64_t head = head_of(store);
        must_hold(head >= acknowledged);
        must_hold(head <= acknowledged + 1); /* at most the one under way */
        for (int64_t p = acknowledged - 4; p <= head; p++) {
            must_equal(p, entry_at(f, store, p)->event.position);
        }
        acknowledged = head;
        fixture_close(f, store);
        for (size_t i = 0; i < f->batch_count; i++) {
            batch_release(&f->batches[i]);
        }
        f->batch_count = 0;
    }
}

static void a_writer_that_dies_in_the_middle_does_not_block_the_others(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "ab");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "enter 1"); /* holds the database */
    child_kill(puppet);
    must_equal(3, append_one(store, "t", NULL));
    must_read("", list_ahead(store, id, 0, 0));
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* Runs in a forked child: every verb answers HF_MISUSE. The exit status names the first that does
 * not. */
static int poisoned_verbs(struct store *store, int64_t id)
{
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    struct progress progress;
    struct reader *reader = NULL;
    struct tx *tx = NULL;
    struct store_sizes sizes;
    struct dead_query any = dead_query_any();
    int64_t number;
    int64_t other;
    if (!store_poisoned(store)) {
        return 1;
    }
    if (RUN(store, &append) != HF_MISUSE || RUN(store, &acquire) != HF_MISUSE) {
        return 2;
    }
    if (store_head(store, &number, &other) != HF_MISUSE ||
        store_progress(store, id, T0, &progress) != HF_MISUSE ||
        store_dead_count(store, &any, &number) != HF_MISUSE ||
        store_sizes_get(store, &sizes) != HF_MISUSE ||
        store_position_before(store, T0, 0, &number) != HF_MISUSE) {
        return 3;
    }
    if (store_reader_open(store, 0, false, &reader) != HF_MISUSE || reader) {
        return 4;
    }
    if (store_tx_begin(store, deadline_after_ms(100), &tx) != HF_MISUSE || tx) {
        return 5;
    }
    store_close(store);
    return 0;
}

static int forker_role(struct fixture *f, const char *argument)
{
    (void)argument;
    struct store *store = fixture_open(f, "parent");
    int64_t id = subscribe_ordered(store, "s", 1);
    append_count(store, "t", 3);
    struct owner owner = own(store, id, 0);
    must_hold(!store_poisoned(store));
    pid_t pid = fork();
    must_hold(pid >= 0);
    if (pid == 0) {
        _exit(poisoned_verbs(store, id));
    }
    int status;
    must_equal(pid, waitpid(pid, &status, 0));
    must_hold(WIFEXITED(status));
    role_report("child", WEXITSTATUS(status));
    /* the parent has noticed nothing */
    must_hold(!store_poisoned(store));
    must_equal(4, append_one(store, "t", NULL));
    must_answer(HF_OK, settle(&owner, 2, NULL, 0));
    role_report("parent", 0);
    char line[CHILD_LINE_BYTES];
    role_listen(line);
    return 0;
}

static void a_forked_child_is_refused_and_does_not_disturb_its_parent(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "watcher");
    struct child *child = fixture_child(f, "forker", "");
    must_equal(0, child_hear(child, "child"));
    child_hear(child, "parent");
    /* the child's end did not end the parent's ownership */
    int64_t id = subscribe_ordered(store, "s", 1);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_BUSY, RUN(store, &acquire));
    child_finish(child);
    must_answer(HF_OK, RUN(store, &acquire));
}

/* A forked child that outlives its parent must not keep the parent alive in the eyes of others. */
static int orphaner_role(struct fixture *f, const char *argument)
{
    (void)argument;
    struct store *store = fixture_open(f, "parent");
    int64_t id = subscribe_ordered(store, "s", 1);
    own(store, id, 0);
    pid_t pid = fork();
    must_hold(pid >= 0);
    if (pid == 0) {
        role_report("grandchild", getpid());
        for (;;) {
            pause();
        }
    }
    char line[CHILD_LINE_BYTES];
    role_listen(line);
    return 0;
}

static void a_forked_child_does_not_keep_its_dead_parent_alive(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "watcher");
    struct child *child = fixture_child(f, "orphaner", "");
    pid_t grandchild = (pid_t)child_hear(child, "grandchild");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    hf_status before = RUN(store, &acquire);
    child_kill(child);
    hf_status after = RUN(store, &acquire);
    kill(grandchild, SIGKILL);
    must_equal(HF_BUSY, before);
    must_equal(HF_OK, after);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void closing_a_null_store_is_allowed(void **state)
{
    (void)state;
    store_close(NULL);
}

static void opening_and_closing_leaves_no_descriptor_open(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, fixture_open(f, "a"));
    int before = dup(0);
    must_hold(before >= 0);
    close(before);
    for (int i = 0; i < 30; i++) {
        struct store *store = fixture_open(f, "a");
        append_one(store, "t", NULL);
        struct reader *reader = NULL;
        must_answer(HF_OK, store_reader_open(store, 0, false, &reader));
        store_reader_close(reader);
        fixture_close(f, store);
        refused(f, "sqlite:/nonexistent/x.db", HF_OPEN_CREATE);
    }
    int after = dup(0);
    close(after);
    must_equal(before, after);
    must_equal(30, head_of(fixture_open(f, "a")));
}

static const struct role roles[] = {
    {"stranger", stranger_role}, {"creator", creator_role},   {"publisher", publisher_role},
    {"forker", forker_role},     {"orphaner", orphaner_role}, {NULL, NULL},
};

static const struct CMUnitTest claims[] = {
    CLAIM(urls_without_a_database_are_invalid),
    CLAIM(an_unsupported_url_is_refused_without_showing_its_password),
    CLAIM(a_database_in_memory_is_refused),
    CLAIM(a_bare_path_is_a_sqlite_file),
    CLAIM(odd_characters_in_a_path_are_characters),
    CLAIM(a_relative_path_stays_what_it_was_when_the_directory_changes),
    CLAIM(a_directory_is_not_a_database),
    CLAIM(a_file_in_a_missing_directory_cannot_be_made),
    CLAIM(a_file_that_may_not_be_written_is_denied),
    CLAIM(garbage_is_corrupt_and_left_alone),
    CLAIM(an_empty_file_becomes_a_database),
    CLAIM(a_truncated_file_is_never_taken_for_a_whole_one),
    CLAIM(a_missing_database_is_not_found_unless_it_may_be_created),
    CLAIM(a_missing_namespace_is_not_found_unless_it_may_be_created),
    CLAIM(an_application_may_have_its_own_tables_in_the_file),
    CLAIM(a_newer_schema_is_refused_and_not_touched),
    CLAIM(a_newer_schema_that_takes_older_programs_is_used_as_it_is),
    CLAIM(a_program_that_a_migration_leaves_behind_can_write_no_more),
    CLAIM(namespaces_do_not_see_each_others_events),
    CLAIM(many_namespaces_live_in_one_database),
    CLAIM(a_namespace_may_have_the_longest_and_oddest_name),
    CLAIM(processes_that_create_at_once_share_one_database),
    CLAIM(everything_acknowledged_survives_kill),
    CLAIM(a_writer_that_dies_in_the_middle_does_not_block_the_others),
    CLAIM(a_forked_child_is_refused_and_does_not_disturb_its_parent),
    CLAIM(a_forked_child_does_not_keep_its_dead_parent_alive),
    CLAIM(closing_a_null_store_is_allowed),
    CLAIM(opening_and_closing_leaves_no_descriptor_open),
};

FIXTURE_MAIN("open", claims, roles)
