/*
 * Unit tests of store/fit: which programs and schemas go together, and what is said if they do not.
 */
#include "unit.h"

#include "base/err.h"
#include "store/schema/fit.h"

#include <string.h>

/* A program of version 7 that can work on schemas from version 5 on. */
static const struct fit_program program = {7, 5};

static struct fit_schema schema_of(int64_t number, int64_t programs_from)
{
    return (struct fit_schema){number, programs_from, "0.3.0"};
}

static enum fit fit(int64_t number, int64_t programs_from)
{
    struct fit_schema schema = schema_of(number, programs_from);
    return fit_of(&program, &schema);
}

static void a_program_works_on_its_own_schema(void **state)
{
    (void)state;
    assert_int_equal(fit(7, 7), FIT_WORKS);
    assert_int_equal(fit(7, 1), FIT_WORKS);
    assert_int_equal(fit(7, 0), FIT_WORKS);
    assert_int_equal(fit(7, 9), FIT_WORKS); /* two builds of a version that is being worked on */
}

static void a_newer_schema_says_which_older_programs_may_use_it(void **state)
{
    (void)state;
    assert_int_equal(fit(8, 7), FIT_WORKS);
    assert_int_equal(fit(9, 3), FIT_WORKS);
    assert_int_equal(fit(8, 8), FIT_REFUSED);
    assert_int_equal(fit(8, 0), FIT_REFUSED); /* it does not say: only its own */
}

static void a_program_says_which_older_schema_it_can_work_on(void **state)
{
    (void)state;
    assert_int_equal(fit(6, 6), FIT_WORKS);
    assert_int_equal(fit(5, 5), FIT_WORKS);
    assert_int_equal(fit(4, 4), FIT_LOOKS);
    assert_int_equal(fit(1, 0), FIT_LOOKS);
}

static void said(hf_status status, const char *part)
{
    assert_int_equal(status, HF_SCHEMA);
    assert_non_null(strstr(err_message(), part));
}

static void a_refusal_names_both_versions_and_what_to_do(void **state)
{
    (void)state;
    struct fit_schema older = schema_of(4, 4);
    struct fit_schema newer = schema_of(9, 8);
    assert_int_equal(fit_check(&program, &older, "shop.db", true), HF_OK);
    said(fit_check(&program, &older, "shop.db", false),
         "shop.db has schema version 4, and this program needs version 7 to work on it: run "
         "`holdfast migrate`");
    said(fit_check(&program, &newer, "shop.db", true),
         "shop.db has schema version 9, which takes programs from version 8 on");
    said(fit_check(&program, &newer, "shop.db", true), "install Holdfast 0.3.0, or a newer one");
    newer.release[0] = '\0';
    said(fit_check(&program, &newer, "shop.db", true), "install the release that made it");
    said(fit_fail_missing(&program, &older, "shop.db", "no such table: x"),
         "schema version 4, and this needs version 7 (no such table: x): run `holdfast migrate`");
    said(fit_fail_missing(&program, &newer, "shop.db", "no such table: x"),
         "asks for what is not there any more (no such table: x)");
}

static void advice_is_given_about_an_older_schema_only(void **state)
{
    (void)state;
    struct fit_schema schema = schema_of(6, 6);
    assert_non_null(strstr(fit_advice(&program, &schema), "does not use what is new"));
    schema = schema_of(4, 4);
    assert_non_null(strstr(fit_advice(&program, &schema), "can only look"));
    schema = schema_of(7, 7);
    assert_null(fit_advice(&program, &schema));
    schema = schema_of(8, 7);
    assert_null(fit_advice(&program, &schema));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_works_on_its_own_schema),
        cmocka_unit_test(a_newer_schema_says_which_older_programs_may_use_it),
        cmocka_unit_test(a_program_says_which_older_schema_it_can_work_on),
        cmocka_unit_test(a_refusal_names_both_versions_and_what_to_do),
        cmocka_unit_test(advice_is_given_about_an_older_schema_only),
    };
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
