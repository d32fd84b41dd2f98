/* 16-bit floats on the CPU: any reference kernel of float32 between conversions.
 *
 * This is what computing in 16 bits means here (passes/train/precision.c): inputs are taken as they are, the arithmetic
 * is that of float32, each result is rounded once, to nearest even.  It is an oracle and a fallback, not a fast path.
 */
#include "kernels/ref/ref.h"

typedef struct {
    Graph *graph; /* the node alone, its 16-bit values in float32 */
    const Kernel *kernel;
    void *state;
    KernelCtx ctx;
    Tensor *tensor;  /* [n_in + n_out] the kernel's tensors; converted data lies in scratch */
    size_t *at;      /* [n_in + n_out] offset in scratch; SIZE_MAX: used as it is */
    size_t inner_at; /* offset of the kernel's own scratch */
} Half;

static bool is_half(DType t) { return t == DT_FLOAT16 || t == DT_BFLOAT16; }

static bool has_half(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && is_half(in_value(g, n, i)->dtype))
            return true;
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && is_half(value(g, n->out[i])->dtype))
            return true;
    return false;
}

static ValueId copy_value(Graph *to, const Graph *g, ValueId v)
{
    const Value *x = value(g, v);
    DType t = is_half(x->dtype) ? DT_FLOAT32 : x->dtype;
    Tensor *c;

    if (!value_const(g, v))
        return graph_add_value(to, V_INPUT, x->name, t, x->shape);
    if (!(c = tensor_create(to->arena, t, x->shape))) {
        graph_fail_nomem(to);
        return NO_VALUE;
    }
    if (t == x->dtype && tensor_bytes(c))
        memcpy(c->data, x->init->data, tensor_bytes(c));
    for (int64_t i = 0; t != x->dtype && i < tensor_numel(c); i++)
        tensor_set_float(c, i, tensor_float(x->init, i));
    return graph_add_const_nocopy(to, x->name, c);
}

/* The node in a graph of its own, with float32 for its 16-bit types. */
static Status half_copy_node(Graph **out, const Graph *g, const Node *n)
{
    Graph *c = graph_create(g->name);
    ValueId *in = c ? ARENA_NEW(c->arena, ValueId, n->n_in) : NULL;
    Attr *attrs = in ? ARENA_NEW(c->arena, Attr, n->n_attr + 1) : NULL;
    Node *copy;

    if (!attrs) {
        graph_free(c);
        return FAIL_NOMEM();
    }
    for (int i = 0; i < n->n_in; i++)
        in[i] = has_in(n, i) ? copy_value(c, g, n->in[i]) : NO_VALUE;
    for (int i = 0; i < n->n_attr; i++)
        attrs[i] = n->attr[i];
    copy = c->status ? NULL : graph_add_node(c, n->op, n->name, attrs, n->n_in, in, n->n_out, NULL);
    for (int i = 0; copy && i < n->n_out; i++) {
        const Value *y = has_out(n, i) ? value(g, n->out[i]) : NULL;

        if (!y)
            copy->out[i] = NO_VALUE;
        else
            set_out(c, copy, i, is_half(y->dtype) ? DT_FLOAT32 : y->dtype, y->shape);
    }
    if (c->status) {
        Status st = c->status;

        graph_free(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

/* The kernel that does the work, and the graph that it sees; NULL: there is none. */
static const Kernel *inner_kernel(Graph **graph, const Graph *g, const Node *n)
{
    const Kernel *k;

    if (!has_half(g, n) || half_copy_node(graph, g, n))
        return NULL;
    k = kernel_find(kernels_ref, kernels_ref_len, *graph, (*graph)->node[0]);
    if (!k)
        graph_free(*graph);
    return k;
}

static bool half_supports(const Graph *g, const Node *n)
{
    Graph *c;
    const Kernel *k = inner_kernel(&c, g, n);

    if (k)
        graph_free(c);
    return k;
}

static void half_release(void *state)
{
    Half *h = state;

    if (!h)
        return;
    if (h->kernel && h->kernel->release)
        h->kernel->release(h->state);
    graph_free(h->graph);
    free(h->tensor);
    free(h->at);
    free(h);
}

static size_t half_take(size_t *total, size_t bytes)
{
    size_t at = *total;

    *total += (bytes + 63) & ~(size_t)63;
    return at;
}

/* Where each tensor lies: in scratch when it must be converted. */
static void lay_out(Half *h, KernelCtx *ctx, const Graph *g, const Node *n)
{
    size_t total = 0;

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        h->at[i] = SIZE_MAX;
        h->tensor[i].shape.rank = -1;
        if (!has_value(v))
            continue;
        h->tensor[i] = (Tensor){ value(g, v)->dtype, *value(g, v)->shape, NULL };
        if (!is_half(h->tensor[i].dtype))
            continue;
        h->tensor[i].dtype = DT_FLOAT32;
        h->at[i] = half_take(&total, tensor_bytes(&h->tensor[i]));
    }
    h->inner_at = half_take(&total, h->ctx.scratch_bytes);
    ctx->scratch_bytes = total;
}

static Status half_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Half *h = calloc(1, sizeof *h);
    size_t ports = (size_t)(n->n_in + n->n_out);
    Status st = ST_OK;

    if (!h || !(h->tensor = calloc(ports, sizeof *h->tensor)) || !(h->at = calloc(ports, sizeof *h->at)))
        TRY_TO(fail, st, FAIL_NOMEM());
    h->ctx = (KernelCtx){ .n_threads = ctx->n_threads };
    if (!(h->kernel = inner_kernel(&h->graph, g, n)))
        TRY_TO(fail, st, FAIL(E_UNSUPPORTED, "no kernel computes it in float32"));
    if (h->kernel->prepare && (st = h->kernel->prepare(&h->state, &h->ctx, h->graph, h->graph->node[0]))) {
        h->kernel = NULL;
        goto fail;
    }
    lay_out(h, ctx, g, n);
    *state = h;
    return ST_OK;
fail:
    half_release(h);
    return st;
}

static void widen(const Tensor *from, float *to)
{
    const uint16_t *x = from->data;
    int64_t n = tensor_numel(from);

    for (int64_t i = 0; i < n; i++)
        to[i] = from->dtype == DT_FLOAT16 ? half_to_float(x[i]) : bfloat_to_float(x[i]);
}

static void half_narrow(const float *from, Tensor *to)
{
    uint16_t *y = to->data;
    int64_t n = tensor_numel(to);

    for (int64_t i = 0; i < n; i++)
        y[i] = to->dtype == DT_FLOAT16 ? half_from_double(from[i]) : bfloat_from_float(from[i]);
}

static Status half_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Half *h = state;
    const Node *n = h->graph->node[0];
    Tensor *inner_out = h->tensor + n->n_in;

    h->ctx.scratch = (char *)ctx->scratch + h->inner_at;
    for (int i = 0; i < n->n_in; i++) {
        bool other = h->at[i] != SIZE_MAX;

        h->tensor[i].data = other ? (char *)ctx->scratch + h->at[i] : in[i].data;
        if (other)
            widen(&in[i], h->tensor[i].data);
    }
    for (int o = 0; o < n->n_out; o++) {
        size_t at = h->at[n->n_in + o];

        inner_out[o].data = at != SIZE_MAX ? (char *)ctx->scratch + at : out[o].data;
    }
    TRY(h->kernel->run(&h->ctx, h->state, h->tensor, inner_out));
    for (int o = 0; o < n->n_out; o++)
        if (h->at[n->n_in + o] != SIZE_MAX)
            half_narrow(inner_out[o].data, &out[o]);
    return ST_OK;
}

/* A kernel of no operator: kernel_reference offers it where no kernel of the operator fits. */
const Kernel kernel_half = {
    .name = "ref_half", .supports = half_supports, .prepare = half_prepare, .run = half_run, .release = half_release
};
