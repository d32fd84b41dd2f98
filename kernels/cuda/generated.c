/* Elementwise nodes by generated kernels: a kernel is generated and compiled while the program is made, and launched
 * with the addresses of the step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/expr.h"
#include "kernels/cuda/generate.h"
#include "kernels/cuda/space.h"

enum { THREADS = 256, BLOCKS_MOST = 1 << 13 };

typedef struct {
    GpuModule *module;
    GpuKernel *kernel;
    const CudaDriver *driver;
    int n_pointer, of[GENERATED_POINTERS];
    size_t align[GENERATED_POINTERS];
    unsigned blocks, threads; /* blocks 0: there is nothing to do */
    int64_t count;
    uint32_t number[];
} Launch;

/* Are the layouts such that the kernel can walk them? */
static bool walks(const Graph *g, const Node *n)
{
    const Value *y = value(g, n->out[0]);
    Operand operand[GENERATED_POINTERS];
    int64_t dim[MAX_RANK], stride[GENERATED_POINTERS][MAX_RANK];
    int k = 0;

    for (int i = 0; i < n->n_in; i++) {
        if (!has_in(n, i))
            continue;
        operand[k++] = (Operand){ in_value(g, n, i), op_takes_channels(n->op, i) };
        if (in_value(g, n, i)->layout != y->layout && shape_eq(&in_value(g, n, i)->shape, &y->shape))
            return false;
    }
    return space_is_even(space_merge(y, k, operand, dim, stride), k, stride);
}

bool generated_supports(const Graph *g, const Node *n)
{
    int pointers = n->n_in + n->n_out;

    return cuda_expr_find(g, n) && pointers <= GENERATED_POINTERS &&
           shape_numel(&value(g, n->out[0])->shape) <= INT32_MAX && walks(g, n);
}

/* ---- a node as a body ---- */

/* Adds the body's input for input i of the node; returns what stands for it: the first one of the same value. */
static ValueId body_input(Graph *body, const Graph *g, const Node *n, const ValueId *in, int i)
{
    const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
    Shape scalar = shape_scalar();
    ValueId x = graph_add_input(body, "x", v ? v->dtype : DT_NONE, v ? &v->shape : &scalar);

    if (v && !body->status)
        value(body, x)->layout = v->layout;
    if (!v)
        return NO_VALUE;
    for (int k = 0; k < i; k++)
        if (value_eq(n->in[k], n->in[i]))
            return in[k];
    if (!body->status && value_const(g, n->in[i]) && shape_numel(&v->shape) == 1) {
        value(body, x)->kind = V_CONST;
        value(body, x)->init = v->init;
    }
    return x;
}

static Status body_of_node(Graph **out, const Graph *g, const Node *n)
{
    Graph *body = graph_create(n->op->name);
    ValueId in[GENERATED_POINTERS];
    const Value *y = value(g, n->out[0]);
    Node *copy;
    Status st;

    if (!body)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        in[i] = body_input(body, g, n, in, i);
    copy = graph_add_node(body, n->op, n->name, NULL, n->n_in, in, 1, NULL);
    if (copy) {
        for (int i = 0; i < n->n_attr; i++)
            node_set_attr(body, copy, &n->attr[i]);
        set_out(body, copy, 0, y->dtype, &y->shape);
        value(body, copy->out[0])->layout = y->layout;
        graph_add_output(body, "y", copy->out[0]);
    }
    if ((st = body->status))
        graph_free(body);
    else
        *out = body;
    return st;
}

/* ---- preparing ---- */

static Launch *create_launch(const Generated *k)
{
    Launch *l = calloc(1, sizeof *l + sizeof *k->number * (size_t)k->n_number);
    int64_t groups = (k->count + k->vector - 1) / k->vector;

    if (!l)
        return NULL;
    l->n_pointer = k->n_pointer;
    memcpy(l->of, k->of, sizeof l->of);
    memcpy(l->align, k->align, sizeof l->align);
    memcpy(l->number, k->number, sizeof *k->number * (size_t)k->n_number);
    l->count = k->count;
    l->threads = groups < THREADS ? (unsigned)((groups + 31) / 32 * 32) : THREADS;
    l->blocks = groups ? cuda_blocks(groups, l->threads, BLOCKS_MOST) : 0;
    return l;
}

static Status compile(Launch *l, KernelCtx *ctx, const Generated *k)
{
    l->driver = cuda_driver(ctx);
    if (!l->blocks)
        return ST_OK;
    TRY_CUDA(ctx, compile(ctx->gpu, k->source, k->name, &l->module));
    TRY_CUDA(ctx, module_kernel(l->module, k->name, &l->kernel));
    return ST_OK;
}

Status generated_prepare_body(void **state, KernelCtx *ctx, Graph *body)
{
    Generated *k = calloc(1, sizeof *k);
    Launch *l = NULL;
    Status st = k ? generate_elementwise(k, body) : FAIL_NOMEM();

    if (!st && !(l = create_launch(k)))
        st = FAIL_NOMEM();
    if (!st)
        st = compile(l, ctx, k);
    if (st)
        generated_release(l);
    else
        *state = l;
    if (k)
        free(k->source);
    free(k);
    graph_free(body);
    return st;
}

Status generated_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Graph *body;

    TRY(body_of_node(&body, g, n));
    return generated_prepare_body(state, ctx, body);
}

void generated_release(void *state)
{
    Launch *l = state;

    if (l && l->module)
        l->driver->module_free(l->module);
    free(l);
}

/* ---- running ---- */

Status generated_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Launch *l = state;
    void *pointer[GENERATED_POINTERS], *args[GENERATED_POINTERS + 3];
    int aligned = 1, n = l->n_pointer;

    if (!l->blocks)
        return ST_OK;
    for (int i = 0; i < n; i++) {
        pointer[i] = l->of[i] >= 0 ? in[l->of[i]].data : out[-1 - l->of[i]].data;
        args[i] = &pointer[i];
        aligned = aligned && (uintptr_t)pointer[i] % l->align[i] == 0;
    }
    args[n] = &l->count;
    args[n + 1] = &aligned;
    args[n + 2] = l->number;
    return cuda_launch(ctx, l->kernel, l->blocks, l->threads, 0, args);
}
