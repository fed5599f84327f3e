/*
 * wire.c - a socket with buffers: see wire.h.
 */
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define READ_BYTES 65536

static void bytes_grow(struct bytes *bytes, size_t more)
{
    if (bytes->length + more > bytes->room) {
        bytes->room = (bytes->length + more) * 2;
        bytes->at = need(realloc(bytes->at, bytes->room));
    }
}

void bytes_put(struct bytes *bytes, const void *from, size_t length)
{
    bytes_grow(bytes, length);
    memcpy(bytes->at + bytes->length, from, length);
    bytes->length += length;
}

/* A server that has just been started may have bound its socket and not listen yet. */
static int connect_soon(int fd, const struct sockaddr *address, socklen_t length)
{
    int status = connect(fd, address, length);
    for (int tries = 0; status != 0 && errno == ECONNREFUSED && tries < 200; tries++) {
        usleep(10000);
        status = connect(fd, address, length);
    }
    return status;
}

void wire_open(struct wire *wire, const char *address)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET};
    bool is_path = strchr(address, '/') != NULL;
    int on = 1;
    int status;
    *wire = (struct wire){0};
    wire->fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (is_path) {
        snprintf(path.sun_path, sizeof path.sun_path, "%s", address);
        status = connect_soon(wire->fd, (struct sockaddr *)&path, sizeof path);
    } else {
        port.sin_port = htons((uint16_t)strtol(address, NULL, 10));
        port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        status = connect_soon(wire->fd, (struct sockaddr *)&port, sizeof port);
        setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (status != 0) {
        die(address, strerror(errno));
    }
}

void wire_close(struct wire *wire)
{
    close(wire->fd);
    free(wire->in.at);
    free(wire->out.at);
}

void wire_put(struct wire *wire, const char *format, ...)
{
    va_list arguments;
    bytes_grow(&wire->out, 1024);
    va_start(arguments, format);
    int length = vsnprintf(wire->out.at + wire->out.length, 1024, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= 1024) {
        die("a request", "is too long");
    }
    wire->out.length += (size_t)length;
}

void wire_flush(struct wire *wire)
{
    for (size_t sent = 0; sent < wire->out.length;) {
        ssize_t count = send(wire->fd, wire->out.at + sent, wire->out.length - sent, MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR) {
            die("sending", strerror(errno));
        }
        sent += count > 0 ? (size_t)count : 0;
    }
    wire->out.length = 0;
}

void wire_read(struct wire *wire)
{
    struct bytes *in = &wire->in;
    memmove(in->at, in->at + wire->taken, in->length - wire->taken);
    in->length -= wire->taken;
    wire->taken = 0;
    bytes_grow(in, READ_BYTES);
    ssize_t count = recv(wire->fd, in->at + in->length, READ_BYTES, MSG_DONTWAIT);
    if (count == 0) {
        die("receiving", "the server has closed the connection");
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
        die("receiving", strerror(errno));
    }
    in->length += count > 0 ? (size_t)count : 0;
}

char *wire_line(struct wire *wire)
{
    char *at = wire->in.at + wire->taken;
    char *end = memmem(at, wire->in.length - wire->taken, "\r\n", 2);
    if (!end) {
        return NULL;
    }
    *end = '\0';
    wire->taken += (size_t)(end - at) + 2;
    return at;
}

char *wire_block(struct wire *wire, size_t length)
{
    char *at = wire->in.at + wire->taken;
    if (wire->in.length - wire->taken < length + 2) {
        return NULL;
    }
    at[length] = '\0';
    wire->taken += length + 2;
    return at;
}
