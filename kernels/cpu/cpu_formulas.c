/* Vector loops of the formulas in kernels/formulas.def: a row of one operand, or of two that broadcast. */
#include "kernels/cpu/cpu_formulas.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "kernels/cpu/cpu_elementwise.h"

enum { ROWS_f32, ROWS_f64, ROWS_i64, ROWS_b8, ROWS_TYPES };

/* row: the loops of a formula, by type and, where an attribute is a flag, by its value; then by how the operands move,
 * as elementwise_prepare takes them. */
static Status prepare(void **state, const Graph *g, const Node *n, int operands, const FormulaAttr attr[FORMULA_ATTRS],
                      const RowFn row[ROWS_TYPES][2][4])
{
    const DType t = in_value(g, n, 0)->dtype;
    const int type = t == DT_FLOAT32 ? ROWS_f32 : t == DT_FLOAT64 ? ROWS_f64 : t == DT_INT64 ? ROWS_i64 : ROWS_b8;
    double number[FORMULA_ATTRS];
    int flag;
    Elementwise *e;

    formula_numbers(number, attr, n);
    flag = row[type][1][0] && number[0] != 0;
    TRY(elementwise_prepare(state, g, n, operands, row[type][flag]));
    e = *state;
    memcpy(e->param, number, sizeof number);
    return ST_OK;
}

/* ---- loops; a flag is a constant of each ---- */

#define CALL_NONE()
#define CALL_NUMBER(a) , param[0]
#define CALL_NUMBERS(a, b) , param[0], param[1]
#define CALL_FLAG(a, attr, word) , flag
/* IF_FLAG_x(...)(text) is text for a row with a flag, and nothing for the others. */
#define IF_FLAG_NONE() NOTHING
#define IF_FLAG_NUMBER(a) NOTHING
#define IF_FLAG_NUMBERS(a, b) NOTHING
#define IF_FLAG_FLAG(a, attr, word) EVERYTHING
#define NOTHING(...)
#define EVERYTHING(...) __VA_ARGS__

#define LOOP(NAME, FORMULA, TYPE, R, ATTRS, FLAG, ...)                  \
    ROW_FN(NAME)                                                        \
    {                                                                   \
        UNUSED const bool flag = FLAG;                                  \
        UNUSED const TYPE *a = av, *b = bv;                             \
        R *y = yv;                                                      \
        EACH_OF_ROW(y[i] = formula_##FORMULA(__VA_ARGS__ CALL_##ATTRS)) \
    }
/* One operand, which advances: it has the shape of the output. */
#define LOOPS1(F, TYPE, R, ATTRS, FLAG) LOOP(F##_##FLAG, F, TYPE, R, ATTRS, FLAG, a[i])
/* Both operands advance, or one of them stands still. */
#define LOOPS2(F, TYPE, R, ATTRS, FLAG)                      \
    LOOP(F##_vv_##FLAG, F, TYPE, R, ATTRS, FLAG, a[i], b[i]) \
    LOOP(F##_sv_##FLAG, F, TYPE, R, ATTRS, FLAG, a[0], b[i]) \
    LOOP(F##_vs_##FLAG, F, TYPE, R, ATTRS, FLAG, a[i], b[0])
#define LISTED1(F, FLAG)       \
    {                          \
        F##_##FLAG, F##_##FLAG \
    }
#define LISTED2(F, FLAG)                                           \
    {                                                              \
        F##_vv_##FLAG, F##_sv_##FLAG, F##_vs_##FLAG, F##_vv_##FLAG \
    }

#define DEFINE(N, F, TYPE, R, ATTRS) LOOPS##N(F, TYPE, R, ATTRS, 0) IF_FLAG_##ATTRS(LOOPS##N(F, TYPE, R, ATTRS, 1))
#define LIST(N, F, S, ATTRS) [ROWS_##S] = { LISTED##N(F, 0), IF_FLAG_##ATTRS(LISTED##N(F, 1)) },
#define DEFINE_T1(D, TYPE, S, NAME, ATTRS) DEFINE(1, NAME##_##S, TYPE, TYPE, ATTRS)
#define DEFINE_T2(D, TYPE, S, NAME, ATTRS) DEFINE(2, NAME##_##S, TYPE, TYPE, ATTRS)
#define DEFINE_BOOL1(D, TYPE, S, NAME, ATTRS) DEFINE(1, NAME##_##S, TYPE, uint8_t, ATTRS)
#define DEFINE_BOOL2(D, TYPE, S, NAME, ATTRS) DEFINE(2, NAME##_##S, TYPE, uint8_t, ATTRS)
#define LIST1(D, TYPE, S, NAME, ATTRS) LIST(1, NAME##_##S, S, ATTRS)
#define LIST2(D, TYPE, S, NAME, ATTRS) LIST(2, NAME##_##S, S, ATTRS)

/* ---- kernels, of rows that name vector types ---- */

#define PREPARE(NAME, N, VECTORS, ATTRS)                                                      \
    static Status prepare_##NAME(void **state, KernelCtx *ctx, const Graph *g, const Node *n) \
    {                                                                                         \
        static const FormulaAttr attr[FORMULA_ATTRS] = ATTRS_##ATTRS;                         \
        static const RowFn row[ROWS_TYPES][2][4] = { EACH_##VECTORS(LIST##N, NAME, ATTRS) };  \
        (void)ctx;                                                                            \
        return prepare(state, g, n, N, attr, row);                                            \
    }
#define KERNEL(Op, NAME, VECTORS) \
    DEFINE_KERNEL(cpu_##NAME, .op = &op_##Op, .dtypes = TYPES_##VECTORS, .prepare = prepare_##NAME, BY_ROWS)
#define ROW(Op, NAME, N, R, VECTORS, ATTRS) \
    EACH_##VECTORS(DEFINE_##R, NAME, ATTRS) \
        HAVING_##VECTORS(PREPARE(NAME, N, VECTORS, ATTRS) KERNEL(Op, NAME, VECTORS);)
#define HAVING_NO(...)
#define HAVING_BOOL(...) __VA_ARGS__
#define HAVING_F32(...) __VA_ARGS__
#define HAVING_F32_F64(...) __VA_ARGS__
#define HAVING_F32_F64_I64(...) __VA_ARGS__

#define UNARY(Op, name, types, vectors, attributes, ...) ROW(Op, name, 1, T1, vectors, attributes)
#define BINARY(Op, name, types, vectors, attributes, ...) ROW(Op, name, 2, T2, vectors, attributes)
#define TEST1(Op, name, types, vectors, attributes, ...) ROW(Op, name, 1, BOOL1, vectors, attributes)
#define TEST2(Op, name, types, vectors, attributes, ...) ROW(Op, name, 2, BOOL2, vectors, attributes)
#define PART2(name, types, vectors, ...)
#include "kernels/formulas.def"

/* ---- Max and Min of two ---- */

static bool supports_two(const Graph *g, const Node *n)
{
    (void)g;
    return n->n_in == 2;
}

EACH_F32_F64(DEFINE_T2, max, NONE())
EACH_F32_F64(DEFINE_T2, min, NONE())
PREPARE(max, 2, F32_F64, NONE())
PREPARE(min, 2, F32_F64, NONE())

#define TWO_OPERANDS(NAME) .dtypes = DTYPES_F32_F64, .supports = supports_two, .prepare = prepare_##NAME, BY_ROWS

DEFINE_KERNEL(cpu_max, .op = &op_Max, TWO_OPERANDS(max));
DEFINE_KERNEL(cpu_min, .op = &op_Min, TWO_OPERANDS(min));
