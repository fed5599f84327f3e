/*
 * support_consumer.c - see support_consumer.h.
 *
 * A handler writes its line before it answers, so an event that was processed and not settled when
 * the process was killed is in the ledger: it may come again.
 */
#include "postgres/support_consumer.h"

#include "support/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "consume"

struct consumer_call {
    int fd;
    int handler_us;
};

hf_subscription_options consumer_options(char letter)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_START;
    options.mode = letter == 's' ? HF_MODE_SHARED : HF_MODE_ORDERED;
    options.order = letter == 'x' ? HF_ORDER_STRICT : HF_ORDER_RELAXED;
    options.concurrency = letter == 'x' ? 1 : 4;
    options.checkpoint_ms = 200;
    options.inflight_max = 100; /* so many are run one by one after a kill */
    return options;
}

hf_status consumer_subscribe(hf_bus *bus, char letter, hf_place from)
{
    hf_subscription_options options = consumer_options(letter);
    const char *pattern = "*";
    char name[2] = {letter, '\0'};

    options.from = from;
    return hf_subscription_create(bus, name, &pattern, 1, &options, NULL);
}

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct consumer_call *call = ctx;

    if (call->handler_us > 0) {
        usleep((useconds_t)call->handler_us);
    }
    rig_append(call->fd, "D %s %s %d %llx a %d", hf_delivery_subscription(delivery), event->id,
               (int)hf_delivery_attempt(delivery),
               (unsigned long long)rig_hash(event->payload, event->payload_bytes), (int)getpid());
    return HF_ACK;
}

bool consumer_is_asked_for(int argc, char **argv)
{
    return argc == 7 && strcmp(argv[1], MARK) == 0;
}

/* consume URL LEDGER LETTERS NAME HANDLER_US */
int consumer_main(int argc, char **argv)
{
    static struct consumer_call call;
    hf_options options = HF_OPTIONS_INIT;
    hf_subscription_options none = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_bus *bus = NULL;
    hf_status status;

    (void)argc;
    rig_child();
    call.fd = rig_append_open(argv[3]);
    call.handler_us = (int)strtol(argv[6], NULL, 10);
    options.node_name = argv[5];
    options.timeout_ms = CONSUMER_TIMEOUT_MS;
    status = hf_open(argv[2], &options, &bus);
    for (const char *letter = argv[4]; status == HF_OK && *letter; letter++) {
        char name[2] = {*letter, '\0'};

        status = hf_subscribe(bus, name, "*", handle, &call, &none, NULL);
    }
    if (!status) {
        status = hf_start(bus);
    }
    if (status) {
        fprintf(stderr, "# consumer: %s: %s\n", hf_status_name(status), hf_errmsg());
        return 3;
    }
    for (;;) {
        pause();
    }
}

pid_t consumer_start(const char *url, const char *ledger, const char *letters, const char *name,
                     int handler_us)
{
    char microseconds[16];

    snprintf(microseconds, sizeof microseconds, "%d", handler_us);
    return rig_start(MARK, url, ledger, letters, name, microseconds, NULL);
}

void consumer_kill(pid_t pid, int ledger_fd)
{
    rig_kill(pid);
    rig_append(ledger_fd, "K %d", (int)pid);
}
