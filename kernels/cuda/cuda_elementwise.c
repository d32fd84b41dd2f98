/* The elementwise operators as expressions over the functions of kernels/cuda/device/elementwise.cuh: the rows of
 * kernels/formulas.def, and operators without a row. */
#include "graph/base/numtext.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/random.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"
#include "kernels/cuda/expr.h"

/* ---- rows of kernels/formulas.def: each calls the function of its name in namespace ew ---- */

#define EXPRESSION(Op, NAME, TYPES, ATTRS) \
    DEFINE_EXPR(cuda_##NAME, Op, .dtypes = TYPES_##TYPES, .function = #NAME, .attr = ATTRS_##ATTRS);
#define UNARY(Op, name, types, vectors, attributes, ...) EXPRESSION(Op, name, types, attributes)
#define BINARY(Op, name, types, vectors, attributes, ...) EXPRESSION(Op, name, types, attributes)
#define TEST1(Op, name, types, vectors, attributes, ...) EXPRESSION(Op, name, types, attributes)
#define TEST2(Op, name, types, vectors, attributes, ...) EXPRESSION(Op, name, types, attributes)
#define PART2(name, types, vectors, ...)
#include "kernels/formulas.def"

DEFINE_EXPR(cuda_cast, Cast, .function = "cast", .converts = true);
DEFINE_EXPR(cuda_pow, Pow, .function = "pow");

/* ---- any number of operands ---- */

static void write_mean(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    (void)g;
    fputs("ew::mean(", f);
    for (int i = 1; i < n->n_in; i++)
        fputs("ew::add(", f);
    fputs(arg[0], f);
    for (int i = 1; i < n->n_in; i++)
        fprintf(f, ", %s)", arg[i]);
    fprintf(f, ", %d)", n->n_in);
}

DEFINE_EXPR(cuda_sum, Sum, .function = "add", .folds = true);
DEFINE_EXPR(cuda_mean, Mean, .write = write_mean);
DEFINE_EXPR(cuda_max, Max, .function = "max", .folds = true);
DEFINE_EXPR(cuda_min, Min, .function = "min", .folds = true);

/* ---- choices ---- */

/* An absent bound does not bound. */
static void write_clip(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    const char *low = n->n_in > 1 ? arg[1] : NULL, *high = n->n_in > 2 ? arg[2] : NULL;

    (void)g;
    fprintf(f, "%s%s%s", high ? "ew::at_most(" : "", low ? "ew::at_least(" : "", arg[0]);
    fprintf(f, low ? ", %s)" : "%s", low ? low : "");
    fprintf(f, high ? ", %s)" : "%s", high ? high : "");
}

static void write_dropout_grad(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    double ratio = node_float(n, "ratio");
    char number[NUMBER_TEXT];

    (void)g;
    fprintf(f, "ew::masked(%s, %s, %s)", arg[0], arg[1], text_hex64(number, ratio < 1 ? 1 / (1 - ratio) : 0));
}

DEFINE_EXPR(cuda_where, Where, .function = "where");
DEFINE_EXPR(cuda_clip, Clip, .write = write_clip);
DEFINE_EXPR(cuda_dropout_grad, DropoutGrad, .write = write_dropout_grad);

/* ---- normalisation ---- */

DEFINE_EXPR(cuda_normalized, BatchNormApply, .function = "normalized", .n_arg = 5, .attr = { { "epsilon", NULL } });
