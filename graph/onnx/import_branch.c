/* Branches whose condition depends on data: both are read into the graph and computed.  Values that enter a branch go
 * through Gate and Enter nodes (graph/ops/branch.c), which keep a branch that is not taken from failing and from adding
 * to any gradient.
 *
 * Values made before the branch enter it, and so do float constants of the branch itself, which may be parameters.
 * Integer constants and settings define the nodes, and shapes do not depend on the condition: these need no Gate. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/onnx/importer.h"
#include "graph/ops/branch.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/view.gen.h"

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

/* ---- values that enter ---- */

struct Entering {
    ValueId gated; /* replaces the value in the branch that is being ended; NO_VALUE between branches */
    bool of_data;  /* it depends on data, not on constants and shapes alone */
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

/* Must input i of n, a node of the branch, go through a Gate or Enter node? */
static bool enters(const Branch *b, const Node *n, int i)
{
    const Value *v;

    if (!has_value(n->in[i]) || n->op->flags & OPF_SHAPE_ONLY ||
        (i < 8 && (n->op->setting_in | n->op->tunable_in) >> i & 1))
        return false;
    v = value(b->im->g, n->in[i]);
    return v->kind == V_CONST ? dtype_is_float(v->dtype) : n->in[i].i < b->value;
}

/* Emits Gate(x, condition) for x that depends on constants alone, otherwise Enter(condition, x, 0 of x's type). */
static ValueId emit_gate(const Branch *b, ValueId x)
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

/* Gates the inputs of the branch's nodes, which end before `end`.  `entered` lists the values, each once. */
static Status gate_inputs(const Branch *b, uint32_t end, ValueId *entered, size_t *n_entered)
{
    Graph *g = b->im->g;

    for (uint32_t k = b->node; k < end; k++) {
        Node *n = g->node[k];

        for (int i = 0; n->op && i < n->n_in; i++) {
            struct Entering *x = &b->im->entering[n->in[i].i];

            if (!enters(b, n, i))
                continue;
            if (!has_value(x->gated)) {
                entered[(*n_entered)++] = n->in[i];
                x->gated = emit_gate(b, n->in[i]);
            }
            TRY(g->status);
            node_set_input(g, n, i, x->gated);
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
    for (; im->n_traced < end; im->n_traced++) { /* of_data of the values made since the last branch */
        const Node *made = im->g->node[im->n_traced];
        bool any = made->op && op_is_impure(made->op);

        for (int i = 0; made->op && !any && !(made->op->flags & OPF_SHAPE_ONLY) && i < made->n_in; i++)
            any = has_value(made->in[i]) && of_data(im, made->in[i]);
        for (int o = 0; o < made->n_out; o++)
            im->entering[made->out[o].i].of_data |= any;
    }
    for (uint32_t k = b->node; k < end; k++)
        reads += (size_t)im->g->node[k]->n_in;
    if (!(entered = ARENA_NEW(im->scratch, ValueId, reads)))
        return FAIL_NOMEM();
    TRY(gate_inputs(b, end, entered, &n));
    TRY(import_branch_make_room(im));
    for (size_t i = 0; i < n; i++) {
        struct Entering *x = &im->entering[entered[i].i];

        im->entering[x->gated.i].of_data = of_data(im, entered[i]);
        x->gated = NO_VALUE;
    }
    im->n_traced = im->g->n_node;
    return spend_nodes(im, im->g->n_node - end);
}

/* ---- values that leave ---- */

static Status tensor_of(ValueId *out, const ScopeEntry *e)
{
    if (e->problem)
        return FAIL(E_UNSUPPORTED, "it depends on the branch that is taken, and in one branch %s", e->problem);
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
