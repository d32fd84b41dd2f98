/* The table of element types: names, sizes and bits. */
#include "graph/tensor/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
    unsigned bits; /* 0: 8 * size */
} info[DT_COUNT] = {
    [DT_NONE] = { "none", 0, 0 },
    [DT_FLOAT32] = { "float32", 4, 0 },
    [DT_UINT8] = { "uint8", 1, 0 },
    [DT_INT8] = { "int8", 1, 0 },
    [DT_UINT16] = { "uint16", 2, 0 },
    [DT_INT16] = { "int16", 2, 0 },
    [DT_INT32] = { "int32", 4, 0 },
    [DT_INT64] = { "int64", 8, 0 },
    [DT_STRING] = { "string", sizeof(void *), 0 },
    [DT_BOOL] = { "bool", 1, 0 },
    [DT_FLOAT16] = { "float16", 2, 0 },
    [DT_FLOAT64] = { "float64", 8, 0 },
    [DT_UINT32] = { "uint32", 4, 0 },
    [DT_UINT64] = { "uint64", 8, 0 },
    [DT_COMPLEX64] = { "complex64", 8, 0 },
    [DT_COMPLEX128] = { "complex128", 16, 0 },
    [DT_BFLOAT16] = { "bfloat16", 2, 0 },
    [DT_FLOAT8E4M3FN] = { "float8e4m3fn", 1, 0 },
    [DT_FLOAT8E4M3FNUZ] = { "float8e4m3fnuz", 1, 0 },
    [DT_FLOAT8E5M2] = { "float8e5m2", 1, 0 },
    [DT_FLOAT8E5M2FNUZ] = { "float8e5m2fnuz", 1, 0 },
    [DT_FLOAT8E8M0] = { "float8e8m0", 1, 0 },
    [DT_UINT4] = { "uint4", 1, 4 },
    [DT_INT4] = { "int4", 1, 4 },
    [DT_FLOAT4E2M1] = { "float4e2m1", 1, 4 },
    [DT_UINT2] = { "uint2", 1, 2 },
    [DT_INT2] = { "int2", 1, 2 },
};

static bool known(DType t) { return (unsigned)t < DT_COUNT; }

size_t dtype_size(DType t) { return known(t) ? info[t].size : 0; }

const char *dtype_name(DType t) { return known(t) ? info[t].name : "unknown"; }

DType dtype_parse(const char *name)
{
    for (int t = 1; t < DT_COUNT; t++)
        if (!strcmp(name, info[t].name))
            return (DType)t;
    return DT_NONE;
}

bool dtype_is_float(DType t) { return known(t) && (DTYPE_BIT(t) & DTYPES_FLOAT); }

bool dtype_is_int(DType t) { return known(t) && (DTYPE_BIT(t) & DTYPES_INT); }

bool dtype_is_small(DType t) { return known(t) && (DTYPE_BIT(t) & DTYPES_SMALL); }

bool dtype_is_small_int(DType t) { return known(t) && (DTYPE_BIT(t) & DTYPES_SMALL_INT); }

bool dtype_is_small_float(DType t) { return known(t) && (DTYPE_BIT(t) & DTYPES_SMALL_FLOAT); }

unsigned dtype_bits(DType t) { return known(t) && info[t].bits ? info[t].bits : (unsigned)dtype_size(t) * 8; }
