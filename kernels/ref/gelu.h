/* Gelu with approximate="tanh", x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + c x^3), and its slope: of the operator and
 * of a product's epilogue. */
#ifndef DPX_REF_GELU_H
#define DPX_REF_GELU_H

#include <tgmath.h>

#define SQRT_2_OVER_PI(T) ((T)0.79788456080286535588)
#define CUBIC(T) ((T)0.044715)

/* Of x, an expression of the floating type T without side effects; computed in T. */
#define GELU_TANH_OF_U(T, x) tanh(SQRT_2_OVER_PI(T) * ((x) + CUBIC(T) * (x) * (x) * (x)))
#define GELU_TANH(T, x) ((x) / 2 * (1 + GELU_TANH_OF_U(T, x)))
/* (1 + t)/2 + x/2 (1 - t^2) du/dx, t = tanh(u) */
#define GELU_TANH_SLOPE(T, x)         \
    ((1 + GELU_TANH_OF_U(T, x)) / 2 + \
     (x) / 2 * (1 - GELU_TANH_OF_U(T, x) * GELU_TANH_OF_U(T, x)) * SQRT_2_OVER_PI(T) * (1 + 3 * CUBIC(T) * (x) * (x)))

#endif
