/* The functions of the plug-in libdpexec_cuda.so for CUDA kernels: own and generated kernels, and the libraries'
 * convolutions, matrix products and attention as prepared plans.
 *
 * The graph side of a kernel (kernels/cuda/<family>.c: which nodes it fits, its attributes, its launch) is part of the
 * engine and knows no CUDA header; the plug-in (kernels/cuda/plugin) knows no graph.  Between them is this table of
 * functions over plain types, which a simulation on the CPU gives too (tests/sim), so that all but the plug-in itself
 * runs in tests without a GPU, on the very kernels of kernels/cuda/device. */
#ifndef DPX_CUDA_DRIVER_H
#define DPX_CUDA_DRIVER_H

#include "kernels/runtime.h"

typedef struct GpuModule GpuModule; /* compiled at run time */
typedef struct GpuKernel GpuKernel; /* belongs to the device or to its module */
typedef struct GpuPlan GpuPlan;     /* a library's prepared call */

enum { GPU_DIMS = 4, GPU_SPATIAL = 3 };

/* C = alpha * op(A) op(B) + beta * C0, then the epilogue; all row-major, `batch` times with these strides (elements; 0:
 * the same matrix for all).  Computed in float32 (float64 for DT_FLOAT64), rounded once.
 *
 * The epilogue is act(C + bias), or, as a gradient, C * act'(aux); a NaN stays one.  There is none of a batch but a
 * bias. */
typedef enum { GEMM_LINEAR, GEMM_RELU, GEMM_GELU_TANH } GemmActivation;
typedef enum { GEMM_NO_SUM, GEMM_SUM_C, GEMM_SUM_A, GEMM_SUM_B } GemmSum;
typedef struct {
    DType dtype;            /* of A, B */
    DType dtype_c;          /* of C, C0, bias and the sum */
    int64_t m, n, k, batch; /* C is [m, n] */
    bool trans_a, trans_b;  /* A is stored [k, m], B [n, k] */
    int64_t lda, ldb, ldc;  /* elements from row to row as stored */
    int64_t stride_a, stride_b, stride_c;
    double alpha, beta;
    bool bias; /* [n], the same for all of a batch; not of a gradient */
    GemmActivation activation;
    bool gradient;  /* AUX is read; of Relu: bit j % 8 of byte j / 8 of a row, where the result stays, else it is 0 */
    bool keep;      /* of Gelu, not of its gradient: writes AUX, the activation's operand, as dtype_c */
    int64_t ld_aux; /* from row to row of AUX: bits, a multiple of 128 (Relu); elements, of 8 (Gelu) */
    GemmSum
        sum;   /* C: of a gradient, over its rows, [n]; A, B: without epilogue, of op(A) or op(B) over k, [m] or [n] */
    int align; /* bytes that every buffer's address is a multiple of: 1 to 256, a power of two */
} GpuGemm;
/* Indices of GpuPlan buffers; NULL where absent.  C0 may be C: the product is then added to it. */
enum { GEMM_A, GEMM_B, GEMM_C0, GEMM_BIAS, GEMM_C, GEMM_AUX, GEMM_SUM, GEMM_BUFFERS };

/* Nothing but alpha * op(A) op(B) + beta * C0? */
static inline bool gemm_plain(const GpuGemm *g) { return !g->bias && !g->activation && !g->sum; }
/* Does the epilogue have no meaning? */
static inline bool gemm_nonsense(const GpuGemm *g)
{
    bool act = g->activation != GEMM_LINEAR, aux = g->gradient || g->keep,
         of_operand = g->sum == GEMM_SUM_A || g->sum == GEMM_SUM_B;

    return (g->gradient && (!act || g->bias || g->keep)) || (g->keep && g->activation != GEMM_GELU_TANH) ||
           (aux && g->ld_aux < g->n) || (g->sum == GEMM_SUM_C && !g->gradient) || (of_operand && (act || g->bias)) ||
           (g->batch > 1 && (act || g->sum));
}

/* X [N, C, spatial], W [K, C / group, kernel], Y [N, K, out], in this order of dimensions, stored as `channels_last`
 * says: false: as listed; true: X [N, spatial, C], W [K, kernel, C / group], Y [N, out, K].  Accumulates in float32
 * (float64). */
typedef enum { CONV_FORWARD, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT } ConvKind;
typedef struct {
    ConvKind kind;
    DType dtype; /* of X, W, Y and their gradients */
    bool channels_last;
    int n_spatial; /* 1, 2 or 3 */
    int64_t n, c, k, group;
    int64_t in[GPU_SPATIAL], kernel[GPU_SPATIAL], out[GPU_SPATIAL];
    int64_t stride[GPU_SPATIAL], dilation[GPU_SPATIAL], pad_before[GPU_SPATIAL], pad_after[GPU_SPATIAL];
    bool bias;      /* forward: Y = conv + bias[K] */
    bool add, relu; /* with a bias: Y = relu(conv + Z + bias[K]), rounded once, a NaN stays one; no Z without relu */
} GpuConv;
/* Forward reads X, W, BIAS, Z, writes Y, and Z is stored as Y is; grad-input reads W, Y (dY), writes X (dX);
 * grad-weight reads X, Y (dY), writes W (dW). */
enum { CONV_X, CONV_W, CONV_BIAS, CONV_Z, CONV_Y, CONV_BUFFERS };

/* Does the part behind the convolution have no meaning? */
static inline bool conv_nonsense(const GpuConv *c)
{
    return (c->kind != CONV_FORWARD && c->bias) || (c->relu && !c->bias) || (c->add && !c->relu);
}

/* O = softmax(scale * Q K^T + mask) V per batch and head.  Q and O have Tq tokens, K and V Tk, each with H heads of
 * depth D.  `heads` says where the heads stand, so that nothing is transposed or cut out of a wider tensor; dQ, dK, dV
 * and dO stand as Q, K, V and O.  The forward writes the log-sum-exp of each row, [B, H, Tq] float32, which the
 * backward reads.
 */
typedef struct {
    int64_t batch, token, head; /* elements from one to the next; those of a head's depth are neighbours */
} GpuHeads;
typedef struct {
    DType dtype;
    int64_t b, h, tq, tk, d;
    GpuHeads heads[4]; /* by ATT_Q, ATT_K, ATT_V, ATT_O */
    double scale;
    bool causal; /* column j is seen from row i only when j <= i */
    bool backward;
} GpuAttention;
enum { ATT_Q, ATT_K, ATT_V, ATT_O, ATT_STATS, ATT_DO, ATT_DQ, ATT_DK, ATT_DV, ATT_BUFFERS };

static inline int64_t attention_tokens(const GpuAttention *a, int i)
{
    return i == ATT_K || i == ATT_V ? a->tk : a->tq;
}
/* The heads of a tensor [B, T, H, D] without gaps, for `i` of ATT_Q to ATT_O. */
static inline GpuHeads attention_dense(const GpuAttention *a, int i)
{
    GpuHeads dense = { attention_tokens(a, i) * a->h * a->d, a->h * a->d, a->d };

    return dense;
}
static inline bool attention_is_dense(const GpuAttention *a, int i)
{
    const GpuHeads dense = attention_dense(a, i), *h = &a->heads[i];

    return h->batch == dense.batch && h->token == dense.token && h->head == dense.head;
}

typedef struct CudaDriver {
    Runtime runtime; /* first: a Runtime of name "cuda" is a CudaDriver */

    /* ---- kernels ---- */
    /* One of kernels/cuda/device, by the name in its KERNEL line. */
    Status (*kernel)(GpuDevice *d, const char *name, GpuKernel **out);
    /* Compiles CUDA C++ for the device; E_INTERNAL with the compiler's first error.  The headers of kernels/cuda/device
     * can be included.  Code that was compiled before comes from the cache. */
    Status (*compile)(GpuDevice *d, const char *source, const char *name, GpuModule **out);
    Status (*module_kernel)(GpuModule *m, const char *name, GpuKernel **out);
    void (*module_free)(GpuModule *m);
    /* More dynamic shared memory than 48 KiB must be asked for before the first launch. */
    Status (*kernel_shared)(GpuKernel *k, size_t bytes);
    /* `args`: a pointer to each parameter's value. */
    Status (*launch)(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3], size_t shared,
                     void *const *args);

    /* ---- libraries; `workspace`: bytes of device memory that plan_run needs ---- */
    Status (*gemm)(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace);
    Status (*conv)(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace);
    Status (*attention)(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace);
    Status (*plan_run)(GpuStream *s, GpuPlan *p, void *const *buffers, void *workspace);
    void (*plan_free)(GpuPlan *p);
} CudaDriver;

#endif
