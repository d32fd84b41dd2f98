/* GNU's OpenMP counts rounds, not time, and by default spins for milliseconds between two parallel regions: on a
 * machine that has other work, a team then spends its time in waiting for members that do not get a processor.  How
 * long a round takes is measured, since the processor's pause takes from 3 to 50 nanoseconds.
 * https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html */
#include "tools/openmp_spin.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/base/spin.h"

enum { TRIALS = 8, ROUNDS = 64 };

/* Nanoseconds of ROUNDS rounds: the least of a few, as the others were interrupted. */
static uint64_t openmp_spin_measure(void)
{
    uint64_t least = UINT64_MAX;

    for (int t = 0; t < TRIALS; t++) {
        uint64_t from = spin_now(), took;

        for (int i = 0; i < ROUNDS; i++)
            cpu_relax();
        took = spin_now() - from;
        least = took < least ? took : least;
    }
    return least ? least : 1;
}

void limit_spinning(char **argv)
{
    static const char *const says_how[] = { "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME" };
    char count[32];

    for (size_t i = 0; i < sizeof says_how / sizeof *says_how; i++)
        if (getenv(says_how[i]))
            return;
    snprintf(count, sizeof count, "%llu",
             (unsigned long long)((uint64_t)SPIN_NANOSECONDS * ROUNDS / openmp_spin_measure()));
    if (!setenv("GOMP_SPINCOUNT", count, 1) && !setenv("KMP_BLOCKTIME", "0", 1))
        execv("/proc/self/exe", argv);
}
