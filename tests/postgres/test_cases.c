/*
 * test_cases.c - rules that stand in C and in SQL are the same: the tables of tests/cases, which
 * the unit tests of C read too, and random cases that both are asked. On a live server: skipped
 * unless the URL is one.
 *
 *     patterns.txt   glob_match and patterns_regex
 *     gaps.txt       gap.h and holes_left
 */
#include "postgres/support_side.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text/glob.h"
#include "support/cases.h"
#include "support/fixture.h"

#define PATTERNS_RANDOM 3000
#define PLAYS_RANDOM 150
#define STEPS 8
#define SQL_BYTES 8192

static PGconn *server_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    fixture_open(f, "cases");
    return side_open(f);
}

static uint64_t chance_below(uint64_t *seed, uint64_t below)
{
    return hash_mix(*seed += UINT64_C(0x9e3779b97f4a7c15)) % below;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

static bool sql_matches(PGconn *pg, const char *pattern, const char *type)
{
    const char *const values[] = {pattern, type};
    PGresult *result =
        PQexecParams(pg, "SELECT coalesce($2 ~ holdfast.patterns_regex(ARRAY[$1]), true)", 2, NULL,
                     values, NULL, NULL, 0);
    must_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    bool matches = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
    PQclear(result);
    return matches;
}

static void sql_matches_patterns_as_the_table_says(void **state)
{
    PGconn *pg = server_of(*state);
    struct cases cases;
    int lines = 0;
    for (cases_open(&cases, "patterns.txt"); cases_next(&cases); lines++) {
        must_equal(3, cases.count);
        if (sql_matches(pg, cases.words[0], cases.words[1]) != (cases.words[2][0] == 'y')) {
            check_fail(__FILE__, __LINE__, "patterns.txt:%d: pattern %s, type %s", cases.line,
                       cases.words[0], cases.words[1]);
        }
    }
    must_hold(lines > 30);
    PQfinish(pg);
}

/* Up to four segments; of a pattern, some are stars. */
static void random_name(uint64_t *seed, bool pattern, char text[64])
{
    static const char *const segments[] = {"a", "b", "ab", "a-b", "+", "(a", "[b]", "\\d", "ö"};
    uint64_t count = 1 + chance_below(seed, 4);
    size_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        const char *segment = segments[chance_below(seed, sizeof segments / sizeof segments[0])];
        if (pattern && chance_below(seed, 3) == 0) {
            segment = i + 1 == count && chance_below(seed, 2) == 0 ? "**" : "*";
        }
        used += (size_t)snprintf(text + used, 64 - used, "%s%s", i > 0 ? "." : "", segment);
    }
}

static void sql_and_c_match_random_patterns_alike(void **state)
{
    PGconn *pg = server_of(*state);
    uint64_t seed = 7;
    int matched = 0;
    for (int i = 0; i < PATTERNS_RANDOM; i++) {
        char pattern[64];
        char type[64];
        random_name(&seed, true, pattern);
        random_name(&seed, false, type);
        must_answer(HF_OK, glob_check_pattern(text_of(pattern)));
        must_answer(HF_OK, glob_check_type(text_of(type)));
        bool matches = glob_match(text_of(pattern), text_of(type));
        if (sql_matches(pg, pattern, type) != matches) {
            check_fail(__FILE__, __LINE__, "pattern %s, type %s: %d in C", pattern, type, matches);
        }
        matched += matches;
    }
    must_hold(matched > PATTERNS_RANDOM / 50);
    PQfinish(pg);
}

/* ---- Gaps ------------------------------------------------------------------------------------ */

/* A case as claims play it: the holes are in a table of the session. */
struct claim_play {
    PGconn *pg;
    int64_t high;         /* the highest number seen */
    char holders[512];    /* of the look since the last reading, as SQL: NULL if there was none */
    const char *prepared; /* whether one of them is, as SQL */
};

static void claim_begin(struct claim_play *play, PGconn *pg)
{
    *play = (struct claim_play){.pg = pg, .holders = "NULL", .prepared = "false"};
    side_must(pg, "UPDATE play SET holes = '{}'");
}

/* What claim_log does with a number that is missing. */
static void claim_see(struct claim_play *play, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] > play->high + 1) {
            side_must(play->pg,
                      "UPDATE play SET holes = holes || ROW(%" PRId64 ", %" PRId64
                      ", clock_timestamp(), NULL, NULL, NULL)::holdfast_private.hole",
                      play->high + 1, numbers[i] - 1);
        }
        play->high = numbers[i];
    }
}

static void claim_look(struct claim_play *play, char *const *names, size_t count)
{
    size_t used = (size_t)snprintf(play->holders, sizeof play->holders, "'{");
    play->prepared = "false";
    for (size_t i = 0; i < count; i++) {
        int length = (int)strcspn(names[i], "*");
        used += (size_t)snprintf(play->holders + used, sizeof play->holders - used, "%s%.*s",
                                 i > 0 ? "," : "", length, names[i]);
        play->prepared = names[i][length] == '*' ? "true" : play->prepared;
    }
    must_hold(used < sizeof play->holders - 3);
    snprintf(play->holders + used, sizeof play->holders - used, "}'");
}

static void claim_read(struct claim_play *play, const int64_t *numbers, size_t count,
                       int64_t through)
{
    char found[2048] = "{";
    size_t used = 1;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(found + used, sizeof found - used, "%s[%" PRId64 ",%" PRId64 "]",
                                 i > 0 ? "," : "", numbers[i], numbers[i]);
    }
    must_hold(used < sizeof found - 2);
    snprintf(found + used, sizeof found - used, "}");
    side_must(play->pg,
              "UPDATE play SET holes = holdfast_private.holes_left(holes, '%s', %" PRId64
              ", %s, %s, clock_timestamp())",
              found, through, play->holders, play->prepared);
    snprintf(play->holders, sizeof play->holders, "NULL");
}

static const char *claim_left(struct claim_play *play)
{
    static char text[2048];
    PGresult *result =
        PQexec(play->pg, "SELECT coalesce(string_agg(CASE WHEN h.low = h.high THEN h.low::text "
                         "ELSE h.low || '-' || h.high END, ' ' ORDER BY h.low), '') "
                         "FROM play, unnest(holes) h");
    must_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    snprintf(text, sizeof text, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

static PGconn *plays_of(struct fixture *f)
{
    PGconn *pg = server_of(f);
    side_must(pg, "CREATE TEMP TABLE play (holes holdfast_private.hole[])");
    side_must(pg, "INSERT INTO play VALUES ('{}')");
    return pg;
}

static void claims_decide_gaps_as_the_table_says(void **state)
{
    PGconn *pg = plays_of(*state);
    struct claim_play play;
    struct cases cases;
    char name[CASES_LINE_BYTES] = "";
    int checks = 0;
    for (cases_open(&cases, "gaps.txt"); cases_next(&cases);) {
        int64_t numbers[PLAY_NUMBERS_MAX];
        char *const *words = cases.words + 1;
        size_t count = cases.count - 1;
        if (strcmp(cases.words[0], "case") == 0) {
            snprintf(name, sizeof name, "%s", words[0]);
            claim_begin(&play, pg);
        } else if (strcmp(cases.words[0], "see") == 0) {
            claim_see(&play, numbers, play_numbers(words, count, numbers));
        } else if (strcmp(cases.words[0], "look") == 0) {
            claim_look(&play, words, count);
        } else if (strcmp(cases.words[0], "read") == 0) {
            int64_t through = play_through(words, &count);
            claim_read(&play, numbers, play_numbers(words, count, numbers), through);
        } else if (strcmp(cases.words[0], "left-reader") != 0) {
            const char *left = claim_left(&play);
            if (strcmp(left, play_words(&cases, 1)) != 0) {
                check_fail(__FILE__, __LINE__, "gaps.txt:%d: %s: left are \"%s\"", cases.line, name,
                           left);
            }
            checks++;
        }
    }
    must_hold(checks > 30);
    PQfinish(pg);
}

/* One random case. Holders never come back, and none is prepared: there the two differ. */
static int random_play(PGconn *pg, uint64_t *seed)
{
    struct play reader;
    struct claim_play claim;
    char letters[CASES_WORDS_MAX][3];
    char *names[CASES_WORDS_MAX];
    size_t first = 0; /* names from here to `last` are alive, as far as alive says so */
    size_t last = 0;
    bool alive[CASES_WORDS_MAX] = {false};
    int64_t high = 0;
    int decided = 0;
    play_init(&reader);
    claim_begin(&claim, pg);
    for (int step = 0; step < STEPS; step++) {
        int64_t numbers[PLAY_NUMBERS_MAX];
        size_t count = 0;
        while (count < 4) {
            high += 1 + (int64_t)chance_below(seed, 3);
            numbers[count++] = high;
        }
        play_see(&reader, numbers, count);
        claim_see(&claim, numbers, count);
        if (chance_below(seed, 4) > 0) {
            size_t holders = 0;
            if (last < CASES_WORDS_MAX && chance_below(seed, 2) == 0) {
                snprintf(letters[last], sizeof letters[0], "%c", (char)('a' + (char)last));
                alive[last++] = true;
            }
            for (size_t i = first; i < last; i++) {
                alive[i] = alive[i] && chance_below(seed, 3) > 0;
                if (alive[i]) {
                    names[holders++] = letters[i];
                }
            }
            play_look(&reader, names, holders);
            claim_look(&claim, names, holders);
        }
        count = 0;
        int64_t through = INT64_MAX;
        for (size_t i = 0; i < reader.gap.count; i++) {
            const struct gap_hole *hole = &reader.gap.holes[i];
            for (int64_t n = hole->first; n <= hole->last && count < PLAY_NUMBERS_MAX; n++) {
                if (chance_below(seed, 4) == 0) {
                    numbers[count++] = n;
                }
            }
            if (chance_below(seed, 12) == 0) {
                through = hole->last;
                break;
            }
        }
        size_t before = reader.gap.count;
        play_read(&reader, numbers, count, through);
        claim_read(&claim, numbers, count, through);
        must_read(play_left(&reader), claim_left(&claim));
        decided += reader.gap.count < before;
    }
    play_release(&reader);
    return decided;
}

static void claims_and_readers_decide_random_gaps_alike(void **state)
{
    PGconn *pg = plays_of(*state);
    uint64_t seed = 11;
    int decided = 0;
    for (int i = 0; i < PLAYS_RANDOM; i++) {
        decided += random_play(pg, &seed);
    }
    must_hold(decided > PLAYS_RANDOM);
    PQfinish(pg);
}

static const struct CMUnitTest claims[] = {
    CLAIM(sql_matches_patterns_as_the_table_says),
    CLAIM(sql_and_c_match_random_patterns_alike),
    CLAIM(claims_decide_gaps_as_the_table_says),
    CLAIM(claims_and_readers_decide_random_gaps_alike),
};

FIXTURE_MAIN("cases", claims, NULL)
