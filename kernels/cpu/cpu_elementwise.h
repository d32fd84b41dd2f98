/* Elementwise kernels as flat loops over rows.
 *
 * Broadcasting is resolved when the program is made: merged dimensions leave rows in which every operand either
 * advances by one element or stands still, and each operator has one loop for each of these patterns, without index
 * arithmetic. The threads of the team divide the elements of the output evenly; which thread computes an element does
 * not change it. */
#ifndef DPX_KERNELS_CPU_CPU_ELEMENTWISE_H
#define DPX_KERNELS_CPU_CPU_ELEMENTWISE_H

#include <stdlib.h>

#include "kernels/backend.h"
#include "kernels/broadcast.h"

/* How the operands of a row move: bit k set, operand k stands still. */
typedef void (*RowFn)(void *y, const void *a, const void *b, const void *c, int64_t n, const double *param);

typedef struct {
    RowFn fn, pattern[1 << MAX_OPERANDS]; /* fn: that of the walk's rows */
    BroadcastWalk walk;
    int64_t total; /* elements of the output */
    size_t in_size[MAX_OPERANDS], out_size;
    double param[2];
} Elementwise;

/* The walk over the inputs of `n` up to `operands`, the sizes, and the row functions by pattern, of 1 << operands
 * entries.  The state is an Elementwise.  An absent input is a NULL that stands still. */
Status elementwise_prepare(void **state, const Graph *g, const Node *n, int operands, const RowFn *table) CHECKED;
/* Elements [from, to) of the output, written to y on. */
void elementwise_range(const Elementwise *e, const Tensor *in, void *y, int64_t from, int64_t to);
Status elementwise_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) CHECKED;

#define UNUSED __attribute__((unused))
/* A kernel of rows. */
#define BY_ROWS .run = elementwise_run, .release = free, .layouts = kernel_same_layout, .shares = true, .by_rows = true
/* The head of a RowFn. */
#define ROW_FN(NAME)                                                                                    \
    static void NAME(void *yv, const void *av, UNUSED const void *bv, UNUSED const void *cv, int64_t n, \
                     UNUSED const double *param)
#define EACH_OF_ROW(...) \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) { __VA_ARGS__; }
/* Below this many elements a team costs more than it saves. */
enum { PARALLEL_ELEMENTS = 1 << 15 };

#endif
