/*
 * param.h - the parameters of one statement, in PostgreSQL's binary format.
 *
 * A session has one `struct params`, whose memory is reused from statement to statement:
 *
 *     struct params *params = session_params(session);
 *     param_int8(params, subscription_id);
 *     param_text(params, name);
 *     param_array(params, PARAM_INT8, count);
 *     for (size_t i = 0; i < count; i++) {
 *         element_int8(params, positions[i]);
 *     }
 *
 * The first call is $1, the next one $2. After param_array exactly `count` elements follow. Nothing
 * has to be checked: a failure is remembered, and the statement answers it.
 */
#ifndef HF_STORE_POSTGRES_WIRE_PARAM_H
#define HF_STORE_POSTGRES_WIRE_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/text.h"

#define PARAMS_MAX 40
#define PARAMS_BYTES_MAX ((size_t)1 << 30) /* as much as the server takes */

/* Between our times and PostgreSQL's, which count from 2000-01-01: microseconds. */
#define PARAM_EPOCH_US INT64_C(946684800000000)

/* Types of array elements. */
enum param_type {
    PARAM_BOOL,
    PARAM_INT4,
    PARAM_INT8,
    PARAM_TEXT,
    PARAM_JSON,
    PARAM_UUID,
    PARAM_TIME /* timestamptz */
};

struct params {
    struct buf buf; /* all values, one after the other */
    int count;
    unsigned types[PARAMS_MAX]; /* Oid */
    size_t offsets[PARAMS_MAX];
    int lengths[PARAMS_MAX]; /* -1: NULL */
    bool open;               /* the last one is an array: its length follows its elements */
    int64_t shift_us;        /* from our wall clock to the server's: skew.h */
    /* what libpq takes, made by params_finish */
    const char *values[PARAMS_MAX];
    int formats[PARAMS_MAX]; /* all 1: binary */
};

void params_init(struct params *params);
void params_clear(struct params *params);
void params_release(struct params *params);
/* Makes `values` and `formats`. HF_NOMEM; HF_INVALID: more than PARAMS_BYTES_MAX. */
hf_status params_finish(struct params *params);

void param_bool(struct params *params, bool value);
void param_int4(struct params *params, int32_t value);
void param_int8(struct params *params, int64_t value);
/* Absent is NULL. */
void param_text(struct params *params, struct text value);
void param_json(struct params *params, struct text value);
/* NULL is NULL. */
void param_uuid(struct params *params, const uint8_t value[16]);
/* Microseconds since 1970. */
void param_time(struct params *params, int64_t us);
/* The same, by our wall clock: moved by shift_us. */
void param_local(struct params *params, int64_t us);
/* NULL of a type; e.g. an int8 that is not given. */
void param_null(struct params *params, enum param_type type);

/* Begins an array of `count` elements. */
void param_array(struct params *params, enum param_type type, size_t count);
/* An array that is NULL. */
void param_no_array(struct params *params, enum param_type type);
void element_bool(struct params *params, bool value);
void element_int4(struct params *params, int32_t value);
void element_int8(struct params *params, int64_t value);
/* Text and JSON; absent is NULL. */
void element_text(struct params *params, struct text value);
/* NULL is NULL. */
void element_uuid(struct params *params, const uint8_t value[16]);
void element_time(struct params *params, int64_t us);
void element_local(struct params *params, int64_t us);
void element_null(struct params *params);

#endif
