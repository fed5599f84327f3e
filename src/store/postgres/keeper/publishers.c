/*
 * publishers.c - the memory of who had published and was not over. See publishers.h.
 *
 * Both lists are short, so to find one's names in the other by comparing each with each is quicker
 * than anything clever. The list is compacted in place: those that are still there move to its
 * front.
 */
#include "store/postgres/keeper/publishers.h"

#include <stdio.h>
#include <string.h>

#include "store/postgres/wire/row.h"

size_t publishers_in(const PGresult *result, int column)
{
    return result_array(result, 0, column).count;
}

void publishers_note(struct publishers *publishers, const PGresult *result, int column)
{
    struct result_array array = result_array(result, 0, column);
    publishers->count = 0;
    publishers->cut = array.count > PUBLISHERS_MAX;
    for (size_t i = 0; i < array.count && i < PUBLISHERS_MAX; i++) {
        struct text name = array_text(&array);
        snprintf(publishers->names[i], PUBLISHER_NAME_MAX, "%" TEXT_PRI, TEXT_ARG(name));
        publishers->count++;
    }
}

/* Finds the name among those from `first` on. Answers `count` if it is not there. */
static size_t find(const struct publishers *publishers, size_t first, struct text name)
{
    size_t i = first;
    while (i < publishers->count && !text_equal(text_of(publishers->names[i]), name)) {
        i++;
    }
    return i;
}

void publishers_keep(struct publishers *publishers, const PGresult *result, int column)
{
    struct result_array array = result_array(result, 0, column);
    size_t kept = 0;
    for (size_t i = 0; i < array.count; i++) {
        size_t at = find(publishers, kept, array_text(&array));
        if (at < publishers->count) {
            char name[PUBLISHER_NAME_MAX];
            memcpy(name, publishers->names[at], sizeof name);
            memcpy(publishers->names[at], publishers->names[kept], sizeof name);
            memcpy(publishers->names[kept], name, sizeof name);
            kept++;
        }
    }
    publishers->count = kept;
}

bool publishers_prepared(const PGresult *result, int column)
{
    struct result_array array = result_array(result, 0, column);
    bool found = false;
    for (size_t i = 0; i < array.count; i++) {
        struct text name = array_text(&array);
        found = found || (name.length > 0 && name.bytes[0] == '-');
    }
    return found;
}
