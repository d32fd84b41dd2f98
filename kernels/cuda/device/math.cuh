/* Functions of float and of double by one name, for what is a template of either. */
#pragma once

#include "kernel.cuh"

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
/* log(1 + x) */
__device__ __forceinline__ float logarithm1(float x) { return log1pf(x); }
__device__ __forceinline__ double logarithm1(double x) { return log1p(x); }
__device__ __forceinline__ float root(float x) { return sqrtf(x); }
__device__ __forceinline__ double root(double x) { return sqrt(x); }
/* Within 2 units of the last place, in one instruction (CUDA C++ Programming Guide, mathematical functions); 1 /
 * root(x) is closer. */
__device__ __forceinline__ float inverse_root(float x) { return rsqrtf(x); }
__device__ __forceinline__ double inverse_root(double x) { return rsqrt(x); }
/* a b, rounded: not contracted with what it is added to.  A difference of equal products is 0 only so. */
__device__ __forceinline__ float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double rounded_product(double a, double b) { return __dmul_rn(a, b); }
