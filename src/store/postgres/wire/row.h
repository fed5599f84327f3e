/*
 * row.h - values of a binary result, and an event's columns as an entry of a batch.
 *
 * Every statement that hands up events selects their columns in this order, so there is one place
 * that decodes them:
 *
 *     position  id  type  payload  key  tenant  metadata  producer  schedule_id  key_version  hash
 *     emitted_at  entered_at  checksum
 *
 * Texts point into the result, end in NUL, and live until it is cleared.
 */
#ifndef HF_STORE_POSTGRES_WIRE_ROW_H
#define HF_STORE_POSTGRES_WIRE_ROW_H

#include <libpq-fe.h>

#include "store/store.h"

enum event_column {
    EVENT_POSITION,
    EVENT_ID,
    EVENT_TYPE,
    EVENT_PAYLOAD,
    EVENT_KEY,
    EVENT_TENANT,
    EVENT_METADATA,
    EVENT_PRODUCER,
    EVENT_SCHEDULE_ID,
    EVENT_KEY_VERSION,
    EVENT_HASH,
    EVENT_EMITTED_AT,
    EVENT_ENTERED_AT,
    EVENT_CHECKSUM,
    EVENT_COLUMNS
};

/* Rows and columns count from 0. */
bool result_is_null(const PGresult *result, int row, int column);
/* int2, int4, int8 or bool, whatever the column is; `otherwise` if NULL. */
int64_t result_int8(const PGresult *result, int row, int column, int64_t otherwise);
bool result_bool(const PGresult *result, int row, int column);
/* Absent if NULL. */
struct text result_text(const PGresult *result, int row, int column);
/* Microseconds since 1970; `otherwise` if NULL; INT64_MAX and INT64_MIN for the infinities. */
int64_t result_time(const PGresult *result, int row, int column, int64_t otherwise);
/* False if it is NULL or not 16 bytes. */
bool result_uuid(const PGresult *result, int row, int column, uint8_t ret_id[16]);

/* Walking through an array of one dimension:
 *     struct result_array array = result_array(result, row, column);
 *     for (size_t i = 0; i < array.count; i++) { int64_t n = array_int8(&array, -1); ... } */
struct result_array {
    const char *at;
    const char *end;
    size_t count; /* 0 also if it is NULL */
};
struct result_array result_array(const PGresult *result, int row, int column);
/* The next element; as the functions above. */
int64_t array_int8(struct result_array *array, int64_t otherwise);
struct text array_text(struct result_array *array);
bool array_uuid(struct result_array *array, uint8_t ret_id[16]);

/* Copies the event in the columns from `first` on into the batch. The caller fills in attempts,
 * story, waited and unhandled. An event with another checksum is marked damaged. HF_NOMEM;
 * HF_CORRUPT. On failure the batch has no new entry. */
hf_status event_push(struct batch *batch, const PGresult *result, int row, int first,
                     struct entry **ret_entry);
/* The event as the application sees it, its texts those of the result; `id_text` gets the id and
 * must live as long. It may be damaged. */
hf_status event_view(const PGresult *result, int row, int first, char id_text[HF_ID_BYTES],
                     hf_event *ret_event);

#endif
