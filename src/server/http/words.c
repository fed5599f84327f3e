/*
 * words.c - see words.h.
 */
#include "server/http/words.h"

#include "base/banned.h"

bool words_next(const char **at, struct text *ret_word)
{
    *at += strspn(*at, " ");
    *ret_word = (struct text){*at, strcspn(*at, " ")};
    *at += ret_word->length;
    return ret_word->length > 0;
}

struct text word_name(struct text word)
{
    size_t length = 0;

    while (length < word.length && !memchr("!=+", word.bytes[length], 3)) {
        length++;
    }
    return (struct text){word.bytes, length};
}

int words_find(const char *list, const char *name)
{
    struct text word;

    for (int number = 0; words_next(&list, &word); number++) {
        if (text_equal(word_name(word), text_of(name))) {
            return number;
        }
    }
    return -1;
}

bool words_is_many(const char *list, int number)
{
    struct text word = TEXT_ABSENT;

    for (int i = 0; i <= number && words_next(&list, &word); i++) {
    }
    return word.length > 0 && memchr(word.bytes, '+', word.length);
}

int words_count(const char *list)
{
    struct text word;
    int count = 0;

    while (words_next(&list, &word)) {
        count++;
    }
    return count;
}

void words_names(const char *list, char *ret_names, size_t bytes)
{
    struct text word;
    size_t length = 0;

    ret_names[0] = '\0';
    while (words_next(&list, &word) && length < bytes) {
        struct text name = word_name(word);
        length += (size_t)snprintf(ret_names + length, bytes - length, "%s%.*s",
                                   length > 0 ? ", " : "", (int)name.length, name.bytes);
    }
}
