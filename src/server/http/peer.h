/*
 * peer.h - where a connection comes from.
 */
#ifndef HF_SERVER_HTTP_PEER_H
#define HF_SERVER_HTTP_PEER_H

#include "server/http/exchange.h"

struct sockaddr;

/* An address, without its port: 16 bytes of IPv6, or 4 of IPv4 after 12 that are 0. Connections of
 * a socket in this machine's file system have one address in common, all of it 0. */
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
