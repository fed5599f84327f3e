/*
 * cases.c - reading tables of cases, and playing those of gaps. See cases.h.
 */
#include "support/cases.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

void cases_open(struct cases *cases, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "tests/cases/%s", name);
    *cases = (struct cases){.file = fopen(path, "r")};
    if (!cases->file) {
        check_fail(__FILE__, __LINE__, "%s cannot be read: run this from the root", path);
    }
}

bool cases_next(struct cases *cases)
{
    while (fgets(cases->text, sizeof cases->text, cases->file)) {
        cases->line++;
        must_hold(strchr(cases->text, '\n'));
        cases->count = 0;
        char *at = cases->text + strspn(cases->text, " \n");
        while (*at && *at != '#') {
            must_hold(cases->count < CASES_WORDS_MAX);
            cases->words[cases->count++] = at;
            at += strcspn(at, " \n");
            *at++ = '\0';
            at += strspn(at, " \n");
        }
        if (cases->count > 0) {
            return true;
        }
    }
    fclose(cases->file);
    cases->file = NULL;
    return false;
}

/* ---- gaps.txt -------------------------------------------------------------------------------- */

void play_init(struct play *play)
{
    *play = (struct play){.looks = 0};
    gap_init(&play->gap, 0);
    gap_watch_init(&play->watch);
}

void play_release(struct play *play)
{
    gap_watch_release(&play->watch);
    gap_release(&play->gap);
}

void play_see(struct play *play, const int64_t *numbers, size_t count)
{
    struct gap_run runs[PLAY_NUMBERS_MAX];
    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct gap_run){numbers[i], numbers[i]};
    }
    must_answer(HF_OK, gap_tail(&play->gap, runs, count, play->looks, 0));
}

void play_look(struct play *play, char *const *names, size_t count)
{
    struct gap_holder holders[CASES_WORDS_MAX];
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        bool prepared = names[i][length - 1] == '*';
        uint64_t id = 1;
        for (size_t k = 0; k < length - prepared; k++) {
            id = 256 * id + (unsigned char)names[i][k];
        }
        holders[i] = (struct gap_holder){.id = id, .prepared = prepared};
    }
    must_answer(HF_OK, gap_watch_look(&play->watch, ++play->looks, holders, count));
    play->look = play->watch.look;
}

void play_read(struct play *play, const int64_t *numbers, size_t count, int64_t through)
{
    int64_t taken = 0;
    must_answer(HF_OK, gap_reread(&play->gap, numbers, count, through, play->look, 0, 0, &taken));
    must_equal(INT64_MAX, taken);
    play->look = (struct gap_look){0, 0};
}

const char *play_left(const struct play *play)
{
    static char text[2048];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < play->gap.count; i++) {
        const struct gap_hole *hole = &play->gap.holes[i];
        must_hold(used < sizeof text - 64);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, i > 0 ? " " : "",
                                 hole->first);
        if (hole->last > hole->first) {
            used += (size_t)snprintf(text + used, sizeof text - used, "-%" PRId64, hole->last);
        }
    }
    return text;
}

size_t play_numbers(char *const *words, size_t count, int64_t *ret_numbers)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        char *end;
        int64_t first = strtoll(words[i], &end, 10);
        int64_t last = *end == '-' ? strtoll(end + 1, &end, 10) : first;
        must_hold(*end == '\0' && first > 0 && last >= first);
        for (int64_t number = first; number <= last; number++) {
            must_hold(total < PLAY_NUMBERS_MAX);
            ret_numbers[total++] = number;
        }
    }
    return total;
}

int64_t play_through(char *const *words, size_t *count)
{
    if (*count < 2 || strcmp(words[*count - 2], "through") != 0) {
        return INT64_MAX;
    }
    *count -= 2;
    return strtoll(words[*count + 1], NULL, 10);
}

const char *play_words(const struct cases *cases, size_t first)
{
    static char text[CASES_LINE_BYTES + CASES_WORDS_MAX];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = first; i < cases->count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > first ? " " : "",
                                 cases->words[i]);
    }
    return text;
}
