/* Elementwise nodes by generated kernels: a kernel is generated and compiled while the program is made, and launched
 * with the addresses of the step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/expr.h"
#include "kernels/cuda/space.h"

enum { THREADS = 256, BLOCKS_MOST = 1 << 13 };

/* Are the layouts such that the kernel can walk them? */
static bool walks(const Graph *g, const Node *n)
{
    const Value *y = value(g, n->out[0]);
    SpaceOperand operand[GENERATED_POINTERS];
    int64_t dim[MAX_RANK], stride[GENERATED_POINTERS][MAX_RANK];
    int k = 0;

    for (int i = 0; i < n->n_in; i++) {
        if (!has_in(n, i))
            continue;
        operand[k++] = (SpaceOperand){ in_value(g, n, i), op_takes_channels(n->op, i) };
        if (in_value(g, n, i)->layout != y->layout && shape_eq(in_value(g, n, i)->shape, y->shape))
            return false;
    }
    return space_is_even(space_merge(y, k, operand, dim, stride), k, stride);
}

bool generated_supports(const Graph *g, const Node *n)
{
    int pointers = n->n_in + n->n_out;

    return cuda_expr_find(g, n) && pointers <= GENERATED_POINTERS &&
           shape_numel(value(g, n->out[0])->shape) <= INT32_MAX && walks(g, n);
}

/* ---- a node as a body ---- */

/* Adds the body's input for input i of the node; returns what stands for it: the first one of the same value. */
static ValueId body_input(Graph *body, const Graph *g, const Node *n, const ValueId *in, int i)
{
    const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
    Shape scalar = shape_scalar();
    ValueId x = graph_add_input(body, "x", v ? v->dtype : DT_NONE, v ? v->shape : &scalar);

    if (v && !body->status)
        value(body, x)->layout = v->layout;
    if (!v)
        return NO_VALUE;
    for (int k = 0; k < i; k++)
        if (value_eq(n->in[k], n->in[i]))
            return in[k];
    if (!body->status && value_const(g, n->in[i]) && shape_numel(v->shape) == 1) {
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
        set_out(body, copy, 0, y->dtype, y->shape);
        value(body, copy->out[0])->layout = y->layout;
        graph_add_output(body, "y", copy->out[0]);
    }
    if ((st = body->status))
        graph_free(body);
    else
        *out = body;
    return st;
}

/* ---- the compiled kernel ---- */

void generated_free(Generated *k)
{
    if (k)
        free(k->source);
    free(k);
}

Status generated_compile(GeneratedCode *c, KernelCtx *ctx, const Generated *k, bool work)
{
    c->driver = cuda_driver(ctx);
    c->n_pointer = k->n_pointer;
    memcpy(c->of, k->of, sizeof c->of);
    memcpy(c->align, k->align, sizeof c->align);
    if (!work)
        return ST_OK;
    if (!(c->number = calloc((size_t)k->n_number + 1, sizeof *c->number)))
        return FAIL_NOMEM();
    memcpy(c->number, k->number, sizeof *c->number * (size_t)k->n_number);
    TRY_CUDA(ctx, compile(ctx->gpu, k->source, k->name, &c->module));
    TRY_CUDA(ctx, module_kernel(c->module, k->name, &c->kernel));
    return ST_OK;
}

int generated_bind(const GeneratedCode *c, const Tensor *in, const Tensor *out, void **pointer, void **args)
{
    int aligned = 1;

    for (int i = 0; i < c->n_pointer; i++) {
        pointer[i] = c->of[i] >= 0 ? in[c->of[i]].data : out[-1 - c->of[i]].data;
        args[i] = &pointer[i];
        aligned = aligned && (uintptr_t)pointer[i] % c->align[i] == 0;
    }
    return aligned;
}

void generated_release(void *state)
{
    GeneratedCode *c = state;

    if (c && c->module)
        c->driver->module_free(c->module);
    if (c)
        free(c->number);
    free(state);
}

/* ---- preparing ---- */

Status generated_prepare_body(void **state, KernelCtx *ctx, Graph *body)
{
    Generated *k = calloc(1, sizeof *k);
    GeneratedCode *c = calloc(1, sizeof *c);
    Status st = k && c ? generate_elementwise(k, body) : FAIL_NOMEM();

    if (!st) {
        const int64_t groups = (k->count + k->vector - 1) / k->vector;

        c->count = k->count;
        c->threads = groups < THREADS ? (unsigned)((groups + 31) / 32 * 32) : THREADS;
        c->blocks = groups ? cuda_blocks(groups, c->threads, BLOCKS_MOST) : 0;
        st = generated_compile(c, ctx, k, c->blocks);
    }
    if (st)
        generated_release(c);
    else
        *state = c;
    generated_free(k);
    graph_free(body);
    return st;
}

Status generated_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Graph *body;

    TRY(body_of_node(&body, g, n));
    return generated_prepare_body(state, ctx, body);
}

/* ---- running ---- */

Status generated_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    GeneratedCode *c = state;
    void *pointer[GENERATED_POINTERS], *args[GENERATED_POINTERS + 3];
    int aligned, n = c->n_pointer;

    if (!c->blocks)
        return ST_OK;
    aligned = generated_bind(c, in, out, pointer, args);
    args[n] = &c->count;
    args[n + 1] = &aligned;
    args[n + 2] = c->number;
    return cuda_launch(ctx, c->kernel, c->blocks, c->threads, 0, args);
}
