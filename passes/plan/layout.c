/* layout: stores the values of convolutions and of the nodes around them in the target's order.
 *
 * A layout is the order of a value's elements in memory; no operator's meaning depends on it, so no shape, attribute or
 * gradient changes, and the interpreter, which stores everything by rows, computes the same.  A convolution takes the
 * first of the layouts that the target prefers for it (graph/ir/target.h); an operator of any layout takes its data's
 * or, if that has no order, the next convolution's; all others take rows.  A Reorder node makes a value in the other
 * order, once for all readers.  State keeps the layout that passes/plan/layout_weights.c gave it.  Inputs and outputs
 * of the graph are stored by rows.
 *
 * The pass runs after place_host: the device must have a kernel for the node in that layout, or the node stays with
 * rows.  If only one of channels and positions has more than one element, both orders are the same and count as rows.
 */
#include "passes/plan/layout.h"

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ops/view.gen.h"
#include "passes/options/replicas.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    ValueId *other; /* by value: it in another layout, once needed */
    Layout *wanted; /* by value: the layout that its readers want */
    uint32_t n_value;
} Layouts;

/* ---- the device's layouts ---- */

static Layout suited(const Value *v, Layout to) { return layout_suits(to, v->shape) ? to : LAYOUT_ROWS; }

/* The layout of input (output) i: the filter's if bit i of `filters` is set, otherwise the data's. */
static Layout role(NodeLayouts to, unsigned filters, int i) { return i < 8 && filters >> i & 1 ? to.filter : to.data; }

static void set_layouts(Graph *g, const ValueId *v, int n, unsigned filters, NodeLayouts to)
{
    for (int i = 0; i < n; i++)
        if (has_value(v[i]))
            value(g, v[i])->layout = suited(value(g, v[i]), role(to, filters, i));
}

static void keep_layouts(Graph *g, const ValueId *v, int n, Layout *kept)
{
    for (int i = 0; i < n; i++)
        kept[i] = has_value(v[i]) ? value(g, v[i])->layout : LAYOUT_ROWS;
}

static void put_back(Graph *g, const ValueId *v, int n, const Layout *kept)
{
    for (int i = 0; i < n; i++)
        if (has_value(v[i]))
            value(g, v[i])->layout = kept[i];
}

bool layout_computes(Graph *g, const Node *n, NodeLayouts to, const PassCtx *ctx)
{
    Layout *kept;
    bool yes;

    if (n->op->flags & OPF_COLLECTIVE || !build_target(ctx->opt)->computes)
        return true;
    if (!(kept = ARENA_NEW(ctx->scratch, Layout, n->n_in + n->n_out + 1))) {
        graph_fail_nomem(g);
        return false;
    }
    keep_layouts(g, n->in, n->n_in, kept);
    keep_layouts(g, n->out, n->n_out, kept + n->n_in);
    set_layouts(g, n->in, n->n_in, n->op->filter_in, to);
    set_layouts(g, n->out, n->n_out, n->op->filter_out, to);
    yes = target_computes(build_target(ctx->opt), g, n);
    put_back(g, n->in, n->n_in, kept);
    put_back(g, n->out, n->n_out, kept + n->n_in);
    return yes;
}

/* The first of the target's preferred layouts for the node in which it computes the node; rows if there is none. */
static NodeLayouts layout_preferred(Graph *g, const Node *n, const PassCtx *ctx)
{
    NodeLayouts list[TARGET_LAYOUTS];
    const int count = n->op->layout == LAYOUT_LIKES ? target_layouts(build_target(ctx->opt), g, n, list) : 0;

    for (int i = 0; i < count; i++)
        if (layout_computes(g, n, list[i], ctx))
            return list[i];
    return (NodeLayouts){ LAYOUT_ROWS, LAYOUT_ROWS };
}

/* ---- the forms of a value ---- */

static ValueId reordered(Layouts *l, ValueId v, Layout to)
{
    Graph *g = l->g;
    const Value *of = value(g, v);
    const char *name = arena_printf(g->arena, "%s@%s", of->name, layout_name(to));
    Node *n;

    if (!name ||
        !(n = graph_add_node(g, &op_Reorder, value_logical_name(of), ATTRS(INT("layout", to)), 1, &v, 1, &name))) {
        graph_fail_nomem(g);
        return v;
    }
    n->device = of->producer ? of->producer->device : of->device;
    n->replica = of->producer ? of->producer->replica : of->replica;
    value(g, n->out[0])->device = n->device;
    value(g, n->out[0])->replica = n->replica;
    value(g, n->out[0])->logical = value_logical_name(of);
    if (!(g->status = node_normalise(g, n)))
        g->status = node_infer(g, n);
    l->ctx->n_changed++;
    return n->out[0];
}

static ValueId form(Layouts *l, ValueId v, Layout want)
{
    const Value *x = value(l->g, v);

    want = suited(x, want);
    if (x->layout == want)
        return v;
    if (v.i >= l->n_value)
        return reordered(l, v, want);
    if (!has_value(l->other[v.i]) || value(l->g, l->other[v.i])->layout != want)
        l->other[v.i] = reordered(l, v, want);
    return l->other[v.i];
}

/* ---- nodes ---- */

static bool on_host(const Layouts *l, const Node *n)
{
    const ReplicaOptions *replicas = replica_options(l->ctx->opt);

    return replicas->devices && n->device >= replicas->devices;
}

/* The layout that readers of n's outputs want. */
static Layout wanted_of(const Layouts *l, const Node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (has_out(n, o) && l->wanted[n->out[o].i] != LAYOUT_ROWS)
            return l->wanted[n->out[o].i];
    return LAYOUT_ROWS;
}

/* Finds, from the end, the layouts that convolutions want, and passes them up through operators of any layout. */
static void find_wanted(Layouts *l, uint32_t n_node)
{
    Graph *g = l->g;

    for (uint32_t i = n_node; i-- > 0;) {
        const Node *n = g->node[i];
        NodeLayouts want = { LAYOUT_ROWS, LAYOUT_ROWS };

        if (!n->op || on_host(l, n))
            continue;
        if (n->op->layout == LAYOUT_LIKES)
            want = layout_preferred(g, n, l->ctx);
        else if (op_any_layout(n->op))
            want.data = want.filter = wanted_of(l, n);
        for (int k = 0; k < n->n_in; k++)
            if (has_in(n, k) && role(want, n->op->filter_in, k) != LAYOUT_ROWS)
                l->wanted[n->in[k].i] = role(want, n->op->filter_in, k);
    }
}

/* May n take another layout?  A view's elements stay in place, so it may only divide positions otherwise. */
static bool may_change(const Graph *g, const Node *n)
{
    const Shape *x, *y;

    if (!(n->op->flags & OPF_VIEW))
        return op_any_layout(n->op);
    x = in_value(g, n, 0)->shape;
    y = value(g, n->out[0])->shape;
    return op_any_layout(n->op) && x->rank >= 3 && y->rank >= 3 && x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1];
}

/* The layout of an operator of any layout: its data's or, if no input has an order yet, the one wanted of its result.
 */
static Layout inherited_layout(const Layouts *l, const Node *n)
{
    const Layout wanted = wanted_of(l, n);
    bool ordered = false;

    for (int i = 0; i < n->n_in; i++) {
        const Value *x = has_in(n, i) ? in_value(l->g, n, i) : NULL;

        if (x && x->layout != LAYOUT_ROWS)
            return x->layout;
        ordered |= x && layout_suits(wanted, x->shape);
    }
    return ordered ? LAYOUT_ROWS : wanted;
}

/* The layouts of the node's values. */
static NodeLayouts layout_chosen(Layouts *l, const Node *n)
{
    NodeLayouts any;

    if (on_host(l, n) || (n->op->layout != LAYOUT_LIKES && !may_change(l->g, n)))
        return (NodeLayouts){ LAYOUT_ROWS, LAYOUT_ROWS };
    if (n->op->layout == LAYOUT_LIKES)
        return layout_preferred(l->g, n, l->ctx);
    any.data = any.filter = inherited_layout(l, n);
    if (any.data != LAYOUT_ROWS && !layout_computes(l->g, n, any, l->ctx))
        any.data = any.filter = LAYOUT_ROWS;
    return any;
}

/* Inputs in groups of `parts` and outputs in groups of `copies`: each group has the layout of its first input. */
static void group_layouts(Layouts *l, Node *n, int parts, int copies)
{
    for (int t = 0; t * parts < n->n_in; t++) {
        Layout of = in_value(l->g, n, t * parts)->layout;

        for (int i = t * parts; i < (t + 1) * parts; i++)
            n->in[i] = form(l, n->in[i], of);
        set_layouts(l->g, n->out + t * copies, copies, 0, (NodeLayouts){ of, of });
    }
}

static Status layout_visit(Layouts *l, Node *n)
{
    const Exchange e = exchange_of(n);
    NodeLayouts want;

    if (exchange_reduces(&e))
        group_layouts(l, n, e.parts, e.copies);
    if (n->op->layout == LAYOUT_EACH && !on_host(l, n))
        return l->g->status;
    want = layout_chosen(l, n);
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i))
            n->in[i] = form(l, n->in[i], role(want, n->op->filter_in, i));
    set_layouts(l->g, n->out, n->n_out, n->op->filter_out, want);
    return l->g->status;
}

static void connect_ends(Layouts *l)
{
    Graph *g = l->g;

    for (int i = 0; i < g->n_output; i++)
        g->output[i].value = form(l, g->output[i].value, LAYOUT_ROWS);
    for (int i = 0; i < g->n_update; i++)
        g->update[i].next = form(l, g->update[i].next, value(g, g->update[i].state)->layout);
}

static Status layout_run(Graph *g, PassCtx *ctx)
{
    Layouts l = { .g = g, .ctx = ctx, .n_value = g->n_value };
    uint32_t n_node = g->n_node;

    if (!build_target(ctx->opt)->layouts)
        return ST_OK;
    l.other = ARENA_NEW(ctx->scratch, ValueId, g->n_value);
    l.wanted = ARENA_NEW(ctx->scratch, Layout, g->n_value);
    if (!l.other || !l.wanted)
        return FAIL_NOMEM();
    find_wanted(&l, n_node);
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op)
            TRY(layout_visit(&l, g->node[i]));
    connect_ends(&l);
    TRY(g->status);
    return graph_sort(g);
}

const Pass pass_layout = { .name = "layout", .summary = "store values as convolutions want them", .run = layout_run };
