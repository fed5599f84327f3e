/*
 * io_faults.c - system calls fail under a running bus, and no answer may be a lie.
 *
 * The program has its own pwrite, write, fdatasync, fsync, ftruncate, fallocate and pread, which
 * SQLite and the library call instead of the C library's. A child opens a bus, publishes, consumes,
 * closes and opens again, while the Nth call of one of them fails (EIO, ENOSPC, or a short write;
 * once, or for good until the fault is lifted). Then the same bus must work again by itself.
 * A fresh process recovers, and the ledger is judged: whatever was acknowledged is there, whatever
 * was refused is not.
 *
 *     io_faults [--runs 4] [--call 0..3] [--kind 0..4] [--seed N]
 *
 * --runs says how many N of each call and kind are tried; 0: every N. --call and --kind restrict it
 * to one call (write, sync, truncate, read) and one kind of fault, in the order of the tables
 * below.
 */
#include "support/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 12
#define SETTLE_MS 60000

/* ---- The calls ------------------------------------------------------------------------------- */

enum call { CALL_WRITE, CALL_SYNC, CALL_TRUNCATE, CALL_READ, CALLS };

static const char *const call_names[CALLS] = {"write", "sync", "truncate", "read"};

static atomic_bool watching; /* calls are counted */
static atomic_llong counts[CALLS];
static atomic_int faulty_call;   /* which; -1: none */
static atomic_llong faulty_from; /* the number of the first call that fails */
static atomic_bool faulty_sticky;
static atomic_int faulty_errno; /* 0: a short write */
static atomic_llong faults;

/* True if this call is to fail. */
static bool hit(enum call call)
{
    long long number;

    if (!atomic_load(&watching)) {
        return false;
    }
    number = atomic_fetch_add(&counts[call], 1) + 1;
    if ((int)call != atomic_load(&faulty_call) || number < atomic_load(&faulty_from)) {
        return false;
    }
    if (!atomic_load(&faulty_sticky) && number > atomic_load(&faulty_from)) {
        return false;
    }
    atomic_fetch_add(&faults, 1);
    return true;
}

#define VISIBLE __attribute__((visibility("default")))

/* The own ledgers are written through the system call, so that they never fail. */
static bool is_ledger(int fd)
{
    return (fcntl(fd, F_GETFL) & O_APPEND) != 0;
}

static ssize_t fail_write(size_t bytes, int error)
{
    errno = error;
    return error || bytes < 2 ? -1 : 0;
}

VISIBLE ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    if (hit(CALL_WRITE)) {
        int error = atomic_load(&faulty_errno);

        return error ? fail_write(bytes, error) : syscall(SYS_pwrite64, fd, data, bytes / 2, at);
    }
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

VISIBLE ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
    return pwrite(fd, data, bytes, at);
}

VISIBLE ssize_t write(int fd, const void *data, size_t bytes)
{
    if (fd > 2 && !is_ledger(fd) && hit(CALL_WRITE)) {
        int error = atomic_load(&faulty_errno);

        return error ? fail_write(bytes, error) : syscall(SYS_write, fd, data, bytes / 2);
    }
    return syscall(SYS_write, fd, data, bytes);
}

static int fault(enum call call)
{
    if (!hit(call)) {
        return 0;
    }
    errno = atomic_load(&faulty_errno) ? atomic_load(&faulty_errno) : EIO;
    return -1;
}

VISIBLE int fdatasync(int fd)
{
    return fault(CALL_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

VISIBLE int fsync(int fd)
{
    return fault(CALL_SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

VISIBLE int ftruncate(int fd, off_t bytes)
{
    return fault(CALL_TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

VISIBLE int ftruncate64(int fd, off64_t bytes)
{
    return ftruncate(fd, bytes);
}

VISIBLE int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    return fault(CALL_TRUNCATE) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

VISIBLE int posix_fallocate(int fd, off_t at, off_t bytes)
{
    if (fault(CALL_TRUNCATE)) {
        return errno;
    }
    return syscall(SYS_fallocate, fd, 0, at, bytes) == 0 ? 0 : errno;
}

VISIBLE ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    return fault(CALL_READ) ? -1 : syscall(SYS_pread64, fd, data, bytes, at);
}

VISIBLE ssize_t pread64(int fd, void *data, size_t bytes, off64_t at)
{
    return pread(fd, data, bytes, at);
}

/* ---- The script ------------------------------------------------------------------------------ */

/* The bus must work again when the fault is over: a publish is acknowledged, all is settled. */
static hf_status works_again(struct publisher *publisher, hf_bus *consumer)
{
    int64_t end_us = rig_mono_us() + SETTLE_MS * 1000;
    hf_status status;

    do {
        status = publisher_step(publisher);
    } while (status && rig_mono_us() < end_us);
    return status == HF_OK ? workload_settled(consumer, SETTLE_MS) : status;
}

static void write_counts(const char *dir)
{
    char path[RIG_PATH_BYTES + 32];
    int fd;

    snprintf(path, sizeof path, "%s/counts", dir);
    fd = rig_append_open(path);
    for (int i = 0; i < CALLS; i++) {
        rig_append(fd, "%lld", (long long)atomic_load(&counts[i]));
    }
    rig_append(fd, "%lld", (long long)atomic_load(&faults));
    close(fd);
}

/* A settle or a commit that failed explains that something comes again. */
static void explain(const struct workload *workload)
{
    int fd = rig_append_open(workload->consumers);

    rig_append(fd, "K %d", (int)getpid());
    close(fd);
}

static void lift(void)
{
    atomic_store(&watching, false);
    atomic_store(&faulty_call, -1);
}

/* Opens both; if the fault forbids it, it is lifted and then it must work. */
static hf_status open_both(struct publisher *publisher, struct consumer *consumer,
                           const struct workload *workload, uint64_t seed)
{
    hf_status status = publisher_open(publisher, workload, 0, seed);

    if (!status) {
        status = consumer_open(consumer, workload);
    }
    if (!status || atomic_load(&faults) == 0) {
        return status;
    }
    hf_close(&publisher->bus);
    hf_close(&consumer->bus);
    lift();
    status = publisher_open(publisher, workload, 0, seed);
    return status == HF_OK ? consumer_open(consumer, workload) : status;
}

static void work(struct publisher *publisher, struct consumer *consumer)
{
    publisher->poison_percent = 10;
    for (int i = 0; i < STEPS; i++) {
        publisher_step(publisher);
    }
    publisher_bulk(publisher, 45, 100000);
    publisher_step(publisher);
    if (atomic_load(&faulty_call) >= 0) {
        usleep(20000);
    } /* consumers meet the fault, too */
    else {
        workload_settled(consumer->bus, SETTLE_MS);
    }
}

/* script DIR SEED CALL FROM STICKY ERRNO */
static int script(int argc, char **argv)
{
    static struct workload workload;
    static struct publisher publisher;
    static struct consumer consumer;
    hf_status status;

    rig_child();
    if (argc < 8) {
        return 2;
    }
    workload_init(&workload, argv[2]);
    explain(&workload);
    atomic_store(&faulty_from, strtoll(argv[5], NULL, 10));
    atomic_store(&faulty_sticky, argv[6][0] == '1');
    atomic_store(&faulty_errno, (int)strtol(argv[7], NULL, 10));
    atomic_store(&faulty_call, (int)strtol(argv[4], NULL, 10));
    atomic_store(&watching, true);
    if (open_both(&publisher, &consumer, &workload, strtoull(argv[3], NULL, 10)) != HF_OK) {
        fprintf(stderr, "# cannot be opened: %s\n", hf_errmsg());
        return 3;
    }
    work(&publisher, &consumer);
    if (atomic_load(&faults) == 0) {
        /* It waits for the closing, or for opening again. */
        consumer_close(&consumer);
        publisher_close(&publisher);
        if (open_both(&publisher, &consumer, &workload, strtoull(argv[3], NULL, 10) + 1) != HF_OK) {
            return 3;
        }
    }
    lift();
    status = works_again(&publisher, consumer.bus);
    if (status) {
        fprintf(stderr, "# does not work again: %s: %s\n", hf_status_name(status), hf_errmsg());
        workload_tell(publisher.bus);
    }
    write_counts(argv[2]);
    if (consumer_close(&consumer) != HF_OK || publisher_close(&publisher) != HF_OK) {
        return 5;
    }
    return status == HF_OK ? 0 : 4;
}

/* ---- The runs -------------------------------------------------------------------------------- */

struct fault_kind {
    const char *name;
    int error;
    bool sticky;
};

static const struct fault_kind kinds[] = {
    {"EIO once", EIO, false},       {"EIO until lifted", EIO, true},
    {"ENOSPC once", ENOSPC, false}, {"ENOSPC until lifted", ENOSPC, true},
    {"short once", 0, false},
};

static void read_counts(const char *dir, long long *ret_counts)
{
    char path[RIG_PATH_BYTES + 32];
    FILE *file;

    snprintf(path, sizeof path, "%s/counts", dir);
    memset(ret_counts, 0, (CALLS + 1) * sizeof *ret_counts);
    file = fopen(path, "re");
    for (int i = 0; file && i <= CALLS; i++) {
        if (fscanf(file, "%lld", &ret_counts[i]) != 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
}

/* One run; true if all is well. counts gets the calls and faults. */
static bool run(uint64_t seed, int call, long long from, const struct fault_kind *kind,
                long long *ret_counts)
{
    struct workload workload;
    char dir[RIG_PATH_BYTES], text[5][24];
    int status;
    bool good;

    rig_directory(dir);
    workload_init(&workload, dir);
    snprintf(text[0], 24, "%llu", (unsigned long long)seed);
    snprintf(text[1], 24, "%d", call);
    snprintf(text[2], 24, "%lld", from);
    snprintf(text[3], 24, "%d", kind && kind->sticky);
    snprintf(text[4], 24, "%d", kind ? kind->error : 0);
    if (workload_prepare(&workload) != HF_OK) {
        return false;
    }
    status = rig_wait(rig_start("script", dir, text[0], text[1], text[2], text[3], text[4], NULL),
                      4 * SETTLE_MS);
    good = status == 0;
    if (!good) {
        rig_say("the script ended with status %d", status);
    }
    status = rig_wait(rig_start("recover", dir, NULL), 3 * SETTLE_MS);
    good &= status == 0 && workload_judge(&workload, 1, NULL) == 0;
    read_counts(dir, ret_counts);
    if (good) {
        rig_remove(dir);
    } else {
        rig_say("kept: %s", dir);
    }
    return good;
}

/* Tries `runs` numbers of one call, one from each stretch; 0: every number. */
static void torture_call(int call, const struct fault_kind *kind, long long total, long long runs,
                         struct chance *chance)
{
    long long seen[CALLS + 1], bad = 0, met = 0;

    if (runs == 0 || runs > total) {
        runs = total;
    }
    for (long long i = 0; i < runs; i++) {
        long long begin = total * i / runs, end = total * (i + 1) / runs;
        long long from = begin + 1 + (long long)chance_below(chance, (uint64_t)(end - begin));

        bad += !run(chance_next(chance), call, from, kind, seen);
        met += seen[CALLS] > 0;
    }
    rig_ok(runs > 0 && bad == 0 && met > 0,
           "faults of %s, %s, break no promise: %lld of %lld runs met one, %lld went wrong",
           call_names[call], kind->name, met, runs, bad);
}

static int torture(int argc, char **argv)
{
    long long totals[CALLS + 1];
    int64_t runs = rig_option(argc, argv, "--runs", 4);
    int64_t only_call = rig_option(argc, argv, "--call", -1);
    int64_t only_kind = rig_option(argc, argv, "--kind", -1);
    struct chance chance;

    chance_seed(&chance, rig_seed(argc, argv));
    rig_ok(run(chance_next(&chance), -1, 0, NULL, totals),
           "a run without faults breaks no promise");
    for (int call = 0; call < CALLS; call++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            if (call != CALL_WRITE && kinds[k].error != EIO) {
                continue;
            }
            if ((only_call < 0 || only_call == call) && (only_kind < 0 || only_kind == (int)k)) {
                torture_call(call, &kinds[k], totals[call], runs, &chance);
            }
        }
    }
    return rig_done();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "script") == 0) {
        return script(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], "recover") == 0) {
        return workload_recover(argc, argv, SETTLE_MS);
    }
    return torture(argc, argv);
}
