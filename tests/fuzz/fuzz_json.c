/*
 * fuzz_json.c - any bytes, given to the JSON checker, reader and writer.
 *
 * Properties: what the checker accepts the reader walks to the end, every string in it decodes to
 * valid UTF-8 without NUL, a scan takes the same members, and writing the decoded values again
 * gives JSON that the checker accepts and that decodes to the same. What it refuses has a message.
 * The reader survives both.
 */
#include "base/err.h"
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "base/text/json_scan.h"
#include "base/text/json_write.h"
#include "base/text/utf8.h"
#include "fuzz.h"

#define BYTES_MAX (1 << 20)
#define TEXT_MAX ((size_t)8 * BYTES_MAX)

/* Decodes a string, writes it, decodes that: both must agree. */
static void check_string(struct text raw)
{
    struct buf decoded, written, again;
    struct json_out out;

    buf_init(&decoded, TEXT_MAX);
    buf_init(&written, TEXT_MAX);
    buf_init(&again, TEXT_MAX);
    HOLDS(json_string_decode(raw, &decoded) == HF_OK);
    HOLDS(utf8_is_valid(buf_text(&decoded)));
    HOLDS(!memchr(buf_text(&decoded).bytes, '\0', decoded.length));
    json_out_init(&out, &written);
    json_string(&out, buf_text(&decoded));
    HOLDS(json_check(written.bytes, written.length, NULL, "written") == HF_OK);
    HOLDS(json_string_decode(buf_text(&written), &again) == HF_OK);
    HOLDS(text_equal(buf_text(&decoded), buf_text(&again)));
    buf_release(&decoded);
    buf_release(&written);
    buf_release(&again);
}

static void check_value(struct text raw)
{
    struct text key, value, scanned_key, scanned;
    struct json_scan scan;
    struct json_iter iter;
    int64_t number;
    double real;

    switch (json_kind(raw)) {
    case JSON_STRING:
        check_string(raw);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT: /* the checker has bounded the depth of this recursion */
        HOLDS(json_iter_init(&iter, raw));
        json_scan_begin(&scan, raw, 0);
        HOLDS(json_scan_enter(&scan, json_kind(raw)));
        while (json_iter_next(&iter, &key, &value)) {
            HOLDS(json_scan_next(&scan, &scanned_key, &scanned));
            HOLDS(text_equal(scanned_key, key) && text_equal(scanned, value));
            HOLDS(iter.object == !text_is_absent(key));
            if (iter.object) {
                check_string(key);
            }
            HOLDS(json_check(value.bytes, value.length, NULL, "part") == HF_OK);
            check_value(value);
        }
        HOLDS(!iter.broken);
        HOLDS(!json_scan_more(&scan, NULL) && json_scan_end(&scan));
        HOLDS(iter.at < iter.end);
        return;
    case JSON_NUMBER:
        if (json_int_decode(raw, &number) == HF_OK && number > -1000000 && number < 1000000) {
            HOLDS(json_double_decode(raw, &real) == HF_OK && real == (double)number);
        }
        return;
    case JSON_BOOL:
        HOLDS(text_equal(raw, text_of("true")) || text_equal(raw, text_of("false")));
        return;
    case JSON_NULL:
        return;
    case JSON_NOTHING:
        HOLDS(false);
    }
}

/* The reader on bytes that were not checked: whatever it answers, it ends and stays inside. */
static void walk_unchecked(struct text raw)
{
    struct json_iter iter;
    struct text value;
    struct buf buf;

    buf_init(&buf, TEXT_MAX);
    if (json_iter_init(&iter, raw)) {
        for (int i = 0; i < 100 && json_iter_next(&iter, NULL, &value); i++) {
            (void)json_string_decode(value, &buf);
        }
    }
    (void)json_find_string(raw, "key", &buf);
    buf_release(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = size ? (const char *)data : "";
    struct text raw = {bytes, size};
    struct text trimmed = raw;

    if (size > BYTES_MAX) {
        return 0;
    }
    walk_unchecked(raw);
    err_set(HF_INVALID, "");
    if (json_check(bytes, size, NULL, "input") != HF_OK) {
        HOLDS(strncmp(err_message(), "input ", 6) == 0);
        HOLDS(json_check_object(bytes, size, NULL, "input") == HF_INVALID);
        return 0;
    }
    HOLDS(utf8_is_valid(raw));
    HOLDS((json_check_object(bytes, size, NULL, "input") == HF_OK) ==
          (json_kind(raw) == JSON_OBJECT));
    while (strchr(" \n\r\t", trimmed.bytes[0])) {
        trimmed.bytes++, trimmed.length--;
    }
    while (strchr(" \n\r\t", trimmed.bytes[trimmed.length - 1])) {
        trimmed.length--;
    }
    check_value(trimmed);
    return 0;
}
