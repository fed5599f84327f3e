/*
 * suggest.h - "did you mean": the known word nearest to a mistyped one.
 */
#ifndef HF_BASE_TEXT_SUGGEST_H
#define HF_BASE_TEXT_SUGGEST_H

#include <stddef.h>

#define SUGGEST_WORD_BYTES_MAX 64 /* longer words get no suggestion */

struct suggest {
    const char *word;  /* what was typed */
    const char *best;  /* nearest so far; NULL: nothing near enough */
    const char *other; /* what the word means elsewhere, too; NULL: nothing else */
    size_t best_distance;
};

void suggest_init(struct suggest *suggest, const char *word);

/* Offers a known word; it must outlive the suggestion. */
void suggest_offer(struct suggest *suggest, const char *known);

/* Insertions, deletions, replacements and swaps of neighbours between two words. */
size_t suggest_distance(const char *a, const char *b);

#endif
