/*
 * yaml.h - a YAML file as a tree of texts with their places.
 *
 * Of YAML the file may use mappings, lists and texts in all their spellings, and comments. What
 * makes YAML hard to read or dangerous is refused: anchors and aliases (a small file could stand
 * for a huge one), merge keys, tags, several documents, keys that are not texts, keys given twice.
 * There are no types here: `100`, `on` and `"on"` are texts, and the table of keys says what a text
 * must be.
 */
#ifndef HF_CLI_CONFIG_YAML_H
#define HF_CLI_CONFIG_YAML_H

#include "base/arena.h"
#include "base/text/text.h"
#include "cli/config/problem.h"

#define CONFIG_BYTES_MAX 262144 /* of a file */
#define CONFIG_DEPTH_MAX 8      /* mappings and lists inside each other */
#define CONFIG_MEMBERS_MAX 256  /* of one mapping or list */
#define CONFIG_NODES_MAX 20000

enum config_kind { CONFIG_SCALAR, CONFIG_LIST, CONFIG_MAP };

struct config_node {
    enum config_kind kind;
    bool broken;                   /* it was complained about already: ask nothing more of it */
    bool empty;                    /* a scalar that says nothing: nothing at all, ~ or null */
    struct config_place place;     /* of the value */
    struct config_place key_place; /* of the key, for a member of a mapping */
    const char *key;               /* for a member of a mapping; NULL otherwise */
    const char *text;              /* of a scalar; without NULs inside */
    struct config_node *first;     /* member of a list or mapping */
    struct config_node *next;      /* member of the same */
    size_t count;                  /* of members */
};

/*
 * Reads a file. False, and nothing in *ret_root, if it is no YAML at all, or after a mistake behind
 * which nothing can be trusted. True with a tree (in the arena) that may have broken parts; all
 * mistakes are in `problems`. *ret_root is NULL for a file without content.
 */
bool config_yaml_read(struct text bytes, struct arena *arena, struct config_problems *problems,
                      struct config_node **ret_root);

#endif
