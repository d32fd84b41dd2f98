/* A kernel on its own: every buffer stands between guard bytes, outputs begin as garbage, inputs must come back as they
 * were, and the result must be the reference's.  A CUDA kernel runs on copies in the device's memory, twice, since its
 * result must not depend on the order of threads; one that knows layouts runs with everything stored channels last too.
 * What it computes is compared as a whole as well, so that small results have to be as right as large ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/plan/layout.h"
#include "graph/ops/attention.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/product.gen.h"
#include "tests/harness/gpu.h"
#include "tests/ops/check.h"

enum { GUARD = 128, GUARD_BYTE = 0xa5, GARBAGE_BYTE = 0xcd, MAX_PORTS = 96 };

/* `bytes` usable bytes, 64-byte aligned, GUARD bytes before and behind. */
typedef struct {
    unsigned char *base, *data;
    size_t bytes;
} Guarded;

static Status guarded_create(Guarded *b, Arena *a, size_t bytes)
{
    if (!(b->base = arena_alloc(a, bytes + 2 * GUARD + 64)))
        return FAIL_NOMEM();
    memset(b->base, GUARD_BYTE, bytes + 2 * GUARD + 64);
    b->data = b->base + GUARD + (64 - (size_t)(b->base + GUARD) % 64) % 64;
    b->bytes = bytes;
    return ST_OK;
}

static Status guarded_check(const Guarded *b, const char *kernel, const char *what, int i)
{
    for (int k = 1; k <= GUARD; k++)
        if (b->data[-k] != GUARD_BYTE || b->data[b->bytes + (size_t)k - 1] != GUARD_BYTE)
            return FAIL(E_INTERNAL, "%s writes outside its %s %d (guard byte %d)", kernel, what, i, k);
    return ST_OK;
}

typedef struct {
    const Kernel *kernel;
    const Graph *g;
    const Node *n;
    Arena *arena;
    Tensor in[MAX_PORTS], out[MAX_PORTS];
    Guarded in_mem[MAX_PORTS], out_mem[MAX_PORTS], scratch, table;
    const Tensor *given[MAX_PORTS]; /* what the inputs hold */
    int over_out, over_in;          /* output over_out stands in input over_in's memory; -1: none */
} KernelRun;

static const Tensor *input_data(const Graph *g, const Node *n, const Eval *e, int i)
{
    int arg;

    if (!has_in(n, i))
        return NULL;
    if (value_const(g, n->in[i]))
        return value_const(g, n->in[i]);
    return sscanf(value(g, n->in[i])->name, "x%d", &arg) == 1 ? e->in[arg] : NULL;
}

/* The tensor as value v is stored; itself when that is by rows. */
static Status stored(const Tensor **out, const KernelRun *r, ValueId v, const Tensor *t)
{
    Tensor *other;

    *out = t;
    if (!t || value(r->g, v)->layout == LAYOUT_ROWS)
        return ST_OK;
    if (!(other = tensor_create(r->arena, t->dtype, &t->shape)))
        return FAIL_NOMEM();
    layout_convert(other->data, t->data, &t->shape, dtype_size(t->dtype), value(r->g, v)->layout, true);
    *out = other;
    return ST_OK;
}

static Status place_inputs(KernelRun *r, const Eval *e)
{
    for (int i = 0; i < r->n->n_in; i++) {
        const Tensor *t;

        TRY(stored(&t, r, r->n->in[i], input_data(r->g, r->n, e, i)));

        r->given[i] = t;
        r->in[i] = t ? *t : (Tensor){ .shape = shape_unknown() };
        if (!t)
            continue;
        TRY(guarded_create(&r->in_mem[i], r->arena, tensor_bytes(t)));
        if (tensor_bytes(t))
            memcpy(r->in_mem[i].data, t->data, tensor_bytes(t));
        r->in[i].data = r->in_mem[i].data;
    }
    return ST_OK;
}

static Status place_outputs(KernelRun *r)
{
    for (int i = 0; i < r->n->n_out; i++) {
        const Value *v = has_value(r->n->out[i]) ? value(r->g, r->n->out[i]) : NULL;

        r->out[i] = v ? (Tensor){ v->dtype, *v->shape, NULL } : (Tensor){ .shape = shape_unknown() };
        if (!v)
            continue;
        if (i == r->over_out) {
            r->out[i].data = r->in[r->over_in].data;
            continue;
        }
        TRY(guarded_create(&r->out_mem[i], r->arena, tensor_bytes(&r->out[i])));
        memset(r->out_mem[i].data, GARBAGE_BYTE, r->out_mem[i].bytes);
        r->out[i].data = r->out_mem[i].data;
    }
    return ST_OK;
}

/* ---- on a device ---- */

enum { DEVICE_ALIGN = 256 };

/* The guarded buffer in the device's memory, its data 256-byte aligned. */
static Status upload(const TestGpu *gpu, const Guarded *b, void **base, void **data)
{
    if (!b->base)
        return ST_OK;
    TRY_GPU(gpu, runtime.alloc(gpu->device, base, b->bytes + 2 * DEVICE_ALIGN));
    *data = (char *)*base + DEVICE_ALIGN;
    return gpu_copy(gpu, (char *)*data - GUARD, b->data - GUARD, b->bytes + 2 * GUARD);
}

static Status download(const TestGpu *gpu, const Guarded *b, const void *base)
{
    return base ? gpu_copy(gpu, b->data - GUARD, (const char *)base + DEVICE_ALIGN - GUARD, b->bytes + 2 * GUARD)
                : ST_OK;
}

typedef struct {
    void *in[MAX_PORTS], *out[MAX_PORTS], *scratch, *table;
} DeviceMemory;

static Status run_there(KernelRun *r, const TestGpu *gpu, KernelCtx *ctx, void *state, DeviceMemory *m)
{
    Tensor in[MAX_PORTS], out[MAX_PORTS];

    for (int i = 0; i < r->n->n_in; i++) {
        in[i] = r->in[i];
        TRY(upload(gpu, &r->in_mem[i], &m->in[i], &in[i].data));
    }
    for (int i = 0; i < r->n->n_out; i++) {
        out[i] = r->out[i];
        if (i == r->over_out)
            out[i].data = in[r->over_in].data;
        TRY(upload(gpu, &r->out_mem[i], &m->out[i], &out[i].data));
    }
    TRY(upload(gpu, &r->scratch, &m->scratch, &ctx->scratch));
    if (ctx->table_bytes)
        r->kernel->tabulate(r->table.data, state, in, out);
    TRY(upload(gpu, &r->table, &m->table, &ctx->table));
    ctx->stream = gpu->stream;
    TRY(r->kernel->run(ctx, state, in, out));
    TRY_GPU(gpu, runtime.stream_wait(gpu->stream));
    for (int i = 0; i < r->n->n_in; i++)
        TRY(download(gpu, &r->in_mem[i], m->in[i]));
    for (int i = 0; i < r->n->n_out; i++)
        TRY(download(gpu, &r->out_mem[i], m->out[i]));
    return download(gpu, &r->scratch, m->scratch);
}

static Status run_on_device(KernelRun *r)
{
    DeviceMemory m = { 0 };
    const TestGpu *gpu;
    void *state = NULL;
    Status st = ST_OK;

    TRY(gpu_get(&gpu));
    KernelCtx ctx = { .n_threads = 1, .runtime = &gpu->driver->runtime, .gpu = gpu->device };

    if (r->kernel->prepare)
        TRY_TO(done, st, r->kernel->prepare(&state, &ctx, r->g, r->n));
    TRY_TO(done, st, guarded_create(&r->scratch, r->arena, ctx.scratch_bytes));
    if (ctx.table_bytes)
        TRY_TO(done, st, guarded_create(&r->table, r->arena, ctx.table_bytes));
    TRY_TO(done, st, run_there(r, gpu, &ctx, state, &m));
done:
    if (r->kernel->release && state)
        r->kernel->release(state);
    for (int i = 0; i < MAX_PORTS; i++) {
        gpu->driver->runtime.free(gpu->device, m.in[i]);
        gpu->driver->runtime.free(gpu->device, m.out[i]);
    }
    gpu->driver->runtime.free(gpu->device, m.scratch);
    gpu->driver->runtime.free(gpu->device, m.table);
    return st;
}

static bool is_cuda(const Kernel *kernel) { return !strncmp(kernel->name, "cuda_", 5); }

/* ---- on the host ---- */

static Status run_guarded(KernelRun *r, int n_threads)
{
    KernelCtx ctx = { .n_threads = n_threads, .grain = 8 }; /* cases are small */
    void *state = NULL;
    Status st = ST_OK;

    if (r->kernel->prepare)
        TRY_TO(done, st, r->kernel->prepare(&state, &ctx, r->g, r->n));
    TRY_TO(done, st, guarded_create(&r->scratch, r->arena, ctx.scratch_bytes));
    ctx.scratch = r->scratch.data;
    TRY_TO(done, st, r->kernel->run(&ctx, state, r->in, r->out));
done:
    if (r->kernel->release && state)
        r->kernel->release(state);
    return st;
}

static Status check_memory(const KernelRun *r)
{
    const char *name = r->kernel->name;

    TRY(guarded_check(&r->scratch, name, "scratch", 0));
    if (r->table.base)
        TRY(guarded_check(&r->table, name, "table", 0));
    for (int i = 0; i < r->n->n_in; i++) {
        if (!r->given[i])
            continue;
        TRY(guarded_check(&r->in_mem[i], name, "input", i));
        if (i != r->over_in && tensor_bytes(&r->in[i]) &&
            memcmp(r->in[i].data, r->given[i]->data, tensor_bytes(&r->in[i])))
            return FAIL(E_INTERNAL, "%s changes its input %d", name, i);
    }
    for (int i = 0; i < r->n->n_out; i++)
        if (r->out_mem[i].base)
            TRY(guarded_check(&r->out_mem[i], name, "output", i));
    return ST_OK;
}

/* What the interpreter computed for value `v`; NULL when the graph does not list it (a lowered form's inner output). */
static const Tensor *listed(const Eval *e, ValueId v)
{
    for (int i = 0; i < e->g->n_output; i++)
        if (value_eq(e->g->output[i].value, v))
            return e->out[i];
    return NULL;
}

static double epsilon(DType t)
{
    return t == DT_BFLOAT16 ? 0x1p-7 : t == DT_FLOAT16 ? 0x1p-10 : t == DT_FLOAT32 ? 1e-5 : t == DT_FLOAT64 ? 1e-12 : 0;
}

/* What |found - expected|_2 may be of |expected|_2: by the least precise type among the inputs and output i itself. */
static double norm_tolerance(const KernelRun *r, int i)
{
    double tol = epsilon(r->out[i].dtype);

    for (int j = 0; j < r->n->n_in; j++)
        if (r->given[j])
            tol = fmax(tol, epsilon(r->given[j]->dtype));
    return tol;
}

Status check_norm(const Tensor *found, const Tensor *expected, double tol, const char *what)
{
    double error = 0, size = 0;

    for (int64_t i = 0; i < tensor_numel(expected); i++) {
        double f = tensor_float(found, i), e = tensor_float(expected, i);

        if (!isfinite(f) || !isfinite(e))
            continue;
        error = hypot(error, f - e);
        size = hypot(size, e);
    }
    return error <= tol * size
               ? ST_OK
               : FAIL(E_INTERNAL, "%s: norm of the error %.3g, expected at most %.3g of %.3g", what, error, tol, size);
}

static Status check_outputs(Check *k, const KernelRun *r, const Eval *e, double tol)
{
    for (int i = 0; i < r->n->n_out; i++) {
        const Tensor *expected = has_value(r->n->out[i]) ? listed(e, r->n->out[i]) : NULL;
        Layout layout;
        char what[160];

        if (!expected)
            continue;
        layout = value(r->g, r->n->out[i])->layout;
        TRY(stored(&expected, r, r->n->out[i], expected));
        snprintf(what, sizeof what, "%s, output %d%s%s%s", r->kernel->name, i, i == r->over_out ? " in place" : "",
                 layout == LAYOUT_ROWS ? "" : ", ", layout == LAYOUT_ROWS ? "" : layout_name(layout));
        TRY(check_equal(&r->out[i], expected, tol, what));
        if (is_cuda(r->kernel) && dtype_is_float(expected->dtype))
            TRY(check_norm(&r->out[i], expected, norm_tolerance(r, i), what));
        if (strncmp(r->kernel->name, "ref_", 4))
            k->compared++;
    }
    return ST_OK;
}

/* The run, which lives in the check's arena, into *out. */
static Status run_once(KernelRun **out, Check *k, const Eval *e, const Kernel *kernel, double tol, int n_threads,
                       int over_out, int over_in)
{
    KernelRun *r = *out = ARENA_NEW(k->arena, KernelRun, 1);

    if (!r)
        return FAIL_NOMEM();
    *r = (KernelRun){
        .kernel = kernel, .g = e->g, .n = e->g->node[0], .arena = k->arena, .over_out = over_out, .over_in = over_in
    };
    TRY(place_inputs(r, e));
    TRY(place_outputs(r));
    TRY(is_cuda(kernel) ? run_on_device(r) : run_guarded(r, n_threads));
    TRY(check_memory(r));
    return check_outputs(k, r, e, tol);
}

static bool may_overlap(const Graph *g, const Node *n, int out, int in)
{
    const Value *y, *x;

    if (!has_out(n, out) || !has_in(n, in) || !node_overwrites(g, n, out, in))
        return false;
    y = value(g, n->out[out]);
    x = value(g, n->in[in]);
    return x->kind != V_CONST && y->dtype == x->dtype && shape_eq(y->shape, x->shape);
}

/* oneDNN cuts the sums of convolutions by threads. */
static bool cut_by_threads(const Kernel *k) { return !strncmp(k->name, "cpu_conv", 8); }

/* Else the threads of a team do not change what comes out. */
static Status check_same_bits(const KernelRun *a, const KernelRun *b)
{
    if (cut_by_threads(a->kernel))
        return ST_OK;
    for (int i = 0; i < a->n->n_out; i++)
        if (a->out_mem[i].base && memcmp(a->out_mem[i].data, b->out_mem[i].data, a->out_mem[i].bytes))
            return FAIL(E_INTERNAL, "%s: output %d has other bits with other threads", a->kernel->name, i);
    return ST_OK;
}

Status check_kernel(Check *k, const Eval *e, const Kernel *kernel, double tol)
{
    const Node *n = e->g->node[0];
    KernelRun *one, *three, *over;

    if (n->n_in > MAX_PORTS || n->n_out > MAX_PORTS)
        return FAIL(E_INTERNAL, "more than %d inputs or outputs", MAX_PORTS);
    TRY(run_once(&one, k, e, kernel, tol, 1, -1, -1));
    TRY(run_once(&three, k, e, kernel, tol, 3, -1, -1));
    TRY(check_same_bits(one, three));
    for (int i = 0; i < n->n_out; i++)
        for (int j = 0; j < n->n_in; j++)
            if (may_overlap(e->g, n, i, j))
                TRY(run_once(&over, k, e, kernel, tol, 1, i, j));
    return ST_OK;
}

static bool fits(const Kernel *kernel, const Graph *g, const Node *n)
{
    return kernel_find(&kernel, 1, g, n) == kernel;
}

static bool shapes_known(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !shape_known(value(g, n->out[i])->shape))
            return false;
    return true;
}

/* With all data in each layout; filters as well where the kernel takes them so. */
static Status check_layouts(Check *k, const Eval *e, const Kernel *kernel, double tol)
{
    const Node *n = e->g->node[0];
    Status st = ST_OK;

    if (!op_any_layout(n->op) && n->op->layout == LAYOUT_FIXED)
        return ST_OK;
    for (int l = LAYOUT_ROWS + 1; l < N_LAYOUTS && !st; l++) {
        if (!case_set_layouts(e->g, n, (Layout)l))
            continue;
        for (int rows = 0; rows < 2 && !st; rows++) {
            if (fits(kernel, e->g, n))
                st = check_kernel(k, e, kernel, tol);
            else if (n->op == &op_Fused && is_cuda(kernel) && l == LAYOUT_CHANNELS_LAST)
                st = FAIL(E_INTERNAL, "%s does not take values stored channels last", kernel->name);
            if (!case_filters_by_rows(e->g, n))
                break;
        }
        case_set_layouts(e->g, n, LAYOUT_ROWS);
    }
    return st;
}

Status check_kernels(Check *k, const Eval *e)
{
    const Node *n = e->g->n_node ? e->g->node[0] : NULL;
    const CpuKernels cpu = cpu_kernels(getenv("DPEXEC_TEST_ISA")); /* unset: the fastest */
    double tol;

    if (!n || e->g->n_node != 1 || !shapes_known(e->g, n))
        return ST_OK; /* lowered, or executed by the interpreter alone */
    tol = e->n_out && e->out[0]->dtype == DT_FLOAT64 ? 1e-11 : e->n_out && !dtype_is_float(e->out[0]->dtype) ? 0 : 2e-5;
    for (int i = 0; i < kernels_ref_len; i++)
        if (fits(kernels_ref[i], e->g, n))
            TRY(check_kernel(k, e, kernels_ref[i], tol));
    for (int i = 0; i < cpu.n; i++)
        if (cpu.kernel[i]->op == n->op) {
            if (fits(cpu.kernel[i], e->g, n))
                TRY(check_kernel(k, e, cpu.kernel[i], tol));
            TRY(check_layouts(k, e, cpu.kernel[i], tol));
        }
    return check_cuda_kernels(k, e, tol);
}

#ifdef DPX_SIMULATION
/* Products and convolutions again without what the simulated library might not have; a GPU's library is what it is. */
static Status check_refused(Check *k, const Eval *e, const Kernel *kernel, double tol)
{
    static const struct {
        const OpDef *op;
        const char *what;
    } refused[] = {
        { &op_Product, "sums" },  { &op_Product, "epilogues" },       { &op_Gemm, "epilogues" },
        { &op_ConvRelu, "relu" }, { &op_PackedAttention, "strides" }, { &op_PackedAttentionGrad, "strides" },
    };
    Status st = ST_OK;

    for (size_t i = 0; i < sizeof refused / sizeof *refused && !st; i++) {
        if (kernel->op != refused[i].op)
            continue;
        setenv("DPEXEC_SIM_REFUSE", refused[i].what, 1);
        if ((st = check_kernel(k, e, kernel, tol)))
            st = status_prefix(st, "without %s of the library", refused[i].what);
    }
    unsetenv("DPEXEC_SIM_REFUSE");
    return st;
}
#endif

Status check_cuda_kernels(Check *k, const Eval *e, double tol)
{
#ifdef DPX_SIMULATION
    const Node *n = e->g->n_node == 1 ? e->g->node[0] : NULL;

    for (int i = 0; i < kernels_cuda_len && n && shapes_known(e->g, n); i++)
        if (fits(kernels_cuda[i], e->g, n)) {
            TRY(check_kernel(k, e, kernels_cuda[i], tol));
            TRY(check_refused(k, e, kernels_cuda[i], tol));
            TRY(check_layouts(k, e, kernels_cuda[i], tol));
        }
    return ST_OK;
#else
    (void)k, (void)e, (void)tol;
    return ST_OK;
#endif
}
