/* Elements of any type as float, double or int64, and back. */
#ifndef DPX_TESTS_SIM_NUMBERS_H
#define DPX_TESTS_SIM_NUMBERS_H

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/sim/half.h"

extern "C" {
#include "graph/tensor/dtype.h"
}

namespace sim
{

template <class T> T load(DType t, const void *p, size_t i)
{
    switch (t) {
    case DT_FLOAT64: return (T)((const double *)p)[i];
    case DT_FLOAT16: return (T)dpx_sim::f16_to_float(((const unsigned short *)p)[i]);
    case DT_BFLOAT16: return (T)dpx_sim::bf16_to_float(((const unsigned short *)p)[i]);
    default: return (T)((const float *)p)[i];
    }
}

template <class T> void store(DType t, void *p, size_t i, T v)
{
    switch (t) {
    case DT_FLOAT64: ((double *)p)[i] = (double)v; break;
    case DT_FLOAT16: ((unsigned short *)p)[i] = dpx_sim::float_to_f16((float)v); break;
    case DT_BFLOAT16: ((unsigned short *)p)[i] = dpx_sim::float_to_bf16((float)v); break;
    default: ((float *)p)[i] = (float)v; break;
    }
}

inline int64_t load_int(DType t, const void *p, size_t i)
{
    switch (t) {
    case DT_INT8: return ((const int8_t *)p)[i];
    case DT_INT16: return ((const int16_t *)p)[i];
    case DT_UINT16: return ((const uint16_t *)p)[i];
    case DT_INT32: return ((const int32_t *)p)[i];
    case DT_UINT32: return ((const uint32_t *)p)[i];
    case DT_INT64:
    case DT_UINT64: return ((const int64_t *)p)[i];
    default: return ((const uint8_t *)p)[i];
    }
}

inline void store_int(DType t, void *p, size_t i, int64_t v)
{
    switch (dtype_size(t)) {
    case 1: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case 2: ((uint16_t *)p)[i] = (uint16_t)v; break;
    case 4: ((uint32_t *)p)[i] = (uint32_t)v; break;
    default: ((int64_t *)p)[i] = v; break;
    }
}

template <class T> std::vector<T> load_all(DType t, const void *p, size_t n)
{
    std::vector<T> v(n);

    for (size_t i = 0; i < n; i++)
        v[i] = load<T>(t, p, i);
    return v;
}

/* To 10 bits of fraction, what tensor cores read of a float32: nearest, ties away from zero (PTX: cvt.rna.tf32.f32). */
inline float to_tf32(float x)
{
    return std::isfinite(x) ? dpx_sim::from_bits((dpx_sim::to_bits(x) + 0x1000u) & ~0x1fffu) : x;
}

template <class T> void round_tf32(std::vector<T> &v)
{
    for (T &x : v)
        x = (T)to_tf32((float)x);
}

} // namespace sim

#endif
