/* Waiting for a word that another thread will change: spin for a while, because steps follow each other closely, then
 * yield, then sleep.  The clock decides when to go on to the next kind of waiting.
 *
 * On a busy machine, a spinning thread may occupy the processor of the thread that it waits for, so spinning is short.
 * A yielding thread checks again as soon as no other thread wants the processor.  Waking a sleeping thread takes as
 * long as a small layer, so sleep is only for long waits. */
#ifndef DPX_SPIN_H
#define DPX_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { SPIN_NANOSECONDS = 50000, YIELD_NANOSECONDS = 2000000, SPIN_BETWEEN_LOOKS = 16 };

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline uint64_t spin_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct {
    uint64_t since; /* start in nanoseconds; 0: sleep at once */
    unsigned rounds;
    bool yields;
} Spin;

/* The state before the first round; `wanted` false: sleep at once. */
static inline Spin spin_begin(bool wanted) { return (Spin){ wanted ? spin_now() : 0, 0, false }; }

/* Waits for one round; false: it is time to sleep. */
static inline bool spin_on(Spin *s)
{
    if (!s->since)
        return false;
    if (s->yields) {
        sched_yield();
        return spin_now() - s->since < YIELD_NANOSECONDS;
    }
    s->yields = ++s->rounds % SPIN_BETWEEN_LOOKS == 0 && spin_now() - s->since >= SPIN_NANOSECONDS;
    cpu_relax();
    return true;
}

#endif
