/*
 * test_namespace.c - namespaces as rows: a removal that was left half done, and goes on.
 */
#include "store/namespace.h"
#include "support/make.h"

static struct namespace_put put_named(const char *name)
{
    return (struct namespace_put){.change = {.kind = CHANGE_NAMESPACE_PUT, .now_us = T0},
                                  .name = text_of(name),
                                  .retention_ms = -1,
                                  .retention_bytes = -1};
}

static struct namespace_remove remove_named(const char *name)
{
    return (struct namespace_remove){.change = {.kind = CHANGE_NAMESPACE_REMOVE, .now_us = T0},
                                     .name = text_of(name)};
}

static int note_removing(const struct namespace_row *row, void *ctx)
{
    *(bool *)ctx = row->removing_at_us != -1;
    return 0;
}

static struct store *open_named(struct fixture *fixture, const char *name)
{
    struct store_options options = fixture_options(fixture, "n");
    options.namespace_name = text_of(name);
    return fixture_open_with(fixture, &options);
}

static hf_status open_status(struct fixture *fixture, const char *name)
{
    struct store_options options = fixture_options(fixture, "n");
    struct store *store = NULL;
    options.namespace_name = text_of(name);
    hf_status status = store_open(fixture->url, &options, &store);
    store_close(store);
    return status;
}

/* Steps until `more` is false; how many. */
static int remove_rest(struct store *store, const char *name)
{
    for (int steps = 1;; steps++) {
        struct namespace_remove remove = remove_named(name);
        must_answer(HF_OK, RUN(store, &remove));
        if (!remove.ret_more) {
            return steps;
        }
        must_equal(true, steps < 1000);
    }
}

static void a_removal_that_was_left_half_done_goes_on(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    char name[HF_NAMESPACE_BYTES_MAX];
    snprintf(name, sizeof name, "%.100s going", fixture->namespace_name);
    struct store *going = open_named(fixture, name);
    append_count(going, "t", (size_t)2 * STORE_REMOVE_STEP_ROWS + 10);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 3);
    must_answer(HF_OK, RUN(going, &put));
    append_one(store, "t", NULL);
    int64_t head = head_of(store);

    struct namespace_remove remove = remove_named(name);
    must_answer(HF_CONFLICT, RUN(store, &remove));
    fixture_close(fixture, going);

    /* Three steps, then nothing: as if the process had died. */
    for (int i = 0; i < 3; i++) {
        remove = remove_named(name);
        must_answer(HF_OK, RUN(store, &remove));
        must_equal(true, remove.ret_more);
        bool removing = false;
        must_answer(HF_OK, store_namespace_list(store, text_of(name), note_removing, &removing));
        must_equal(true, removing);
        must_answer(HF_BUSY, open_status(fixture, name));
        struct namespace_put again = put_named(name);
        again.create = true;
        must_answer(HF_BUSY, RUN(store, &again));
    }
    struct store *other = fixture_open(fixture, "b");
    must_equal(true, remove_rest(other, name) > 0);
    remove = remove_named(name);
    must_answer(HF_NOTFOUND, RUN(other, &remove));
    struct namespace_put gone = put_named(name);
    must_answer(HF_NOTFOUND, RUN(other, &gone));
    must_equal(head, head_of(store));

    going = open_named(fixture, name);
    must_equal(0, head_of(going));
    fixture_close(fixture, going);
    remove_rest(other, name);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        CLAIM(a_removal_that_was_left_half_done_goes_on),
    };
    return fixture_main(argc, argv, "namespace", claims, sizeof claims / sizeof claims[0], NULL);
}
