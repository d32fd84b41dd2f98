/* Every sum costs a latency, so few are cheap.  If sums overlap with computation, only the last bucket does not, so
 * small buckets hide more.  The model is that gradients are made at an even pace.  The smallest of the sizes within a
 * hundredth of the best is chosen, to save memory for data from other devices. */
#include "passes/partition/bucket_size.h"

#include <math.h>

enum { LEAST = 1 << 20, MOST_DOUBLINGS = 20 };

double bucket_size_wait(const SumCost *cost, int64_t bytes, double compute, int64_t bucket)
{
    double end = cost->beside ? 0 : compute;

    for (int64_t from = 0; from < bytes; from += bucket) {
        const int64_t to = from + bucket < bytes ? from + bucket : bytes;

        end = fmax(end, compute * (double)to / (double)bytes) + cost->seconds + cost->per_byte * (double)(to - from);
    }
    return fmax(end - compute, 0);
}

int64_t bucket_size_choose(double *seconds, const SumCost *cost, int64_t bytes, double compute)
{
    int64_t best = LEAST;

    *seconds = INFINITY;
    for (int k = 0; k < MOST_DOUBLINGS; k++) {
        const int64_t size = (int64_t)LEAST << k;
        const double wait = bucket_size_wait(cost, bytes, compute, size);

        if (wait < 0.99 * *seconds) {
            best = size;
            *seconds = wait;
        }
        if (size >= bytes)
            break;
    }
    return best;
}
