/* The facts about a kernel that kernels/cuda/cuda_generate.c collects and kernels/cuda/generate_text.c writes out. */
#ifndef DPX_CUDA_GENERATOR_H
#define DPX_CUDA_GENERATOR_H

#include "kernels/cuda/cuda_generate.h"
#include "kernels/cuda/expr.h"

typedef enum {
    AT_NONE,    /* not read */
    AT_LITERAL, /* a constant in the text */
    AT_SCALAR,  /* one element for all */
    AT_INDEX,   /* the element of this number */
    AT_ROW,     /* neighbours along the innermost dimension, at an offset */
    AT_SPLAT    /* one for a row of the innermost dimension, at an offset */
} Access;

typedef struct {
    const Graph *body;
    Generated *out;
    Arena *arena;
    FILE *f;
    Access *access;              /* [n_input] */
    bool *channels, *numpy;      /* [n_input] read as a vector of channels, as numpy broadcasts */
    bool *read;                  /* [n_value] by a node */
    int64_t (*stride)[MAX_RANK]; /* [n_input] innermost first */
    int64_t dim[MAX_RANK];
    int n_array;             /* of a kernel over many tensors: inputs that stand in its table; 0: it is none */
    int rank;                /* of the merged dimensions, at least 1 */
    int n_stored;            /* outputs that are written; the one behind them, if there is one, is summed */
    DType sum;               /* of the sum; DT_NONE: there is none */
    bool columns;            /* of a sum: as in ReductionPlan */
    int64_t inner;           /* of a sum: elements of the innermost merged axis */
    char (*text)[EXPR_TEXT]; /* [n_value] */
} Generator;

void generator_write(const Generator *g); /* to g->f */

#endif
