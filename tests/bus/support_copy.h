/*
 * support_copy.h - what a test of copying needs: two more databases, ways to copy and to compare.
 *
 * A test copies from the scene's database to a file (there) and mostly from there to a database of
 * the scene's kind (back), so that on a server both directions are tried.
 */
#ifndef TESTS_BUS_SUPPORT_COPY_H
#define TESTS_BUS_SUPPORT_COPY_H

#include "support_scene.h"

#define COPY_URL_BYTES 1024

/* URLs of the two, of which nothing is there yet. */
extern char there[COPY_URL_BYTES];
extern char back[COPY_URL_BYTES];

int copy_setup(void **state);
int copy_teardown(void **state);
#define copy_test(test) cmocka_unit_test_setup_teardown(test, copy_setup, copy_teardown)

/* Without a namespace, as hf_copy wants it. */
hf_bus *open_whole(const char *url);
hf_status open_default(const char *url, hf_bus **ret_bus);
/* Closes the scene's bus for good. */
void close_bus(struct scene *scene);

/* Opens both, copies, and closes them. */
hf_status copy_with(const char *from, const char *to, const hf_copy_options *options,
                    hf_copy_progress_fn progress, void *ctx, hf_copy_report *ret_report);
/* Expects that it completes. */
hf_copy_report copy_all(const char *from, const char *to);

/* What a consumer could tell apart. */
struct content {
    int64_t count; /* of events */
    int64_t last;  /* position */
    uint64_t hash;
};

struct content content_of(const char *url);
/* hf_verify finds nothing. */
void assert_sound(const char *url);
/* The same content, and the second is sound. */
void assert_same(const char *a, const char *b);

#endif
