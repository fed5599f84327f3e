/*
 * show.c - how things look.
 *
 * A payload is cut where it is too long for people; `event show --payload` prints the very bytes.
 */
#include "cli/terminal/show.h"

#include "base/banned.h"
#include "base/text/json_read.h"
#include "base/text/utf8.h"
#include "base/time/time.h"
#include "cli/terminal/out.h"

#define LINE_BYTES_MAX ((size_t)1 << 30) /* of JSON: some thousand subscriptions are megabytes */
#define PAYLOAD_LINE_BYTES_MAX 200       /* of a payload that is shown on a line */
#define PAYLOAD_BLOCK_BYTES_MAX 4096     /* of a payload that is shown as a block */

/* ---- JSON ------------------------------------------------------------------------------------ */

struct json_out *show_line_begin(struct show_line *line)
{
    buf_init(&line->buf, LINE_BYTES_MAX);
    json_out_init(&line->json, &line->buf);
    json_object_begin(&line->json);
    return &line->json;
}

void show_line_end(struct show_line *line)
{
    json_object_end(&line->json);
    out_json_line(&line->buf);
    buf_release(&line->buf);
}

void show_line_drop(struct show_line *line)
{
    buf_release(&line->buf);
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

void show_receipt_line(bool as_json, const hf_receipt *receipt, int64_t due_us)
{
    struct show_line line;

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
    show_receipt(show_line_begin(&line), receipt, due_us);
    show_line_end(&line);
}

void show_changed(const char *name, const char *what, bool is_so)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "name", name);
    show_bool(json, what, is_so);
    show_line_end(&line);
}

void show_created(const char *name, bool created)
{
    show_changed(name, "created", created);
}

void show_answered(const char *subscription, const char *lease, const char *outcome)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "subscription", subscription);
    show_string(json, "lease", lease);
    show_string(json, "outcome", outcome);
    show_line_end(&line);
}

void show_granted(const char *const words[3], bool granted, bool changed)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "name", words[1]);
    show_string(json, "role", words[0]);
    show_string(json, "grantee", words[2]);
    show_bool(json, "granted", granted);
    show_bool(json, "changed", changed);
    show_line_end(&line);
}
