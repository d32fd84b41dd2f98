/* The suggestion of --lr-find.  Lightning and fastai take the steepest fall of all steps; here those behind the least
 * smoothed loss do not count, because noisy losses fall steeply between two peaks of a divergence. */
#include "tools/training/steepest_fall.h"

#include <math.h>

enum { LEFT_OUT = 10 /* first steps, and the last one, are left out */ };

/* The least smoothed loss among steps [from, to). */
static int64_t least_mean(const LrFindStep *step, int64_t from, int64_t to)
{
    int64_t least = from;

    for (int64_t i = from; i < to; i++)
        least = step[i].mean < step[least].mean ? i : least;
    return least;
}

int64_t steepest_fall(const LrFindStep *step, int64_t n)
{
    int64_t end = n - 1, best = -1, most;
    double least = 0;

    while (end > 0 && !isfinite(step[end - 1].mean))
        end--;
    most = end - LEFT_OUT > 1 ? least_mean(step, LEFT_OUT, end) : -1;
    for (int64_t i = LEFT_OUT; i <= most; i++) {
        const int64_t from = i > LEFT_OUT ? i - 1 : i, to = i + 1 < end ? i + 1 : i;
        const double slope = (step[to].mean - step[from].mean) / (double)(to - from);

        if (slope < least) {
            least = slope;
            best = i;
        }
    }
    return best;
}
