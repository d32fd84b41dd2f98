/* Shared by the forward and backward pass of Recurrent in float32, for the usual cells. */
#ifndef DPX_CPU_CPU_RECURRENT_H
#define DPX_CPU_CPU_RECURRENT_H

#include "graph/ops/recurrent.h"
#include "kernels/cpu/sgemm.h"
#include "kernels/cpu/team.h"

enum { PANEL = 16 }; /* columns that are packed together, a row of them behind the other */

typedef struct {
    Recurrence r;
    int team;
    int64_t panels; /* of `hidden` columns */
    size_t part[8]; /* where parts of scratch begin, in floats */
} RecurrentPlan;

/* One direction: tensors from where it begins. */
typedef struct {
    const RecurrentPlan *p;
    const Recurrence *r;
    int dir;
    const int32_t *lengths;
    int64_t row;    /* of `saved`, in floats */
    float *saved;   /* [steps, batch, row] */
    float *scratch; /* of the kernel */
} RecurrentRun;

/* Does the sequence have that position? */
static inline bool recurrent_has(const RecurrentRun *k, int64_t b, int64_t t)
{
    return !k->lengths || t < k->lengths[b];
}
/* Is it where the direction begins? */
static inline bool recurrent_begins(const RecurrentRun *k, int64_t b, int64_t t)
{
    return k->r->backward[k->dir] ? t == (k->lengths ? k->lengths[b] : k->r->steps) - 1 : t == 0;
}
static inline float *recurrent_part(const RecurrentRun *k, int i) { return k->scratch + k->p->part[i]; }

/* Takes `floats` of scratch for part i; *total counts floats. */
static inline void recurrent_take(RecurrentPlan *p, int i, size_t *total, int64_t floats)
{
    p->part[i] = *total;
    *total += ((size_t)floats + 15) / 16 * 16;
}

/* The plan's team and number of panels, where each multiplication of a step counts. */
void recurrent_divide(RecurrentPlan *p, const KernelCtx *ctx);
/* The units [*j, *end) of thread `t` of `team`. */
void recurrent_units(const RecurrentPlan *p, int t, int team, int64_t *j, int64_t *end);
/* Packs columns [at * PANEL, ...) of b [k, n], element (i, j) at i * bi + j * bj; zeros behind the last. */
void recurrent_pack(float *panel, const float *b, int64_t bi, int64_t bj, int64_t k, int64_t n, int64_t at);
/* c [m, cols] += a [m, k] * panel. */
void recurrent_add(int64_t m, int64_t cols, int64_t k, const float *a, int64_t lda, const float *panel, float *c,
                   int64_t ldc);
/* All inputs, also those behind the last that the node lists. */
void recurrent_inputs(Tensor all[RECG_INPUTS], const Recurrence *r, const Tensor *in);
/* The n numbers of direction `dir` of an optional tensor; zeros without it. */
void recurrent_load(float *to, const Tensor *from, int dir, int64_t n);
/* Is the node one of these kernels'?  Sigmoid and Tanh where they are usual, of RNN any of which the slope follows from
 * the value. */
bool recurrent_usual(const Graph *g, const Node *n);

#endif
