/* Element types, numbered as in ONNX's TensorProto.DataType. */
#ifndef DPX_DTYPE_H
#define DPX_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    DT_NONE = 0,
    DT_FLOAT32 = 1,
    DT_UINT8 = 2,
    DT_INT8 = 3,
    DT_UINT16 = 4,
    DT_INT16 = 5,
    DT_INT32 = 6,
    DT_INT64 = 7,
    DT_STRING = 8, /* handles of strings; only the interpreter computes with them (graph/tensor/strings.h) */
    DT_BOOL = 9,   /* one byte, 0 or 1 */
    DT_FLOAT16 = 10,
    DT_FLOAT64 = 11,
    DT_UINT32 = 12,
    DT_UINT64 = 13,
    DT_COMPLEX64 = 14,
    DT_COMPLEX128 = 15,
    DT_BFLOAT16 = 16,
    DT_FLOAT8E4M3FN = 17, /* this and the following types: a byte for each element (graph/tensor/narrow_types.h) */
    DT_FLOAT8E4M3FNUZ = 18,
    DT_FLOAT8E5M2 = 19,
    DT_FLOAT8E5M2FNUZ = 20,
    DT_UINT4 = 21,
    DT_INT4 = 22,
    DT_FLOAT4E2M1 = 23,
    DT_FLOAT8E8M0 = 24,
    DT_UINT2 = 25,
    DT_INT2 = 26,
    DT_COUNT
} DType;

/* Sets of types, for OpDef.dtypes and Kernel.dtypes. */
#define DTYPE_BIT(t) (1u << (t))
#define DTYPES_F32_F64 (DTYPE_BIT(DT_FLOAT32) | DTYPE_BIT(DT_FLOAT64))
#define DTYPES_FLOAT (DTYPES_F32_F64 | DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16))
#define DTYPES_SIGNED (DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_INT16) | DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64))
#define DTYPES_UNSIGNED (DTYPE_BIT(DT_UINT8) | DTYPE_BIT(DT_UINT16) | DTYPE_BIT(DT_UINT32) | DTYPE_BIT(DT_UINT64))
#define DTYPES_INT (DTYPES_SIGNED | DTYPES_UNSIGNED)
#define DTYPES_NUMERIC (DTYPES_FLOAT | DTYPES_INT)
#define DTYPES_BOOL DTYPE_BIT(DT_BOOL)
#define DTYPES_ALL (DTYPES_NUMERIC | DTYPES_BOOL)
/* Types that only conversions compute with. */
#define DTYPES_SMALL_INT (DTYPE_BIT(DT_UINT4) | DTYPE_BIT(DT_INT4) | DTYPE_BIT(DT_UINT2) | DTYPE_BIT(DT_INT2))
#define DTYPES_SMALL_FLOAT                                                                  \
    (DTYPE_BIT(DT_FLOAT8E4M3FN) | DTYPE_BIT(DT_FLOAT8E4M3FNUZ) | DTYPE_BIT(DT_FLOAT8E5M2) | \
     DTYPE_BIT(DT_FLOAT8E5M2FNUZ) | DTYPE_BIT(DT_FLOAT4E2M1) | DTYPE_BIT(DT_FLOAT8E8M0))
#define DTYPES_SMALL (DTYPES_SMALL_INT | DTYPES_SMALL_FLOAT)
#define DTYPES_STORED (DTYPES_ALL | DTYPES_SMALL)
#define DTYPES_TEXT DTYPE_BIT(DT_STRING)

size_t dtype_size(DType t);          /* bytes of one element; 0: not a type */
const char *dtype_name(DType t);     /* "float32", "int64", ...; never NULL */
DType dtype_parse(const char *name); /* DT_NONE when unknown */
bool dtype_is_float(DType t);
bool dtype_is_int(DType t);
bool dtype_is_small(DType t);     /* one of DTYPES_SMALL */
bool dtype_is_small_int(DType t); /* one of DTYPES_SMALL_INT */
bool dtype_is_small_float(DType t);
unsigned dtype_bits(DType t); /* bits of an element in a file, where elements of less than 8 bits are packed */

#endif
