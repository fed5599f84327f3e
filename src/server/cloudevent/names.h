/*
 * names.h - what names and values of CloudEvents' attributes may be.
 */
#ifndef HF_SERVER_CLOUDEVENT_NAMES_H
#define HF_SERVER_CLOUDEVENT_NAMES_H

#include "base/text/text.h"

#include <stdbool.h>

#define CLOUDEVENT_NAME_BYTES 65      /* of an attribute's name, with its NUL */
#define CLOUDEVENT_KEPT "cloudevents" /* the member of the metadata that has what has no field */

/* The name that a JSON string says, of 1 to 64 lower case letters and digits. False: it is none. */
bool cloudevent_name(struct text raw, char ret_name[CLOUDEVENT_NAME_BYTES]);
/* Is it one that does not come from the kept ones, or not as it stands there? */
bool cloudevent_is_field(const char *name);
/* An integer of 32 bits, as JSON. */
bool cloudevent_is_integer(struct text raw);
/* application/json, text/json or one that ends with +json; parameters are allowed. */
bool cloudevent_is_json(const char *content_type);

#endif
