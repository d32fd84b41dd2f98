/* The array's length doubles, so that n additions copy fewer than 2 n elements. */
#include "graph/base/heap_array.h"

#include <stdlib.h>

void *heap_reserve(void *p, size_t size, size_t wanted, size_t *room)
{
    size_t more = *room ? *room : 16, bytes;
    void *moved;

    if (wanted <= *room)
        return p;
    while (more < wanted)
        if (__builtin_mul_overflow(more, (size_t)2, &more))
            return NULL;
    if (__builtin_mul_overflow(more, size, &bytes))
        return NULL;
    if ((moved = realloc(p, bytes)))
        *room = more;
    return moved;
}
