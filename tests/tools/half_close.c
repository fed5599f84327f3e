/*
 * half_close PORT SECONDS: a client that sends its standard input to 127.0.0.1, closes its sending
 * side together with the last byte, and prints what comes back.
 *
 * It exits with 0 if the server closes the connection within so many seconds, and else with 1.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_BYTES 65536

static int connect_to(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((unsigned short)strtol(port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

int main(int argc, char **argv)
{
    static char bytes[REQUEST_BYTES];
    int fd = argc == 3 ? connect_to(argv[1]) : -1;
    time_t end = time(NULL) + (argc == 3 ? strtol(argv[2], NULL, 10) : 0);
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    size_t length = fread(bytes, 1, sizeof bytes, stdin);

    /* MSG_MORE holds the bytes back, so that the end leaves in the same packet. */
    if (fd < 0 || send(fd, bytes, length, MSG_MORE) != (ssize_t)length ||
        shutdown(fd, SHUT_WR) != 0) {
        perror("half_close");
        return 1;
    }
    while (time(NULL) <= end) {
        ssize_t count = poll(&answer, 1, 100) > 0 ? read(fd, bytes, sizeof bytes) : 1;
        if (count <= 0) {
            return 0;
        }
        if (answer.revents & POLLIN) {
            fwrite(bytes, 1, (size_t)count, stdout);
            fflush(stdout);
        }
    }
    return 1;
}
