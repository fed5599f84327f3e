/*
 * test_guarded.c - when a file of tokens or secrets is read again.
 */
#include "base/mem.h"
#include "base/time/clock.h"
#include "server/access/guarded.h"
#include "support/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECOND_US INT64_C(1000000)
#define SOON_US 50000 /* a file that is so old is looked at as one that may be written still */

struct scene {
    char path[4096];
    struct guarded file;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void set_written(const char *path, int64_t at_us)
{
    struct timespec at = {at_us / SECOND_US, at_us % SECOND_US * 1000};
    struct timespec times[2] = {at, at};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_to_be_read(struct scene *scene)
{
    scene->file.looked_us = -10 * SECOND_US; /* it is time to look */
    return guarded_has_changed(&scene->file);
}

static void begin(struct scene *scene)
{
    const char *folder = getenv("TMPDIR");
    char *text;

    snprintf(scene->path, sizeof scene->path, "%s/guarded", folder ? folder : "/tmp");
    scene->file = (struct guarded){.path = scene->path};
    write_file(scene->path, "first");
    assert_int_equal(guarded_read(&scene->file, &text), HF_OK);
    assert_string_equal(text, "first");
    mem_free(text);
}

static void a_file_is_read_again_when_its_writer_has_ended(void **state)
{
    struct scene scene;
    int64_t begun_us;
    bool is_read;

    (void)state;
    begin(&scene);
    assert_false(is_to_be_read(&scene));
    write_file(scene.path, "");
    do { /* this process may have to wait for a processor */
        begun_us = clock_mono_us();
        set_written(scene.path, clock_wall_us());
        is_read = is_to_be_read(&scene);
    } while (clock_mono_us() - begun_us > SOON_US);
    assert_false(is_read);
    set_written(scene.path, clock_wall_us() - SECOND_US);
    assert_true(is_to_be_read(&scene));
    unlink(scene.path);
}

static void a_file_of_the_future_is_read_at_once(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    write_file(scene.path, "second");
    set_written(scene.path, clock_wall_us() + 3600 * SECOND_US);
    assert_true(is_to_be_read(&scene));
    unlink(scene.path);
}

static void a_file_that_is_gone_has_changed(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    unlink(scene.path);
    assert_true(is_to_be_read(&scene));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_again_when_its_writer_has_ended),
        cmocka_unit_test(a_file_of_the_future_is_read_at_once),
        cmocka_unit_test(a_file_that_is_gone_has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
