/*
 * notify.c - see notify.h.
 */
#include "server/notify.h"

#include "base/banned.h"
#include "base/text/json_read.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_BYTES 2048

static struct {
    int fd; /* -1: nothing is sent */
    int64_t watchdog_ms;
} notify = {.fd = -1};

int64_t notify_variable(const char *name)
{
    const char *text = getenv(name);
    int64_t number;

    return text && json_int_decode(text_of(text), &number) == HF_OK ? number : -1;
}

static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    int fd;

    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void notify_begin(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    int64_t watchdog_us = notify_variable("WATCHDOG_USEC");
    int64_t watchdog_pid = notify_variable("WATCHDOG_PID");

    notify.fd = name ? connect_to(name) : -1;
    if (notify.fd >= 0 && watchdog_us > 0 && (watchdog_pid < 0 || watchdog_pid == getpid())) {
        notify.watchdog_ms = watchdog_us / 1000 > 0 ? watchdog_us / 1000 : 1;
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

int64_t notify_watchdog_ms(void)
{
    return notify.watchdog_ms;
}

void notify_send(const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list list;

    if (notify.fd < 0) {
        return;
    }
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    for (char *at = message; *at; at++) {
        if (iscntrl((unsigned char)*at) && *at != '\n') {
            *at = ' ';
        }
    }
    if (send(notify.fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        /* The next message may get through. */
    }
}
