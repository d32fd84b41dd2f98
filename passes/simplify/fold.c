/* A node is evaluated when all that it reads is known.  Random operators are not: each step draws anew.  Collectives
 * are not: their outputs lie on devices.  Nor are embedders' operators that say that they do more than they compute. */
#include "passes/simplify/fold.h"

bool fold_possible(const Graph *g, const Node *n)
{
    bool shape_only = n->op->flags & OPF_SHAPE_ONLY;

    if (op_is_impure(n->op))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && !value_const(g, n->in[i]) && !op_is_gradient_only(n->op, i) &&
            !(shape_only && shape_known(in_value(g, n, i)->shape)))
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !shape_known(value(g, n->out[i])->shape))
            return false;
    return true;
}

static bool too_large(const Graph *g, const Node *n, int64_t max_bytes)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i])) {
            if ((int64_t)value_bytes(g, n->out[i]) > max_bytes)
                return true;
        }
    return false;
}

/* What the node reads; an input known by its shape alone is lent without data. */
static const Tensor **fold_gather_inputs(Arena *scratch, const Graph *g, const Node *n)
{
    const Tensor **in = ARENA_NEW(scratch, const Tensor *, n->n_in);
    Tensor *shapes = ARENA_NEW(scratch, Tensor, n->n_in);

    if (!in || !shapes)
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!has_value(n->in[i]))
            continue;
        shapes[i] = (Tensor){ in_value(g, n, i)->dtype, *in_value(g, n, i)->shape, NULL };
        in[i] = value_const(g, n->in[i]) ? value_const(g, n->in[i]) : &shapes[i];
    }
    return in;
}

Status fold_node(Graph *g, PassCtx *ctx, Node *n, int64_t max_bytes)
{
    const Tensor **in;
    Tensor **out;
    Status st;

    if (!ctx->eval || too_large(g, n, max_bytes))
        return ST_OK;
    in = fold_gather_inputs(ctx->scratch, g, n);
    out = ARENA_NEW(ctx->scratch, Tensor *, n->n_out);
    if (!in || !out)
        return FAIL_NOMEM();
    st = ctx->eval(g->arena, g, n, in, out);
    if (st)
        return st == E_UNSUPPORTED ? ST_OK : st;
    for (int i = 0; i < n->n_out; i++)
        if (out[i]) { /* the value itself becomes the constant: nothing needs to be replaced */
            Value *v = value(g, n->out[i]);

            v->kind = V_CONST;
            v->producer = NULL;
            v->init = out[i];
        }
    graph_remove(g, n);
    ctx->n_changed++;
    return g->status;
}
