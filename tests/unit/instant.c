/* instant.c - see instant.h. */
#include "instant.h"

#include "base/time/time.h"
#include "unit.h"

int64_t instant_us(const char *text)
{
    int64_t us;

    assert_ok(time_parse(text_of(text), &us));
    return us;
}

struct zone *zone_of(const char *name)
{
    struct zone *zone;

    if (zone_new(text_of(name), NULL, &zone) != HF_OK) {
        fail_msg("%s: %s", name, err_message());
    }
    return zone;
}
