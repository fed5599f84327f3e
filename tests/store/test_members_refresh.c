/*
 * test_members_refresh.c - who works for a subscription: members, whose the partitions are, and the
 * checkpoints of many partitions at once.
 */
#include "store/membership.h"
#include "support/make.h"
#include "support/puppet.h"

#include <poll.h>

#define FROZEN_MS 50
#define MANY 100
#define MANY_FROZEN_MS 3000 /* in which all others show themselves, on a slow machine too */

static struct members_refresh members_refresh_of(int64_t id)
{
    return (struct members_refresh){.change = {.kind = CHANGE_MEMBERS_REFRESH, .now_us = T0},
                                    .subscription_id = id,
                                    .lease_ms = LEASE_MS,
                                    .ret_self = -7,
                                    .ret_members = -7};
}

static struct members_refresh refresh(struct store *store, int64_t id)
{
    struct members_refresh refresh = members_refresh_of(id);
    must_answer(HF_OK, RUN(store, &refresh));
    return refresh;
}

static hf_status leave(struct store *store, int64_t id)
{
    struct members_refresh refresh = members_refresh_of(id);
    refresh.leaves = true;
    return RUN(store, &refresh);
}

/* "0 - self": whose each partition is. */
static const char *owners_of(const struct members_refresh *refresh)
{
    static char text[256];
    size_t length = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < refresh->ret_partitions && length < sizeof text - 16; i++) {
        int32_t owner = refresh->ret_owners[i];
        const char *space = i ? " " : "";
        if (owner >= 0) {
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%d", space, owner);
        } else {
            const char *word = owner == MEMBERS_REFRESH_FREE   ? "-"
                               : owner == MEMBERS_REFRESH_SELF ? "self"
                                                               : "other";
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", space, word);
        }
    }
    return text;
}

/* ---- Members --------------------------------------------------------------------------------- */

static void members_are_counted_in_the_order_of_joining(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t id = subscribe_ordered(a, "s", 3);
    struct members_refresh first = refresh(a, id);
    must_equal(1, first.ret_members);
    must_equal(0, first.ret_self);
    must_equal(3, first.ret_partitions);
    must_read("- - -", owners_of(&first));
    struct members_refresh second = refresh(b, id);
    must_equal(2, second.ret_members);
    must_equal(1, second.ret_self);
    must_equal(2, refresh(a, id).ret_members);
    must_equal(0, refresh(a, id).ret_self);
}

static void the_version_of_the_members_rises_only_when_they_change(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t id = subscribe_ordered(a, "s", 2);
    int64_t members_version = refresh(a, id).ret_members_version;
    must_equal(members_version, refresh(a, id).ret_members_version);
    refresh(b, id);
    must_hold(refresh(a, id).ret_members_version > members_version);
    members_version = refresh(a, id).ret_members_version;
    struct owner owner = own(b, id, 1);
    must_equal(members_version, refresh(a, id).ret_members_version);
    must_answer(HF_OK, give_back(&owner));
    must_hold(refresh(a, id).ret_members_version > members_version);
    members_version = refresh(a, id).ret_members_version;
    must_answer(HF_OK, leave(b, id));
    must_hold(refresh(a, id).ret_members_version > members_version);
}

static void a_change_of_the_members_rings(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t id = subscribe_ordered(a, "s", 2);
    refresh(a, id);
    uint64_t seen = store_news(a);
    refresh(b, id);
    must_hold(store_wait(a, seen, DEADLINE_MS) != seen);
}

/* A process that starts joins all its subscriptions, and would wake itself for each. */
static void the_only_member_joins_and_leaves_without_ringing(void **state)
{
    struct store *a = fixture_open(*state, "a");
    int64_t ids[20];
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "s%d", i);
        ids[i] = subscribe_ordered(a, name, 1);
    }
    uint64_t seen = store_wait(a, store_news(a), 200); /* that of subscribing has come */
    int news = 0;
    for (int i = 0; i < 20; i++) {
        refresh(a, ids[i]);
        must_answer(HF_OK, leave(a, ids[i]));
        news += store_news(a) != seen;
        seen = store_news(a);
    }
    must_hold(news < 10); /* some other news may come */
}

static void a_refresh_returns_the_owner_of_each_partition(void **state)
{
    struct store *a = fixture_open(*state, "node-a");
    struct store *b = fixture_open(*state, "node-b");
    struct store *c = fixture_open(*state, "node-c");
    int64_t id = subscribe_ordered(a, "s", 4);
    refresh(a, id);
    refresh(b, id);
    own(a, id, 2);
    own(b, id, 0);
    own(c, id, 1); /* without being a member */
    struct members_refresh seen = refresh(a, id);
    must_read("1 other 0 -", owners_of(&seen));
    must_read("node-b", seen.ret_other_name);
    struct members_refresh gone = members_refresh_of(id);
    gone.leaves = true;
    must_answer(HF_OK, RUN(a, &gone));
    must_equal(1, gone.ret_members);
    must_equal(-1, gone.ret_self);
    must_read("0 other self -", owners_of(&gone));
}

static void departing_gives_back_what_is_ours_of_some_subscriptions_and_leaves_them(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t ids[4] = {subscribe_ordered(a, "s", 3), subscribe_ordered(a, "t", 1),
                      subscribe_ordered(a, "u", 1), 0};
    for (int i = 0; i < 3; i++) {
        refresh(a, ids[i]);
        own(a, ids[i], 0);
    }
    refresh(b, ids[0]);
    own(a, ids[0], 2);
    own(b, ids[0], 1);
    struct owner kept = own(a, ids[2], 0);
    int64_t version = refresh(b, ids[0]).ret_members_version;
    ids[3] = 12345; /* of no subscription */
    int64_t departing[3] = {ids[0], ids[1], ids[3]};
    struct depart depart = {.change = {.kind = CHANGE_DEPART, .now_us = T0},
                            .subscription_ids = departing,
                            .count = 3,
                            .ret_left = -7};
    must_answer(HF_OK, RUN(a, &depart));
    must_equal(0, depart.ret_left);
    struct members_refresh seen = refresh(b, ids[0]);
    must_read("- 0 -", owners_of(&seen));
    must_equal(1, seen.ret_members);
    must_hold(seen.ret_members_version > version);
    seen = refresh(b, ids[1]);
    must_read("-", owners_of(&seen));
    must_equal(1, seen.ret_members);
    seen = refresh(b, ids[2]); /* is not among them */
    must_read("0", owners_of(&seen));
    must_answer(HF_OK, settle(&kept, 0, NULL, 0));
    version = refresh(b, ids[0]).ret_members_version;
    must_answer(HF_OK, RUN(a, &depart)); /* there is nothing more of ours */
    must_equal(version, refresh(b, ids[0]).ret_members_version);
}

static void departing_rings(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t id = subscribe_ordered(a, "s", 1);
    own(a, id, 0);
    uint64_t seen = store_news(b);
    struct depart depart = {
        .change = {.kind = CHANGE_DEPART, .now_us = T0}, .subscription_ids = &id, .count = 1};
    must_answer(HF_OK, RUN(a, &depart));
    must_hold(store_wait(b, seen, DEADLINE_MS) != seen);
}

static void a_member_that_closes_is_gone(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t id = subscribe_ordered(a, "s", 2);
    refresh(a, id);
    refresh(b, id);
    own(b, id, 0);
    fixture_close(*state, b);
    struct members_refresh seen = refresh(a, id);
    must_equal(1, seen.ret_members);
    must_read("- -", owners_of(&seen));
}

static void a_dead_member_is_struck_off_and_what_it_owned_is_free(void **state)
{
    struct store *a = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(a, "s", 2);
    struct child *puppet = puppet_start(*state, "mortal");
    must_equal(1, puppet_do(puppet, "refresh %" PRId64, id));
    puppet_do(puppet, "acquire %" PRId64 " 1", id);
    struct members_refresh seen = refresh(a, id);
    must_equal(1, seen.ret_self);
    must_read("- 0", owners_of(&seen));
    child_kill(puppet);
    seen = refresh(a, id);
    must_equal(1, seen.ret_members);
    must_equal(0, seen.ret_self);
    must_read("- -", owners_of(&seen));
}

static void a_frozen_member_is_struck_off_after_a_lease_and_comes_back_as_the_newest(void **state)
{
    struct store *a = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(a, "s", 2);
    struct child *puppet = puppet_start(*state, "frozen");
    puppet_do(puppet, "refresh %" PRId64, id);
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    child_freeze(puppet);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    struct members_refresh seen;
    do {
        seen = members_refresh_of(id);
        seen.lease_ms = FROZEN_MS;
        must_answer(HF_OK, RUN(a, &seen));
        must_hold(mono_ms() < until_ms);
    } while (seen.ret_members > 1);
    must_read("- -", owners_of(&seen));
    child_thaw(puppet);
    must_equal(2, puppet_do(puppet, "refresh %" PRId64, id));
    must_equal(0, refresh(a, id).ret_self);
    child_finish(puppet);
}

/* Each of the others is looked at in turn, and all but one show that they live. */
static void a_frozen_member_is_found_among_many(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f); /* for a server see tests/unit/test_postgres_signs.c */
    struct store *a = fixture_open(f, "a");
    int64_t id = subscribe_ordered(a, "s", 2);
    struct store *others[MANY];
    for (size_t i = 0; i < MANY; i++) {
        struct store_options options = fixture_options(f, "other");
        must_answer(HF_OK, store_open(f->url, &options, &others[i]));
        refresh(others[i], id);
    }
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    struct members_refresh seen;
    do {
        for (size_t i = 0; i < MANY; i++) {
            if (i != MANY / 2) {
                store_alive(others[i]);
            }
        }
        seen = members_refresh_of(id);
        seen.lease_ms = MANY_FROZEN_MS;
        must_answer(HF_OK, RUN(a, &seen));
        must_hold(mono_ms() < until_ms);
        poll(NULL, 0, 20);
    } while (seen.ret_members > MANY);
    for (size_t i = 0; i < MANY; i++) {
        store_close(others[i]);
    }
}

static void refreshing_members_for_nothing_or_for_shared_work_is_refused(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct members_refresh none = members_refresh_of(4711);
    must_answer(HF_NOTFOUND, RUN(a, &none));
    struct members_refresh shared = members_refresh_of(subscribe_shared(a, "s"));
    must_answer(HF_MISUSE, RUN(a, &shared));
}

static void members_go_with_their_subscription(void **state)
{
    struct store *a = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(a, "s", 1);
    refresh(a, id);
    must_answer(HF_OK, subscription_drop(a, "s"));
    int64_t again = subscribe_ordered(a, "s", 1);
    must_equal(1, refresh(a, again).ret_members);
}

/* ---- Checkpoints of many partitions ---------------------------------------------------------- */

static hf_status move(struct store *store, int64_t id, int64_t generation, struct mark *marks,
                      size_t count)
{
    struct checkpoints change = {
        .change = {.kind = CHANGE_CHECKPOINTS, .relaxed = true, .now_us = T0},
        .subscription_id = id,
        .generation = generation,
        .marks = marks,
        .count = count,
    };
    return RUN(store, &change);
}

static void checkpoints_of_several_partitions_move_at_once(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 3);
    struct mark marks[3];
    for (int32_t i = 0; i < 3; i++) {
        marks[i] = (struct mark){.partition = i, .epoch = own(a, id, i).epoch, .checkpoint = 5 + i};
    }
    must_answer(HF_OK, move(a, id, generation_of(a, id), marks, 3));
    must_equal(5, progress_of(a, id).checkpoint);
    for (int32_t i = 0; i < 3; i++) {
        must_equal(false, marks[i].ret_stale);
        must_equal(5 + i, own(a, id, i).checkpoint);
    }
}

static void a_mark_of_a_lost_partition_is_left_out(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 3);
    struct mark marks[3] = {
        {.partition = 0, .epoch = own(a, id, 0).epoch, .checkpoint = 4},
        {.partition = 1, .epoch = own(b, id, 1).epoch, .checkpoint = 4},
        {.partition = 2, .epoch = own(a, id, 2).epoch - 1, .checkpoint = 4},
    };
    must_answer(HF_OK, move(a, id, 0, marks, 3));
    must_equal(false, marks[0].ret_stale);
    must_equal(true, marks[1].ret_stale);
    must_equal(true, marks[2].ret_stale);
    must_equal(4, own(a, id, 0).checkpoint);
    must_equal(0, own(b, id, 1).checkpoint);
    must_equal(0, own(a, id, 2).checkpoint);
}

static void marks_fold_what_was_settled_ahead(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 2, done(4, "a"), done(7, "b")));
    struct mark mark = {.partition = 0, .epoch = owner.epoch, .checkpoint = 5};
    must_answer(HF_OK, move(a, id, 0, &mark, 1));
    must_read("7", list_ahead(a, id, 0, 0));
}

/* Those of a mark that is left out are, too. One whose lane is empty waits instead, and says so. */
static void held_events_are_stored_with_their_marks(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 3);
    struct owner owner = own(a, id, 0);
    must_answer(HF_OK, SETTLE(&owner, -1, retry(1, "k", T0 + SECOND)));
    struct outcome kept[3] = {held(3, "k"), held(4, "free"), held(7, "k")};
    struct outcome lost[1] = {held(5, "other")};
    struct outcome last[1] = {held(6, "z")};
    struct mark marks[3] = {
        {.partition = 0, .epoch = owner.epoch, .checkpoint = 4, .held = kept, .held_count = 3},
        {.partition = 1,
         .epoch = own(a, id, 1).epoch - 1,
         .checkpoint = 8,
         .held = lost,
         .held_count = 1},
        {.partition = 2,
         .epoch = own(a, id, 2).epoch,
         .checkpoint = 0,
         .held = last,
         .held_count = 1},
    };
    must_answer(HF_OK, move(a, id, 0, marks, 3));
    must_equal(true, marks[1].ret_stale);
    must_equal(false, kept[0].ret_due);
    must_equal(true, kept[1].ret_due);
    must_equal(false, kept[2].ret_due);
    must_equal(true, last[0].ret_due);
    must_read("4", list_due(a, id, 0, T0));
    must_read("", list_due(a, id, 1, T0));
    must_read("6", list_due(a, id, 2, T0));
    must_read("7", list_ahead(a, id, 0, 4));
    must_equal(2, progress_of(a, id).held);
    must_answer(HF_OK, SETTLE(&owner, -1, done(1, "k")));
    must_read("3 4", list_due(a, id, 0, T0));
}

static void marks_of_older_patterns_or_going_back_change_nothing(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct mark marks[2] = {
        {.partition = 0, .epoch = own(a, id, 0).epoch, .checkpoint = 5},
        {.partition = 1, .epoch = own(a, id, 1).epoch, .checkpoint = 5},
    };
    must_answer(HF_CONFLICT, move(a, id, generation_of(a, id) + 1, marks, 2));
    must_answer(HF_NOTFOUND, move(a, 4711, 0, marks, 2));
    must_equal(0, progress_of(a, id).checkpoint);
    must_answer(HF_OK, move(a, id, 0, marks, 2));
    marks[0].checkpoint = 6;
    marks[1].checkpoint = 4;
    must_answer(HF_MISUSE, move(a, id, 0, marks, 2));
    must_equal(5, own(a, id, 0).checkpoint);
}

/* ---- Assignments ----------------------------------------------------------------------------- */

static struct members_refresh members_refresh_for(struct store *store, int64_t id,
                                                  const char *assigned)
{
    struct members_refresh refresh = members_refresh_of(id);
    refresh.assigned = text_of(assigned);
    must_answer(HF_OK, RUN(store, &refresh));
    return refresh;
}

static void a_refresh_returns_the_assignments_of_all_members(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    struct store *c = fixture_open(*state, "c");
    int64_t id = subscribe_ordered(a, "s", 4);
    refresh(a, id);
    members_refresh_for(b, id, "1-2");
    struct members_refresh seen = members_refresh_for(c, id, "2-3");
    must_equal(false, seen.ret_claimants.fixed[0]);
    must_equal(true, seen.ret_claimants.fixed[1]);
    must_equal(true, seen.ret_claimants.fixed[2]);
    must_equal(-1, seen.ret_claimants.first[0]);
    must_equal(1, seen.ret_claimants.first[1]);
    must_equal(1, seen.ret_claimants.first[2]); /* who came first */
    must_equal(2, seen.ret_claimants.first[3]);
    fixture_close(*state, b);
    seen = refresh(a, id);
    must_equal(-1, seen.ret_claimants.first[1]);
    must_equal(1, seen.ret_claimants.first[2]);
}

static void a_member_that_wants_something_else_is_the_newest(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    int64_t id = subscribe_ordered(a, "s", 4);
    members_refresh_for(a, id, "0");
    members_refresh_for(b, id, "1");
    struct members_refresh again = members_refresh_for(a, id, "0");
    must_equal(0, again.ret_self);
    int64_t members_version = again.ret_members_version;
    uint64_t seen = store_news(b);
    again = members_refresh_for(a, id, "1");
    must_equal(1, again.ret_self);
    must_equal(2, again.ret_members);
    must_equal(0, again.ret_claimants.first[1]); /* it was the other's before */
    must_hold(again.ret_members_version > members_version);
    must_hold(store_wait(b, seen, DEADLINE_MS) != seen);
    again = members_refresh_for(a, id, "");
    must_equal(true, again.ret_claimants.fixed[again.ret_self]);
    must_equal(-1, again.ret_claimants.first[0]);
    again = refresh(a, id);
    must_equal(false, again.ret_claimants.fixed[again.ret_self]);
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct seen {
    char text[512];
};

static int see_member(struct text assigned, void *ctx)
{
    struct seen *seen = ctx;
    size_t length = strlen(seen->text);
    snprintf(seen->text + length, sizeof seen->text - length, "[%" TEXT_PRI "] ",
             TEXT_ARG(text_is_absent(assigned) ? text_of("any") : assigned));
    return 0;
}

static int see_partition(const struct partition_row *row, void *ctx)
{
    struct seen *seen = ctx;
    size_t length = strlen(seen->text);
    snprintf(seen->text + length, sizeof seen->text - length, "%d:%s%" TEXT_PRI "/%d/%lld ",
             row->partition, row->owned && !row->owner_alive ? "dead " : "",
             TEXT_ARG(row->owner_name), row->member, (long long)row->checkpoint);
    return 0;
}

static const char *look(struct store *store, int64_t id)
{
    static struct seen seen;
    seen.text[0] = '\0';
    must_answer(HF_OK, store_partitions(store, id, see_member, see_partition, &seen));
    return seen.text;
}

static void a_refresh_returns_members_partitions_and_dead_processes(void **state)
{
    struct store *a = fixture_open(*state, "node-a");
    struct store *b = fixture_open(*state, "node-b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 4);
    must_read("0:/-1/0 1:/-1/0 2:/-1/0 3:/-1/0 ", look(a, id));
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "refresh %" PRId64, id);
    puppet_do(puppet, "acquire %" PRId64 " 3", id);
    refresh(a, id);
    members_refresh_for(b, id, "1");
    own(a, id, 0);
    struct owner owner = own(b, id, 1);
    struct mark mark = {.partition = 1, .epoch = owner.epoch, .checkpoint = 5};
    must_answer(HF_OK, move(b, id, 0, &mark, 1));
    must_read("[any] [any] [1] 0:node-a/1/0 1:node-b/2/5 2:/-1/0 3:mortal/0/0 ", look(a, id));
    child_kill(puppet);
    must_read("[any] [1] 0:node-a/0/0 1:node-b/1/5 2:/-1/0 3:dead mortal/-1/0 ", look(b, id));
    must_equal(2, progress_of(a, id).unowned);
    struct seen none = {""};
    must_answer(HF_NOTFOUND, store_partitions(a, 4711, see_member, see_partition, &none));
}

/* ---- Reading for some partitions ------------------------------------------------------------- */

static void a_reader_hands_up_only_what_is_of_the_wanted_partitions(void **state)
{
    struct store *a = fixture_open(*state, "a");
    for (int i = 0; i < 40; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        append_one(a, "t", key);
    }
    struct reader *reader;
    must_answer(HF_OK, store_reader_open(a, 0, false, &reader));
    uint64_t bits = UINT64_C(1) << 1 | UINT64_C(1) << 4;
    struct partition_set owned = {.total = 5, .bits = &bits};
    struct filter filter = filter_all;
    filter.owned = &owned;
    struct batch *batch = fixture_batch(*state);
    int64_t floor = 0;
    bool more = true;
    while (more) {
        must_answer(HF_OK, store_reader_next(reader, &filter, 100, batch, &floor, &more));
    }
    store_reader_close(reader);
    must_equal(40, floor);
    must_hold(batch->count > 0 && batch->count < 40);
    for (size_t i = 0; i < batch->count; i++) {
        int64_t partition = batch->entries[i].hash % 5;
        must_hold(partition == 1 || partition == 4);
    }
}

static const struct CMUnitTest claims[] = {
    CLAIM(members_are_counted_in_the_order_of_joining),
    CLAIM(the_version_of_the_members_rises_only_when_they_change),
    CLAIM(a_change_of_the_members_rings),
    CLAIM(the_only_member_joins_and_leaves_without_ringing),
    CLAIM(a_refresh_returns_the_owner_of_each_partition),
    CLAIM(departing_gives_back_what_is_ours_of_some_subscriptions_and_leaves_them),
    CLAIM(departing_rings),
    CLAIM(a_member_that_closes_is_gone),
    CLAIM(a_dead_member_is_struck_off_and_what_it_owned_is_free),
    CLAIM(a_frozen_member_is_struck_off_after_a_lease_and_comes_back_as_the_newest),
    CLAIM(a_frozen_member_is_found_among_many),
    CLAIM(refreshing_members_for_nothing_or_for_shared_work_is_refused),
    CLAIM(members_go_with_their_subscription),
    CLAIM(checkpoints_of_several_partitions_move_at_once),
    CLAIM(a_mark_of_a_lost_partition_is_left_out),
    CLAIM(marks_fold_what_was_settled_ahead),
    CLAIM(held_events_are_stored_with_their_marks),
    CLAIM(marks_of_older_patterns_or_going_back_change_nothing),
    CLAIM(a_refresh_returns_the_assignments_of_all_members),
    CLAIM(a_member_that_wants_something_else_is_the_newest),
    CLAIM(a_refresh_returns_members_partitions_and_dead_processes),
    CLAIM(a_reader_hands_up_only_what_is_of_the_wanted_partitions),
};

FIXTURE_MAIN("refresh", claims, NULL)
