/*
 * socket.h - the socket that the server listens on.
 */
#ifndef HF_SERVER_SOCKET_H
#define HF_SERVER_SOCKET_H

#include <holdfast.h>
#include <stdbool.h>
#include <sys/stat.h>

#define SOCKET_NAME_BYTES 320
#define SOCKET_PATH_BYTES 108

struct server_socket {
    int fd;                       /* -1: it is closed, or another has it */
    bool loopback;                /* only this machine can reach it */
    char name[SOCKET_NAME_BYTES]; /* "127.0.0.1:41233", with the port that was chosen for 0 */
    char path[SOCKET_PATH_BYTES]; /* of a socket that is removed when the server ends; else "" */
    struct stat file;             /* at that path */
};

/*
 * Listens on "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". A socket file that a server which was
 * killed has left behind is replaced. HF_INVALID: that is no address. HF_DENIED, HF_UNAVAILABLE.
 */
hf_status socket_listen(const char *address, struct server_socket *ret_socket);

/*
 * The socket that systemd listens on for this service and has passed on ($LISTEN_FDS), or
 * HF_NOTFOUND: there is none. HF_INVALID: there are several, or it does not listen. Takes the
 * variables out of the environment. Before there are threads.
 */
hf_status socket_inherit(struct server_socket *ret_socket);

/* Removes the file of a socket, if it has one and no other has taken its place. The descriptor is
 * not closed. */
void socket_remove(struct server_socket *socket);

#endif
