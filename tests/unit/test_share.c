/* Unit tests of bus/share: members that look at the same refresh agree on who should own what. */
#include "unit.h"

#include "bus/deliver/ordered/share.h"
#include "store/claimants.h"

#define UNOWNED MEMBERS_REFRESH_FREE

/* A refresh of so many members, none of which is assigned anything. */
static struct members_refresh members_refresh_of(const int32_t *owners, int32_t partitions,
                                                 int32_t members)
{
    struct members_refresh refresh = {.ret_members = members, .ret_partitions = partitions};

    memcpy(refresh.ret_owners, owners, (size_t)partitions * sizeof owners[0]);
    claimants_init(&refresh.ret_claimants);
    return refresh;
}

static int32_t share_size(const int32_t *owners, int32_t partitions, int32_t members, int32_t self)
{
    struct members_refresh refresh = members_refresh_of(owners, partitions, members);

    refresh.ret_self = self;
    return share_of(&refresh).size;
}

/* "2 of 0-1,3" */
static const char *share_text(struct members_refresh *refresh, int32_t self)
{
    static char out[RANGES_BYTES_MAX + 32];
    char may[RANGES_BYTES_MAX];
    struct share share;

    refresh->ret_self = self;
    share = share_of(refresh);
    ranges_format(&share.may, may);
    snprintf(out, sizeof out, "%d of %s", share.size, may);
    return out;
}

static void one_member_owns_everything(void **state)
{
    int32_t owners[3] = {UNOWNED, 0, UNOWNED};

    (void)state;
    assert_int_equal(share_size(owners, 3, 1, 0), 3);
}

static void a_remainder_goes_to_the_members_that_joined_first(void **state)
{
    int32_t owners[5] = {UNOWNED, UNOWNED, UNOWNED, UNOWNED, UNOWNED};

    (void)state;
    assert_int_equal(share_size(owners, 5, 3, 0), 2);
    assert_int_equal(share_size(owners, 5, 3, 1), 2);
    assert_int_equal(share_size(owners, 5, 3, 2), 1);
}

static void a_remainder_stays_with_the_members_that_have_it(void **state)
{
    int32_t owners[5] = {2, 2, 1, 1, 0};

    (void)state;
    assert_int_equal(share_size(owners, 5, 3, 0), 1);
    assert_int_equal(share_size(owners, 5, 3, 1), 2);
    assert_int_equal(share_size(owners, 5, 3, 2), 2);
}

static void the_owner_of_the_only_partition_keeps_it(void **state)
{
    int32_t owners[1] = {2};

    (void)state;
    assert_int_equal(share_size(owners, 1, 3, 0), 0);
    assert_int_equal(share_size(owners, 1, 3, 2), 1);
}

static void partitions_that_other_members_keep_are_not_shared_out(void **state)
{
    int32_t owners[4] = {MEMBERS_REFRESH_OTHER, MEMBERS_REFRESH_OTHER, UNOWNED, 0};

    (void)state;
    assert_int_equal(share_size(owners, 4, 2, 0), 1);
    assert_int_equal(share_size(owners, 4, 2, 1), 1);
}

/* ---- Fixed assignments ----------------------------------------------------------------------- */

static void assigned_partitions_are_not_shared_out(void **state)
{
    int32_t owners[6] = {0, 0, 0, 0, 0, 0};
    struct members_refresh refresh = members_refresh_of(owners, 6, 3);

    (void)state;
    claimants_note(&refresh.ret_claimants, 1, text_of("4-5"));
    assert_string_equal(share_text(&refresh, 0), "2 of 0-3");
    assert_string_equal(share_text(&refresh, 1), "2 of 4-5");
    assert_string_equal(share_text(&refresh, 2), "2 of 0-3");
}

static void the_member_that_was_assigned_a_partition_first_has_it(void **state)
{
    int32_t owners[4] = {UNOWNED, UNOWNED, UNOWNED, UNOWNED};
    struct members_refresh refresh = members_refresh_of(owners, 4, 3);

    (void)state;
    claimants_note(&refresh.ret_claimants, 0, text_of("1-2"));
    claimants_note(&refresh.ret_claimants, 1, text_of("2-3"));
    assert_string_equal(share_text(&refresh, 0), "2 of 1-2");
    assert_string_equal(share_text(&refresh, 1), "1 of 3");
    assert_string_equal(share_text(&refresh, 2), "1 of 0");
}

static void a_member_whose_assigned_partitions_do_not_exist_gets_nothing(void **state)
{
    int32_t owners[2] = {UNOWNED, UNOWNED};
    struct members_refresh refresh = members_refresh_of(owners, 2, 3);

    (void)state;
    claimants_note(&refresh.ret_claimants, 0, text_of(""));
    claimants_note(&refresh.ret_claimants, 1, text_of("7"));
    assert_string_equal(share_text(&refresh, 0), "0 of ");
    assert_string_equal(share_text(&refresh, 1), "0 of ");
    assert_string_equal(share_text(&refresh, 2), "2 of 0-1");
    claimants_note(&refresh.ret_claimants, 2, text_of("what a newer program wrote"));
    assert_string_equal(share_text(&refresh, 2), "0 of ");
}

/* What the assigned own does not count when a remainder is shared out. */
static void shares_are_even_among_members_that_share(void **state)
{
    int32_t owners[7] = {2, 2, 2, 2, UNOWNED, UNOWNED, UNOWNED};
    struct members_refresh refresh = members_refresh_of(owners, 7, 3);

    (void)state;
    claimants_note(&refresh.ret_claimants, 2, text_of("0-3"));
    assert_string_equal(share_text(&refresh, 0), "2 of 4-6");
    assert_string_equal(share_text(&refresh, 1), "1 of 4-6");
}

/* ---- A model: members that come, go and act one after another -------------------------------- */

#define PARTITIONS_MAX 40
#define MEMBERS_MAX 9

struct world {
    int32_t partitions;
    int32_t members;
    int32_t owners[PARTITIONS_MAX];
};

static int32_t owned_by(const struct world *world, int32_t member)
{
    int32_t count = 0;

    for (int32_t i = 0; i < world->partitions; i++) {
        count += world->owners[i] == member ? 1 : 0;
    }
    return count;
}

/* What a member does after a refresh. Answers how many partitions changed hands. */
static int32_t act(struct world *world, int32_t member)
{
    int32_t share = share_size(world->owners, world->partitions, world->members, member);
    int32_t owned = owned_by(world, member), moved = 0;

    for (int32_t i = world->partitions - 1; i >= 0 && owned > share; i--) {
        if (world->owners[i] == member) {
            world->owners[i] = UNOWNED;
            owned--;
            moved++;
        }
    }
    for (int32_t i = 0; i < world->partitions && owned < share; i++) {
        if (world->owners[i] == UNOWNED) {
            world->owners[i] = member;
            owned++;
            moved++;
        }
    }
    return moved;
}

static void member_leaves(struct world *world, int32_t member)
{
    for (int32_t i = 0; i < world->partitions; i++) {
        if (world->owners[i] == member) {
            world->owners[i] = UNOWNED;
        } else if (world->owners[i] > member) {
            world->owners[i]--;
        }
    }
    world->members--;
}

static void shares_stop_moving_and_are_even(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int run = 0; run < 300; run++) {
        struct world world = {.partitions = 1 + (int32_t)chance_below(&seed, PARTITIONS_MAX),
                              .members = 1};
        for (int32_t i = 0; i < world.partitions; i++) {
            world.owners[i] = UNOWNED;
        }
        for (int change = 0; change < 12; change++) {
            int idle = 0, turns = 0;

            if (world.members < MEMBERS_MAX &&
                (world.members == 1 || chance_below(&seed, 2) == 0)) {
                world.members++;
            } else {
                member_leaves(&world, (int32_t)chance_below(&seed, (uint64_t)world.members));
            }
            for (; idle < 2 * world.members && turns < 1000; turns++) {
                idle = act(&world, turns % world.members) == 0 ? idle + 1 : 0;
            }
            assert_true(turns < 1000);
            for (int32_t m = 0; m < world.members; m++) {
                int32_t owned = owned_by(&world, m);

                assert_true(owned >= world.partitions / world.members);
                assert_true(owned <= (world.partitions + world.members - 1) / world.members);
            }
        }
    }
}

/* A member that joins costs the others no more than what the newcomer gets. */
static void no_partition_moves_without_need(void **state)
{
    struct world world = {.partitions = 16, .members = 1};

    (void)state;
    for (int32_t i = 0; i < world.partitions; i++) {
        world.owners[i] = 0;
    }
    for (int32_t members = 2; members <= 5; members++) {
        int32_t moved = 0;

        world.members = members;
        for (int32_t turn = 0; turn < 4 * members; turn++) {
            moved += act(&world, turn % members);
        }
        assert_int_equal(moved, 2 * owned_by(&world, members - 1)); /* given back, and taken */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_member_owns_everything),
        cmocka_unit_test(a_remainder_goes_to_the_members_that_joined_first),
        cmocka_unit_test(a_remainder_stays_with_the_members_that_have_it),
        cmocka_unit_test(the_owner_of_the_only_partition_keeps_it),
        cmocka_unit_test(partitions_that_other_members_keep_are_not_shared_out),
        cmocka_unit_test(assigned_partitions_are_not_shared_out),
        cmocka_unit_test(the_member_that_was_assigned_a_partition_first_has_it),
        cmocka_unit_test(a_member_whose_assigned_partitions_do_not_exist_gets_nothing),
        cmocka_unit_test(shares_are_even_among_members_that_share),
        cmocka_unit_test(shares_stop_moving_and_are_even),
        cmocka_unit_test(no_partition_moves_without_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
