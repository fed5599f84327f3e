/* Unit tests of base/zone and base/zone_rule: names, files, rules, and every zone of the system
 * against the C library. */
#include "base/mem.h"
#include "base/text/buf.h"
#include "base/time/time.h"
#include "base/time/zone.h"
#include "base/time/zone_rule.h"
#include "instant.h"
#include "support/temp.h"
#include "unit.h"
#include "wall.h"

#include <ftw.h>
#include <sys/stat.h>

static int64_t instant(const char *text)
{
    return instant_us(text) / 1000000;
}

/* --- Names --- */

static void names_of_the_tz_database_are_accepted(void **state)
{
    static const char *const names[] = {
        "UTC",
        "Europe/Berlin",
        "America/Argentina/Buenos_Aires",
        "Etc/GMT+12",
        "Etc/GMT-14",
        "EST5EDT",
        "GMT0",
        "America/Port-au-Prince",
        "W-SU",
        "posix/Asia/Tokyo",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_ok(zone_check_name(text_of(names[i])));
    }
}

static void zone_names_that_lead_out_of_the_directory_are_refused(void **state)
{
    static const struct text names[] = {
        TEXT_LITERAL(""),
        TEXT_LITERAL("/etc/passwd"),
        TEXT_LITERAL("../../etc/passwd"),
        TEXT_LITERAL(".."),
        TEXT_LITERAL("."),
        TEXT_LITERAL("Europe/../Europe/Berlin"),
        TEXT_LITERAL("Europe/./Berlin"),
        TEXT_LITERAL("Europe//Berlin"),
        TEXT_LITERAL("Europe/Berlin/"),
        TEXT_LITERAL("/"),
        TEXT_LITERAL("-x"),
        TEXT_LITERAL("+01"),
        TEXT_LITERAL(":Europe/Berlin"),
        TEXT_LITERAL("Europe/Berlin "),
        TEXT_LITERAL("Europe/Ber\nlin"),
        TEXT_LITERAL("Europe/Berlin\0"),
        TEXT_LITERAL("Europe\\Berlin"),
        TEXT_LITERAL("zone1970.tab"),
        TEXT_LITERAL("CET-1CEST,M3.5.0,M10.5.0/3"),
        TEXT_LITERAL("a23456789012345678901234567890123456789012345678901234567890123456"),
        {NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct zone *zone = NULL;

        assert_int_equal(zone_check_name(names[i]), HF_INVALID);
        assert_message("the name of the time zone");
        assert_int_equal(zone_new(names[i], NULL, &zone), HF_INVALID);
        assert_null(zone);
    }
}

/* --- Files --- */

static void write_file(const char *directory, const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(temp_file(directory, name), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void a_name_that_is_no_zone_is_refused(void **state)
{
    static const char large[ZONE_FILE_BYTES_MAX] = "TZif2";
    char directory[TEMP_PATH_BYTES];
    struct zone *zone = NULL;

    (void)state;
    temp_open(directory);
    write_file(directory, "Text", "hello", 5);
    write_file(directory, "Empty", "", 0);
    write_file(directory, "Large", large, sizeof large);
    assert_int_equal(mkdir(temp_file(directory, "Europe"), 0700), 0);
    assert_int_equal(mkfifo(temp_file(directory, "Pipe"), 0600), 0);
    assert_int_equal(zone_new(text_of("Text"), directory, &zone), HF_CORRUPT);
    assert_message("the file of time zone Text cannot be used: it is no TZif file");
    assert_int_equal(zone_new(text_of("Empty"), directory, &zone), HF_CORRUPT);
    assert_int_equal(zone_new(text_of("Large"), directory, &zone), HF_CORRUPT);
    assert_message("65536 bytes or more");
    assert_int_equal(zone_new(text_of("Europe"), directory, &zone), HF_NOTFOUND);
    assert_message("is a part of names");
    assert_int_equal(zone_new(text_of("Pipe"), directory, &zone), HF_NOTFOUND);
    assert_int_equal(zone_new(text_of("Text/Berlin"), directory, &zone), HF_NOTFOUND);
    assert_int_equal(zone_new(text_of("europe/berlin"), directory, &zone), HF_NOTFOUND);
    assert_message("there is no time zone europe/berlin in ");
    assert_null(zone);
    temp_close(directory);
    assert_int_equal(zone_new(text_of("Europe/Berlin"), directory, &zone), HF_NOTFOUND);
    assert_message("install the package tzdata");
    /* UTC needs no file. */
    assert_ok(zone_new(text_of("UTC"), directory, &zone));
    assert_int_equal(zone_span(zone, 0).offset_s, 0);
    assert_string_equal(zone_span(zone, 0).abbreviation, "UTC");
    assert_string_equal(zone_name(zone), "UTC");
    zone_free(zone);
    zone_free(NULL);
}

/* A file made by hand: two kinds, some changes. */
struct made {
    char version;
    uint32_t leaps;
    uint32_t letters; /* counted in the header: "LMT\0MET\0" has 8 */
    uint32_t kinds;   /* counted in the header: 2 are written */
    int32_t offset_s; /* of the second kind */
    uint8_t kind_of_last;
    bool disordered;
    const char *footer; /* NULL: none */
};

#define MADE_DEFAULT ((struct made){'2', 0, 8, 2, 3600, 1, false, "\nMET-1\n"})

static void put(struct buf *buf, uint64_t number, int bytes)
{
    while (bytes-- > 0) {
        buf_char(buf, (char)(number >> (bytes * 8)));
    }
}

static void put_block(struct buf *buf, const struct made *made, int instant_bytes)
{
    static const int64_t changes[] = {-1000, 0, 1000};

    buf_append(buf, "TZif", 4);
    buf_char(buf, made->version);
    for (int i = 0; i < 15; i++) {
        buf_char(buf, 0);
    }
    put(buf, 0, 4);
    put(buf, 0, 4);
    put(buf, made->leaps, 4);
    put(buf, 3, 4);
    put(buf, made->kinds, 4);
    put(buf, made->letters, 4);
    for (int i = 0; i < 3; i++) {
        put(buf, (uint64_t)changes[made->disordered ? 2 - i : i], instant_bytes);
    }
    buf_append(buf, "\1\0", 2);
    buf_char(buf, (char)made->kind_of_last);
    put(buf, (uint64_t)100, 4);
    buf_append(buf, "\0\0", 2);
    put(buf, (uint32_t)made->offset_s, 4);
    buf_append(buf, "\1\4", 2);
    buf_append(buf, "LMT\0MET", 8);
}

static hf_status decode_made(struct made made, struct zone **ret_zone)
{
    struct buf buf;

    buf_init(&buf, 4096);
    put_block(&buf, &made, 4);
    if (made.version) {
        put_block(&buf, &made, 8);
    }
    if (made.footer) {
        buf_append(&buf, made.footer, strlen(made.footer));
    }
    assert_ok(buf_status(&buf));

    hf_status status = zone_decode(text_of("Made/Up"), buf.bytes, buf.length, ret_zone);

    buf_release(&buf);
    return status;
}

static void assert_made_is_refused(struct made made, const char *reason)
{
    struct zone *zone = NULL;

    assert_int_equal(decode_made(made, &zone), HF_CORRUPT);
    assert_message(reason);
    assert_message("time zone Made/Up");
    assert_null(zone);
}

static void versions_with_and_without_a_rule_are_read(void **state)
{
    struct made made = MADE_DEFAULT;
    struct zone *zone;

    (void)state;
    assert_ok(decode_made(made, &zone));
    assert_string_equal(zone_name(zone), "Made/Up");
    assert_int_equal(zone_span(zone, -1001).offset_s, 100);
    assert_int_equal(zone_span(zone, -1001).begin_s, INT64_MIN);
    assert_int_equal(zone_span(zone, -1001).end_s, -1000);
    assert_false(zone_span(zone, -1001).dst);
    assert_string_equal(zone_span(zone, -1001).abbreviation, "LMT");
    assert_int_equal(zone_span(zone, -1000).offset_s, 3600);
    assert_true(zone_span(zone, -1000).dst);
    assert_int_equal(zone_span(zone, 999).offset_s, 100);
    assert_int_equal(zone_span(zone, 1000).begin_s, 1000);
    assert_int_equal(zone_span(zone, 1000).end_s, INT64_MAX);
    zone_free(zone);

    /* Version 1, and an empty rule: the last kind stays. */
    made.version = '\0';
    made.footer = NULL;
    assert_ok(decode_made(made, &zone));
    assert_int_equal(zone_span(zone, INT64_C(9000000000)).offset_s, 3600);
    zone_free(zone);
    made.version = '4';
    made.footer = "\n\n";
    assert_ok(decode_made(made, &zone));
    assert_int_equal(zone_span(zone, INT64_C(9000000000)).offset_s, 3600);
    assert_int_equal(zone_span(zone, INT64_C(9000000000)).end_s, INT64_MAX);
    zone_free(zone);
}

static void damaged_files_are_refused_with_the_reason(void **state)
{
    struct made made;

    (void)state;
    made = MADE_DEFAULT, made.leaps = 1;
    assert_made_is_refused(made, "leap seconds");
    made = MADE_DEFAULT, made.disordered = true;
    assert_made_is_refused(made, "not in order");
    made = MADE_DEFAULT, made.kind_of_last = 2;
    assert_made_is_refused(made, "does not list");
    made = MADE_DEFAULT, made.offset_s = 26 * 3600;
    assert_made_is_refused(made, "26 hours");
    made = MADE_DEFAULT, made.offset_s = INT32_MIN;
    assert_made_is_refused(made, "26 hours");
    made = MADE_DEFAULT, made.letters = 7;
    assert_made_is_refused(made, "");
    made = MADE_DEFAULT, made.letters = 4;
    assert_made_is_refused(made, "");
    made = MADE_DEFAULT, made.kinds = 0;
    assert_made_is_refused(made, "counts what cannot be");
    made = MADE_DEFAULT, made.kinds = UINT32_MAX;
    assert_made_is_refused(made, "counts what cannot be");
    made = MADE_DEFAULT, made.kinds = 256;
    assert_made_is_refused(made, "cut off");
    made = MADE_DEFAULT, made.footer = NULL;
    assert_made_is_refused(made, "last line is missing");
    made = MADE_DEFAULT, made.footer = "\nMET-1";
    assert_made_is_refused(made, "no end");
    made = MADE_DEFAULT, made.footer = "\nhello\n";
    assert_made_is_refused(made, "rule in its last line cannot be read");
}

static uint8_t *read_berlin(size_t *ret_length)
{
    FILE *file = fopen(ZONE_DIRECTORY "/Europe/Berlin", "r");
    uint8_t *bytes = mem_alloc(ZONE_FILE_BYTES_MAX);

    assert_non_null(file);
    assert_non_null(bytes);
    *ret_length = fread(bytes, 1, ZONE_FILE_BYTES_MAX, file);
    fclose(file);
    return bytes;
}

static void a_file_cut_off_anywhere_is_refused(void **state)
{
    size_t length;
    uint8_t *bytes = read_berlin(&length);
    struct zone *zone;

    (void)state;
    assert_ok(zone_decode(text_of("X"), bytes, length, &zone));
    zone_free(zone);
    for (size_t cut = 0; cut < length; cut++) {
        /* A copy of that length, so that reading past it would be noticed. */
        uint8_t *part = mem_dup(bytes, cut);

        assert_int_equal(zone_decode(text_of("X"), part, cut, &zone), HF_CORRUPT);
        mem_free(part);
    }
    mem_free(bytes);
}

static void a_file_with_a_wrong_byte_is_refused_or_gives_wrong_times(void **state)
{
    size_t length;
    uint8_t *bytes = read_berlin(&length);
    uint64_t seed = 7;

    (void)state;
    for (size_t at = 0; at < length; at++) {
        uint8_t before = bytes[at];
        struct zone *zone;

        bytes[at] = (uint8_t)(before + 1 + chance_below(&seed, 255));
        if (zone_decode(text_of("X"), bytes, length, &zone) == HF_OK) {
            for (int64_t at_s = -3000000000; at_s < 8000000000; at_s += 777777777) {
                struct zone_span span = zone_span(zone, at_s);

                assert_true(span.begin_s <= at_s && at_s < span.end_s);
                assert_true(zone_reached(zone, zone_highest(zone, at_s)) <= at_s);
            }
            zone_free(zone);
        }
        bytes[at] = before;
    }
    mem_free(bytes);
}

#ifdef HF_FAULTS
static void without_memory_there_is_no_zone_and_nothing_leaks(void **state)
{
    int64_t before = mem_live();

    (void)state;
    for (int64_t nth = 1;; nth++) {
        struct zone *zone = NULL;

        mem_fail_at(nth, false);

        hf_status status = zone_new(text_of("Europe/Berlin"), NULL, &zone);

        mem_fail_at(0, false);
        if (!status) {
            assert_true(nth > 3);
            zone_free(zone);
            break;
        }
        assert_int_equal(status, HF_NOMEM);
        assert_null(zone);
        assert_int_equal(mem_live(), before);
    }
    assert_int_equal(mem_live(), before);
}
#endif

/* --- Rules --- */

static void rules_change_the_clocks_when_they_say(void **state)
{
    static const struct {
        const char *rule;
        const char *at;
        int32_t offset_s;
        const char *begin; /* of the span; NULL: since ever */
        const char *end;
    } table[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2040-07-01T00:00:00Z", 7200, "2040-03-25T01:00:00Z",
         "2040-10-28T01:00:00Z"},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2040-12-01T00:00:00Z", 3600, "2040-10-28T01:00:00Z",
         "2041-03-31T01:00:00Z"},
        /* South of the equator, and half an hour. */
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2040-01-01T00:00:00Z", 39600,
         "2039-10-01T15:30:00Z", "2040-03-31T15:00:00Z"},
        /* Two hours; a time before midnight; a time after the next midnight. */
        {"<+00>0<+02>-2,M3.5.0/1,M10.5.0/3", "2040-07-01T00:00:00Z", 7200, "2040-03-25T01:00:00Z",
         "2040-10-28T01:00:00Z"},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2040-07-01T00:00:00Z", -3600, "2040-03-25T01:00:00Z",
         "2040-10-28T01:00:00Z"},
        {"EET-2EEST,M3.4.4/50,M10.4.4/50", "2040-07-01T00:00:00Z", 10800, "2040-03-24T00:00:00Z",
         "2040-10-26T23:00:00Z"},
        /* In winter the clocks are put back from the standard time. */
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2040-01-01T00:00:00Z", 0, "2039-10-30T01:00:00Z",
         "2040-03-25T01:00:00Z"},
        /* Days of the year, with and without the leap day. */
        {"AAA0BBB,J60/0,J300/0", "2040-07-01T00:00:00Z", 3600, "2040-03-01T00:00:00Z",
         "2040-10-26T23:00:00Z"},
        {"AAA0BBB,59/0,299/0", "2040-07-01T00:00:00Z", 3600, "2040-02-29T00:00:00Z",
         "2040-10-25T23:00:00Z"},
        {"AAA0BBB,59/0,299/0", "2041-07-01T00:00:00Z", 3600, "2041-03-01T00:00:00Z",
         "2041-10-26T23:00:00Z"},
        {"<-03>3", "2040-07-01T00:00:00Z", -10800, NULL, NULL},
        {"AAA-24:59:59", "2040-07-01T00:00:00Z", 89999, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct zone_rule rule;

        assert_true(zone_rule_parse(text_of(table[i].rule), &rule));

        struct zone_span span = zone_rule_span(&rule, instant(table[i].at));

        assert_int_equal(span.offset_s, table[i].offset_s);
        assert_int_equal(span.begin_s, table[i].begin ? instant(table[i].begin) : INT64_MIN);
        assert_int_equal(span.end_s, table[i].end ? instant(table[i].end) : INT64_MAX);
    }
}

static void daylight_saving_time_may_last_all_year(void **state)
{
    struct zone_rule rule;

    (void)state;
    assert_true(zone_rule_parse(text_of("XXX3EDT4,0/0,J365/23"), &rule));
    for (int64_t at_s = instant("2040-01-01T00:00:00Z"); at_s < instant("2043-01-01T00:00:00Z");
         at_s += 3600) {
        assert_int_equal(zone_rule_span(&rule, at_s).offset_s, -4 * 3600);
        assert_true(zone_rule_span(&rule, at_s).dst);
    }
}

static void text_that_is_no_rule_of_a_zone_is_refused(void **state)
{
    static const char *const rules[] = {
        "",
        "CET",
        "CE-1",
        "-1",
        "CET-1CEST",
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,",
        "CET-1CEST,M3.5.0,M10.5.0/3x",
        "CET-1CEST,M3.5.0,M10.5.0/3,M1.1.1",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,J0,J365",
        "CET-1CEST,J1,J366",
        "CET-1CEST,0,366",
        "CET-1CEST,M3.5.0/168,M10.5.0",
        "CET-1CEST,M3.5.0/1:60,M10.5.0",
        "CET-25",
        "CET-1:00:60",
        "<+01-1",
        "<+1>-1",
        "<+01>",
        "A234567890123456-1",
        "ABCDEFGHIJKLMNOP-1",
        "CET-1\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct zone_rule rule;

        if (zone_rule_parse(text_of(rules[i]), &rule)) {
            fail_msg("\"%s\" was taken for a rule", rules[i]);
        }
    }
}

/* --- Wall times --- */

static void assert_located(const struct zone *zone, const char *wall, enum zone_fit fit,
                           const char *first, const char *last)
{
    int64_t first_s = 0, last_s = 0;

    assert_int_equal(zone_locate(zone, instant(wall), &first_s, &last_s), fit);
    assert_int_equal(first_s, instant(first));
    assert_int_equal(last_s, instant(last));
    assert_int_equal(zone_reached(zone, instant(wall)), instant(first));
}

static void wall_times_come_once_twice_or_never(void **state)
{
    struct zone *berlin = zone_of("Europe/Berlin"), *apia = zone_of("Pacific/Apia");

    (void)state;
    assert_located(berlin, "2026-07-01T12:00:00Z", ZONE_ONCE, "2026-07-01T10:00:00Z",
                   "2026-07-01T10:00:00Z");
    assert_located(berlin, "2026-03-29T01:59:59Z", ZONE_ONCE, "2026-03-29T00:59:59Z",
                   "2026-03-29T00:59:59Z");
    assert_located(berlin, "2026-03-29T02:00:00Z", ZONE_NEVER, "2026-03-29T01:00:00Z",
                   "2026-03-29T01:00:00Z");
    assert_located(berlin, "2026-03-29T02:59:59Z", ZONE_NEVER, "2026-03-29T01:00:00Z",
                   "2026-03-29T01:00:00Z");
    assert_located(berlin, "2026-03-29T03:00:00Z", ZONE_ONCE, "2026-03-29T01:00:00Z",
                   "2026-03-29T01:00:00Z");
    assert_located(berlin, "2026-10-25T02:00:00Z", ZONE_TWICE, "2026-10-25T00:00:00Z",
                   "2026-10-25T01:00:00Z");
    assert_located(berlin, "2026-10-25T03:00:00Z", ZONE_ONCE, "2026-10-25T02:00:00Z",
                   "2026-10-25T02:00:00Z");
    /* Beyond the table of the file. */
    assert_located(berlin, "2100-10-31T02:30:00Z", ZONE_TWICE, "2100-10-31T00:30:00Z",
                   "2100-10-31T01:30:00Z");
    /* The island went over the date line: there was no 30 December. */
    assert_located(apia, "2011-12-30T12:00:00Z", ZONE_NEVER, "2011-12-30T10:00:00Z",
                   "2011-12-30T10:00:00Z");
    /* While 02:00 to 03:00 comes again, 02:59:59 has been shown already. */
    assert_int_equal(zone_highest(berlin, instant("2026-10-25T01:10:00Z")),
                     instant("2026-10-25T02:59:59Z"));
    assert_int_equal(zone_highest(berlin, instant("2026-10-25T02:00:00Z")),
                     instant("2026-10-25T03:00:00Z"));
    zone_free(berlin);
    zone_free(apia);
}

/* --- The system's zones --- */

static int zones_seen;

static void compare_at(const struct zone *zone, int64_t at_s)
{
    struct zone_span span = zone_span(zone, at_s);
    struct wall wall = wall_at(at_s);

    if (span.offset_s != wall.offset_s || span.dst != wall.dst ||
        strcmp(span.abbreviation, wall.abbreviation) != 0) {
        fail_msg("%s at %" PRId64 ": %d %s, but the C library says %" PRId64 " %s", zone_name(zone),
                 at_s, (int)span.offset_s, span.abbreviation, wall.offset_s, wall.abbreviation);
    }
    assert_true(span.begin_s <= at_s && at_s < span.end_s);
}

/* The spans follow each other without a break; and the C library agrees at their edges. */
static void compare_zone(const char *name)
{
    struct zone *zone = zone_of(name);
    int64_t at_s = instant("1850-01-01T00:00:00Z"), end_s = instant("2110-01-01T00:00:00Z");
    uint64_t seed = (uint64_t)zones_seen;

    wall_set_zone(name);
    while (at_s < end_s) {
        struct zone_span span = zone_span(zone, at_s);

        compare_at(zone, at_s);
        if (span.end_s > end_s) {
            break;
        }
        compare_at(zone, span.end_s - 1);
        assert_int_equal(zone_span(zone, span.end_s).begin_s, span.end_s);
        at_s = span.end_s;
    }
    for (int i = 0; i < 20; i++) {
        compare_at(zone, (int64_t)chance_below(&seed, UINT64_C(12000000000)) - 3000000000);
    }
    zone_free(zone);
    zones_seen++;
}

static int visit(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    const char *name = path + strlen(ZONE_DIRECTORY "/");

    (void)info, (void)place;
    /* Others are lists, and copies with leap seconds or of the same zones. */
    if (kind == FTW_F && zone_check_name(text_of(name)) == HF_OK &&
        strncmp(name, "right/", 6) != 0 && strncmp(name, "posix/", 6) != 0 &&
        strcmp(name, "leapseconds") != 0 && strcmp(name, "localtime") != 0) {
        compare_zone(name);
    }
    return 0;
}

static void every_zone_of_the_system_agrees_with_the_c_library(void **state)
{
    (void)state;
    assert_int_equal(nftw(ZONE_DIRECTORY, visit, 16, 0), 0);
    assert_true(zones_seen > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_tz_database_are_accepted),
        cmocka_unit_test(zone_names_that_lead_out_of_the_directory_are_refused),
        cmocka_unit_test(a_name_that_is_no_zone_is_refused),
        cmocka_unit_test(versions_with_and_without_a_rule_are_read),
        cmocka_unit_test(damaged_files_are_refused_with_the_reason),
        cmocka_unit_test(a_file_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_file_with_a_wrong_byte_is_refused_or_gives_wrong_times),
#ifdef HF_FAULTS
        cmocka_unit_test(without_memory_there_is_no_zone_and_nothing_leaks),
#endif
        cmocka_unit_test(rules_change_the_clocks_when_they_say),
        cmocka_unit_test(daylight_saving_time_may_last_all_year),
        cmocka_unit_test(text_that_is_no_rule_of_a_zone_is_refused),
        cmocka_unit_test(wall_times_come_once_twice_or_never),
        cmocka_unit_test(every_zone_of_the_system_agrees_with_the_c_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
