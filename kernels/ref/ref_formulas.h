/* The formulas of kernels/formulas.def in the C library's functions, for every type: formula_NAME_f64(x). */
#ifndef DPX_KERNELS_REF_REF_FORMULAS_H
#define DPX_KERNELS_REF_REF_FORMULAS_H

#include <math.h>
#include <tgmath.h>

#include "graph/base/saturate.h"

#define FABS(v) fabs(v)
#define SQRT(v) sqrt(v)
#define EXP(v) exp(v)
#define EXPM1(v) expm1(v)
#define LOG(v) log(v)
#define LOG1P(v) log1p(v)
#define ERF(v) erf(v)
#define SIN(v) sin(v)
#define COS(v) cos(v)
#define TAN(v) tan(v)
#define ASIN(v) asin(v)
#define ACOS(v) acos(v)
#define ATAN(v) atan(v)
#define SINH(v) sinh(v)
#define COSH(v) cosh(v)
#define TANH(v) tanh(v)
#define ASINH(v) asinh(v)
#define ACOSH(v) acosh(v)
#define ATANH(v) atanh(v)
#define CEIL(v) ceil(v)
#define FLOOR(v) floor(v)
#define RINT(v) rint(v)
#define FMOD(a, b) fmod(a, b)
#define LARGER(a, b) fmax(a, b)
/* From double; integers take the nearest value that they have. */
#define TRUNCATE(v) (IS_REAL(T) ? (T)(v) : HAS_SIGN(T) ? (T)saturate(v, 8 * sizeof(T) - 1) : TRUNCATE_UNSIGNED(v))
#define TRUNCATE_UNSIGNED(v) (T) saturate_unsigned(v, 8 * sizeof(T))

#define FORMULA_TYPES(types, vectors) types
#include "kernels/formula_functions.h"

#endif
