/*
 * cases.h - tables of cases that several programs test themselves against (tests/cases), because
 * the same rule stands in C and in SQL.
 *
 * A line is a list of words; one that begins with '#' ends it, and empty lines are passed over.
 */
#ifndef HF_TESTS_SUPPORT_CASES_H
#define HF_TESTS_SUPPORT_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/gap.h"

#define CASES_LINE_BYTES 512
#define CASES_WORDS_MAX 32

struct cases {
    FILE *file;
    int line;                     /* of the file, from 1 */
    char text[CASES_LINE_BYTES];  /* the words, each ended by a NUL */
    char *words[CASES_WORDS_MAX]; /* in text */
    size_t count;
};

/* Opens a table by its name, from the repository's root; ends the test if there is none. */
void cases_open(struct cases *cases, const char *name);
/* The next line; false, and the file is closed: there is none. */
bool cases_next(struct cases *cases);

/* ---- gaps.txt -------------------------------------------------------------------------------- */

#define PLAY_NUMBERS_MAX 64

/* The steps of a case of gaps.txt, taken by the gap proof in C. */
struct play {
    struct gap gap;
    struct gap_watch watch;
    struct gap_look look; /* since the last reading; all zero: there was none */
    uint64_t looks;
};

void play_init(struct play *play);
void play_release(struct play *play);
/* These numbers were read above all that were seen before. */
void play_see(struct play *play, const int64_t *numbers, size_t count);
/* These names, each ended by '*' if it is prepared, hold the lock. */
void play_look(struct play *play, char *const *names, size_t count);
/* These numbers were found in the holes. */
void play_read(struct play *play, const int64_t *numbers, size_t count, int64_t through);
/* "6-7 9": the holes, in a buffer that is good until the next call. */
const char *play_left(const struct play *play);

/* "2-4" and "6" as 2 3 4 6; how many. At most PLAY_NUMBERS_MAX. */
size_t play_numbers(char *const *words, size_t count, int64_t *ret_numbers);
/* The last two words of a reading, "through 8", are left out of the count; else INT64_MAX. */
int64_t play_through(char *const *words, size_t *count);
/* The words of a line as one text with spaces between, in a buffer like that of play_left. */
const char *play_words(const struct cases *cases, size_t first);

#endif
