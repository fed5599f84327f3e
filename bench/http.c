/*
 * http.c - `holdfast serve`: publishing beside the library, streams, slow clients, and at rest.
 *
 *     http one URL [SECONDS [ROUNDS]]     32 keep-alive connections, an event a request, in turns
 *                                         with 32 threads of the library
 *     http many URL [SECONDS [ROUNDS]]    one connection, 1000 events a request, in turns with one
 *                                         thread and hf_publish_many
 *     http stream URL [CLIENTS [RATE [SECONDS]]]   1000 clients of /v1/stream, 100 events/s
 *     http slow URL [CLIENTS [SECONDS]]     one honest client beside 1000 that send a byte a second
 *
 * Each starts the server that $HOLDFAST names on a port of its own, and prints a JSON object.
 * Ratios are those of the round in the middle. The server's memory and CPU time are from /proc.
 */
#define BENCH "http"

#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CALLERS 32
#define BATCH 1000
#define ROUNDS_MAX 99
#define ANSWER_BYTES 262144
#define SAMPLES_MAX 4000000

static const char payload[] = "{\"name\":\"0123456789012345678901234567890123456789\","
                              "\"text\":\"012345678901234567890123456789\"}";

/* ---- The server ------------------------------------------------------------------------------ */

static pid_t server;
static in_port_t port; /* in the order of the network */

static void die(const char *what)
{
    fprintf(stderr, BENCH ": %s: %s\n", what, strerror(errno));
    exit(1);
}

static void end_server(void)
{
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
    }
}

/* Starts it, and reads its log until it says where it listens. */
static void start_server(const char *url)
{
    const char *program = getenv("HOLDFAST");
    char line[1024];
    int ends[2];
    FILE *log;

    if (pipe(ends)) {
        die("pipe");
    }
    server = fork();
    if (server == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(program ? program : "holdfast", "holdfast", "serve", "--db", url, "--listen",
               "127.0.0.1:0", "--audit", "off", (char *)NULL);
        _exit(127);
    }
    atexit(end_server);
    close(ends[1]);
    log = fdopen(ends[0], "r");
    while (log && fgets(line, sizeof line, log)) {
        const char *at = strstr(line, "http://127.0.0.1:");
        if (at) {
            port = htons((in_port_t)strtoul(at + strlen("http://127.0.0.1:"), NULL, 10));
            return; /* the pipe stays open */
        }
        fputs(line, stderr);
    }
    fprintf(stderr, BENCH ": the server does not start\n");
    exit(1);
}

static double server_seconds(void)
{
    char path[64];
    unsigned long user = 0;
    unsigned long system = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                        &user, &system) != 2) {
        die(path);
    }
    fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double server_mib(void)
{
    char path[64];
    long pages = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)server);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) {
        die(path);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int dial(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
        if (errno != EAGAIN && errno != EINTR) {
            die("connect");
        }
    }
    if (fd < 0) {
        die("socket");
    }
    return fd;
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0) {
            die("send");
        }
        bytes += sent;
        length -= (size_t)sent;
    }
}

/* An answer that comes in. */
struct answer {
    size_t got;
    size_t whole; /* 0: not known yet */
    char *bytes;  /* ANSWER_BYTES */
};

/* Receives a part of an answer, which has to be 2xx. Is it complete? */
static bool take_part(int fd, struct answer *answer)
{
    ssize_t count = recv(fd, answer->bytes + answer->got, ANSWER_BYTES - 1 - answer->got, 0);

    if (count <= 0) {
        die("recv");
    }
    answer->got += (size_t)count;
    answer->bytes[answer->got] = '\0';
    if (answer->whole == 0) {
        const char *body = strstr(answer->bytes, "\r\n\r\n");
        const char *said = body ? strcasestr(answer->bytes, "\r\nContent-Length:") : NULL;
        if (said) {
            answer->whole = (size_t)(body - answer->bytes) + 4 + strtoul(said + 17, NULL, 10);
        }
    }
    if (answer->whole == 0 || answer->got < answer->whole) {
        return false;
    }
    if (answer->bytes[9] != '2') {
        fprintf(stderr, BENCH ": %.300s\n", answer->bytes);
        exit(1);
    }
    return true;
}

/* Sends a request and reads all of its answer. */
static void ask(int fd, const char *request, size_t length, char *bytes)
{
    struct answer answer = {.bytes = bytes};

    send_all(fd, request, length);
    while (!take_part(fd, &answer)) {
    }
}

/* One event, or an array of them; freed by free. */
static char *make_request(size_t events, size_t *ret_length)
{
    size_t room = events * (sizeof payload + 64) + 256;
    char *body = malloc(room);
    char *request = malloc(room + 256);
    size_t length = 0;

    if (!body || !request) {
        die("malloc");
    }
    for (size_t i = 0; i < events; i++) {
        length +=
            (size_t)snprintf(body + length, room - length, "%s{\"type\":\"b\",\"payload\":%s}",
                             events == 1 ? ""
                             : i == 0    ? "["
                                         : ",",
                             payload);
    }
    if (events > 1) {
        length += (size_t)snprintf(body + length, room - length, "]");
    }
    *ret_length = (size_t)snprintf(request, room + 256,
                                   "POST /v1/events HTTP/1.1\r\nHost: localhost\r\n"
                                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n"
                                   "%s",
                                   length, body);
    free(body);
    return request;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static hf_bus *bus;
static size_t batch; /* events of a request or a call */
static bool over_http;
static atomic_bool going;
static atomic_long published;

/* One thread for all connections: a client of many costs no more than it must, because it shares
 * the processors with the server. */
static void publish_over_http(int connections)
{
    struct answer answers[CALLERS] = {{0}};
    int fds[CALLERS];
    int poll = epoll_create1(EPOLL_CLOEXEC);
    size_t length;
    char *request = make_request(batch, &length);

    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        answers[i].bytes = malloc(ANSWER_BYTES);
        fds[i] = dial();
        epoll_ctl(poll, EPOLL_CTL_ADD, fds[i], &event);
        send_all(fds[i], request, length);
    }
    while (atomic_load(&going)) {
        struct epoll_event events[CALLERS];
        int ready = epoll_wait(poll, events, CALLERS, 100);
        for (int i = 0; i < ready; i++) {
            uint32_t at = events[i].data.u32;
            if (take_part(fds[at], &answers[at])) {
                atomic_fetch_add(&published, (long)batch);
                answers[at].got = answers[at].whole = 0;
                send_all(fds[at], request, length);
            }
        }
    }
    for (int i = 0; i < connections; i++) {
        close(fds[i]);
        free(answers[i].bytes);
    }
    close(poll);
    free(request);
}

static void publish_by_library(void)
{
    hf_new_event *events = calloc(batch, sizeof *events);

    for (size_t i = 0; i < batch; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "b";
        events[i].payload = payload;
    }
    while (atomic_load(&going)) {
        check(batch == 1 ? hf_publish(bus, events, NULL)
                         : hf_publish_many(bus, events, batch, NULL),
              "publish");
        atomic_fetch_add(&published, (long)batch);
    }
    free(events);
}

static void *publish(void *ctx)
{
    if (over_http) {
        publish_over_http(*(const int *)ctx);
    } else {
        publish_by_library();
    }
    return ctx;
}

/* Events a second of so many callers. */
static double turn(bool http, int callers, double length)
{
    pthread_t threads[CALLERS];
    int thread_count = http ? 1 : callers;
    double begun = seconds();

    over_http = http;
    atomic_store(&published, 0);
    atomic_store(&going, true);
    for (int i = 0; i < thread_count; i++) {
        if (pthread_create(&threads[i], NULL, publish, &callers)) {
            die("pthread_create");
        }
    }
    usleep((useconds_t)(length * 1e6));
    atomic_store(&going, false);
    for (int i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
    }
    return (double)atomic_load(&published) / (seconds() - begun);
}

static void compare_publishing(const char *url, int callers, double length, int rounds)
{
    double ratios[ROUNDS_MAX];
    double http[ROUNDS_MAX];
    double library[ROUNDS_MAX];
    double spent;
    double events = 0;

    bus = open_as(url, "bench");
    start_server(url);
    turn(true, callers, 0.3);
    turn(false, callers, 0.3);
    spent = server_seconds();
    for (int i = 0; i < rounds; i++) {
        library[i] = turn(false, callers, length);
        http[i] = turn(true, callers, length);
        ratios[i] = http[i] / library[i];
        events += http[i] * length;
    }
    spent = server_seconds() - spent;
    qsort(ratios, (size_t)rounds, sizeof ratios[0], compare);
    qsort(http, (size_t)rounds, sizeof http[0], compare);
    qsort(library, (size_t)rounds, sizeof library[0], compare);
    printf("{\"bench\":\"http\",\"batch\":%zu,\"connections\":%d,\"ratio\":%.3f,\"lowest\":%.3f,"
           "\"highest\":%.3f,\"rate\":%.0f,\"library\":%.0f,\"server_us\":%.1f,\"mib\":%.1f}\n",
           batch, callers, ratios[rounds / 2], ratios[0], ratios[rounds - 1], http[rounds / 2],
           library[rounds / 2], spent / events * 1e6, server_mib());
    hf_close(&bus);
}

/* ---- Latencies ------------------------------------------------------------------------------- */

static double *samples;
static size_t sample_count;

static void note(double ms)
{
    if (sample_count < SAMPLES_MAX) {
        samples[sample_count++] = ms;
    }
}

static double percentile(double part)
{
    return sample_count ? samples[(size_t)((double)(sample_count - 1) * part)] : -1;
}

static void begin_samples(void)
{
    samples = malloc(SAMPLES_MAX * sizeof samples[0]);
    if (!samples) {
        die("malloc");
    }
}

/* ---- Streams --------------------------------------------------------------------------------- */

static long rate;
static double stream_seconds;
static atomic_bool ended;

/* Open-loop: an event is due at its time, and its latency counts from then. */
static void *publish_marks(void *ctx)
{
    double begun = seconds();
    char request[512];
    char answer[4096];
    int fd = dial();

    for (long i = 0; i < (long)((double)rate * stream_seconds); i++) {
        double due = begun + (double)i / (double)rate;
        char body[128];
        int length;
        while (seconds() < due) {
            usleep(200);
        }
        length = snprintf(body, sizeof body, "{\"type\":\"b\",\"payload\":{\"due\":%.6f}}", due);
        length = snprintf(request, sizeof request,
                          "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                          "\r\n%s",
                          length, body);
        ask(fd, request, (size_t)length, answer);
        atomic_fetch_add(&published, 1);
    }
    close(fd);
    atomic_store(&ended, true);
    return ctx;
}

struct client {
    int fd;
    bool greeted;
    size_t kept;
    char bytes[2048]; /* what may be the beginning of a message */
};

static void take_messages(struct client *client)
{
    ssize_t got =
        recv(client->fd, client->bytes + client->kept, sizeof client->bytes - 1 - client->kept, 0);
    char *at = client->bytes;
    char *end;
    double now = seconds();

    if (got <= 0) {
        die("a stream has ended");
    }
    client->kept += (size_t)got;
    client->bytes[client->kept] = '\0';
    while ((end = strstr(at, "\n\n"))) {
        char *due = strstr(at, "\"due\":");
        client->greeted = client->greeted || strstr(at, "retry:");
        if (due && due < end) {
            note((now - strtod(due + 6, NULL)) * 1000);
        }
        at = end + 2;
    }
    client->kept -= (size_t)(at - client->bytes);
    memmove(client->bytes, at, client->kept);
}

static void follow(const char *url, long client_count)
{
    static const char request[] = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct client *clients = calloc((size_t)client_count, sizeof *clients);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    double quiet = 0;
    double spent = 0;
    pthread_t publisher;
    bool publishing = false;

    begin_samples();
    start_server(url);
    for (long i = 0; i < client_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        clients[i].fd = dial();
        send_all(clients[i].fd, request, sizeof request - 1);
        epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &event);
    }
    while (!atomic_load(&ended) || seconds() - quiet < 2) {
        struct epoll_event events[256];
        int ready = epoll_wait(poll, events, 256, 100);
        long greeted = 0;
        for (int i = 0; i < ready; i++) {
            take_messages(events[i].data.ptr);
        }
        quiet = ready > 0 ? seconds() : quiet;
        for (long i = 0; i < client_count && !publishing; i++) {
            greeted += clients[i].greeted;
        }
        if (!publishing && greeted == client_count) {
            publishing = true;
            spent = server_seconds();
            if (pthread_create(&publisher, NULL, publish_marks, NULL)) {
                die("pthread_create");
            }
        }
    }
    pthread_join(publisher, NULL);
    spent = server_seconds() - spent;
    qsort(samples, sample_count, sizeof samples[0], compare);
    printf("{\"bench\":\"stream\",\"clients\":%ld,\"rate\":%ld,\"published\":%ld,\"received\":%zu,"
           "\"p50_ms\":%.1f,\"p99_ms\":%.1f,\"max_ms\":%.1f,\"server_cpu\":%.2f,"
           "\"message_us\":%.2f,\"mib\":%.1f}\n",
           client_count, rate, atomic_load(&published), sample_count, percentile(0.5),
           percentile(0.99), percentile(1), spent / stream_seconds,
           spent / (double)sample_count * 1e6, server_mib());
}

/* ---- Slow clients ---------------------------------------------------------------------------- */

static long slow_count;

/* Each sends a byte of its head a second; one that was cut off comes again. */
static void *be_slow(void *ctx)
{
    static const char head[] = "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int *fds = calloc((size_t)slow_count, sizeof *fds);
    size_t sent = 0;

    for (long i = 0; i < slow_count; i++) {
        fds[i] = dial();
    }
    while (atomic_load(&going)) {
        for (long i = 0; i < slow_count; i++) {
            if (send(fds[i], head + sent % (sizeof head - 1), 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
                close(fds[i]);
                fds[i] = dial();
            }
        }
        sent++;
        usleep(1000000);
    }
    free(fds);
    return ctx;
}

/* Publishes and asks in turns, ten milliseconds from one to the next. */
static void be_honest(double length)
{
    static const char get[] = "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char *answer = malloc(ANSWER_BYTES);
    size_t post_length;
    char *post = make_request(1, &post_length);
    double until = seconds() + length;
    int fd = dial();

    sample_count = 0;
    for (long i = 0; answer && seconds() < until; i++) {
        double begun = seconds();
        ask(fd, i % 2 ? get : post, i % 2 ? sizeof get - 1 : post_length, answer);
        note((seconds() - begun) * 1000);
        usleep(10000);
    }
    qsort(samples, sample_count, sizeof samples[0], compare);
    close(fd);
    free(post);
    free(answer);
}

static void beside_slow(const char *url, double length)
{
    double alone;
    double at_rest;
    double idle;
    pthread_t slow;

    begin_samples();
    start_server(url);
    be_honest(length);
    alone = percentile(0.99);
    idle = server_seconds();
    usleep((useconds_t)(length * 1e6));
    idle = (server_seconds() - idle) / length * 100;
    at_rest = server_mib();
    atomic_store(&going, true);
    if (pthread_create(&slow, NULL, be_slow, NULL)) {
        die("pthread_create");
    }
    sleep(2);
    be_honest(length);
    printf("{\"bench\":\"slow\",\"clients\":%ld,\"alone_p99_ms\":%.1f,\"p50_ms\":%.1f,"
           "\"p99_ms\":%.1f,\"max_ms\":%.1f,\"idle_cpu_percent\":%.2f,\"mib_at_rest\":%.1f,"
           "\"mib\":%.1f}\n",
           slow_count, alone, percentile(0.5), percentile(0.99), percentile(1), idle, at_rest,
           server_mib());
    atomic_store(&going, false);
    pthread_join(slow, NULL);
}

/* ---- What is measured ------------------------------------------------------------------------ */

static void allow_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";

    allow_files();
    if (strcmp(what, "one") == 0 || strcmp(what, "many") == 0) {
        bool one = strcmp(what, "one") == 0;
        batch = one ? 1 : BATCH;
        compare_publishing(argv[2], one ? CALLERS : 1, (double)number(argc, argv, 3, 2, 600),
                           (int)number(argc, argv, 4, 5, ROUNDS_MAX));
    } else if (strcmp(what, "stream") == 0) {
        rate = (long)number(argc, argv, 4, 100, 100000);
        stream_seconds = (double)number(argc, argv, 5, 10, 600);
        follow(argv[2], (long)number(argc, argv, 3, 1000, 100000));
    } else if (strcmp(what, "slow") == 0) {
        slow_count = (long)number(argc, argv, 3, 1000, 100000);
        beside_slow(argv[2], (double)number(argc, argv, 4, 10, 600));
    } else {
        fprintf(stderr, "usage: http one|many|stream|slow URL ...\n");
        return 2;
    }
    return 0;
}
