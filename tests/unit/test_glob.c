/* Unit tests of base/glob: the rules, and matching and inclusion against brute force. */
#include "base/text/glob.h"
#include "support/cases.h"
#include "unit.h"

#define BYTES_51 "123456789012345678901234567890123456789012345678901"
#define BYTES_255 BYTES_51 BYTES_51 BYTES_51 BYTES_51 BYTES_51

static void good_types_and_patterns_are_accepted(void **state)
{
    static const char *const types[] = {
        "a", "user.created", "a.b.c.d.e", "größe.geändert", "UPPER-case_1", "a/b:c", BYTES_255,
    };
    static const char *const patterns[] = {
        "*", "**", "user.*", "*.created", "user.**", "a.*.c", "*.*", "*.**", "user.created",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        assert_ok(glob_check_type(text_of(types[i])));
        assert_ok(glob_check_pattern(text_of(types[i])));
    }
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        assert_ok(glob_check_pattern(text_of(patterns[i])));
        if (strchr(patterns[i], '*')) {
            assert_int_equal(glob_check_type(text_of(patterns[i])), HF_INVALID);
        }
    }
}

static void bad_types_are_refused_with_the_reason(void **state)
{
    static const struct {
        struct text type;
        const char *reason;
    } table[] = {
        {{NULL, 0}, "type is missing"},
        {TEXT_LITERAL(""), "type is empty"},
        {TEXT_LITERAL(BYTES_255 "x"), "type is 256 bytes; the limit is 255"},
        {TEXT_LITERAL("."), "empty segment at byte 0"},
        {TEXT_LITERAL(".a"), "empty segment at byte 0"},
        {TEXT_LITERAL("a."), "empty segment at byte 2"},
        {TEXT_LITERAL("a..b"), "empty segment at byte 2"},
        {TEXT_LITERAL("a b"), "white space at byte 1"},
        {TEXT_LITERAL("a\xC2\xA0"), "white space at byte 1"},
        {TEXT_LITERAL("a\xE3\x80\x80"), "white space at byte 1"},
        {TEXT_LITERAL("a\tb"), "control character U+0009 at byte 1"},
        {TEXT_LITERAL("a\0b"), "control character U+0000 at byte 1"},
        {TEXT_LITERAL("a\x7f"), "control character U+007F at byte 1"},
        {TEXT_LITERAL("a\xC2\x9B"), "control character U+009B at byte 1"},
        {TEXT_LITERAL("ab\xFF"), "not valid UTF-8 at byte 2"},
        {TEXT_LITERAL("user.*"), "'*' at byte 5"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(glob_check_type(table[i].type), HF_INVALID);
        assert_message(table[i].reason);
    }
}

static void a_star_beside_other_characters_is_refused(void **state)
{
    static const struct {
        const char *pattern;
        const char *reason;
    } table[] = {
        {"user*", "inside a segment at byte 4"},
        {"*user", "inside a segment at byte 0"},
        {"a.b*c", "inside a segment at byte 3"},
        {"***", "inside a segment"},
        {"a.***", "inside a segment"},
        {"**.a", "'**' at byte 0; it may only be the last"},
        {"a.**.b", "'**' at byte 2; it may only be the last"},
        {"a..*", "empty segment at byte 2"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(glob_check_pattern(text_of(table[i].pattern)), HF_INVALID);
        assert_message(table[i].reason);
        assert_message("pattern");
    }
}

static void names_allow_spaces_inside_but_not_at_the_ends(void **state)
{
    (void)state;
    assert_ok(glob_check_name(text_of("send mail *.* größe"), "subscription name", 255));
    assert_ok(glob_check_name(text_of("x"), "subscription name", 1));

    assert_int_equal(glob_check_name(text_of(""), "namespace", 10), HF_INVALID);
    assert_message("namespace is empty");
    assert_int_equal(glob_check_name(TEXT_ABSENT, "namespace", 10), HF_INVALID);
    assert_message("namespace is missing");
    assert_int_equal(glob_check_name(text_of("12345678901"), "namespace", 10), HF_INVALID);
    assert_message("namespace is 11 bytes; the limit is 10");
    assert_int_equal(glob_check_name(text_of(" a"), "namespace", 10), HF_INVALID);
    assert_message("begins with white space");
    assert_int_equal(glob_check_name(text_of("a\xE2\x80\x83"), "namespace", 10), HF_INVALID);
    assert_message("ends with white space");
    assert_int_equal(glob_check_name(text_of("a\nb"), "namespace", 10), HF_INVALID);
    assert_message("control character U+000A");
    assert_int_equal(glob_check_name(text_of("a\xC3"), "namespace", 10), HF_INVALID);
    assert_message("not valid UTF-8 at byte 1");
}

/* The table that SQL is tested against, too. */
static void patterns_match_as_the_table_says(void **state)
{
    struct cases cases;
    int lines = 0;

    (void)state;
    for (cases_open(&cases, "patterns.txt"); cases_next(&cases); lines++) {
        struct text pattern = text_of(cases.words[0]);
        struct text type = text_of(cases.words[1]);
        assert_int_equal(cases.count, 3);
        assert_ok(glob_check_pattern(pattern));
        assert_ok(glob_check_type(type));
        if (glob_match(pattern, type) != (cases.words[2][0] == 'y')) {
            fail_msg("patterns.txt:%d: pattern %s, type %s", cases.line, cases.words[0],
                     cases.words[1]);
        }
    }
    assert_true(lines > 30);
}

static void lone_star_matches_everything(void **state)
{
    (void)state;
    assert_true(glob_match(text_of("*"), text_of(BYTES_255)));
    assert_true(glob_match(text_of("*"), text_of("a.b.c.d.e.f.g.h")));
    assert_true(glob_covers(text_of("*"), text_of("**")));
    assert_true(glob_covers(text_of("**"), text_of("*")));
}

/* --- Brute force --- */

/* The meaning of a pattern, spelled out by recursion over the characters of both strings. */
static bool oracle_rest(const char *pattern, const char *type)
{
    if (strcmp(pattern, "**") == 0) {
        return *type != '\0';
    }
    if (pattern[0] == '*') {
        while (*type && *type != '.') {
            type++;
        }
        pattern++;
    } else {
        while (*pattern && *pattern != '.') {
            if (*pattern++ != *type++) {
                return false;
            }
        }
    }
    if (*pattern == '\0' || *type == '\0') {
        return *pattern == *type;
    }
    return *type == '.' && oracle_rest(pattern + 1, type + 1);
}

static bool oracle(const char *pattern, const char *type)
{
    return strcmp(pattern, "*") == 0 || oracle_rest(pattern, type);
}

/* 1 to segments_max segments drawn from the words; a pattern may end in "**". */
static void draw(uint64_t *seed, const char *const *words, size_t words_count, size_t segments_max,
                 bool pattern, char out[64])
{
    size_t segments = 1 + chance_below(seed, segments_max);
    int length = 0;

    for (size_t i = 0; i < segments; i++) {
        bool last = i + 1 == segments;
        const char *word = words[chance_below(seed, words_count)];

        if (pattern && last && chance_below(seed, 3) == 0) {
            word = "**";
        }
        length += snprintf(out + length, 64 - (size_t)length, "%s%s", i ? "." : "", word);
    }
}

static const char *const type_words[] = {"a", "b", "ab"};
static const char *const pattern_words[] = {"a", "b", "ab", "*"};

static void match_agrees_with_brute_force(void **state)
{
    uint64_t seed = 17;
    int matched = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char pattern[64], type[64];

        draw(&seed, pattern_words, COUNT_OF(pattern_words), 4, true, pattern);
        draw(&seed, type_words, COUNT_OF(type_words), 5, false, type);
        assert_ok(glob_check_pattern(text_of(pattern)));
        assert_ok(glob_check_type(text_of(type)));

        bool expected = oracle(pattern, type);

        if (glob_match(text_of(pattern), text_of(type)) != expected) {
            fail_msg("\"%s\" and \"%s\"", pattern, type);
        }
        matched += expected;
    }
    assert_true(matched > 10000); /* the draw is not one-sided */
}

/* All types of 1 to 5 segments over three words: one word more than the patterns use stands for
 * "any other", and one segment more than they have for "any longer". */
static size_t all_types(char types[][32], size_t types_max)
{
    static const char *const words[] = {"a", "b", "z"};
    size_t count = 0, first_of_length = 0;

    for (size_t i = 0; i < COUNT_OF(words); i++) {
        snprintf(types[count++], 32, "%s", words[i]);
    }
    for (int segments = 2; segments <= 5; segments++) {
        size_t end = count;

        for (size_t t = first_of_length; t < end; t++) {
            for (size_t w = 0; w < COUNT_OF(words) && count < types_max; w++) {
                snprintf(types[count++], 32, "%.29s.%s", types[t], words[w]);
            }
        }
        first_of_length = end;
    }
    return count;
}

static void covers_agrees_with_enumeration(void **state)
{
    static char types[400][32];
    static const char *const words[] = {"a", "b", "*"};
    size_t count = all_types(types, COUNT_OF(types));
    uint64_t seed = 23;
    int covered = 0;

    (void)state;
    assert_int_equal(count, 3 + 9 + 27 + 81 + 243);
    for (int i = 0; i < 20000; i++) {
        char wide[64], narrow[64];
        bool expected = true;

        draw(&seed, words, COUNT_OF(words), 4, true, wide);
        draw(&seed, words, COUNT_OF(words), 4, true, narrow);
        for (size_t t = 0; t < count && expected; t++) {
            expected = !oracle(narrow, types[t]) || oracle(wide, types[t]);
        }
        if (glob_covers(text_of(wide), text_of(narrow)) != expected) {
            fail_msg("\"%s\" covers \"%s\" should be %d", wide, narrow, expected);
        }
        covered += expected;
    }
    assert_true(covered > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_types_and_patterns_are_accepted),
        cmocka_unit_test(bad_types_are_refused_with_the_reason),
        cmocka_unit_test(a_star_beside_other_characters_is_refused),
        cmocka_unit_test(names_allow_spaces_inside_but_not_at_the_ends),
        cmocka_unit_test(patterns_match_as_the_table_says),
        cmocka_unit_test(lone_star_matches_everything),
        cmocka_unit_test(match_agrees_with_brute_force),
        cmocka_unit_test(covers_agrees_with_enumeration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
