/* Unit tests of base/mem. The failing allocator exists only in builds with HF_FAULTS. */
#include "base/mem.h"
#include "unit.h"

static void dup_adds_a_final_nul(void **state)
{
    char *copy = mem_dup("a\0bc", 3);
    char *empty = mem_dup(NULL, 0);

    (void)state;
    assert_memory_equal(copy, "a\0b", 4);
    assert_string_equal(empty, "");
    mem_free(copy);
    mem_free(empty);
}

static void calloc_zeroes_and_refuses_a_product_that_does_not_fit(void **state)
{
    static const char zeros[64];
    volatile size_t huge = SIZE_MAX / 2; /* volatile: the compiler would warn of the size */
    void *block = mem_calloc(8, 8);

    (void)state;
    assert_memory_equal(block, zeros, 64);
    mem_free(block);
    assert_null(mem_calloc(huge, 4));
}

static void a_size_of_zero_gives_a_block(void **state)
{
    void *blocks[] = {mem_alloc(0), mem_calloc(0, 8), mem_realloc(NULL, 0)};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        assert_non_null(blocks[i]);
        mem_free(blocks[i]);
    }
    mem_free(NULL);
}

#ifdef HF_FAULTS
static void the_nth_allocation_fails_and_only_that_one(void **state)
{
    void *blocks[4];

    (void)state;
    mem_fail_at(3, false);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        blocks[i] = mem_alloc(1);
    }
    assert_non_null(blocks[0]);
    assert_non_null(blocks[1]);
    assert_null(blocks[2]);
    assert_non_null(blocks[3]);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        mem_free(blocks[i]);
    }
}

static void a_sticky_failure_lasts_until_it_is_switched_off(void **state)
{
    void *block;

    (void)state;
    mem_fail_at(1, true);
    assert_null(mem_alloc(1));
    assert_null(mem_calloc(1, 1));
    assert_null(mem_dup("a", 1));
    mem_fail_at(0, false);
    block = mem_alloc(1);
    assert_non_null(block);
    mem_free(block);
}

static void a_failed_realloc_leaves_the_old_block(void **state)
{
    char *block = mem_dup("old", 3);

    (void)state;
    mem_fail_at(1, false);
    assert_null(mem_realloc(block, 1000));
    assert_string_equal(block, "old");
    mem_free(block);
}

static void live_counts_blocks_and_a_moved_one_once(void **state)
{
    int64_t before = mem_live();
    void *a = mem_alloc(10);
    void *b = mem_realloc(NULL, 10);

    (void)state;
    assert_int_equal(mem_live(), before + 2);
    b = mem_realloc(b, 100000);
    assert_int_equal(mem_live(), before + 2);
    mem_free(a);
    mem_free(b);
    mem_free(NULL);
    assert_int_equal(mem_live(), before);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dup_adds_a_final_nul),
        cmocka_unit_test(calloc_zeroes_and_refuses_a_product_that_does_not_fit),
        cmocka_unit_test(a_size_of_zero_gives_a_block),
#ifdef HF_FAULTS
        cmocka_unit_test(the_nth_allocation_fails_and_only_that_one),
        cmocka_unit_test(a_sticky_failure_lasts_until_it_is_switched_off),
        cmocka_unit_test(a_failed_realloc_leaves_the_old_block),
        cmocka_unit_test(live_counts_blocks_and_a_moved_one_once),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
