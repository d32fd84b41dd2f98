/* layout: convolutions and what surrounds them on values stored channels last.
 *
 * A layout is the order of a value's elements in memory; no operator's meaning depends on it, so no shape, attribute or
 * gradient changes, and the interpreter, which stores everything by rows, computes the same.  A convolution asks for channels
 * last, an operator of any layout takes what its data has, all others take rows; where a value is wanted in the other order a
 * Reorder node makes it, once for all readers.  State keeps the layout that passes/layout_weights.c gave it.  What enters and
 * leaves the graph is stored by rows.
 *
 * After place_host: the device must have a kernel for the node in that layout, or the node stays with rows.  Where only one
 * of channels and positions has more than one element, both orders are the same and count as rows. */
#include "passes/layout.h"

#include "graph/op.h"
#include "passes/plan_memory.h"

typedef struct {
    Graph *g;
    const BuildOptions *opt;
    ValueId *other;             /* by value: the same in the other layout, once somebody needs it */
    uint32_t n_value;
    int n_changed;
} Layouts;

bool layout_matters(const Shape *s)
{
    return s->rank >= 3 && s->dim[1] > 1 && shape_count(s, 2, s->rank) > 1;
}

/* ---- the two forms of a value ---- */

static ValueId reordered(Layouts *l, ValueId v, Layout to)
{
    Graph *g = l->g;
    const Value *of = value(g, v);
    const char *name = arena_printf(g->arena, "%s@%s", of->name, to == LAYOUT_ROWS ? "rows" : "channels_last");
    Node *n;

    if (!name || !(n = graph_add_node(g, &op_Reorder, value_logical_name(of), ATTRS(INT("layout", to)), 1, &v, 1, &name))) {
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
    l->n_changed++;
    return n->out[0];
}

static ValueId form(Layouts *l, ValueId v, Layout want)
{
    const Value *x = value(l->g, v);

    if (x->layout == want || !layout_matters(&x->shape))
        return v;
    if (v.i >= l->n_value)
        return reordered(l, v, want);
    if (!has_value(l->other[v.i]))
        l->other[v.i] = reordered(l, v, want);
    return l->other[v.i];
}

/* ---- nodes ---- */

static bool asks(const Layouts *l, const Node *n)
{
    if (n->device >= l->opt->devices && l->opt->devices)        /* on the host's side */
        return false;
    for (int i = 0; i < n->n_in && n->op->layout == LAYOUT_ANY; i++)
        if (has_in(n, i) && in_value(l->g, n, i)->layout == LAYOUT_CHANNELS_LAST)
            return true;
    return n->op->layout == LAYOUT_LIKES;
}

static void set_layouts(Graph *g, const ValueId *v, int n, Layout to)
{
    for (int i = 0; i < n; i++)
        if (has_value(v[i]) && layout_matters(&value(g, v[i])->shape))
            value(g, v[i])->layout = to;
}

/* Has the device a kernel for the node with everything stored channels last?  The layouts of its inputs are put back. */
static bool computes_last(const Layouts *l, const Node *n)
{
    Graph *g = l->g;
    uint64_t last = 0;
    bool yes;

    if (n->n_in > 64)
        return n->op->flags & OPF_COLLECTIVE;
    for (int i = 0; i < n->n_in; i++)
        last |= (uint64_t)(has_in(n, i) && in_value(g, n, i)->layout == LAYOUT_CHANNELS_LAST) << i;
    set_layouts(g, n->in, n->n_in, LAYOUT_CHANNELS_LAST);
    set_layouts(g, n->out, n->n_out, LAYOUT_CHANNELS_LAST);
    yes = n->op->flags & OPF_COLLECTIVE || !l->opt->computes || l->opt->computes(g, n);
    set_layouts(g, n->out, n->n_out, LAYOUT_ROWS);
    for (int i = n->n_in - 1; i >= 0; i--)                      /* backwards: of an input that comes twice the first bit holds */
        if (has_in(n, i))
            value(g, n->in[i])->layout = last >> i & 1 ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS;
    return yes;
}

static Status visit(Layouts *l, Node *n)
{
    Layout want = asks(l, n) && computes_last(l, n) ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS;

    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i))
            n->in[i] = form(l, n->in[i], want);
    set_layouts(l->g, n->out, n->n_out, want);
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

static Status run(Graph *g, PassCtx *ctx)
{
    Layouts l = { .g = g, .opt = ctx->opt, .n_value = g->n_value };
    uint32_t n_node = g->n_node;

    if (!ctx->opt->channels_last)
        return ST_OK;
    if (!(l.other = ARENA_NEW(ctx->scratch, ValueId, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op)
            TRY(visit(&l, g->node[i]));
    connect_ends(&l);
    TRY(g->status);
    ctx->n_changed += l.n_changed;
    return graph_sort(g);
}

const Pass pass_layout = { .name = "layout", .summary = "store values channels last where convolutions want them so", .run = run };
