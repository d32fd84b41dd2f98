/* Shapes that depend on data are inferred at the last moment: a node is inferred again when its inputs' values are
 * known, in a copy of the graph in which they have become constants. */
#include "exec/run/interp.h"

#include <string.h>

#include "kernels/backend.h"

static Status run_kernel(Arena *arena, const Kernel *k, const Graph *g, Node *n, const Tensor *in, Tensor *out)
{
    KernelCtx ctx = { .n_threads = 1, .texts = arena };
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

static Status interp_check_outputs(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !shape_known(value(g, n->out[i])->shape))
            return FAIL(E_UNSUPPORTED, "%s: the shape of output %d is not known", node_text(g, n), i);
    return ST_OK;
}

/* The first float that the node reads or makes, else what it reads first: what kernels are chosen by. */
static DType interp_type_of(const Graph *g, const Node *n)
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

    TRY(interp_check_outputs(g, n));
    if (!k && !(n->op->flags & OPF_VIEW))
        return FAIL(E_UNSUPPORTED, "%s: no reference kernel for %s", node_text(g, n), dtype_name(interp_type_of(g, n)));
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

/* ---- operators without a kernel ---- */

enum { MAX_LOWERINGS = 16 };

static Status any(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out, int depth);

/* Makes the value a constant of the working copy, so that inference can read it. */
static void fix_value(Graph *work, ValueId v, const Tensor *t)
{
    value(work, v)->kind = V_CONST;
    value(work, v)->dtype = t->dtype;
    value_set_shape(work, value(work, v), &t->shape);
    value(work, v)->init = t;
}

/* Has `lower` declined? */
static bool is_left(const Graph *apart, const Node *n)
{
    bool is = false;

    for (int i = 0; i < apart->n_output; i++)
        is |= has_out(n, i) && value_eq(apart->output[i].value, n->out[i]);
    return is;
}

/* A graph of the node alone. */
static Status set_apart(Node **out, Graph *apart, const Node *n, const Tensor *const *in)
{
    ValueId *ids = ARENA_NEW(apart->arena, ValueId, n->n_in);
    const char **names = ARENA_NEW(apart->arena, const char *, n->n_out);

    if (!ids || !names)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        ids[i] = in[i] ? graph_add_const_nocopy(apart, "input", in[i]) : NO_VALUE;
    for (int i = 0; i < n->n_out; i++)
        names[i] = has_value(n->out[i]) ? "output" : "";
    if (!(*out = graph_add_node(apart, n->op, n->name, NULL, n->n_in, ids, n->n_out, names)))
        return apart->status;
    node_copy_attrs(apart, *out, n);
    for (int i = 0; i < n->n_out; i++)
        graph_add_output(apart, "", (*out)->out[i]);
    return node_infer(apart, *out);
}

static Status run_apart(Graph *g, int depth)
{
    FOR_NODES(g, n) {
        const Tensor **in;
        Tensor **out;

        TRY(node_infer(g, n)); /* which may add inputs, or convert them */
        in = ARENA_NEW(g->arena, const Tensor *, n->n_in);
        out = ARENA_NEW(g->arena, Tensor *, n->n_out);
        if (!in || !out)
            return FAIL_NOMEM();
        for (int i = 0; i < n->n_in; i++)
            in[i] = in_const(g, n, i);
        TRY(any(g->arena, g, n, in, out, depth + 1));
        for (int i = 0; i < n->n_out; i++)
            if (out[i])
                fix_value(g, n->out[i], out[i]);
    }
    return ST_OK;
}

static Status run_lowered(Tensor **out, Arena *arena, Graph *apart, const Node *n, const Tensor *const *in, int depth)
{
    Node *x;

    TRY(set_apart(&x, apart, n, in));
    TRY(n->op->lower(apart, x));
    TRY(apart->status);
    if (is_left(apart, x))
        return FAIL(E_UNSUPPORTED, "%s: no reference kernel for %s", node_text(apart, x),
                    dtype_name(interp_type_of(apart, x)));
    graph_remove(apart, x);
    TRY(graph_sort(apart));
    TRY(run_apart(apart, depth));
    for (int i = 0; i < n->n_out; i++) {
        const Tensor *t = value_const(apart, apart->output[i].value);

        out[i] = NULL;
        if (has_value(n->out[i]) && !t)
            return FAIL(E_INTERNAL, "%s: its lowered form does not compute output %d", n->op->name, i);
        if (has_value(n->out[i]) && !(out[i] = tensor_copy(arena, t)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

static Status any(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out, int depth)
{
    Graph *apart;
    Status st;

    if (!n->op->lower || n->op->flags & OPF_VIEW || kernel_reference(g, n))
        return interp_node(arena, g, n, in, out);
    if (depth == MAX_LOWERINGS)
        return FAIL(E_INTERNAL, "%s: lowered %d times, and still no kernel", node_text(g, n), depth);
    if (!(apart = graph_create_within("", arena_budget(arena))))
        return FAIL_NOMEM();
    st = run_lowered(out, arena, apart, n, in, depth);
    graph_free(apart);
    return st;
}

Status interp_any(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out)
{
    return any(arena, g, n, in, out, 0);
}

/* ---- graphs ---- */

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

/* Inference may have given a node of the copy constants that the graph does not know: `values` has no place for them.
 */
static const Tensor *interp_computed(const Graph *work, ValueId v)
{
    return value(work, v)->kind == V_TEMP ? NULL : value(work, v)->init;
}

/* Was it, in a branch that is not taken, not computed? */
static bool is_left_out(const Graph *work, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && !interp_computed(work, n->in[i]))
            return true;
    return false;
}

static Status interp_compute(Arena *arena, Graph *work, Node *n, const Tensor **values, InterpTouch touch, void *ctx)
{
    const Tensor **in = ARENA_NEW(arena, const Tensor *, n->n_in);
    Tensor **out = ARENA_NEW(arena, Tensor *, n->n_out);

    if (!in || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        in[i] = has_in(n, i) ? interp_computed(work, n->in[i]) : NULL;
    TRY(interp_any(arena, work, n, in, out));
    if (touch)
        TRY(touch(ctx, n, in, out));
    for (int i = 0; i < n->n_out; i++)
        if (out[i]) {
            values[n->out[i].i] = out[i];
            fix_value(work, n->out[i], out[i]);
        }
    return ST_OK;
}

static Status step(Arena *arena, Graph *work, Node *n, const Tensor **values, InterpTouch touch, void *ctx)
{
    const int is = n->op->selected_input ? n->op->selected_input(work, n) : -1;

    if (is >= 0 && (values[n->out[0].i] = values[n->in[is].i]))
        fix_value(work, n->out[0], values[n->in[is].i]);
    if (is >= 0 || is_left_out(work, n))
        return ST_OK;
    if (interp_check_outputs(work, n) ||
        op_reshapes(n->op)) /* a shape given in full is known before what it is given to */
        TRY(node_infer(work, n));
    if (n->op->selected_input && interp_check_outputs(work, n))
        return ST_OK; /* what enters a branch that is not taken */
    return interp_compute(arena, work, n, values, touch, ctx);
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
