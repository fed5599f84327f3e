/*
 * table.h - aligned columns on stdout.
 *
 * Rows are collected to learn the widths and printed by chunks, so that a listing of any length
 * needs little memory: the widths of the first chunk are the least widths of the next ones. Cells
 * are made safe for the terminal.
 *
 * Where stdout is no terminal, and with --wide, nothing is cut and every column is there: programs
 * read that. On a terminal a table fits its width. Text is cut, with an ellipsis, numbers never; if
 * too little would be left of a text, columns that can be spared are left out, and a message says
 * which.
 */
#ifndef HF_CLI_TERMINAL_TABLE_H
#define HF_CLI_TERMINAL_TABLE_H

#include "base/text/buf.h"
#include "cli/terminal/out.h"

#include <stdbool.h>
#include <stdint.h>

#define OUT_TABLE_COLUMNS_MAX 13
#define OUT_TABLE_ROWS_MAX 200 /* of one chunk */
#define OUT_TABLE_CELL_BYTES_MAX 65536

/* How many columns of a terminal a text takes. */
size_t out_width(const char *text);
/* How many bytes of the text fit into `width` columns. */
size_t out_fit(const char *text, size_t width);

struct out_column {
    const char *title;
    bool right; /* aligned to the right: numbers */
    size_t
        width_max;  /* on a terminal: longer cells are cut; 0: only those of the last column are */
    unsigned spare; /* 0: always shown; else a narrow terminal does without, the highest first */
};

struct out_table {
    const struct out_column *columns;
    size_t column_count;
    size_t widths[OUT_TABLE_COLUMNS_MAX];
    struct buf cells; /* all cells of the chunk, each with its NUL */
    size_t starts[OUT_TABLE_ROWS_MAX * OUT_TABLE_COLUMNS_MAX];
    unsigned char styles[OUT_TABLE_ROWS_MAX * OUT_TABLE_COLUMNS_MAX]; /* enum out_style */
    size_t cell_count;
    size_t cut_min;  /* what is left of a text that is cut */
    unsigned hidden; /* bits: columns that this terminal has no room for */
    bool titled;     /* the titles have been printed */
};

void out_table_init(struct out_table *table, const struct out_column *columns, size_t count);

/* The next cell; NULL shows "-". After the last column a new row begins by itself. */
void out_table_cell(struct out_table *table, const char *text);
void out_table_number(struct out_table *table, int64_t number);
void out_table_printf(struct out_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A number that should be 0: red if it is more. */
void out_table_trouble(struct out_table *table, int64_t number);

/* The style of the cell that was added last: OUT_RED for trouble. */
void out_table_mark(struct out_table *table, enum out_style style);

/* Prints what is left and frees the memory. A table without rows prints nothing. */
void out_table_end(struct out_table *table);

/* Whether it had no row; after its end. */
bool out_table_was_empty(const struct out_table *table);

#endif
