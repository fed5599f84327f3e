/*
 * row.c - decoding binary results. See row.h.
 *
 * libpq ends every value in NUL, binary ones too, so texts can be handed on as they are. What the
 * server sends is believed to have the type that the statement asked for, but never a length: a
 * number of an unknown width, or an array that ends early, is read as nothing and does no harm.
 */
#include "store/postgres/wire/row.h"

#include <endian.h>

#include "base/err.h"
#include "base/uuid.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/postgres/wire/param.h"

#define ARRAY_HEADER_BYTES 20 /* dimensions, flags, type, length, lower bound */

/* ---- Values ---------------------------------------------------------------------------------- */

static uint32_t word_at(const char *bytes)
{
    uint32_t big;
    memcpy(&big, bytes, sizeof big);
    return be32toh(big);
}

static int64_t number_of(const char *bytes, size_t length, int64_t otherwise)
{
    uint16_t two;
    uint64_t eight;
    switch (length) {
    case 1:
        return bytes[0] != 0;
    case 2:
        memcpy(&two, bytes, sizeof two);
        return (int16_t)be16toh(two);
    case 4:
        return (int32_t)word_at(bytes);
    case 8:
        memcpy(&eight, bytes, sizeof eight);
        return (int64_t)be64toh(eight);
    default:
        return otherwise;
    }
}

static int64_t our_time(int64_t server_us)
{
    if (server_us == INT64_MIN || server_us > INT64_MAX - PARAM_EPOCH_US) {
        return server_us == INT64_MIN ? INT64_MIN : INT64_MAX;
    }
    return server_us + PARAM_EPOCH_US;
}

bool result_is_null(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) == 1;
}

int64_t result_int8(const PGresult *result, int row, int column, int64_t otherwise)
{
    if (result_is_null(result, row, column)) {
        return otherwise;
    }
    return number_of(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column),
                     otherwise);
}

bool result_bool(const PGresult *result, int row, int column)
{
    return result_int8(result, row, column, 0) != 0;
}

struct text result_text(const PGresult *result, int row, int column)
{
    if (result_is_null(result, row, column)) {
        return TEXT_ABSENT;
    }
    return (struct text){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

int64_t result_time(const PGresult *result, int row, int column, int64_t otherwise)
{
    if (result_is_null(result, row, column)) {
        return otherwise;
    }
    return our_time(result_int8(result, row, column, 0));
}

bool result_uuid(const PGresult *result, int row, int column, uint8_t ret_id[16])
{
    if (result_is_null(result, row, column) || PQgetlength(result, row, column) != UUID_BYTES) {
        return false;
    }
    memcpy(ret_id, PQgetvalue(result, row, column), UUID_BYTES);
    return true;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

struct result_array result_array(const PGresult *result, int row, int column)
{
    struct text text = result_text(result, row, column);
    if (text.length < ARRAY_HEADER_BYTES || word_at(text.bytes) != 1) {
        return (struct result_array){0};
    }
    return (struct result_array){
        .at = text.bytes + ARRAY_HEADER_BYTES,
        .end = text.bytes + text.length,
        .count = word_at(text.bytes + 12),
    };
}

struct text array_text(struct result_array *array)
{
    if (array->end - array->at < 4) {
        return TEXT_ABSENT;
    }
    uint32_t length = word_at(array->at);
    array->at += 4;
    if (length == UINT32_MAX || length > (size_t)(array->end - array->at)) {
        return TEXT_ABSENT;
    }
    struct text text = {array->at, length};
    array->at += length;
    return text;
}

int64_t array_int8(struct result_array *array, int64_t otherwise)
{
    struct text text = array_text(array);
    return text_is_absent(text) ? otherwise : number_of(text.bytes, text.length, otherwise);
}

bool array_uuid(struct result_array *array, uint8_t ret_id[16])
{
    struct text text = array_text(array);
    if (text.length != UUID_BYTES) {
        return false;
    }
    memcpy(ret_id, text.bytes, UUID_BYTES);
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static hf_status bad_row(int64_t position)
{
    return fail(HF_CORRUPT, "the row of the event at position %lld has no id, type or payload",
                (long long)position);
}

hf_status event_view(const PGresult *result, int row, int first, char id_text[HF_ID_BYTES],
                     hf_event *ret_event)
{
    uint8_t id[UUID_BYTES];
    struct text payload = result_text(result, row, first + EVENT_PAYLOAD);
    struct text type = result_text(result, row, first + EVENT_TYPE);
    int64_t position = result_int8(result, row, first + EVENT_POSITION, 0);
    if (!result_uuid(result, row, first + EVENT_ID, id) || !payload.bytes || !type.bytes) {
        return bad_row(position);
    }
    uuid_format(id, id_text);
    *ret_event = (hf_event){
        .id = id_text,
        .type = type.bytes,
        .payload = payload.bytes,
        .payload_bytes = payload.length,
        .key = result_text(result, row, first + EVENT_KEY).bytes,
        .tenant = result_text(result, row, first + EVENT_TENANT).bytes,
        .metadata = result_text(result, row, first + EVENT_METADATA).bytes,
        .producer = result_text(result, row, first + EVENT_PRODUCER).bytes,
        .schedule_id = result_text(result, row, first + EVENT_SCHEDULE_ID).bytes,
        .position = position,
        .key_version = result_int8(result, row, first + EVENT_KEY_VERSION, -1),
        .emitted_at_us = result_time(result, row, first + EVENT_EMITTED_AT, 0),
        .entered_at_us = result_time(result, row, first + EVENT_ENTERED_AT, 0),
    };
    return HF_OK;
}

static const char *keep(struct batch *batch, const PGresult *result, int row, int column)
{
    return arena_text(&batch->arena, result_text(result, row, column)).bytes;
}

static hf_status event_copy(struct batch *batch, const PGresult *result, int row, int first,
                            struct entry *entry)
{
    uint8_t id[UUID_BYTES];
    hf_event *event = &entry->event;
    event->position = result_int8(result, row, first + EVENT_POSITION, 0);
    if (!result_uuid(result, row, first + EVENT_ID, id)) {
        return bad_row(event->position);
    }
    event->key = keep(batch, result, row, first + EVENT_KEY);
    event->tenant = keep(batch, result, row, first + EVENT_TENANT);
    hf_status status = batch_identify(batch, entry, id);
    if (status) {
        return status;
    }
    event->type = keep(batch, result, row, first + EVENT_TYPE);
    struct text payload =
        arena_text(&batch->arena, result_text(result, row, first + EVENT_PAYLOAD));
    event->payload = payload.bytes;
    event->payload_bytes = payload.length;
    event->metadata = keep(batch, result, row, first + EVENT_METADATA);
    event->producer = keep(batch, result, row, first + EVENT_PRODUCER);
    event->schedule_id = keep(batch, result, row, first + EVENT_SCHEDULE_ID);
    event->key_version = result_int8(result, row, first + EVENT_KEY_VERSION, -1);
    event->emitted_at_us = result_time(result, row, first + EVENT_EMITTED_AT, 0);
    event->entered_at_us = result_time(result, row, first + EVENT_ENTERED_AT, 0);
    entry->hash = result_int8(result, row, first + EVENT_HASH, 0);
    entry->checksum = result_int8(result, row, first + EVENT_CHECKSUM, 0);
    status = arena_status(&batch->arena);
    if (!status && (!event->type || !event->payload)) {
        status = bad_row(event->position);
    }
    return status;
}

hf_status event_push(struct batch *batch, const PGresult *result, int row, int first,
                     struct entry **ret_entry)
{
    struct entry *entry = batch_push(batch);
    if (!entry) {
        return fail(HF_NOMEM, "no memory for a batch of %zu events", batch->count + 1);
    }
    hf_status status = event_copy(batch, result, row, first, entry);
    if (status) {
        batch->count--;
        return status;
    }
    *ret_entry = entry;
    return HF_OK;
}
