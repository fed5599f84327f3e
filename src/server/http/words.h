/*
 * words.h - lists of words in one text, separated by spaces: what routes.def says of a route.
 *
 * A word is "limit", "lease!", "limit=rows" or "type+"; its name ends before '!', '=' and '+'.
 */
#ifndef HF_SERVER_HTTP_WORDS_H
#define HF_SERVER_HTTP_WORDS_H

#include "base/text/text.h"

#define WORDS_MAX 32 /* of one list */

/* Takes the next word off a list; false at its end. */
bool words_next(const char **at, struct text *ret_word);
/* The name of a word. */
struct text word_name(struct text word);
/* The number of the word with this name, from 0; -1: there is none. */
int words_find(const char *list, const char *name);
/* Whether the word of this number has a '+': what it names may be given several times. */
bool words_is_many(const char *list, int number);
/* How many there are. */
int words_count(const char *list);
/* Their names, with commas between them, as far as there is room. */
void words_names(const char *list, char *ret_names, size_t bytes);

#endif
