/*
 * endpoint.c - see endpoint.h.
 */
#include "cli/core/endpoint.h"

#include "base/banned.h"
#include "base/err.h"

#define PREFIX "unix:"
#define PORT_MAX 65535

static hf_status parse_path(const char *path, struct endpoint *ret_endpoint)
{
    if (!path[0]) {
        return fail(HF_INVALID, "the path behind unix: is missing");
    }
    if (strlen(path) >= ENDPOINT_PATH_BYTES) {
        return fail(HF_INVALID, "the path of a socket is at most %d bytes; this one has %zu",
                    ENDPOINT_PATH_BYTES - 1, strlen(path));
    }
    *ret_endpoint = (struct endpoint){.path = ""};
    snprintf(ret_endpoint->path, sizeof ret_endpoint->path, "%s", path);
    return HF_OK;
}

/* A number up to 65535, or a name, which the system's list of services may have. */
static bool is_port(const char *port)
{
    size_t digits = strspn(port, "0123456789");

    if (!port[0] || strlen(port) >= ENDPOINT_PORT_BYTES) {
        return false;
    }
    return port[digits] != '\0' || (digits <= 5 && strtol(port, NULL, 10) <= PORT_MAX);
}

hf_status endpoint_parse(const char *address, struct endpoint *ret_endpoint)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    struct endpoint endpoint = {.path = ""};

    if (strncmp(address, PREFIX, strlen(PREFIX)) == 0) {
        return parse_path(address + strlen(PREFIX), ret_endpoint);
    }
    if (length > 1 && address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    } else if (length > 0 && memchr(address, ':', length)) {
        length = 0; /* an IPv6 address without brackets */
    }
    if (length == 0 || length >= ENDPOINT_HOST_BYTES || !is_port(colon + 1)) {
        return fail(HF_INVALID, "it is no address to listen on: HOST:PORT, [IPV6]:PORT or "
                                "unix:PATH");
    }
    snprintf(endpoint.host, sizeof endpoint.host, "%.*s", (int)length, address);
    snprintf(endpoint.port, sizeof endpoint.port, "%s", colon + 1);
    *ret_endpoint = endpoint;
    return HF_OK;
}

hf_status endpoint_check_host(const char *host)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    size_t length = strlen(host);

    if (length > 2 && host[0] == '[' && host[length - 1] == ']' &&
        strspn(host + 1, "0123456789abcdefABCDEF:.") == length - 2) {
        return HF_OK;
    }
    if (length == 0 || length >= ENDPOINT_HOST_BYTES || host[strspn(host, good)] != '\0') {
        return fail(HF_INVALID, "it is no name of a host, without a port: bus.example.com, "
                                "10.0.0.7 or [fd00::7]");
    }
    return HF_OK;
}
