/*
 * support_proxy.c - see support_proxy.h.
 *
 * One thread serves all connections. A connection has two lines, one for each direction, each with
 * a buffer from which only whole messages leave. What the test wants is under a mutex, and the
 * thread looks at it before every message; a pipe wakes it.
 *
 * What the test requests is done when the thread has done it and then found nothing to read, and
 * nothing on its way: what a client had sent before it gave up may be unread when the request
 * comes, and the server is to have it; and whose connection has ended is to know that.
 *
 * The life of a connection:
 *
 *     OPEN -> STALLED -> LEAVING -> gone     LEAVING: the client is gone, the server is told so and
 *        `--------------^                    its answers are read and dropped until it ends, too
 */
#include "postgres/support_proxy.h"

#include "base/time/clock.h"
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINKS_MAX 128
#define READ_BYTES 65536
#define LINE_BYTES_MAX (64 << 20)
#define POLL_MS 200
#define UNDER_WAY_MS_MAX 16 /* between two looks for it */
#define PORTS 65536
#define ANSWER_BYTES 4096 /* of the kernel about a socket */
#define SSL_REQUEST 80877103
#define GSS_REQUEST 80877104

enum link_state { LINK_NONE, LINK_OPEN, LINK_STALLED, LINK_LEAVING };

struct line {
    char *bytes;
    size_t length;
    size_t capacity;
    bool ended; /* nothing more comes, or nothing more is passed on */
};

struct link {
    enum link_state state;
    int fd[2];           /* by enum proxy_side */
    struct line line[2]; /* what that side has sent */
    bool begun;          /* the startup packet has passed */
    bool keeper;
};

struct proxy {
    pthread_t thread;
    int listener;
    int port;
    int wake[2];
    int kernel;      /* answers about sockets */
    bool met[PORTS]; /* the thread's own: clients whose ends of a connection may stand */
    char server[108];
    struct link links[LINKS_MAX]; /* the thread's own, as the next one */
    struct request {
        bool calm;    /* stalled links are to end */
        bool hang_up; /* all links are to end; those that come later are others */
    } begun;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool stop;
    bool armed;
    bool struck;
    bool shut; /* no client is let in */
    struct request request;
    bool stall_all;
    int busy; /* links that are stalled or leaving */
    int64_t counted;
    int64_t connections;
    const char *version;
    struct proxy_fault fault;
};

/* ---- Lines ----------------------------------------------------------------------------------- */

static uint32_t word_at(const char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return ntohl(word);
}

/* The length of the first message; 0: it is not complete. */
static size_t message_length(const struct line *line, bool typed)
{
    size_t head = typed ? 5 : 4;
    if (line->length < head) {
        return 0;
    }
    size_t length = word_at(line->bytes + head - 4) + (typed ? 1 : 0);
    return length <= line->length ? length : 0;
}

static void line_drop(struct line *line, size_t count)
{
    memmove(line->bytes, line->bytes + count, line->length - count);
    line->length -= count;
}

/* False: the sender has ended. */
static bool line_fill(struct line *line, int fd)
{
    if (line->capacity - line->length < READ_BYTES) {
        line->capacity = line->capacity * 2 + READ_BYTES;
        must_hold(line->capacity < LINE_BYTES_MAX);
        line->bytes = realloc(line->bytes, line->capacity);
        must_hold(line->bytes);
    }
    ssize_t got = read(fd, line->bytes + line->length, READ_BYTES);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    line->length += (size_t)got;
    return true;
}

/* Whether all of it went. */
static bool send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, POLL_MS);
            continue;
        }
        if (sent < 0) {
            return false;
        }
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* ---- Links ----------------------------------------------------------------------------------- */

static void shut_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* The one place where a link's state changes. */
static void link_become(struct proxy *proxy, struct link *link, enum link_state state)
{
    pthread_mutex_lock(&proxy->mutex);
    bool was = link->state == LINK_STALLED || link->state == LINK_LEAVING;
    bool is = state == LINK_STALLED || state == LINK_LEAVING;
    proxy->busy += (int)is - (int)was;
    link->state = state;
    pthread_cond_broadcast(&proxy->changed);
    pthread_mutex_unlock(&proxy->mutex);
    if (state == LINK_LEAVING) {
        shut_fd(&link->fd[PROXY_CLIENT]);
        shutdown(link->fd[PROXY_SERVER], SHUT_WR);
    } else if (state == LINK_NONE) {
        for (int side = 0; side < 2; side++) {
            shut_fd(&link->fd[side]);
            free(link->line[side].bytes);
        }
        *link = (struct link){.fd = {-1, -1}};
    }
}

static int dial_server(const struct proxy *proxy)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", proxy->server);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        shut_fd(&fd);
    }
    if (fd >= 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
}

static void link_accept(struct proxy *proxy)
{
    struct sockaddr_in from = {.sin_port = 0};
    socklen_t length = sizeof from;
    int client =
        accept4(proxy->listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client >= 0) {
        proxy->met[ntohs(from.sin_port)] = true;
    }
    struct link *link = proxy->links;
    while (link < proxy->links + LINKS_MAX && link->state != LINK_NONE) {
        link++;
    }
    pthread_mutex_lock(&proxy->mutex);
    bool refuse = proxy->shut || link == proxy->links + LINKS_MAX;
    bool stalled = proxy->stall_all;
    proxy->connections++;
    pthread_mutex_unlock(&proxy->mutex);
    int server = client >= 0 && !refuse ? dial_server(proxy) : -1;
    if (server < 0) {
        shut_fd(&client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    *link = (struct link){.fd = {client, server}};
    link_become(proxy, link, stalled ? LINK_STALLED : LINK_OPEN);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* The fault, if this message is the one. */
static bool is_due(struct proxy *proxy, const struct link *link, enum proxy_side side,
                   struct proxy_fault *ret_fault)
{
    pthread_mutex_lock(&proxy->mutex);
    bool counts = proxy->armed && !link->keeper && side == proxy->fault.side;
    bool due = counts && ++proxy->counted == proxy->fault.nth;
    if (due) {
        proxy->armed = false;
        proxy->struck = true;
        proxy->stall_all = proxy->fault.all;
        *ret_fault = proxy->fault;
    }
    pthread_mutex_unlock(&proxy->mutex);
    return due;
}

static void strike(struct proxy *proxy, struct link *link, const struct proxy_fault *fault)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    enum proxy_side to = fault->side == PROXY_CLIENT ? PROXY_SERVER : PROXY_CLIENT;
    switch (fault->action) {
    case PROXY_RESET:
        setsockopt(link->fd[PROXY_CLIENT], SOL_SOCKET, SO_LINGER, &none, sizeof none);
        link_become(proxy, link, LINK_LEAVING);
        break;
    case PROXY_HALF:
        shutdown(link->fd[to], SHUT_WR);
        link->line[fault->side].ended = true;
        break;
    case PROXY_STALL:
        link_become(proxy, link, LINK_STALLED);
        break;
    default:
        link_become(proxy, link, LINK_LEAVING);
        break;
    }
}

/* A changed copy of ParameterStatus "server_version", passed on instead. */
static bool pass_version(struct proxy *proxy, struct link *link, size_t length)
{
    static const char name[] = "server_version";
    const struct line *line = &link->line[PROXY_SERVER];
    pthread_mutex_lock(&proxy->mutex);
    const char *version = proxy->version;
    pthread_mutex_unlock(&proxy->mutex);
    if (!version || length < 5 + sizeof name || line->bytes[0] != 'S' ||
        memcmp(line->bytes + 5, name, sizeof name) != 0) {
        return false;
    }
    char out[128] = "S";
    size_t used = 5 + sizeof name + strlen(version) + 1;
    uint32_t word = htonl((uint32_t)used - 1);
    memcpy(out + 1, &word, sizeof word);
    memcpy(out + 5, name, sizeof name);
    snprintf(out + 5 + sizeof name, sizeof out - 5 - sizeof name, "%s", version);
    send_all(link->fd[PROXY_CLIENT], out, used);
    return true;
}

/* Encryption is refused here, because the server's socket has none. */
static bool answer_request(struct link *link)
{
    struct line *line = &link->line[PROXY_CLIENT];
    uint32_t code = line->length >= 8 ? word_at(line->bytes + 4) : 0;
    if (link->begun || (code != SSL_REQUEST && code != GSS_REQUEST)) {
        return false;
    }
    send_all(link->fd[PROXY_CLIENT], "N", 1);
    line_drop(line, 8);
    return true;
}

static void note_kind(struct link *link, enum proxy_side side, size_t length)
{
    const char *bytes = link->line[side].bytes;
    if (side == PROXY_CLIENT && link->begun && length > 12 && bytes[0] == 'Q' &&
        memcmp(bytes + 5, "LISTEN", 6) == 0) {
        link->keeper = true;
    }
}

/* Passes one message on, if there is a whole one. */
static bool pass_one(struct proxy *proxy, struct link *link, enum proxy_side side)
{
    struct line *line = &link->line[side];
    enum proxy_side to = side == PROXY_CLIENT ? PROXY_SERVER : PROXY_CLIENT;
    if (side == PROXY_CLIENT && answer_request(link)) {
        return true;
    }
    size_t length = message_length(line, side == PROXY_SERVER || link->begun);
    if (length == 0 || link->state != LINK_OPEN || line->ended) {
        return false;
    }
    note_kind(link, side, length);
    struct proxy_fault fault;
    bool due = is_due(proxy, link, side, &fault);
    if (!due || fault.after) {
        bool told = side == PROXY_SERVER && pass_version(proxy, link, length);
        bool sent = told || send_all(link->fd[to], line->bytes, length);
        link->begun = link->begun || side == PROXY_CLIENT;
        line_drop(line, length);
        if (!sent) {
            link_become(proxy, link, LINK_LEAVING);
            return false;
        }
    }
    if (due) {
        strike(proxy, link, &fault);
    }
    return link->state == LINK_OPEN && !line->ended;
}

/* What a leaving server sends reaches no client any more. */
static void link_listen(struct proxy *proxy, struct link *link, enum proxy_side side)
{
    struct line *line = &link->line[side];
    bool more = line_fill(line, link->fd[side]);
    if (link->state == LINK_LEAVING) {
        line->length = 0;
        if (!more) {
            link_become(proxy, link, LINK_NONE);
        }
        return;
    }
    while (pass_one(proxy, link, side)) {
    }
    if (!more && link->state == LINK_OPEN) {
        link_become(proxy, link, side == PROXY_SERVER ? LINK_NONE : LINK_LEAVING);
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* What was held back comes late. */
static void release_stalled(struct proxy *proxy, struct link *link)
{
    struct line *line = &link->line[PROXY_CLIENT];
    line_fill(line, link->fd[PROXY_CLIENT]);
    send_all(link->fd[PROXY_SERVER], line->bytes, line->length);
    line->length = 0;
    link_become(proxy, link, LINK_LEAVING);
}

/* Begins what is requested, and goes on with it. */
static bool obey(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    bool stop = proxy->stop;
    bool calm = proxy->request.calm;
    bool hang_up = proxy->request.hang_up && !proxy->begun.hang_up;
    proxy->begun = proxy->request;
    pthread_mutex_unlock(&proxy->mutex);
    for (struct link *link = proxy->links; link < proxy->links + LINKS_MAX; link++) {
        if (link->state == LINK_STALLED && (calm || hang_up)) {
            release_stalled(proxy, link);
        } else if (link->state == LINK_OPEN &&
                   (hang_up || (calm && (link->line[0].ended || link->line[1].ended)))) {
            link_become(proxy, link, LINK_LEAVING);
        }
        if (stop && link->state != LINK_NONE) {
            link_become(proxy, link, LINK_NONE);
        }
    }
    return !stop;
}

/*
 * The state of one end of a connection with us, found by the ports of this end and of the other;
 * 0: there is none. The kernel finds it at once; /proc/net/tcp, which also has it, goes through a
 * table that is sized by the machine's memory.
 */
static int end_state(const struct proxy *proxy, int from, int to)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = {
        .head = {.nlmsg_len = sizeof question,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = AF_INET,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_sport = htons((uint16_t)from),
                        .idiag_dport = htons((uint16_t)to),
                        .idiag_src = {htonl(INADDR_LOOPBACK)},
                        .idiag_dst = {htonl(INADDR_LOOPBACK)},
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    union {
        struct nlmsghdr head;
        char bytes[ANSWER_BYTES];
    } answer;
    must_equal(sizeof question, send(proxy->kernel, &question, sizeof question, 0));
    ssize_t got = recv(proxy->kernel, &answer, sizeof answer, 0);
    must_hold(got > 0 && NLMSG_OK(&answer.head, got));
    if (answer.head.nlmsg_type == NLMSG_ERROR) {
        const struct nlmsgerr *error = NLMSG_DATA(&answer.head);
        must_equal(-ENOENT, error->error);
        return 0;
    }
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
    return found->idiag_state;
}

/* Whether the end of a connection with us has not come to the other side: on a busy machine that
 * takes its time, also within the machine. */
static bool is_under_way(struct proxy *proxy)
{
    const unsigned on_its_way = 1U << TCP_FIN_WAIT1 | 1U << TCP_LAST_ACK | 1U << TCP_CLOSING;
    bool found = false;
    for (int port = 0; port < PORTS; port++) {
        if (!proxy->met[port]) {
            continue;
        }
        int ours = end_state(proxy, proxy->port, port);
        int theirs = end_state(proxy, port, proxy->port);
        bool reset = theirs == TCP_ESTABLISHED && ours != TCP_ESTABLISHED;
        found = found || reset || ((1U << ours | 1U << theirs) & on_its_way);
        proxy->met[port] = theirs && theirs != TCP_TIME_WAIT; /* it may outlive the other end */
    }
    return found;
}

/* There is nothing to read any more: what was begun is done. */
static void fulfil(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->request.calm = proxy->request.calm && !proxy->begun.calm;
    proxy->request.hang_up = proxy->request.hang_up && !proxy->begun.hang_up;
    proxy->begun = (struct request){0};
    pthread_cond_broadcast(&proxy->changed);
    pthread_mutex_unlock(&proxy->mutex);
}

static void *proxy_main(void *ctx)
{
    struct proxy *proxy = ctx;
    struct pollfd fds[2 + 2 * LINKS_MAX];
    struct link *of[2 + 2 * LINKS_MAX];
    enum proxy_side sides[2 + 2 * LINKS_MAX];
    int rest_ms = 1;
    while (obey(proxy)) {
        nfds_t count = 0;
        fds[count++] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (struct link *link = proxy->links; link < proxy->links + LINKS_MAX; link++) {
            for (int side = 0; side < 2; side++) {
                if (link->state == LINK_OPEN || (link->state == LINK_LEAVING && side == 1)) {
                    of[count] = link;
                    sides[count] = (enum proxy_side)side;
                    fds[count++] = (struct pollfd){.fd = link->fd[side], .events = POLLIN};
                }
            }
        }
        bool begun = proxy->begun.calm || proxy->begun.hang_up;
        bool under_way = begun && is_under_way(proxy); /* before looking whether it has come */
        rest_ms = !under_way ? 1 : rest_ms < UNDER_WAY_MS_MAX ? 2 * rest_ms : rest_ms;
        if (poll(fds, count, under_way ? rest_ms : begun ? 0 : POLL_MS) <= 0) {
            if (begun && !under_way) {
                fulfil(proxy);
            }
            continue;
        }
        if (fds[0].revents) {
            char bytes[64];
            ssize_t got = read(proxy->wake[0], bytes, sizeof bytes);
            (void)got;
        }
        for (nfds_t i = 2; i < count; i++) {
            bool mine = of[i]->fd[sides[i]] == fds[i].fd; /* it may have ended meanwhile */
            if (fds[i].revents && mine && of[i]->state != LINK_STALLED) {
                link_listen(proxy, of[i], sides[i]);
            }
        }
        if (fds[1].revents) {
            link_accept(proxy);
        }
    }
    return NULL;
}

/* ---- What the test says ---------------------------------------------------------------------- */

static void wake(struct proxy *proxy)
{
    ssize_t written = write(proxy->wake[1], "", 1);
    (void)written;
}

struct proxy *proxy_start(const char *server_dir)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    must_hold(proxy);
    snprintf(proxy->server, sizeof proxy->server, "%s/.s.PGSQL.5432", server_dir);
    for (int i = 0; i < LINKS_MAX; i++) {
        proxy->links[i].fd[0] = proxy->links[i].fd[1] = -1;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must_equal(0, bind(proxy->listener, (struct sockaddr *)&address, sizeof address));
    must_equal(0, listen(proxy->listener, LINKS_MAX));
    must_equal(0, getsockname(proxy->listener, (struct sockaddr *)&address, &length));
    proxy->port = ntohs(address.sin_port);
    must_equal(0, pipe2(proxy->wake, O_CLOEXEC | O_NONBLOCK));
    proxy->kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    must_hold(proxy->kernel >= 0);
    pthread_mutex_init(&proxy->mutex, NULL);
    pthread_cond_init(&proxy->changed, NULL);
    must_equal(0, pthread_create(&proxy->thread, NULL, proxy_main, proxy));
    return proxy;
}

void proxy_stop(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    close(proxy->kernel);
    pthread_mutex_destroy(&proxy->mutex);
    pthread_cond_destroy(&proxy->changed);
    free(proxy);
}

/* Of two settings the later one counts. */
void proxy_url(const struct proxy *proxy, const char *url, char *out, size_t out_bytes)
{
    int length = snprintf(out, out_bytes, "%s&host=127.0.0.1&port=%d", url, proxy->port);
    must_hold(length > 0 && (size_t)length < out_bytes);
}

void proxy_arm(struct proxy *proxy, struct proxy_fault fault)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->fault = fault;
    proxy->armed = true;
    proxy->struck = false;
    proxy->counted = 0;
    pthread_mutex_unlock(&proxy->mutex);
}

bool proxy_struck(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    bool struck = proxy->struck;
    pthread_mutex_unlock(&proxy->mutex);
    return struck;
}

/* Waits until the thread has done it, and every link that is not simply open has ended. */
static void wait_quiet(struct proxy *proxy)
{
    wake(proxy);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_MS / 1000;
    while (proxy->request.calm || proxy->request.hang_up || proxy->busy > 0) {
        if (pthread_cond_timedwait(&proxy->changed, &proxy->mutex, &until) == ETIMEDOUT) {
            pthread_mutex_unlock(&proxy->mutex);
            check_fail(__FILE__, __LINE__, "the proxy's connections do not end");
        }
    }
}

void proxy_calm(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->armed = false;
    proxy->stall_all = false;
    proxy->request.calm = true;
    wait_quiet(proxy);
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_pretend(struct proxy *proxy, const char *server_version)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->version = server_version;
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_shut(struct proxy *proxy, bool open)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->shut = !open;
    proxy->request.hang_up = true;
    wait_quiet(proxy);
    pthread_mutex_unlock(&proxy->mutex);
}

int64_t proxy_connections(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    int64_t connections = proxy->connections;
    pthread_mutex_unlock(&proxy->mutex);
    return connections;
}
