/*
 * test_sessions.c - whose session ends when too many have logged in.
 */
#include "server/access/sessions.h"
#include "support/check.h"

static unsigned char *token_number(int number)
{
    static unsigned char token[TOKEN_HASH_BYTES];

    memset(token, 0, sizeof token);
    memcpy(token, &number, sizeof number);
    return token;
}

static void log_in(struct sessions *sessions, int token, char ret_id[SESSION_ID_BYTES])
{
    assert_int_equal(sessions_begin(sessions, token_number(token), ret_id), HF_OK);
}

static void log_in_often(struct sessions *sessions, int token, int times)
{
    char id[SESSION_ID_BYTES];

    for (int i = 0; i < times; i++) {
        log_in(sessions, token, id);
    }
}

static bool goes_on(struct sessions *sessions, const char *id)
{
    struct bearer bearer;

    return sessions_find(sessions, id, &bearer);
}

static void logins_of_one_token_end_its_own_sessions_only(void **state)
{
    struct sessions *sessions = sessions_new();
    char other[SESSION_ID_BYTES];
    char first[SESSION_ID_BYTES];
    char second[SESSION_ID_BYTES];

    (void)state;
    log_in(sessions, 1, other);
    log_in(sessions, 2, first);
    log_in(sessions, 2, second);
    log_in_often(sessions, 2, SESSIONS_PER_TOKEN_MAX - 2);
    assert_true(goes_on(sessions, first)); /* it is used now, so the second is the next to end */
    log_in_often(sessions, 2, 1);
    assert_true(goes_on(sessions, first));
    assert_false(goes_on(sessions, second));
    log_in_often(sessions, 2, 2 * SESSIONS_MAX);
    assert_false(goes_on(sessions, first));
    assert_true(goes_on(sessions, other));
    sessions_free(sessions);
}

static void in_a_full_table_the_token_with_the_most_sessions_loses_one(void **state)
{
    struct sessions *sessions = sessions_new();
    int tokens = SESSIONS_MAX / SESSIONS_PER_TOKEN_MAX;
    char few[SESSION_ID_BYTES];
    char many[SESSION_ID_BYTES];
    char late[SESSION_ID_BYTES];

    (void)state;
    log_in(sessions, 0, few);
    log_in(sessions, 1, many);
    log_in_often(sessions, 1, SESSIONS_PER_TOKEN_MAX - 1);
    for (int token = 2; token < tokens; token++) {
        log_in_often(sessions, token, SESSIONS_PER_TOKEN_MAX - 1);
    }
    for (int token = tokens; sessions_version(sessions) == 0; token++) {
        assert_true(token <= SESSIONS_MAX);
        log_in(sessions, token, late);
    }
    assert_false(goes_on(sessions, many)); /* the oldest of token 1, the only one with so many */
    assert_true(goes_on(sessions, few));
    assert_true(goes_on(sessions, late));
    sessions_free(sessions);
}

static void a_session_that_is_pushed_out_is_news_for_its_streams(void **state)
{
    struct sessions *sessions = sessions_new();

    (void)state;
    log_in_often(sessions, 1, SESSIONS_PER_TOKEN_MAX);
    assert_int_equal(sessions_version(sessions), 0);
    log_in_often(sessions, 1, 1);
    assert_int_equal(sessions_version(sessions), 1);
    sessions_free(sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logins_of_one_token_end_its_own_sessions_only),
        cmocka_unit_test(in_a_full_table_the_token_with_the_most_sessions_loses_one),
        cmocka_unit_test(a_session_that_is_pushed_out_is_news_for_its_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
