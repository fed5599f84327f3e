/*
 * test_lease.c - how leases of shared subscriptions end without an answer: by time, by death, in
 * halves, so that a poison event ends up alone and its neighbours keep a clean record.
 */
#include "base/time/clock.h"
#include "store/common/story.h"
#include "support/make.h"
#include "support/puppet.h"

#include <signal.h>

#define SHORT_MS 50
#define SHOWN_MS 2000
#define SHOWN_MS_MAX 32000

struct scene {
    struct fixture *f;
    struct store *store;
    int64_t id;
};

static struct scene scene_of(struct fixture *f, size_t count)
{
    struct scene scene = {.f = f, .store = fixture_open(f, "a")};
    append_count(scene.store, "t", count);
    scene.id = subscribe_shared(scene.store, "s");
    return scene;
}

/* What a number of claims brought up. */
struct claimed {
    int times[512];         /* by position: how often the event was handed out */
    int attempts[512];      /* by position: its recorded attempts the last time */
    char stories[512][256]; /* by position: the beginning of its story */
    size_t sizes[64];       /* events per claim */
    size_t claims;
    size_t count;
};

/* Claims until `wanted` events have come or a claim was empty, bounded. */
static void gather(struct claimed *claimed, struct scene *s, int32_t max, size_t wanted,
                   int64_t now_us)
{
    struct batch batch;
    batch_init(&batch);
    claimed->claims = 0;
    claimed->count = 0;
    while (claimed->count < wanted && claimed->claims < 64) {
        batch_clear(&batch);
        struct claim claim = claim_of(s->id, max, now_us, &batch);
        must_answer(HF_OK, RUN(s->store, &claim));
        claimed->sizes[claimed->claims++] = batch.count;
        claimed->count += batch.count;
        for (size_t i = 0; i < batch.count; i++) {
            int64_t position = batch.entries[i].event.position;
            must_hold(position < 512);
            claimed->times[position]++;
            claimed->attempts[position] = batch.entries[i].attempts;
            snprintf(claimed->stories[position], 256, "%" TEXT_PRI,
                     TEXT_ARG(batch.entries[i].attempts_json));
        }
        if (batch.count == 0 && !claim.ret_more) {
            break;
        }
    }
    batch_release(&batch);
}

static struct claimed *claimed_new(void)
{
    static struct claimed claimed;
    memset(&claimed, 0, sizeof claimed);
    return &claimed;
}

/* ---- By time --------------------------------------------------------------------------------- */

static void no_other_process_gets_leased_events_before_they_expire(void **state)
{
    struct scene s = scene_of(*state, 4);
    take(*state, s.store, s.id, 4, T0);
    struct store *other = fixture_open(*state, "b");
    must_equal(0, take(*state, other, s.id, 4, T0).batch->count);
    must_equal(0, take(*state, other, s.id, 4, T0 + LEASE_US - 1).batch->count);
    must_hold(take(*state, other, s.id, 4, T0 + LEASE_US + 1).batch->count > 0);
}

static void an_expired_lease_is_good_until_it_is_handed_out_again(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct claim claim = take(*state, s.store, s.id, 4, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "1", T0 + 10 * LEASE_US, 0));
    must_answer(HF_OK, finish_all(s.store, &claim, T0 + 10 * LEASE_US));
    must_equal(4, progress_of(s.store, s.id).checkpoint);
}

static void an_event_that_was_handed_out_again_cannot_be_settled_by_the_first_lease(void **state)
{
    struct scene s = scene_of(*state, 1);
    struct claim late = take(*state, s.store, s.id, 1, T0);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 1, 1, T0 + LEASE_US + 1);
    must_equal(1, claimed->times[1]);
    must_answer(HF_STALE, finish(s.store, &late, OUTCOME_DONE, "1", T0 + LEASE_US + 1, 0));
    must_answer(HF_STALE, finish_all(s.store, &late, T0 + LEASE_US + 1));
    must_answer(HF_STALE, lease_extend(s.store, &late, T0 + 9 * LEASE_US));
    must_equal(1, progress_of(s.store, s.id).in_flight);
}

static void an_extended_lease_lasts_until_the_new_time(void **state)
{
    struct scene s = scene_of(*state, 2);
    struct claim claim = take(*state, s.store, s.id, 2, T0);
    must_answer(HF_OK, lease_extend(s.store, &claim, T0 + 5 * LEASE_US));
    struct claim empty = take(*state, s.store, s.id, 2, T0 + 5 * LEASE_US - 1);
    must_equal(0, empty.batch->count);
    must_equal(T0 + 5 * LEASE_US, empty.ret_wake_us);
    must_hold(take(*state, s.store, s.id, 2, T0 + 5 * LEASE_US + 1).batch->count > 0);
}

static void a_lease_can_be_shortened_and_settled_in_one_go(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 3, T0);
    struct outcome outcome = {
        .kind = OUTCOME_DONE, .position = 2, .lane = claim.batch->entries[1].lane};
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
                                  .subscription_id = s.id,
                                  .outcomes = &outcome,
                                  .count = 1,
                                  .extend_us = T0 + 5};
    memcpy(change.lease, claim.ret_lease, sizeof change.lease);
    must_answer(HF_OK, RUN(s.store, &change));
    must_equal(2, progress_of(s.store, s.id).in_flight);
    must_hold(take(*state, s.store, s.id, 3, T0 + 6).batch->count > 0);
}

/* ---- Halves ---------------------------------------------------------------------------------- */

static void an_expired_lease_of_several_events_comes_back_in_halves(void **state)
{
    struct scene s = scene_of(*state, 8);
    take(*state, s.store, s.id, 8, T0);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 100, 8, T0 + LEASE_US + 1);
    must_equal(4, claimed->sizes[0]);
    must_hold(claimed->claims >= 2);
    for (size_t i = 0; i < claimed->claims; i++) {
        must_hold(claimed->sizes[i] <= 4);
    }
    for (int p = 1; p <= 8; p++) {
        must_equal(1, claimed->times[p]);
        must_equal(0, claimed->attempts[p]);
        must_read("", claimed->stories[p]);
    }
    must_equal(8, progress_of(s.store, s.id).in_flight);
    must_equal(0, progress_of(s.store, s.id).retrying);
}

static void the_other_half_of_an_expired_lease_keeps_a_clean_record(void **state)
{
    struct scene s = scene_of(*state, 2);
    take(*state, s.store, s.id, 2, T0);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 100, 2, T0 + LEASE_US + 1);
    must_equal(1, claimed->sizes[0]);
    for (int p = 1; p <= 2; p++) {
        must_equal(1, claimed->times[p]);
        must_equal(0, claimed->attempts[p]);
    }
}

static void only_what_is_left_of_a_lease_comes_back(void **state)
{
    struct scene s = scene_of(*state, 6);
    struct claim claim = take(*state, s.store, s.id, 6, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "2 3 6", T0, 0));
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 100, 3, T0 + LEASE_US + 1);
    must_equal(3, claimed->count);
    must_equal(1, claimed->times[1]);
    must_equal(1, claimed->times[4]);
    must_equal(1, claimed->times[5]);
}

static void max_bounds_what_comes_back_of_a_lease(void **state)
{
    struct scene s = scene_of(*state, 16);
    take(*state, s.store, s.id, 16, T0);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 3, 16, T0 + LEASE_US + 1);
    for (size_t i = 0; i < claimed->claims; i++) {
        must_hold(claimed->sizes[i] <= 3);
    }
    for (int p = 1; p <= 16; p++) {
        must_equal(1, claimed->times[p]);
        must_equal(0, claimed->attempts[p]);
    }
}

static void an_expired_lease_of_one_event_is_a_failed_attempt(void **state)
{
    struct scene s = scene_of(*state, 1);
    take(*state, s.store, s.id, 1, T0);
    for (int attempt = 1; attempt <= 3; attempt++) {
        struct claimed *claimed = claimed_new();
        gather(claimed, &s, 10, 1, T0 + attempt * (LEASE_US + 1));
        must_equal(1, claimed->times[1]);
        must_equal(attempt, claimed->attempts[1]);
        must_contain(STORY_ERROR_EXPIRED, claimed->stories[1]);
    }
    struct text story;
    must_equal(3, facts_of(*state, s.store, s.id, 1, &story).attempts);
    must_equal(CAUSE_EXPIRED, facts_of(*state, s.store, s.id, 1, NULL).cause);
    must_contain("\"attempt\":3", story.bytes);
}

static void a_retry_whose_lease_expires_keeps_its_story(void **state)
{
    struct scene s = scene_of(*state, 1);
    struct claim claim = take(*state, s.store, s.id, 1, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "1", T0, T0));
    take(*state, s.store, s.id, 1, T0);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 10, 1, T0 + LEASE_US + 1);
    must_equal(2, claimed->attempts[1]);
    must_contain("\"error\":\"one\"", claimed->stories[1]);
    must_contain(STORY_ERROR_EXPIRED, claimed->stories[1]);
}

/* Every holder of the poison event loses its lease; all others acknowledge. The poison must come to
 * stand alone and be recorded, and the record of no other may show a failure. */
static void a_poison_event_ends_up_alone_and_its_neighbours_stay_clean(void **state)
{
    struct scene s = scene_of(*state, 48);
    const int64_t poison = 11;
    int64_t now_us = T0;
    int done_times[49] = {0};
    int recorded = 0;
    int done_count = 0;
    for (int round = 0; round < 200 && (recorded < 3 || done_count < 47); round++) {
        struct batch batch;
        batch_init(&batch);
        struct claim claim = claim_of(s.id, 16, now_us, &batch);
        must_answer(HF_OK, RUN(s.store, &claim));
        bool poisoned = false;
        for (size_t i = 0; i < batch.count; i++) {
            bool is_poison = batch.entries[i].event.position == poison;
            poisoned |= is_poison;
            if (is_poison) {
                recorded = batch.entries[i].attempts;
            } else {
                must_equal(0, batch.entries[i].attempts);
            }
        }
        if (!poisoned && batch.count > 0) {
            must_answer(HF_OK, finish_all(s.store, &claim, now_us));
            for (size_t i = 0; i < batch.count; i++) {
                done_times[batch.entries[i].event.position]++;
            }
            done_count += (int)batch.count;
        }
        batch_release(&batch);
        now_us += poisoned || claim.ret_wake_us > now_us ? LEASE_US + 1 : 0;
    }
    must_hold(recorded >= 3);
    for (int64_t p = 1; p <= 48; p++) {
        must_equal(p == poison ? 0 : 1, done_times[p]);
    }
}

/* ---- By death -------------------------------------------------------------------------------- */

static void a_bound_lease_ends_with_its_process(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct child *puppet = puppet_start(*state, "mortal");
    must_equal(4, puppet_do(puppet, "claim %" PRId64 " 4 30000 1 0", s.id));
    must_equal(0, take(*state, s.store, s.id, 4, T0).batch->count);
    child_kill(puppet);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 10, 4, T0);
    for (int p = 1; p <= 4; p++) {
        must_equal(1, claimed->times[p]);
        must_equal(0, claimed->attempts[p]);
    }
}

static void a_detached_lease_outlives_its_process(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "claim %" PRId64 " 4 30000 0 0", s.id);
    child_kill(puppet);
    must_equal(0, take(*state, s.store, s.id, 4, T0).batch->count);
    must_equal(0, take(*state, s.store, s.id, 4, T0 + LEASE_US - 1).batch->count);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 10, 4, T0 + LEASE_US + 1);
    must_equal(4, claimed->count);
}

static void a_bound_lease_expires_by_time(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct child *puppet = puppet_start(*state, "alive");
    puppet_do(puppet, "claim %" PRId64 " 4 30000 1 0", s.id);
    must_equal(0, take(*state, s.store, s.id, 4, T0 + LEASE_US - 1).batch->count);
    must_hold(take(*state, s.store, s.id, 4, T0 + LEASE_US + 1).batch->count > 0);
    must_equal(HF_STALE, puppet_try(puppet, "ack"));
    child_finish(puppet);
}

static void notes_show_which_events_of_a_dead_claimer_were_running(void **state)
{
    struct scene s = scene_of(*state, 6);
    fixture_sqlite_only(*state); /* the engine that has notes */
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "claim %" PRId64 " 6 30000 1 0", s.id);
    puppet_do(puppet, "note 0 %" PRId64 " 2 1", s.id);
    puppet_do(puppet, "note 1 %" PRId64 " 5 1", s.id);
    puppet_do(puppet, "note 2 %" PRId64 " 3 1", s.id);
    puppet_do(puppet, "clear 2");
    child_kill(puppet);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 100, 6, T0);
    for (int p = 1; p <= 6; p++) {
        bool ran = p == 2 || p == 5;
        must_equal(1, claimed->times[p]);
        must_equal(ran ? 1 : 0, claimed->attempts[p]);
        if (ran) {
            must_contain(STORY_ERROR_DIED, claimed->stories[p]);
        }
    }
    must_hold(claimed->claims <= 3);
}

static void a_dead_claimers_failed_attempts_are_recorded_once(void **state)
{
    struct scene s = scene_of(*state, 2);
    fixture_sqlite_only(*state);
    for (int attempt = 1; attempt <= 3; attempt++) {
        struct child *puppet = puppet_start(*state, "mortal");
        must_hold(puppet_do(puppet, "claim %" PRId64 " 2 30000 1 0", s.id) > 0);
        puppet_do(puppet, "note 0 %" PRId64 " 1 %d", s.id, attempt);
        child_kill(puppet);
        /* the next process records; the death of the next one finds it recorded already */
        struct claim claim = take(*state, s.store, s.id, 10, T0);
        struct claim rest = take(*state, s.store, s.id, 10, T0);
        must_equal(2, claim.batch->count + rest.batch->count);
        must_equal(attempt, facts_of(*state, s.store, s.id, 1, NULL).attempts);
        must_equal(0, facts_of(*state, s.store, s.id, 2, NULL).attempts);
        hf_status status = finish(s.store, &claim, OUTCOME_RELEASE, list_batch(claim.batch), T0, 0);
        must_equal(HF_OK, status);
        if (rest.batch->count > 0) {
            must_answer(HF_OK,
                        finish(s.store, &rest, OUTCOME_RELEASE, list_batch(rest.batch), T0, 0));
        }
    }
}

/* Claims and acknowledges until it is killed; tells before each acknowledgement what it will be
 * about, and after it that it was accepted. It waits for a word about each event that it took, so
 * that it cannot be at the end before the test has read what it said at the beginning. */
static int reaper_role(struct fixture *f, const char *argument)
{
    char line[CHILD_LINE_BYTES];
    struct store *store = fixture_open(f, "reaper");
    struct batch *batch = fixture_batch(f);
    int64_t id = strtoll(argument, NULL, 10);
    role_report("ready", 0);
    for (;;) {
        batch_clear(batch);
        struct claim claim = claim_of(id, 3, T0, batch);
        claim.bound = true;
        must_answer(HF_OK, RUN(store, &claim));
        if (batch->count == 0 && !claim.ret_more) {
            role_report("end", 0);
            return 0;
        }
        for (size_t i = 0; i < batch->count; i++) {
            role_report("took", batch->entries[i].event.position);
            must_hold(role_listen(line));
        }
        must_answer(HF_OK, finish_all(store, &claim, T0));
        for (size_t i = 0; i < batch->count; i++) {
            role_report("done", batch->entries[i].event.position);
        }
    }
}

/* The ledger: nothing that was acknowledged is ever handed out again, and nothing is lost. */
static void killed_claimers_lose_nothing_and_double_nothing(void **state)
{
    struct scene s = scene_of(*state, 300);
    static bool finished[301];
    static int taken[301];
    memset(finished, 0, sizeof finished);
    memset(taken, 0, sizeof taken);
    char argument[32];
    snprintf(argument, sizeof argument, "%" PRId64, s.id);
    int deaths = 0;
    for (int round = 0; round < FIXTURE_CHILDREN_MAX; round++) {
        struct child *child = fixture_child(*state, "reaper", argument);
        char line[CHILD_LINE_BYTES];
        int lines = 0;
        bool killed = false;
        bool ended = false;
        child_hear(child, "ready");
        while (child_line(child, line, DEADLINE_MS)) {
            int64_t position = strtoll(line + 5, NULL, 10);
            if (strncmp(line, "took ", 5) == 0) {
                must_hold(!finished[position]);
                taken[position]++;
                if (!killed) {
                    child_tell(child, "on");
                }
            } else if (strncmp(line, "done ", 5) == 0) {
                finished[position] = true;
            } else {
                ended = true;
            }
            if (++lines == 7 + round && round < FIXTURE_CHILDREN_MAX - 1) {
                kill(child->pid, SIGKILL); /* and reads on: what it had said before */
                killed = true;
            }
        }
        deaths += !ended;
        child_discard(child);
    }
    must_equal(FIXTURE_CHILDREN_MAX - 1, deaths);
    for (int p = 1; p <= 300; p++) {
        must_hold(taken[p] > 0);
    }
    must_equal(300, progress_of(s.store, s.id).checkpoint);
    must_equal(0, progress_of(s.store, s.id).in_flight);
}

static void closing_a_store_frees_its_bound_leases(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct store *other = fixture_open(*state, "b");
    int64_t now_us = clock_wall_us(); /* as closing has it */
    struct claim claim = claim_of(s.id, 4, now_us, fixture_batch(*state));
    claim.bound = true;
    must_answer(HF_OK, RUN(other, &claim));
    fixture_close(*state, other);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 10, 4, now_us + LEASE_US / 2);
    for (int p = 1; p <= 4; p++) {
        must_equal(1, claimed->times[p]);
        must_equal(0, claimed->attempts[p]);
    }
}

/* ---- Kept ------------------------------------------------------------------------------------ */

static struct claim claim_kept(struct fixture *f, struct store *store, int64_t id, int64_t lease_ms)
{
    struct claim claim = claim_of(id, 4, T0, fixture_batch(f));
    claim.lease_ms = lease_ms;
    claim.bound = true;
    claim.kept = true;
    must_answer(HF_OK, RUN(store, &claim));
    must_equal(4, claim.batch->count);
    return claim;
}

/* Whether it stays for two leases while another tries to have it. */
static bool lease_stays(struct fixture *f, int64_t lease_ms)
{
    static int made;
    char name[32];
    snprintf(name, sizeof name, "kept%d", ++made);
    struct store *store = fixture_open(f, "a");
    struct store *other = fixture_open(f, "b");
    struct subscription_put put = put_of(name, HF_MODE_SHARED, 1);
    put.start = last_of(store);
    must_answer(HF_OK, RUN(store, &put));
    append_count(store, "t", 4);
    int64_t id = put.ret_id;
    struct claim kept = claim_kept(f, other, id, lease_ms);
    struct batch *batch = fixture_batch(f);
    int64_t until_ms = mono_ms() + 2 * lease_ms;
    while (mono_ms() < until_ms && batch->count == 0) {
        store_alive(other);
        struct claim claim = claim_of(id, 4, T0 + 1000 * LEASE_US, batch);
        claim.lease_ms = lease_ms;
        must_answer(HF_OK, RUN(store, &claim));
    }
    bool stays = batch->count == 0;
    if (stays) {
        must_answer(HF_OK, finish_all(other, &kept, T0 + 1000 * LEASE_US));
    }
    fixture_close(f, store);
    fixture_close(f, other);
    return stays;
}

/* Where a thread of the store's shows life it may be late; on a slow machine it is given longer. */
static void a_kept_lease_does_not_expire_while_its_process_shows_life(void **state)
{
    struct fixture *f = *state;
    int64_t lease_ms = f->sqlite ? SHORT_MS : SHOWN_MS;
    bool stays = lease_stays(f, lease_ms);
    while (!stays && !f->sqlite && lease_ms < SHOWN_MS_MAX) {
        lease_ms *= 2;
        stays = lease_stays(f, lease_ms);
    }
    must_hold(stays);
}

static void a_kept_lease_of_a_silent_process_is_taken_over(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct store *other = fixture_open(*state, "b");
    struct claim kept = claim_kept(*state, other, s.id, SHORT_MS);
    struct batch *batch = fixture_batch(*state);
    int64_t begun_ms = mono_ms();
    while (batch->count == 0) {
        must_hold(mono_ms() < begun_ms + DEADLINE_MS);
        struct claim claim = claim_of(s.id, 4, T0 + 1000 * LEASE_US, batch);
        claim.lease_ms = SHORT_MS;
        must_answer(HF_OK, RUN(s.store, &claim));
    }
    must_hold(mono_ms() - begun_ms >= SHORT_MS - 1);
    must_answer(HF_STALE, finish_all(other, &kept, T0));
}

static void a_kept_lease_of_a_frozen_process_is_taken_over_and_its_answer_refused(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct child *puppet = puppet_start(*state, "frozen");
    must_equal(4, puppet_do(puppet, "claim %" PRId64 " 4 50 1 1", s.id));
    child_freeze(puppet);
    struct batch *batch = fixture_batch(*state);
    int64_t begun_ms = mono_ms();
    while (batch->count == 0) {
        must_hold(mono_ms() < begun_ms + DEADLINE_MS);
        struct claim claim = claim_of(s.id, 4, T0 + LEASE_US, batch);
        claim.lease_ms = SHORT_MS;
        must_answer(HF_OK, RUN(s.store, &claim));
    }
    child_thaw(puppet);
    must_equal(HF_STALE, puppet_try(puppet, "ack"));
    child_finish(puppet);
}

static void a_kept_lease_of_a_dead_process_is_free_at_once(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "claim %" PRId64 " 4 30000 1 1", s.id);
    child_kill(puppet);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 10, 4, T0);
    must_equal(4, claimed->count);
}

/* By the clock, as closing does it: its handler takes longer than the lease, and it is not waited
 * for. */
static void a_kept_lease_whose_time_is_over_is_free_when_its_store_is_closed(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct store *other = fixture_open(*state, "b");
    struct claim claim = claim_of(s.id, 4, clock_wall_us() - 2 * LEASE_US, fixture_batch(*state));
    claim.bound = true;
    claim.kept = true;
    must_answer(HF_OK, RUN(other, &claim));
    must_equal(4, claim.batch->count);
    fixture_close(*state, other);
    struct claimed *claimed = claimed_new();
    gather(claimed, &s, 10, 4, clock_wall_us() + LEASE_US);
    must_equal(4, claimed->count);
    for (int p = 1; p <= 4; p++) {
        must_equal(1, claimed->times[p]);
        must_equal(0, claimed->attempts[p]);
    }
}

static const struct role roles[] = {{"reaper", reaper_role}, {NULL, NULL}};

static const struct CMUnitTest claims[] = {
    CLAIM(no_other_process_gets_leased_events_before_they_expire),
    CLAIM(an_expired_lease_is_good_until_it_is_handed_out_again),
    CLAIM(an_event_that_was_handed_out_again_cannot_be_settled_by_the_first_lease),
    CLAIM(an_extended_lease_lasts_until_the_new_time),
    CLAIM(a_lease_can_be_shortened_and_settled_in_one_go),
    CLAIM(an_expired_lease_of_several_events_comes_back_in_halves),
    CLAIM(the_other_half_of_an_expired_lease_keeps_a_clean_record),
    CLAIM(only_what_is_left_of_a_lease_comes_back),
    CLAIM(max_bounds_what_comes_back_of_a_lease),
    CLAIM(an_expired_lease_of_one_event_is_a_failed_attempt),
    CLAIM(a_retry_whose_lease_expires_keeps_its_story),
    CLAIM(a_poison_event_ends_up_alone_and_its_neighbours_stay_clean),
    CLAIM(a_bound_lease_ends_with_its_process),
    CLAIM(a_detached_lease_outlives_its_process),
    CLAIM(a_bound_lease_expires_by_time),
    CLAIM(notes_show_which_events_of_a_dead_claimer_were_running),
    CLAIM(a_dead_claimers_failed_attempts_are_recorded_once),
    CLAIM(killed_claimers_lose_nothing_and_double_nothing),
    CLAIM(closing_a_store_frees_its_bound_leases),
    CLAIM(a_kept_lease_does_not_expire_while_its_process_shows_life),
    CLAIM(a_kept_lease_of_a_silent_process_is_taken_over),
    CLAIM(a_kept_lease_of_a_frozen_process_is_taken_over_and_its_answer_refused),
    CLAIM(a_kept_lease_of_a_dead_process_is_free_at_once),
    CLAIM(a_kept_lease_whose_time_is_over_is_free_when_its_store_is_closed),
};

FIXTURE_MAIN("lease", claims, roles)
