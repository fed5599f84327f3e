/*
 * network.h - addresses that a webhook may reach: which are public, and which networks are allowed
 * besides.
 *
 * A URL comes from people who may not be allowed to reach the network that the worker is in, and
 * its name is resolved by servers that are not ours. So only addresses of the public internet are
 * reached, unless the operator allows others. An address is judged as a connection uses it, after
 * its name was resolved: IPv4 that is mapped into IPv6 is IPv4; of NAT64 and 6to4 the IPv4 address
 * inside counts.
 *
 * Pure: no names are resolved here.
 */
#ifndef HF_CLI_WEBHOOK_NETWORK_H
#define HF_CLI_WEBHOOK_NETWORK_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdint.h>

#define NETWORKS_MAX 32          /* that one subscription allows */
#define NETWORK_ADDRESS_BYTES 46 /* of an address as text, with its NUL */

/* An address of either family; IPv4 is ::ffff:a.b.c.d. */
struct address {
    uint8_t bytes[16];
};

/* The addresses whose first `bits` bits are those of `first`. */
struct network {
    struct address first;
    int bits; /* 0..128; of IPv4 96 more than people write */
};

enum address_kind {
    ADDRESS_PUBLIC,
    ADDRESS_LOOPBACK,
    ADDRESS_PRIVATE,    /* RFC 1918, unique local, shared (CGNAT) */
    ADDRESS_LINK_LOCAL, /* also where clouds answer with credentials */
    ADDRESS_MULTICAST,
    ADDRESS_UNSPECIFIED,
    ADDRESS_RESERVED /* everything else that is not the public internet's */
};

/* "loopback", "private", ... */
const char *address_kind_name(enum address_kind kind);

/* "10.1.2.3", "fd00::1". False: it is none. */
bool address_parse(const char *text, struct address *ret_address);
/* Of the kernel: an AF_INET or AF_INET6 socket address. False: it is of another family. */
bool address_of(const void *sockaddr, size_t bytes, struct address *ret_address);
void address_format(const struct address *address, char ret_text[NETWORK_ADDRESS_BYTES]);

enum address_kind address_kind(const struct address *address);

/* "10.0.0.0/8", "fd00::/8", or one address. HF_INVALID says what is wrong with it. */
hf_status network_parse(struct text text, struct network *ret_network);
bool network_contains(const struct network *network, const struct address *address);

/* What is allowed besides the public internet. */
struct network_rules {
    bool allow_private; /* loopback and private addresses; neither link-local nor reserved ones */
    size_t count;
    struct network networks[NETWORKS_MAX]; /* whatever kind they are of */
};

bool network_rules_allow(const struct network_rules *rules, const struct address *address);

#endif
