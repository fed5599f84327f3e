/*
 * notify_receiver.c - the receiving end of sd_notify: writes each message to stdout, a line each.
 *
 *     notify_receiver NAME     NAME is a path, or @name for a socket in the abstract namespace
 *
 * A first line "listens" says that messages are received from now on.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = argc == 2 ? strlen(argv[1]) : 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    char message[4096];

    if (length < 2 || length >= sizeof address.sun_path || fd < 0) {
        return 2;
    }
    memcpy(address.sun_path, argv[1], length);
    if (argv[1][0] == '@') {
        address.sun_path[0] = '\0';
    }
    if (bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) != 0) {
        perror(argv[1]);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    puts("listens");
    for (;;) {
        ssize_t count = recv(fd, message, sizeof message - 1, 0);
        if (count < 0) {
            return 1;
        }
        message[count] = '\0';
        for (char *at = message; *at; at++) {
            *at = *at == '\n' ? ' ' : *at;
        }
        puts(message);
    }
}
