/*
 * socket.c - see socket.h.
 */
#include "server/socket.h"

#include "base/banned.h"
#include "base/err.h"
#include "cli/core/endpoint.h"
#include "server/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 511
#define FIRST_PASSED_FD 3 /* by the protocol */

static hf_status cannot_listen(const char *address)
{
    return fail(errno == EACCES || errno == EPERM ? HF_DENIED : HF_UNAVAILABLE,
                "cannot listen on %s: %s", address, strerror(errno));
}

static hf_status listen_on(const struct sockaddr *address, socklen_t bytes, const char *text,
                           int *ret_fd)
{
    int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && address->sa_family != AF_UNIX) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (fd < 0 || bind(fd, address, bytes) || listen(fd, BACKLOG)) {
        hf_status status = cannot_listen(text);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    *ret_fd = fd;
    return HF_OK;
}

/* ---- Sockets in the file system -------------------------------------------------------------- */

/* Removes a socket that no process listens on: its server was killed. Anything else stays, and
 * binding fails. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat found;
    int fd;

    if (lstat(address->sun_path, &found) || !S_ISSOCK(found.st_mode)) {
        return;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
        errno == ECONNREFUSED) {
        unlink(address->sun_path);
    }
    close(fd);
}

static hf_status listen_on_path(const char *path, const char *text,
                                struct server_socket *ret_socket)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct server_socket result = {.loopback = true};
    hf_status status;

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    remove_stale(&address);
    status = listen_on((struct sockaddr *)&address, sizeof address, text, &result.fd);
    if (!status) {
        snprintf(result.name, sizeof result.name, "%s", text);
        if (lstat(path, &result.file) == 0) {
            snprintf(result.path, sizeof result.path, "%s", path);
        }
        *ret_socket = result;
    }
    return status;
}

void socket_remove(struct server_socket *socket)
{
    struct stat found;

    if (socket->path[0] && lstat(socket->path, &found) == 0 &&
        found.st_dev == socket->file.st_dev && found.st_ino == socket->file.st_ino) {
        unlink(socket->path);
    }
    socket->path[0] = '\0';
}

/* ---- Sockets of the network ------------------------------------------------------------------ */

static bool is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

    if (address->sa_family == AF_INET) {
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* The host as it was given, and the port that the socket has. */
static void name_socket(const char *address, struct server_socket *socket)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char port[ENDPOINT_PORT_BYTES] = "";
    int host = (int)(strrchr(address, ':') - address);

    if (getsockname(socket->fd, (struct sockaddr *)&bound, &bytes) == 0) {
        getnameinfo((struct sockaddr *)&bound, bytes, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    }
    snprintf(socket->name, sizeof socket->name, "%.*s:%s", host, address, port);
}

hf_status socket_listen(const char *address, struct server_socket *ret_socket)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct server_socket result = {.fd = -1};
    struct endpoint endpoint;
    hf_status status = endpoint_parse(address, &endpoint);
    int error;

    if (status) {
        return fail(status, "'%s': %s", address, err_message());
    }
    if (endpoint.path[0]) {
        return listen_on_path(endpoint.path, address, ret_socket);
    }
    error = getaddrinfo(endpoint.host, endpoint.port, &hints, &found);
    if (error) {
        return fail(HF_INVALID, "cannot listen on %s: %s", address, gai_strerror(error));
    }
    result.loopback = is_loopback(found->ai_addr);
    status = listen_on(found->ai_addr, found->ai_addrlen, address, &result.fd);
    freeaddrinfo(found);
    if (!status) {
        name_socket(address, &result);
        *ret_socket = result;
    }
    return status;
}

/* ---- The socket of systemd ------------------------------------------------------------------- */

/* Where a socket listens that another process has opened. */
static hf_status describe(int fd, struct server_socket *ret_socket)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)&bound;
    socklen_t bytes = sizeof bound;
    char host[ENDPOINT_HOST_BYTES];
    char port[ENDPOINT_PORT_BYTES];

    if (getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0) {
        return fail(HF_INVALID, "descriptor %d of $LISTEN_FDS is no socket: %s", fd,
                    strerror(errno));
    }
    *ret_socket = (struct server_socket){.fd = fd};
    if (bound.ss_family == AF_UNIX) {
        ret_socket->loopback = true;
        snprintf(ret_socket->name, sizeof ret_socket->name, "unix:%.*s",
                 (int)sizeof local->sun_path, local->sun_path);
        return HF_OK;
    }
    if (getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return fail(HF_INVALID, "descriptor %d of $LISTEN_FDS is a socket of an unknown kind", fd);
    }
    ret_socket->loopback = is_loopback((struct sockaddr *)&bound);
    snprintf(ret_socket->name, sizeof ret_socket->name,
             bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return HF_OK;
}

static bool has_option(int fd, int option, int wanted)
{
    int value = -1;
    socklen_t bytes = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 && value == wanted;
}

hf_status socket_inherit(struct server_socket *ret_socket)
{
    int64_t count = notify_variable("LISTEN_FDS");
    bool is_for_us = notify_variable("LISTEN_PID") == getpid();

    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    if (!is_for_us || count <= 0) {
        return fail(HF_NOTFOUND, "no socket was passed to this process");
    }
    if (count > 1) {
        return fail(HF_INVALID, "$LISTEN_FDS has %lld sockets; the server listens on one",
                    (long long)count);
    }
    fcntl(FIRST_PASSED_FD, F_SETFD, FD_CLOEXEC);
    if (!has_option(FIRST_PASSED_FD, SO_TYPE, SOCK_STREAM) ||
        !has_option(FIRST_PASSED_FD, SO_ACCEPTCONN, 1)) {
        return fail(HF_INVALID,
                    "descriptor %d of $LISTEN_FDS is no stream socket that listens "
                    "(ListenStream= without Accept=)",
                    FIRST_PASSED_FD);
    }
    return describe(FIRST_PASSED_FD, ret_socket);
}
