/* Unit tests of store/postgres/lease: who is remembered to stand still, among many. */
#include "unit.h"

#include <unistd.h>

#include "store/postgres/verbs.h"
#include "store/postgres/wire/param.h"
#include "store/postgres/write/lease.h"

#define OTHERS 500
#define STILL_MS 50

/* Looks at all of them, as a refresh of the members does: always in the same order. */
static void look_round(struct postgres_engine *engine, int64_t round, size_t frozen)
{
    for (size_t i = 0; i < OTHERS; i++) {
        uint8_t token[STORE_TOKEN_BYTES] = {(uint8_t)(i >> 8), (uint8_t)i};
        signs_see(engine, token, i == frozen ? 7 : round);
    }
}

/* Whether this one is handed down as standing still. The array: dimensions, flags, type, length and
 * lower bound, then each token after its length. */
static bool stands_still(struct postgres_engine *engine, size_t wanted)
{
    enum { HEAD_BYTES = 20, ELEMENT_BYTES = 4 + STORE_TOKEN_BYTES };
    struct params params;
    bool found = false;
    params_init(&params);
    signs_fill(engine, &params, STILL_MS, false);
    assert_ok(params_finish(&params));
    const uint8_t *bytes = (const uint8_t *)params.values[0];
    for (int at = HEAD_BYTES; at + ELEMENT_BYTES <= params.lengths[0]; at += ELEMENT_BYTES) {
        found = found || ((size_t)bytes[at + 4] << 8 | bytes[at + 5]) == wanted;
    }
    params_release(&params);
    return found;
}

static void a_process_that_stands_still_is_found_among_many(void **state)
{
    (void)state;
    static struct postgres_engine engine;
    const size_t frozen[] = {0, 63, 64, 69, 300, OTHERS - 1};
    for (size_t i = 0; i < COUNT_OF(frozen); i++) {
        assert_ok(signs_new(&engine.signs));
        for (int64_t round = 100; round < 103; round++) {
            look_round(&engine, round, frozen[i]);
            usleep(STILL_MS * 1000 + 10000);
        }
        look_round(&engine, 103, frozen[i]);
        assert_true(stands_still(&engine, frozen[i]));
        signs_free(engine.signs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_stands_still_is_found_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
