/* Gradient by autodiff against central differences, in float64 by the interpreter.
 *
 * The loss is a fixed random weighting of all float outputs, so that every element of the Jacobian enters: with weights
 * of one, an error that cancels over a sum would pass.  Each input is also differentiated alone: a gradient must not
 * depend on which others are wanted. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ops/binary.gen.h"
#include "graph/ir/verify.h"
#include "graph/ir/autodiff.h"
#include "tests/ops/check.h"

#define EPS 1e-6
#define ATOL 1e-5
#define RTOL 1e-3

enum {
    MAX_ELEMENTS = 400
}; /* of a larger input (cases for the fast kernels' tiles) only that many are varied, evenly spread */

static ValueId random_weights(Graph *g, DType dtype, const Shape *s, uint64_t seed)
{
    Tensor *t = tensor_create(g->arena, dtype, s);

    if (!t) {
        g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        tensor_set_float(t, i, 0.5 + (double)(seed >> 40) * 0x1p-24);
        if (seed >> 39 & 1)
            tensor_set_float(t, i, -tensor_float(t, i));
    }
    return graph_add_const_nocopy(g, "weights", t);
}

/* sum over outputs of sum(weights * output), of those of `type` in it, of 16 bits those of float32 too; NO_VALUE when
 * there are none. */
static Status add_loss(Graph *g, const Case *c, DType type, ValueId *loss)
{
    int n = g->n_output;

    *loss = NO_VALUE;
    for (int k = 0; k < n; k++) {
        const Value *y = value(g, g->output[k].value);
        int64_t axes[MAX_RANK];
        ValueId term;

        if ((y->dtype != type && (type == DT_FLOAT64 || y->dtype != DT_FLOAT32)) || k >= 32 || !(c->of >> k & 1))
            continue;
        if (!shape_known(y->shape))
            return FAIL(E_INTERNAL, "output %d has no static shape: its gradient cannot be checked (| nograd)", k);
        for (int i = 0; i < y->shape->rank; i++)
            axes[i] = i;
        term = EMIT(g, Mul, NULL, g->output[k].value, random_weights(g, y->dtype, y->shape, (uint64_t)k + 1));
        term = emit_cast(g, emit_reduce_sum(g, term, y->shape->rank, axes, false), type);
        *loss = has_value(*loss) ? EMIT(g, Add, NULL, *loss, term) : term;
        TRY(g->status);
    }
    if (has_value(*loss))
        graph_add_output(g, "loss", *loss);
    return g->status;
}

static Status loss_at(double *out, Eval *e)
{
    Arena *a = arena_create();
    Status st = a ? eval_graph(e, a) : FAIL_NOMEM();

    if (!st)
        *out = tensor_float(e->out[e->n_out - 1], 0);
    arena_free(a);
    return st;
}

/* A graph with outputs "d0".. for the wanted inputs, appended behind the outputs of `forward`. */
static Status differentiate(Graph **out, const Graph *forward, ValueId loss, int n, const ValueId *wrt, ValueId *grads)
{
    Arena *scratch = arena_create();
    Graph *g = NULL;
    Status st = scratch ? graph_clone(&g, forward) : FAIL_NOMEM();

    if (!st)
        st = autodiff(g, scratch, loss, n, wrt, grads);
    for (int i = 0; i < n && !st; i++) {
        char name[16];

        snprintf(name, sizeof name, "d%d", i);
        if (has_value(grads[i]))
            graph_add_output(g, name, grads[i]);
    }
    arena_free(scratch);
    if (!st)
        st = graph_sort(g);
    if (st) {
        graph_free(g);
        return st;
    }
    *out = g;
    return ST_OK;
}

/* Gradients of the inputs `arg[0..n)` into `grad` (NULL: zero).  `split`: the placement rules are checked too. */
static Status run_gradient(Check *k, const Eval *forward, ValueId loss, int n, const int *arg, const Tensor **grad,
                           bool split)
{
    ValueId wrt[CASE_ARGS], grads[CASE_ARGS];
    Eval e = *forward;
    Status st;
    int at = forward->g->n_output;

    for (int i = 0; i < n; i++) {
        char name[16];

        snprintf(name, sizeof name, "x%d", arg[i]);
        wrt[i] = graph_find(forward->g, name);
    }
    TRY(differentiate(&e.g, forward->g, loss, n, wrt, grads));
    st = eval_graph(&e, k->arena);
    if (!st && split)
        st = check_split(k, &e);
    for (int i = 0; i < n && !st; i++)
        grad[i] = has_value(grads[i]) && at < e.n_out ? e.out[at++] : NULL;
    graph_free(e.g);
    return st;
}

static Status check_differences(Eval *e, int arg, const Tensor *grad)
{
    Tensor *x = e->in[arg];
    int64_t step = tensor_numel(x) > MAX_ELEMENTS ? tensor_numel(x) / MAX_ELEMENTS | 1 : 1;

    for (int64_t i = 0; i < tensor_numel(x); i += step) {
        double at = tensor_float(x, i), up = 0, down = 0, slope, g = grad ? tensor_float(grad, i) : 0;

        tensor_set_float(x, i, at + EPS);
        TRY(loss_at(&up, e));
        tensor_set_float(x, i, at - EPS);
        TRY(loss_at(&down, e));
        tensor_set_float(x, i, at);
        slope = (up - down) / (2 * EPS);
        if (!(fabs(g - slope) <= ATOL + RTOL * fabs(slope)))
            return FAIL(E_INTERNAL,
                        "gradient by input %d at element %lld (x = %.9g) is %.9g, central differences give %.9g", arg,
                        (long long)i, at, g, slope);
    }
    return ST_OK;
}

static Status check_alone(Check *k, const Eval *e, ValueId loss, int arg, const Tensor *together)
{
    const Tensor *alone = NULL;

    TRY(run_gradient(k, e, loss, 1, &arg, &alone, false));
    if (!alone != !together)
        return FAIL(E_INTERNAL, "gradient by input %d exists only %s", arg, alone ? "alone" : "together with others");
    return alone ? check_equal(alone, together, 1e-12, "gradient alone against together") : ST_OK;
}

static int differentiable_args(const Check *k, const Eval *e, int *arg)
{
    int n = 0;

    for (int i = 0; i < k->c->n_arg; i++)
        if (e->in[i] && e->in[i]->dtype == DT_FLOAT64 && i < 32 && (k->c->by >> i & 1))
            arg[n++] = i;
    return n;
}

static Status check_lowered(Check *k, Eval *e)
{
    const Tensor *grad[CASE_ARGS] = { NULL };
    int arg[CASE_ARGS], n = differentiable_args(k, e, arg);
    ValueId loss;

    TRY(lower_graph(e->g));
    TRY(add_loss(e->g, k->c, DT_FLOAT64, &loss));
    if (!has_value(loss) || !n)
        return ST_OK;
    TRY(run_gradient(k, e, loss, n, arg, grad, true));
    for (int i = 0; i < n; i++) {
        if (grad[i] && !shape_eq(&grad[i]->shape, &e->in[arg[i]]->shape))
            return FAIL(E_INTERNAL, "gradient by input %d has another shape than the input", arg[i]);
        TRY(check_differences(e, arg[i], grad[i]));
        if (n > 1)
            TRY(check_alone(k, e, loss, arg[i], grad[i]));
        k->compared++;
    }
    return ST_OK;
}

static bool has_gradient(const Check *k, const Graph *g)
{
    return !k->c->nograd && (g->n_node != 1 || g->node[0]->op->grad != grad_none);
}

Status check_gradient(Check *k, const Eval *given)
{
    Eval e = *given;
    Status st;

    if (!has_gradient(k, given->g))
        return ST_OK;
    TRY(graph_clone(&e.g, given->g));
    st = check_lowered(k, &e);
    graph_free(e.g);
    return st;
}

/* By every input at once; no number is looked at.  What is lowered to operators that do not know the type is refused by
 * name. */
static Status differentiate_half(Check *k, Graph *g, DType type)
{
    ValueId wrt[CASE_ARGS], grads[CASE_ARGS], loss;
    Graph *with = NULL;
    int n = 0;
    Status st;

    if (lower_graph(g))
        return ST_OK;
    TRY(add_loss(g, k->c, type, &loss));
    for (int i = 0; i < g->n_input; i++)
        if (dtype_is_float(value(g, g->input[i])->dtype) && i < 32 && (k->c->by >> i & 1))
            wrt[n++] = g->input[i];
    if (!has_value(loss) || !n)
        return ST_OK;
    TRY(differentiate(&with, g, loss, n, wrt, grads));
    st = graph_verify(with);
    for (int i = 0; i < n && !st; i++)
        if (has_value(grads[i]) && value(with, grads[i])->dtype != value(with, wrt[i])->dtype)
            st = FAIL(E_INTERNAL, "gradient by '%s' is %s", value(with, wrt[i])->name,
                      dtype_name(value(with, grads[i])->dtype));
    graph_free(with);
    return st;
}

Status check_half_gradient(Check *k, const Graph *given, DType type)
{
    Graph *g = NULL;
    Status st;

    if (!has_gradient(k, given))
        return ST_OK;
    TRY(graph_clone(&g, given));
    st = differentiate_half(k, g, type);
    graph_free(g);
    return st ? status_prefix(st, "gradient") : ST_OK;
}
