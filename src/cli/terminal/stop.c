/*
 * stop.c - the signal handler and the eventfd it writes to.
 *
 * The handlers do only what signal-safety(7) allows: they read the clock, count, write eight bytes,
 * set the alarm, or let a signal do what it does by default. Threads of the bus block all signals,
 * so handlers run on the main thread.
 */
#include "cli/terminal/stop.h"

#include "base/banned.h"
#include "base/time/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

static atomic_bool requested;
static _Atomic int64_t signalled_us; /* monotonic, of the first signal; 0: none has come */
static atomic_int first_signal;
static atomic_bool only_reads;
static atomic_bool only_reloads; /* SIGHUP */
static int wake_fd = -1;
static int reload_fd = -1; /* readable when a reload was requested */

static void wake(int fd)
{
    uint64_t one = 1;
    int saved = errno;

    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* The counter is full: it is readable anyway. */
    }
    errno = saved;
}

void stop_request(void)
{
    atomic_store(&requested, true);
    wake(wake_fd);
}

/* Ends the process as the signal does that nothing catches. */
static void end_by(int signal)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t this;

    sigaction(signal, &action, NULL);
    sigemptyset(&this);
    sigaddset(&this, signal);
    pthread_sigmask(SIG_UNBLOCK, &this, NULL);
    raise(signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int64_t now_us = clock_mono_us();
    int64_t first_us = 0;

    (void)context;
    if (signal == SIGHUP && atomic_load(&only_reloads) && info->si_code != SI_KERNEL) {
        wake(reload_fd);
        return;
    }
    if (atomic_compare_exchange_strong(&signalled_us, &first_us, now_us)) {
        atomic_store(&first_signal, signal);
        stop_request();
        if (atomic_load(&only_reads)) {
            alarm(STOP_READER_S);
        }
        return;
    }
    if (info->si_code != SI_KERNEL && now_us - first_us < STOP_TWICE_MS * INT64_C(1000)) {
        return;
    }
    end_by(signal);
}

static void on_alarm(int signal)
{
    (void)signal;
    end_by(atomic_load(&first_signal));
}

void stop_catch(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};

    if (wake_fd < 0) {
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        struct sigaction before;
        /* Under nohup, or in the background of a script, the signal is ignored on purpose. */
        if (sigaction(caught[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN &&
            caught[i] != SIGTERM) {
            continue;
        }
        sigaction(caught[i], &action, NULL);
    }
}

void stop_catch_reader(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    atomic_store(&only_reads, true);
    stop_catch();
}

void stop_catch_service(void)
{
    reload_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&only_reloads, true);
    stop_catch();
}

bool stop_take_reload(void)
{
    uint64_t count;

    return reload_fd >= 0 && read(reload_fd, &count, sizeof count) == (ssize_t)sizeof count;
}

bool stop_requested(void)
{
    return atomic_load(&requested);
}

int stop_fd(void)
{
    return wake_fd;
}

bool stop_wait(int fd, int64_t ms)
{
    struct pollfd fds[3] = {{.fd = wake_fd, .events = POLLIN},
                            {.fd = fd, .events = POLLIN},
                            {.fd = reload_fd, .events = POLLIN}};

    if (stop_requested()) {
        return false;
    }
    return poll(fds, 3, ms < 0 || ms > 3600000 ? 3600000 : (int)ms) > 0 && fds[1].revents != 0;
}
