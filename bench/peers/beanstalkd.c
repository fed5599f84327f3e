/*
 * beanstalkd.c - beanstalkd: put publishes, reserve and delete consume, release and bury fail.
 *
 * Commands of one request are sent in one write; the server answers them one after the other, and
 * syncs its log for each put, delete, release and bury (-f0).
 */
#include "wire.h"

#include <string.h>

#define ATTEMPTS 3

struct beanstalkd {
    struct link link;
    struct wire wire;
    int replies;  /* that are still to come */
    bool settles; /* what was reserved is being settled */
    bool fails;
    bool waits;
    int reserved;
    long long ids[BATCH_MAX];
    unsigned char *attempts; /* of each job, by its id */
    long long attempts_room;
};

static struct link *beanstalkd_open(const struct task *task)
{
    struct beanstalkd *beanstalkd = need(calloc(1, sizeof *beanstalkd));
    wire_open(&beanstalkd->wire, task->address);
    beanstalkd->link.fd = beanstalkd->wire.fd;
    beanstalkd->waits = task->waits;
    beanstalkd->attempts_room = task->events + 1;
    beanstalkd->attempts = need(calloc((size_t)beanstalkd->attempts_room, 1));
    return &beanstalkd->link;
}

static void beanstalkd_publish(struct link *link, int count, int64_t number)
{
    struct beanstalkd *beanstalkd = (struct beanstalkd *)link;
    char payload[PAYLOAD_BYTES + 1];
    for (int i = 0; i < count; i++) {
        payload_make(payload, number + i);
        wire_put(&beanstalkd->wire, "put 0 0 120 %d\r\n%s\r\n", PAYLOAD_BYTES, payload);
    }
    beanstalkd->replies = count;
    beanstalkd->settles = true;
    wire_flush(&beanstalkd->wire);
}

static void reserve(struct beanstalkd *beanstalkd, int count)
{
    beanstalkd->replies = count;
    beanstalkd->reserved = 0;
    beanstalkd->settles = false;
    beanstalkd->link.got = 0;
    for (int i = 0; i < count; i++) {
        wire_put(&beanstalkd->wire, "reserve-with-timeout %d\r\n", beanstalkd->waits && i == 0);
    }
    wire_flush(&beanstalkd->wire);
}

static void beanstalkd_consume(struct link *link, int count)
{
    struct beanstalkd *beanstalkd = (struct beanstalkd *)link;
    beanstalkd->fails = false;
    reserve(beanstalkd, count);
}

static void beanstalkd_fail(struct link *link, int count)
{
    struct beanstalkd *beanstalkd = (struct beanstalkd *)link;
    beanstalkd->fails = true;
    reserve(beanstalkd, count);
}

/* Says of all that was reserved what became of it. */
static void settle(struct beanstalkd *beanstalkd)
{
    beanstalkd->settles = true;
    beanstalkd->replies = beanstalkd->reserved;
    for (int i = 0; i < beanstalkd->reserved; i++) {
        long long id = beanstalkd->ids[i];
        if (!beanstalkd->fails) {
            wire_put(&beanstalkd->wire, "delete %lld\r\n", id);
        } else if (id >= beanstalkd->attempts_room) {
            die("beanstalkd", "a job has a number that it should not have");
        } else if (++beanstalkd->attempts[id] < ATTEMPTS) {
            wire_put(&beanstalkd->wire, "release %lld 0 0\r\n", id);
        } else {
            wire_put(&beanstalkd->wire, "bury %lld 0\r\n", id);
        }
    }
    wire_flush(&beanstalkd->wire);
}

/* One answer; false: it has not come as a whole. */
static bool take_reply(struct beanstalkd *beanstalkd)
{
    struct wire *wire = &beanstalkd->wire;
    size_t before = wire->taken;
    char *line = wire_line(wire);
    long long id;
    size_t bytes;
    if (!line) {
        return false;
    }
    if (sscanf(line, "RESERVED %lld %zu", &id, &bytes) == 2) {
        char *payload = wire_block(wire, bytes);
        if (!payload) {
            line[strlen(line)] = '\r'; /* again when it is complete */
            wire->taken = before;
            return false;
        }
        beanstalkd->ids[beanstalkd->reserved++] = id;
        beanstalkd->link.got++;
        if (beanstalkd->link.received) {
            beanstalkd->link.received(payload, beanstalkd->link.ctx);
        }
        return true;
    }
    if (strncmp(line, "INSERTED ", 9) != 0 && strcmp(line, "DELETED") != 0 &&
        strcmp(line, "RELEASED") != 0 && strcmp(line, "BURIED") != 0 &&
        strcmp(line, "TIMED_OUT") != 0) {
        die("beanstalkd", line);
    }
    return true;
}

static bool beanstalkd_proceed(struct link *link)
{
    struct beanstalkd *beanstalkd = (struct beanstalkd *)link;
    wire_read(&beanstalkd->wire);
    while (beanstalkd->replies > 0) {
        if (!take_reply(beanstalkd)) {
            return false;
        }
        beanstalkd->replies--;
    }
    if (!beanstalkd->settles && beanstalkd->reserved > 0) {
        settle(beanstalkd);
        return false;
    }
    return true;
}

static void beanstalkd_close(struct link *link)
{
    struct beanstalkd *beanstalkd = (struct beanstalkd *)link;
    wire_close(&beanstalkd->wire);
    free(beanstalkd->attempts);
    free(beanstalkd);
}

const struct peer peer_beanstalkd = {
    .name = "beanstalkd",
    .open = beanstalkd_open,
    .publish = beanstalkd_publish,
    .consume = beanstalkd_consume,
    .fail = beanstalkd_fail,
    .proceed = beanstalkd_proceed,
    .close = beanstalkd_close,
};
