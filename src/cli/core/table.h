/*
 * table.h - aligned columns on stdout.
 *
 * Rows are collected to learn the widths and printed by chunks, so that a listing of any length
 * needs little memory: the widths of the first chunk are the least widths of the next ones. Cells
 * are made safe for the terminal. On a terminal the last column is cut to its width.
 */
#ifndef HF_CLI_CORE_TABLE_H
#define HF_CLI_CORE_TABLE_H

#include "base/text/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define OUT_TABLE_COLUMNS_MAX 12
#define OUT_TABLE_ROWS_MAX 200 /* of one chunk */
#define OUT_TABLE_CELL_BYTES_MAX 65536

struct out_column {
    const char *title;
    bool right;       /* aligned to the right: numbers */
    size_t width_max; /* longer cells are cut; 0: no limit */
};

struct out_table {
    const struct out_column *columns;
    size_t column_count;
    size_t widths[OUT_TABLE_COLUMNS_MAX];
    struct buf cells; /* all cells of the chunk, each with its NUL */
    size_t starts[OUT_TABLE_ROWS_MAX * OUT_TABLE_COLUMNS_MAX];
    size_t cell_count;
    bool titled; /* the titles have been printed */
};

void out_table_init(struct out_table *table, const struct out_column *columns, size_t count);

/* The next cell; NULL shows "-". After the last column a new row begins by itself. */
void out_table_cell(struct out_table *table, const char *text);
void out_table_number(struct out_table *table, int64_t number);
void out_table_printf(struct out_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints what is left and frees the memory. A table without rows prints nothing. */
void out_table_end(struct out_table *table);

#endif
