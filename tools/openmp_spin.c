/* Limits how long OpenMP's threads spin.  GNU's OpenMP counts rounds, not time, and by default spins for milliseconds
 * between two parallel regions.  On a busy machine a team then spends its time waiting for members that do not get a
 * core.  A round is measured, because the processor's pause takes from 3 to 50 nanoseconds.
 * https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html */
#include "tools/openmp_spin.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/base/spin.h"

enum { TRIALS = 8, ROUNDS = 64 };

void limit_spinning(char **argv)
{
    static const char *const variables[] = { "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME" };
    uint64_t least = UINT64_MAX; /* nanoseconds of ROUNDS rounds; slower trials were interrupted */
    char count[32];

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return;
    for (int t = 0; t < TRIALS; t++) {
        uint64_t from = spin_now(), took;

        for (int i = 0; i < ROUNDS; i++)
            cpu_relax();
        took = spin_now() - from;
        least = took < least ? took : least;
    }
    snprintf(count, sizeof count, "%llu",
             (unsigned long long)((uint64_t)SPIN_NANOSECONDS * ROUNDS / (least ? least : 1)));
    if (!setenv("GOMP_SPINCOUNT", count, 1) && !setenv("KMP_BLOCKTIME", "0", 1))
        execv("/proc/self/exe", argv);
}
