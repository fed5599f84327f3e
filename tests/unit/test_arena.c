/* Unit tests of base/arena. */
#include "base/arena.h"
#include "base/mem.h"
#include "unit.h"

#define BATCH_BYTES_MAX 100000

static void memory_is_aligned_and_texts_are_terminated(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, BATCH_BYTES_MAX);
    for (int i = 0; i < 2000; i++) {
        struct text copy = arena_text(&arena, (struct text){"a\0b", 3});
        uint64_t *number = arena_alloc(&arena, 1 + (size_t)i % 7);

        assert_memory_equal(copy.bytes, "a\0b", 4);
        assert_int_equal(copy.length, 3);
        assert_int_equal((uintptr_t)number % _Alignof(max_align_t), 0);
        memset(number, 0xAA, 1 + (size_t)i % 7);
    }
    assert_ok(arena_status(&arena));
    arena_release(&arena);
}

static void pieces_do_not_overlap(void **state)
{
    struct arena arena;
    uint64_t seed = 1;
    unsigned char *pieces[500];
    size_t sizes[500];

    (void)state;
    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        sizes[i] = chance_below(&seed, 900);
        pieces[i] = arena_alloc(&arena, sizes[i]);
        memset(pieces[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(pieces[i][j], i % 251);
        }
    }
    arena_release(&arena);
}

static void absent_stays_absent_and_empty_stays_empty(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 100);
    assert_true(text_is_absent(arena_text(&arena, TEXT_ABSENT)));
    assert_true(text_equal(arena_text(&arena, text_of("")), text_of("")));
    assert_ok(arena_status(&arena));
    arena_release(&arena);
}

static void the_maximum_is_exact_and_the_failure_sticks(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 64);
    assert_non_null(arena_alloc(&arena, 48));
    assert_int_equal(arena_left(&arena), 16);
    assert_null(arena_alloc(&arena, 17));
    assert_null(arena_alloc(&arena, 1));
    assert_int_equal(arena_status(&arena), HF_INVALID);
    assert_message("limit of 64 bytes");
    arena_clear(&arena);
    assert_ok(arena_status(&arena));
    assert_non_null(arena_alloc(&arena, 64));
    assert_int_equal(arena_left(&arena), 0);
    arena_release(&arena);
}

/* Odd sizes between aligned ones: what fits must not depend on how the blocks were cut. */
static size_t pieces_that_fit(struct arena *arena)
{
    size_t count = 0;

    while (arena_alloc(arena, 1 + count % 37) && arena_text(arena, text_of("abc")).bytes) {
        count++;
    }
    return count;
}

static void the_room_in_an_arena_does_not_depend_on_its_blocks(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, BATCH_BYTES_MAX);

    size_t in_many_blocks = pieces_that_fit(&arena);

    assert_true(in_many_blocks > 1000);
    arena_clear(&arena);
    assert_int_equal(pieces_that_fit(&arena), in_many_blocks);
    arena_release(&arena);
}

#ifdef HF_FAULTS
static void the_steady_state_is_one_block_and_allocates_nothing(void **state)
{
    int64_t before = mem_live();
    struct arena arena;

    (void)state;
    arena_init(&arena, BATCH_BYTES_MAX);
    for (int batch = 0; batch < 2; batch++) {
        pieces_that_fit(&arena);
        arena_clear(&arena);
    }
    assert_int_equal(mem_live(), before + 1);
    mem_fail_at(1, true);
    for (int batch = 0; batch < 10; batch++) {
        assert_true(pieces_that_fit(&arena) > 1000);
        assert_int_equal(arena_status(&arena), HF_INVALID); /* full, not out of memory */
        arena_clear(&arena);
    }
    mem_fail_at(0, false);
    arena_release(&arena);
}

static void out_of_memory_is_reported_and_nothing_leaks(void **state)
{
    int64_t before = mem_live();
    struct arena arena;

    (void)state;
    for (int nth = 1; nth <= 3; nth++) {
        arena_init(&arena, BATCH_BYTES_MAX);
        mem_fail_at(nth, false);
        pieces_that_fit(&arena);
        assert_int_equal(arena_status(&arena), HF_NOMEM);
        arena_release(&arena);
        assert_int_equal(mem_live(), before);
    }
    mem_fail_at(0, false);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_texts_are_terminated),
        cmocka_unit_test(pieces_do_not_overlap),
        cmocka_unit_test(absent_stays_absent_and_empty_stays_empty),
        cmocka_unit_test(the_maximum_is_exact_and_the_failure_sticks),
        cmocka_unit_test(the_room_in_an_arena_does_not_depend_on_its_blocks),
#ifdef HF_FAULTS
        cmocka_unit_test(the_steady_state_is_one_block_and_allocates_nothing),
        cmocka_unit_test(out_of_memory_is_reported_and_nothing_leaks),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
