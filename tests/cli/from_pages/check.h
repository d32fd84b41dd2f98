/* What the programs that call the pages' pieces of C share: numbers, and an end that says why. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(e)                                                                             \
    do {                                                                                      \
        if (!(e)) {                                                                           \
            fprintf(stderr, "%s:%d: expected %s: %s\n", __FILE__, __LINE__, #e, dpx_error()); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static float number(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (1 << 24);
}
