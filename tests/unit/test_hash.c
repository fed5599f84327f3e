/* Unit tests of base/hash. */
#include "base/uuid.h"
#include "unit.h"

static void md5_equals_the_vectors_of_rfc_1321(void **state)
{
    static const struct {
        const char *text;
        const char *digest;
    } table[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint8_t digest[MD5_BYTES];
        char hex[2 * MD5_BYTES + 1];

        hash_md5(table[i].text, strlen(table[i].text), digest);
        for (int b = 0; b < MD5_BYTES; b++) {
            snprintf(hex + 2 * b, 3, "%02x", digest[b]);
        }
        assert_string_equal(hex, table[i].digest);
    }
}

/* One digest over the digests of all lengths from 0 to 299 pins every way to pad a block. */
static void md5_is_right_at_every_length_around_a_block(void **state)
{
    uint8_t all[300][MD5_BYTES], digest[MD5_BYTES];
    char bytes[300];
    static const uint8_t expected[MD5_BYTES] = {
        0x07, 0xe3, 0x8d, 0x09, 0x26, 0x75, 0xaf, 0xb4,
        0xbc, 0x77, 0x42, 0xd3, 0x88, 0xf7, 0x7d, 0xda,
    };

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i * 7 + 1);
    }
    for (size_t length = 0; length < COUNT_OF(all); length++) {
        hash_md5(bytes, length, all[length]);
    }
    hash_md5(all, sizeof all, digest);
    assert_memory_equal(digest, expected, MD5_BYTES);
}

static void the_partition_hash_is_what_postgresql_computes(void **state)
{
    /* select ('x'||substr(md5(t),1,16))::bit(64)::bigint & x'7fffffffffffffff'::bigint */
    static const struct {
        const char *text;
        int64_t hash;
    } table[] = {
        {"", INT64_C(0x541d8cd98f00b204)}, /* md5 begins d4: the sign bit goes */
        {"a", INT64_C(0x0cc175b9c0f1b6a8)},
        {"abc", INT64_C(0x100150983cd24fb0)}, /* 90 */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(hash_partition(text_of(table[i].text)), table[i].hash);
    }
}

static const int32_t counts[] = {1, 2, 3, 7, 16, 1000, 1024};

/* Answers that may never change: events are where they were stored. Computed elsewhere, by Python's
 * hashlib. */
static void keys_stay_in_their_partitions_for_ever(void **state)
{
    static char longest[65536];
    const struct {
        struct text text;
        int64_t hash;
        int32_t slices[COUNT_OF(counts)];
    } table[] = {
        {text_of(""), INT64_C(0x541d8cd98f00b204), {0, 0, 0, 6, 4, 980, 516}},
        {text_of(" "), INT64_C(0x7215ee9c7d9dc229), {0, 1, 2, 5, 9, 201, 553}},
        {text_of("a"), INT64_C(0x0cc175b9c0f1b6a8), {0, 0, 0, 6, 8, 800, 680}},
        {text_of("A"), INT64_C(0x7fc56270e7a70fa8), {0, 0, 2, 0, 8, 720, 936}},
        {text_of("a\nb"), INT64_C(0x0cdeb44417f3c268), {0, 0, 2, 2, 8, 656, 616}},
        {text_of("\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87"), /* Cyrillic */
         INT64_C(0x43657b66c60a3072),
         {0, 0, 1, 0, 2, 138, 114}},
        {text_of("\xf0\x9f\x98\x80"), /* beyond the basic plane */
         INT64_C(0x2a02eac39d716a70),
         {0, 0, 1, 6, 0, 656, 624}},
        {{longest, sizeof longest}, INT64_C(0x598bf98d5c865461), {0, 1, 2, 5, 1, 745, 97}},
        /* Of these the digest begins with 0x80000788 and 0xffffff9e: next to INT64_MIN and -1. */
        {text_of("user-252235"), INT64_C(0x00000788b592aeb1), {0, 1, 2, 0, 1, 761, 689}},
        {text_of("user-2373272"), INT64_C(0x7fffff9e80185db5), {0, 1, 0, 2, 5, 301, 437}},
    };

    (void)state;
    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(hash_partition(table[i].text), table[i].hash);
        for (size_t n = 0; n < COUNT_OF(counts); n++) {
            assert_int_equal(hash_slice(table[i].hash, counts[n]), table[i].slices[n]);
        }
    }
}

static void every_number_has_a_partition(void **state)
{
    static const int64_t hashes[] = {
        0,         1,  2,         INT32_MAX,     INT64_C(0x80000000), UINT32_MAX,
        INT64_MAX, -1, INT32_MIN, INT64_MIN + 1, INT64_MIN,           INT64_MAX - 1,
    };

    (void)state;
    for (size_t n = 0; n < COUNT_OF(counts); n++) {
        for (size_t i = 0; i < COUNT_OF(hashes); i++) {
            int32_t slice = hash_slice(hashes[i], counts[n]);

            assert_in_range(slice, 0, counts[n] - 1);
            if (hashes[i] >= 0) {
                assert_int_equal(slice, hashes[i] % counts[n]);
            }
        }
    }
}

/* A hundred keys for each partition, named as people name them. */
static void keys_are_spread_evenly(void **state)
{
    static const char *const names[] = {"", "user-", "00000000-0000-7000-8000-00000"};
    static int found[1024];

    (void)state;
    for (size_t n = 0; n < COUNT_OF(counts); n++) {
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            memset(found, 0, sizeof found);
            for (int i = 0; i < 100 * counts[n]; i++) {
                char key[64];

                snprintf(key, sizeof key, "%s%d", names[k], 1000000 + i);
                found[hash_slice(hash_partition(text_of(key)), counts[n])]++;
            }
            for (int32_t i = 0; i < counts[n]; i++) {
                assert_in_range(found[i], 50, 150);
            }
        }
    }
}

static const uint8_t some_id[16] = {0x01, 0x93, 0x5D, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1};

static void an_event_is_hashed_by_tenant_else_key_else_id(void **state)
{
    struct text tenant = text_of("t"), key = text_of("k");

    (void)state;
    assert_int_equal(hash_event(tenant, key, some_id), hash_partition(tenant));
    assert_int_equal(hash_event(TEXT_ABSENT, key, some_id), hash_partition(key));
    assert_int_equal(hash_event(text_of(""), key, some_id), hash_partition(text_of("")));
    assert_int_equal(hash_event(TEXT_ABSENT, TEXT_ABSENT, some_id),
                     hash_partition(text_of("01935d00-0000-7000-8000-000000000001")));
}

static void lanes_of_different_pairs_differ(void **state)
{
    static const struct text parts[] = {
        {NULL, 0},
        TEXT_LITERAL(""),
        TEXT_LITERAL("a"),
        TEXT_LITERAL("b"),
        TEXT_LITERAL("ab"),
        TEXT_LITERAL("\0"),
        TEXT_LITERAL("\1\1\0\0\0\0\0\0\0b"),
        TEXT_LITERAL("a\1b"),
        TEXT_LITERAL("b\1a"),
    };
    uint64_t lanes[COUNT_OF(parts) * COUNT_OF(parts)];
    size_t count = 0;

    (void)state;
    for (size_t t = 0; t < COUNT_OF(parts); t++) {
        for (size_t k = 0; k < COUNT_OF(parts); k++) {
            lanes[count++] = hash_lane(parts[t], parts[k], some_id);
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            assert_true(lanes[i] != lanes[j]);
        }
    }
}

static void a_lane_depends_on_the_id_only_without_tenant_and_key(void **state)
{
    uint8_t other_id[16] = {0};

    (void)state;
    assert_int_equal(hash_lane(TEXT_ABSENT, text_of("k"), some_id),
                     hash_lane(TEXT_ABSENT, text_of("k"), other_id));
    assert_int_equal(hash_lane(text_of("t"), TEXT_ABSENT, some_id),
                     hash_lane(text_of("t"), TEXT_ABSENT, other_id));
    assert_true(hash_lane(TEXT_ABSENT, TEXT_ABSENT, some_id) !=
                hash_lane(TEXT_ABSENT, TEXT_ABSENT, other_id));
}

/* Both are MD5 of messages that end in one block or in two, each with each. */
static void hashes_of_a_new_event_are_those_of_one_after_the_other(void **state)
{
    char bytes[300];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)('a' + i % 26);
    }
    for (size_t payload = 0; payload < 200; payload++) {
        for (size_t key = 0; key < 140; key += 3) {
            struct hash_content content = {.id = some_id,
                                           .emitted_at_us = 1700000000000000,
                                           .type = TEXT_LITERAL("a.b"),
                                           .key = {bytes, key},
                                           .payload = {bytes + 1, payload}};
            int64_t of_content = 0;
            int64_t hash = 0;

            if (key % 2) {
                content.tenant = (struct text){bytes + 2, key};
            }
            if (key == 0) {
                content.key = TEXT_ABSENT;
            }
            hash_new(&content, &of_content, &hash);
            assert_true(of_content == hash_content(&content));
            assert_true(hash == hash_event(content.tenant, content.key, some_id));
        }
    }
}

#define SET_MAX 200

/* Sets of all sizes, which are full several times, with messages of all lengths; one is too long
 * for a set. */
static void hashes_of_a_set_are_those_of_one_after_the_other(void **state)
{
    static char bytes[20000];
    struct hash_set set;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)('a' + i % 26);
    }
    hash_set_init(&set);
    for (size_t count = 0; count < SET_MAX; count++) {
        int64_t contents[SET_MAX], hashes[SET_MAX];
        uint64_t lanes[SET_MAX];
        struct hash_content given[SET_MAX];

        for (size_t i = 0; i < count; i++) {
            size_t length = i == 77 ? sizeof bytes : (i * 37 + count) % 400;
            struct hash_content *content = &given[i];

            *content = (struct hash_content){.id = some_id,
                                             .emitted_at_us = 1700000000000000 + (int64_t)i,
                                             .type = TEXT_LITERAL("a.b"),
                                             .payload = {bytes, length}};
            content->key = i % 3 ? (struct text){bytes + 1, length / 3} : TEXT_ABSENT;
            content->tenant = i % 5 ? TEXT_ABSENT : (struct text){bytes + 2, length / 7};
            hash_set_content(&set, content, &contents[i]);
            hash_set_event(&set, content->tenant, content->key, some_id, &hashes[i]);
            hash_set_lane(&set, content->tenant, content->key, some_id, &lanes[i]);
        }
        hash_set_finish(&set);
        for (size_t i = 0; i < count; i++) {
            struct text tenant = given[i].tenant, key = given[i].key;

            assert_true(contents[i] == hash_content(&given[i]));
            assert_true(hashes[i] == hash_event(tenant, key, some_id));
            assert_true(lanes[i] == hash_lane(tenant, key, some_id));
        }
    }
}

static void mix_changes_about_half_of_the_bits(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t difference = hash_mix(12345) ^ hash_mix(UINT64_C(12345) ^ UINT64_C(1) << bit);
        int changed = __builtin_popcountll(difference);

        assert_true(changed > 12 && changed < 52);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(md5_equals_the_vectors_of_rfc_1321),
        cmocka_unit_test(md5_is_right_at_every_length_around_a_block),
        cmocka_unit_test(the_partition_hash_is_what_postgresql_computes),
        cmocka_unit_test(keys_stay_in_their_partitions_for_ever),
        cmocka_unit_test(every_number_has_a_partition),
        cmocka_unit_test(keys_are_spread_evenly),
        cmocka_unit_test(an_event_is_hashed_by_tenant_else_key_else_id),
        cmocka_unit_test(lanes_of_different_pairs_differ),
        cmocka_unit_test(a_lane_depends_on_the_id_only_without_tenant_and_key),
        cmocka_unit_test(hashes_of_a_new_event_are_those_of_one_after_the_other),
        cmocka_unit_test(hashes_of_a_set_are_those_of_one_after_the_other),
        cmocka_unit_test(mix_changes_about_half_of_the_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
