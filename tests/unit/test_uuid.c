/* Unit tests of base/uuid. */
#include "base/time/clock.h"
#include "base/uuid.h"
#include "unit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOW_US INT64_C(1794714878123456)

static void an_id_is_version_7_and_carries_its_millisecond(void **state)
{
    uint8_t id[UUID_BYTES];

    (void)state;
    uuid_v7(NOW_US, id);
    assert_int_equal(id[6] >> 4, 7);
    assert_int_equal(id[8] >> 6, 2);
    assert_int_equal(uuid_v7_time_us(id), NOW_US / 1000 * 1000);
}

static void other_versions_and_variants_have_no_time(void **state)
{
    uint8_t id[UUID_BYTES];

    (void)state;
    assert_ok(uuid_parse(text_of("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"), id));
    assert_int_equal(uuid_v7_time_us(id), -1);
    assert_ok(uuid_parse(text_of("01935d00-0000-7000-0000-000000000000"), id));
    assert_int_equal(uuid_v7_time_us(id), -1);
}

static void ids_ascend_while_the_clock_stands_still_or_steps_back_a_little(void **state)
{
    uint8_t last[UUID_BYTES], id[UUID_BYTES];

    (void)state;
    uuid_v7(NOW_US, last);
    for (int i = 0; i < 100000; i++) {
        uuid_v7(NOW_US - i % 3 * 1000000, id);
        assert_true(memcmp(last, id, UUID_BYTES) < 0);
        memcpy(last, id, UUID_BYTES);
    }
    assert_true(uuid_v7_time_us(last) - NOW_US < 100000); /* 4 ids fit into a microsecond */
}

static void ids_follow_the_clock_when_it_steps_back_far(void **state)
{
    int64_t earlier_us = NOW_US - (UUID_AHEAD_MS_MAX + 1000) * INT64_C(1000);
    uint8_t id[UUID_BYTES];

    (void)state;
    uuid_v7(NOW_US, id);
    uuid_v7(earlier_us, id);
    assert_int_equal(uuid_v7_time_us(id), earlier_us / 1000 * 1000);
}

static void times_outside_the_48_bits_do_no_harm(void **state)
{
    uint8_t id[UUID_BYTES];

    (void)state;
    uuid_v7(-5, id);
    assert_int_equal(uuid_v7_time_us(id), 0);
    uuid_v7(INT64_MAX, id);
    assert_true(uuid_v7_time_us(id) > NOW_US);
    uuid_v7(NOW_US, id);
    assert_int_equal(uuid_v7_time_us(id), NOW_US / 1000 * 1000);
}

#define THREADS 4
#define IDS_PER_THREAD 20000

static uint8_t made[THREADS * IDS_PER_THREAD][UUID_BYTES];

static void *make_ids(void *ctx)
{
    uint8_t(*ids)[UUID_BYTES] = ctx;

    for (int i = 0; i < IDS_PER_THREAD; i++) {
        uuid_v7(NOW_US, ids[i]);
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, UUID_BYTES);
}

static void ids_of_all_threads_are_distinct_in_their_tick_and_each_thread_ascends(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (int t = 0; t < THREADS; t++) {
        pthread_create(&threads[t], NULL, make_ids, made[t * IDS_PER_THREAD]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    for (int i = 1; i < THREADS * IDS_PER_THREAD; i++) {
        if (i % IDS_PER_THREAD != 0) {
            assert_true(memcmp(made[i - 1], made[i], UUID_BYTES) < 0);
        }
    }
    /* No two share even the first 8 bytes: the counter is one for the process. */
    qsort(made, THREADS * IDS_PER_THREAD, UUID_BYTES, compare_ids);
    for (int i = 1; i < THREADS * IDS_PER_THREAD; i++) {
        assert_true(memcmp(made[i - 1], made[i], 8) < 0);
    }
}

static void a_forked_child_does_not_repeat_its_parents_numbers(void **state)
{
    uint64_t mine[8], childs[8];
    int ends[2];

    (void)state;
    random_u64();
    assert_int_equal(pipe(ends), 0);

    pid_t child = fork();

    if (child == 0) {
        for (size_t i = 0; i < COUNT_OF(childs); i++) {
            childs[i] = random_u64();
        }
        _exit(write(ends[1], childs, sizeof childs) != sizeof childs);
    }
    for (size_t i = 0; i < COUNT_OF(mine); i++) {
        mine[i] = random_u64();
    }
    assert_int_equal(read(ends[0], childs, sizeof childs), sizeof childs);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    for (size_t i = 0; i < COUNT_OF(mine); i++) {
        for (size_t j = 0; j < COUNT_OF(childs); j++) {
            assert_true(mine[i] != childs[j]);
        }
    }
}

static void format_and_parse_are_inverse_in_either_case(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint64_t halves[2] = {chance(&seed), chance(&seed)};
        uint8_t id[UUID_BYTES], back[UUID_BYTES];
        char text[UUID_TEXT_BYTES];

        memcpy(id, halves, sizeof id);
        uuid_format(id, text);
        assert_int_equal(strlen(text), 36);
        for (size_t c = 0; text[c]; c++) {
            assert_false(text[c] >= 'A' && text[c] <= 'F');
            if (chance(&seed) % 2 && text[c] >= 'a') {
                text[c] = (char)(text[c] - 32);
            }
        }
        assert_ok(uuid_parse(text_of(text), back));
        assert_memory_equal(id, back, UUID_BYTES);
    }
}

static void anything_but_8_4_4_4_12_is_refused(void **state)
{
    static const char *const table[] = {
        "",
        "f81d4fae7dec41d0a76500a0c91e6bf6",
        "{f81d4fae-7dec-41d0-a765-00a0c91e6bf6}",
        "urn:uuid:f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
        "f81d4fae-7dec-41d0-a765-00a0c91e6bf",
        "f81d4fae-7dec-41d0-a765-00a0c91e6bf66",
        "f81d4fae-7dec-41d0-a765-00a0c91e6bfg",
        "f81d4fae-7dec-41d0-a76500-a0c91e6bf6",
        "f81d4fa-e7dec-41d0-a765-00a0c91e6bf6",
        "-81d4fae-7dec-41d0-a765-00a0c91e6bf6",
        "f81d4fae 7dec 41d0 a765 00a0c91e6bf6",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint8_t id[UUID_BYTES] = {1, 2, 3};

        if (uuid_parse(text_of(table[i]), id) != HF_INVALID) {
            fail_msg("\"%s\" was accepted", table[i]);
        }
        assert_int_equal(id[0], 1);
    }
}

static void random_bytes_fill_everything_asked_for(void **state)
{
    unsigned char bytes[1000] = {0};
    int seen[256] = {0}, distinct = 0;

    (void)state;
    random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        distinct += seen[bytes[i]]++ == 0;
    }
    assert_true(distinct > 200);
    random_bytes(bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_version_7_and_carries_its_millisecond),
        cmocka_unit_test(other_versions_and_variants_have_no_time),
        cmocka_unit_test(ids_ascend_while_the_clock_stands_still_or_steps_back_a_little),
        cmocka_unit_test(ids_follow_the_clock_when_it_steps_back_far),
        cmocka_unit_test(times_outside_the_48_bits_do_no_harm),
        cmocka_unit_test(ids_of_all_threads_are_distinct_in_their_tick_and_each_thread_ascends),
        cmocka_unit_test(a_forked_child_does_not_repeat_its_parents_numbers),
        cmocka_unit_test(format_and_parse_are_inverse_in_either_case),
        cmocka_unit_test(anything_but_8_4_4_4_12_is_refused),
        cmocka_unit_test(random_bytes_fill_everything_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
