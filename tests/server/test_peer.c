/*
 * test_peer.c - which connections count as those of one client.
 */
#include "server/http/peer.h"
#include "support/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct peer peer_at(const char *text)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return peer_of((const struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return peer_of((const struct sockaddr *)&v6);
}

static bool same(const char *one, const char *other)
{
    struct peer a = peer_at(one);
    struct peer b = peer_at(other);

    return memcmp(&a, &b, sizeof a) == 0;
}

static void addresses_of_one_network_of_ipv6_are_one_client(void **state)
{
    (void)state;
    assert_true(same("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"));
    assert_false(same("2001:db8:1:2::1", "2001:db8:1:3::1"));
    assert_false(same("2001:db8:1:2::1", "::1"));
}

static void addresses_of_ipv4_are_clients_of_their_own(void **state)
{
    (void)state;
    assert_true(same("10.0.0.7", "10.0.0.7"));
    assert_false(same("10.0.0.7", "10.0.0.8"));
    assert_true(same("10.0.0.7", "::ffff:10.0.0.7"));
    assert_false(same("::ffff:10.0.0.7", "::ffff:10.0.0.8"));
    assert_false(same("127.0.0.1", "::1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_one_network_of_ipv6_are_one_client),
        cmocka_unit_test(addresses_of_ipv4_are_clients_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
