/* Unit tests of base/set64. */
#include "base/mem.h"
#include "base/set64.h"
#include "unit.h"

static void a_key_is_found_after_put_and_not_after_remove(void **state)
{
    struct set64 set;
    int64_t value = 7;

    (void)state;
    set64_init(&set, 100);
    assert_false(set64_get(&set, 1, &value));
    assert_false(set64_remove(&set, 1));
    assert_int_equal(value, 7);
    assert_ok(set64_put(&set, 0, -1));
    assert_ok(set64_put(&set, UINT64_MAX, INT64_MIN));
    assert_true(set64_get(&set, 0, &value));
    assert_int_equal(value, -1);
    assert_true(set64_get(&set, UINT64_MAX, &value));
    assert_int_equal(value, INT64_MIN);
    assert_ok(set64_put(&set, 0, 5));
    assert_int_equal(set64_count(&set), 2);
    assert_true(set64_remove(&set, 0));
    assert_false(set64_get(&set, 0, NULL));
    assert_int_equal(set64_count(&set), 1);
    set64_release(&set);
}

static void a_full_map_refuses_new_keys_only(void **state)
{
    struct set64 set;

    (void)state;
    set64_init(&set, 20);
    for (uint64_t key = 0; key < 20; key++) {
        assert_ok(set64_put(&set, key, 1));
    }
    assert_int_equal(set64_put(&set, 20, 1), HF_INVALID);
    assert_message("the limit is 20");
    assert_int_equal(set64_add(&set, 21, 1), HF_INVALID);
    assert_ok(set64_put(&set, 3, 2));
    assert_ok(set64_add(&set, 3, 1));
    assert_true(set64_remove(&set, 3));
    assert_ok(set64_put(&set, 20, 1));
    assert_int_equal(set64_count(&set), 20);
    set64_release(&set);
}

static void a_counter_disappears_at_zero(void **state)
{
    struct set64 set;
    int64_t value;

    (void)state;
    set64_init(&set, 10);
    assert_ok(set64_add(&set, 5, 1));
    assert_ok(set64_add(&set, 5, 1));
    assert_true(set64_get(&set, 5, &value));
    assert_int_equal(value, 2);
    assert_ok(set64_add(&set, 5, -2));
    assert_int_equal(set64_count(&set), 0);
    assert_ok(set64_add(&set, 6, 0));
    assert_int_equal(set64_count(&set), 0);
    set64_release(&set);
}

#define KEYS 200

/* A plain array is the model; keys are few, so that runs are long and removals shift. */
static void random_operations_agree_with_an_array(void **state)
{
    bool present[KEYS] = {false};
    int64_t values[KEYS] = {0};
    size_t count = 0;
    uint64_t seed = 41;
    struct set64 set;

    (void)state;
    set64_init(&set, KEYS);
    for (int i = 0; i < 200000; i++) {
        uint64_t key = chance_below(&seed, KEYS);
        int64_t value = (int64_t)chance(&seed), found;

        if (chance(&seed) % 2) {
            assert_ok(set64_put(&set, key, value));
            count += !present[key];
            present[key] = true;
            values[key] = value;
        } else {
            assert_int_equal(set64_remove(&set, key), present[key]);
            count -= present[key];
            present[key] = false;
        }
        assert_int_equal(set64_count(&set), count);
        key = chance_below(&seed, KEYS);
        assert_int_equal(set64_get(&set, key, &found), present[key]);
        if (present[key]) {
            assert_int_equal(found, values[key]);
        }
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        assert_int_equal(set64_get(&set, key, NULL), present[key]);
    }
    set64_release(&set);
}

static void removing_a_value_leaves_exactly_the_others(void **state)
{
    uint64_t seed = 43;

    (void)state;
    for (int round = 0; round < 500; round++) {
        int64_t values[KEYS];
        size_t left = 0;
        struct set64 set;

        set64_init(&set, KEYS);
        for (uint64_t key = 0; key < KEYS; key++) {
            values[key] = (int64_t)chance_below(&seed, 3);
            assert_ok(set64_put(&set, key * (uint64_t)(round + 1), values[key]));
        }
        set64_remove_value(&set, 1);
        for (uint64_t key = 0; key < KEYS; key++) {
            left += values[key] != 1;
            assert_int_equal(set64_get(&set, key * (uint64_t)(round + 1), NULL), values[key] != 1);
        }
        assert_int_equal(set64_count(&set), left);
        set64_release(&set);
    }
}

static void walking_meets_every_entry_once(void **state)
{
    struct set64 set;
    bool seen[1000] = {false};
    size_t cursor = 0, count = 0;
    uint64_t key;
    int64_t value;

    (void)state;
    set64_init(&set, 1000);
    assert_false(set64_next(&set, &cursor, &key, &value));
    for (uint64_t i = 0; i < 1000; i++) {
        assert_ok(set64_put(&set, i, (int64_t)i * 2));
    }
    for (cursor = 0; set64_next(&set, &cursor, &key, &value); count++) {
        assert_false(seen[key]);
        seen[key] = true;
        assert_int_equal(value, key * 2);
    }
    assert_int_equal(count, 1000);
    set64_clear(&set);
    assert_int_equal(set64_count(&set), 0);
    assert_false(set64_get(&set, 5, NULL));
    set64_release(&set);
}

#ifdef HF_FAULTS
static void out_of_memory_leaves_the_map_as_it_was(void **state)
{
    int64_t before = mem_live();
    struct set64 set;
    int64_t value;
    uint64_t key = 0;

    (void)state;
    set64_init(&set, 1000);
    mem_fail_at(3, false);
    while (set64_put(&set, key, (int64_t)key) == HF_OK) {
        key++;
    }
    assert_true(key > 10);
    assert_int_equal(set64_count(&set), key);
    for (uint64_t i = 0; i < key; i++) {
        assert_true(set64_get(&set, i, &value));
        assert_int_equal(value, i);
    }
    assert_ok(set64_put(&set, key, 0));
    set64_release(&set);
    assert_int_equal(mem_live(), before);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_after_put_and_not_after_remove),
        cmocka_unit_test(a_full_map_refuses_new_keys_only),
        cmocka_unit_test(a_counter_disappears_at_zero),
        cmocka_unit_test(random_operations_agree_with_an_array),
        cmocka_unit_test(removing_a_value_leaves_exactly_the_others),
        cmocka_unit_test(walking_meets_every_entry_once),
#ifdef HF_FAULTS
        cmocka_unit_test(out_of_memory_leaves_the_map_as_it_was),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
