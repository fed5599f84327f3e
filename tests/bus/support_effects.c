/* support_effects.c - see support_effects.h. */
#include "support_effects.h"

void effects_make(struct scene *scene)
{
    tables_run(scene, "CREATE TABLE effects (position INTEGER, attempt INTEGER)");
}

bool effects_write(hf_delivery *delivery, const hf_event *event)
{
    return delivery_run(delivery, "INSERT INTO effects VALUES (%lld, %d)",
                        (long long)event->position, (int)hf_delivery_attempt(delivery));
}

hf_verdict effects_handle(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (!effects_write(delivery, event)) {
        hf_delivery_error(delivery, "no effect");
        return HF_DEAD;
    }
    return HF_ACK;
}

hf_subscription_options effects_options(void)
{
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    return options;
}
