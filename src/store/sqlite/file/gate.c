/*
 * gate.c - the lock that every writer of the file takes first. See gate.h.
 *
 * Why there is a gate at all: SQLite from 3.7.0 to 3.51.2 can corrupt a WAL database when one
 * connection checkpoints while another restarts the log. Under the gate no connection does the one
 * while another does the other. It also gives what SQLite's own lock lacks: fair waiting, and a
 * deadline that does not depend on luck.
 *
 * Two levels. Threads of this store queue in memory: gate_give hands the gate to the one that has
 * waited longest. That one then takes the lock in the file, against other stores and processes,
 * with two locks on two bytes of the file:
 *
 *     take the turnstile -> take the gate -> let the turnstile go
 *
 * The thread that stands in the turnstile is next; a store that gives the gate and wants it again
 * at once queues behind it. The locks are OFD locks: they belong to the open file description, so
 * they work between two stores of one process, and they go with the process however it ends. The
 * kernel has no timed wait for them, so we try and sleep in turns, briefly: a commit takes longer
 * than a sleep.
 *
 * A third byte is the door, for stores that open without the gate because its holder keeps it for
 * long. A holder that counts which stores have a namespace open, and then closes that to others,
 * locks the door from before it counts until its commit. A store that opens beside the gate first
 * shows that it is there (its live file), waits until the door is not locked, and then looks again
 * whether it may open the namespace: it was counted, or it sees what was committed.
 *
 * If the gate file is deleted, or another moved over it, later processes would lock another
 * file of the same name; so after locking we look whether ours still has a name, and open it again
 * if not. (A look at the descriptor costs less than one at the path, and every commit pays for it.)
 *
 * In a forked child the descriptor is closed; the lock is the parent's and stays with it.
 */
#include "store/sqlite/file/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/point.h"
#include "base/thread.h"
#include "store/sqlite/file/files.h"

#define GATE_BYTE 0
#define TURNSTILE_BYTE 1
#define DOOR_BYTE 2
#define SLEEP_MIN_US 20
#define SLEEP_MAX_US 500
#define REOPEN_MAX 100 /* of one gate_take, while the file is deleted again and again */

/* A thread that waits in memory. Lives on that thread's stack. */
struct gate_waiter {
    struct gate_waiter *next;
    bool granted;
};

static hf_status gate_open_file(struct gate *gate)
{
    return files_open(gate->files, gate->files->gate, FILES_REFUSE, &gate->fd);
}

hf_status gate_open(struct gate *gate, const struct files *files)
{
    memset(gate, 0, sizeof *gate);
    gate->files = files;
    gate->fd = -1;
    hf_status status = mutex_init(&gate->mutex);
    if (status) {
        return status;
    }
    status = cond_init(&gate->cond);
    if (status) {
        pthread_mutex_destroy(&gate->mutex);
        return status;
    }
    status = gate_open_file(gate);
    if (status) {
        pthread_cond_destroy(&gate->cond);
        pthread_mutex_destroy(&gate->mutex);
    }
    return status;
}

void gate_close(struct gate *gate)
{
    if (gate->fd >= 0) {
        close(gate->fd);
        gate->fd = -1;
    }
    pthread_cond_destroy(&gate->cond);
    pthread_mutex_destroy(&gate->mutex);
}

void gate_abandon(struct gate *gate)
{
    if (gate->fd >= 0) {
        close(gate->fd);
        gate->fd = -1;
    }
}

/* ---- The lock in the file -------------------------------------------------------------------- */

static hf_status gate_wait_byte(struct gate *gate, off_t byte, struct deadline deadline)
{
    int64_t sleep_us = SLEEP_MIN_US;
    while (!files_lock_bytes(gate->fd, byte, 1, F_WRLCK)) {
        if (errno != EAGAIN && errno != EACCES) {
            return fail(HF_IO, "cannot lock %s: %s", gate->files->gate, strerror(errno));
        }
        if (deadline_passed(deadline)) {
            return fail(HF_TIMEOUT, "other writers kept the database until the deadline");
        }
        nanosleep(&(struct timespec){.tv_nsec = sleep_us * 1000}, NULL);
        sleep_us = sleep_us * 2 > SLEEP_MAX_US ? SLEEP_MAX_US : sleep_us * 2;
    }
    return HF_OK;
}

static hf_status gate_pass(struct gate *gate, struct deadline deadline)
{
    hf_status status = HF_OK;
    /* Both at once, if no other store waits: one system call less for every commit. */
    if (!files_lock_bytes(gate->fd, GATE_BYTE, TURNSTILE_BYTE - GATE_BYTE + 1, F_WRLCK)) {
        status = gate_wait_byte(gate, TURNSTILE_BYTE, deadline);
        if (status) {
            return status;
        }
        status = gate_wait_byte(gate, GATE_BYTE, deadline);
    }
    files_lock_bytes(gate->fd, TURNSTILE_BYTE, 1, F_UNLCK);
    return status;
}

static hf_status gate_lock_file(struct gate *gate, struct deadline deadline)
{
    for (int i = 0; i < REOPEN_MAX; i++) {
        hf_status status = gate_pass(gate, deadline);
        if (status) {
            return status;
        }
        struct stat found;
        if (fstat(gate->fd, &found) == 0 && found.st_nlink > 0) {
            return HF_OK;
        }
        close(gate->fd);
        gate->fd = -1;
        status = gate_open_file(gate);
        if (status) {
            return status;
        }
    }
    return fail(HF_UNAVAILABLE, "%s is deleted again and again", gate->files->gate);
}

/* ---- The queue in memory --------------------------------------------------------------------- */

static void gate_unlink(struct gate *gate, struct gate_waiter *waiter)
{
    struct gate_waiter *before = NULL;
    struct gate_waiter *at = gate->first;
    while (at != waiter) {
        before = at;
        at = at->next;
    }
    if (before) {
        before->next = waiter->next;
    } else {
        gate->first = waiter->next;
    }
    if (gate->last == waiter) {
        gate->last = before;
    }
}

/* Gives the gate to the longest waiting thread, if there is one. The mutex is held. */
static void gate_pass_on(struct gate *gate)
{
    struct gate_waiter *next = gate->first;
    gate->owned = false;
    if (!next) {
        gate->held = false;
        return;
    }
    gate_unlink(gate, next);
    next->granted = true;
    pthread_cond_broadcast(&gate->cond);
}

static void gate_link(struct gate *gate, struct gate_waiter *waiter)
{
    if (gate->last) {
        gate->last->next = waiter;
    } else {
        gate->first = waiter;
    }
    gate->last = waiter;
}

static hf_status gate_queue(struct gate *gate, struct deadline deadline)
{
    struct gate_waiter self = {0};
    pthread_mutex_lock(&gate->mutex);
    if (!gate->held) {
        gate->held = true;
        pthread_mutex_unlock(&gate->mutex);
        return HF_OK;
    }
    gate_link(gate, &self);
    bool in_time = true;
    while (!self.granted && in_time) {
        in_time = cond_wait_until(&gate->cond, &gate->mutex, deadline);
    }
    bool granted = self.granted;
    if (!granted) {
        gate_unlink(gate, &self);
    }
    pthread_mutex_unlock(&gate->mutex);
    if (!granted) {
        return fail(HF_TIMEOUT, "other threads kept the database until the deadline");
    }
    return HF_OK;
}

hf_status gate_take(struct gate *gate, struct deadline deadline)
{
    hf_status status = gate_queue(gate, deadline);
    if (status) {
        return status;
    }
    if (gate->fd < 0) {
        status = gate_open_file(gate);
    }
    if (!status) {
        status = gate_lock_file(gate, deadline);
    }
    pthread_mutex_lock(&gate->mutex);
    if (!status) {
        gate->owner = pthread_self();
        gate->owned = true;
    } else {
        gate_pass_on(gate);
    }
    pthread_mutex_unlock(&gate->mutex);
    return status;
}

hf_status gate_lock_door(struct gate *gate)
{
    if (!files_lock_bytes(gate->fd, DOOR_BYTE, 1, F_WRLCK)) {
        return fail(HF_IO, "cannot lock %s: %s", gate->files->gate, strerror(errno));
    }
    gate->door_locked = true;
    return HF_OK;
}

bool gate_await_door(struct gate *gate, struct deadline deadline)
{
    struct stat found;
    for (;;) {
        struct flock lock = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = DOOR_BYTE, .l_len = 1};
        if (fcntl(gate->fd, F_OFD_GETLK, &lock) != 0 || fstat(gate->fd, &found) != 0 ||
            found.st_nlink == 0) {
            return false; /* others may use another file */
        }
        if (lock.l_type == F_UNLCK) {
            return true;
        }
        HF_POINT("door_is_locked");
        if (deadline_passed(deadline)) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MAX_US * 1000}, NULL);
    }
}

void gate_give(struct gate *gate)
{
    if (gate->door_locked) {
        gate->door_locked = false;
        files_lock_bytes(gate->fd, DOOR_BYTE, 1, F_UNLCK);
    }
    files_lock_bytes(gate->fd, GATE_BYTE, 1, F_UNLCK);
    pthread_mutex_lock(&gate->mutex);
    gate_pass_on(gate);
    pthread_mutex_unlock(&gate->mutex);
}

bool gate_held_by_caller(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    bool held = gate->owned && pthread_equal(gate->owner, pthread_self());
    pthread_mutex_unlock(&gate->mutex);
    return held;
}
