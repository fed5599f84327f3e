/*
 * nats.c - NATS JetStream: publishes that are acknowledged, and a durable consumer that is pulled.
 *
 * The last message of a pull is acknowledged for all of them (ack_policy all), and the
 * acknowledgement is confirmed, which is the cheapest way that a client has. A message's line is
 * "MSG subject number [reply-to] bytes"; one with headers, by which the server says that there is
 * nothing, is "HMSG subject number [reply-to] header-bytes bytes".
 */
#include "wire.h"

#include <string.h>

enum stage { ANSWERS, EVENTS, ACKNOWLEDGED };

struct nats {
    struct link link;
    struct wire wire;
    enum stage stage;
    int awaited; /* messages that are still to come */
    bool waits;
    char inbox[48];   /* the subject of answers to this link */
    char ack_to[256]; /* where the last event is acknowledged */
};

static void put_request(struct nats *nats, const char *subject, const char *body)
{
    wire_put(&nats->wire, "PUB %s %s %zu\r\n%s\r\n", subject, nats->inbox, strlen(body), body);
}

static struct link *nats_open(const struct task *task)
{
    static int count;
    struct nats *nats = need(calloc(1, sizeof *nats));
    wire_open(&nats->wire, task->address);
    nats->link.fd = nats->wire.fd;
    nats->waits = task->waits;
    snprintf(nats->inbox, sizeof nats->inbox, "_INBOX.%d.%d", (int)getpid(), ++count);
    wire_put(&nats->wire,
             "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n"
             "SUB %s 1\r\n",
             nats->inbox);
    wire_flush(&nats->wire);
    return &nats->link;
}

static void nats_close(struct link *link)
{
    struct nats *nats = (struct nats *)link;
    wire_close(&nats->wire);
    free(nats);
}

static void nats_publish(struct link *link, int count, int64_t number)
{
    struct nats *nats = (struct nats *)link;
    char payload[PAYLOAD_BYTES + 1];
    for (int i = 0; i < count; i++) {
        payload_make(payload, number + i);
        put_request(nats, "events", payload);
    }
    nats->stage = ANSWERS;
    nats->awaited = count;
    wire_flush(&nats->wire);
}

static void nats_consume(struct link *link, int count)
{
    struct nats *nats = (struct nats *)link;
    char pull[96];
    nats->stage = EVENTS;
    /* A pull that waits is over when it has brought one event. */
    nats->awaited = nats->waits ? 1 : count;
    link->got = 0;
    snprintf(pull, sizeof pull, "{\"batch\":%d,%s}", nats->awaited,
             nats->waits ? "\"expires\":1000000000" : "\"no_wait\":true");
    put_request(nats, "$JS.API.CONSUMER.MSG.NEXT.S.C", pull);
    wire_flush(&nats->wire);
}

/* A message whose line has been read: hands over an event, notes where to acknowledge it. */
static void take_message(struct nats *nats, const char *reply_to, const char *body, bool is_status)
{
    if (nats->stage != EVENTS && strstr(body, "\"error\"")) {
        die("NATS", body);
    }
    nats->awaited--;
    if (nats->stage == EVENTS && is_status) {
        nats->awaited = 0; /* there is no more */
    } else if (nats->stage == EVENTS) {
        snprintf(nats->ack_to, sizeof nats->ack_to, "%s", reply_to);
        nats->link.got++;
        if (nats->link.received) {
            nats->link.received(body, nats->link.ctx);
        }
    }
}

/* One line of the server's and what belongs to it; false: it has not come as a whole. */
static bool take_line(struct nats *nats)
{
    struct wire *wire = &nats->wire;
    size_t before = wire->taken;
    char *line = wire_line(wire);
    char words[5][128] = {0};
    if (!line) {
        return false;
    }
    bool is_status = strncmp(line, "HMSG ", 5) == 0;
    if (!is_status && strncmp(line, "MSG ", 4) != 0) {
        if (strcmp(line, "PING") == 0) {
            wire_put(wire, "PONG\r\n");
            wire_flush(wire);
        } else if (line[0] == '-') {
            die("NATS", line);
        }
        return true;
    }
    int count = sscanf(line, "%*s %127s %127s %127s %127s %127s", words[0], words[1], words[2],
                       words[3], words[4]);
    char *body = count >= 3 ? wire_block(wire, strtoul(words[count - 1], NULL, 10)) : NULL;
    if (!body) {
        line[strlen(line)] = '\r'; /* again when it is complete */
        wire->taken = before;
        return false;
    }
    take_message(nats, words[2], body, is_status);
    return true;
}

static bool nats_proceed(struct link *link)
{
    struct nats *nats = (struct nats *)link;
    wire_read(&nats->wire);
    while (nats->awaited > 0) {
        if (!take_line(nats)) {
            return false;
        }
    }
    if (nats->stage == EVENTS && link->got > 0) {
        nats->stage = ACKNOWLEDGED;
        nats->awaited = 1;
        put_request(nats, nats->ack_to, "+ACK");
        wire_flush(&nats->wire);
        return false;
    }
    return true;
}

/* A request to the server's own subjects, and its answer. */
static void manage(struct nats *nats, const char *subject, const char *body)
{
    nats->stage = ANSWERS;
    nats->awaited = 1;
    put_request(nats, subject, body);
    wire_flush(&nats->wire);
    while (!nats_proceed(&nats->link)) {
        usleep(100);
    }
}

static void nats_prepare(const struct task *task)
{
    struct nats *nats = (struct nats *)nats_open(task);
    manage(nats, "$JS.API.STREAM.CREATE.S",
           "{\"name\":\"S\",\"subjects\":[\"events\"],\"storage\":\"file\"}");
    manage(nats, "$JS.API.CONSUMER.DURABLE.CREATE.S.C",
           "{\"stream_name\":\"S\",\"config\":{\"durable_name\":\"C\",\"ack_policy\":\"all\","
           "\"deliver_policy\":\"all\",\"max_ack_pending\":1000000,\"max_waiting\":100000}}");
    nats_close(&nats->link);
}

const struct peer peer_nats = {
    .name = "nats",
    .prepare = nats_prepare,
    .open = nats_open,
    .publish = nats_publish,
    .consume = nats_consume,
    .proceed = nats_proceed,
    .close = nats_close,
};
