/*
 * option_fields.h - every option of a subscription with its default and limits, by the list in
 * bus/options.def, for tests that go through all of them.
 */
#ifndef HF_TESTS_SUPPORT_OPTION_FIELDS_H
#define HF_TESTS_SUPPORT_OPTION_FIELDS_H

#include <holdfast.h>
#include <stddef.h>
#include <string.h>

enum option_kind_of_c { OPTION_WORD, OPTION_INT32, OPTION_INT64, OPTION_DOUBLE };

struct option_field {
    const char *name;
    size_t offset;
    enum option_kind_of_c kind;
    double initial;
    double min;
    double max;
    const char *words; /* "ordered|shared"; NULL for numbers */
};

#define OPTION_FIELD(field, kind, initial, min, max, words)                                        \
    {#field,        offsetof(hf_subscription_options, field),                                      \
     kind,          (double)(initial),                                                             \
     (double)(min), (double)(max),                                                                 \
     words},
#define CHOICE(field, last, initial, others, flag, key, help)                                      \
    OPTION_FIELD(field, OPTION_WORD, 1, 1, last, initial "|" others)
#define NUMBER(field, initial, min, max, flag, unit, key, help)                                    \
    OPTION_FIELD(field, OPTION_INT32, initial, min, max, NULL)
#define PERIOD(field, initial, min, max, flag, key, help)                                          \
    OPTION_FIELD(field, OPTION_INT64, initial, min, max, NULL)
#define FACTOR(field, initial, min, max, flag, unit, key, help)                                    \
    OPTION_FIELD(field, OPTION_DOUBLE, initial, min, max, NULL)
static const struct option_field option_fields[] = {
#include "bus/options.def"
};

#define OPTION_FIELDS (sizeof option_fields / sizeof option_fields[0])

static inline void option_field_set(hf_subscription_options *options,
                                    const struct option_field *field, double value)
{
    char *at = (char *)options + field->offset;
    int32_t small = (int32_t)value;
    int64_t large = (int64_t)value;
    switch (field->kind) {
    case OPTION_WORD:
    case OPTION_INT32:
        memcpy(at, &small, sizeof small);
        break;
    case OPTION_INT64:
        memcpy(at, &large, sizeof large);
        break;
    case OPTION_DOUBLE:
        memcpy(at, &value, sizeof value);
        break;
    }
}

#endif
