/* The instruction sets that kernels/cpu is compiled for (cmake/kernels.cmake), and which of them this processor runs.
 */
#include <string.h>

#include "kernels/backend.h"

#define TABLE(suffix)                                 \
    extern const Kernel *const kernels_cpu##suffix[]; \
    extern const int kernels_cpu##suffix##_len;

TABLE()
#ifdef DPX_ISA
static bool runs_always(void) { return true; }
#endif

#ifdef DPX_ISA_LEVELS /* of x86-64: https://gitlab.com/x86-psABIs/x86-64-ABI */
#ifdef DPX_ISA
TABLE(_v2)
#else /* the library's own kernels are of that level */
#define kernels_cpu_v2 kernels_cpu
#define kernels_cpu_v2_len kernels_cpu_len
#endif
TABLE(_v3)
TABLE(_v4)
static bool runs_v2(void) { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }

static bool runs_v3(void)
{
    return runs_v2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool runs_v4(void)
{
    return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

static const struct {
    const char *isa;
    const Kernel *const *kernel;
    const int *n;
    bool (*runs)(void);
} compiled[] = {
#ifdef DPX_ISA
    { DPX_ISA, kernels_cpu, &kernels_cpu_len, runs_always },
#endif
#ifdef DPX_ISA_LEVELS
    { "x86-64-v4", kernels_cpu_v4, &kernels_cpu_v4_len, runs_v4 },
    { "x86-64-v3", kernels_cpu_v3, &kernels_cpu_v3_len, runs_v3 },
    { "x86-64-v2", kernels_cpu_v2, &kernels_cpu_v2_len, runs_v2 },
#endif
};

CpuKernels cpu_kernels_at(int i)
{
    for (size_t k = 0; k < sizeof compiled / sizeof *compiled; k++)
        if (compiled[k].runs() && !i--)
            return (CpuKernels){ compiled[k].isa, compiled[k].kernel, *compiled[k].n };
    return (CpuKernels){ 0 };
}

CpuKernels cpu_kernels(const char *isa)
{
    CpuKernels found;

    for (int i = 0; (found = cpu_kernels_at(i)).isa; i++)
        if (!isa || !strcmp(found.isa, isa))
            return found;
    return found;
}
