/*
 * zone.c - reading TZif files (RFC 9636), and the arithmetic of spans.
 *
 * The file. A header counts what follows: the instants at which the clocks change, for each the
 * kind of time that begins (an offset, a flag, an abbreviation), the kinds, the abbreviations, and
 * two lists of hints for those who write the files. From version 2 on all this comes twice, first
 * with 32-bit instants for old readers, which are skipped, then with 64-bit ones, and a line with
 * the rule for what comes after the last change (zone_rule.h). Version 1 has only the first half.
 * Every count is limited and every byte is checked before it is believed: a user who can write to
 * the directory must not be able to do more than give us wrong times. Files with leap seconds
 * ("right/Europe/Berlin") count instants in another way and are refused.
 *
 * Spans. Up to the last change listed, the span of an instant lies between two neighbours of the
 * list; before the first change the first kind applies. After the last change the rule speaks; its
 * first span is cut to begin at the last change. Without a rule the last kind stays for ever.
 *
 * Wall times. No clock is more than ZONE_OFFSET_S_MAX away from UTC. So all spans in which a wall
 * time may be shown or passed are found by walking from that long before it to that long after it,
 * as if it were an instant: a handful of spans in any real zone, and never more than the file lists
 * or the rule makes in four days.
 */
#include "base/time/zone.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/zone_rule.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define ZONE_CHANGES_MAX 4096 /* 236 in the longest file of 2025 */
#define ZONE_KINDS_MAX 256    /* they are numbered by a byte */
#define ZONE_LETTERS_MAX 512  /* of all abbreviations, with their NULs */

/* Seconds of the years -9999 and 19999, in round numbers. */
#define ZONE_S_MIN INT64_C(-377700000000)
#define ZONE_S_MAX INT64_C(568900000000)

struct zone_change {
    int64_t at_s;
    uint8_t kind; /* that begins */
};

struct zone_kind {
    int32_t offset_s;
    bool dst;
    uint16_t letter; /* where its abbreviation begins */
};

struct zone {
    char name[ZONE_NAME_BYTES_MAX + 1];
    struct zone_change *changes; /* in order of time; NULL if there are none */
    size_t change_count;
    struct zone_kind kinds[ZONE_KINDS_MAX]; /* the first is in force before the first change */
    char letters[ZONE_LETTERS_MAX];
    bool has_rule;
    struct zone_rule rule;
};

/* --- The file --- */

/* The bytes not yet read. */
struct tzif {
    const char *name; /* of the zone, for messages */
    const uint8_t *bytes;
    size_t left;
};

struct tzif_header {
    uint8_t version; /* '\0' for version 1, else a digit */
    uint32_t utc_hints;
    uint32_t standard_hints;
    uint32_t leaps;
    uint32_t changes;
    uint32_t kinds;
    uint32_t letters;
};

#define TZIF_HEADER_BYTES 44
#define TZIF_RESERVED_BYTES 15
#define TZIF_KIND_BYTES 6

static hf_status damaged(const struct tzif *tzif, const char *why)
{
    return fail(HF_CORRUPT, "the file of time zone %s cannot be used: %s", tzif->name, why);
}

/* `count` bytes, which the caller knows to be there. */
static const uint8_t *take(struct tzif *tzif, size_t count)
{
    const uint8_t *bytes = tzif->bytes;

    assert(count <= tzif->left);
    tzif->bytes += count;
    tzif->left -= count;
    return bytes;
}

static uint32_t take_u32(struct tzif *tzif)
{
    const uint8_t *b = take(tzif, 4);

    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int64_t take_instant(struct tzif *tzif, size_t bytes)
{
    uint64_t high = take_u32(tzif);

    if (bytes == 4) {
        return (int32_t)high;
    }
    return (int64_t)(high << 32 | take_u32(tzif));
}

static hf_status read_header(struct tzif *tzif, struct tzif_header *ret_header)
{
    struct tzif_header header;

    if (tzif->left < TZIF_HEADER_BYTES || memcmp(tzif->bytes, "TZif", 4) != 0) {
        return damaged(tzif, "it is no TZif file");
    }
    take(tzif, 4);
    header.version = *take(tzif, 1);
    take(tzif, TZIF_RESERVED_BYTES);
    header.utc_hints = take_u32(tzif);
    header.standard_hints = take_u32(tzif);
    header.leaps = take_u32(tzif);
    header.changes = take_u32(tzif);
    header.kinds = take_u32(tzif);
    header.letters = take_u32(tzif);
    if (header.leaps > 0) {
        return damaged(tzif, "it counts leap seconds; choose the zone without \"right/\"");
    }
    if (header.changes > ZONE_CHANGES_MAX || header.kinds < 1 || header.kinds > ZONE_KINDS_MAX ||
        header.letters < 1 || header.letters > ZONE_LETTERS_MAX ||
        header.utc_hints > header.kinds || header.standard_hints > header.kinds) {
        return damaged(tzif, "its header counts what cannot be");
    }
    *ret_header = header;
    return HF_OK;
}

/* How long the data after a header is, with instants of so many bytes. */
static size_t data_bytes(const struct tzif_header *header, size_t instant_bytes)
{
    return header->changes * (instant_bytes + 1) + header->kinds * TZIF_KIND_BYTES +
           header->letters + header->utc_hints + header->standard_hints;
}

static hf_status read_changes(struct tzif *tzif, const struct tzif_header *header,
                              size_t instant_bytes, struct zone *zone)
{
    if (header->changes == 0) {
        return HF_OK;
    }
    zone->changes = mem_calloc(header->changes, sizeof *zone->changes);
    if (!zone->changes) {
        return fail(HF_NOMEM, "no memory for time zone %s", tzif->name);
    }
    zone->change_count = header->changes;
    for (size_t i = 0; i < header->changes; i++) {
        zone->changes[i].at_s = take_instant(tzif, instant_bytes);
        if (i > 0 && zone->changes[i].at_s <= zone->changes[i - 1].at_s) {
            return damaged(tzif, "its changes are not in order");
        }
    }
    for (size_t i = 0; i < header->changes; i++) {
        zone->changes[i].kind = *take(tzif, 1);
        if (zone->changes[i].kind >= header->kinds) {
            return damaged(tzif, "a change begins a kind of time that it does not list");
        }
    }
    return HF_OK;
}

static hf_status read_kinds(struct tzif *tzif, const struct tzif_header *header, struct zone *zone)
{
    for (size_t i = 0; i < header->kinds; i++) {
        struct zone_kind *kind = &zone->kinds[i];

        kind->offset_s = (int32_t)take_u32(tzif);

        const uint8_t *rest = take(tzif, 2);

        kind->dst = rest[0] == 1;
        kind->letter = rest[1];
        if (kind->offset_s >= ZONE_OFFSET_S_MAX || kind->offset_s <= -ZONE_OFFSET_S_MAX) {
            return damaged(tzif, "an offset is 26 hours or more");
        }
        if (rest[0] > 1 || kind->letter >= header->letters) {
            return damaged(tzif, "a kind of time is described wrongly");
        }
    }
    memcpy(zone->letters, take(tzif, header->letters), header->letters);
    if (zone->letters[header->letters - 1] != '\0') {
        return damaged(tzif, "its last abbreviation has no end");
    }
    take(tzif, header->standard_hints);
    take(tzif, header->utc_hints);
    return HF_OK;
}

/* The last line of versions 2 and later. An empty one says that nothing is known. */
static hf_status read_rule(struct tzif *tzif, struct zone *zone)
{
    if (tzif->left < 2 || *take(tzif, 1) != '\n') {
        return damaged(tzif, "its last line is missing");
    }

    const uint8_t *end = memchr(tzif->bytes, '\n', tzif->left);

    if (!end) {
        return damaged(tzif, "its last line has no end");
    }

    struct text line = {(const char *)tzif->bytes, (size_t)(end - tzif->bytes)};

    if (line.length == 0) {
        return HF_OK;
    }
    if (!zone_rule_parse(line, &zone->rule)) {
        return damaged(tzif, "the rule in its last line cannot be read");
    }
    zone->has_rule = true;
    return HF_OK;
}

static hf_status read_zone(struct tzif *tzif, struct zone *zone)
{
    struct tzif_header header;
    size_t instant_bytes = 4;
    hf_status status = read_header(tzif, &header);

    if (!status && header.version != '\0') {
        if (tzif->left < data_bytes(&header, instant_bytes)) {
            return damaged(tzif, "it is cut off");
        }
        take(tzif, data_bytes(&header, instant_bytes));
        instant_bytes = 8;
        status = read_header(tzif, &header);
    }
    if (status) {
        return status;
    }
    if (tzif->left < data_bytes(&header, instant_bytes)) {
        return damaged(tzif, "it is cut off");
    }
    status = read_changes(tzif, &header, instant_bytes, zone);
    if (!status) {
        status = read_kinds(tzif, &header, zone);
    }
    if (!status && header.version != '\0') {
        status = read_rule(tzif, zone);
    }
    return status;
}

static hf_status make_zone(struct text name, struct zone **ret_zone)
{
    struct zone *zone = mem_calloc(1, sizeof *zone);

    assert(name.length <= ZONE_NAME_BYTES_MAX);
    if (!zone) {
        return fail(HF_NOMEM, "no memory for time zone %" TEXT_PRI, TEXT_ARG(name));
    }
    memcpy(zone->name, name.bytes, name.length);
    *ret_zone = zone;
    return HF_OK;
}

hf_status zone_decode(struct text name, const void *bytes, size_t length, struct zone **ret_zone)
{
    struct zone *zone;
    hf_status status = make_zone(name, &zone);

    if (status) {
        return status;
    }

    struct tzif tzif = {zone->name, bytes, length};

    status = read_zone(&tzif, zone);
    if (status) {
        zone_free(zone);
        return status;
    }
    *ret_zone = zone;
    return HF_OK;
}

void zone_free(struct zone *zone)
{
    if (!zone) {
        return;
    }
    mem_free(zone->changes);
    mem_free(zone);
}

const char *zone_name(const struct zone *zone)
{
    return zone->name;
}

/* --- The directory --- */

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A part of a name begins with a letter; '/' stands only between two parts. */
static bool may_follow(char before, char c)
{
    bool inner = (c >= '0' && c <= '9') || c == '_' || c == '+' || c == '-' || c == '/';
    return is_letter(c) || (inner && before != '/');
}

hf_status zone_check_name(struct text name)
{
    char before = '/';

    if (name.length == 0) {
        return fail(HF_INVALID, "the name of the time zone is empty");
    }
    if (name.length > ZONE_NAME_BYTES_MAX) {
        return fail(HF_INVALID, "the name of the time zone is %zu bytes; the limit is %d",
                    name.length, ZONE_NAME_BYTES_MAX);
    }
    for (size_t i = 0; i < name.length; i++) {
        char c = name.bytes[i];
        if (!may_follow(before, c)) {
            return fail(HF_INVALID,
                        "the name of the time zone is wrong at byte %zu; names are like "
                        "Europe/Berlin, America/Argentina/Ushuaia or UTC",
                        i);
        }
        before = c;
    }
    if (before == '/') {
        return fail(HF_INVALID, "the name of the time zone ends with a slash");
    }
    return HF_OK;
}

static hf_status cannot_open(struct text name, const char *directory)
{
    int error = errno;

    if (error == ENOENT || error == ENOTDIR) {
        if (access(directory, F_OK) != 0) {
            return fail(HF_NOTFOUND,
                        "time zone %" TEXT_PRI " is unknown because there is no %s; install the "
                        "package tzdata",
                        TEXT_ARG(name), directory);
        }
        return fail(HF_NOTFOUND,
                    "there is no time zone %" TEXT_PRI " in %s; names are like Europe/Berlin, "
                    "capital letters included",
                    TEXT_ARG(name), directory);
    }
    return fail(error == EACCES ? HF_DENIED : HF_IO, "time zone %" TEXT_PRI ": %s", TEXT_ARG(name),
                strerror(error));
}

/* Reads a whole file of at most `bytes_max` bytes. */
static hf_status read_all(int fd, struct text name, uint8_t *bytes, size_t bytes_max,
                          size_t *ret_length)
{
    struct stat info;
    size_t length = 0;

    if (fstat(fd, &info) != 0) {
        return fail(HF_IO, "time zone %" TEXT_PRI ": %s", TEXT_ARG(name), strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(HF_NOTFOUND, "%" TEXT_PRI " is not a time zone; it is a part of names of some",
                    TEXT_ARG(name));
    }
    for (;;) {
        ssize_t got = read(fd, bytes + length, bytes_max - length);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail(HF_IO, "time zone %" TEXT_PRI ": %s", TEXT_ARG(name), strerror(errno));
        }
        length += (size_t)got;
        if (got == 0) {
            break;
        }
        if (length == bytes_max) {
            return fail(HF_CORRUPT, "the file of time zone %" TEXT_PRI " has %zu bytes or more",
                        TEXT_ARG(name), bytes_max);
        }
    }
    *ret_length = length;
    return HF_OK;
}

static hf_status read_file(struct text name, const char *directory, struct zone **ret_zone)
{
    char path[4096];
    int written = snprintf(path, sizeof path, "%s/%" TEXT_PRI, directory, TEXT_ARG(name));

    if (written < 0 || (size_t)written >= sizeof path) {
        return fail(HF_INVALID, "the name of the directory of time zones is too long");
    }

    /* A pipe of that name must not make us wait. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        return cannot_open(name, directory);
    }

    uint8_t *bytes = mem_alloc(ZONE_FILE_BYTES_MAX);
    size_t length = 0;
    hf_status status = bytes ? read_all(fd, name, bytes, ZONE_FILE_BYTES_MAX, &length)
                             : fail(HF_NOMEM, "no memory for time zone %" TEXT_PRI, TEXT_ARG(name));

    if (!status) {
        status = zone_decode(name, bytes, length, ret_zone);
    }
    mem_free(bytes);
    close(fd);
    return status;
}

hf_status zone_new(struct text name, const char *directory, struct zone **ret_zone)
{
    static const struct text utc = TEXT_LITERAL("UTC");
    hf_status status = zone_check_name(name);

    if (status) {
        return status;
    }
    if (!text_equal(name, utc)) {
        return read_file(name, directory ? directory : ZONE_DIRECTORY, ret_zone);
    }
    status = make_zone(name, ret_zone);
    if (!status) {
        (*ret_zone)->has_rule =
            zone_rule_parse((struct text)TEXT_LITERAL("UTC0"), &(*ret_zone)->rule);
    }
    return status;
}

/* --- Spans --- */

/* How many changes lie at or before an instant. */
static size_t changes_until(const struct zone *zone, int64_t at_s)
{
    size_t low = 0, high = zone->change_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (zone->changes[middle].at_s <= at_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct zone_span zone_span(const struct zone *zone, int64_t at_s)
{
    size_t passed = changes_until(zone, at_s);
    int64_t begin_s = passed > 0 ? zone->changes[passed - 1].at_s : INT64_MIN;

    assert(at_s >= ZONE_S_MIN && at_s <= ZONE_S_MAX);
    if (passed == zone->change_count && zone->has_rule) {
        struct zone_span span = zone_rule_span(&zone->rule, at_s);

        if (span.begin_s < begin_s) {
            span.begin_s = begin_s;
        }
        return span;
    }

    const struct zone_kind *kind = &zone->kinds[passed > 0 ? zone->changes[passed - 1].kind : 0];

    return (struct zone_span){
        .begin_s = begin_s,
        .end_s = passed < zone->change_count ? zone->changes[passed].at_s : INT64_MAX,
        .offset_s = kind->offset_s,
        .dst = kind->dst,
        .abbreviation = zone->letters + kind->letter,
    };
}

/* --- Wall times --- */

int64_t zone_reached(const struct zone *zone, int64_t wall_s)
{
    /* Before this the clocks show less; and by ZONE_OFFSET_S_MAX after wall_s, more. */
    int64_t from_s = wall_s - ZONE_OFFSET_S_MAX;

    for (;;) {
        struct zone_span span = zone_span(zone, from_s);
        int64_t at_s = wall_s - span.offset_s;

        if (at_s < from_s) {
            return from_s;
        }
        if (at_s < span.end_s) {
            return at_s;
        }
        from_s = span.end_s;
    }
}

int64_t zone_highest(const struct zone *zone, int64_t at_s)
{
    int64_t highest_s = INT64_MIN;
    int64_t until_s = at_s;

    /* What was shown before this is less than what is shown now. */
    while (until_s >= at_s - 2 * ZONE_OFFSET_S_MAX) {
        struct zone_span span = zone_span(zone, until_s);

        if (until_s + span.offset_s > highest_s) {
            highest_s = until_s + span.offset_s;
        }
        if (span.begin_s == INT64_MIN) {
            break;
        }
        until_s = span.begin_s - 1;
    }
    return highest_s;
}

enum zone_fit zone_locate(const struct zone *zone, int64_t wall_s, int64_t *ret_first_s,
                          int64_t *ret_last_s)
{
    enum zone_fit fit = ZONE_NEVER;
    int64_t from_s = wall_s - ZONE_OFFSET_S_MAX;

    while (from_s <= wall_s + ZONE_OFFSET_S_MAX) {
        struct zone_span span = zone_span(zone, from_s);
        int64_t at_s = wall_s - span.offset_s;

        if (at_s >= from_s && at_s < span.end_s) {
            if (fit == ZONE_NEVER) {
                *ret_first_s = at_s;
            }
            *ret_last_s = at_s;
            fit = fit == ZONE_NEVER ? ZONE_ONCE : ZONE_TWICE;
        }
        if (span.end_s == INT64_MAX) {
            break;
        }
        from_s = span.end_s;
    }
    if (fit == ZONE_NEVER) {
        *ret_first_s = *ret_last_s = zone_reached(zone, wall_s);
    }
    return fit;
}
