/* Helpers for OpDef.import and OpDef.respell, which convert between the spellings of opsets. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/view.gen.h"

ValueId import_emit(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in)
{
    Node *n = graph_add_node(g, op, NULL, attrs, n_in, in, 1, NULL);

    if (n && !(g->status = node_normalise(g, n)))
        return n->out[0];
    return NO_VALUE;
}

static ValueId ints_const(Graph *g, int n, const int64_t *v)
{
    Shape s = SHAPE(n);

    return graph_add_const(g, "const", &(Tensor){ DT_INT64, s, (void *)v });
}

/* Reshapes y to its own dimensions and a 1 for each later dimension of x, by arithmetic on shapes, since x's shape is
 * not known yet. */
ValueId import_aligned(Graph *g, ValueId x, ValueId y, int64_t axis)
{
    static const int64_t one = 1, all = INT32_MAX;
    ValueId of_x = import_emit(g, &op_Shape, NULL, 1, &x), of_y = import_emit(g, &op_Shape, NULL, 1, &y), rest, ones,
            whole;
    ValueId behind = import_emit(g, &op_Shape, NULL, 1, &of_y);

    behind = import_emit(g, &op_Add, NULL, 2, (ValueId[]){ behind, ints_const(g, 1, &axis) });
    if (axis < 0)
        behind = import_emit(g, &op_Add, NULL, 2, (ValueId[]){ behind, import_emit(g, &op_Shape, NULL, 1, &of_x) });
    rest = import_emit(g, &op_Slice, NULL, 3, (ValueId[]){ of_x, behind, ints_const(g, 1, &all) });
    rest = import_emit(g, &op_Shape, NULL, 1, &rest);
    ones = import_emit(g, &op_Expand, NULL, 2, (ValueId[]){ ints_const(g, 1, &one), rest });
    whole = import_emit(g, &op_Concat, ATTRS(INT("axis", 0)), 2, (ValueId[]){ of_y, ones });
    return import_emit(g, &op_Reshape, NULL, 2, (ValueId[]){ y, whole });
}

Status import_broadcast(Graph *g, Node *n, int opset)
{
    const Attr *axis = node_attr(n, "axis"), *broadcast = node_attr(n, "broadcast");
    int64_t at = axis ? axis->i : 0;
    bool aligned = axis && axis->type == A_INT && broadcast && broadcast->type == A_INT && broadcast->i;

    if (opset >= 7)
        return ST_OK;
    node_remove_attr(g, n, "axis");
    node_remove_attr(g, n, "broadcast");
    if (aligned && (at < -MAX_RANK || at >= MAX_RANK))
        return FAIL(E_MODEL, "%s: axis %lld, expected -8 to 7", node_text(g, n), (long long)at);
    if (aligned && has_in(n, 0) && has_in(n, 1))
        node_set_input(g, n, 1, import_aligned(g, n->in[0], n->in[1], at));
    return g->status;
}

Status import_attr_to_input(Graph *g, Node *n, const char *name, int i)
{
    const Attr *a = node_attr(n, name);
    Tensor t = { .dtype = DT_INT64 };
    const char *label;

    if (!a)
        return ST_OK;
    if (a->type != A_INT && a->type != A_INTS)
        return FAIL(E_MODEL, "%s: attribute '%s' must be a list of integers", node_text(g, n), name);
    t.shape = SHAPE(a->type == A_INTS ? a->n : 1);
    t.data = (void *)(uintptr_t)(a->type == A_INTS ? a->ints : &a->i);
    if (!(label = arena_printf(g->arena, "%s.%s", n->name, name)))
        return FAIL_NOMEM();
    node_set_input(g, n, i, graph_add_const(g, label, &t));
    node_remove_attr(g, n, name);
    return g->status;
}

/* ---- for respell functions ---- */

bool respell_without(Graph *g, Node *n, const char *name)
{
    const Attr *a = node_attr(n, name);
    const AttrDecl *d = op_attr_decl(n->op, name);

    if (a && !(d && attr_is_default(d, a)))
        return false;
    if (a)
        node_remove_attr(g, n, name);
    return true;
}

static void drop_input(Node *n, int i)
{
    if (i >= n->n_in)
        return;
    n->in[i] = NO_VALUE;
    while (n->n_in && !has_value(n->in[n->n_in - 1]))
        n->n_in--;
}

bool respell_input_to_attr(Graph *g, Node *n, int i, const char *name)
{
    const Tensor *t = in_const(g, n, i);
    int64_t *v;

    if (!has_in(n, i))
        return true;
    if (!t || (t->dtype != DT_INT64 && t->dtype != DT_INT32) ||
        !(v = ARENA_NEW(g->arena, int64_t, (size_t)tensor_numel(t))))
        return false;
    for (int64_t k = 0; k < tensor_numel(t); k++)
        v[k] = tensor_int(t, k);
    node_set_ints(g, n, name, (int)tensor_numel(t), v);
    drop_input(n, i);
    return !g->status;
}

bool respell_input_to_float(Graph *g, Node *n, int i, const char *name)
{
    double v;

    if (!has_in(n, i))
        return true;
    if (!value_const_number(g, n->in[i], &v))
        return false;
    node_set_attr(g, n, &(Attr)FLOAT(name, v));
    drop_input(n, i);
    return !g->status;
}
