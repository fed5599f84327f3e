/*
 * text.c - comparing views of bytes.
 *
 * The order is memcmp's: for valid UTF-8 it is also the order of code points, and the order in
 * which both engines sort (SQLite BINARY, PostgreSQL COLLATE "C"). memcmp may not be given NULL,
 * not even with length 0, so absent and empty texts never reach it.
 */
#include "base/text/text.h"

bool text_equal(struct text a, struct text b)
{
    if (text_is_absent(a) || text_is_absent(b)) {
        return text_is_absent(a) && text_is_absent(b);
    }
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}
