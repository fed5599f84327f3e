/*
 * clock.h - the only two clocks the library reads, and how a test replaces them.
 *
 * Time is read once per operation and passed down; pure logic never calls these. The fake clock
 * stands still until it is advanced. It exists in every build because it costs one load; nothing
 * but a test calls clock_fake_set.
 */
#ifndef HF_BASE_TIME_CLOCK_H
#define HF_BASE_TIME_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Microseconds since the epoch, UTC. May jump. */
int64_t clock_wall_us(void);

/* Microseconds of CLOCK_MONOTONIC. Never goes back. */
int64_t clock_mono_us(void);

/* Microseconds of a clock that cannot be set and that goes on while the machine sleeps. */
int64_t clock_steady_us(void);

/* Microseconds of CLOCK_MONOTONIC, also while the clocks are fake: for what lasts whether a test
 * moves these on or not. */
int64_t clock_real_us(void);

/* From now on both clocks of this process stand at these values. */
void clock_fake_set(int64_t wall_us, int64_t mono_us);

/* Moves both fake clocks. Waits of base/thread.h notice within a millisecond. */
void clock_fake_advance(int64_t us);

bool clock_is_fake(void);

/* Back to the real clocks. */
void clock_fake_off(void);

#endif
