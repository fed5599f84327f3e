/*
 * network.c - see network.h. The tables are those of IANA's registries of special-purpose
 * addresses (RFC 6890 and its successors).
 */
#include "cli/webhook/network.h"

#include "base/banned.h"
#include "base/err.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define V4_BITS 96        /* of ::ffff:0:0/96 */
#define NETWORK_BYTES 64  /* of a network as text, with its NUL */
#define NAT64_OFFSET 12   /* where the IPv4 address is in 64:ff9b::/96 */
#define SIX_TO_4_OFFSET 2 /* and in 2002::/16 */

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* The first that contains the address says its kind. */
static const struct {
    uint8_t first[4];
    int bits;
    enum address_kind kind;
} kinds_v4[] = {
    {{0, 0, 0, 0}, 32, ADDRESS_UNSPECIFIED},
    {{0, 0, 0, 0}, 8, ADDRESS_RESERVED}, /* "this network": Linux takes some for loopback */
    {{10, 0, 0, 0}, 8, ADDRESS_PRIVATE},
    {{100, 64, 0, 0}, 10, ADDRESS_PRIVATE}, /* shared: CGNAT */
    {{127, 0, 0, 0}, 8, ADDRESS_LOOPBACK},
    {{169, 254, 0, 0}, 16, ADDRESS_LINK_LOCAL},
    {{172, 16, 0, 0}, 12, ADDRESS_PRIVATE},
    {{192, 0, 0, 0}, 24, ADDRESS_RESERVED},
    {{192, 0, 2, 0}, 24, ADDRESS_RESERVED},
    {{192, 88, 99, 0}, 24, ADDRESS_RESERVED},
    {{192, 168, 0, 0}, 16, ADDRESS_PRIVATE},
    {{198, 18, 0, 0}, 15, ADDRESS_RESERVED},
    {{198, 51, 100, 0}, 24, ADDRESS_RESERVED},
    {{203, 0, 113, 0}, 24, ADDRESS_RESERVED},
    {{224, 0, 0, 0}, 4, ADDRESS_MULTICAST},
    {{240, 0, 0, 0}, 4, ADDRESS_RESERVED}, /* and the broadcast address */
};

/* Without those that have an IPv4 address inside. What is in none and outside 2000::/3 is
 * reserved. */
static const struct {
    uint8_t first[6];
    int bits;
    enum address_kind kind;
} kinds_v6[] = {
    {{0xfc}, 7, ADDRESS_PRIVATE},
    {{0xfe, 0x80}, 10, ADDRESS_LINK_LOCAL},
    {{0xfe, 0xc0}, 10, ADDRESS_PRIVATE}, /* site-local, out of use since 2004 */
    {{0xff}, 8, ADDRESS_MULTICAST},
    {{0x20, 0x01, 0x00}, 23, ADDRESS_RESERVED}, /* Teredo */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, ADDRESS_RESERVED},
    {{0x3f, 0xff, 0x00}, 20, ADDRESS_RESERVED},
};

const char *address_kind_name(enum address_kind kind)
{
    switch (kind) {
    case ADDRESS_PUBLIC:
        return "public";
    case ADDRESS_LOOPBACK:
        return "loopback";
    case ADDRESS_PRIVATE:
        return "private";
    case ADDRESS_LINK_LOCAL:
        return "link-local";
    case ADDRESS_MULTICAST:
        return "multicast";
    case ADDRESS_UNSPECIFIED:
        return "unspecified";
    case ADDRESS_RESERVED:
        return "reserved";
    }
    return "reserved";
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool is_v4(const struct address *address)
{
    return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

static struct address from_v4(const uint8_t bytes[4])
{
    struct address address;

    memcpy(address.bytes, mapped, sizeof mapped);
    memcpy(address.bytes + sizeof mapped, bytes, 4);
    return address;
}

bool address_parse(const char *text, struct address *ret_address)
{
    uint8_t v4[4];

    if (inet_pton(AF_INET, text, v4) == 1) {
        *ret_address = from_v4(v4);
        return true;
    }
    return inet_pton(AF_INET6, text, ret_address->bytes) == 1;
}

bool address_of(const void *sockaddr, size_t bytes, struct address *ret_address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    sa_family_t family;

    if (bytes < sizeof family) {
        return false;
    }
    memcpy(&family, sockaddr, sizeof family);
    if (family == AF_INET && bytes >= sizeof v4) {
        memcpy(&v4, sockaddr, sizeof v4);
        *ret_address = from_v4((const uint8_t *)&v4.sin_addr);
        return true;
    }
    if (family == AF_INET6 && bytes >= sizeof v6) {
        memcpy(&v6, sockaddr, sizeof v6);
        memcpy(ret_address->bytes, &v6.sin6_addr, sizeof ret_address->bytes);
        return true;
    }
    return false;
}

void address_format(const struct address *address, char ret_text[NETWORK_ADDRESS_BYTES])
{
    bool v4 = is_v4(address);

    if (!inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? sizeof mapped : 0), ret_text,
                   NETWORK_ADDRESS_BYTES)) {
        ret_text[0] = '\0';
    }
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static bool same_bits(const uint8_t *a, const uint8_t *b, int bits)
{
    size_t whole = (size_t)bits / 8;
    int rest = bits % 8;
    uint8_t mask = (uint8_t)(0xff << (8 - rest));

    return memcmp(a, b, whole) == 0 && (rest == 0 || ((a[whole] ^ b[whole]) & mask) == 0);
}

static enum address_kind kind_v4(const uint8_t bytes[4])
{
    for (size_t i = 0; i < sizeof kinds_v4 / sizeof kinds_v4[0]; i++) {
        if (same_bits(bytes, kinds_v4[i].first, kinds_v4[i].bits)) {
            return kinds_v4[i].kind;
        }
    }
    return ADDRESS_PUBLIC;
}

enum address_kind address_kind(const struct address *address)
{
    static const uint8_t zero[16] = {0};
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    const uint8_t *bytes = address->bytes;

    if (is_v4(address)) {
        return kind_v4(bytes + sizeof mapped);
    }
    if (memcmp(bytes, zero, 15) == 0 && bytes[15] <= 1) {
        return bytes[15] ? ADDRESS_LOOPBACK : ADDRESS_UNSPECIFIED;
    }
    if (memcmp(bytes, nat64, sizeof nat64) == 0) {
        return kind_v4(bytes + NAT64_OFFSET);
    }
    if (bytes[0] == 0x20 && bytes[1] == 0x02) {
        return kind_v4(bytes + SIX_TO_4_OFFSET);
    }
    for (size_t i = 0; i < sizeof kinds_v6 / sizeof kinds_v6[0]; i++) {
        if (same_bits(bytes, kinds_v6[i].first, kinds_v6[i].bits)) {
            return kinds_v6[i].kind;
        }
    }
    return bytes[0] >> 5 == 1 ? ADDRESS_PUBLIC : ADDRESS_RESERVED;
}

/* ---- Networks -------------------------------------------------------------------------------- */

/* The number behind the slash; -1: it is none, or more than `max`. */
static int read_bits(const char *text, int max)
{
    int bits = 0;

    if (!text[0] || strlen(text) > 3) {
        return -1;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            return -1;
        }
        bits = bits * 10 + (*text - '0');
    }
    return bits <= max ? bits : -1;
}

hf_status network_parse(struct text text, struct network *ret_network)
{
    struct network network = {.bits = 128};
    char word[NETWORK_BYTES];
    char *slash;

    if (text.length >= sizeof word || memchr(text.bytes, '\0', text.length)) {
        return fail(HF_INVALID, "a network is an address and a number of bits, as 10.0.0.0/8");
    }
    memcpy(word, text.bytes, text.length);
    word[text.length] = '\0';
    slash = strchr(word, '/');
    if (slash) {
        *slash = '\0';
    }
    if (!address_parse(word, &network.first)) {
        return fail(HF_INVALID, "'%s' is no address; a network is written as 10.0.0.0/8", word);
    }
    if (slash) {
        int more = is_v4(&network.first) && !strchr(word, ':') ? V4_BITS : 0;
        int bits = read_bits(slash + 1, 128 - more);
        if (bits < 0) {
            return fail(HF_INVALID, "behind the slash is a number of bits from 0 to %d",
                        128 - more);
        }
        network.bits = bits + more;
    }
    for (int bit = network.bits; bit < 128; bit++) {
        if (network.first.bytes[bit / 8] & (0x80 >> bit % 8)) {
            return fail(HF_INVALID, "%s has bits behind the first %s, which must be 0", word,
                        slash ? slash + 1 : "");
        }
    }
    *ret_network = network;
    return HF_OK;
}

bool network_contains(const struct network *network, const struct address *address)
{
    return same_bits(network->first.bytes, address->bytes, network->bits);
}

bool network_rules_allow(const struct network_rules *rules, const struct address *address)
{
    enum address_kind kind = address_kind(address);

    for (size_t i = 0; i < rules->count; i++) {
        if (network_contains(&rules->networks[i], address)) {
            return true;
        }
    }
    return kind == ADDRESS_PUBLIC ||
           (rules->allow_private && (kind == ADDRESS_LOOPBACK || kind == ADDRESS_PRIVATE));
}
