/*
 * names.c - see names.h.
 */
#include "server/cloudevent/names.h"

#include "base/banned.h"
#include "base/text/json_read.h"

#include <strings.h>

bool cloudevent_name(struct text raw, char ret_name[CLOUDEVENT_NAME_BYTES])
{
    size_t length = raw.length >= 2 ? raw.length - 2 : 0; /* without its quotes */

    if (length == 0 || length >= CLOUDEVENT_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = raw.bytes[i + 1];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
            return false;
        }
        ret_name[i] = c;
    }
    ret_name[length] = '\0';
    return true;
}

bool cloudevent_is_field(const char *name)
{
    static const char *const fields[] = {"specversion", "id",      "source",         "type",
                                         "time",        "subject", "tenant",         "producer",
                                         "position",    "data",    "datacontenttype"};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(name, fields[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool cloudevent_is_integer(struct text raw)
{
    int64_t number;

    return json_kind(raw) == JSON_NUMBER && json_int_decode(raw, &number) == HF_OK &&
           number >= INT32_MIN && number <= INT32_MAX;
}

bool cloudevent_is_json(const char *content_type)
{
    size_t length = strcspn(content_type, "; \t");

    return (length == 16 && strncasecmp(content_type, "application/json", 16) == 0) ||
           (length == 9 && strncasecmp(content_type, "text/json", 9) == 0) ||
           (length > 5 && strncasecmp(content_type + length - 5, "+json", 5) == 0);
}
