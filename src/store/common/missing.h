/*
 * missing.h - the words for what is not there, which are the same on every engine.
 */
#ifndef HF_STORE_COMMON_MISSING_H
#define HF_STORE_COMMON_MISSING_H

#include <holdfast.h>

/* HF_NOTFOUND; the message names the number. */
hf_status missing_subscription(int64_t id);

#endif
