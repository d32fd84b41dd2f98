/* The threads of a team change no bits of a product: sizes next to those from which on oneDNN multiplies in another
 * way, and sums longer than its blocks of k are. */
#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/matmul.gen.h"
#include "kernels/backend.h"
#include "tests/harness/test.h"

enum { SIZES = 150, MOST = 40 << 20 /* multiplications */ };

static const int teams[] = { 2, 3, 4 };

static uint32_t state;

static int draw(int n)
{
    state = state * 1664525 + 1013904223;
    return (int)((uint64_t)state * (uint64_t)n >> 32);
}

static int size(void) { return draw(3) ? 1 + draw(draw(2) ? 300 : 1500) : 64 * (1 + draw(20)); }

static void fill(Tensor *t)
{
    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        ((float *)t->data)[i] = (float)draw(1 << 20) * 0x1p-19f - 1;
}

static void run_with(int threads, const Graph *g, const Tensor *in, Tensor *out)
{
    const Node *n = g->node[0];
    const CpuKernels cpu = cpu_kernels(NULL);
    const Kernel *k = kernel_find(cpu.kernel, cpu.n, g, n);
    KernelCtx ctx = { .n_threads = threads };
    void *of_kernel = NULL;

    CU_ASSERT_FATAL(k && !k->prepare(&of_kernel, &ctx, g, n));
    CHECK_OK(k->run(&ctx, of_kernel, in, out));
    k->release(of_kernel);
}

/* op(a) [m, k] by op(b) [k, n]. */
static void check_size(int trans_a, int trans_b, int m, int n, int k)
{
    const Shape a = trans_a ? SHAPE(k, m) : SHAPE(m, k), b = trans_b ? SHAPE(n, k) : SHAPE(k, n), y = SHAPE(m, n);
    Graph *g = graph_create("product");
    ValueId of[2] = { graph_add_input(g, "a", DT_FLOAT32, &a), graph_add_input(g, "b", DT_FLOAT32, &b) };
    Tensor *in[] = { tensor_create(g->arena, DT_FLOAT32, &a), tensor_create(g->arena, DT_FLOAT32, &b) },
           *one = tensor_create(g->arena, DT_FLOAT32, &y), *many = tensor_create(g->arena, DT_FLOAT32, &y);

    emit(g, &op_Gemm, ATTRS(INT("transA", trans_a), INT("transB", trans_b)), 2, of);
    CU_ASSERT_FATAL(!g->status && in[0] && in[1] && one && many);
    fill(in[0]);
    fill(in[1]);
    run_with(1, g, (Tensor[]){ *in[0], *in[1] }, one);
    for (size_t i = 0; i < sizeof teams / sizeof *teams; i++) {
        run_with(teams[i], g, (Tensor[]){ *in[0], *in[1] }, many);
        if (memcmp(one->data, many->data, tensor_bytes(one)))
            TEST_FAIL("%d threads round op(a) [%d,%d] op(b) [%d,%d] (transA %d, transB %d) in another way than one",
                      teams[i], m, k, k, n, trans_a, trans_b);
    }
    graph_free(g);
}

static void test_same_bits(void)
{
    state = 1;
    for (int i = 0; i < SIZES;) {
        const int m = size(), n = size(), k = size();

        if ((int64_t)m * n * k > MOST)
            continue;
        check_size(draw(2), draw(2), m, n, k);
        i++;
    }
    check_size(0, 1, 794, 398, 769); /* found by chance: few rows and columns, k longer than a block */
    check_size(0, 1, 1058, 163, 907);
    check_size(0, 1, 257, 883, 2048);
    check_size(1, 0, 833, 897, 54); /* the same with AVX2, where k is short */
    check_size(0, 0, 705, 1284, 27);
}

DEFINE_SUITE(product, { "the same bits by teams", test_same_bits });
