/*
 * peer.h - where a connection comes from.
 */
#ifndef HF_SERVER_HTTP_PEER_H
#define HF_SERVER_HTTP_PEER_H

#include "server/http/exchange.h"

struct sockaddr;

/* A client, as far as its address tells: of IPv6 the network, which is the first half of the
 * address, because the second half is the client's to choose; of IPv4 the address, also if it is
 * mapped into IPv6, after 12 bytes that are 0. Connections of a socket in the file system have one
 * client in common, all of it 0. */
struct peer {
    unsigned char bytes[16];
};

struct peer peer_of(const struct sockaddr *address);
struct peer peer_of_connection(struct MHD_Connection *connection);

#define PEER_TEXT_BYTES 64
/* "10.0.0.7", "fd00::7", or, of a socket in the file system, the user at its other end:
 * "uid 1000". */
const char *peer_text(struct MHD_Connection *connection, char ret_text[PEER_TEXT_BYTES]);

#endif
