/*
 * http_receiver DIR [PORT]: a receiver of webhooks that answers as it is told, for shell tests.
 *
 * It listens on 127.0.0.1 and 127.0.0.2 (all of 127/8), writes the port into DIR/port, and keeps
 * each request as DIR/request.N, head and body. How it answers the path is the path:
 *
 *     /ok         200                      /status/NNN   that status, with a body that says so
 *     /hang       nothing                  /redirect     302 to /ok
 *     /after/N    503, Retry-After: N      /late         429, Retry-After: a date two seconds ahead
 *     /long       200, and says that it is longer than it is, then ends
 *     /trickle    200, and a byte of its body every 100 ms
 *     /flood      200, and 100 MB          /headers      headers without end
 *     /header     one header without end
 *     /dirty      500, and a body with control characters
 *     /close      200, and closes          /once         nothing the first time, then 200
 *     /slow       200 after 300 ms, and DIR/most is how many of these ran at once
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_BYTES 1048576

static const char *folder;
static atomic_int requests;
static atomic_int once;
static atomic_int running;
static atomic_int most;
static atomic_int connections;

static void nap_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static bool put(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool say(int fd, const char *text)
{
    return put(fd, text, strlen(text));
}

static void keep(const char *name, const char *bytes, size_t length)
{
    char path[4096];
    char temporary[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(temporary, sizeof temporary, "%s/.%s", folder, name);
    file = fopen(temporary, "w");
    if (file) {
        fwrite(bytes, 1, length, file);
        fclose(file);
        rename(temporary, path);
    }
}

static void keep_number(const char *name, int number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%d\n", number);
    keep(name, text, (size_t)length);
}

/* Reads one request; 0 at the end of the connection. */
static size_t take(int fd, char *bytes)
{
    size_t length = 0;
    size_t wanted = 0;

    while (length < REQUEST_BYTES - 1) {
        ssize_t got = recv(fd, bytes + length, REQUEST_BYTES - 1 - length, 0);
        if (got <= 0) {
            return 0;
        }
        length += (size_t)got;
        bytes[length] = '\0';
        char *end = strstr(bytes, "\r\n\r\n");
        if (end && wanted == 0) {
            char *size = strcasestr(bytes, "\r\ncontent-length:");
            wanted =
                (size_t)(end - bytes) + 4 + (size < end && size ? strtoul(size + 17, NULL, 10) : 0);
        }
        if (wanted && length >= wanted) {
            return wanted;
        }
    }
    return 0;
}

static bool answer_status(int fd, int status)
{
    char text[512];
    snprintf(text, sizeof text,
             "HTTP/1.1 %d Told\r\nContent-Length: 20\r\n\r\nthe body of this %03d", status, status);
    return say(fd, text);
}

static bool answer_late(int fd)
{
    char text[512];
    time_t at = time(NULL) + 2;
    struct tm parts;
    char date[64];

    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&at, &parts));
    snprintf(text, sizeof text, "HTTP/1.1 429 Late\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n",
             date);
    return say(fd, text);
}

static bool answer_without_end(int fd, const char *path)
{
    static char block[65536];

    memset(block, 'x', sizeof block);
    if (strcmp(path, "/flood") == 0 || strcmp(path, "/header") == 0) {
        say(fd, path[1] == 'f' ? "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n"
                               : "HTTP/1.1 200 OK\r\nx-more: ");
        for (int i = 0; i < 1600 && put(fd, block, sizeof block); i++) {
        }
    } else if (strcmp(path, "/headers") == 0) {
        say(fd, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 100000 && say(fd, "x-more: and more of it\r\n"); i++) {
        }
    } else {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        while (say(fd, "x")) {
            nap_ms(100);
        }
    }
    return false;
}

static bool answer_slow(int fd)
{
    int now = atomic_fetch_add(&running, 1) + 1;

    if (now > atomic_load(&most)) {
        atomic_store(&most, now);
        keep_number("most", now);
    }
    nap_ms(300);
    atomic_fetch_sub(&running, 1);
    return say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

/* False: the connection ends. */
static bool answer(int fd, const char *path)
{
    char text[512];

    if (strncmp(path, "/status/", 8) == 0) {
        return answer_status(fd, (int)strtol(path + 8, NULL, 10));
    }
    if (strncmp(path, "/after/", 7) == 0) {
        snprintf(text, sizeof text,
                 "HTTP/1.1 503 Later\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n", path + 7);
        return say(fd, text);
    }
    if (strcmp(path, "/late") == 0) {
        return answer_late(fd);
    }
    if (strcmp(path, "/redirect") == 0) {
        return say(fd, "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n");
    }
    if (strcmp(path, "/long") == 0) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort");
        return false;
    }
    if (strcmp(path, "/dirty") == 0) {
        return say(fd, "HTTP/1.1 500 No\r\nContent-Length: 15\r\n\r\na\033[2Jb\r\nc\001d e\177f");
    }
    if (strcmp(path, "/hang") == 0 ||
        (strcmp(path, "/once") == 0 && atomic_fetch_add(&once, 1) == 0)) {
        recv(fd, text, sizeof text, 0); /* until the other end is gone */
        return false;
    }
    if (strcmp(path, "/slow") == 0) {
        return answer_slow(fd);
    }
    if (strcmp(path, "/flood") == 0 || strncmp(path, "/header", 7) == 0 ||
        strcmp(path, "/trickle") == 0) {
        return answer_without_end(fd, path);
    }
    say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    return strcmp(path, "/close") != 0;
}

static void *serve(void *ctx)
{
    int fd = (int)(long)ctx;
    char *bytes = malloc(REQUEST_BYTES);
    size_t length;
    bool more = bytes != NULL;

    keep_number("connections", atomic_fetch_add(&connections, 1) + 1);
    while (more && (length = take(fd, bytes)) > 0) {
        char name[64];
        char path[256] = "";
        snprintf(name, sizeof name, "request.%d", atomic_fetch_add(&requests, 1) + 1);
        keep(name, bytes, length);
        sscanf(bytes, "POST %255s", path);
        more = answer(fd, path);
    }
    free(bytes);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (argc < 2) {
        fprintf(stderr, "usage: http_receiver DIR [PORT]\n");
        return 2;
    }
    folder = argv[1];
    signal(SIGPIPE, SIG_IGN);
    address.sin_port = htons((uint16_t)(argc > 2 ? strtol(argv[2], NULL, 10) : 0));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128) ||
        getsockname(fd, (struct sockaddr *)&address, &bytes)) {
        perror("http_receiver");
        return 1;
    }
    keep_number("port", ntohs(address.sin_port));
    for (;;) {
        pthread_t thread;
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0 && pthread_create(&thread, NULL, serve, (void *)(long)client) == 0) {
            pthread_detach(thread);
        }
    }
}
