/* Fibers: stacks of their own that the simulation switches between, many times faster than by threads of the host. */
#ifndef DPX_TESTS_SIM_FIBER_H
#define DPX_TESTS_SIM_FIBER_H

#include <cstddef>

namespace sim
{

struct Fiber {
    void *context; /* where it stopped */
    char *stack;
    size_t stack_bytes;
    void *asan; /* of the sanitizer */
};

/* A new stack; `body` runs on it when it is first switched to, and must never return. */
Fiber *fiber_create(void (*body)());
/* `from` stops, `to` goes on.  A Fiber of zeros stands for the host's own stack. */
void fiber_switch(Fiber *from, Fiber *to);
/* Must be called first by `body`. */
void fiber_begin();
/* The fiber is as new: what it was doing is forgotten. */
void fiber_reset(Fiber *f, void (*body)());

} // namespace sim

#endif
