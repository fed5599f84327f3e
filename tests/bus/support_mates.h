/*
 * support_mates.h - processes that work together for one partitioned subscription.
 *
 * A mate is this program started again (support_actor.h) as the part "work". It works for the
 * subscription "a" and writes to the scene's diary: "R name" when it is ready, "D name key
 * position" for every call of its handler. It stops when a line "STOP name" is there.
 */
#ifndef TESTS_BUS_SUPPORT_MATES_H
#define TESTS_BUS_SUPPORT_MATES_H

#include "support_actor.h"

#define MATES_KEYS_MAX 64

/* Options of a subscription that mates share. -1 partitions: as many as it has. */
hf_subscription_options mates_share(int32_t partitions, int32_t concurrency);

/* From now on mates have short leases, for tests that freeze one. Without it their leases are long:
 * a process that a busy machine lets wait is not frozen. */
void mates_have_short_leases(void);

/* The part: URL DIARY NAME PARTITIONS CONCURRENCY [POINT]; it is killed at the point. */
int mates_work(int argc, char **argv);
#define MATES_PART                                                                                 \
    {                                                                                              \
        "work", mates_work                                                                         \
    }

/* Starts one and waits until it is ready. `point` may be NULL. */
pid_t mates_start(struct scene *scene, const char *name, int32_t partitions, int32_t concurrency,
                  const char *point);
/* Tells it to stop; it goes when it has given back what it owns. */
void mates_stop(struct scene *scene, const char *name);
/* The diary's path; static memory. */
const char *mates_diary(struct scene *scene);

/* Publishes `each` rounds of one event of each key k0, k1, ... */
void mates_publish(hf_bus *bus, int keys, int each);
/* Every position up to `last` was delivered, and each key in order, but for what was repeated.
 * Answers how many deliveries there were. */
size_t mates_assert_done(struct scene *scene, int64_t last);

#endif
