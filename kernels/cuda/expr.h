/* Elementwise operators of CUDA devices: each is an expression, from which kernels/cuda/cuda_generate.c makes kernels,
 * of one operator or of many in a row (kernels/cuda/cuda_fused.c).
 *
 * An expression calls a function of kernels/cuda/device/elementwise.cuh on the operands and, where the operator has
 * attributes, on their values.  Each row of kernels/formulas.def is one.  Others stand in kernels/cuda/<family>.c,
 * where the build finds DEFINE_EXPR( in column 0. */
#ifndef DPX_CUDA_EXPR_H
#define DPX_CUDA_EXPR_H

#include <stdio.h>

#include "kernels/cuda/cuda_generate.h"
#include "kernels/formulas.h"

typedef struct {
    const OpDef *op;
    unsigned dtypes;      /* of input 0; 0: all of the operator's */
    const char *function; /* in namespace ew */
    bool converts;        /* it gets the type that the output is stored in */
    bool folds;           /* of any number of operands, two by two from the left */
    int n_arg;            /* takes only so many of the node's inputs; 0: all */
    FormulaAttr attr[FORMULA_ATTRS];
    /* Writes the expression, in place of the fields above.  arg[i]: the text of operand i, NULL when
     * absent. */
    void (*write)(FILE *f, const Graph *g, const Node *n, const char *const *arg);
} CudaExpr;

extern const CudaExpr *const cuda_exprs[];
extern const int cuda_exprs_len;
const CudaExpr *cuda_expr_find(const Graph *g, const Node *n); /* NULL when there is none for its type */

/* ---- text ---- */

enum { EXPR_TEXT = 64 };
const char *cuda_stored_type(DType t);                         /* "bf16" */
const char *cuda_computed_type(DType t);                       /* "float" */
void cuda_expr_literal(char text[EXPR_TEXT], const Tensor *t); /* of one element */
int cuda_expr_args(const CudaExpr *e, const Node *n);          /* how many operands it takes */
void cuda_expr_write(FILE *f, const CudaExpr *e, const Graph *g, const Node *n, const char *const *arg);

/* ---- kernels ---- */

/* A kernel of one operator; kernels written for it by hand come first. */
#define DEFINE_EXPR(ident, Op, ...)                                  \
    const CudaExpr expr_##ident = { .op = &op_##Op, __VA_ARGS__ };   \
    const Kernel kernel_##ident = { .op = &op_##Op,                  \
                                    .name = #ident,                  \
                                    .rank = 50,                      \
                                    .layouts = kernel_channels_last, \
                                    .supports = generated_supports,  \
                                    .prepare = generated_prepare,    \
                                    .run = generated_run,            \
                                    .release = generated_release }

bool generated_supports(const Graph *g, const Node *n);
Status generated_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
Status generated_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) CHECKED;

/* The same for a body, a graph of elementwise nodes whose input i is the node's input i.  Consumes `body`. */
Status generated_prepare_body(void **state, KernelCtx *ctx, Graph *body) CHECKED;

#endif
