/* Reference kernels of the formulas in kernels/formulas.def: plain loops over one input, or over two that broadcast. */
#include "kernels/ref/ref_formulas.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "kernels/broadcast.h"
#include "kernels/ref/ref.h"

#define LOOP1(D, TYPE, S, NAME, R, ATTRS)                      \
    if (in[0].dtype == (D))                                    \
        for (int64_t i = 0, n = tensor_numel(out); i < n; i++) \
            ((R *)out->data)[i] = formula_##NAME##_##S(((const TYPE *)in[0].data)[i] ARGS_##ATTRS);
#define LOOP2(D, TYPE, S, NAME, R, ATTRS)                                     \
    if (in[0].dtype == (D)) {                                                 \
        const TYPE *a = in[0].data, *b = in[1].data;                          \
        R *y = out->data;                                                     \
        for (WALK(w, &out->shape, 2, in))                                     \
            for (int64_t i = 0; i < w.row; i++)                               \
                *y++ = formula_##NAME##_##S(a[AT(0)], b[AT(1)] ARGS_##ATTRS); \
    }
/* Where element i of the row is in operand k. */
#define AT(k) w.offset[k] + i *w.row_stride[k]
#define TO_T1(D, TYPE, S, NAME, ATTRS) LOOP1(D, TYPE, S, NAME, TYPE, ATTRS)
#define TO_T2(D, TYPE, S, NAME, ATTRS) LOOP2(D, TYPE, S, NAME, TYPE, ATTRS)
#define TO_BOOL1(D, TYPE, S, NAME, ATTRS) LOOP1(D, TYPE, S, NAME, bool, ATTRS)
#define TO_BOOL2(D, TYPE, S, NAME, ATTRS) LOOP2(D, TYPE, S, NAME, bool, ATTRS)

/* The state is the numbers of the attributes. */
#define PREPARE(NAME, ATTRS)                                                                  \
    static Status prepare_##NAME(void **state, KernelCtx *ctx, const Graph *g, const Node *n) \
    {                                                                                         \
        double p[FORMULA_ATTRS];                                                              \
        (void)ctx, (void)g;                                                                   \
        formula_numbers(p, (const FormulaAttr[FORMULA_ATTRS])ATTRS_##ATTRS, n);               \
        return kernel_state(state, p, sizeof p);                                              \
    }
#define RUN(NAME, LOOPS)                                                                 \
    static Status run_##NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) \
    {                                                                                    \
        const double *const p = state;                                                   \
        (void)ctx, (void)p;                                                              \
        LOOPS                                                                            \
        return ST_OK;                                                                    \
    }
#define KERNEL(Op, NAME, TYPES)                                                                                \
    DEFINE_KERNEL(ref_##NAME, .op = &op_##Op, .dtypes = TYPES_##TYPES & TYPES_OF_C, .prepare = prepare_##NAME, \
                  .run = run_##NAME, .release = free);

#define UNARY(Op, name, types, vectors, attributes, ...) \
    PREPARE(name, attributes)                            \
    RUN(name, EACH_##types(TO_T1, name, attributes)) KERNEL(Op, name, types)
#define BINARY(Op, name, types, vectors, attributes, ...) \
    PREPARE(name, attributes)                             \
    RUN(name, EACH_##types(TO_T2, name, attributes)) KERNEL(Op, name, types)
#define TEST1(Op, name, types, vectors, attributes, ...) \
    PREPARE(name, attributes)                            \
    RUN(name, EACH_##types(TO_BOOL1, name, attributes)) KERNEL(Op, name, types)
#define TEST2(Op, name, types, vectors, attributes, ...) \
    PREPARE(name, attributes)                            \
    RUN(name, EACH_##types(TO_BOOL2, name, attributes)) KERNEL(Op, name, types)
#define PART2(name, types, vectors, ...)
#include "kernels/formulas.def"
