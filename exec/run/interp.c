/* Shapes that depend on data are inferred at the last moment: a node is inferred again when its inputs' values are
 * known, in a copy of the graph in which they have become constants. */
#include "exec/run/interp.h"

#include <string.h>

#include "kernels/backend.h"

static Status run_kernel(Arena *arena, const Kernel *k, const Graph *g, Node *n, const Tensor *in, Tensor *out)
{
    KernelCtx ctx = { .n_threads = 1 };
    void *state = NULL;
    Status st = ST_OK;

    if (k->prepare)
        TRY_TO(done, st, k->prepare(&state, &ctx, g, n));
    if (!(ctx.scratch = arena_alloc(arena, ctx.scratch_bytes < 256 ? 256 : ctx.scratch_bytes)))
        TRY_TO(done, st, FAIL_NOMEM());
    TRY_TO(done, st, k->run(&ctx, state, in, out));
done:
    if (k->release && state)
        k->release(state);
    return st;
}

static Status check_outputs(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !shape_known(value(g, n->out[i])->shape))
            return FAIL(E_UNSUPPORTED, "%s: the shape of output %d is not known", node_text(g, n), i);
    return ST_OK;
}

/* The first float that the node reads or makes, else what it reads first: what kernels are chosen by. */
static DType type_of(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && dtype_is_float(value(g, v)->dtype))
            return value(g, v)->dtype;
    }
    return n->n_in && has_in(n, 0) ? in_value(g, n, 0)->dtype : DT_NONE;
}

Status interp_node(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out)
{
    const Kernel *k = n->op->flags & OPF_VIEW ? NULL : kernel_reference(g, n);
    Tensor *ins = ARENA_NEW(arena, Tensor, n->n_in), *outs = ARENA_NEW(arena, Tensor, n->n_out);
    Status st;

    TRY(check_outputs(g, n));
    if (!k && !(n->op->flags & OPF_VIEW))
        return FAIL(E_UNSUPPORTED, "%s: no reference kernel for %s", node_text(g, n), dtype_name(type_of(g, n)));
    if (!ins || !outs)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        ins[i] = in[i] ? *in[i] : (Tensor){ .shape = shape_unknown() };
    for (int i = 0; i < n->n_out; i++) {
        out[i] =
            has_value(n->out[i]) ? tensor_create(arena, value(g, n->out[i])->dtype, value(g, n->out[i])->shape) : NULL;
        if (has_value(n->out[i]) && !out[i])
            return FAIL(E_NOMEM, "%s: out of memory", node_text(g, n));
        outs[i] = out[i] ? *out[i] : (Tensor){ .shape = shape_unknown() };
    }
    if (k) {
        st = run_kernel(arena, k, g, n, ins, outs);
        return st ? status_prefix(st, "%s", node_text(g, n)) : ST_OK;
    }
    if (tensor_bytes(out[0]))
        memcpy(out[0]->data, ins[0].data, tensor_bytes(out[0]));
    return ST_OK;
}

/* Makes the value a constant of the working copy, so that inference can read it. */
static void fix_value(Graph *work, ValueId v, const Tensor *t)
{
    value(work, v)->kind = V_CONST;
    value(work, v)->dtype = t->dtype;
    value_set_shape(work, value(work, v), &t->shape);
    value(work, v)->init = t;
}

static Status bind_given(Arena *arena, Graph *work, const Graph *g, const Tensor **values)
{
    for (uint32_t i = 1; i < work->n_value; i++) {
        Value *v = work->value[i];

        if (v->kind == V_TEMP)
            continue;
        if (!values[i])
            values[i] = g->value[i]->init; /* the copy's would die with it */
        if (!values[i])
            return FAIL(E_INVALID, "input '%s' was not given", v->name);
        if (v->kind == V_STATE && !values[i]->data && !(values[i] = tensor_create(arena, v->dtype, v->shape)))
            return FAIL_NOMEM();
        fix_value(work, (ValueId){ i }, values[i]);
    }
    return ST_OK;
}

static Status step(Arena *arena, Graph *work, Node *n, const Tensor **values, InterpTouch touch, void *ctx)
{
    const Tensor **in = ARENA_NEW(arena, const Tensor *, n->n_in);
    Tensor **out = ARENA_NEW(arena, Tensor *, n->n_out);

    if (!in || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        in[i] = values[n->in[i].i];
    if (check_outputs(work, n))
        TRY(node_infer(work, n));
    TRY(interp_node(arena, work, n, in, out));
    if (touch)
        TRY(touch(ctx, n, in, out));
    for (int i = 0; i < n->n_out; i++)
        if (out[i]) {
            values[n->out[i].i] = out[i];
            fix_value(work, n->out[i], out[i]);
        }
    return ST_OK;
}

Status interp_run(Arena *arena, const Graph *g, const Tensor **values)
{
    return interp_run_touched(arena, g, values, NULL, NULL);
}

Status interp_run_touched(Arena *arena, const Graph *g, const Tensor **values, InterpTouch touch, void *ctx)
{
    Graph *work;
    Status st;

    TRY(graph_clone(&work, g));
    values[0] = NULL;
    TRY_TO(done, st, bind_given(arena, work, g, values));
    FOR_NODES(work, n)
        TRY_TO(done, st, step(arena, work, n, values, touch, ctx));
done:
    graph_free(work);
    return st;
}
