/* Waiting for a word that another thread will change: spins for a while, because steps follow each other closely, then
 * sleeps.
 *
 * The while is short and told by the clock: on a machine that has other work, who waits by spinning keeps from its
 * processor the thread that it waits for. */
#ifndef DPX_SPIN_H
#define DPX_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { SPIN_NANOSECONDS = 50000, SPIN_BETWEEN_LOOKS = 16 };

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
    uint64_t until;
    unsigned rounds;
} Spin;

/* The state before the first round; `wanted` false: no round at all. */
static inline Spin spin_begin(bool wanted) { return (Spin){ wanted ? spin_now() + SPIN_NANOSECONDS : 0, 0 }; }

/* One round; false when it is time to sleep. */
static inline bool spin_on(Spin *s)
{
    if (!s->until || (++s->rounds % SPIN_BETWEEN_LOOKS == 0 && spin_now() >= s->until))
        return false;
    cpu_relax();
    return true;
}

#endif
