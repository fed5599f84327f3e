/*
 * redis.c - Redis Streams: XADD publishes, a consumer group takes and acknowledges.
 *
 * A pipeline of XADD is one write of ours, and one sync of the server with `appendfsync always`.
 * Acknowledgements travel with the next read, in one write.
 */
#include "wire.h"

#include <string.h>

struct redis {
    struct link link;
    struct wire wire;
    struct bytes acks; /* XACK's ids of what was read last, as they are sent */
    int ack_count;
    int replies; /* that are still to come */
    bool waits;
    char last[64]; /* the id of the last event that was followed */
};

/* Reads a reply from `at`; where it ends, or NULL if it is not complete. With `redis`, hands over
 * ids and payloads: an answer to a read is nested [[stream, [[id, [field, payload]]]]]. */
static const char *reply_read(struct redis *redis, const char *at, const char *end, int depth,
                              long index)
{
    const char *line = at < end ? memmem(at, (size_t)(end - at), "\r\n", 2) : NULL;
    if (!line) {
        return NULL;
    }
    const char *next = line + 2;
    long count = strtol(at + 1, NULL, 10);
    if (*at == '-') {
        die("Redis", at);
    }
    if (*at == '*') {
        for (long i = 0; i < count && next; i++) {
            next = reply_read(redis, next, end, depth + 1, i);
        }
        return next;
    }
    if (*at != '$' || count < 0) {
        return next;
    }
    if (end - next < count + 2) {
        return NULL;
    }
    if (redis && depth == 4) {
        char head[32];
        int length = snprintf(head, sizeof head, "$%ld\r\n", count);
        bytes_put(&redis->acks, head, (size_t)length);
        bytes_put(&redis->acks, next, (size_t)count + 2);
        redis->ack_count++;
        snprintf(redis->last, sizeof redis->last, "%.*s", (int)count, next);
    } else if (redis && depth == 5 && index == 1) {
        redis->link.got++;
        if (redis->link.received) {
            redis->link.received(next, redis->link.ctx);
        }
    }
    return next + count + 2;
}

/* Waits for the answer to one command. */
static void redis_do(const char *address, const char *command)
{
    struct wire wire;
    wire_open(&wire, address);
    wire_put(&wire, "%s\r\n", command);
    wire_flush(&wire);
    do {
        usleep(100);
        wire_read(&wire);
    } while (!reply_read(NULL, wire.in.at, wire.in.at + wire.in.length, 0, 0));
    wire_close(&wire);
}

static void redis_prepare(const struct task *task)
{
    redis_do(task->address, "DEL s");
    redis_do(task->address, "XGROUP CREATE s g 0 MKSTREAM");
}

static struct link *redis_open(const struct task *task)
{
    struct redis *redis = need(calloc(1, sizeof *redis));
    wire_open(&redis->wire, task->address);
    redis->link.fd = redis->wire.fd;
    redis->waits = task->waits;
    snprintf(redis->last, sizeof redis->last, "0");
    return &redis->link;
}

static void redis_publish(struct link *link, int count, int64_t number)
{
    struct redis *redis = (struct redis *)link;
    char payload[PAYLOAD_BYTES + 1];
    for (int i = 0; i < count; i++) {
        payload_make(payload, number + i);
        wire_put(&redis->wire, "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nd\r\n$%d\r\n%s\r\n",
                 PAYLOAD_BYTES, payload);
    }
    redis->replies = count;
    wire_flush(&redis->wire);
}

static void redis_consume(struct link *link, int count)
{
    struct redis *redis = (struct redis *)link;
    redis->replies = 1;
    link->got = 0;
    if (redis->ack_count > 0) {
        wire_put(&redis->wire, "*%d\r\n$4\r\nXACK\r\n$1\r\ns\r\n$1\r\ng\r\n", redis->ack_count + 3);
        bytes_put(&redis->wire.out, redis->acks.at, redis->acks.length);
        redis->replies = 2;
    }
    redis->ack_count = 0;
    redis->acks.length = 0;
    wire_put(&redis->wire, "XREADGROUP GROUP g c COUNT %d %sSTREAMS s >\r\n", count,
             redis->waits ? "BLOCK 1000 " : "");
    wire_flush(&redis->wire);
}

static void redis_follow(struct link *link, int count)
{
    struct redis *redis = (struct redis *)link;
    (void)count;
    redis->replies = 1;
    redis->acks.length = 0;
    redis->ack_count = 0;
    link->got = 0;
    wire_put(&redis->wire, "XREAD BLOCK 1000 STREAMS s %s\r\n", redis->last);
    wire_flush(&redis->wire);
}

static bool redis_proceed(struct link *link)
{
    struct redis *redis = (struct redis *)link;
    struct wire *wire = &redis->wire;
    wire_read(wire);
    while (redis->replies > 0) {
        const char *at = wire->in.at + wire->taken;
        const char *end = wire->in.at + wire->in.length;
        const char *next = reply_read(NULL, at, end, 0, 0);
        if (!next) {
            return false;
        }
        reply_read(redis, at, end, 0, 0);
        wire->taken += (size_t)(next - at);
        redis->replies--;
    }
    return true;
}

static void redis_close(struct link *link)
{
    struct redis *redis = (struct redis *)link;
    wire_close(&redis->wire);
    free(redis->acks.at);
    free(redis);
}

const struct peer peer_redis = {
    .name = "redis",
    .prepare = redis_prepare,
    .open = redis_open,
    .publish = redis_publish,
    .consume = redis_consume,
    .follow = redis_follow,
    .proceed = redis_proceed,
    .close = redis_close,
};
