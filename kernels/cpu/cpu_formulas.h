/* The formulas of kernels/formulas.def in functions that the compiler turns into vector code (kernels/cpu/vmath.h), for
 * the types that the table names: formula_NAME_f32(x). */
#ifndef DPX_KERNELS_CPU_CPU_FORMULAS_H
#define DPX_KERNELS_CPU_CPU_FORMULAS_H

#include "kernels/cpu/vmath.h"

#define FABS(v) _Generic((v), float : fabsf, double : fabs)(v)
#define SQRT(v) _Generic((v), float : sqrtf, double : sqrt)(v)
#define CEIL(v) _Generic((v), float : ceilf, double : ceil)(v)
#define FLOOR(v) _Generic((v), float : floorf, double : floor)(v)
#define RINT(v) _Generic((v), float : rintf, double : rint)(v)
#define EXP(v) _Generic((v), float : vexpf, double : exp)(v)
#define LOG(v) _Generic((v), float : vlogf, double : log)(v)
#define LOG1P(v) _Generic((v), float : vlog1pf, double : log1p)(v)
#define SIGMOID(v) _Generic((v), float : vsigmoidf, double : vsigmoid_f64)(v)
#define LARGER(a, b) _Generic((a), float : vlarger_f32, double : vlarger_f64)(a, b)
/* There are vectors of float32 alone: a row with these that names F64 as well does not compile. */
#define EXPM1(v) _Generic((v), float : vexpm1f)(v)
#define ERF(v) _Generic((v), float : verff)(v)
#define TANH(v) _Generic((v), float : vtanhf)(v)
#define NORMAL(v, bell) _Generic((v), float : vnormalf)(v, bell)
#define TANH_STEP(u) _Generic((u), float : vsigmoidf)(2 * (u))
#define TANH_STEP_SLOPE(u) _Generic((u), float : vtanh_step_slopef)(u)

#define FORMULA_TYPES(types, vectors) vectors
#include "kernels/formula_functions.h"

#endif
