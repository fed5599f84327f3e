/*
 * test_sqlite_gate.c - one writer at a time, in a fair order, within the deadline.
 *
 * Two gates on one file stand for two processes.
 */
#include "unit.h"

#include "base/time/clock.h"
#include "store/sqlite/file/files.h"
#include "store/sqlite/file/gate.h"
#include "support/temp.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

struct scene {
    char dir[TEMP_PATH_BYTES];
    struct files files;
    struct gate gates[2];
};

static int setup(void **state)
{
    static struct scene scene;
    temp_open(scene.dir);
    const char *db = temp_file(scene.dir, "x.db");
    close(open(db, O_CREAT | O_RDWR, 0600));
    assert_ok(files_init(&scene.files, db));
    assert_ok(gate_open(&scene.gates[0], &scene.files));
    assert_ok(gate_open(&scene.gates[1], &scene.files));
    *state = &scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;
    gate_close(&scene->gates[0]);
    gate_close(&scene->gates[1]);
    files_release(&scene->files);
    temp_close(scene->dir);
    return 0;
}

static void a_held_gate_is_refused_at_the_deadline(void **state)
{
    struct scene *scene = *state;
    assert_ok(gate_take(&scene->gates[0], DEADLINE_NEVER));
    int64_t begun_us = clock_mono_us();
    assert_int_equal(gate_take(&scene->gates[1], deadline_after_ms(50)), HF_TIMEOUT);
    int64_t took_us = clock_mono_us() - begun_us;
    assert_in_range(took_us, 50000, 30000000);
    /* The same within one store: by another thread it would wait in memory. */
    assert_int_equal(gate_take(&scene->gates[0], deadline_after_ms(20)), HF_TIMEOUT);
    gate_give(&scene->gates[0]);
    assert_ok(gate_take(&scene->gates[1], deadline_after_ms(30000)));
    gate_give(&scene->gates[1]);
}

static void a_refused_turn_leaves_the_way_free(void **state)
{
    struct scene *scene = *state;
    assert_ok(gate_take(&scene->gates[0], DEADLINE_NEVER));
    assert_int_equal(gate_take(&scene->gates[1], deadline_after_ms(1)), HF_TIMEOUT);
    gate_give(&scene->gates[0]);
    /* The turnstile must not be held by the one that gave up. */
    assert_ok(gate_take(&scene->gates[0], deadline_after_ms(30000)));
    gate_give(&scene->gates[0]);
    assert_ok(gate_take(&scene->gates[1], deadline_after_ms(30000)));
    gate_give(&scene->gates[1]);
}

static void the_gate_names_its_holder(void **state)
{
    struct scene *scene = *state;
    assert_false(gate_held_by_caller(&scene->gates[0]));
    assert_ok(gate_take(&scene->gates[0], DEADLINE_NEVER));
    assert_true(gate_held_by_caller(&scene->gates[0]));
    assert_false(gate_held_by_caller(&scene->gates[1]));
    gate_give(&scene->gates[0]);
    assert_false(gate_held_by_caller(&scene->gates[0]));
}

static void a_deleted_gate_file_is_made_again(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(unlink(scene->files.gate), 0);
    assert_ok(gate_take(&scene->gates[0], deadline_after_ms(30000)));
    assert_int_equal(access(scene->files.gate, F_OK), 0);
    /* The other one still has the deleted file open and must end up at the same lock. */
    assert_int_equal(gate_take(&scene->gates[1], deadline_after_ms(20)), HF_TIMEOUT);
    gate_give(&scene->gates[0]);
    assert_ok(gate_take(&scene->gates[1], deadline_after_ms(30000)));
    gate_give(&scene->gates[1]);
}

#define WRITERS 4
#define TURNS 2000

struct crowd {
    struct scene *scene;
    int64_t inside; /* plain on purpose: only the gate protects it */
    int64_t turns;
};

struct writer {
    struct crowd *crowd;
    struct gate *gate;
    bool clash;
};

static void *write_in_turns(void *ctx)
{
    struct writer *writer = ctx;
    for (int i = 0; i < TURNS; i++) {
        if (gate_take(writer->gate, DEADLINE_NEVER) != HF_OK) {
            writer->clash = true;
            return NULL;
        }
        writer->clash = writer->clash || writer->crowd->inside != 0;
        writer->crowd->inside = 1;
        writer->crowd->turns++;
        writer->crowd->inside = 0;
        gate_give(writer->gate);
    }
    return NULL;
}

static void many_threads_are_never_inside_together(void **state)
{
    struct crowd crowd = {.scene = *state};
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){&crowd, &crowd.scene->gates[0], false};
        assert_int_equal(pthread_create(&threads[i], NULL, write_in_turns, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(writers[i].clash);
    }
    assert_int_equal(crowd.turns, WRITERS * TURNS);
}

struct greedy {
    struct gate *gate;
    atomic_bool stop;
    atomic_int turns;
};

static void *take_again_and_again(void *ctx)
{
    struct greedy *greedy = ctx;
    while (!atomic_load(&greedy->stop)) {
        if (gate_take(greedy->gate, DEADLINE_NEVER) == HF_OK) {
            atomic_fetch_add(&greedy->turns, 1);
            gate_give(greedy->gate);
        }
    }
    return NULL;
}

static void a_greedy_store_does_not_starve_another(void **state)
{
    struct scene *scene = *state;
    struct greedy greedy = {.gate = &scene->gates[0]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_again_and_again, &greedy), 0);
    while (atomic_load(&greedy.turns) == 0) {
        sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        assert_ok(gate_take(&scene->gates[1], deadline_after_ms(30000)));
        gate_give(&scene->gates[1]);
    }
    atomic_store(&greedy.stop, true);
    pthread_join(thread, NULL);
}

static void the_gate_of_a_killed_process_is_free(void **state)
{
    struct scene *scene = *state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct gate own;
        bool taken =
            gate_open(&own, &scene->files) == HF_OK && gate_take(&own, DEADLINE_NEVER) == HF_OK;
        if (write(ready[1], taken ? "y" : "n", 1) != 1) {
            _exit(1);
        }
        pause();
    }
    char answer = 0;
    assert_int_equal(read(ready[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    assert_int_equal(gate_take(&scene->gates[0], deadline_after_ms(20)), HF_TIMEOUT);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(gate_take(&scene->gates[0], deadline_after_ms(30000)));
    gate_give(&scene->gates[0]);
    close(ready[0]);
    close(ready[1]);
}

#define CLAIM_OF(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM_OF(a_held_gate_is_refused_at_the_deadline),
        CLAIM_OF(a_refused_turn_leaves_the_way_free),
        CLAIM_OF(the_gate_names_its_holder),
        CLAIM_OF(a_deleted_gate_file_is_made_again),
        CLAIM_OF(many_threads_are_never_inside_together),
        CLAIM_OF(a_greedy_store_does_not_starve_another),
        CLAIM_OF(the_gate_of_a_killed_process_is_free),
    };
    return cmocka_run_group_tests_name("sqlite_gate", claims, NULL, NULL);
}
