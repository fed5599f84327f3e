/*
 * lease.h - what claiming (pull.c) and settling (lease.c) share: the text of a lease.
 */
#ifndef HF_BUS_API_LEASE_H
#define HF_BUS_API_LEASE_H

#include "bus/options.h"
#include "bus/subscription.h"

#define LEASE_STORY_BYTES_MAX 2097152 /* a story, and an error behind it (verdict.h) */

/* 32 lower-case hexadecimal digits. */
void lease_format(const uint8_t lease[STORE_TOKEN_BYTES], char out[HF_LEASE_BYTES]);

/* Exactly what lease_format writes. HF_INVALID. */
hf_status lease_parse(const char *text, uint8_t ret_lease[STORE_TOKEN_BYTES]);

/* HF_MISUSE for an ordered subscription. */
hf_status lease_check_mode(hf_mode mode, struct text name);

/* Moves the outcome's story and error into the arena, so that the buffer they were made in can
 * serve the next one. Failure is the arena's. */
void lease_keep_texts(struct arena *arena, struct outcome *outcome);

#endif
