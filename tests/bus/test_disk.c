/*
 * Tests of disks and files that say no: full, too small, damaged, from a newer program, not ours,
 * gone under our feet, locked by another process.
 *
 * Limits of a process and mounts are tried in a child (support_actor.h), which reports "status
 * name" lines to the scene's diary.
 */
#include "support_actor.h"

#include "support/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SKIPPED 77

/* ---- A full disk ----------------------------------------------------------------------------- */

static const char *diary;
static atomic_int handled;

static hf_verdict count_call(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    atomic_fetch_add(&handled, 1);
    return HF_ACK;
}

static int count_event(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int *)ctx;
    return 0;
}

static int count_letter(const hf_dead_letter *letter, void *ctx)
{
    (void)letter;
    ++*(int *)ctx;
    return 0;
}

static int ignore_info(const hf_subscription_info *info, void *ctx)
{
    (void)info;
    (void)ctx;
    return 0;
}

static void tell(const char *what, hf_status status)
{
    diary_write(diary, "%s %s", what, hf_status_name(status));
    if (status) {
        diary_write(diary, "# %s: %s", what, hf_errmsg());
    }
}

static hf_status publish_large(hf_bus *bus)
{
    static char payload[16384];
    hf_new_event event = HF_NEW_EVENT_INIT;

    memset(payload, ' ', sizeof payload - 1);
    payload[0] = '1';
    event.type = "x";
    event.payload = payload;
    return hf_publish(bus, &event, NULL);
}

/* Opens the bus with an ordered handler, a shared claim of 3 and a dead letter. */
static hf_bus *prepare(const char *url, hf_batch **ret_batch)
{
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"*"};
    hf_batch *dead = NULL;
    hf_bus *bus = NULL;
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_options patient = HF_OPTIONS_INIT;

    patient.timeout_ms = DEADLINE_MS; /* that there is no space is known before */
    if (hf_open(url, &patient, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", count_call, NULL, &options, NULL) != HF_OK) {
        return NULL;
    }
    options.mode = HF_MODE_SHARED;
    if (hf_subscription_create(bus, "s", patterns, 1, &options, NULL) != HF_OK) {
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        if (publish_large(bus) != HF_OK) {
            return NULL;
        }
    }
    claim.max = 1;
    if (hf_claim(bus, "s", &claim, &dead) != HF_OK ||
        hf_bury(bus, "s", hf_batch_lease(dead), NULL, 0, "no") != HF_OK) {
        return NULL;
    }
    hf_batch_free(dead);
    claim.max = 3;
    if (hf_claim(bus, "s", &claim, ret_batch) != HF_OK || hf_batch_count(*ret_batch) != 3) {
        return NULL;
    }
    return bus;
}

/* Publishes until it fails; how many were acknowledged. */
static int fill(hf_bus *bus)
{
    int acknowledged = 4;
    int64_t begin_us = 0;
    hf_status status = HF_OK;

    for (int i = 0; i < 5000 && status == HF_OK; i++) {
        begin_us = mono_us();
        status = publish_large(bus);
        acknowledged += status == HF_OK;
    }
    diary_write(diary, "took_ms %lld", (long long)(mono_us() - begin_us) / 1000);
    tell("publish", status);
    tell("again", publish_large(bus));
    return acknowledged;
}

/* What must work while there is no space, and afterwards when free() has made some. */
static int try_without_space(hf_bus *bus, hf_batch *batch, void (*make_space)(void))
{
    int acknowledged = fill(bus);
    int seen = 0, letters = 0;
    int64_t cursor = 0, end_us;
    hf_status status;

    tell("read", hf_read(bus, NULL, 100000, 0, &cursor, count_event, &seen));
    diary_write(diary, "seen %d", seen - acknowledged);
    tell("ack", hf_ack(bus, "s", hf_batch_lease(batch), NULL, 0));
    tell("dead_list", hf_dead_list(bus, NULL, count_letter, &letters));
    diary_write(diary, "letters %d", letters);
    tell("get", hf_subscription_get(bus, "a", ignore_info, NULL));
    tell("start", hf_start(bus));
    tell("deliver", hf_wait(bus, "a", -1, DEADLINE_MS));
    diary_write(diary, "handled %d", atomic_load(&handled) - acknowledged);
    make_space();
    end_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    do {
        status = publish_large(bus);
    } while (status && mono_us() < end_us);
    tell("resumed", status);
    tell("deliver_again", hf_wait(bus, "a", -1, DEADLINE_MS));
    diary_write(diary, "handled_again %d", atomic_load(&handled) - acknowledged - 1);
    hf_batch_free(batch);
    tell("close", hf_close(&bus));
    return 0;
}

static void lift_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* limit URL DIARY: files may not grow beyond 4 MiB. */
static int with_limit(int argc, char **argv)
{
    struct rlimit limit;
    hf_batch *batch = NULL;
    hf_bus *bus;

    if (argc < 2) {
        return 2;
    }
    diary = argv[1];
    signal(SIGXFSZ, SIG_IGN);
    bus = prepare(argv[0], &batch);
    if (!bus) {
        return 3;
    }
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 4 << 20;
    setrlimit(RLIMIT_FSIZE, &limit);
    return try_without_space(bus, batch, lift_limit);
}

static char ballast[600];

static void throw_ballast(void)
{
    unlink(ballast);
}

/* A file system that only this process sees. False: it may not. */
static bool mount_disk(const char *dir, const char *size)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", dir, "tmpfs", 0, size) == 0;
}

/* mount DIR DIARY: a file system of 8 MiB of which 2 MiB are taken. */
static int with_small_disk(int argc, char **argv)
{
    char url[600];
    hf_batch *batch = NULL;
    hf_bus *bus;
    int fd;

    if (argc < 2) {
        return 2;
    }
    diary = argv[1];
    if (!mount_disk(argv[0], "size=8m")) {
        return SKIPPED;
    }
    snprintf(ballast, sizeof ballast, "%s/ballast", argv[0]);
    fd = open(ballast, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, 2 << 20) != 0) {
        return 3;
    }
    close(fd);
    snprintf(url, sizeof url, "sqlite:%s/bus.db", argv[0]);
    bus = prepare(url, &batch);
    if (!bus) {
        return 4;
    }
    return try_without_space(bus, batch, throw_ballast);
}

static int tell_disk(const char *name, const char *value, hf_log_level level, const char *advice,
                     void *ctx)
{
    (void)ctx;
    if (strcmp(name, "disk_free_bytes") == 0) {
        diary_write(diary, "disk %s%s", level == HF_LOG_WARN ? "low" : "enough",
                    (level == HF_LOG_WARN) == (advice != NULL) && value[0] >= '1' ? "" : "?");
    }
    return 0;
}

/* shrink DIR DIARY: a file system of 1 GiB (of memory that is not used), then of 64 MiB. */
static int with_shrinking_disk(int argc, char **argv)
{
    char url[600];
    hf_bus *bus;

    if (argc < 2) {
        return 2;
    }
    diary = argv[1];
    if (!mount_disk(argv[0], "size=1g")) {
        return SKIPPED;
    }
    snprintf(url, sizeof url, "sqlite:%s/bus.db", argv[0]);
    if (hf_open(url, NULL, &bus) != HF_OK) {
        return 3;
    }
    tell("doctor", hf_doctor(bus, tell_disk, NULL));
    if (mount("none", argv[0], "tmpfs", MS_REMOUNT, "size=64m") != 0) {
        return 4;
    }
    tell("doctor_again", hf_doctor(bus, tell_disk, NULL));
    tell("close", hf_close(&bus));
    return 0;
}

static void show_diary(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[1024];

    while (file && fgets(line, sizeof line, file)) {
        print_message("#   %s", line);
    }
    if (file) {
        fclose(file);
    }
}

static void expect_line(const char *path, const char *line)
{
    if (diary_count(path, line) != 1) {
        show_diary(path);
        fail_msg("no line \"%.60s\"", line);
    }
}

static void expect_no_space(const char *path)
{
    expect_line(path, "publish HF_NOSPACE\n");
    expect_line(path, "again HF_NOSPACE\n");
    assert_in_range(diary_number(path, "took_ms ", 0), 0, DEADLINE_MS / 2);
    expect_line(path, "read HF_OK\n");
    expect_line(path, "seen 0\n");
    expect_line(path, "ack HF_OK\n");
    expect_line(path, "dead_list HF_OK\n");
    expect_line(path, "letters 1\n");
    expect_line(path, "get HF_OK\n");
    expect_line(path, "start HF_OK\n");
    expect_line(path, "deliver HF_OK\n");
    expect_line(path, "handled 0\n");
    expect_line(path, "resumed HF_OK\n");
    expect_line(path, "deliver_again HF_OK\n");
    expect_line(path, "handled_again 0\n");
    expect_line(path, "close HF_OK\n");
}

static void a_file_size_limit_is_no_space_and_settling_goes_on(void **state)
{
    struct scene *scene = *state;
    char path[512];

    scene_sqlite(scene);
    snprintf(path, sizeof path, "%s", scene_file(scene, "diary"));
    assert_int_equal(actor_wait(actor_start("limit", scene->url, path, NULL)), 0);
    expect_no_space(path);
}

/* Plays a part on a disk of its own. */
static void act_on_disk(struct scene *scene, const char *part, const char *path)
{
    char dir[512];
    int status;

    snprintf(dir, sizeof dir, "%s", scene_file(scene, "disk"));
    assert_int_equal(mkdir(dir, 0700), 0);
    status = actor_wait(actor_start(part, dir, path, NULL));
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        skip();
    } /* mounting needs root */
    assert_int_equal(status, 0);
}

static void a_full_disk_is_no_space_and_settling_goes_on(void **state)
{
    struct scene *scene = *state;
    char path[512];

    snprintf(path, sizeof path, "%s", scene_file(scene, "diary"));
    act_on_disk(scene, "mount", path);
    expect_no_space(path);
}

static void the_doctor_warns_of_a_disk_that_is_nearly_full(void **state)
{
    struct scene *scene = *state;
    char path[512];

    snprintf(path, sizeof path, "%s", scene_file(scene, "diary"));
    act_on_disk(scene, "shrink", path);
    expect_line(path, "disk enough\n");
    expect_line(path, "disk low\n");
    expect_line(path, "close HF_OK\n");
}

/* ---- Files that are not good ----------------------------------------------------------------- */

static void overwrite(const char *path, off_t from, int byte, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char page[4096];

    assert_true(fd >= 0);
    memset(page, byte, sizeof page);
    for (size_t done = 0; done < bytes; done += sizeof page) {
        assert_int_equal(pwrite(fd, page, sizeof page, from + (off_t)done), sizeof page);
    }
    close(fd);
}

static void a_file_that_is_no_database_is_corrupt(void **state)
{
    struct scene *scene = *state;

    overwrite(scene_sqlite(scene), 0, 'x', 8192);
    assert_status(hf_open(scene->url, NULL, &scene->bus), HF_CORRUPT);
    assert_null(scene->bus);
    assert_int_not_equal(hf_errmsg()[0], 0);
}

static void damaged_pages_are_reported_and_not_delivered(void **state)
{
    struct scene *scene = *state;
    struct stat info;
    hf_status status;
    int64_t cursor = 0;
    int seen = 0;

    scene_sqlite(scene);
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "x", NULL, "\"a payload of some bytes\"");
    }
    assert_ok(hf_close(&scene->bus));
    assert_int_equal(stat(scene_sqlite(scene), &info), 0);
    overwrite(scene_sqlite(scene), 4096, 0xff, (size_t)(info.st_size - 4096) / 4096 * 4096);
    status = hf_open(scene->url, &scene->options, &scene->bus);
    if (!status) {
        status = hf_read(scene->bus, NULL, 1000, 0, &cursor, count_event, &seen);
    }
    assert_status(status, HF_CORRUPT);
    assert_int_equal(seen, 0);
}

static void a_newer_schema_is_refused(void **state)
{
    struct scene *scene = *state;
    sqlite3 *db = NULL;

    scene_sqlite(scene);
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_close(&scene->bus));
    assert_int_equal(sqlite3_open(scene_sqlite(scene), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE holdfast_meta SET value = '999' "
                                  "WHERE name IN ('schema_version', 'programs_from')",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 2);
    sqlite3_close(db);
    assert_status(hf_open(scene->url, NULL, &scene->bus), HF_SCHEMA);
    assert_null(scene->bus);
    assert_non_null(strstr(hf_errmsg(), "999"));
}

static void an_applications_own_file_is_joined_and_its_tables_are_left_alone(void **state)
{
    struct scene *scene = *state;
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(scene_sqlite(scene), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA user_version = 42; PRAGMA application_id = 7;"
                                  "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_ok(hf_open(scene->url, NULL, &scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_close(&scene->bus));
    assert_int_equal(sqlite_number_in(scene_sqlite(scene),
                                      "SELECT (SELECT user_version FROM pragma_user_version) "
                                      "+ (SELECT application_id FROM pragma_application_id) "
                                      "+ (SELECT sum(a) FROM mine)"),
                     50);
}

/* denied URL DIARY: opens as a user that may not. */
static int as_another_user(int argc, char **argv)
{
    hf_bus *bus = NULL;

    if (argc < 2) {
        return 2;
    }
    diary = argv[1];
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
        return SKIPPED;
    }
    return (int)hf_open(argv[0], NULL, &bus);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void a_file_that_may_not_be_written_is_denied(void **state)
{
    char dir[] = "/tmp/holdfast-denied.XXXXXX";
    char url[120], path[100];
    hf_bus *bus = NULL;
    int status;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/bus.db", dir);
    snprintf(url, sizeof url, "sqlite:%s", path);
    assert_ok(hf_open(url, NULL, &bus));
    assert_ok(hf_close(&bus));
    chmod(path, 0444);
    chmod(dir, 0555);
    status = actor_wait(actor_start("denied", url, path, NULL));
    chmod(dir, 0700);
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    assert_true(WIFEXITED(status));
    assert_status((hf_status)WEXITSTATUS(status), HF_DENIED);
}

static void a_missing_database_or_directory_cannot_be_opened(void **state)
{
    struct scene *scene = *state;
    hf_options options = HF_OPTIONS_INIT;
    char url[600];
    hf_status status;

    options.open_mode = HF_OPEN_EXISTING;
    assert_status(hf_open(scene->url, &options, &scene->bus), HF_NOTFOUND);
    snprintf(url, sizeof url, "sqlite:%s/no/such/dir/bus.db", scene->dir);
    status = hf_open(url, NULL, &scene->bus);
    assert_true(status == HF_UNAVAILABLE || status == HF_NOTFOUND);
    snprintf(url, sizeof url, "sqlite:%s", scene->dir);
    status = hf_open(url, NULL, &scene->bus);
    assert_true(status == HF_UNAVAILABLE || status == HF_INVALID);
    assert_null(scene->bus);
}

/* ---- Files that change under our feet -------------------------------------------------------- */

/* An acknowledged event must be in the file that the name leads to. */
static void a_publish_into_a_removed_file_is_not_acknowledged(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    char wal[512], shm[512];

    event.type = "x";
    scene_sqlite(scene);
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    publish(scene->bus, "x", NULL, "1");
    snprintf(wal, sizeof wal, "%s-wal", scene_sqlite(scene));
    snprintf(shm, sizeof shm, "%s-shm", scene_sqlite(scene));
    unlink(scene_sqlite(scene));
    unlink(wal);
    unlink(shm);
    assert_int_not_equal(hf_publish(scene->bus, &event, NULL), HF_OK);
}

/* ---- The lock of another process ------------------------------------------------------------- */

static sqlite3 *lock_file(struct scene *scene)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(scene_sqlite(scene), &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_busy_timeout(db, 10000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void a_foreign_lock_ends_in_a_timeout_within_the_deadline(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_stats stats = {.size = sizeof stats};
    int64_t begin_us;
    hf_status status;
    sqlite3 *db;

    scene_sqlite(scene);
    event.type = "x";
    scene_close(scene, scene_open(scene, NULL)); /* makes the tables, which may take longer */
    scene->options.timeout_ms = 1500;
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    db = lock_file(scene);
    begin_us = mono_us();
    status = hf_publish(scene->bus, &event, NULL);
    assert_true(status == HF_TIMEOUT || status == HF_BUSY);
    assert_in_range(mono_us() - begin_us, 1400000, 30000000);
    sqlite3_close(db);
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.head, 0);
    publish(scene->bus, "x", NULL, "1");
}

static void *unlock_later(void *ctx)
{
    usleep(300000);
    sqlite3_close(ctx);
    return NULL;
}

static void a_foreign_lock_is_waited_for(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    pthread_t thread;
    sqlite3 *db;

    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    db = lock_file(scene);
    pthread_create(&thread, NULL, unlock_later, db);
    publish(scene->bus, "x", NULL, "1");
    pthread_join(thread, NULL);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
}

static const struct CMUnitTest tests[] = {
    bare_test(a_file_size_limit_is_no_space_and_settling_goes_on),
    bare_test(a_full_disk_is_no_space_and_settling_goes_on),
    bare_test(the_doctor_warns_of_a_disk_that_is_nearly_full),
    bare_test(a_file_that_is_no_database_is_corrupt),
    bare_test(damaged_pages_are_reported_and_not_delivered),
    bare_test(a_newer_schema_is_refused),
    bare_test(an_applications_own_file_is_joined_and_its_tables_are_left_alone),
    bare_test(a_file_that_may_not_be_written_is_denied),
    bare_test(a_missing_database_or_directory_cannot_be_opened),
    bare_test(a_publish_into_a_removed_file_is_not_acknowledged),
    bare_test(a_foreign_lock_ends_in_a_timeout_within_the_deadline),
    bare_test(a_foreign_lock_is_waited_for),
};

static const struct part parts[] = {
    {"limit", with_limit},
    {"mount", with_small_disk},
    {"shrink", with_shrinking_disk},
    {"denied", as_another_user},
};

ACTOR_MAIN(tests, parts)
