/*
 * screen.c - takes the terminal over and gives it back. See screen.h.
 *
 * What signal handlers do is allowed by signal-safety(7): tcsetattr and write. The settings that
 * the terminal had are saved once, before anything is changed, so a handler finds them whole.
 */
#include "cli/terminal/screen.h"

#include "base/banned.h"
#include "cli/terminal/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Another screen, without a cursor, whose lines are cut at the right end and not continued. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct termios saved;
static volatile sig_atomic_t taken;   /* the terminal is ours now */
static volatile sig_atomic_t stopped; /* a signal has asked the command to end */

static void say(const char *codes)
{
    ssize_t written = write(STDOUT_FILENO, codes, strlen(codes));
    (void)written; /* the terminal is gone: nothing is left to give back */
}

static void take(void)
{
    struct termios raw = saved;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    say(ENTER);
    taken = 1;
}

static void give_back(void)
{
    if (taken) {
        taken = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
        say(LEAVE);
    }
}

/* Does what the signal does by default. */
static void let_happen(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t this;

    sigaction(number, &action, NULL);
    sigemptyset(&this);
    sigaddset(&this, number);
    pthread_sigmask(SIG_UNBLOCK, &this, NULL);
    raise(number);
}

static void on_end(int number)
{
    if (!stopped) {
        stopped = 1;
        stop_request();
        return;
    }
    give_back();
    let_happen(number);
}

static void on_fatal(int number)
{
    give_back();
    let_happen(number);
}

static void on_resize(int number)
{
    (void)number; /* ends the poll */
}

static void catch (int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}; /* not of poll */

    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Ctrl-Z: the shell gets its terminal back, and we take it again when we go on. */
static void on_pause(int number)
{
    int error = errno;
    bool had = taken;

    give_back();
    let_happen(number);
    catch (number, on_pause);
    if (had) {
        take();
    }
    errno = error;
}

bool screen_possible(void)
{
    const char *term = getenv("TERM");

    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
           strcmp(term, "dumb") != 0;
}

bool screen_open(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    static const int fatal[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

    if (tcgetattr(STDIN_FILENO, &saved) != 0) {
        return false;
    }
    stop_catch(); /* makes the descriptor that a request is seen by */
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        catch (ends[i], on_end);
    }
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        catch (fatal[i], on_fatal);
    }
    catch (SIGTSTP, on_pause);
    catch (SIGWINCH, on_resize);
    take();
    return true;
}

void screen_close(void)
{
    give_back();
}

struct screen_size screen_size(void)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
        return (struct screen_size){80, 24};
    }
    return (struct screen_size){size.ws_col, size.ws_row};
}

int screen_key(int64_t ms)
{
    unsigned char key = 0;
    bool readable = stop_wait(STDIN_FILENO, ms);

    if (readable && read(STDIN_FILENO, &key, 1) != 1) {
        stop_request(); /* the terminal is gone */
    }
    return key;
}
