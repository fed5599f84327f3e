/*
 * socket_activate.c - starts a program as systemd starts a service with a socket.
 *
 *     socket_activate WHAT PROGRAM ARGS...
 *
 * WHAT is the path of a socket that listens, "any:PORT" for one of all addresses of IPv4, or one of
 * "other-pid:PATH", "two:PATH" and "deaf:PATH", which is a mistake: the variables are for another
 * process, there are two sockets, the socket does not listen.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3

static int socket_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static int socket_of_all(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)strtol(port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

/* What follows a prefix; NULL: it is not there. */
static const char *behind(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    const char *colon = strchr(what, ':');
    const char *any = behind(what, "any:");
    int fd = any ? socket_of_all(any) : socket_at(colon ? colon + 1 : what);
    char number[32];

    if (argc < 3 || fd < 0 || (!behind(what, "deaf:") && listen(fd, 16) != 0)) {
        perror(what);
        return 1;
    }
    if (fd != FIRST_FD) {
        dup2(fd, FIRST_FD);
        close(fd);
    }
    snprintf(number, sizeof number, "%d", (int)getpid() + (behind(what, "other-pid:") ? 1 : 0));
    setenv("LISTEN_PID", number, 1);
    setenv("LISTEN_FDS", behind(what, "two:") ? "2" : "1", 1);
    setenv("LISTEN_FDNAMES", "http", 1);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
