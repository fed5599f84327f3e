/*
 * param.c - values in PostgreSQL's binary format: big-endian numbers, bytes as they are.
 *
 * All values of a statement lie one after the other in one buffer, which moves when it grows, so
 * places are kept as offsets until params_finish makes pointers of them. An array is a header of
 * five words (dimensions, flags, element type, length, lower bound) and, per element, its length
 * and its bytes; the array's own length is known when the next parameter begins.
 */
#include "store/postgres/wire/param.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>

#include "base/err.h"

/* Oids of built-in types never change (pg_type.dat). */
#define OID_BOOL 16
#define OID_INT8 20
#define OID_INT4 23
#define OID_TEXT 25
#define OID_JSON 114
#define OID_TIMESTAMPTZ 1184
#define OID_UUID 2950

struct type_oids {
    unsigned element;
    unsigned array;
};

static const struct type_oids oids[] = {
    [PARAM_BOOL] = {OID_BOOL, 1000},        [PARAM_INT4] = {OID_INT4, 1007},
    [PARAM_INT8] = {OID_INT8, 1016},        [PARAM_TEXT] = {OID_TEXT, 1009},
    [PARAM_JSON] = {OID_JSON, 199},         [PARAM_UUID] = {OID_UUID, 2951},
    [PARAM_TIME] = {OID_TIMESTAMPTZ, 1185},
};

void params_init(struct params *params)
{
    *params = (struct params){0};
    buf_init(&params->buf, PARAMS_BYTES_MAX);
}

void params_clear(struct params *params)
{
    params->shift_us = 0;
    buf_clear(&params->buf);
    params->count = 0;
    params->open = false;
}

void params_release(struct params *params)
{
    buf_release(&params->buf);
    params->count = 0;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void put_word(struct params *params, uint32_t value)
{
    uint32_t big = htonl(value);
    buf_append(&params->buf, &big, sizeof big);
}

static void put_long(struct params *params, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    buf_append(&params->buf, &big, sizeof big);
}

/* PostgreSQL's infinities are the ends of the range; ours are far inside. */
static int64_t server_time(int64_t us)
{
    return us < INT64_MIN + PARAM_EPOCH_US ? INT64_MIN : us - PARAM_EPOCH_US;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static void end_array(struct params *params)
{
    if (params->open) {
        int last = params->count - 1;
        params->lengths[last] = (int)(params->buf.length - params->offsets[last]);
        params->open = false;
    }
}

/* The next parameter, which is `length` bytes (-1: NULL). */
static void begin(struct params *params, unsigned type, int length)
{
    assert(params->count < PARAMS_MAX);
    end_array(params);
    params->types[params->count] = type;
    params->offsets[params->count] = params->buf.length;
    params->lengths[params->count] = length;
    params->count++;
}

static void put_bytes(struct params *params, unsigned type, const void *bytes, size_t length)
{
    begin(params, type, bytes ? (int)length : -1);
    if (bytes) {
        buf_append(&params->buf, bytes, length);
    }
}

void param_bool(struct params *params, bool value)
{
    begin(params, OID_BOOL, 1);
    buf_char(&params->buf, value ? 1 : 0);
}

void param_int4(struct params *params, int32_t value)
{
    begin(params, OID_INT4, 4);
    put_word(params, (uint32_t)value);
}

void param_int8(struct params *params, int64_t value)
{
    begin(params, OID_INT8, 8);
    put_long(params, value);
}

void param_text(struct params *params, struct text value)
{
    put_bytes(params, OID_TEXT, value.bytes, value.length);
}

void param_json(struct params *params, struct text value)
{
    put_bytes(params, OID_JSON, value.bytes, value.length);
}

void param_uuid(struct params *params, const uint8_t value[16])
{
    put_bytes(params, OID_UUID, value, 16);
}

void param_time(struct params *params, int64_t us)
{
    begin(params, OID_TIMESTAMPTZ, 8);
    put_long(params, server_time(us));
}

void param_local(struct params *params, int64_t us)
{
    param_time(params, us + params->shift_us);
}

void param_null(struct params *params, enum param_type type)
{
    begin(params, oids[type].element, -1);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

void param_array(struct params *params, enum param_type type, size_t count)
{
    begin(params, oids[type].array, 0);
    params->open = true;
    put_word(params, count > 0 ? 1 : 0); /* dimensions */
    put_word(params, 0);                 /* flags: the server looks for NULLs itself */
    put_word(params, oids[type].element);
    if (count > 0) {
        put_word(params, (uint32_t)count);
        put_word(params, 1); /* lower bound */
    }
}

void param_no_array(struct params *params, enum param_type type)
{
    begin(params, oids[type].array, -1);
}

/* Length and bytes at once: a statement may have many thousands of elements. */
static void put_element(struct params *params, const void *bytes, size_t length)
{
    uint32_t big = htonl((uint32_t)length);
    char *room = buf_reserve(&params->buf, sizeof big + length);
    if (room) {
        memcpy(room, &big, sizeof big);
        memcpy(room + sizeof big, bytes, length);
        buf_advance(&params->buf, sizeof big + length);
    }
}

void element_bool(struct params *params, bool value)
{
    char byte = value ? 1 : 0;
    put_element(params, &byte, sizeof byte);
}

void element_int4(struct params *params, int32_t value)
{
    uint32_t big = htonl((uint32_t)value);
    put_element(params, &big, sizeof big);
}

void element_int8(struct params *params, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    put_element(params, &big, sizeof big);
}

void element_text(struct params *params, struct text value)
{
    if (text_is_absent(value)) {
        element_null(params);
        return;
    }
    put_element(params, value.bytes, value.length);
}

void element_uuid(struct params *params, const uint8_t value[16])
{
    if (!value) {
        element_null(params);
        return;
    }
    put_element(params, value, 16);
}

void element_time(struct params *params, int64_t us)
{
    element_int8(params, server_time(us));
}

void element_local(struct params *params, int64_t us)
{
    element_time(params, us + params->shift_us);
}

void element_null(struct params *params)
{
    put_word(params, UINT32_MAX);
}

/* ---- For libpq ------------------------------------------------------------------------------- */

hf_status params_finish(struct params *params)
{
    end_array(params);
    hf_status status = buf_status(&params->buf);
    if (status) {
        return fail(status, "the parameters of a statement: %s", err_message());
    }
    for (int i = 0; i < params->count; i++) {
        /* An empty value needs an address too: NULL means NULL. */
        const char *base = params->buf.bytes ? params->buf.bytes : "";
        params->values[i] = params->lengths[i] < 0 ? NULL : base + params->offsets[i];
        params->formats[i] = 1;
    }
    return HF_OK;
}
