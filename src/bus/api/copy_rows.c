/*
 * copy_rows.c - rows on their way to another database. See copy_rows.h.
 *
 * A portion has its memory for good: values for the largest number of rows, and an arena for their
 * texts that is emptied with it. So copying takes the same memory for a thousand events as for a
 * hundred million.
 *
 * A digest takes each row in a form in which different rows are different bytes (kind, length,
 * content), hashes it, and chains the hashes, so that order counts. Left out is what a copy may
 * change: the id of a dead letter, which another one of the target may have; up to where these are
 * numbered, which may be further in the target; and the newest position, which on PostgreSQL is no
 * part of a snapshot and is compared by itself.
 */
#include "bus/api/copy_rows.h"

#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#define ROW_BYTES_MAX ((size_t)1 << 30)
#define DEAD_LETTER_COLUMN_ID 2
#define NUMBERS_COLUMN_HIGHEST 0
#define NAMESPACE_COLUMN_HEAD 0

hf_status portion_init(struct portion *portion)
{
    *portion = (struct portion){.rows = 0};
    arena_init(&portion->arena, ROW_BYTES_MAX);
    portion->values =
        mem_calloc((size_t)TRANSFER_ROWS_MAX * TRANSFER_COLUMNS_MAX, sizeof *portion->values);
    return portion->values ? HF_OK : fail(HF_NOMEM, "no memory for a copy");
}

void portion_release(struct portion *portion)
{
    mem_free(portion->values);
    arena_release(&portion->arena);
}

void portion_clear(struct portion *portion)
{
    portion->rows = 0;
    arena_clear(&portion->arena);
}

hf_status portion_add(struct portion *portion, const struct transfer_value *values, int columns)
{
    struct transfer_value *to = portion->values + portion->rows * (size_t)columns;
    portion->columns = columns;
    for (int i = 0; i < columns; i++) {
        to[i] = values[i];
        to[i].text = arena_text(&portion->arena, values[i].text);
    }
    portion->rows++;
    return arena_status(&portion->arena);
}

bool portion_is_full(const struct portion *portion)
{
    return portion->rows == TRANSFER_ROWS_MAX || portion->arena.used_bytes >= STORE_BATCH_BYTES_MAX;
}

void digest_init(struct digest *digest, enum transfer_table table)
{
    *digest = (struct digest){.table = table};
    buf_init(&digest->row, ROW_BYTES_MAX);
}

void digest_release(struct digest *digest)
{
    buf_release(&digest->row);
}

static bool is_left_out(enum transfer_table table, int column)
{
    return (table == TRANSFER_DEAD_LETTERS && column == DEAD_LETTER_COLUMN_ID) ||
           (table == TRANSFER_NUMBERS && column == NUMBERS_COLUMN_HIGHEST) ||
           (table == TRANSFER_NAMESPACE && column == NAMESPACE_COLUMN_HEAD);
}

hf_status digest_add(struct digest *digest, const struct transfer_value *values, int columns)
{
    uint8_t md5[MD5_BYTES];
    uint64_t hash;
    buf_clear(&digest->row);
    for (int i = 0; i < columns; i++) {
        if (is_left_out(digest->table, i)) {
            continue;
        }
        uint64_t head = values[i].kind == TRANSFER_NUMBER ? (uint64_t)values[i].number
                                                          : (uint64_t)values[i].text.length;
        buf_char(&digest->row, (char)values[i].kind);
        buf_append(&digest->row, &head, sizeof head);
        buf_append_text(&digest->row, values[i].text);
    }
    hash_md5(digest->row.bytes, digest->row.length, md5);
    memcpy(&hash, md5, sizeof hash);
    digest->hash = hash_mix(digest->hash ^ hash) + 1;
    if (digest->rows++ == 0 && values[0].kind == TRANSFER_NUMBER) {
        digest->first = values[0].number;
    }
    return buf_status(&digest->row);
}
