/* Evaluation of a node with known inputs at compile time.  Three kinds of operators are not evaluated: random ones,
 * which draw anew each step; collectives, whose outputs are on devices; and embedders' operators with effects. */
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

Status fold_node(Graph *g, PassCtx *ctx, Node *n, int64_t max_bytes)
{
    const Tensor **in = ARENA_NEW(ctx->scratch, const Tensor *, n->n_in);
    Tensor *shapes = ARENA_NEW(ctx->scratch, Tensor, n->n_in), **out = ARENA_NEW(ctx->scratch, Tensor *, n->n_out);
    Status st;

    if (!ctx->eval)
        return ST_OK;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && (int64_t)value_bytes(g, n->out[i]) > max_bytes)
            return ST_OK;
    if (!in || !shapes || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++) {
        if (!has_value(n->in[i]))
            continue;
        shapes[i] = (Tensor){ in_value(g, n, i)->dtype, *in_value(g, n, i)->shape, NULL }; /* without data */
        in[i] = value_const(g, n->in[i]) ? value_const(g, n->in[i]) : &shapes[i];
    }
    st = ctx->eval(g->arena, g, n, in, out);
    if (st)
        return st == E_UNSUPPORTED ? ST_OK : st;
    for (int i = 0; i < n->n_out; i++)
        if (out[i]) { /* the value itself becomes the constant, so its readers stay */
            Value *v = value(g, n->out[i]);

            v->kind = V_CONST;
            v->producer = NULL;
            v->init = out[i];
        }
    graph_remove(g, n);
    ctx->n_changed++;
    return g->status;
}
