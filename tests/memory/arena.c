/* The arena of this program, in place of the library's: every allocation has a block of its own, and so can fail by
 * itself, as one does by which the memory that planning may take is used up. */
#include "tests/memory/memory.h"

#include <stdbool.h>
#include <stdlib.h>

static long count, failing;
static void (*watch)(long number);

void memory_fail_at(long n)
{
    count = 0;
    failing = n;
}

void memory_watch(void (*seen)(long number)) { watch = seen; }

long memory_count(void) { return count; }

static void *block(size_t align, size_t n)
{
    const bool fails = ++count == failing;

    if (watch)
        watch(count);
    return fails ? NULL : aligned_alloc(align, n);
}

#define ARENA_OWN_FROM 1
#define host_alloc block
#include "graph/base/arena.c" /* NOLINT: this is the point */
