/*
 * intake.c - the door that every event comes through. See intake.h.
 *
 * What either engine would refuse is refused here, in C, before the event shares a commit with the
 * events of others: a bad one must not spoil a batch. A length is checked before the bytes are
 * looked at, so refusing what is far too long costs nothing.
 *
 * It is on the path of every publish: no allocation, no lock, one pass over each text.
 */
#include "bus/intake.h"

#include "base/err.h"
#include "base/text/glob.h"
#include "base/text/json_check.h"
#include "base/text/utf8.h"
#include "base/time/time.h"
#include "base/uuid.h"
#include "store/common/checksum.h"

#define UNIQUE_MS_MAX INT64_C(31622400000) /* 366 days */

hf_status intake_text(const char *string, const char *what, size_t bytes_max, struct text *ret_text)
{
    struct text text = text_of(string);
    if (text.length > bytes_max) {
        return fail(HF_INVALID, "%s is %zu bytes; the limit is %zu", what, text.length, bytes_max);
    }
    size_t valid = utf8_valid_bytes(text);
    if (valid < text.length) {
        return fail(HF_INVALID, "%s is not valid UTF-8 at byte %zu", what, valid);
    }
    *ret_text = text;
    return HF_OK;
}

hf_status intake_payload(const hf_bus *bus, const char *payload, size_t payload_bytes,
                         struct text *ret_payload)
{
    if (!payload) {
        if (payload_bytes != HF_AUTO_LENGTH && payload_bytes != 0) {
            return fail(HF_INVALID, "payload is NULL but payload_bytes is %zu", payload_bytes);
        }
        *ret_payload = (struct text)TEXT_LITERAL("null");
        return HF_OK;
    }
    size_t length = payload_bytes == HF_AUTO_LENGTH ? strlen(payload) : payload_bytes;
    if (length > (size_t)bus->payload_bytes_max) {
        return fail(HF_INVALID,
                    "payload is %zu bytes; the limit is %" PRId64 " (payload_bytes_max)", length,
                    bus->payload_bytes_max);
    }
    hf_status status = json_check(payload, length, NULL, "payload");
    if (status) {
        return status;
    }
    *ret_payload = (struct text){payload, length};
    return HF_OK;
}

static hf_status check_metadata(const char *metadata, struct text *ret_metadata)
{
    struct text text = text_of(metadata);
    if (text.length > HF_METADATA_BYTES_MAX) {
        return fail(HF_INVALID, "metadata is %zu bytes; the limit is %d", text.length,
                    HF_METADATA_BYTES_MAX);
    }
    if (metadata) {
        hf_status status = json_check_object(text.bytes, text.length, NULL, "metadata");
        if (status) {
            return status;
        }
    }
    *ret_metadata = text;
    return HF_OK;
}

/* Everything that is text: type, payload, key, tenant, metadata, producer. */
static hf_status check_texts(const hf_bus *bus, const hf_new_event *given, struct new_event *ret)
{
    if (!given->type) {
        return fail(HF_INVALID, "type is NULL; every event needs one");
    }
    ret->type = text_of(given->type);
    hf_status status = glob_check_type(ret->type);
    if (!status) {
        status = intake_payload(bus, given->payload, given->payload_bytes, &ret->payload);
    }
    if (!status) {
        status = intake_text(given->key, "key", HF_KEY_BYTES_MAX, &ret->key);
    }
    if (!status) {
        status = intake_text(given->tenant, "tenant", HF_KEY_BYTES_MAX, &ret->tenant);
    }
    if (!status) {
        status = check_metadata(given->metadata, &ret->metadata);
    }
    if (!status) {
        const char *producer = given->producer ? given->producer : bus->node_name;
        status = intake_text(producer, "producer", HF_PRODUCER_BYTES_MAX, &ret->producer);
    }
    return status;
}

static hf_status check_numbers(const hf_new_event *given, int64_t now_us, struct new_event *ret)
{
    int64_t emitted_at_us = given->emitted_at_us == -1 ? now_us : given->emitted_at_us;
    if (emitted_at_us < TIME_US_MIN || emitted_at_us > TIME_US_MAX) {
        return fail(HF_INVALID,
                    "emitted_at_us is %" PRId64 ", which is outside the years 0001 to 9999",
                    emitted_at_us);
    }
    int64_t version = given->expected_version;
    if (version < -1 || version == INT64_MAX) {
        return fail(HF_INVALID,
                    "expected_version is %" PRId64 "; it must be -1 (any) or 0 to %" PRId64,
                    version, INT64_MAX - 1);
    }
    if (version >= 0 && !given->key) {
        return fail(HF_INVALID,
                    "expected_version is %" PRId64 " but key is NULL: only a key has a version",
                    version);
    }
    ret->emitted_at_us = emitted_at_us;
    ret->expected_version = version;
    return HF_OK;
}

static hf_status check_replace(const hf_new_event *given, bool later)
{
    if (given->replace == 0 || (given->replace == 1 && given->unique && later)) {
        return HF_OK;
    }
    return fail(HF_INVALID,
                "replace is %d; it is 1 only for an event with unique and deliver_at_us, which "
                "takes the place of one that waits",
                (int)given->replace);
}

/* A unique key, and how long it counts. */
static hf_status check_unique(const hf_new_event *given, struct new_event *ret)
{
    if (!given->unique && given->unique_for_ms == -1 && given->replace == 0) {
        return HF_OK;
    }
    bool later = given->deliver_at_us != -1;
    int64_t ms = given->unique_for_ms;
    hf_status status = check_replace(given, later);
    if (status) {
        return status;
    }
    if (!given->unique) {
        return fail(HF_INVALID, "unique_for_ms is %" PRId64 " but unique is NULL", ms);
    }
    if (given->unique[0] == '\0') {
        return fail(HF_INVALID, "unique is empty; it has 1 to %d bytes", HF_UNIQUE_BYTES_MAX);
    }
    if (ms == -1 && !later) {
        return fail(HF_INVALID, "unique_for_ms is missing: it says how long no other event with "
                                "this unique key is stored");
    }
    if (ms != -1 && (ms < 1 || ms > UNIQUE_MS_MAX)) {
        return fail(HF_INVALID, "unique_for_ms is %" PRId64 "; it must be 1 to %" PRId64, ms,
                    UNIQUE_MS_MAX);
    }
    ret->unique_us = ms == -1 ? 0 : ms * 1000;
    return intake_text(given->unique, "unique", HF_UNIQUE_BYTES_MAX, &ret->unique);
}

static hf_status check_id(const char *id, int64_t now_us, uint8_t ret_id[UUID_BYTES])
{
    if (!id) {
        uuid_v7(now_us, ret_id);
        return HF_OK;
    }
    return uuid_parse(text_of(id), ret_id);
}

/* An event with deliver_at_us. */
static hf_status check_later(const hf_new_event *given)
{
    if (given->deliver_at_us < TIME_US_MIN || given->deliver_at_us > TIME_US_MAX) {
        return fail(HF_INVALID,
                    "deliver_at_us is %" PRId64 ", which is outside the years 0001 to 9999",
                    given->deliver_at_us);
    }
    if (given->expected_version >= 0) {
        return fail(HF_INVALID, "an event with deliver_at_us cannot expect a version: the key's "
                                "version at that time is not known");
    }
    return HF_OK;
}

/* All but the checksum. */
static hf_status check(const hf_bus *bus, const hf_new_event *event, int64_t now_us,
                       struct new_event *ret, int64_t *ret_deliver_at_us)
{
    hf_new_event own = HF_NEW_EVENT_INIT;
    hf_status status = bus_read_options(&own, sizeof own, offsetof(hf_new_event, expected_version),
                                        event, "hf_new_event");
    if (status) {
        return status;
    }
    *ret = (struct new_event){.key_version = -1};
    status = check_texts(bus, &own, ret);
    if (!status) {
        ret->made_id = !own.id;
        status = check_id(own.id, now_us, ret->id);
    }
    if (!status) {
        status = check_numbers(&own, now_us, ret);
    }
    if (!status && own.deliver_at_us != -1) {
        status = check_later(&own);
    }
    if (!status) {
        status = check_unique(&own, ret);
    }
    if (!status) {
        *ret_deliver_at_us = own.deliver_at_us;
    }
    return status;
}

/* The same for an event that enters the log now. */
static hf_status check_now(const hf_bus *bus, const hf_new_event *event, int64_t now_us,
                           struct new_event *ret)
{
    int64_t deliver_at_us = -1;
    hf_status status = check(bus, event, now_us, ret, &deliver_at_us);
    if (!status && deliver_at_us != -1) {
        status = fail(HF_INVALID, "deliver_at_us is only for hf_publish outside of transactions");
    }
    return status;
}

hf_status intake_check_later(const hf_bus *bus, const hf_new_event *event, int64_t now_us,
                             struct new_event *ret, int64_t *ret_deliver_at_us)
{
    hf_status status = check(bus, event, now_us, ret, ret_deliver_at_us);
    if (!status) {
        checksum_seal(ret);
    }
    return status;
}

hf_status intake_check(const hf_bus *bus, const hf_new_event *event, int64_t now_us,
                       struct new_event *ret)
{
    hf_status status = check_now(bus, event, now_us, ret);
    if (!status) {
        checksum_seal(ret);
    }
    return status;
}

hf_status intake_check_all(const hf_bus *bus, const hf_new_event *events, size_t count,
                           int64_t now_us, struct new_event *ret)
{
    const char *at = (const char *)events;
    size_t step = events->size;
    for (size_t i = 0; i < count; i++, at += step) {
        const hf_new_event *event = (const hf_new_event *)(const void *)at;
        hf_status status = event->size == step
                               ? check_now(bus, event, now_us, &ret[i])
                               : fail(HF_INVALID, "size is %zu; that of the first event is %zu",
                                      event->size, step);
        if (status) {
            return fail(status, "event %zu: %s", i, err_message());
        }
    }
    checksum_seal_all(ret, count);
    return HF_OK;
}
