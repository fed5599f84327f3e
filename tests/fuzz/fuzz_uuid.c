/*
 * fuzz_uuid.c - any bytes as the text of an id; any 16 bytes as an id.
 *
 * Properties: an accepted text is 36 characters and formats back to itself in lower case; any id
 * survives format and parse; an id has a time iff its version is 7 and its variant is RFC 9562's.
 */
#include "base/err.h"
#include "base/uuid.h"
#include "fuzz.h"

static void check_id(const uint8_t id[UUID_BYTES])
{
    char text[UUID_TEXT_BYTES];
    uint8_t back[UUID_BYTES];
    int64_t time_us = uuid_v7_time_us(id);

    uuid_format(id, text);
    HOLDS(strlen(text) == UUID_TEXT_BYTES - 1);
    HOLDS(uuid_parse(text_of(text), back) == HF_OK);
    HOLDS(memcmp(id, back, UUID_BYTES) == 0);
    HOLDS((time_us >= 0) == (text[14] == '7' && strchr("89ab", text[19]) != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text text = {size ? (const char *)data : "", size};
    uint8_t id[UUID_BYTES];
    char formatted[UUID_TEXT_BYTES];

    if (uuid_parse(text, id) == HF_OK) {
        HOLDS(size == UUID_TEXT_BYTES - 1);
        uuid_format(id, formatted);
        for (size_t i = 0; i < size; i++) {
            HOLDS(formatted[i] == text.bytes[i] || formatted[i] == (text.bytes[i] | 0x20));
        }
        check_id(id);
    }
    if (size == UUID_BYTES) {
        check_id(data);
    }
    return 0;
}
