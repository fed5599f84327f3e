/*
 * sse_clients SOCKET CLIENTS RATE SECONDS: many clients of GET /v1/stream, for shell tests.
 *
 * Connects CLIENTS times to the server at the unix socket, publishes RATE events a second for
 * SECONDS on another connection, and prints how many events there were, how many each client got
 * (fewest and most), how many of these were out of order, and how long they were under way: from
 * before the request that published one to the moment when a client has read it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 100000 /* of 0.1 ms */
#define MARK "{\"t\":"
#define KEPT 64 /* bytes at the end of what was read, in which a mark may begin */
#define QUIET_MS 3000

struct client {
    int fd;
    bool greeted;
    int64_t last;
    long got;
    char kept[KEPT];
    size_t kept_length;
};

static const char *socket_path;
static long rate;
static long seconds;
static atomic_long published;
static atomic_bool ended;
static long buckets[BUCKETS];
static long total;
static long disorder;

static int64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
        usleep(1000); /* the queue of those that connect is full */
    }
    if (fd < 0) {
        die("socket");
    }
    return fd;
}

static void *publish(void *ctx)
{
    int fd = dial();
    int64_t begun = now_us();
    char bytes[4096];

    for (long i = 0; i < rate * seconds; i++) {
        int64_t due = begun + i * 1000000 / rate;
        char body[64];
        while (now_us() < due) {
            usleep(200);
        }
        int length = snprintf(body, sizeof body, "{\"type\":\"t\",\"payload\":" MARK "%lld}}",
                              (long long)now_us());
        dprintf(fd, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
                length, body);
        if (read(fd, bytes, sizeof bytes) < 12 || memcmp(bytes + 9, "201", 3) != 0) {
            fprintf(stderr, "not published: %.200s\n", bytes);
            exit(1);
        }
        atomic_fetch_add(&published, 1);
    }
    close(fd);
    atomic_store(&ended, true);
    return ctx;
}

static void count(struct client *client, int64_t sent, int64_t now)
{
    long bucket = (now - sent) / 100;
    buckets[bucket < 0 ? 0 : bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    disorder += sent <= client->last;
    client->last = sent;
    client->got++;
    total++;
}

/* Counts the marks that are there as a whole, and keeps what may be the beginning of another. */
static void see(struct client *client, const char *bytes, size_t length, int64_t now)
{
    const char *at = bytes;
    const char *end = bytes + length;
    const char *done = bytes;

    while ((at = memmem(at, (size_t)(end - at), MARK, strlen(MARK)))) {
        const char *brace = memchr(at, '}', (size_t)(end - at));
        if (!brace) {
            break;
        }
        count(client, strtoll(at + strlen(MARK), NULL, 10), now);
        at = done = brace;
    }
    client->kept_length = (size_t)(end - done) < KEPT ? (size_t)(end - done) : KEPT;
    memcpy(client->kept, end - client->kept_length, client->kept_length);
}

static void take(struct client *client)
{
    char bytes[KEPT + 65536];
    ssize_t got;

    memcpy(bytes, client->kept, client->kept_length);
    got = read(client->fd, bytes + client->kept_length, sizeof bytes - KEPT - 1);
    if (got <= 0) {
        fprintf(stderr, "a stream has ended\n");
        exit(1);
    }
    got += (ssize_t)client->kept_length;
    bytes[got] = '\0';
    client->greeted = client->greeted || strstr(bytes, "retry:");
    see(client, bytes, (size_t)got, now_us());
}

static double percentile(double part)
{
    long left = (long)((double)total * part);
    long i = 0;
    while (i < BUCKETS - 1 && left >= buckets[i]) {
        left -= buckets[i++];
    }
    return (double)(i + 1) / 10;
}

static void report(const struct client *clients, long client_count)
{
    long fewest = clients[0].got;
    long most = 0;

    for (long i = 0; i < client_count; i++) {
        fewest = clients[i].got < fewest ? clients[i].got : fewest;
        most = clients[i].got > most ? clients[i].got : most;
    }
    printf("events %ld fewest %ld most %ld disorder %ld p50_ms %.1f p99_ms %.1f max_ms %.1f\n",
           atomic_load(&published), fewest, most, disorder, percentile(0.5), percentile(0.99),
           percentile(0.9999999));
}

int main(int count_of_words, char **words)
{
    long client_count = count_of_words == 5 ? strtol(words[2], NULL, 10) : 0;
    if (client_count <= 0) {
        fprintf(stderr, "usage: sse_clients SOCKET CLIENTS RATE SECONDS\n");
        return 2;
    }
    socket_path = words[1];
    rate = strtol(words[3], NULL, 10);
    seconds = strtol(words[4], NULL, 10);
    struct rlimit files = {(rlim_t)client_count + 64, (rlim_t)client_count + 64};
    setrlimit(RLIMIT_NOFILE, &files);
    struct client *clients = calloc((size_t)client_count, sizeof *clients);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    for (long i = 0; i < client_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        clients[i].fd = dial();
        dprintf(clients[i].fd, "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
        epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &event);
    }
    pthread_t publisher;
    bool publishing = false;
    int64_t heard = now_us();
    for (;;) {
        struct epoll_event events[256];
        int ready = epoll_wait(poll, events, 256, 100);
        for (int i = 0; i < ready; i++) {
            take(events[i].data.ptr);
        }
        heard = ready > 0 ? now_us() : heard;
        long greeted = 0;
        for (long i = 0; i < client_count && !publishing; i++) {
            greeted += clients[i].greeted;
        }
        if (!publishing && greeted == client_count) {
            publishing = true;
            if (pthread_create(&publisher, NULL, publish, NULL)) {
                die("pthread_create");
            }
        }
        if (atomic_load(&ended) && (total >= atomic_load(&published) * client_count ||
                                    now_us() - heard > QUIET_MS * 1000)) {
            break;
        }
    }
    pthread_join(publisher, NULL);
    report(clients, client_count);
    return 0;
}
