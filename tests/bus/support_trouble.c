/*
 * support_trouble.c - see support_trouble.h.
 */
#include "support_trouble.h"

int trouble_setup(void **state)
{
    faulty_install();
    return scene_bare(state);
}

int trouble_teardown(void **state)
{
    faulty_reset();
    return scene_teardown(state);
}

void trouble_open(struct scene *scene)
{
    char url[600];

    snprintf(url, sizeof url, "faulty:%s", scene->url);
    assert_ok(hf_open(url, &scene->options, &scene->bus));
}

hf_verdict trouble_handle(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (strcmp(event->type, "bad") == 0 ||
        (strcmp(event->type, "once") == 0 && hf_delivery_attempt(delivery) == 1)) {
        hf_delivery_error(delivery, "failed");
        return HF_RETRY;
    }
    return HF_ACK;
}
