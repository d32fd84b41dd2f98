/* Branches that data decide: their nodes are read into the graph as they stand, and what enters them goes through nodes
 * that keep a branch that is not taken from failing and from having a part in any gradient (graph/ops/branch.c).
 *
 * What enters is what was there before, and float constants of the branch's own, which may be parameters.  Constant
 * integers and settings say what the nodes are, and shapes are the same either way: these enter as they are. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/branch.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/onnx/importer.h"

ValueId branch_condition(Importer *im, ValueId number, ValueId and)
{
    Graph *g = im->g;
    ValueId c = import_emit(g, &op_Reshape, NULL, 2, (ValueId[]){ number, emit_ints(g, 0, NULL) });

    return has_value(and) ? import_emit(g, &op_And, NULL, 2, (ValueId[]){ and, c }) : c;
}

Branch branch_begin(Importer *im, ValueId condition)
{
    return (Branch){ im, condition, im->g->n_value, im->g->n_node };
}

/* ---- what enters ---- */

struct Entering {
    ValueId as;   /* what stands for the value in the branch that is being ended; NO_VALUE between branches */
    bool of_data; /* it depends on data, not on constants and shapes alone */
};

static Status import_branch_make_room(Importer *im)
{
    struct Entering *e = by_value(im, im->entering, sizeof *e, &im->n_entering);

    if (e)
        im->entering = e;
    return e ? ST_OK : FAIL_NOMEM();
}

static bool of_data(const Importer *im, ValueId v)
{
    return value(im->g, v)->kind == V_INPUT || im->entering[v.i].of_data;
}

/* Of what the nodes make that were read since the last call. */
static void trace(Importer *im)
{
    for (; im->n_traced < im->g->n_node; im->n_traced++) {
        const Node *n = im->g->node[im->n_traced];
        bool any = n->op && op_is_unlike(n->op);

        for (int i = 0; n->op && !any && !(n->op->flags & OPF_SHAPE_ONLY) && i < n->n_in; i++)
            any = has_value(n->in[i]) && of_data(im, n->in[i]);
        for (int o = 0; o < n->n_out; o++)
            im->entering[n->out[o].i].of_data |= any;
    }
}

static bool enters(const Branch *b, const Node *n, int i)
{
    const Value *v;

    if (!has_value(n->in[i]) || n->op->flags & OPF_SHAPE_ONLY ||
        (i < 8 && (n->op->setting_in | n->op->tunable_in) >> i & 1))
        return false;
    v = value(b->im->g, n->in[i]);
    return v->kind == V_CONST ? dtype_is_float(v->dtype) : n->in[i].i < b->value;
}

static ValueId enter(const Branch *b, ValueId x)
{
    static const int64_t zero = 0;
    Graph *g = b->im->g;
    Shape scalar = shape_scalar();
    ValueId none;

    if (!of_data(b->im, x))
        return import_emit(g, &op_Gate, NULL, 2, (ValueId[]){ x, b->condition });
    none = graph_add_const(g, "none", &(Tensor){ DT_INT64, scalar, (void *)(uintptr_t)&zero });
    none = import_emit(g, &op_CastLike, NULL, 2, (ValueId[]){ none, x });
    return import_emit(g, &op_Enter, NULL, 3, (ValueId[]){ b->condition, x, none });
}

/* What the nodes of the branch read of what enters it; `entered` gets it, as many as they are. */
static Status lead_in(const Branch *b, uint32_t end, ValueId *entered, size_t *n_entered)
{
    Graph *g = b->im->g;

    for (uint32_t k = b->node; k < end; k++) {
        Node *n = g->node[k];

        for (int i = 0; n->op && i < n->n_in; i++) {
            struct Entering *x = &b->im->entering[n->in[i].i];

            if (!enters(b, n, i))
                continue;
            if (!has_value(x->as)) {
                entered[(*n_entered)++] = n->in[i];
                x->as = enter(b, n->in[i]);
            }
            TRY(g->status);
            node_set_input(g, n, i, x->as);
        }
    }
    return ST_OK;
}

Status branch_end(const Branch *b)
{
    Importer *im = b->im;
    const uint32_t end = im->g->n_node;
    ValueId *entered;
    size_t n = 0, reads = 0;

    TRY(im->g->status);
    TRY(import_branch_make_room(im));
    trace(im);
    for (uint32_t k = b->node; k < end; k++)
        reads += (size_t)im->g->node[k]->n_in;
    if (!(entered = ARENA_NEW(im->scratch, ValueId, reads)))
        return FAIL_NOMEM();
    TRY(lead_in(b, end, entered, &n));
    TRY(import_branch_make_room(im));
    for (size_t i = 0; i < n; i++) {
        struct Entering *x = &im->entering[entered[i].i];

        im->entering[x->as.i].of_data = of_data(im, entered[i]);
        x->as = NO_VALUE;
    }
    im->n_traced = im->g->n_node;
    return spend_nodes(im, im->g->n_node - end);
}

/* ---- what leaves ---- */

static Status tensor_of(ValueId *out, const ScopeEntry *e)
{
    if (e->problem)
        return FAIL(E_UNSUPPORTED, "data decide what it is, and in a branch %s", e->problem);
    *out = e->value;
    return ST_OK;
}

Status branch_choose(ScopeEntry *e, Importer *im, ValueId condition, const ScopeEntry *other, const char *node,
                     const char *output)
{
    ValueId x, y;
    Node *n;

    TRY(tensor_of(&x, e));
    TRY(tensor_of(&y, other));
    if (value_eq(x, y))
        return ST_OK;
    TRY(spend_nodes(im, 1));
    if (!(n = graph_add_node(im->g, &op_Choose, node, NULL, 3, (ValueId[]){ condition, x, y }, 1,
                             output ? &output : NULL)))
        return im->g->status;
    *e = (ScopeEntry){ .name = e->name, .value = n->out[0], .node = -1 };
    return node_normalise(im->g, n);
}
