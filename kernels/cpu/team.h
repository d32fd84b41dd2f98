/* How work is cut for a team of threads, so that sums are added in one order for a given team. */
#ifndef DPX_KERNELS_CPU_TEAM_H
#define DPX_KERNELS_CPU_TEAM_H

#include <stdint.h>

enum { TEAM_MAX = 64, TEAM_GRAIN = 16384 }; /* elements below which another thread costs more than it brings */

/* Threads worth having for `work` elements. */
static inline int team_size(int n_threads, int64_t work)
{
    int64_t most = work / TEAM_GRAIN + 1;
    int n = n_threads < TEAM_MAX ? n_threads : TEAM_MAX;

    return n < most ? n : (int)most;
}
/* Part `t` of `team` equal parts of [0, n) begins here; part `team` at the end. */
static inline int64_t team_begin(int64_t n, int t, int team) { return n / team * t + (n % team < t ? n % team : t); }

#endif
