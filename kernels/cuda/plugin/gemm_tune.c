/* Which of cublasLt's algorithms is fastest for a product, by measuring them on memory of its size.
 *
 * The choice is kept on disk by all that it depends on: the product, the device, the versions.  Where measuring
 * fails, for lack of memory say, the heuristics' first algorithm stays. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/gemm.h"

enum { KEY_SIZE = 768, REPEATS = 10 };

typedef struct {
    cublasLtMatmulAlgo_t algo;
    uint64_t workspace;
} Choice;

static void key_of(char key[KEY_SIZE], const GemmPlan *p)
{
    const GpuDevice *d = p->plan.device;
    const GpuGemm *g = &p->desc;

    snprintf(key, KEY_SIZE,
             "cublasLt %zu driver %d %s sm %d tf32 %d; %d %d m %lld n %lld k %lld batch %lld trans %d %d ld %lld %lld "
             "%lld stride %lld %lld "
             "%lld beta %d epilogue %d %d %d %d %d %lld align %d, which keeps NaN",
             cublasLtGetVersion(), d->info.driver, d->info.name, d->info.multiprocessors, d->tf32, g->dtype, g->dtype_c,
             (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->batch, g->trans_a, g->trans_b,
             (long long)g->lda, (long long)g->ldb, (long long)g->ldc, (long long)g->stride_a, (long long)g->stride_b,
             (long long)g->stride_c, g->beta != 0, g->bias, (int)g->activation, g->gradient, g->keep, (int)g->sum,
             (long long)g->ld_aux, g->align);
}

/* A choice of an earlier run counts when this library still accepts it. */
static Status recall(GemmPlan *p, const char *key, bool *known)
{
    cublasLtMatmulHeuristicResult_t verdict;
    void *data;
    size_t n;
    Choice c;

    *known = false;
    TRY(cache_read(p->plan.device, "gemm", key, strlen(key), &data, &n));
    if (data && n == sizeof c) {
        memcpy(&c, data, sizeof c);
        *known = !cublasLtMatmulAlgoCheck(p->lt, p->op, p->left, p->right, p->result, p->result, &c.algo, &verdict) &&
                 verdict.state == CUBLAS_STATUS_SUCCESS && verdict.workspaceSize <= c.workspace;
    }
    free(data);
    if (*known) {
        p->algo = c.algo;
        p->workspace = (size_t)c.workspace;
    }
    return ST_OK;
}

/* Bytes from the first to the last element of a matrix, all of its batch. */
static size_t extent(const GpuGemm *g, DType t, int64_t rows, int64_t cols, int64_t ld, int64_t stride)
{
    return (size_t)((g->batch - 1) * stride + (rows - 1) * ld + cols) * dtype_size(t);
}

/* ---- memory and a stream ---- */

void gemm_bench_close(GpuDevice *d, GemmBench *b)
{
    for (int i = 0; i < GEMM_BUFFERS; i++)
        memory_free(d, b->buffer[i]);
    memory_free(d, b->workspace);
    if (b->stream)
        (void)cudaStreamDestroy(b->stream);
}

Status gemm_bench_open(GpuDevice *d, GemmBench *b, const GpuGemm *g, const cublasLtMatmulHeuristicResult_t *candidate,
                       int n)
{
    size_t size = dtype_size(g->dtype_c), workspace = 0;
    size_t aux = (size_t)(g->activation == GEMM_RELU ? g->m * g->ld_aux / 8
                                                     : g->m * g->ld_aux * (int64_t)size); /* of Relu: bits */

    for (int i = 0; i < n; i++)
        workspace = candidate[i].workspaceSize > workspace ? candidate[i].workspaceSize : workspace;
    TRY(memory_alloc(d, &b->buffer[GEMM_A],
                     extent(g, g->dtype, g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda, g->stride_a)));
    TRY(memory_alloc(d, &b->buffer[GEMM_B],
                     extent(g, g->dtype, g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb, g->stride_b)));
    TRY(memory_alloc(d, &b->buffer[GEMM_C], extent(g, g->dtype_c, g->m, g->n, g->ldc, g->stride_c)));
    TRY(memory_alloc(d, &b->buffer[GEMM_BIAS], (size_t)g->n * size));
    TRY(memory_alloc(d, &b->buffer[GEMM_SUM], (size_t)(g->sum == GEMM_SUM_A ? g->m : g->n) * size));
    if (g->gradient || g->keep)
        TRY(memory_alloc(d, &b->buffer[GEMM_AUX], aux));
    TRY(memory_alloc(d, &b->workspace, workspace));
    TRY_CUDART(d, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    return ST_OK;
}

/* ---- the race ---- */

/* Milliseconds of REPEATS products after one that warms up. */
static Status gemm_tune_measure(GemmPlan *p, const GemmBench *b, cudaEvent_t from, cudaEvent_t to,
                                const cublasLtMatmulHeuristicResult_t *c, float *ms)
{
    GpuDevice *d = p->plan.device;

    TRY(gemm_enqueue(p, &c->algo, b->stream, b->buffer, b->workspace, c->workspaceSize));
    TRY_CUDART(d, cudaEventRecord(from, b->stream));
    for (int i = 0; i < REPEATS; i++)
        TRY(gemm_enqueue(p, &c->algo, b->stream, b->buffer, b->workspace, c->workspaceSize));
    TRY_CUDART(d, cudaEventRecord(to, b->stream));
    TRY_CUDART(d, cudaEventSynchronize(to));
    TRY_CUDART(d, cudaEventElapsedTime(ms, from, to));
    return ST_OK;
}

/* The index of the fastest; -1 when none could be measured. */
static int race(GemmPlan *p, const cublasLtMatmulHeuristicResult_t *candidate, int n)
{
    GpuDevice *d = p->plan.device;
    float best = INFINITY, ms;
    GemmBench b = { 0 };
    cudaEvent_t from = NULL, to = NULL;
    int fastest = -1;

    if (!gemm_bench_open(d, &b, &p->desc, candidate, n) &&
        !cudart_check(d, "cudaEventCreate", cudaEventCreate(&from)) &&
        !cudart_check(d, "cudaEventCreate", cudaEventCreate(&to)))
        for (int i = 0; i < n; i++)
            if (!candidate[i].state && !gemm_tune_measure(p, &b, from, to, &candidate[i], &ms) && ms < best) {
                best = ms;
                fastest = i;
            }
    if (from)
        (void)cudaEventDestroy(from);
    if (to)
        (void)cudaEventDestroy(to);
    gemm_bench_close(d, &b);
    return fastest;
}

Status gemm_tune(GemmPlan *p, const cublasLtMatmulHeuristicResult_t *candidate, int n)
{
    char key[KEY_SIZE];
    bool known;
    int fastest;

    key_of(key, p);
    TRY(recall(p, key, &known));
    if (known || (fastest = race(p, candidate, n)) < 0)
        return ST_OK;
    p->algo = candidate[fastest].algo;
    p->workspace = candidate[fastest].workspaceSize;
    cache_write(p->plan.device, "gemm", key, strlen(key), &(Choice){ p->algo, p->workspace }, sizeof(Choice));
    return ST_OK;
}
