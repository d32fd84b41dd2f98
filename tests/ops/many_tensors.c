/* What takes all tensors of a device takes them in one launch, however many: more here than models of today have
 * parameters, some of several blocks, some of no elements.  Results are the reference's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/optimizer.gen.h"
#include "graph/ops/update.gen.h"
#include "graph/recipes/optimizer.h"
#include "tests/harness/gpu.h"
#include "tests/harness/test.h"

enum { MANY = 700, MOST = 4 * MANY + 8, ALIGN = 256 };

static int64_t size_of(int i) { return i % 40 == 3 ? 0 : i % 50 == 7 ? 9001 : 1 + 7 * i % 61; }

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* A node over tensors in the host's memory. */
typedef struct {
    Arena *arena;
    Graph *g;
    const Node *n;
    ValueId value[MOST];
    Tensor in[MOST], out[MOST]; /* out: the reference's */
    int n_in;
} Many;

/* ---- the node ---- */

/* In (0, 1]: a square's mean can be anything there. */
static void give(Many *m, DType t, Shape s)
{
    Tensor *made = tensor_create(m->arena, t, &s);
    int i = m->n_in++;

    m->in[i] = *made;
    m->value[i] = graph_add_input(m->g, "x", t, &s);
    for (int64_t k = 0; k < tensor_numel(made); k++)
        tensor_set_float(made, k, t == DT_INT64 ? 3 : (double)((k * 31 + i * 17) % 1000 + 1) / 1000);
}

/* `per` tensors of each size. */
static void give_many(Many *m, int per)
{
    for (int i = 0; i < MANY * per; i++)
        give(m, DT_FLOAT32, SHAPE(size_of(i / per)));
}

static Status run_kernel(const Kernel *k, KernelCtx *ctx, const Many *m, Tensor *out)
{
    void *state = NULL;
    Status st = k->prepare ? k->prepare(&state, ctx, m->g, m->n) : ST_OK;

    ctx->scratch = !st && ctx->scratch_bytes ? arena_alloc(m->arena, ctx->scratch_bytes) : NULL;
    st = st ? st : k->run(ctx, state, m->in, out);
    if (k->release && state)
        k->release(state);
    return st;
}

static Status reference(Many *m)
{
    KernelCtx ctx = { .n_threads = 1 };

    m->n = m->g->node[0];
    for (int o = 0; o < m->n->n_out; o++)
        m->out[o] = *tensor_create(m->arena, value(m->g, m->n->out[o])->dtype, value(m->g, m->n->out[o])->shape);
    return run_kernel(kernel_reference(m->g, m->n), &ctx, m, m->out);
}

static void begin(Many *m)
{
    memset(m, 0, sizeof *m);
    m->arena = arena_create();
    m->g = graph_create("many");
}

static void finish(Many *m)
{
    graph_free(m->g);
    arena_free(m->arena);
}

/* ---- on the device ---- */

static const CudaDriver *counted;
static int n_launch;

static Status count_launch(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3], size_t shared,
                           void *const *args)
{
    n_launch++;
    return counted->launch(s, k, grid, block, shared, args);
}

/* All of a run in one allocation, of which the host has an image: inputs, outputs, table, scratch. */
typedef struct {
    char *image, *base;
    size_t bytes;
    size_t in[MOST], out[MOST], table, scratch;
    Tensor at_in[MOST], at_out[MOST];
} There;

static size_t take(There *t, size_t bytes)
{
    size_t at = t->bytes;

    t->bytes += aligned(bytes);
    return at;
}

static void lay_out(There *t, const Many *m, const KernelCtx *ctx)
{
    for (int i = 0; i < m->n->n_in; i++)
        t->in[i] = take(t, tensor_bytes(&m->in[i]));
    for (int o = 0; o < m->n->n_out; o++)
        t->out[o] = take(t, tensor_bytes(&m->out[o]));
    t->table = take(t, ctx->table_bytes);
    t->scratch = take(t, ctx->scratch_bytes);
}

static void bind(There *t, const Many *m)
{
    for (int i = 0; i < m->n->n_in; i++) {
        t->at_in[i] = m->in[i];
        t->at_in[i].data = t->base + t->in[i];
        memcpy(t->image + t->in[i], m->in[i].data, tensor_bytes(&m->in[i]));
    }
    for (int o = 0; o < m->n->n_out; o++) {
        t->at_out[o] = m->out[o];
        t->at_out[o].data = t->base + t->out[o];
    }
}

static Status run_there(There *t, const Many *m, const TestGpu *gpu, const Kernel *k, KernelCtx *ctx, void *state)
{
    lay_out(t, m, ctx);
    if (!(t->image = arena_alloc(m->arena, t->bytes)))
        return FAIL_NOMEM();
    TRY_GPU(gpu, runtime.alloc(gpu->device, (void **)&t->base, t->bytes));
    bind(t, m);
    k->tabulate(t->image + t->table, state, t->at_in, t->at_out);
    TRY(gpu_copy(gpu, t->base, t->image, t->bytes));
    ctx->table = t->base + t->table;
    ctx->scratch = t->base + t->scratch;
    ctx->stream = gpu->stream;
    TRY(k->run(ctx, state, t->at_in, t->at_out));
    return gpu_copy(gpu, t->image, t->base, t->bytes);
}

/* Leaves the results in t->image. */
static Status on_device(There *t, const Many *m)
{
    const Kernel *k = kernel_find(kernels_cuda, kernels_cuda_len, m->g, m->n);
    const TestGpu *gpu;
    CudaDriver counting;
    void *state = NULL;
    Status st;

    if (!k)
        return FAIL(E_INTERNAL, "no CUDA kernel for %s", m->n->op->name);
    TRY(gpu_get(&gpu));
    counting = *gpu->driver;
    counted = gpu->driver;
    counting.launch = count_launch;
    n_launch = 0;

    KernelCtx ctx = { .n_threads = 1, .runtime = &counting.runtime, .gpu = gpu->device };

    if (!(st = k->prepare(&state, &ctx, m->g, m->n)))
        st = run_there(t, m, gpu, k, &ctx, state);
    if (state)
        k->release(state);
    gpu->driver->runtime.free(gpu->device, t->base);
    return st;
}

static bool close_to(const Tensor *expected, const void *found)
{
    const Tensor f = { expected->dtype, expected->shape, (void *)found };
    double off = 0, size = 0;

    if (expected->dtype != DT_FLOAT32)
        return !tensor_bytes(expected) || !memcmp(expected->data, found, tensor_bytes(expected));
    for (int64_t k = 0; k < tensor_numel(expected); k++) {
        off += pow(tensor_float(&f, k) - tensor_float(expected, k), 2);
        size += pow(tensor_float(expected, k), 2);
    }
    return sqrt(off) <= 1e-5 * sqrt(size);
}

static void check(Many *m, int launches)
{
    There *t = ARENA_NEW(m->arena, There, 1);
    int wrong = 0;

    CHECK_OK(m->g->status);
    CHECK_OK(reference(m));
    CHECK_OK(on_device(t, m));
    for (int o = 0; t->image && o < m->n->n_out; o++)
        wrong += !close_to(&m->out[o], t->image + t->out[o]);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(n_launch, launches);
}

/* ---- the tests ---- */

/* The formula of an optimizer with those flags; what it computes for a whole step are inputs here. */
static void update(const OptimizerDef *def, const char *flags)
{
    static Many m;
    Graph *step = graph_create("step");
    Shape scalar = shape_scalar();
    OptimizerStep o = { .g = step,
                        .type = DT_FLOAT32,
                        .lr = graph_add_input(step, "lr", DT_FLOAT32, &scalar),
                        .step = graph_add_input(step, "step", DT_INT64, &scalar) };
    RecipeSettings settings;
    UpdateRule rule;
    ValueId out[3 * MANY];

    CHECK_OK(recipe_take(&settings, &def->recipe, "optimizer", NULL, flags, step->arena));
    if (!CHECK_OK(optimizer_formula(&rule, &o, def, &settings, false)))
        return;
    begin(&m);
    give_many(&m, rule.n_state);
    give_many(&m, 1);
    for (int i = 0; i < rule.n_scalar; i++)
        give(&m, DT_FLOAT32, scalar);
    emit_multi(m.g, &op_Update, ATTRS(INT("count", MANY), GRAPH("formula", rule.g)), m.n_in, m.value,
               rule.n_state * MANY, out);
    check(&m, 1);
    finish(&m);
    graph_free(rule.g);
    graph_free(step);
}

static void test_updates(void)
{
    update(&optimizer_sgd, "weight_decay=0.01");
    update(&optimizer_sgd, "momentum=0.9;nesterov=true");
    update(&optimizer_adamw, "weight_decay=0.1");
}

static void test_norm(void)
{
    static Many m;
    ValueId out[2];

    begin(&m);
    give_many(&m, 1);
    emit_multi(m.g, &op_GlobalNorm, ATTRS(FLOAT("max_norm", 1)), m.n_in, m.value, 2, out);
    check(&m, 2);
    finish(&m);
}

/* Decided by the last tensor's last element. */
static void test_finite(void)
{
    for (int bad = 0; bad < 2; bad++) {
        static Many m;
        Tensor *last;

        begin(&m);
        give_many(&m, 1);
        last = &m.in[MANY - 1];
        if (bad)
            tensor_set_float(last, tensor_numel(last) - 1, INFINITY);
        emit(m.g, &op_AllFinite, NULL, m.n_in, m.value);
        check(&m, 2);
        CU_ASSERT_EQUAL(*(bool *)m.out[0].data, !bad);
        finish(&m);
    }
}

static void test_casts(void)
{
    static const DType to[] = { DT_FLOAT16, DT_BFLOAT16 };

    for (int i = 0; i < 2; i++) {
        static Many m;
        ValueId out[MANY];

        begin(&m);
        give_many(&m, 1);
        emit_multi(m.g, &op_CastAll, ATTRS(INT("to", to[i])), m.n_in, m.value, MANY, out);
        check(&m, 1);
        finish(&m);
    }
}

DEFINE_SUITE(many_tensors, { "updates", test_updates }, { "norm", test_norm }, { "finite", test_finite },
             { "casts", test_casts });
