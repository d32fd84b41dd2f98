/* How C includes the table kernels/formulas.def: types and attributes of its rows, and one inline function a row and
 * type, formula_NAME_f32(x, attributes).
 *
 *     #define EXP(v) ...                         the functions that formulas call
 *     #define FORMULA_TYPES(types, vectors) types      or vectors: which types of a row get a function
 *     #include "kernels/formula_functions.h"     defines the functions
 *
 * With other definitions of UNARY, BINARY and the other row macros, the table can be included again for loops and
 * kernels. */
#ifndef DPX_KERNELS_FORMULAS_H
#define DPX_KERNELS_FORMULAS_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/ir/graph.h"

typedef int64_t I64;
typedef uint64_t U64;

/* An attribute that a formula reads: a number, or whether a string is `word`. */
typedef struct {
    const char *name, *word;
} FormulaAttr;
enum { FORMULA_ATTRS = 2 };

/* The values of the attributes; of a flag 0 or 1.  `attr` ends before the first without a name. */
void formula_numbers(double number[FORMULA_ATTRS], const FormulaAttr attr[FORMULA_ATTRS], const Node *n);

/* ---- sets of types: X(type, its C type, its suffix, ...) for each ---- */

#define EACH_NO(X, ...)
#define EACH_F32(X, ...) X(DT_FLOAT32, float, f32, __VA_ARGS__)
#define EACH_F64(X, ...) X(DT_FLOAT64, double, f64, __VA_ARGS__)
#define EACH_I64(X, ...) X(DT_INT64, int64_t, i64, __VA_ARGS__)
#define EACH_BOOL(X, ...) X(DT_BOOL, uint8_t, b8, __VA_ARGS__)
#define EACH_I8_TO_I32(X, ...)             \
    X(DT_INT8, int8_t, i8, __VA_ARGS__)    \
    X(DT_INT16, int16_t, i16, __VA_ARGS__) \
    X(DT_INT32, int32_t, i32, __VA_ARGS__)
#define EACH_UNSIGNED(X, ...)                \
    X(DT_UINT8, uint8_t, u8, __VA_ARGS__)    \
    X(DT_UINT16, uint16_t, u16, __VA_ARGS__) \
    X(DT_UINT32, uint32_t, u32, __VA_ARGS__) \
    X(DT_UINT64, uint64_t, u64, __VA_ARGS__)
#define EACH_SIGNED(X, ...) EACH_I8_TO_I32(X, __VA_ARGS__) EACH_I64(X, __VA_ARGS__)
#define EACH_INTS(X, ...) EACH_SIGNED(X, __VA_ARGS__) EACH_UNSIGNED(X, __VA_ARGS__)
#define EACH_FLOATS(X, ...) EACH_F32(X, __VA_ARGS__) EACH_F64(X, __VA_ARGS__)
#define EACH_FLOATS_SIGNED(X, ...) EACH_FLOATS(X, __VA_ARGS__) EACH_SIGNED(X, __VA_ARGS__)
#define EACH_NUMBERS(X, ...) EACH_FLOATS(X, __VA_ARGS__) EACH_INTS(X, __VA_ARGS__)
#define EACH_NUMBERS_BOOL(X, ...) EACH_NUMBERS(X, __VA_ARGS__) EACH_BOOL(X, __VA_ARGS__)
#define EACH_F32_F64(X, ...) EACH_FLOATS(X, __VA_ARGS__)
#define EACH_F32_F64_I64(X, ...) EACH_FLOATS(X, __VA_ARGS__) EACH_I64(X, __VA_ARGS__)

/* The sets as bits, with the 16-bit floats that CUDA computes in float. */
#define TYPES_BOOL DTYPES_BOOL
#define TYPES_UNSIGNED DTYPES_UNSIGNED
#define TYPES_INTS DTYPES_INT
#define TYPES_FLOATS DTYPES_FLOAT
#define TYPES_FLOATS_SIGNED (DTYPES_FLOAT | DTYPES_SIGNED)
#define TYPES_NUMBERS DTYPES_NUMERIC
#define TYPES_NUMBERS_BOOL (DTYPES_NUMERIC | DTYPES_BOOL)
#define TYPES_F32 DTYPE_BIT(DT_FLOAT32)
#define TYPES_F32_F64 DTYPES_F32_F64
#define TYPES_F32_F64_I64 (DTYPES_F32_F64 | DTYPE_BIT(DT_INT64))
/* Those that C has. */
#define TYPES_OF_C (DTYPES_F32_F64 | DTYPES_INT | DTYPES_BOOL)

/* ---- attributes: as parameters, as arguments from `p` (double[FORMULA_ATTRS]), and by name ---- */

#define PARAMS_NONE()
#define PARAMS_NUMBER(a) , double a
#define PARAMS_NUMBERS(a, b) , double a, double b
#define PARAMS_FLAG(a, attr, word) , bool a
#define PARAMS_FLAGS(a, attr, b, other) , bool a, bool b

#define ARGS_NONE()
#define ARGS_NUMBER(a) , p[0]
#define ARGS_NUMBERS(a, b) , p[0], p[1]
#define ARGS_FLAG(a, attr, word) , p[0] != 0
#define ARGS_FLAGS(a, attr, b, other) , p[0] != 0, p[1] != 0

#define ATTRS_NONE() \
    {                \
        {            \
            0        \
        }            \
    }
#define ATTRS_NUMBER(a) \
    {                   \
        {               \
#a, NULL    \
        }               \
    }
#define ATTRS_NUMBERS(a, b)        \
    {                              \
        { #a, NULL }, { #b, NULL } \
    }
#define ATTRS_FLAG(a, attr, word) \
    {                             \
        {                         \
#attr, word           \
        }                         \
    }
#define ATTRS_FLAGS(a, attr, b, other)    \
    {                                     \
        { #attr, NULL }, { #other, NULL } \
    }

#endif
