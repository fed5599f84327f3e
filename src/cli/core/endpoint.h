/*
 * endpoint.h - where a server listens, in two parts: "127.0.0.1:7070", "[::1]:7070", "unix:PATH".
 */
#ifndef HF_CLI_CORE_ENDPOINT_H
#define HF_CLI_CORE_ENDPOINT_H

#include <holdfast.h>

#define ENDPOINT_HOST_BYTES 256
#define ENDPOINT_PORT_BYTES 32
#define ENDPOINT_PATH_BYTES 108 /* that the kernel takes, with the NUL */

struct endpoint {
    char host[ENDPOINT_HOST_BYTES]; /* without brackets; "" for a path */
    char port[ENDPOINT_PORT_BYTES]; /* a number, or the name of a service */
    char path[ENDPOINT_PATH_BYTES]; /* "" for a host */
};

/* HF_INVALID says what is wrong with it. Nothing is resolved. */
hf_status endpoint_parse(const char *address, struct endpoint *ret_endpoint);

/* Whether it is a host name or address as requests have it in Host: without a port. HF_INVALID. */
hf_status endpoint_check_host(const char *host);

#endif
