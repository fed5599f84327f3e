/*
 * Tests of what webhooks are without a client of HTTP: which addresses they reach, what answers
 * mean, what a URL must be, and which traces are passed on.
 */
#include "base/err.h"
#include "base/time/time.h"
#include "cli/webhook/answer.h"
#include "cli/webhook/network.h"
#include "cli/webhook/trace.h"
#include "cli/webhook/webhook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct address address(const char *text)
{
    struct address address;

    assert_true(address_parse(text, &address));
    return address;
}

static bool allowed(const struct network_rules *rules, const char *text)
{
    struct address one = address(text);

    return network_rules_allow(rules, &one);
}

static const struct {
    const char *text;
    enum address_kind kind;
} known_addresses[] = {
    {"0.0.0.0", ADDRESS_UNSPECIFIED},
    {"0.0.0.1", ADDRESS_RESERVED},
    {"0.255.255.255", ADDRESS_RESERVED},
    {"1.0.0.0", ADDRESS_PUBLIC},
    {"9.255.255.255", ADDRESS_PUBLIC},
    {"10.0.0.0", ADDRESS_PRIVATE},
    {"10.255.255.255", ADDRESS_PRIVATE},
    {"11.0.0.0", ADDRESS_PUBLIC},
    {"100.63.255.255", ADDRESS_PUBLIC},
    {"100.64.0.0", ADDRESS_PRIVATE},
    {"100.127.255.255", ADDRESS_PRIVATE},
    {"100.128.0.0", ADDRESS_PUBLIC},
    {"126.255.255.255", ADDRESS_PUBLIC},
    {"127.0.0.0", ADDRESS_LOOPBACK},
    {"127.255.255.255", ADDRESS_LOOPBACK},
    {"128.0.0.0", ADDRESS_PUBLIC},
    {"169.253.255.255", ADDRESS_PUBLIC},
    {"169.254.169.254", ADDRESS_LINK_LOCAL},
    {"169.255.0.0", ADDRESS_PUBLIC},
    {"172.15.255.255", ADDRESS_PUBLIC},
    {"172.16.0.0", ADDRESS_PRIVATE},
    {"172.31.255.255", ADDRESS_PRIVATE},
    {"172.32.0.0", ADDRESS_PUBLIC},
    {"192.0.0.8", ADDRESS_RESERVED},
    {"192.0.2.1", ADDRESS_RESERVED},
    {"192.167.255.255", ADDRESS_PUBLIC},
    {"192.168.0.0", ADDRESS_PRIVATE},
    {"192.169.0.0", ADDRESS_PUBLIC},
    {"198.17.255.255", ADDRESS_PUBLIC},
    {"198.19.255.255", ADDRESS_RESERVED},
    {"198.20.0.0", ADDRESS_PUBLIC},
    {"203.0.113.9", ADDRESS_RESERVED},
    {"223.255.255.255", ADDRESS_PUBLIC},
    {"224.0.0.1", ADDRESS_MULTICAST},
    {"239.255.255.255", ADDRESS_MULTICAST},
    {"240.0.0.0", ADDRESS_RESERVED},
    {"255.255.255.255", ADDRESS_RESERVED},
    {"::", ADDRESS_UNSPECIFIED},
    {"::1", ADDRESS_LOOPBACK},
    {"::2", ADDRESS_RESERVED},
    {"::127.0.0.1", ADDRESS_RESERVED},
    {"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
    {"::ffff:10.0.0.1", ADDRESS_PRIVATE},
    {"::ffff:8.8.8.8", ADDRESS_PUBLIC},
    {"64:ff9b::10.0.0.1", ADDRESS_PRIVATE},
    {"64:ff9b::169.254.169.254", ADDRESS_LINK_LOCAL},
    {"64:ff9b::8.8.8.8", ADDRESS_PUBLIC},
    {"64:ff9b:1::8.8.8.8", ADDRESS_RESERVED},
    {"2002:7f00:1::", ADDRESS_LOOPBACK},
    {"2002:808:808::", ADDRESS_PUBLIC},
    {"2001::1", ADDRESS_RESERVED},
    {"2001:1ff:ffff::", ADDRESS_RESERVED},
    {"2001:200::", ADDRESS_PUBLIC},
    {"2001:db8::1", ADDRESS_RESERVED},
    {"2606:4700::1111", ADDRESS_PUBLIC},
    {"3fff:fff::", ADDRESS_RESERVED},
    {"3fff:1000::", ADDRESS_PUBLIC},
    {"4000::", ADDRESS_RESERVED},
    {"fc00::1", ADDRESS_PRIVATE},
    {"fdff::1", ADDRESS_PRIVATE},
    {"fe80::1", ADDRESS_LINK_LOCAL},
    {"febf::1", ADDRESS_LINK_LOCAL},
    {"fec0::1", ADDRESS_PRIVATE},
    {"ff02::1", ADDRESS_MULTICAST},
};

static void every_special_network_is_known_to_its_edges(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known_addresses / sizeof known_addresses[0]; i++) {
        struct address one = address(known_addresses[i].text);
        if (address_kind(&one) != known_addresses[i].kind) {
            fail_msg("%s is %s", known_addresses[i].text, address_kind_name(address_kind(&one)));
        }
    }
}

static void private_addresses_can_be_allowed_and_others_only_by_their_network(void **state)
{
    struct network_rules rules = {.allow_private = false};

    (void)state;
    assert_true(allowed(&rules, "8.8.8.8"));
    assert_false(allowed(&rules, "127.0.0.1"));
    rules.allow_private = true;
    assert_true(allowed(&rules, "127.0.0.1"));
    assert_true(allowed(&rules, "fd00::1"));
    assert_false(allowed(&rules, "169.254.169.254"));
    assert_false(allowed(&rules, "224.0.0.1"));
    assert_false(allowed(&rules, "0.0.0.0"));
    rules.allow_private = false;
    assert_int_equal(network_parse(text_of("169.254.0.0/16"), &rules.networks[rules.count++]),
                     HF_OK);
    assert_true(allowed(&rules, "169.254.169.254"));
    assert_true(allowed(&rules, "::ffff:169.254.169.254"));
    assert_false(allowed(&rules, "169.255.0.1") && allowed(&rules, "10.0.0.1"));
}

static void a_network_is_an_address_and_bits_that_fit(void **state)
{
    static const char *const bad[] = {"",          "10.0.0.0/33", "10.0.0.1/8",
                                      "::/129",    "10.0.0.0/",   "10.0.0/8",
                                      "localhost", "10.0.0.0/-1", "10.0.0.0/8/8"};
    struct network network;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (network_parse(text_of(bad[i]), &network) != HF_INVALID) {
            fail_msg("'%s' is taken for a network", bad[i]);
        }
    }
    assert_int_equal(network_parse(text_of("0.0.0.0/0"), &network), HF_OK);
    struct address v6 = address("2606:4700::1");
    assert_false(network_contains(&network, &v6));
    assert_int_equal(network_parse(text_of("192.168.1.7"), &network), HF_OK);
    assert_int_equal(network.bits, 128);
}

static void answers_mean_what_the_table_says(void **state)
{
    (void)state;
    assert_int_equal(answer_meaning(200), ANSWER_DONE);
    assert_int_equal(answer_meaning(299), ANSWER_DONE);
    assert_int_equal(answer_meaning(199), ANSWER_AGAIN);
    assert_int_equal(answer_meaning(300), ANSWER_AGAIN);
    assert_int_equal(answer_meaning(410), ANSWER_GONE);
    for (int status = 300; status < 600; status++) {
        bool rejected = status == 400 || status == 413 || status == 415 || status == 422;
        assert_int_equal(answer_meaning(status) == ANSWER_REJECTED, rejected);
    }
}

static void retry_after_is_seconds_or_a_date_and_bounded(void **state)
{
    int64_t now_us = 0;

    (void)state;
    assert_int_equal(time_parse(text_of("1994-11-06T08:49:37Z"), &now_us), HF_OK);
    assert_int_equal(answer_wait_ms(503, text_of("120"), now_us), 120000);
    assert_int_equal(answer_wait_ms(429, text_of("0"), now_us), 0);
    assert_int_equal(answer_wait_ms(500, text_of("120"), now_us), -1);
    assert_int_equal(answer_wait_ms(503, text_of(""), now_us), -1);
    assert_int_equal(answer_wait_ms(503, text_of("-1"), now_us), -1);
    assert_int_equal(answer_wait_ms(503, text_of("1.5"), now_us), -1);
    assert_int_equal(answer_wait_ms(503, text_of("99999999999999999999999"), now_us),
                     ANSWER_WAIT_MS_MAX);
    assert_int_equal(answer_wait_ms(503, text_of("Sun, 06 Nov 1994 08:50:37 GMT"), now_us), 60000);
    assert_int_equal(answer_wait_ms(503, text_of("Sun, 06 Nov 1994 08:48:37 GMT"), now_us), 0);
    assert_int_equal(answer_wait_ms(503, text_of("Fri, 31 Dec 9999 23:59:59 GMT"), now_us),
                     ANSWER_WAIT_MS_MAX);
    assert_int_equal(answer_wait_ms(503, text_of("Sun, 06 Nav 1994 08:50:37 GMT"), now_us), -1);
    assert_int_equal(answer_wait_ms(503, text_of("Sun, 99 Nov 1994 08:50:37 GMT"), now_us), -1);
}

static void urls_that_hide_something_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "ftp://h/",
                                      "http://",
                                      "http:///x",
                                      "http://u@h/",
                                      "http://u:p@h/",
                                      "http://h\\@evil/",
                                      "http://h/a b",
                                      "http://h/\n",
                                      "http://h/#f",
                                      "http://:80/",
                                      "h/x",
                                      "file:///etc/passwd",
                                      "http://h/\xC3\xBC"};
    char host[WEBHOOK_HOST_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (webhook_url_check(text_of(bad[i]), NULL) != HF_INVALID) {
            fail_msg("'%s' is taken for a URL", bad[i]);
        }
        assert_null(strstr(err_message(), "u:p"));
    }
    assert_int_equal(webhook_url_check(text_of("HTTPS://Example.com:8443/x?a@b"), host), HF_OK);
    assert_string_equal(host, "Example.com:8443");
}

static void only_a_trace_of_the_right_form_is_taken(void **state)
{
    static const char good[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    static const char *const bad[] = {"",
                                      "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"};
    struct event_trace trace;
    hf_event event = {.metadata = "{\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-"
                                  "b7ad6b7169203331-01\",\"tracestate\":\"a\\r\\nb: c\"}"};

    (void)state;
    assert_true(event_trace_is_parent(text_of(good)));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(event_trace_is_parent(text_of(bad[i])));
    }
    assert_true(event_trace(&event, &trace));
    assert_string_equal(trace.parent, good);
    assert_string_equal(trace.state, ""); /* it would have begun another header */
    event.metadata = "{\"traceparent\":17}";
    assert_false(event_trace(&event, &trace));
    event.metadata = NULL;
    assert_false(event_trace(&event, &trace));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_special_network_is_known_to_its_edges),
        cmocka_unit_test(private_addresses_can_be_allowed_and_others_only_by_their_network),
        cmocka_unit_test(a_network_is_an_address_and_bits_that_fit),
        cmocka_unit_test(answers_mean_what_the_table_says),
        cmocka_unit_test(retry_after_is_seconds_or_a_date_and_bounded),
        cmocka_unit_test(urls_that_hide_something_are_refused),
        cmocka_unit_test(only_a_trace_of_the_right_form_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
