/*
 * yaml.c - from libyaml's events to the tree. See yaml.h.
 *
 * libyaml tells what it reads as events: a mapping begins, a scalar, the mapping ends. A stack of
 * open mappings and lists, as deep as CONFIG_DEPTH_MAX, hangs each new node where it belongs; a
 * mapping takes its first, third, ... scalar as a key. There is no recursion, and every node comes
 * from an arena with a maximum, so no file can use more than a few megabytes or much time.
 *
 * The bytes are checked before libyaml sees them: it would guess UTF-16 from the first two, and it
 * says of bad bytes only that they are bad. Where it complains itself, its words are kept and the
 * place is added; for a tab in the indentation, a common mistake, there is a better sentence.
 */
#include "cli/config/yaml.h"

#include "base/banned.h"
#include "base/text/utf8.h"

#include <yaml.h>

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

/* The patterns * and *.created look like aliases. */
#define STAR_NEEDS_QUOTES "A text that begins with a star needs quotes: '*'"

/* A mapping or list that is open. */
struct frame {
    struct config_node *node;
    struct config_node **tail;  /* where its next member goes */
    struct config_node *member; /* in a mapping: has its key and waits for its value */
};

struct reader {
    yaml_parser_t parser;
    struct text bytes;
    struct arena *arena;
    struct config_problems *problems;
    struct config_node *root;
    struct frame frames[CONFIG_DEPTH_MAX];
    size_t depth;
    size_t node_count;
    size_t document_count;
};

/* ---- Places ---------------------------------------------------------------------------------- */

static struct config_place place_of(const yaml_mark_t *mark)
{
    return (struct config_place){(int)mark->line + 1, (int)mark->column + 1};
}

/* Of a byte of the file; columns count characters, as libyaml does. */
static struct config_place place_at(struct text bytes, size_t offset)
{
    struct config_place place = {1, 1};

    for (size_t i = 0; i < offset && i < bytes.length; i++) {
        if (bytes.bytes[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)bytes.bytes[i] & 0xC0) != 0x80) {
            place.column++;
        }
    }
    return place;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool check_bytes(struct text bytes, struct config_problems *problems)
{
    const char *nul = bytes.length ? memchr(bytes.bytes, '\0', bytes.length) : NULL;
    size_t valid = utf8_valid_bytes(bytes);

    if (bytes.length > CONFIG_BYTES_MAX) {
        config_problem(problems, (struct config_place){1, 1},
                       "the file is larger than %d bytes, which is the limit", CONFIG_BYTES_MAX);
        return false;
    }
    if (nul && (size_t)(nul - bytes.bytes) < valid) {
        config_problem(problems, place_at(bytes, (size_t)(nul - bytes.bytes)),
                       "there is a NUL byte; the file must be text in UTF-8");
        return false;
    }
    if (valid < bytes.length) {
        config_problem(problems, place_at(bytes, valid),
                       "byte 0x%02X is not UTF-8; save the file as UTF-8",
                       (unsigned char)bytes.bytes[valid]);
        return false;
    }
    return true;
}

/* ---- What libyaml says ----------------------------------------------------------------------- */

/* The first tab in front of the text of a line; 0 if there is none. */
static int tab_column(struct text bytes, int line)
{
    const char *at = bytes.bytes;
    const char *end = bytes.bytes + bytes.length;

    for (int i = 1; i < line && at; i++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (at) {
            at++;
        }
    }
    for (const char *start = at; at && at < end && (*at == ' ' || *at == '\t'); at++) {
        if (*at == '\t') {
            return (int)(at - start) + 1;
        }
    }
    return 0;
}

static void complain_yaml(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    struct config_place place = place_of(&parser->problem_mark);
    int tab;

    if (parser->error == YAML_MEMORY_ERROR) {
        config_problem(reader->problems, place, "there is no memory to read the file");
        return;
    }
    if (parser->error == YAML_READER_ERROR) {
        config_problem(reader->problems, place_at(reader->bytes, parser->problem_offset),
                       "this is no valid YAML: %s", parser->problem);
        return;
    }
    tab = strstr(parser->problem, "cannot start any token") ? tab_column(reader->bytes, place.line)
                                                            : 0;
    if (tab > 0) {
        place.column = tab;
        config_problem(reader->problems, place,
                       "there is a tab in the indentation; YAML wants spaces");
        return;
    }
    if (parser->context && strstr(parser->context, "alias")) {
        config_problem(reader->problems, place, STAR_NEEDS_QUOTES);
        return;
    }
    if (parser->context) {
        config_problem(reader->problems, place, "this is no valid YAML: %s, %s from line %d on",
                       parser->problem, parser->context, (int)parser->context_mark.line + 1);
    } else {
        config_problem(reader->problems, place, "this is no valid YAML: %s", parser->problem);
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static bool is_null(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;

    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!text[0] || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
            strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0);
}

static bool has_nul(const yaml_event_t *event)
{
    return strlen((const char *)event->data.scalar.value) != event->data.scalar.length;
}

/* A copy of a scalar's text in the arena; NULL after a complaint. */
static const char *copy_text(struct reader *reader, const yaml_event_t *event)
{
    struct text text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    const char *copy = arena_text(reader->arena, text).bytes;

    if (!copy) {
        config_problem(reader->problems, place_of(&event->start_mark),
                       "there is no memory for the file");
    }
    return copy;
}

static struct config_node *node_new(struct reader *reader, const yaml_event_t *event)
{
    struct config_node *node = NULL;
    struct config_place place = place_of(&event->start_mark);

    if (reader->node_count++ == CONFIG_NODES_MAX) {
        config_problem(reader->problems, place, "there are more than %d values, which is the limit",
                       CONFIG_NODES_MAX);
    } else if (!(node = arena_alloc(reader->arena, sizeof *node))) {
        config_problem(reader->problems, place, "there is no memory for the file");
    }
    if (node) {
        *node = (struct config_node){.kind = CONFIG_SCALAR, .place = place, .text = ""};
    }
    return node;
}

static bool count_member(struct reader *reader, struct frame *frame, struct config_place place)
{
    if (frame->node->count++ < CONFIG_MEMBERS_MAX) {
        return true;
    }
    config_problem(reader->problems, place, "there are more than %d members, which is the limit",
                   CONFIG_MEMBERS_MAX);
    return false;
}

/* A value has begun: makes its node and hangs it where it belongs. NULL after a complaint. */
static struct config_node *node_add(struct reader *reader, const yaml_event_t *event)
{
    struct frame *frame = reader->depth > 0 ? &reader->frames[reader->depth - 1] : NULL;
    struct config_node *node;

    if (frame && frame->member) { /* made with its key */
        node = frame->member;
        node->place = place_of(&event->start_mark);
        frame->member = NULL;
        return node;
    }
    node = node_new(reader, event);
    if (!node) {
        return NULL;
    }
    if (!frame) {
        reader->root = node;
        return node;
    }
    if (!count_member(reader, frame, node->place)) {
        return NULL;
    }
    *frame->tail = node;
    frame->tail = &node->next;
    return node;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* True when the next event is the key of a member of a mapping. */
static bool wants_key(const struct reader *reader)
{
    const struct frame *frame = reader->depth > 0 ? &reader->frames[reader->depth - 1] : NULL;
    return frame && frame->node->kind == CONFIG_MAP && !frame->member;
}

static bool add_key(struct reader *reader, const yaml_event_t *event)
{
    struct frame *frame = &reader->frames[reader->depth - 1];
    struct config_node *node = node_new(reader, event);
    const char *key = node ? copy_text(reader, event) : NULL;

    if (!key || !count_member(reader, frame, node->place)) {
        return false;
    }
    node->key = key;
    node->key_place = node->place;
    if (has_nul(event)) {
        node->broken = true;
        config_problem(reader->problems, node->place, "there is a NUL in the key '%.64s'", key);
    }
    for (const struct config_node *other = frame->node->first; other; other = other->next) {
        if (!node->broken && strcmp(other->key, key) == 0) {
            node->broken = true;
            config_problem(reader->problems, node->place,
                           "the key '%.64s' is here for the second time; the first is in line %d",
                           key, other->key_place.line);
        }
    }
    *frame->tail = node;
    frame->tail = &node->next;
    frame->member = node;
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Anchors and tags would change nothing here, but the author of the file expects that they do. */
static void refuse_decorations(struct reader *reader, const yaml_event_t *event,
                               const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor) {
        config_problem(reader->problems, place_of(&event->start_mark),
                       "anchors (&%.64s) and aliases are not allowed; write the value out",
                       (const char *)anchor);
    }
    if (tag) {
        config_problem(reader->problems, place_of(&event->start_mark),
                       "tags (%.64s) are not allowed; leave it out", (const char *)tag);
    }
}

static bool on_scalar(struct reader *reader, const yaml_event_t *event)
{
    struct config_node *node;

    refuse_decorations(reader, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (wants_key(reader)) {
        return add_key(reader, event);
    }
    node = node_add(reader, event);
    if (!node) {
        return false;
    }
    node->text = copy_text(reader, event);
    if (!node->text) {
        return false;
    }
    node->empty = is_null(event);
    if (has_nul(event)) {
        node->broken = true;
        config_problem(reader->problems, node->place, "there is a NUL in the text");
    }
    return true;
}

static bool on_begin(struct reader *reader, const yaml_event_t *event, enum config_kind kind)
{
    struct config_place place = place_of(&event->start_mark);
    struct config_node *node;

    if (kind == CONFIG_MAP) {
        refuse_decorations(reader, event, event->data.mapping_start.anchor,
                           event->data.mapping_start.tag);
    } else {
        refuse_decorations(reader, event, event->data.sequence_start.anchor,
                           event->data.sequence_start.tag);
    }
    if (wants_key(reader)) {
        config_problem(reader->problems, place, "a key must be a text, not a %s",
                       kind == CONFIG_MAP ? "mapping" : "list");
        return false;
    }
    if (reader->depth == CONFIG_DEPTH_MAX) {
        config_problem(reader->problems, place, "this is nested more than %d deep",
                       CONFIG_DEPTH_MAX);
        return false;
    }
    node = node_add(reader, event);
    if (!node) {
        return false;
    }
    node->kind = kind;
    reader->frames[reader->depth++] = (struct frame){node, &node->first, NULL};
    return true;
}

static bool on_alias(struct reader *reader, const yaml_event_t *event)
{
    struct config_node *node;

    config_problem(reader->problems, place_of(&event->start_mark),
                   "aliases (*%.64s) are not allowed; write the value out. " STAR_NEEDS_QUOTES,
                   (const char *)event->data.alias.anchor);
    if (wants_key(reader)) {
        return false;
    }
    node = node_add(reader, event);
    if (node) {
        node->broken = true;
    }
    return node != NULL;
}

static bool on_document(struct reader *reader, const yaml_event_t *event)
{
    if (reader->document_count++ == 0) {
        return true;
    }
    config_problem(reader->problems, place_of(&event->start_mark),
                   "a second document begins here (---); the file must be one");
    return false;
}

/* False: stop reading, after a complaint or at the end of the file. */
static bool on_event(struct reader *reader, const yaml_event_t *event, bool *ret_done)
{
    switch (event->type) {
    case YAML_STREAM_END_EVENT:
        *ret_done = true;
        return false;
    case YAML_DOCUMENT_START_EVENT:
        return on_document(reader, event);
    case YAML_SCALAR_EVENT:
        return on_scalar(reader, event);
    case YAML_ALIAS_EVENT:
        return on_alias(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_begin(reader, event, CONFIG_LIST);
    case YAML_MAPPING_START_EVENT:
        return on_begin(reader, event, CONFIG_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        reader->depth--;
        return true;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return true;
    }
    return true;
}

static bool read_events(struct reader *reader)
{
    bool done = false;
    bool more = true;

    while (more) {
        yaml_event_t event;

        if (!yaml_parser_parse(&reader->parser, &event)) {
            complain_yaml(reader);
            return false;
        }
        more = on_event(reader, &event, &done);
        yaml_event_delete(&event);
    }
    return done;
}

bool config_yaml_read(struct text bytes, struct arena *arena, struct config_problems *problems,
                      struct config_node **ret_root)
{
    struct reader reader = {.bytes = bytes, .arena = arena, .problems = problems};
    bool whole;

    if (!check_bytes(bytes, problems)) {
        return false;
    }
    if (bytes.length >= strlen(BYTE_ORDER_MARK) &&
        memcmp(bytes.bytes, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) {
        reader.bytes.bytes += strlen(BYTE_ORDER_MARK); /* or it would count as a column */
        reader.bytes.length -= strlen(BYTE_ORDER_MARK);
    }
    if (!yaml_parser_initialize(&reader.parser)) {
        config_problem(problems, (struct config_place){1, 1}, "there is no memory for the file");
        return false;
    }
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)reader.bytes.bytes,
                                 reader.bytes.length);
    whole = read_events(&reader);
    yaml_parser_delete(&reader.parser);
    if (whole) {
        *ret_root = reader.root;
    }
    return whole;
}
