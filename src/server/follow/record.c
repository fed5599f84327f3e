/*
 * record.c - events as followers are sent them: a message of server-sent events each, whose id is
 * the position and whose data are the event as the API has it elsewhere, or as a CloudEvent.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "server/cloudevent/cloudevent.h"
#include "server/follow/follower.h"
#include "json/objects.h"

#define EVENT_BYTES_MAX 67108864
#define POSITION_BYTES 24

/* A record without a message. NULL: no memory (err). */
static struct record *make(int64_t position, const char *type, const char *key)
{
    size_t type_bytes = type ? strlen(type) + 1 : 0;
    size_t key_bytes = key ? strlen(key) + 1 : 0;
    struct record *record = mem_alloc(sizeof *record + type_bytes + key_bytes);

    if (!record) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    *record = (struct record){
        .position = position,
        .bytes = sizeof *record + type_bytes + key_bytes,
    };
    if (type) {
        record->type = memcpy(record->texts, type, type_bytes);
    }
    if (key) {
        record->key = memcpy(record->texts + type_bytes, key, key_bytes);
    }
    return record;
}

/* Gives the record a message; its data are taken out of the buffer. */
static bool add_message(struct record *record, enum form form, const char *name, struct buf *data)
{
    char id[POSITION_BYTES];

    snprintf(id, sizeof id, "%" PRId64, record->position);
    record->messages[form] =
        buf_status(data) == HF_OK ? message_new(id, name, buf_text(data)) : NULL;
    record->bytes += data->length;
    buf_clear(data);
    return record->messages[form] != NULL;
}

static void write_event(struct json_out *json, const hf_event *event, enum form form)
{
    if (form == FORM_CLOUDEVENT) {
        cloudevent_write(json, event);
        return;
    }
    json_object_begin(json);
    show_event(json, event);
    json_object_end(json);
}

struct record *record_new(const hf_event *event, unsigned forms)
{
    struct record *record = make(event->position, event->type, event->key);
    bool made = record != NULL;
    struct buf data;

    buf_init(&data, EVENT_BYTES_MAX);
    for (enum form form = FORM_NATIVE; made && form < FORMS; form++) {
        if (forms & 1U << form) {
            struct json_out json;
            json_out_init(&json, &data);
            write_event(&json, event, form);
            made = add_message(record, form, NULL, &data);
        }
    }
    buf_release(&data);
    if (!made) {
        record_free(record);
        return NULL;
    }
    return record;
}

struct record *record_of_damage(int64_t position, hf_status status)
{
    struct record *record = make(position, NULL, NULL);
    struct json_out json;
    struct buf data;

    buf_init(&data, EVENT_BYTES_MAX);
    json_out_init(&json, &data);
    json_object_begin(&json);
    show_int(&json, "position", position);
    show_string(&json, "detail", hf_errmsg());
    show_string(&json, "code", hf_status_name(status));
    json_object_end(&json);
    if (record && !add_message(record, FORM_NATIVE, "problem", &data)) {
        record_free(record);
        record = NULL;
    }
    if (record) { /* the same in all forms */
        record->messages[FORM_CLOUDEVENT] = message_ref(record->messages[FORM_NATIVE]);
    }
    buf_release(&data);
    return record;
}

void record_free(struct record *record)
{
    if (record) {
        for (enum form form = FORM_NATIVE; form < FORMS; form++) {
            message_put(record->messages[form]);
        }
        mem_free(record);
    }
}
