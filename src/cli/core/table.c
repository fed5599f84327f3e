/*
 * table.c - lays out and prints tables.
 *
 * A cell's width is what a terminal needs for it: characters by wcwidth, not bytes. Memory is one
 * buffer of cells; if it fails, the table complains and prints nothing rather than something wrong.
 */
#include "cli/core/table.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/utf8.h"
#include "cli/core/out.h"

#include <assert.h>
#include <stdarg.h>
#include <wchar.h>

#define GAP "  "

static size_t text_width(const char *text)
{
    size_t length = strlen(text);
    size_t width = 0;

    while (length > 0) {
        uint32_t code;
        size_t bytes = utf8_decode(text, length, &code);
        int columns = bytes ? wcwidth((wchar_t)code) : 1;
        bytes = bytes ? bytes : 1;
        width += columns < 0 ? 1 : (size_t)columns;
        text += bytes;
        length -= bytes;
    }
    return width;
}

/* How many bytes of the text fit into `width` columns. */
static size_t text_fit(const char *text, size_t width)
{
    size_t length = strlen(text);
    size_t used = 0;
    size_t at = 0;

    while (at < length) {
        uint32_t code;
        size_t bytes = utf8_decode(text + at, length - at, &code);
        int columns = bytes ? wcwidth((wchar_t)code) : 1;
        bytes = bytes ? bytes : 1;
        if (used + (columns < 0 ? 1 : (size_t)columns) > width) {
            break;
        }
        used += columns < 0 ? 1 : (size_t)columns;
        at += bytes;
    }
    return at;
}

void out_table_init(struct out_table *table, const struct out_column *columns, size_t count)
{
    assert(count <= OUT_TABLE_COLUMNS_MAX);
    table->columns = columns;
    table->column_count = count;
    for (size_t i = 0; i < count; i++) {
        table->widths[i] = text_width(columns[i].title);
    }
    buf_init(&table->cells,
             (size_t)OUT_TABLE_ROWS_MAX * OUT_TABLE_COLUMNS_MAX * OUT_TABLE_CELL_BYTES_MAX);
    table->cell_count = 0;
    table->titled = false;
}

/* `more` is false when only empty cells follow: then no space is left at the end of the line. */
static void print_cell(const struct out_table *table, size_t column, const char *text, size_t width,
                       bool more)
{
    size_t needed = text_width(text);
    size_t pad = needed < width ? width - needed : 0;

    if (table->columns[column].right) {
        printf("%*s", (int)pad, "");
    }
    if (width > 0 && needed > width) {
        printf("%.*s…", (int)text_fit(text, width - 1), text);
    } else {
        fputs(text, stdout);
    }
    if (column + 1 == table->column_count) {
        putchar('\n');
    } else if (more) {
        printf("%*s" GAP, table->columns[column].right ? 0 : (int)pad, "");
    }
}

/* The width of the last column is what the terminal has left; elsewhere it is not limited. */
static size_t last_width(const struct out_table *table)
{
    size_t columns = (size_t)out_columns();
    size_t used = 0;

    if (columns == 0) {
        return 0;
    }
    for (size_t i = 0; i + 1 < table->column_count; i++) {
        used += table->widths[i] + strlen(GAP);
    }
    return used + 10 < columns ? columns - used : 10;
}

static void print_chunk(struct out_table *table)
{
    size_t last = table->column_count - 1;
    size_t cut = last_width(table);

    if (buf_status(&table->cells) != HF_OK) {
        out_lose(err_message());
    } else {
        if (!table->titled) {
            fputs(out_on(OUT_BOLD), stdout);
            for (size_t i = 0; i <= last; i++) {
                print_cell(table, i, table->columns[i].title,
                           i == last && !table->columns[i].right ? 0 : table->widths[i], true);
            }
            fputs(out_off(), stdout);
            table->titled = true;
        }
        for (size_t i = 0; i < table->cell_count; i++) {
            size_t column = i % table->column_count;
            size_t width = table->widths[column];
            const char *text = table->cells.bytes + table->starts[i];
            bool more = column == last || column + 1 < last ||
                        table->cells.bytes[table->starts[i + 1]] != '\0';
            if (column == last && !table->columns[column].right) {
                width = cut;
            }
            print_cell(table, column, text, width, more);
        }
    }
    buf_clear(&table->cells);
    table->cell_count = 0;
}

void out_table_cell(struct out_table *table, const char *text)
{
    size_t column = table->cell_count % table->column_count;
    size_t start = table->cells.length;
    size_t width_max = table->columns[column].width_max;
    struct text cell = text_of(text ? text : "-");
    size_t width;

    if (column == 0 && table->cell_count == OUT_TABLE_ROWS_MAX * table->column_count) {
        print_chunk(table);
        start = 0;
    }
    if (cell.length > OUT_TABLE_CELL_BYTES_MAX / 4) {
        cell.length = OUT_TABLE_CELL_BYTES_MAX / 4;
    }
    utf8_sanitize(cell, &table->cells);
    buf_char(&table->cells, '\0');
    table->starts[table->cell_count++] = start;
    if (table->cells.failed) {
        return;
    }
    width = text_width(table->cells.bytes + start);
    if (width_max && width > width_max) {
        width = width_max;
    }
    if (width > table->widths[column]) {
        table->widths[column] = width;
    }
}

void out_table_number(struct out_table *table, int64_t number)
{
    char words[OUT_WORDS_BYTES];
    out_table_cell(table, out_number(number, words));
}

void out_table_printf(struct out_table *table, const char *format, ...)
{
    char text[1024];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    out_table_cell(table, text);
}

void out_table_end(struct out_table *table)
{
    if (table->cell_count > 0) {
        print_chunk(table);
    }
    buf_release(&table->cells);
}
