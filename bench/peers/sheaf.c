/*
 * sheaf.c - events of one call of the library, and a backlog made of them.
 */
#include "library.h"

#include <string.h>
#include <sys/random.h>

void sheaf_make(struct sheaf *sheaf, int count, int ids)
{
    sheaf->count = count;
    sheaf->ids = ids;
    sheaf->events = need(calloc((size_t)count, sizeof sheaf->events[0]));
    sheaf->payloads = need(calloc((size_t)count, sizeof sheaf->payloads[0]));
    sheaf->keys = need(calloc((size_t)count, sizeof sheaf->keys[0]));
    sheaf->names = need(calloc((size_t)count, sizeof sheaf->names[0]));
    for (int i = 0; i < count; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        snprintf(sheaf->keys[i], sizeof sheaf->keys[i], "bench");
        event.type = "bench.event";
        event.key = sheaf->keys[i];
        event.id = ids > 0 ? sheaf->names[i] : NULL;
        event.payload = sheaf->payloads[i];
        event.payload_bytes = PAYLOAD_BYTES;
        sheaf->events[i] = event;
    }
}

void sheaf_free(struct sheaf *sheaf)
{
    free(sheaf->events);
    free(sheaf->payloads);
    free(sheaf->keys);
    free(sheaf->names);
}

/* A UUID: version 4 is random, version 7 begins with the time. */
static void make_id(char ret_id[37], int version)
{
    static const char digits[] = "0123456789abcdef";
    struct timespec now;
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        die("getrandom", "failed");
    }
    if (version == 7) {
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
        uint64_t big = __builtin_bswap64(ms << 16);
        memcpy(bytes, &big, 6);
    }
    bytes[6] = (uint8_t)(version << 4 | (bytes[6] & 15));
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    for (int i = 0; i < 16; i++) {
        *ret_id++ = digits[bytes[i] >> 4];
        *ret_id++ = digits[bytes[i] & 15];
        if (i == 3 || i == 5 || i == 7 || i == 9) {
            *ret_id++ = '-';
        }
    }
    *ret_id = '\0';
}

void sheaf_publish(struct sheaf *sheaf, hf_bus *bus, int64_t number, int64_t keys)
{
    for (int i = 0; i < sheaf->count; i++) {
        payload_make(sheaf->payloads[i], number + i);
        if (keys > 1) {
            snprintf(sheaf->keys[i], sizeof sheaf->keys[i], "k%lld",
                     (long long)((number + i) % keys));
        }
        if (sheaf->ids > 0) {
            make_id(sheaf->names[i], sheaf->ids);
        }
    }
    if (sheaf->count == 1) {
        check(hf_publish(bus, &sheaf->events[0], NULL), "hf_publish");
    } else {
        check(hf_publish_many(bus, sheaf->events, (size_t)sheaf->count, NULL), "hf_publish_many");
    }
}

void library_fill(const char *url, long long events, int64_t keys)
{
    hf_bus *bus = open_as(url, "bench");
    struct sheaf sheaf;
    sheaf_make(&sheaf, FILL_BATCH, 0);
    for (long long done = 0; done < events; done += FILL_BATCH) {
        sheaf_publish(&sheaf, bus, done, keys);
    }
    sheaf_free(&sheaf);
    check(hf_close(&bus), "hf_close");
}
