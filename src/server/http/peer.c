/*
 * peer.c - see peer.h.
 */
#include "server/http/peer.h"

#include "base/banned.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define NETWORK_BYTES 8 /* of an address of IPv6 */

static const struct sockaddr *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info ? info->client_addr : NULL;
}

struct peer peer_of(const struct sockaddr *address)
{
    struct peer result = {{0}};

    if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) || IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) {
            memcpy(result.bytes + 12, v6->sin6_addr.s6_addr + 12, 4);
        } else {
            memcpy(result.bytes, &v6->sin6_addr, NETWORK_BYTES);
        }
    } else if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        memcpy(result.bytes + 12, &v4->sin_addr, 4);
    }
    return result;
}

struct peer peer_of_connection(struct MHD_Connection *connection)
{
    return peer_of(client_of(connection));
}

/* Of a socket in the file system the kernel knows the user who has connected. */
static void user_text(struct MHD_Connection *connection, char ret_text[PEER_TEXT_BYTES])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    if (info && getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
        snprintf(ret_text, PEER_TEXT_BYTES, "uid %u", (unsigned)peer.uid);
    } else {
        snprintf(ret_text, PEER_TEXT_BYTES, "this machine");
    }
}

const char *peer_text(struct MHD_Connection *connection, char ret_text[PEER_TEXT_BYTES])
{
    const struct sockaddr *client = client_of(connection);
    const void *address = NULL;

    if (client && client->sa_family == AF_INET) {
        address = &((const struct sockaddr_in *)(const void *)client)->sin_addr;
    } else if (client && client->sa_family == AF_INET6) {
        address = &((const struct sockaddr_in6 *)(const void *)client)->sin6_addr;
    }
    if (!address || !inet_ntop(client->sa_family, address, ret_text, PEER_TEXT_BYTES)) {
        user_text(connection, ret_text);
    }
    return ret_text;
}
