/*
 * support_actor.h - the test program started again as another process.
 *
 * A test that needs a second process runs its own executable with the name of a part, so that the
 * child is a fresh program with its own handles and no inherited threads:
 *
 *     static const struct part parts[] = {{"consume", consume}};
 *     ACTOR_MAIN(tests, parts)
 *
 * A child dies with its parent. What it has to say it writes as lines of a diary, a file that
 * several processes append to with one write each, so that a line that is there is complete even if
 * its writer was killed right after.
 */
#ifndef TESTS_BUS_SUPPORT_ACTOR_H
#define TESTS_BUS_SUPPORT_ACTOR_H

#include "support_scene.h"

#include <sys/types.h>

#define ACTOR_ARGS_MAX 8

struct part {
    const char *name;
    int (*run)(int argc, char **argv); /* argv without program and part; the exit status */
};

/* The main function of a program with parts: plays one if it is asked for, else runs the tests. */
#define ACTOR_MAIN(tests, parts)                                                                   \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        if (actor_is_asked_for(argc, argv))                                                        \
            return actor_run(argc, argv, parts, COUNTED(parts));                                   \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

bool actor_is_asked_for(int argc, char **argv);
int actor_run(int argc, char **argv, const struct part *parts, size_t count);

/* Starts the part; args are NUL-terminated and end with NULL. */
pid_t actor_start(const char *part, ...) __attribute__((sentinel));
/* Waits for it; the wait status, or -1 (and it is killed) after DEADLINE_MS. */
int actor_wait(pid_t pid);
/* Kills it with SIGKILL and waits for it. Nothing if pid <= 0. */
void actor_kill(pid_t pid);

/* Stops it at a moment when it neither holds nor waits for the database: one that is stopped in the
 * middle of a write keeps all others waiting, and nothing can be done about that. */
void actor_freeze(struct scene *scene, pid_t pid);

/* A part: consumes everything ("*") as subscription "a" with the handler, and with the second one,
 * if there is one, as "b", until there is a line "END" in the diary. Its exit status. */
int actor_consume(const char *url, const char *diary, hf_handler_fn handle, hf_handler_fn second);

/* Appends one line; safe in several processes at once, and in handlers. */
void diary_write(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* How many lines begin with the prefix. */
size_t diary_count(const char *path, const char *prefix);
/* Waits until there are so many; false after DEADLINE_MS. */
bool diary_wait(const char *path, const char *prefix, size_t count);
/* The number after the prefix in the index-th such line; -1 if there is none. */
int64_t diary_number(const char *path, const char *prefix, size_t index);
/* The numbers of the first `max` of them; how many. */
size_t diary_numbers(const char *path, const char *prefix, int64_t *numbers, size_t max);

#endif
