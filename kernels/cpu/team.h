/* Shares of work for a team of threads, so that sums are added in one order for a given team; and the failure of a
 * team. */
#ifndef DPX_KERNELS_CPU_TEAM_H
#define DPX_KERNELS_CPU_TEAM_H

#include <stdint.h>
#include <stdio.h>

#include "graph/base/status.h"
#include "kernels/backend.h"

enum { TEAM_MAX = 64, TEAM_GRAIN = 16384 }; /* elements below which another thread costs more than it brings */

/* Threads worth having for `work` elements. */
static inline int team_size(const KernelCtx *ctx, int64_t work)
{
    const int64_t most = work / (ctx->grain ? ctx->grain : TEAM_GRAIN) + 1;
    const int n = ctx->n_threads < TEAM_MAX ? ctx->n_threads : TEAM_MAX;

    return n < most ? n : (int)most;
}
/* Parts into which `work` elements are cut whatever the team, so that sums over parts have the same bits. */
static inline int team_parts(int64_t work) { return team_size(&(KernelCtx){ .n_threads = TEAM_MAX }, work); }
/* Part `t` of `team` equal parts of [0, n) begins here; part `team` at the end. */
static inline int64_t team_begin(int64_t n, int t, int team) { return n / team * t + (n % team < t ? n % team : t); }

/* The failure of a parallel region.  A thread's message stays in that thread, so the region copies it for the caller.
 * Begins as { 0 }. */
typedef struct {
    Status status;
    char message[512];
} TeamFailure;

/* Called in the region with any status; keeps the first failure. */
static inline void team_note(TeamFailure *f, Status st)
{
    if (!st)
        return;
#pragma omp critical
    if (!f->status) {
        f->status = st;
        snprintf(f->message, sizeof f->message, "%s", status_message());
    }
}

/* Called behind the region: ST_OK, or the failure as the caller's. */
CHECKED static inline Status team_status(const TeamFailure *f)
{
    return f->status ? FAIL(f->status, "%s", f->message) : ST_OK;
}

#endif
