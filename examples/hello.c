/* hello.c - the smallest program: a handler subscribes, an event is published and handled. */
#include "temp.h"
#include <holdfast.h>

static hf_verdict greet(const hf_event *event, hf_delivery *delivery, void *greeted)
{
    printf("%s hears %s: %s\n", hf_delivery_subscription(delivery), event->type, event->payload);
    *(int *)greeted += 1;
    return HF_ACK;
}

int main(int argc, char **argv)
{
    int greeted = 0;
    hf_bus *bus = NULL;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "user.created";
    event.payload = "{\"name\": \"Ada\"}";
    if (hf_open(temp_database(argc, argv), NULL, &bus) ||
        hf_subscribe(bus, "greeter", "user.*", greet, &greeted, &options, NULL) || hf_start(bus) ||
        hf_publish(bus, &event, NULL) || hf_wait(bus, "greeter", -1, 10000)) {
        fprintf(stderr, "hello: %s\n", hf_errmsg());
    }
    return hf_close(&bus) == HF_OK && greeted == 1 ? 0 : 1;
}
