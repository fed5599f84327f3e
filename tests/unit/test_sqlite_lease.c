/* Unit tests of store/sqlite/lease: the list of positions as it is stored. */
#include "base/mem.h"
#include "store/sqlite/write/lease.h"
#include "unit.h"

#define LIST_BYTES_MAX (LEASE_POSITIONS_MAX * LEASE_VARINT_BYTES_MAX)

static void assert_round_trip(const int64_t *positions, size_t count, size_t bytes)
{
    struct buf buf;
    buf_init(&buf, LIST_BYTES_MAX);
    lease_encode(positions, count, &buf);
    assert_ok(buf_status(&buf));
    if (bytes > 0) {
        assert_int_equal(buf.length, bytes);
    }
    int64_t *back = mem_calloc(count, sizeof *back);
    assert_non_null(back);
    assert_ok(lease_decode(buf.bytes, buf.length, back, count));
    assert_memory_equal(back, positions, count * sizeof *back);
    mem_free(back);
    buf_release(&buf);
}

static void lists_of_positions_are_decoded_as_they_were_encoded(void **state)
{
    (void)state;
    assert_round_trip((int64_t[]){1}, 1, 1);
    assert_round_trip((int64_t[]){127}, 1, 1);
    assert_round_trip((int64_t[]){128}, 1, 2);
    assert_round_trip((int64_t[]){1, 2, 3, 130, 259}, 5, 6);
    assert_round_trip((int64_t[]){INT64_MAX}, 1, LEASE_VARINT_BYTES_MAX);
    assert_round_trip((int64_t[]){1, INT64_MAX}, 2, 0);
    assert_round_trip((int64_t[]){INT64_MAX - 1, INT64_MAX}, 2, LEASE_VARINT_BYTES_MAX + 1);
}

static void neighbouring_positions_take_one_byte_each(void **state)
{
    (void)state;
    int64_t positions[100];
    for (int i = 0; i < 100; i++) {
        positions[i] = 1000000 + i;
    }
    assert_round_trip(positions, 100, 3 + 99);
}

/* Ascending positions with distances of every magnitude. */
static size_t random_list(uint64_t *seed, int64_t *positions, size_t max)
{
    size_t count = 1 + chance_below(seed, max);
    int64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t distance = 1 + (int64_t)(chance(seed) >> (1 + chance_below(seed, 62)));
        if (distance > INT64_MAX - before - (int64_t)(count - i)) {
            distance = 1;
        }
        before += distance;
        positions[i] = before;
    }
    return count;
}

static void random_lists_of_positions_are_decoded_as_they_were_encoded(void **state)
{
    (void)state;
    uint64_t seed = 1;
    int64_t positions[200];
    for (int round = 0; round < 2000; round++) {
        size_t count = random_list(&seed, positions, COUNT_OF(positions));
        assert_round_trip(positions, count, 0);
    }
}

static void the_largest_lease_fits(void **state)
{
    (void)state;
    static int64_t positions[LEASE_POSITIONS_MAX];
    for (int i = 0; i < LEASE_POSITIONS_MAX; i++) {
        positions[i] = INT64_MAX - LEASE_POSITIONS_MAX + 1 + i;
    }
    assert_round_trip(positions, LEASE_POSITIONS_MAX,
                      LEASE_VARINT_BYTES_MAX + LEASE_POSITIONS_MAX - 1);
}

static void assert_damaged(const char *bytes, size_t length, size_t count)
{
    int64_t positions[8];
    assert_true(count <= COUNT_OF(positions));
    assert_int_equal(lease_decode(bytes, length, positions, count), HF_CORRUPT);
    assert_message("damaged");
}

static void bytes_that_are_no_list_of_positions_are_refused(void **state)
{
    (void)state;
    assert_damaged("", 0, 1);
    assert_damaged("\x01", 1, 2);                                      /* one is missing */
    assert_damaged("\x01\x01", 2, 1);                                  /* one too many */
    assert_damaged("\x80", 1, 1);                                      /* it does not end */
    assert_damaged("\x00", 1, 1);                                      /* position 0 */
    assert_damaged("\x05\x00", 2, 2);                                  /* the same twice */
    assert_damaged("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 1); /* too large */
    assert_damaged("\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01", 10, 2); /* the sum is */
}

/* Whatever the bytes are: no read outside of them (the sanitizers watch a block of exact size), and
 * what is accepted is ascending and reads the same when written again. */
static void random_bytes_are_refused_or_a_list(void **state)
{
    (void)state;
    uint64_t seed = 2;
    int accepted = 0;
    for (int round = 0; round < 20000; round++) {
        size_t length = chance_below(&seed, 24);
        size_t count = 1 + chance_below(&seed, 8);
        uint8_t *bytes = mem_alloc(length);
        assert_non_null(bytes);
        for (size_t i = 0; i < length; i++) {
            bytes[i] = (uint8_t)(chance(&seed) >> chance_below(&seed, 8));
        }
        int64_t positions[8];
        if (lease_decode(bytes, length, positions, count) == HF_OK) {
            accepted++;
            for (size_t i = 0; i < count; i++) {
                assert_true(positions[i] > (i > 0 ? positions[i - 1] : 0));
            }
            assert_round_trip(positions, count, 0);
        }
        mem_free(bytes);
    }
    assert_true(accepted > 100);
}

static void find_agrees_with_a_walk(void **state)
{
    (void)state;
    uint64_t seed = 3;
    int64_t positions[50];
    for (int round = 0; round < 500; round++) {
        size_t count = chance_below(&seed, COUNT_OF(positions) + 1);
        int64_t before = 0;
        for (size_t i = 0; i < count; i++) {
            before += 1 + (int64_t)chance_below(&seed, 3);
            positions[i] = before;
        }
        for (int64_t wanted = 0; wanted <= before + 1; wanted++) {
            size_t at = SIZE_MAX;
            for (size_t i = 0; i < count; i++) {
                at = positions[i] == wanted ? i : at;
            }
            assert_true(lease_find(positions, count, wanted) == at);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_positions_are_decoded_as_they_were_encoded),
        cmocka_unit_test(neighbouring_positions_take_one_byte_each),
        cmocka_unit_test(random_lists_of_positions_are_decoded_as_they_were_encoded),
        cmocka_unit_test(the_largest_lease_fits),
        cmocka_unit_test(bytes_that_are_no_list_of_positions_are_refused),
        cmocka_unit_test(random_bytes_are_refused_or_a_list),
        cmocka_unit_test(find_agrees_with_a_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
