/* autodiff: appends the backward pass, only what the loss needs.
 *
 * A value wants a gradient when it depends on a parameter; one flows to it when the loss depends on it.  Nodes are
 * visited in reverse order, so when a node's turn comes every consumer of its outputs has contributed: contributions
 * are added as they arrive, which makes the order of addition that of the nodes.  New nodes are appended behind the
 * forward pass and stay in topological order.  They are named by whose gradient they are: of a node, or of the
 * parameter that it reads. */
#include "passes/train/autodiff.h"

#include <string.h>

#include "graph/grad.h"
#include "passes/pass.h"
#include "passes/report.h"
#include "passes/update_groups.h"

typedef struct {
    Graph *g;
    Arena *scratch;
    bool *wants;      /* by value id: depends on something to differentiate by */
    ValueId *grad;    /* by value id: the sum of contributions so far */
    uint32_t n_value; /* of the forward graph: the tables' size */
    Problems missing;
} Walk;

static bool differentiable(const Graph *g, ValueId v) { return has_value(v) && dtype_is_float(value(g, v)->dtype); }

static void mark_wanted(Walk *w)
{
    FOR_NODES(w->g, n) {
        bool any = false;

        for (int i = 0; i < n->n_in; i++)
            any |= differentiable(w->g, n->in[i]) && w->wants[n->in[i].i];
        if (!any || n->op->grad == grad_none || (n->op->flags & OPF_ZERO_GRAD))
            continue;
        for (int i = 0; i < n->n_out; i++)
            if (differentiable(w->g, n->out[i]))
                w->wants[n->out[i].i] = true;
    }
}

/* The node in whose name what follows is added. */
static Status begin_gradient(Graph *g, const char *of)
{
    const char *purpose = arena_printf(g->arena, GRADIENT_OF "%s", of);

    graph_begin_purpose(g, PHASE_BACKWARD, purpose);
    return purpose ? ST_OK : FAIL_NOMEM();
}

/* Nodes that make the gradient of a parameter and of nothing else: the last, and what it is a view of. */
static Status name_gradient(Graph *g, ValueId param, ValueId grad)
{
    Node *n = value(g, grad)->producer;

    if (value(g, param)->kind != V_STATE)
        return ST_OK;
    TRY(begin_gradient(g, value(g, param)->name));
    while (n && n->n_out == 1 && n->phase == PHASE_BACKWARD) {
        n->name = g->purpose;
        n = n->op->flags & OPF_VIEW ? value(g, n->in[0])->producer : NULL;
    }
    return ST_OK;
}

static Status contribute(Walk *w, const Node *n, int input, ValueId dx)
{
    Graph *g = w->g;
    ValueId x = n->in[input];
    const char *purpose = g->purpose;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (!has_value(dx))
        return ST_OK;
    if (value(g, dx)->dtype != value(g, x)->dtype || !shape_eq(value(g, dx)->shape, value(g, x)->shape))
        return FAIL(E_INTERNAL, "%s: gradient by input %d is %s%s, the input %s%s", node_text(g, n), input,
                    dtype_name(value(g, dx)->dtype), shape_text(value(g, dx)->shape, a), dtype_name(value(g, x)->dtype),
                    shape_text(value(g, x)->shape, b));
    if (value(g, dx)->batch_axis == BATCH_UNKNOWN)
        value(g, dx)->batch_axis = value(g, x)->batch_axis;
    TRY(name_gradient(g, x, dx));
    w->grad[x.i] = has_value(w->grad[x.i]) ? EMIT(g, Add, NULL, w->grad[x.i], dx) : dx;
    graph_begin_purpose(g, PHASE_BACKWARD, purpose);
    return g->status;
}

static Status visit(Walk *w, const Node *n)
{
    Grad gr = { .g = w->g, .node = n };
    ValueId *dout = ARENA_NEW(w->scratch, ValueId, n->n_out), *din = ARENA_NEW(w->scratch, ValueId, n->n_in);
    bool *wanted = ARENA_NEW(w->scratch, bool, n->n_in), flows = false;

    if (!dout || !din || !wanted)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_out; i++) {
        dout[i] = has_value(n->out[i]) && w->wants[n->out[i].i] ? w->grad[n->out[i].i] : NO_VALUE;
        flows |= has_value(dout[i]);
    }
    if (!flows)
        return ST_OK;
    if (!n->op->grad) {
        problems_add(&w->missing, "%s", node_text(w->g, n));
        return ST_OK;
    }
    for (int i = 0; i < n->n_in; i++)
        wanted[i] = differentiable(w->g, n->in[i]) && w->wants[n->in[i].i];
    gr.dout = dout;
    gr.din = din;
    gr.wanted = wanted;
    TRY(begin_gradient(w->g, n->name));
    TRY(n->op->grad(&gr));
    TRY(w->g->status);
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i])
            TRY(contribute(w, n, i, din[i]));
    return ST_OK;
}

Status autodiff(Graph *g, Arena *scratch, ValueId loss, int n_wrt, const ValueId *wrt, ValueId *grads)
{
    Walk w = { .g = g, .scratch = scratch, .n_value = g->n_value };
    uint32_t n_forward = g->n_node;

    if (shape_numel(value(g, loss)->shape) != 1 || !differentiable(g, loss))
        return FAIL(E_SHAPE, "the loss '%s' is not a float scalar", value(g, loss)->name);
    w.wants = ARENA_NEW(scratch, bool, w.n_value);
    w.grad = ARENA_NEW(scratch, ValueId, w.n_value);
    if (!w.wants || !w.grad)
        return FAIL_NOMEM();
    for (int i = 0; i < n_wrt; i++)
        w.wants[wrt[i].i] = true;
    mark_wanted(&w);
    graph_begin_purpose(g, PHASE_BACKWARD, GRADIENT_OF "the loss");
    if (w.wants[loss.i])
        w.grad[loss.i] = emit_full(g, value(g, loss)->dtype, value(g, loss)->shape, 1);
    for (uint32_t i = n_forward; i-- > 0;)
        if (g->node[i]->op)
            TRY(visit(&w, g->node[i]));
    TRY(problems_fail(&w.missing, E_UNSUPPORTED,
                      "no gradient is known for %d operator%s between the loss and the parameters", w.missing.n,
                      w.missing.n == 1 ? "" : "s"));
    for (int i = 0; i < n_wrt; i++)
        grads[i] = w.grad[wrt[i].i];
    return graph_sort(g); /* what an embedder's gradient wrote may have been lowered where it stands */
}

/* ---- the pass ---- */

static int collect_trainable(const Graph *g, ValueId *list)
{
    int n = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && g->value[i]->trainable)
            list[n++] = (ValueId){ i };
    return n;
}

static int loss_of(const Graph *g, const BuildOptions *opt, ValueId param)
{
    return update_group_loss(opt, update_group_of(opt, value(g, param)->name));
}

/* What is differentiated for the groups of loss k (passes/update_groups.h). */
static Status find_loss(ValueId *out, Graph *g, const BuildOptions *opt, int k)
{
    const char *sum = opt->mode == BUILD_TRAIN ? OUT_LOSS : OUT_LOSS_SUM, *name;

    if (!k) {
        *out = graph_output(g, OUT_SCALED_LOSS);
        *out = has_value(*out) ? *out : graph_output(g, sum);
        return has_value(*out) ? ST_OK : FAIL(E_INVALID, "training needs a loss: give --loss");
    }
    if (!(name = arena_printf(g->arena, OUT_OWN_LOSS_PREFIX "%s", opt->group[k - 1].loss)))
        return FAIL_NOMEM();
    *out = graph_output(g, name);
    graph_remove_output(g, name);
    return has_value(*out) ? ST_OK : FAIL(E_INTERNAL, "there is no output '%s'", name);
}

static Status no_gradient(const BuildOptions *opt, int k, int n)
{
    if (k)
        return FAIL(E_INVALID, "--group '%s': the loss '%s' depends on none of the %d parameters that it is to train",
                    opt->group[k - 1].pattern, opt->group[k - 1].loss, n);
    return FAIL(E_INVALID, "nothing to train: the loss depends on none of the %d trainable parameters", n);
}

/* Gradients of loss k by those of the parameters whose loss it is; of others nothing changes. */
static Status differentiate(Graph *g, PassCtx *ctx, int k, int n, const ValueId *param, ValueId *grad)
{
    ValueId *wrt = ARENA_NEW(ctx->scratch, ValueId, n + 1), *found = ARENA_NEW(ctx->scratch, ValueId, n + 1), loss;
    int m = 0, n_found = 0;

    if (!wrt || !found)
        return FAIL_NOMEM();
    TRY(find_loss(&loss, g, ctx->opt, k));
    for (int i = 0; i < n; i++)
        if (loss_of(g, ctx->opt, param[i]) == k)
            wrt[m++] = param[i];
    if (!m && n) /* all are in groups; or those of this group, which add-optimizer tells */
        return ST_OK;
    TRY(autodiff(g, ctx->scratch, loss, m, wrt, found));
    for (int i = 0, at = 0; i < n; i++) {
        if (loss_of(g, ctx->opt, param[i]) != k)
            continue;
        grad[i] = found[at++];
        n_found += has_value(grad[i]);
        if (!has_value(grad[i]))
            TRY(report_unreached(ctx->report, g, param[i], k ? ctx->opt->group[k - 1].loss : NULL));
    }
    return n_found ? ST_OK : no_gradient(ctx->opt, k, m);
}

static Status run(Graph *g, PassCtx *ctx)
{
    ValueId *param = ARENA_NEW(ctx->scratch, ValueId, g->n_value), *grad;
    const int n = param ? collect_trainable(g, param) : 0;

    if (follows_file(ctx->opt))
        return ST_OK;
    if (!param || !(grad = ARENA_NEW(ctx->scratch, ValueId, n + 1)))
        return FAIL_NOMEM();
    for (int k = 0; k <= ctx->opt->n_group; k++)
        if (update_group_loss(ctx->opt, k) == k)
            TRY(differentiate(g, ctx, k, n, param, grad));
    graph_remove_output(g, OUT_SCALED_LOSS);
    for (int i = 0; i < n; i++) {
        const char *name = arena_printf(g->arena, OUT_GRAD_PREFIX "%s", value(g, param[i])->name);

        if (!name)
            return FAIL_NOMEM();
        if (has_value(grad[i]))
            graph_add_output(g, name, grad[i]);
        ctx->n_changed += has_value(grad[i]);
    }
    return g->status;
}

const Pass pass_autodiff = { .name = "autodiff",
                             .summary = "append the gradients of the loss by every trainable parameter",
                             .modes = MODES_TRAIN,
                             .run = run };
