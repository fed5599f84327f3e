/*
 * show.c - how things look.
 *
 * A payload is embedded as it was published, so that a number never goes through a float. Two
 * things are changed on the way, neither of which changes the value: line ends and tabs between
 * tokens become spaces (one object is one line), and characters that could steer a terminal, which
 * JSON allows inside strings, become escapes. `event show --payload` prints the very bytes.
 */
#include "cli/core/show.h"

#include "base/banned.h"
#include "base/text/json_read.h"
#include "base/text/utf8.h"
#include "base/time/time.h"
#include "cli/core/out.h"

#define PAYLOAD_LINE_BYTES_MAX 200   /* of a payload that is shown on a line */
#define PAYLOAD_BLOCK_BYTES_MAX 4096 /* of a payload that is shown as a block */

/* ---- JSON ------------------------------------------------------------------------------------ */

void show_string(struct json_out *json, const char *key, const char *value)
{
    json_key(json, key);
    json_string(json, text_of(value));
}

void show_int(struct json_out *json, const char *key, int64_t value)
{
    json_key(json, key);
    if (value == -1) {
        json_null(json);
    } else {
        json_int(json, value);
    }
}

void show_bool(struct json_out *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void show_double(struct json_out *json, const char *key, double value)
{
    json_key(json, key);
    if (value < 0) {
        json_null(json);
    } else {
        json_double(json, value);
    }
}

void show_time(struct json_out *json, const char *key, int64_t us)
{
    char text[TIME_TEXT_BYTES];

    json_key(json, key);
    if (us == -1) {
        json_null(json);
        return;
    }
    time_format(us, text);
    json_string(json, text_of(text));
}

/* Whether a character of published JSON is written differently. */
static bool needs_care(uint32_t code)
{
    return utf8_is_control(code) || code == 0x2028 || code == 0x2029;
}

void show_raw(struct json_out *json, const char *key, const char *bytes, size_t length)
{
    struct buf safe;
    size_t kept = 0; /* bytes before this are in `safe` */
    size_t at = 0;

    json_key(json, key);
    if (!bytes) {
        json_null(json);
        return;
    }
    buf_init(&safe, length * 6 + 1);
    while (at < length) {
        uint32_t code = 0;
        size_t size = utf8_decode(bytes + at, length - at, &code);
        size = size ? size : 1;
        if (needs_care(code)) {
            buf_append(&safe, bytes + kept, at - kept);
            if (code == '\n' || code == '\r' || code == '\t') {
                buf_char(&safe, ' ');
            } else {
                buf_printf(&safe, "\\u%04x", (unsigned)code);
            }
            kept = at + size;
        }
        at += size;
    }
    if (kept == 0) {
        json_raw(json, (struct text){bytes, length});
    } else {
        buf_append(&safe, bytes + kept, length - kept);
        if (safe.failed && !json->buf->failed) {
            json->buf->failed = safe.failed; /* no memory: the line as a whole has failed */
        }
        json_raw(json, buf_text(&safe));
    }
    buf_release(&safe);
}

void show_event(struct json_out *json, const hf_event *event)
{
    show_int(json, "position", event->position);
    show_string(json, "id", event->id);
    show_string(json, "type", event->type);
    show_raw(json, "payload", event->payload, event->payload_bytes);
    show_string(json, "key", event->key);
    show_string(json, "tenant", event->tenant);
    show_raw(json, "metadata", event->metadata, event->metadata ? strlen(event->metadata) : 0);
    show_string(json, "producer", event->producer);
    show_string(json, "schedule_id", event->schedule_id);
    show_int(json, "key_version", event->key_version);
    show_time(json, "emitted_at", event->emitted_at_us);
    show_time(json, "entered_at", event->entered_at_us);
    show_string(json, "namespace", event->namespace_name);
    show_int(json, "deliveries", event->deliveries);
}

const char *show_choice_word(const char *choices, int value, char *ret_word, size_t bytes)
{
    const char *at = choices;

    for (int i = 1; i < value && *at; i++) {
        at += strcspn(at, "|");
        at += *at == '|';
    }
    if (value >= 1) {
        snprintf(ret_word, bytes, "%.*s", (int)strcspn(at, "|"), at);
    } else {
        snprintf(ret_word, bytes, "-");
    }
    return ret_word;
}

void show_choice(struct json_out *json, const char *key, const char *choices, int value)
{
    char word[32];

    json_key(json, key);
    if (value < 1) {
        json_null(json);
    } else {
        json_string(json, text_of(show_choice_word(choices, value, word, sizeof word)));
    }
}

void show_numbers(struct json_out *json, const hf_subscription_info *info)
{
    show_int(json, "checkpoint", info->checkpoint);
    show_int(json, "lag", info->lag);
    show_int(json, "pending", info->pending);
    show_bool(json, "pending_more", info->pending_more == 1);
    show_time(json, "oldest_waiting", info->oldest_waiting_us);
    show_double(json, "rate", info->rate);
    show_int(json, "in_flight", info->in_flight);
    show_int(json, "lease_ended", info->lease_ended);
    show_time(json, "claimed_at", info->claimed_at_us);
    show_int(json, "retrying", info->retrying);
    show_int(json, "held", info->held);
    show_int(json, "blocked", info->blocked);
    show_int(json, "dead", info->dead);
}

/* ---- Text ------------------------------------------------------------------------------------ */

void show_event_line(const hf_event *event)
{
    char time[OUT_WORDS_BYTES];

    printf("%s%" PRId64 "%s  %.19sZ  %s%s%s  %s", out_on(OUT_BOLD), event->position, out_off(),
           out_time(event->entered_at_us, time), out_on(OUT_DIM), event->id, out_off(),
           out_on(OUT_GREEN));
    out_text(event->type);
    fputs(out_off(), stdout);
    if (event->key) {
        fputs("  key=", stdout);
        out_text_cut(text_of(event->key), 64);
    }
    if (event->tenant) {
        fputs("  tenant=", stdout);
        out_text_cut(text_of(event->tenant), 64);
    }
    fputs("  ", stdout);
    out_text_cut((struct text){event->payload, event->payload_bytes}, PAYLOAD_LINE_BYTES_MAX);
    putchar('\n');
}

void show_field(const char *name, const char *value)
{
    if (!value) {
        return;
    }
    printf("%s%s:%s%*s", out_on(OUT_DIM), name, out_off(),
           strlen(name) < 18 ? (int)(18 - strlen(name)) : 1, "");
    out_text(value);
    putchar('\n');
}

void show_field_when(const char *name, int64_t us, int64_t now_us)
{
    char time[OUT_WORDS_BYTES];
    char when[OUT_WORDS_BYTES];
    char both[2 * OUT_WORDS_BYTES + 8];

    if (us == -1) {
        return;
    }
    snprintf(both, sizeof both, "%s (%s)", out_time(us, time), out_when(us, now_us, when));
    show_field(name, both);
}

void show_field_time(const char *name, int64_t us, int64_t now_us)
{
    show_field_when(name, us, us > now_us ? us : now_us);
}

void show_event_block(const hf_event *event, int64_t now_us)
{
    char words[OUT_WORDS_BYTES];

    show_field("id", event->id);
    show_field("type", event->type);
    show_field("namespace", event->namespace_name);
    if (event->position != 0) { /* it waits for its time */
        show_field("position", out_number(event->position, words));
    }
    show_field("key", event->key);
    show_field("tenant", event->tenant);
    if (event->key_version != -1) {
        show_field("key_version", out_number(event->key_version, words));
    }
    show_field("producer", event->producer);
    show_field("schedule_id", event->schedule_id);
    show_field_when("emitted_at", event->emitted_at_us, now_us);
    show_field_time("entered_at", event->entered_at_us, now_us);
    show_field("metadata", event->metadata);
    printf("%spayload:%s           ", out_on(OUT_DIM), out_off());
    out_text_cut((struct text){event->payload, event->payload_bytes}, PAYLOAD_BLOCK_BYTES_MAX);
    putchar('\n');
}

void show_attempts(const char *attempts_json)
{
    struct json_iter iter;
    struct text attempt;
    struct buf words;

    if (!attempts_json || !json_iter_init(&iter, text_of(attempts_json))) {
        return;
    }
    buf_init(&words, 65536);
    while (json_iter_next(&iter, NULL, &attempt)) {
        int64_t number = 0;
        json_find_int(attempt, "attempt", &number);
        printf("  attempt %" PRId64, number);
        buf_clear(&words);
        if (json_find_string(attempt, "at", &words) == HF_OK) {
            printf("  %s", out_on(OUT_DIM));
            out_text_bytes(buf_text(&words));
            fputs(out_off(), stdout);
        }
        buf_clear(&words);
        if (json_find_string(attempt, "node", &words) == HF_OK) {
            fputs("  ", stdout);
            out_text_bytes(buf_text(&words));
        }
        buf_clear(&words);
        if (json_find_string(attempt, "error", &words) == HF_OK) {
            fputs("  ", stdout);
            out_text_bytes(buf_text(&words));
        }
        putchar('\n');
    }
    buf_release(&words);
}

/* ---- Answers of commands that change something ----------------------------------------------- */

void show_receipt(bool as_json, const hf_receipt *receipt)
{
    struct buf line;
    struct json_out json;

    if (!as_json) {
        if (receipt->position == 0) {
            printf("waits  id %s", receipt->id);
        } else {
            printf("position %" PRId64 "  id %s", receipt->position, receipt->id);
        }
        if (receipt->key_version != -1) {
            printf("  version %" PRId64, receipt->key_version);
        }
        printf("%s%s\n", receipt->replaced ? "  (in place of one that waited)" : "",
               !receipt->duplicate      ? ""
               : receipt->position == 0 ? "  (waited already)"
                                        : "  (was in the log already)");
        return;
    }
    buf_init(&line, 4096);
    json_out_init(&json, &line);
    json_object_begin(&json);
    show_int(&json, "position", receipt->position);
    show_string(&json, "id", receipt->id);
    show_int(&json, "key_version", receipt->key_version);
    show_bool(&json, "duplicate", receipt->duplicate != 0);
    show_bool(&json, "replaced", receipt->replaced != 0);
    json_object_end(&json);
    out_json_line(&line);
    buf_release(&line);
}

void show_created(const char *name, bool created)
{
    struct buf line;
    struct json_out json;

    buf_init(&line, 65536);
    json_out_init(&json, &line);
    json_object_begin(&json);
    show_string(&json, "name", name);
    show_bool(&json, "created", created);
    json_object_end(&json);
    out_json_line(&line);
    buf_release(&line);
}
