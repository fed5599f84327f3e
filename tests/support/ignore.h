/*
 * ignore.h - callbacks that look at nothing and want more.
 */
#ifndef HF_TESTS_SUPPORT_IGNORE_H
#define HF_TESTS_SUPPORT_IGNORE_H

#include <holdfast.h>

static inline int ignore_event(const hf_event *event, void *ctx)
{
    (void)event;
    (void)ctx;
    return 0;
}

static inline int ignore_state(const hf_event_state *state, void *ctx)
{
    (void)state;
    (void)ctx;
    return 0;
}

static inline int ignore_group(const hf_dead_group *group, void *ctx)
{
    (void)group;
    (void)ctx;
    return 0;
}

static inline int ignore_letter(const hf_dead_letter *letter, void *ctx)
{
    (void)letter;
    (void)ctx;
    return 0;
}

static inline int ignore_info(const hf_subscription_info *info, void *ctx)
{
    (void)info;
    (void)ctx;
    return 0;
}

static inline int ignore_finding(const char *name, const char *value, hf_log_level level,
                                 const char *advice, void *ctx)
{
    (void)name;
    (void)value;
    (void)level;
    (void)advice;
    (void)ctx;
    return 0;
}

#endif
