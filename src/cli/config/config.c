/*
 * config.c - walks the tree of a file along the table of keys. See config.h.
 *
 * A mapping is walked member by member: the prefix so far and the member's key make a path; the
 * path is a key of the table, a section of it (then its mapping is walked in turn, or a single word
 * stands for one of its keys), or a mistake. After the walk each scope is asked for the keys that
 * it must have, and then for what its values mean together (check.c). Mistakes do not stop
 * the walk: all of them are told.
 */
#include "cli/config/config.h"

#include "base/banned.h"
#include "base/mem.h"
#include "cli/config/check.h"
#include "cli/config/serve_options.h"
#include "cli/config/yaml.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/webhook/network.h"

#include <assert.h>

#define ARENA_BYTES_MAX 16777216
#define SHOWN_BYTES (CONFIG_PATH_BYTES + 96)

/* Where a walk is. */
struct walk {
    struct config *config;
    struct config_problems *problems;
    int64_t now_us;
    bool only_database; /* other sections are passed over */
    bool to_serve;      /* subscriptions are not needed */
    enum config_scope scope;
    char shown[64]; /* the path of the scope: "subscriptions[2]." */
    struct config_value *values;
};

static const char *kind_word(const struct config_node *node)
{
    switch (node->kind) {
    case CONFIG_SCALAR:
        return node->empty ? "nothing" : "a text";
    case CONFIG_LIST:
        return "a list";
    case CONFIG_MAP:
        return "a mapping";
    }
    return "nothing";
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void wrong_kind(struct walk *walk, const struct config_key *key,
                       const struct config_node *node)
{
    char form[192];

    config_key_takes(key, form, sizeof form);
    config_problem(walk->problems, node->place, "%s%s %s, not %s", walk->shown, key->path, form,
                   kind_word(node));
}

/* The text of a scalar by its key. */
static void read_text(struct walk *walk, const struct config_key *key, size_t index,
                      const char *text, struct config_place place)
{
    struct config_value *slot = &walk->values[index];
    struct arg_value value = {.row = key->row, .text = text, .place = {HF_PLACE_NONE, -1}};
    struct value_form form;
    char shown[SHOWN_BYTES];

    snprintf(shown, sizeof shown, "%s%s", walk->shown, key->path);
    if (!args_value_check(&value, walk->now_us, &form)) {
        config_problem(walk->problems, place, "%s %s, not '%.64s'%s%s%s", shown, form.form, text,
                       form.hint[0] ? "; did you mean " : "", form.hint, form.hint[0] ? "?" : "");
        return;
    }
    config_check_text(key, text, shown, place, walk->problems);
    slot->place = place;
    slot->value = value;
}

/* How many texts a list may have. */
static size_t items_max(enum config_text text)
{
    switch (text) {
    case CONFIG_TEXT_PATTERN:
        return HF_PATTERNS_MAX;
    case CONFIG_TEXT_NETWORK:
        return NETWORKS_MAX;
    case CONFIG_TEXT_HOST:
        return SERVE_HOSTS_MAX;
    default:
        return SIZE_MAX;
    }
}

static void read_list(struct walk *walk, const struct config_key *key, size_t index,
                      const struct config_node *node)
{
    bool one = node->kind == CONFIG_SCALAR;
    size_t count = one ? 1 : node->count;
    const char **items = arena_alloc(&walk->config->arena, (count + 1) * sizeof items[0]);
    const struct config_node *item = one ? node : node->first;

    if (!items) {
        config_problem(walk->problems, node->place, "there is no memory for the file");
        return;
    }
    if (count == 0 || count > items_max(key->text)) {
        char form[192];
        config_key_takes(key, form, sizeof form);
        config_problem(walk->problems, node->place, "%s%s %s; here are %zu", walk->shown, key->path,
                       form, count);
        return;
    }
    for (size_t i = 0; i < count; i++, item = item->next) {
        items[i] = "";
        if (item->broken) {
            continue;
        }
        if (item->kind != CONFIG_SCALAR || item->empty) {
            wrong_kind(walk, key, item);
            continue;
        }
        items[i] = item->text;
        read_text(walk, key, index, item->text, item->place);
    }
    walk->values[index].place = node->place;
    walk->values[index].items = items;
    walk->values[index].item_count = count;
    walk->values[index].is_list = !one;
}

static void read_key(struct walk *walk, size_t index, const struct config_node *node)
{
    struct config_key key = config_key_at(walk->scope, index);

    if (node->kind == CONFIG_SCALAR ? node->empty : !(key.list && node->kind == CONFIG_LIST)) {
        wrong_kind(walk, &key, node);
    } else if (key.list) {
        read_list(walk, &key, index, node);
    } else {
        read_text(walk, &key, index, node->text, node->place);
    }
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* "base, multiplier, max": what may stand below the prefix. */
static void list_words(enum config_scope scope, const char *prefix, struct buf *words)
{
    char word[CONFIG_PATH_BYTES];

    for (size_t nth = 0; config_word_at(scope, prefix, nth, word); nth++) {
        buf_printf(words, "%s%s", nth ? ", " : "", word);
    }
}

/* A key that is none; the words are kept by the caller while the suggestion lives. */
static void unknown_key(struct walk *walk, const char *prefix, const struct config_node *node)
{
    char words[CONFIG_KEYS_MAX][CONFIG_PATH_BYTES];
    struct suggest suggest;
    struct buf allowed;

    suggest_init(&suggest, node->key);
    for (size_t nth = 0; nth < CONFIG_KEYS_MAX; nth++) {
        if (!config_word_at(walk->scope, prefix, nth, words[nth])) {
            break;
        }
        suggest_offer(&suggest, words[nth]);
    }
    buf_init(&allowed, CONFIG_PROBLEM_BYTES);
    list_words(walk->scope, prefix, &allowed);
    if (strcmp(node->key, "<<") == 0) {
        config_problem(walk->problems, node->key_place,
                       "%s%s<<: merge keys are not allowed; write the values out", walk->shown,
                       prefix);
    } else {
        config_problem(
            walk->problems, node->key_place, "%s%s%.64s: there is no such key%s%s%s (allowed: %s)",
            walk->shown, prefix, node->key, suggest.best ? "; did you mean " : "",
            suggest.best ? suggest.best : "", suggest.best ? "?" : "", buf_terminate(&allowed));
    }
    buf_release(&allowed);
}

/* A section that is given as one word. */
static void read_short(struct walk *walk, const char *section, const struct config_node *node)
{
    struct config_short way;
    struct suggest suggest;
    struct buf words;
    char prefix[CONFIG_PATH_BYTES];

    suggest_init(&suggest, node->kind == CONFIG_SCALAR ? node->text : "");
    for (size_t nth = 0; config_short_at(section, nth, &way); nth++) {
        suggest_offer(&suggest, way.word);
        if (node->kind == CONFIG_SCALAR && strcmp(node->text, way.word) == 0) {
            size_t index = config_key_known(walk->scope, way.path);
            struct config_key key = config_key_at(walk->scope, index);
            read_text(walk, &key, index, way.value, node->place);
            return;
        }
    }
    snprintf(prefix, sizeof prefix, "%.100s.", section);
    buf_init(&words, CONFIG_PROBLEM_BYTES);
    for (size_t nth = 0; config_short_at(section, nth, &way); nth++) {
        buf_printf(&words, "%s, or ", way.word);
    }
    buf_printf(&words, "a mapping with the keys ");
    list_words(walk->scope, prefix, &words);
    if (node->kind != CONFIG_SCALAR || node->empty) {
        config_problem(walk->problems, node->place, "%s%s is %s; here is %s", walk->shown, section,
                       buf_terminate(&words), kind_word(node));
    } else {
        config_problem(walk->problems, node->place, "%s%s is %s, not '%.64s'%s%s%s", walk->shown,
                       section, buf_terminate(&words), node->text,
                       suggest.best ? "; did you mean " : "", suggest.best ? suggest.best : "",
                       suggest.best ? "?" : "");
    }
    buf_release(&words);
}

/* A breaker that is described is meant to be there. */
static void enable_breaker(struct walk *walk, const char *section, const struct config_node *node)
{
    size_t index;

    if (walk->scope != CONFIG_SUBSCRIPTION || strcmp(section, "breaker") != 0) {
        return;
    }
    index = config_key_known(walk->scope, "breaker.enabled");
    if (walk->values[index].place.line == 0) {
        struct config_key key = config_key_at(walk->scope, index);
        read_text(walk, &key, index, "on", node->key_place);
    }
}

/* Recursion is as deep as the paths of the table: one section inside a scope. */
static void walk_map(struct walk *walk, const char *prefix, const struct config_node *map)
{
    for (const struct config_node *node = map->first; node; node = node->next) {
        char path[CONFIG_PATH_BYTES];
        const char *refusal;
        size_t index;

        if (node->broken) {
            continue;
        }
        snprintf(path, sizeof path, "%s%.64s", prefix, node->key);
        refusal = config_refusal(walk->scope, path);
        if (refusal) {
            config_problem(walk->problems, node->key_place, "%s%s %s", walk->shown, path, refusal);
        } else if (strlen(node->key) > 64 || strchr(node->key, '.')) {
            unknown_key(walk, prefix, node);
        } else if (config_key_find(walk->scope, path, &index)) {
            read_key(walk, index, node);
        } else if (!config_is_section(walk->scope, path)) {
            unknown_key(walk, prefix, node);
        } else if (node->kind != CONFIG_MAP) {
            read_short(walk, path, node);
        } else {
            char below[CONFIG_PATH_BYTES];
            snprintf(below, sizeof below, "%.100s.", path);
            walk_map(walk, below, node);
            enable_breaker(walk, path, node);
        }
    }
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* Whether the key, or its section, or a typo of it, is in the mapping at all. */
static bool is_mentioned(const struct config_node *map, const char *path)
{
    size_t length = strcspn(path, ".");

    for (const struct config_node *node = map->first; node; node = node->next) {
        if (strncmp(node->key, path, length) != 0 || node->key[length]) {
            continue;
        }
        if (path[length] != '.' || node->kind != CONFIG_MAP) {
            return true;
        }
        return is_mentioned(node, path + length + 1);
    }
    return false;
}

static void check_required(struct walk *walk, const struct config_node *map)
{
    for (size_t i = 0; i < config_key_count(walk->scope); i++) {
        struct config_key key = config_key_at(walk->scope, i);
        char form[192];

        if (!key.path || !key.required || is_mentioned(map, key.path)) {
            continue;
        }
        config_key_takes(&key, form, sizeof form);
        config_problem(walk->problems, map->place, "%s%s is missing; it %s", walk->shown, key.path,
                       form);
    }
}

/* A subscription says what handles its events, one way or the other. */
static void check_handled(struct walk *walk, const struct config_node *map)
{
    if (walk->scope == CONFIG_SUBSCRIPTION && !is_mentioned(map, "handler.exec") &&
        !is_mentioned(map, "handler.http")) {
        config_problem(walk->problems, map->place,
                       "%shandler is missing; it has exec, a command for the shell or a list: a "
                       "program and its arguments; or http, a URL to post events to",
                       walk->shown);
    }
}

static void walk_scope(struct walk *walk, const struct config_node *node)
{
    if (node->broken) {
        return;
    }
    if (node->kind != CONFIG_MAP) {
        struct buf words;
        buf_init(&words, CONFIG_PROBLEM_BYTES);
        list_words(walk->scope, "", &words);
        config_problem(
            walk->problems, node->place, "%.*s is a mapping with the keys %s; here is %s",
            (int)strlen(walk->shown) - 1, walk->shown, buf_terminate(&words), kind_word(node));
        buf_release(&words);
        return;
    }
    walk_map(walk, "", node);
    check_required(walk, node);
    check_handled(walk, node);
}

/* A list whose members are mappings of one scope. */
struct list {
    const char *key;
    enum config_scope scope;
    struct config_entry **entries; /* of the config, with room for `max` */
    size_t *count;
    size_t max;
};

static void walk_entry(struct walk *walk, const struct list *list, size_t nth,
                       const struct config_node *node)
{
    struct config_entry *entry = arena_alloc(&walk->config->arena, sizeof *entry);

    if (!entry) {
        config_problem(walk->problems, node->place, "there is no memory for the file");
        return;
    }
    memset(entry, 0, sizeof *entry);
    entry->place = node->place;
    walk->scope = list->scope;
    walk->values = entry->values;
    snprintf(walk->shown, sizeof walk->shown, "%s[%zu].", list->key, nth);
    walk_scope(walk, node);
    entry->name = entry->values[config_key_known(list->scope, "name")].value.text;
    list->entries[(*list->count)++] = entry;
    config_check_entry(list->entries, *list->count - 1, list->key, list->scope, walk->problems);
}

static void walk_list(struct walk *walk, const struct list *list, const struct config_node *node)
{
    size_t nth = 0;

    if (node->kind != CONFIG_LIST || node->count == 0) {
        config_problem(walk->problems, node->place,
                       "%s is a list with at least one member, each begun by a dash "
                       "('- name: ...'); here is %s",
                       list->key, node->kind == CONFIG_LIST ? "an empty one" : kind_word(node));
        return;
    }
    if (node->count > list->max) {
        config_problem(walk->problems, node->place, "there are %zu %s; %zu is the limit",
                       node->count, list->key, list->max);
        return;
    }
    for (const struct config_node *member = node->first; member; member = member->next) {
        walk_entry(walk, list, nth++, member);
    }
}

/* A section of the file that is one mapping. */
static void walk_section(struct walk *walk, enum config_scope scope, struct config_value *values,
                         const struct config_node *node)
{
    walk->scope = scope;
    walk->values = values;
    snprintf(walk->shown, sizeof walk->shown, "%s.", node->key);
    walk_scope(walk, node);
}

/* The sections of a file. Those whose name is misspelt are mistakes for every command: the section
 * that it needs may be one of them. */
static const char *const sections[] = {"database", "subscriptions", "schedules", "retention",
                                       "serve"};

#define SECTIONS (sizeof sections / sizeof sections[0])

static bool is_section(const char *key)
{
    bool found = false;

    for (size_t i = 0; i < SECTIONS; i++) {
        found |= strcmp(key, sections[i]) == 0;
    }
    return found;
}

static void unknown_section(struct walk *walk, const struct config_node *node)
{
    struct suggest suggest;
    size_t index;
    bool is_inner = config_key_find(CONFIG_DATABASE, node->key, &index);

    suggest_init(&suggest, node->key);
    for (size_t i = 0; i < SECTIONS; i++) {
        suggest_offer(&suggest, sections[i]);
    }
    const char *best = is_inner ? node->key : suggest.best;
    config_problem(walk->problems, node->key_place,
                   "%.64s: there is no such key%s%s%.64s%s (allowed: database, subscriptions, "
                   "schedules, retention, serve)",
                   node->key, best ? "; did you mean " : "", is_inner ? "database." : "",
                   best ? best : "", best ? "?" : "");
}

static void walk_root(struct walk *walk, const struct config_node *root)
{
    struct config *config = walk->config;
    const struct list subscriptions = {"subscriptions", CONFIG_SUBSCRIPTION, config->subscriptions,
                                       &config->subscription_count, CONFIG_SUBSCRIPTIONS_MAX};
    const struct list schedules = {"schedules", CONFIG_SCHEDULE, config->schedules,
                                   &config->schedule_count, CONFIG_SCHEDULES_MAX};
    bool works = walk->to_serve;

    for (const struct config_node *node = root->first; node; node = node->next) {
        works |= strcmp(node->key, "subscriptions") == 0 || strcmp(node->key, "serve") == 0;
        if (node->broken) {
            continue;
        }
        if (strcmp(node->key, "database") == 0) {
            walk_section(walk, CONFIG_DATABASE, config->database, node);
            config_check_database(config, walk->problems);
        } else if (!is_section(node->key)) {
            unknown_section(walk, node);
        } else if (walk->only_database) {
            continue;
        } else if (strcmp(node->key, "retention") == 0) {
            walk_section(walk, CONFIG_RETENTION, config->retention, node);
        } else if (strcmp(node->key, "serve") == 0) {
            walk_section(walk, CONFIG_SERVE, config->serve, node);
            config_check_serve(config, walk->problems);
        } else if (strcmp(node->key, "subscriptions") == 0) {
            walk_list(walk, &subscriptions, node);
        } else {
            walk_list(walk, &schedules, node);
        }
    }
    if (walk->only_database) {
        return;
    }
    if (!works) {
        config_problem(walk->problems, root->place,
                       "subscriptions is missing; it is a list of "
                       "what to work for");
    }
    config_check_all(config, walk->problems);
}

static bool read_some(struct walk *walk, struct text bytes)
{
    struct config *config = walk->config;
    struct config_problems *problems = walk->problems;
    struct config_node *root = NULL;

    memset(config, 0, sizeof *config);
    problems->count = 0;
    arena_init(&config->arena, ARENA_BYTES_MAX);
    if (config_yaml_read(bytes, &config->arena, problems, &root)) {
        if (!root || (root->kind == CONFIG_SCALAR && root->empty && !root->broken)) {
            config_problem(problems, (struct config_place){1, 1},
                           "the file says nothing; it needs subscriptions");
        } else if (root->kind == CONFIG_MAP) {
            walk_root(walk, root);
        } else if (!root->broken) {
            config_problem(problems, root->place,
                           "the file is a mapping with the keys database, subscriptions, "
                           "schedules, retention and serve; here is %s",
                           kind_word(root));
        }
    }
    if (problems->count == 0) {
        return true;
    }
    config_release(config);
    return false;
}

bool config_read(struct config *ret_config, struct text bytes, int64_t now_us,
                 struct config_problems *problems)
{
    struct walk walk = {.config = ret_config, .problems = problems, .now_us = now_us};

    return read_some(&walk, bytes);
}

void config_release(struct config *config)
{
    arena_release(&config->arena);
    config->subscription_count = 0;
    config->schedule_count = 0;
}

static int open_judged(struct walk *walk, const char *file)
{
    size_t length;
    char *bytes = cli_read_file(file, CONFIG_BYTES_MAX + 1, &length);
    bool good;

    if (!bytes) {
        return EXIT_USAGE;
    }
    good = read_some(walk, (struct text){bytes, length});
    if (!good) {
        config_problems_print(walk->problems, strcmp(file, "-") == 0 ? "stdin" : file);
    }
    mem_free(bytes);
    return good ? EXIT_OK : EXIT_USAGE;
}

static int open_some(struct walk *walk, const char *file)
{
    struct config_problems problems;

    walk->problems = &problems;
    return open_judged(walk, file);
}

int config_open(struct config *ret_config, const char *file, int64_t now_us)
{
    struct walk walk = {.config = ret_config, .now_us = now_us};

    return open_some(&walk, file);
}

int config_open_judged(struct config *ret_config, const char *file, int64_t now_us,
                       struct config_problems *ret_problems)
{
    struct walk walk = {.config = ret_config, .problems = ret_problems, .now_us = now_us};

    ret_problems->count = 0;
    return open_judged(&walk, file);
}

int config_open_database(struct config *ret_config, const char *file, int64_t now_us)
{
    struct walk walk = {.config = ret_config, .now_us = now_us, .only_database = true};

    return open_some(&walk, file);
}

int config_open_serve(struct config *ret_config, const char *file, int64_t now_us)
{
    struct walk walk = {.config = ret_config, .now_us = now_us, .to_serve = true};

    return open_some(&walk, file);
}
