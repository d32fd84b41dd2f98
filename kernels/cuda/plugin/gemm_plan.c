/* A matrix product in cublasLt's words.
 *
 * cublasLt reads matrices column by column.  A row-major matrix [r, c] is, read so, its transpose [c, r] with the same
 * leading dimension, and C = op(A) op(B) is C' = op(B)' op(A)': so our B is the left factor, our A the right one, both
 * with their transposition flags as they are, and a bias along C's columns lies along the rows of C', where cublasLt
 * wants it. */
#include "kernels/cuda/plugin/gemm_plan.h"

#include <stdlib.h>

/* ---- cublasLt's handle ---- */

static void close_handle(GpuDevice *d)
{
    cublasLtDestroy(d->lt);
    d->lt = NULL;
}

static Status handle_of(GpuDevice *d, cublasLtHandle_t *out)
{
    if (!d->lt) {
        TRY(device_use(d));
        TRY_CUBLAS(d, cublasLtCreate(&d->lt));
        TRY(device_on_close(d, close_handle));
    }
    *out = d->lt;
    return ST_OK;
}

/* ---- the request ---- */

static cudaDataType_t gemm_plan_type_of(DType t)
{
    return t == DT_FLOAT64 ? CUDA_R_64F : t == DT_FLOAT16 ? CUDA_R_16F : t == DT_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

static bool types_fit(const GpuGemm *g)
{
    bool half = g->dtype == DT_FLOAT16 || g->dtype == DT_BFLOAT16;

    return dtype_is_float(g->dtype) && (g->dtype_c == g->dtype || (half && g->dtype_c == DT_FLOAT32));
}

static Status gemm_plan_check(const GpuDevice *d, const GpuGemm *g)
{
    int64_t cols_a = g->trans_a ? g->m : g->k, cols_b = g->trans_b ? g->k : g->n;

    if (!types_fit(g))
        return FAIL(E_UNSUPPORTED, "%s: no product of %s matrices into a %s one", d->label, dtype_name(g->dtype),
                    dtype_name(g->dtype_c));
    if (g->m < 0 || g->n < 0 || g->k < 1 || g->batch < 0 || g->lda < cols_a || g->ldb < cols_b || g->ldc < g->n)
        return FAIL(
            E_INVALID,
            "%s: product m=%lld n=%lld k=%lld batch=%lld lda=%lld ldb=%lld ldc=%lld: expected k > 0, rows within "
            "their strides",
            d->label, (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->batch, (long long)g->lda,
            (long long)g->ldb, (long long)g->ldc);
    if (gemm_nonsense(g))
        return FAIL(
            E_INVALID,
            "%s: no epilogue has bias %d, activation %d, gradient %d, keep %d (rows every %lld), sum %d, batch %lld",
            d->label, g->bias, (int)g->activation, g->gradient, g->keep, (long long)g->ld_aux, (int)g->sum,
            (long long)g->batch);
    if ((g->gradient || g->keep) && g->ld_aux % (g->activation == GEMM_RELU ? 128 : 8))
        return FAIL(E_UNSUPPORTED, "%s: rows of what an activation keeps every %lld %s", d->label, (long long)g->ld_aux,
                    g->activation == GEMM_RELU ? "bits" : "elements");
    if (g->align < 1 || g->align > 256 || g->align & (g->align - 1))
        return FAIL(E_INVALID, "%s: alignment of %d bytes: expected a power of two from 1 to 256", d->label, g->align);
    return ST_OK;
}

static cublasLtEpilogue_t epilogue_of(const GpuGemm *g)
{
    static const cublasLtEpilogue_t forward[][2][2] = {
        /* by activation, keep, bias */
        [GEMM_LINEAR] = { { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS } },
        [GEMM_RELU] = { { CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS } },
        [GEMM_GELU_TANH] = { { CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS },
                             { CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS } },
    };
    static const cublasLtEpilogue_t gradient[][2] = {
        /* with the sum of C */
        [GEMM_RELU] = { CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU_BGRAD },
        [GEMM_GELU_TANH] = { CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD },
    };

    if (g->sum == GEMM_SUM_A)
        return CUBLASLT_EPILOGUE_BGRADB;
    if (g->sum == GEMM_SUM_B)
        return CUBLASLT_EPILOGUE_BGRADA;
    return g->gradient ? gradient[g->activation][g->sum == GEMM_SUM_C] : forward[g->activation][g->keep][g->bias];
}

static bool has_aux(const GpuGemm *g) { return g->gradient || g->keep; }

#define SET_OP(p, attribute, value) \
    TRY_CUBLAS((p)->plan.device, cublasLtMatmulDescSetAttribute((p)->op, (attribute), &(value), sizeof(value)))
#define SET_LAYOUT(p, layout, attribute, value) \
    TRY_CUBLAS((p)->plan.device, cublasLtMatrixLayoutSetAttribute((layout), (attribute), &(value), sizeof(value)))
#define SET_PREFERENCE(p, preference, attribute, value) \
    TRY_CUBLAS((p)->plan.device,                        \
               cublasLtMatmulPreferenceSetAttribute((preference), (attribute), &(value), sizeof(value)))

/* The vector and the matrix that an epilogue has beside C.  Heuristics read from the addresses how they are aligned,
 * and nothing else: one that stands for all of p->desc.align. */
static Status describe_epilogue(GemmPlan *p)
{
    const GpuGemm *g = &p->desc;
    cublasLtEpilogue_t epilogue = epilogue_of(g);
    int32_t bias_type = gemm_plan_type_of(g->dtype_c);
    void *somewhere = (void *)(uintptr_t)g->align;

    SET_OP(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (g->bias)
        SET_OP(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
    if (g->bias || g->sum)
        SET_OP(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
    if (!has_aux(g))
        return ST_OK;
    SET_OP(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g->ld_aux);
    SET_OP(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    return ST_OK;
}

static Status describe_op(GemmPlan *p)
{
    const GpuGemm *g = &p->desc;
    bool f64 = g->dtype == DT_FLOAT64;
    cublasComputeType_t compute = f64                                              ? CUBLAS_COMPUTE_64F
                                  : g->dtype == DT_FLOAT32 && p->plan.device->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                                   : CUBLAS_COMPUTE_32F;
    int32_t left = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, right = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;

    TRY_CUBLAS(p->plan.device, cublasLtMatmulDescCreate(&p->op, compute, f64 ? CUDA_R_64F : CUDA_R_32F));
    SET_OP(p, CUBLASLT_MATMUL_DESC_TRANSA, left);
    SET_OP(p, CUBLASLT_MATMUL_DESC_TRANSB, right);
    if (f64) {
        p->alpha.f64 = g->alpha;
        p->beta.f64 = g->beta;
    } else {
        p->alpha.f32 = (float)g->alpha;
        p->beta.f32 = (float)g->beta;
    }
    return describe_epilogue(p);
}

/* A stored row-major matrix [rows, cols], `batch` times. */
static Status describe_matrix(GemmPlan *p, cublasLtMatrixLayout_t *out, DType t, int64_t rows, int64_t cols, int64_t ld,
                              int64_t stride)
{
    int32_t batch = (int32_t)p->desc.batch;

    TRY_CUBLAS(p->plan.device,
               cublasLtMatrixLayoutCreate(out, gemm_plan_type_of(t), (uint64_t)cols, (uint64_t)rows, ld));
    if (batch > 1) {
        SET_LAYOUT(p, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
        SET_LAYOUT(p, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
    }
    return ST_OK;
}

static Status describe_matrices(GemmPlan *p)
{
    const GpuGemm *g = &p->desc;

    TRY(describe_matrix(p, &p->left, g->dtype, g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb,
                        g->stride_b));
    TRY(describe_matrix(p, &p->right, g->dtype, g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda,
                        g->stride_a));
    return describe_matrix(p, &p->result, g->dtype_c, g->m, g->n, g->ldc, g->stride_c);
}

/* Parts of a divided sum over k are kept in the type that is computed in and added behind the product: rounded once,
 * and in one order whichever part ends first. */
static Status set_preference(GemmPlan *p, cublasLtMatmulPreference_t preference)
{
    uint64_t most = GEMM_WORKSPACE;
    uint32_t align = (uint32_t)p->desc.align, parts = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    SET_PREFERENCE(p, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
    SET_PREFERENCE(p, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, parts);
    SET_PREFERENCE(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align);
    SET_PREFERENCE(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align);
    SET_PREFERENCE(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align);
    SET_PREFERENCE(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align);
    return ST_OK;
}

/* Leaves those that can run; how many. */
static int keep_valid(cublasLtMatmulHeuristicResult_t *found, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            found[kept++] = found[i];
    return kept;
}

/* Some epilogues that heuristics do not have, for some types and for some shapes with a dimension of 1, they call an
 * invalid value, which here is the same as no algorithm: the caller does without. */
Status gemm_ask(GemmPlan *p, cublasLtMatmulHeuristicResult_t found[GEMM_CANDIDATES], int *n)
{
    GpuDevice *d = p->plan.device;
    const GpuGemm *g = &p->desc;
    cublasLtMatmulPreference_t preference = NULL;
    cublasStatus_t answer;
    Status st;

    TRY(handle_of(d, &p->lt));
    TRY_CUBLAS(d, cublasLtMatmulPreferenceCreate(&preference));
    TRY_TO(done, st, set_preference(p, preference));
    answer = cublasLtMatmulAlgoGetHeuristic(p->lt, p->op, p->left, p->right, p->result, p->result, preference,
                                            GEMM_CANDIDATES, found, n);
    *n = answer ? 0 : keep_valid(found, *n);
    if (answer == CUBLAS_STATUS_NOT_SUPPORTED || (answer == CUBLAS_STATUS_INVALID_VALUE && !gemm_plain(g)) ||
        (!answer && !*n))
        st = FAIL(E_UNSUPPORTED, "%s: cublasLt has no product m=%lld n=%lld k=%lld of %s into %s with epilogue %d",
                  d->label, (long long)g->m, (long long)g->n, (long long)g->k, dtype_name(g->dtype),
                  dtype_name(g->dtype_c), (int)epilogue_of(g));
    else
        st = cublas_check(d, "cublasLtMatmulAlgoGetHeuristic", answer);
done:
    cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

Status gemm_enqueue(GemmPlan *p, const cublasLtMatmulAlgo_t *algo, cudaStream_t stream, void *const *buffers,
                    void *workspace, size_t n_workspace)
{
    const void *added = buffers[GEMM_C0] ? buffers[GEMM_C0] : buffers[GEMM_C];

    if (p->desc.bias || p->desc.sum)
        SET_OP(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, buffers[p->desc.bias ? GEMM_BIAS : GEMM_SUM]);
    if (has_aux(&p->desc))
        SET_OP(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, buffers[GEMM_AUX]);
    TRY_CUBLAS(p->plan.device,
               cublasLtMatmul(p->lt, p->op, &p->alpha, buffers[GEMM_B], p->left, buffers[GEMM_A], p->right, &p->beta,
                              added, p->result, buffers[GEMM_C], p->result, algo, workspace, n_workspace, stream));
    return ST_OK;
}

static Status gemm_run(GpuPlan *plan, GpuStream *s, void *const *buffers, void *workspace)
{
    GemmPlan *p = (GemmPlan *)plan;

    return p->empty ? ST_OK : gemm_enqueue(p, &p->algo, s->stream, buffers, workspace, p->workspace);
}

static void gemm_free(GpuPlan *plan)
{
    GemmPlan *p = (GemmPlan *)plan;

    if (p->op)
        cublasLtMatmulDescDestroy(p->op);
    if (p->left)
        cublasLtMatrixLayoutDestroy(p->left);
    if (p->right)
        cublasLtMatrixLayoutDestroy(p->right);
    if (p->result)
        cublasLtMatrixLayoutDestroy(p->result);
    free(p);
}

static const GpuPlanClass gemm_class = { gemm_run, gemm_free };

Status gemm_describe(GpuDevice *d, const GpuGemm *desc, GemmPlan **out)
{
    GemmPlan *p;
    Status st;

    TRY(gemm_plan_check(d, desc));
    if (!(p = calloc(1, sizeof *p)))
        return FAIL_NOMEM();
    p->plan = (GpuPlan){ &gemm_class, d };
    p->desc = *desc;
    p->empty = !desc->m || !desc->n || !desc->batch;
    if (!p->empty) {
        TRY_TO(fail, st, describe_op(p));
        TRY_TO(fail, st, describe_matrices(p));
    }
    *out = p;
    return ST_OK;
fail:
    gemm_free(&p->plan);
    return st;
}
