/*
 * table.c - lays out and prints tables.
 *
 * A cell's width is what a terminal needs for it: characters by wcwidth, not bytes. Memory is one
 * buffer of cells; if it fails, the table complains and prints nothing rather than something wrong.
 */
#include "cli/terminal/table.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/utf8.h"
#include "cli/terminal/out.h"

#include <assert.h>
#include <stdarg.h>
#include <wchar.h>

#define GAP "  "
#define HIDDEN_END " (--wide)."
#define CUT_MIN 12  /* what is left of a text that is cut: so much, or its title */
#define CUT_TIGHT 8 /* the same when all columns that can be spared are left out */

size_t out_width(const char *text)
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

size_t out_fit(const char *text, size_t width)
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
        table->widths[i] = out_width(columns[i].title);
    }
    buf_init(&table->cells,
             (size_t)OUT_TABLE_ROWS_MAX * OUT_TABLE_COLUMNS_MAX * OUT_TABLE_CELL_BYTES_MAX);
    table->cell_count = 0;
    table->hidden = 0;
    table->cut_min = CUT_MIN;
    table->titled = false;
}

static bool is_hidden(const struct out_table *table, size_t column)
{
    return table->hidden >> column & 1U;
}

/* The last column that is shown. */
static size_t last_column(const struct out_table *table)
{
    size_t last = table->column_count - 1;

    while (last > 0 && is_hidden(table, last)) {
        last--;
    }
    return last;
}

/* The least width that a column is cut to; what cannot be cut keeps its own. */
static size_t floor_of(const struct out_table *table, size_t column, size_t width)
{
    const struct out_column *about = &table->columns[column];
    size_t title = out_width(about->title);
    size_t least = title > table->cut_min ? title : table->cut_min;

    if (about->right || (about->width_max == 0 && column != last_column(table))) {
        return width;
    }
    return width < least ? width : least;
}

/* How wide the rows are, with the widths or with the least ones. */
static size_t row_width(const struct out_table *table, const size_t *widths, bool least)
{
    size_t sum = 0;

    for (size_t i = 0; i < table->column_count; i++) {
        if (!is_hidden(table, i)) {
            sum += (sum ? strlen(GAP) : 0) + (least ? floor_of(table, i, widths[i]) : widths[i]);
        }
    }
    return sum;
}

/* Leaves out the column that is spared first. False: all that are left are needed. */
static bool hide_one(struct out_table *table)
{
    size_t chosen = 0;

    for (size_t i = 1; i < table->column_count; i++) {
        if (!is_hidden(table, i) && table->columns[i].spare > table->columns[chosen].spare) {
            chosen = i;
        }
    }
    if (table->columns[chosen].spare == 0 || is_hidden(table, chosen)) {
        return false;
    }
    table->hidden |= 1U << chosen;
    return true;
}

/* Takes a column from the widest text that can be cut. False: there is none. */
static bool cut_one(const struct out_table *table, size_t *widths)
{
    size_t widest = table->column_count;

    for (size_t i = 0; i < table->column_count; i++) {
        if (!is_hidden(table, i) && widths[i] > floor_of(table, i, widths[i]) &&
            (widest == table->column_count || widths[i] > widths[widest])) {
            widest = i;
        }
    }
    if (widest == table->column_count) {
        return false;
    }
    widths[widest]--;
    return true;
}

/* The widths that the rows are printed with. Columns are left out once, before the titles. */
static void fit(struct out_table *table, size_t *widths)
{
    size_t columns = (size_t)out_columns();

    for (size_t i = 0; i < table->column_count; i++) {
        size_t most = table->columns[i].width_max;
        widths[i] = table->widths[i];
        if (columns && most && widths[i] > most) {
            widths[i] = most;
        }
    }
    if (columns == 0) {
        return;
    }
    while (!table->titled && row_width(table, widths, true) > columns && hide_one(table)) {
    }
    if (row_width(table, widths, true) > columns) {
        table->cut_min = CUT_TIGHT;
    }
    while (row_width(table, widths, false) > columns && cut_one(table, widths)) {
    }
}

/* Spaces wait until a text follows them, so that no line ends with one. */
static void print_row(const struct out_table *table, const size_t *widths, const char *const *texts,
                      const unsigned char *styles)
{
    size_t spaces = 0;

    for (size_t i = 0; i < table->column_count; i++) {
        size_t needed = is_hidden(table, i) ? 0 : out_width(texts[i]);
        bool cut = needed > widths[i];
        size_t pad = needed < widths[i] ? widths[i] - needed : 0;

        if (is_hidden(table, i)) {
            continue;
        }
        spaces += table->columns[i].right ? pad : 0;
        if (needed > 0) {
            size_t bytes = cut ? out_fit(texts[i], widths[i] - 1) : strlen(texts[i]);
            printf("%*s%s%.*s%s%s", (int)spaces, "", out_on(styles[i]), (int)bytes, texts[i],
                   cut ? "…" : "", styles[i] == OUT_PLAIN ? "" : out_off());
            spaces = 0;
        }
        spaces += (table->columns[i].right ? 0 : pad) + strlen(GAP);
    }
    putchar('\n');
}

static void print_titles(const struct out_table *table, const size_t *widths)
{
    const char *texts[OUT_TABLE_COLUMNS_MAX];
    unsigned char styles[OUT_TABLE_COLUMNS_MAX];

    for (size_t i = 0; i < table->column_count; i++) {
        texts[i] = table->columns[i].title;
        styles[i] = OUT_BOLD;
    }
    print_row(table, widths, texts, styles);
}

static void print_chunk(struct out_table *table)
{
    size_t widths[OUT_TABLE_COLUMNS_MAX];
    size_t count = table->column_count;

    if (buf_status(&table->cells) != HF_OK) {
        out_lose(err_message());
    } else {
        fit(table, widths);
        if (!table->titled) {
            print_titles(table, widths);
            table->titled = true;
        }
        for (size_t at = 0; at + count <= table->cell_count; at += count) {
            const char *texts[OUT_TABLE_COLUMNS_MAX];
            for (size_t i = 0; i < count; i++) {
                texts[i] = table->cells.bytes + table->starts[at + i];
            }
            print_row(table, widths, texts, table->styles + at);
        }
    }
    buf_clear(&table->cells);
    table->cell_count = 0;
}

void out_table_cell(struct out_table *table, const char *text)
{
    size_t column = table->cell_count % table->column_count;
    size_t start = table->cells.length;
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
    table->styles[table->cell_count] = OUT_PLAIN;
    table->starts[table->cell_count++] = start;
    if (table->cells.failed) {
        return;
    }
    width = out_width(table->cells.bytes + start);
    if (width > table->widths[column]) {
        table->widths[column] = width;
    }
}

void out_table_number(struct out_table *table, int64_t number)
{
    char words[OUT_WORDS_BYTES];
    out_table_cell(table, out_number(number, words));
}

void out_table_trouble(struct out_table *table, int64_t number)
{
    out_table_number(table, number);
    if (number > 0) {
        out_table_mark(table, OUT_RED);
    }
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

void out_table_mark(struct out_table *table, enum out_style style)
{
    assert(table->cell_count > 0);
    table->styles[table->cell_count - 1] = (unsigned char)style;
}

/* Says which columns this terminal has no room for, in lines that fit. */
static void say_hidden(const struct out_table *table)
{
    size_t columns = (size_t)out_columns();
    char line[256] = "Not shown:";

    for (size_t i = 0; i < table->column_count; i++) {
        const char *title = table->columns[i].title;
        size_t length = strlen(line);

        if (!is_hidden(table, i)) {
            continue;
        }
        if (length + strlen(" ") + strlen(title) + strlen(HIDDEN_END) > columns) {
            out_say("%s", line);
            length = 0;
        }
        snprintf(line + length, sizeof line - length, "%s%s,", length ? " " : "", title);
    }
    line[strlen(line) - 1] = '\0'; /* the last comma */
    out_say("%s%s", line, HIDDEN_END);
}

void out_table_end(struct out_table *table)
{
    if (table->cell_count > 0) {
        print_chunk(table);
    }
    if (table->hidden) {
        say_hidden(table);
    }
    buf_release(&table->cells);
}

bool out_table_was_empty(const struct out_table *table)
{
    return !table->titled;
}
