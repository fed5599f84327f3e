/*
 * clock.c - the wall clock, the monotonic clock, and their stand-ins.
 *
 * The flag is read with acquire and written after the values with release, so a thread that sees
 * the fake clock sees its values too. The two fake values are separate atomics: a reader may meet
 * one before and one after an advance, just as two reads of real clocks are not one.
 */
#include "base/time/clock.h"
#include "base/banned.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic bool fake_on;
static _Atomic int64_t fake_wall_us;
static _Atomic int64_t fake_mono_us;

static int64_t read_us(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool clock_is_fake(void)
{
    return atomic_load_explicit(&fake_on, memory_order_acquire);
}

int64_t clock_wall_us(void)
{
    return clock_is_fake() ? atomic_load(&fake_wall_us) : read_us(CLOCK_REALTIME);
}

int64_t clock_mono_us(void)
{
    return clock_is_fake() ? atomic_load(&fake_mono_us) : read_us(CLOCK_MONOTONIC);
}

int64_t clock_steady_us(void)
{
    return clock_is_fake() ? atomic_load(&fake_mono_us) : read_us(CLOCK_BOOTTIME);
}

int64_t clock_real_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

void clock_fake_set(int64_t wall_us, int64_t mono_us)
{
    atomic_store(&fake_wall_us, wall_us);
    atomic_store(&fake_mono_us, mono_us);
    atomic_store_explicit(&fake_on, true, memory_order_release);
}

void clock_fake_advance(int64_t us)
{
    atomic_fetch_add(&fake_wall_us, us);
    atomic_fetch_add(&fake_mono_us, us);
}

void clock_fake_off(void)
{
    atomic_store_explicit(&fake_on, false, memory_order_release);
}
