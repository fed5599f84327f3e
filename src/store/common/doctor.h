/*
 * doctor.h - how an engine tells what it has found out about its database (`doctor` of engine.h).
 */
#ifndef HF_STORE_COMMON_DOCTOR_H
#define HF_STORE_COMMON_DOCTOR_H

#include <holdfast.h>
#include <stdbool.h>

/* Hands findings to the callback until that has had enough. */
struct doctor {
    hf_finding_fn found;
    void *ctx;
    bool stopped;
};

/* A finding with advice is a warning; advice NULL: all is well. */
void doctor_say(struct doctor *doctor, const char *name, const char *value, const char *advice);

#endif
