/* Kernels that are one family of functions F_f32, F_f64, F_i8 ... of a template: kernels/each_type.inc. */
#ifndef DPX_KERNELS_TYPED_H
#define DPX_KERNELS_TYPED_H

#include "kernels/backend.h"

/* Sets of types, for the preprocessor. */
#define OF_F32 1
#define OF_F64 2
#define OF_I8 4
#define OF_I16 8
#define OF_I32 16
#define OF_I64 32
#define OF_U8 64
#define OF_U16 128
#define OF_U32 256
#define OF_U64 512
#define OF_BOOL 1024
#define OF_FLOATS (OF_F32 | OF_F64)
#define OF_INTS (OF_I8 | OF_I16 | OF_I32 | OF_I64 | OF_U8 | OF_U16 | OF_U32 | OF_U64)
#define OF_NUMBERS (OF_FLOATS | OF_INTS)

#define IS_FLOAT(T) ((T)0.5 != 0)

/* Entries of a table of functions by type: `static Fn *const f[] = { OF_EACH_NUMBER(f) }`, called as f[dtype](...).  A
 * kernel's dtypes say which it may be called with. */
#define OF_EACH_FLOAT(F) [DT_FLOAT32] = F##_f32, [DT_FLOAT64] = F##_f64
#define OF_EACH_SIGNED(F) [DT_INT8] = F##_i8, [DT_INT16] = F##_i16, [DT_INT32] = F##_i32, [DT_INT64] = F##_i64
#define OF_EACH_UNSIGNED(F) [DT_UINT8] = F##_u8, [DT_UINT16] = F##_u16, [DT_UINT32] = F##_u32, [DT_UINT64] = F##_u64
#define OF_EACH_INT(F) OF_EACH_SIGNED(F), OF_EACH_UNSIGNED(F)
#define OF_EACH_NUMBER(F) OF_EACH_FLOAT(F), OF_EACH_INT(F)

/* Defines the run function NAME: calls the F of input 0's type, of float32 and float64; the arguments may use ctx,
 * state, in and out. */
#define RUN_FLOAT(NAME, F, ...)                                                    \
    static Status NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) \
    {                                                                              \
        (void)ctx, (void)state;                                                    \
        in[0].dtype == DT_FLOAT32 ? F##_f32(__VA_ARGS__) : F##_f64(__VA_ARGS__);   \
        return ST_OK;                                                              \
    }

#endif
